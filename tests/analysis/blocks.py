"""Masks that read a table of blocks, and masks in other words, on drawn examples."""

from __future__ import annotations

from random import Random

import numpy as np
from grammar import KV, B, Grammar, Q, table
from properties import hold_walks
from scene import Scene, draw_scene

from fagen.analysis.equivalent import solvable
from fagen.spec.expr import const, make, read
from fagen.spec.variant import Tensor, Variant

KIND = Tensor("kind", ("rows", "columns"), "int8", value_range=(-2, 4))


def check_blocks(rng: Random) -> None:
    """Blocks of any size beside tiles of any size, read where the table ends and beyond."""
    scene = draw_scene(rng)
    size = rng.choice([8, 8, 12, 16])
    over = make("floordiv", Q, const(size)), make("floordiv", KV, const(size))
    kind = read("kind", over if rng.random() < 0.7 else (over[0], over[0]), "int")
    test = make(rng.choice(["eq", "ge", "lt", "ne"]), kind, const(rng.randint(-1, 2)))
    mask = test if rng.random() < 0.5 else make("and", test, make("le", KV, Q))
    drawn = np.random.default_rng(rng.getrandbits(32)).integers(-2, 4, (4, 5)).astype(np.int8)
    # Stretches of one kind, so that whole tiles hold and whole tiles do not.
    drawn[:, 1:] = np.where(drawn[:, 1:] > 0, drawn[:, :-1], drawn[:, 1:])
    whole = Scene({**scene.names, "rows": 4, "columns": 5}, {**scene.tensors, "kind": drawn})
    hold_walks(Variant("blocks", tensors=(KIND,), mask=mask), whole)


def check_equivalent(rng: Random) -> None:
    """Other words for a mask hold for the same pairs."""
    scene, grammar = draw_scene(rng), Grammar(rng)
    mask = grammar.mask()
    equal = make("eq", table("doc", B, Q), table("doc", B, KV))
    op, number = rng.choice(
        [("shl", 3), ("shr", 2), ("shr", 31), ("bitand", 7), ("bitand", -8), ("bitand", 5)]
    )
    bits = make("le", make(op, rng.choice([Q, KV]), const(number)), grammar.number())
    beside = make("le", table("doc", B, KV), table("order", table("doc", B, Q)))
    for whole in (
        mask,
        bits,
        make("and", equal, beside),
        make("or", make("and", mask, equal), bits),
    ):
        for axis in ("q", "kv"):
            same = scene.grid(whole) == scene.grid(solvable(whole, axis))
            assert same.all(), f"{whole} along {axis}"
