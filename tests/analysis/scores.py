"""What must hold of float normal forms and of the rewritten score.

As in `properties`, each `check_*` draws one example and raises where the property fails.
"""

from __future__ import annotations

from random import Random

import numpy as np
from grammar import BETA, CAP, KV, B, Grammar, H, Q, table
from scene import Scene, draw_scene, variant_of

from fagen.analysis.axes import axes_of
from fagen.analysis.evaluate import evaluate
from fagen.analysis.products import canonical, fadd, fmul, fold, product_of, sum_terms
from fagen.analysis.ranges import declared_ranges
from fagen.analysis.rewrites import in_terms_of_qk, tile_score
from fagen.spec.expr import LOG2E, Expr, const, make, names_in
from fagen.spec.variant import SCORE

# Float products and sums


def check_products(rng: Random) -> None:
    """Normal forms keep the value; what is split off as fixed is free of positions."""
    scene, g = draw_scene(rng), Grammar(rng)
    node, other = in_terms_of_qk(g.score(rng.randint(1, 4))), g.real(2)
    names = score_names(rng, scene)
    expected, beside = real(node, names, scene), real(other, names, scene)
    near(real(canonical(node), names, scene), expected)
    near(sum(real(t.expression(), names, scene) for t in sum_terms(node)), expected)
    for form in (product_of(node), *sum_terms(node)):
        whole = real(form.expression(), names, scene)
        fixed, moving = form.split()
        assert not axes_of(*(b for b, _ in fixed.powers)) & {"q", "kv"}
        near(
            real(fixed.expression(), names, scene) * real(moving.expression(), names, scene),
            whole,
        )
        if fixed.coefficient and np.all(whole != 0.0):
            near(real(form.times(form.inverse()).expression(), names, scene), np.float64(1.0))
    near(real(product_of(node).expression(), names, scene), expected)
    near(real(fmul(node, other), names, scene), expected * beside)
    near(real(fadd(node, other), names, scene), expected + beside)
    for constant in (0.0, 1.0, -1.0):
        near(real(fmul(const(constant), other), names, scene), constant * beside)
        near(real(fadd(other, const(constant)), names, scene), beside + constant)
        near(real(fold(make("sub", const(constant), other)), names, scene), constant - beside)


def score_names(rng: Random, scene: Scene) -> dict:
    """All names of a tile: the raw product of every pair, a scale, an origin, both positions."""
    values = np.random.default_rng(rng.getrandbits(32))
    qk = values.normal(0.0, 3.0, (len(scene.q_idx), len(scene.kv_idx)))
    # Whole numbers among them meet the kinks of min, max, abs and clamp.
    qk = np.where(values.random(qk.shape) < 0.3, np.round(qk) + 0.0, qk)
    scale = rng.choice([0.125, 0.5, 1.0])
    return {
        **scene.names, "qk": qk, "scale": scale, "score": qk * scale,
        "origin": rng.randint(-60, 60), "q_idx": scene.q_idx[:, None],
        "kv_idx": scene.kv_idx[None, :],
    }  # fmt: skip


def real(node: Expr, names: dict, scene: Scene) -> np.ndarray:
    value = np.asarray(evaluate(node, names, scene.tensors), np.float64)
    return np.broadcast_to(value, np.shape(names["qk"]))


def near(found: np.ndarray, expected: np.ndarray, scale: float = 1.0) -> None:
    # What cancels leaves the rounding of its largest part; the drawn values stay below 1e9.
    known = np.isfinite(expected) & np.isfinite(found)
    assert (np.isfinite(found) == np.isfinite(expected)).all(), (found, expected)
    size = max(1.0, float(np.abs(np.where(known, expected, 0.0)).max(initial=0.0))) * scale
    worst = np.abs(np.where(known, found - expected, 0.0)).max(initial=0.0)
    assert worst <= 1e-9 * size, f"off by {worst} of {size}"


# Scores


def check_score(rng: Random) -> None:
    """post_scale * score + log2(e) * row_term is log2(e) times the variant's score."""
    scene, score = draw_scene(rng), Grammar(rng).score(rng.randint(1, 4))
    hold_score(score, scene, rng)


def hold_score(score: Expr, scene: Scene, rng: Random) -> None:
    variant = variant_of(score=score)
    tile = tile_score(variant, declared_ranges(variant))
    names = score_names(rng, scene)
    expected = LOG2E * real(score, names, scene)
    post = real(tile.post_scale, names, scene)
    inner, row = real(tile.score, names, scene), real(tile.row_term, names, scene)
    near(post * inner + LOG2E * row, expected, max(1.0, np.abs(row).max(initial=0.0)))
    assert "kv" not in axes_of(tile.row_term), tile.row_term
    assert not axes_of(tile.post_scale) & {"q", "kv"}, tile.post_scale
    assert (post > 0).all(), f"post_scale {tile.post_scale}"
    if not tile.scale_must_be_positive:
        names["scale"] = -names["scale"]
        assert (real(tile.post_scale, names, scene) > 0).all(), f"post_scale {tile.post_scale}"
    assert tile.reads_qk == ("qk" in names_in(tile.score))
    assert "score" not in names_in(tile.score, tile.row_term, tile.post_scale)
    for term in sum_terms(tile.score):
        alone = axes_of(*(b for b, _ in term.powers))
        assert "kv" in alone or not term.powers, f"{term.expression()} belongs to the row"


# Known forms


def known_scores() -> list[tuple[str, Expr, str, str, str]]:
    """(label, score, tile score, post_scale, row term), as texts."""
    distance = make("float", make("sub", Q, KV))
    slope, lift, bias = table("slopes", H), table("lift", Q), table("bias", KV)
    low = const(-1.0)
    scaled = f"{LOG2E!r} * scale"
    return [
        ("plain", SCORE, "qk", scaled, "0.0"),
        ("twice", make("mul", SCORE, const(2.0)), "qk", f"{2 * LOG2E!r} * scale", "0.0"),
        ("over", make("div", SCORE, CAP), "qk", f"{scaled} / cap", "0.0"),
        ("negative", make("mul", SCORE, low), f"qk * ({-LOG2E!r} * scale)", "1.0", "0.0"),
        ("open sign", make("mul", SCORE, BETA), f"qk * ({scaled} * beta)", "1.0", "0.0"),
        (
            "capped", make("mul", CAP, make("tanh", make("div", SCORE, CAP))),
            "tanh(qk * (scale / cap))", f"{LOG2E!r} * cap", "0.0",
        ),
        ("row", make("add", SCORE, lift), "qk", scaled, "lift[q_idx]"),
        ("head", make("sub", SCORE, slope), "qk", scaled, "-1.0 * slopes[h]"),
        (
            "key", make("add", SCORE, bias),
            f"qk * ({scaled}) + saturate(bias[kv_idx]) * {LOG2E!r}", "1.0", "0.0",
        ),
        (
            "distance", make("sub", SCORE, make("mul", CAP, distance)),
            f"qk * ({scaled}) + (origin - kv_idx) * ({-LOG2E!r} * cap)", "1.0",
            "(q_idx - origin) * (-1.0 * cap)",
        ),
        (
            "distance alone", make("mul", distance, const(0.25)),
            "float(origin - kv_idx)", repr(LOG2E * 0.25), "(q_idx - origin) * 0.25",
        ),
        (
            "squared distance", make("mul", distance, distance),
            "float(q_idx - kv_idx) * float(q_idx - kv_idx)", repr(LOG2E), "0.0",
        ),
        (
            "chosen bias",
            make("add", SCORE, make("where", make("lt", KV, Q), bias, const(0.0))),
            f"qk * ({scaled}) + saturate(bias[kv_idx] if kv_idx < q_idx else 0.0) * {LOG2E!r}",
            "1.0", "0.0",
        ),
        (
            "bounded bias", make("add", SCORE, make("clamp", bias, low, const(1.0))),
            f"qk * ({scaled}) + clamp(bias[kv_idx], -1.0, 1.0) * {LOG2E!r}", "1.0", "0.0",
        ),
        (
            "shut row", make("add", SCORE, make("where", make("lt", Q, B), const(-np.inf), low)),
            f"qk * ({scaled}) + (-inf if q_idx < b else -1.0) * {LOG2E!r}", "1.0", "0.0",
        ),
    ]  # fmt: skip


def hold_known_score(label: str, score: Expr, tile: str, post_scale: str, row: str) -> None:
    variant = variant_of(score=score)
    found = tile_score(variant, declared_ranges(variant))
    texts = tuple(map(repr, (found.score, found.post_scale, found.row_term)))
    assert texts == (tile, post_scale, row), f"{label}: {texts}"
    assert found.scale_must_be_positive == ("scale" in post_scale), label


def check_known_scores(rng: Random) -> None:
    for case in known_scores():
        hold_known_score(*case)
