"""Tests of tiles that are said to leave no gap, held against the tiles that pass them."""

from __future__ import annotations

from random import Random

import numpy as np
from grammar import COUNT, KV, WINDOW, table
from properties import DECLARED, TABLES, hold_exact
from scene import draw_scene, variant_of

from fagen.analysis.evaluate import evaluate
from fagen.analysis.gaps import FALLS, RISES, STAYS, Trends
from fagen.analysis.ranges import INT32
from fagen.spec.expr import Expr, const, make, name

CORNERS = frozenset({"kv_lo", "kv_hi"})
LEAVES = (name("kv_lo"), name("kv_hi"), name("kv_lo"), name("q_hi"), WINDOW, COUNT)
OPS = (
    "add", "sub", "neg", "invert", "mul", "floordiv", "mod", "shr", "min", "max", "where", "read",
)  # fmt: skip
TRENDS = Trends(CORNERS, DECLARED, TABLES)


def whole(rng: Random, deep: int) -> Expr:
    if deep <= 0:
        return rng.choice([*LEAVES, const(rng.randint(-9, 9))])
    op = rng.choice(OPS)
    a = whole(rng, deep - 1)
    if op in ("neg", "invert"):
        return make(op, a)
    if op == "floordiv":
        return make(op, a, rng.choice([const(rng.choice([-3, 2, 5])), WINDOW]))
    if op == "mod":
        return make(op, a, const(rng.randint(2, 9)))
    if op == "shr":
        return make(op, a, const(rng.randint(0, 3)))
    if op == "where":
        ends = [const(rng.choice([*INT32, 7])), whole(rng, deep - 1)]
        # The limits of int32 stand where a table ends: here no table does.
        always = make("ge", name("kv_lo"), const(-99))
        return make(op, always if ends[0].value in INT32 else test(rng, 0), a, rng.choice(ends[:1]))
    if op == "read":
        last = make("sub", name("kv_len"), const(1))
        inside = make("min", make("max", a, const(0)), last)
        return rng.choice([table("rank", inside), table("key", inside)])
    return make(op, a, whole(rng, deep - 1))


def test(rng: Random, deep: int) -> Expr:
    if deep <= 0 or rng.random() < 0.4:
        op = rng.choice(["lt", "le", "gt", "ge", "eq", "ne"])
        if rng.random() < 0.2:
            # Two sides that rise in steps of their own.
            return make(op, *(make("floordiv", n, const(rng.randint(2, 40))) for n in LEAVES[:2]))
        return make(op, whole(rng, rng.randint(0, 2)), whole(rng, rng.randint(0, 2)))
    return make(rng.choice(["and", "or", "and"]), test(rng, deep - 1), test(rng, deep - 1))


def check_gaps(rng: Random) -> None:
    """What is said to rise or to fall does, and tiles that pass a test without gaps follow each
    other."""
    scene = draw_scene(rng)
    tile, block = np.arange(40), scene.names["BLOCK_N"]
    corners = {"kv_lo": tile * block - 9, "kv_hi": tile * block + block - 10, "q_hi": 5}

    def over_tiles(root: Expr) -> np.ndarray:
        found = evaluate(root, {**scene.names, **corners}, scene.tensors)
        return np.broadcast_to(found, tile.shape)

    for _ in range(4):
        node = whole(rng, rng.randint(1, 3))
        trend = TRENDS.trend(node)
        if trend is not None:
            steps = np.diff(over_tiles(node))
            allowed = {RISES: steps >= 0, STAYS: steps == 0, FALLS: steps <= 0}[trend]
            assert allowed.all(), f"{node} is said to have trend {trend}"
    tested = test(rng, 2)
    if not TRENDS.leaves_gaps(tested):
        found = np.flatnonzero(over_tiles(tested))
        assert len(found) == 0 or len(found) == found[-1] - found[0] + 1, f"{tested}: {found}"


def check_listing(rng: Random) -> None:
    """Stripes of keys are visited where they lie, and nothing between them."""
    stripe = make("lt", make("mod", KV, const(rng.randint(9, 40))), const(rng.randint(1, 20)))
    hold_exact(variant_of(stripe), draw_scene(rng))
