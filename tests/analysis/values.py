"""What must hold of ranges, builders, rewrites and derivatives for any legal expression.

As in `properties`, each `check_*` draws one example and raises where the property fails.
"""

from __future__ import annotations

import math
from random import Random

import numpy as np
from grammar import CAP, PARAMETERS, TENSORS, Grammar
from scene import Scene, draw_scene, variant_of

from fagen.analysis import linear as build
from fagen.analysis.axes import axes_by_node, axes_of
from fagen.analysis.derivative import derivative
from fagen.analysis.evaluate import evaluate
from fagen.analysis.products import canonical, fadd, fmul, product_of, sum_terms
from fagen.analysis.ranges import INT32, WIDENED, declared_ranges, needs_64_bits, ranges
from fagen.analysis.rewrites import in_terms_of_qk, tile_score
from fagen.spec.expr import LOG2E, Expr, const, make, name, names_in, post_order
from fagen.spec.names import INDEX_LIMIT
from fagen.spec.variant import SCORE

DECLARED = declared_ranges(variant_of())
#: Beyond this NumPy's own int64 would wrap, and so would the kernels'.
LARGEST = 2**62


# Ranges


def check_ranges(rng: Random) -> None:
    """Values stay within their range for extreme calls, and what stays in 32 bits fits there."""
    root = Grammar(rng).whole(rng.randint(1, 4))
    names, tensors = _extreme_call(rng)
    if any(n.op in ("shl", "shr") for n in post_order(root)):
        names["h"] = np.minimum(names["h"], 31)  # a longer shift is an error of the call
    hold_ranges(root, names, tensors)


def hold_ranges(root: Expr, names: dict, tensors: dict, declared=DECLARED) -> None:
    bounds = ranges(declared, root)
    if any(n.type == "int" and max(map(abs, r)) > LARGEST for n, r in bounds.items()):
        return
    wide: set[Expr] = set()
    for node in post_order(root):
        value = np.asarray(evaluate(node, names, tensors))
        value = value[np.isfinite(value)] if node.type == "float" else value
        if node.op == "int" and (value.min() < INT32[0] or value.max() > INT32[1]):
            return  # a float that no int can hold: an error of the call
        low, high = bounds[node]
        assert not (math.isnan(low) or math.isnan(high)), f"{node}: {low} {high}"
        if value.size:
            assert low <= value.min() and value.max() <= high, f"{node}: {value} not in {low, high}"
        if node.type != "int":
            continue
        carried = node.op not in ("read", "int") and any(a in wide for a in node.args)
        if carried or (node.op in (*WIDENED, "name") and needs_64_bits((low, high))):
            wide.add(node)
        else:
            assert value.min() >= INT32[0] and value.max() <= INT32[1], f"{node} wraps: {value}"
            assert not needs_64_bits((low, high)), (
                f"{node} is taken for wide and is not: {low, high}"
            )


def _extreme_call(rng: Random) -> tuple[dict, dict]:
    """A few calls at once, at and near the ends of what is legal."""

    def some(low: int, high: int) -> np.ndarray:
        near = [low, high, low + 1, high - 1, 0, 1, -1, 2, rng.randint(low, high)]
        return np.array([min(max(rng.choice(near), low), high) for _ in range(12)], np.int64)

    names = {
        "q_idx": some(-(2**29), 2**29), "kv_idx": some(-(2**29), 2**29),
        "q_len": some(1, INDEX_LIMIT), "kv_len": some(1, INDEX_LIMIT),
        "b": some(0, 2**20), "h": some(0, 2**20), "heads": some(1, 2**20),
        "flag": some(0, 1) > 0,
    }  # fmt: skip
    for p in PARAMETERS:
        if p.type == "int":
            ends = (p.minimum, p.maximum)
            limits = (-INDEX_LIMIT, INDEX_LIMIT)
            names[p.name] = some(
                *(e if e is not None else o for e, o in zip(ends, limits, strict=True))
            )
        elif p.type == "float":
            names[p.name] = float(p.default)
    tensors = {}
    for t in TENSORS:
        shape = [rng.randint(1, 3)] * len(t.shape)
        if t.type == "bool":
            values = some(0, 1) > 0
        elif t.type == "float":
            values = np.array([rng.choice([-3e38, 0.0, 2.5]) for _ in range(12)])
        elif t.value_range:
            values = some(t.value_range[0], t.value_range[1] - 1)
        else:
            values = some(0, 255) if t.dtype == "uint8" else some(*INT32)
        tensors[t.name] = np.resize(values, shape)
    return names, tensors


# Builders of int and bool expressions


def check_builders(rng: Random) -> None:
    """Every builder yields the value of the plain operation."""
    scene, g = draw_scene(rng), Grammar(rng)
    a, b = g.whole(2), g.whole(2)
    if rng.random() < 0.3:
        b = make("add", a, g.number())
    if rng.random() < 0.3:
        a, b = g.number(), g.number()
    p, q = g.truth(2), rng.choice([g.truth(2), const(rng.random() < 0.5)])
    amount, divisor = rng.randint(-9, 9), rng.choice([const(rng.randint(1, 6)), name("window")])
    positive = make("bitand", a, const(31)) if rng.random() < 0.9 else const(0)
    comparison = rng.choice(["lt", "le", "gt", "ge", "eq", "ne"])
    v = {e: scene.grid(e) for e in (a, b, p, q, divisor, positive)}
    same = [
        (build.linear(a).expression(), v[a]),
        (build.linear(a).times(amount).expression(), v[a] * amount),
        (build.linear(a).plus(build.linear(b)).expression(), v[a] + v[b]),
        (build.add(a, b), v[a] + v[b]),
        (build.sub(a, b), v[a] - v[b]),
        (build.mul(a, const(amount)), v[a] * amount),
        (build.mul(a, b), v[a] * v[b]),
        (build.shift(a, amount), v[a] + amount),
        (build.floordiv(a, divisor), v[a] // v[divisor]),
        (build.ceildiv(positive, divisor), -(-v[positive] // v[divisor])),
        (build.minimum(a, b), np.minimum(v[a], v[b])),
        (build.maximum(a, b), np.maximum(v[a], v[b])),
        (build.compare(comparison, a, b), scene.grid(make(comparison, a, b))),
        (build.both(p, q, p), v[p] & v[q]),
        (build.either(p, q, p), v[p] | v[q]),
        (build.negate(p), ~v[p]),
        (build.negate(q), ~v[q]),
        (build.choose(p, a, b), np.where(v[p], v[a], v[b])),
        (build.choose(q, a, b), np.where(v[q], v[a], v[b])),
    ]
    for i, (node, expected) in enumerate(same):
        assert (scene.grid(node) == expected).all(), f"builder {i}: {node}"


# Float products and sums


def check_products(rng: Random) -> None:
    """Normal forms keep the value; what is split off as fixed is free of positions."""
    scene, g = draw_scene(rng), Grammar(rng)
    node, other = in_terms_of_qk(g.score(rng.randint(1, 4))), g.real(2)
    names = score_names(rng, scene)
    expected, beside = _real(node, names, scene), _real(other, names, scene)
    near(_real(canonical(node), names, scene), expected)
    near(sum(_real(t.expression(), names, scene) for t in sum_terms(node)), expected)
    for form in (product_of(node), *sum_terms(node)):
        whole = _real(form.expression(), names, scene)
        fixed, moving = form.split()
        assert not axes_of(*(b for b, _ in fixed.powers)) & {"q", "kv"}
        near(
            _real(fixed.expression(), names, scene) * _real(moving.expression(), names, scene),
            whole,
        )
        if fixed.coefficient and np.all(whole != 0.0):
            near(_real(form.times(form.inverse()).expression(), names, scene), np.float64(1.0))
    near(_real(product_of(node).expression(), names, scene), expected)
    near(_real(fmul(node, other), names, scene), expected * beside)
    near(_real(fadd(node, other), names, scene), expected + beside)
    for constant in (0.0, 1.0, -1.0):
        near(_real(fmul(const(constant), other), names, scene), constant * beside)
        near(_real(fadd(other, const(constant)), names, scene), beside + constant)
        near(_real(fold_sub(const(constant), other), names, scene), constant - beside)


def fold_sub(a: Expr, b: Expr) -> Expr:
    from fagen.analysis.products import fold

    return fold(make("sub", a, b))


def score_names(rng: Random, scene: Scene) -> dict:
    """All names of a tile: the raw product of every pair, a scale, an origin, both positions."""
    values = np.random.default_rng(rng.getrandbits(32))
    qk = values.normal(0.0, 3.0, (len(scene.q_idx), len(scene.kv_idx)))
    # Whole numbers among them meet the kinks of min, max, abs and clamp.
    qk = np.where(values.random(qk.shape) < 0.3, np.round(qk), qk)
    scale = rng.choice([0.125, 0.5, 1.0])
    return {
        **scene.names, "qk": qk, "scale": scale, "score": qk * scale,
        "origin": rng.randint(-60, 60), "q_idx": scene.q_idx[:, None],
        "kv_idx": scene.kv_idx[None, :],
    }  # fmt: skip


def _real(node: Expr, names: dict, scene: Scene) -> np.ndarray:
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
    expected = LOG2E * _real(score, names, scene)
    post = _real(tile.post_scale, names, scene)
    inner, row = _real(tile.score, names, scene), _real(tile.row_term, names, scene)
    near(post * inner + LOG2E * row, expected, max(1.0, np.abs(row).max(initial=0.0)))
    assert "kv" not in axes_of(tile.row_term), tile.row_term
    assert not axes_of(tile.post_scale) & {"q", "kv"}, tile.post_scale
    assert (post > 0).all(), f"post_scale {tile.post_scale}"
    if not tile.scale_must_be_positive:
        names["scale"] = -names["scale"]
        assert (_real(tile.post_scale, names, scene) > 0).all(), f"post_scale {tile.post_scale}"
    assert tile.reads_qk == ("qk" in names_in(tile.score))
    assert "score" not in names_in(tile.score, tile.row_term, tile.post_scale)
    for term in sum_terms(tile.score):
        alone = axes_of(*(b for b, _ in term.powers))
        assert "kv" in alone or not term.powers, f"{term.expression()} belongs to the row"


def check_axes(rng: Random) -> None:
    """Changing an index outside of a node's set leaves its value alone."""
    scene, g = draw_scene(rng), Grammar(rng)
    root = rng.choice([g.whole, g.truth, g.real])(3)
    grids = {"q": "q_idx", "kv": "kv_idx"}
    for node, found in axes_by_node(root).items():
        assert found == axes_of(node)
        values = scene.grid(node)
        for axis in grids.keys() - found:
            along = 0 if axis == "q" else 1
            assert (values == values.take([0], along)).all(), f"{node} varies along {axis}"
        for axis in {"b", "h"} - found:
            moved = Scene({**scene.names, axis: 0}, scene.tensors)
            assert (moved.grid(node) == values).all(), f"{node} varies along {axis}"


# Derivatives


def check_derivative(rng: Random) -> None:
    """Away from kinks the derivative is the slope of the secant."""
    scene, score = draw_scene(rng), Grammar(rng).score(rng.randint(1, 4))
    slope = derivative(score, SCORE)
    names = score_names(rng, scene)
    values, step = names["score"], 1e-5
    names["score"] = values + 0.137  # off the kinks at whole numbers
    found = _real(slope, names, scene)
    sides = []
    for shift in (-2 * step, -step, step, 2 * step):
        moved = {**names, "score": names["score"] + shift}
        sides.append(_real(score, moved, scene))
    far, near_ = (sides[3] - sides[0]) / (4 * step), (sides[2] - sides[1]) / (2 * step)
    one_sided = np.abs((sides[3] - sides[2]) - (sides[1] - sides[0])) / step
    size = 1.0 + np.abs(near_) + np.abs(sides[1])
    # Both secants agree and neither side bends: no kink between them.
    smooth = (np.abs(far - near_) < 1e-6 * size) & (one_sided < 1e-3 * size)
    wrong = smooth & np.isfinite(near_) & ~(np.abs(found - near_) <= 1e-3 * size)
    assert not wrong.any(), f"d/dscore of {score}: {slope}"
    expected = SCORE in set(post_order(score))
    assert expected or slope is const(0.0)


#: (expression of the score s, s, derivative there as torch has it)
def ties() -> list[tuple[str, Expr, float, float]]:
    s, zero, one = SCORE, const(0.0), const(1.0)
    root = make("sqrt", make("max", s, zero))
    positive = make("gt", s, zero)
    return [
        ("max", make("max", s, zero), 0.0, 0.5),
        ("max below", make("max", s, zero), -1.0, 0.0),
        ("max above", make("max", zero, s), 2.0, 1.0),
        ("min", make("min", one, s), 1.0, 0.5),
        ("min above", make("min", s, one), 3.0, 0.0),
        ("min below", make("min", one, s), 0.5, 1.0),
        ("abs", make("abs", s), 0.0, 0.0),
        ("abs below", make("abs", s), -2.0, -1.0),
        ("abs above", make("abs", s), 2.0, 1.0),
        ("clamp low", make("clamp", s, zero, one), 0.0, 1.0),
        ("clamp high", make("clamp", s, zero, one), 1.0, 1.0),
        ("clamp out", make("clamp", s, zero, one), 1.5, 0.0),
        ("clamp under", make("clamp", s, zero, one), -0.5, 0.0),
        ("clamp low end", make("clamp", zero, s, make("add", s, one)), 1.0, 1.0),
        ("clamp high end", make("clamp", const(3.0), zero, s), 1.0, 1.0),
        ("clamp low tie", make("clamp", one, s, const(2.0)), 1.0, 0.0),
        ("clamp high tie", make("clamp", one, zero, s), 1.0, 0.0),
        ("clamp crossed", make("clamp", zero, one, make("neg", s)), 1.0, -1.0),
        ("clamp crossed low", make("clamp", zero, s, const(-1.0)), 1.0, 0.0),
        ("where", make("where", positive, make("mul", s, s), s), 3.0, 6.0),
        ("where not", make("where", positive, make("mul", s, s), s), -3.0, 1.0),
        ("floor", make("add", make("floor", s), s), 2.0, 1.0),
        ("twice", make("max", s, s), 2.0, 1.0),
        ("root below", root, -1.0, 0.0),
        ("root above", root, 4.0, 0.25),
        ("root chosen", make("where", positive, make("sqrt", s), zero), -4.0, 0.0),
        ("log chosen", make("where", positive, make("log", s), s), 0.0, 1.0),
        ("exp chosen", make("where", make("lt", s, one), make("exp", s), s), 1e4, 1.0),
        ("power", make("pow", s, const(3.0)), 2.0, 12.0),
        ("power of one", make("pow", s, one), 5.0, 1.0),
        ("square at zero", make("pow", s, const(2.0)), 0.0, 0.0),
        ("no power", make("pow", s, zero), 5.0, 0.0),
        ("inverse", make("pow", s, const(-1.0)), 2.0, -0.25),
        ("quotient", make("div", CAP, s), 2.0, -1.25),
        ("difference", make("sub", CAP, s), 2.0, -1.0),
        ("of ints", make("mul", make("float", make("int", s)), s), 2.5, 2.0),
    ]


def check_ties(rng: Random) -> None:
    label, node, at, expected = rng.choice(ties())
    found = evaluate(derivative(node, SCORE), {"score": np.float64(at), "cap": 5.0})
    assert np.allclose(found, expected, rtol=1e-12, atol=0.0), f"{label}: {found}, not {expected}"
