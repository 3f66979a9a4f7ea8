"""What must hold of ranges, builders and index sets for any legal expression.

As in `properties`, each `check_*` draws one example and raises where the property fails.
"""

from __future__ import annotations

import math
from random import Random

import numpy as np
from grammar import BETA, CAP, KV, PARAMETERS, TENSORS, Grammar, Q, table
from scene import Scene, draw_scene, variant_of

from fagen.analysis import linear as build
from fagen.analysis.axes import axes_by_node, axes_of
from fagen.analysis.evaluate import evaluate
from fagen.analysis.ranges import INT32, WIDENED, declared_ranges, needs_64_bits, range_of, ranges
from fagen.spec.expr import Expr, const, make, name, post_order
from fagen.spec.names import INDEX_LIMIT

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
        b = make("add", a, g.number(-1, 1))
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
    undefined = Scene(scene.names, {**scene.tensors, "bias": scene.tensors["bias"] * np.nan})
    asked = make(comparison, table("bias", KV), CAP)
    assert (undefined.grid(build.negate(asked)) == ~undefined.grid(asked)).all(), f"not {asked}"


# Index sets


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


# Known values


def known_ranges() -> list[tuple[str, Expr, tuple[float, float]]]:
    q, n, one = Q, name("window"), const(1)
    far, seven = 2**29, const(7)
    read_ = table("tree", Q, KV)
    shift = make("min", name("h"), const(31))
    whole = table("start", name("b"), Q)
    return [
        ("sum", make("add", q, n), (1 - far, far + 64)),
        ("difference", make("sub", n, q), (1 - far, far + 64)),
        ("negation", make("neg", n), (-64, -1)),
        ("product", make("mul", n, const(-3)), (-192, -3)),
        ("quotient", make("floordiv", q, n), (-far, far)),
        ("quotient of either sign", make("floordiv", n, make("sub", seven, n)), (-64, 64)),
        ("negative divisor", make("floordiv", n, const(-5)), (-13, -1)),
        ("remainder", make("mod", q, n), (0, 63)),
        ("small remainder", make("mod", make("min", n, const(4)), seven), (0, 4)),
        ("negative remainder", make("mod", n, const(-5)), (-4, 0)),
        ("smaller", make("min", q, n), (-far, 64)),
        ("larger", make("max", q, n), (1, far)),
        ("between", make("clamp", q, const(-3), n), (-3, 64)),
        ("magnitude", make("abs", make("sub", const(3), n)), (0, 61)),
        ("negative magnitude", make("abs", make("neg", n)), (1, 64)),
        ("choice", make("where", name("flag", "bool"), n, const(-2)), (-2, 64)),
        ("masked bits", make("bitand", q, seven), (0, 7)),
        ("joined bits", make("bitor", n, seven), (0, 127)),
        ("differing bits", make("bitxor", n, seven), (0, 127)),
        ("signed bits", make("bitxor", n, const(-1)), (-128, 127)),
        ("signed mask", make("bitand", make("neg", n), const(-8)), (-64, 63)),
        ("complement", make("invert", n), (-65, -2)),
        ("left", make("shl", n, seven), (128, 64 * 128)),
        ("left by h", make("shl", one, shift), (1, 2**31)),
        ("right", make("shr", q, const(4)), (-(2**25), 2**25)),
        ("right by h", make("shr", n, shift), (0, 64)),
        ("truth", make("int", make("lt", q, n)), (0, 1)),
        ("byte", read_, (0, 255)),
        ("promised", table("key", KV), (-3, 29)),
        ("promised above zero", table("rank", KV), (0, 8)),
        ("any int", whole, INT32),
        ("wide", make("add", whole, one), (INT32[0] + 1, INT32[1] + 1)),
        ("float quotient", make("div", CAP, const(2.0)), (0.0005, 2.0**99)),
        ("quotient by zero", make("div", CAP, BETA), (-math.inf, math.inf)),
        ("quotient by an end", make("div", CAP, make("abs", BETA)), (-math.inf, math.inf)),
        ("never finite", make("add", BETA, const(-math.inf)), (-math.inf, -math.inf)),
        (
            "lost in infinity",
            make("add", make("exp", BETA), const(-math.inf)),
            (-math.inf, math.inf),
        ),
        ("tanh", make("mul", make("tanh", BETA), const(3.0)), (-3.0, 3.0)),
        ("sigmoid", make("sigmoid", BETA), (0.0, 1.0)),
        ("floor", make("floor", make("clamp", BETA, const(-1.5), const(2.5))), (-2.0, 2.5)),
    ]


def hold_known_range(label: str, node: Expr, expected: tuple[float, float]) -> None:
    found = range_of(DECLARED, node)
    assert found == expected, f"{label}: {found}, not {expected}"


def check_known_ranges(rng: Random) -> None:
    for case in known_ranges():
        hold_known_range(*case)
