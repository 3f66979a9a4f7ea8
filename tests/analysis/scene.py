"""A legal call for random expressions: lengths, offsets, tile sizes, parameters and tables."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from grammar import PARAMETERS, TENSORS

from fagen.analysis.evaluate import evaluate
from fagen.spec.expr import TRUE, Expr
from fagen.spec.variant import SCORE, Variant

LENGTHS = (1, 2, 3, 7, 13, 16, 17, 29, 31, 32, 33, 47, 61)
BLOCKS = (1, 2, 4, 8, 16, 32)


def variant_of(mask: Expr = TRUE, score: Expr = SCORE) -> Variant:
    return Variant("drawn", parameters=PARAMETERS, tensors=TENSORS, mask=mask, score=score)


@dataclass(frozen=True)
class Scene:
    """`names` binds all but the positions; `tensors` all tables."""

    names: dict[str, Any]
    tensors: dict[str, np.ndarray]

    @property
    def q_idx(self) -> np.ndarray:
        return np.arange(self.names["q_len"], dtype=np.int64) + self.names["q_offset"]

    @property
    def kv_idx(self) -> np.ndarray:
        return np.arange(self.names["kv_len"], dtype=np.int64) + self.names["kv_offset"]

    def grid(self, root: Expr, q_idx: np.ndarray | None = None, kv_idx: np.ndarray | None = None):
        """The value for every pair [queries, keys]; all of them by default."""
        q_idx = self.q_idx if q_idx is None else q_idx
        kv_idx = self.kv_idx if kv_idx is None else kv_idx
        names = {**self.names, "q_idx": q_idx[:, None], "kv_idx": kv_idx[None, :]}
        value = evaluate(root, names, self.tensors)
        return np.broadcast_to(value, (len(q_idx), len(kv_idx)))


def draw_scene(rng: Random) -> Scene:
    """Lengths that divide nothing, q_len on either side of kv_len, offsets of either sign."""
    q_len, kv_len = rng.choice(LENGTHS), rng.choice(LENGTHS)
    batch, heads = 2, 3
    at_end = kv_len - q_len
    names = {
        "q_len": q_len, "kv_len": kv_len, "batch": batch, "heads": heads,
        "q_offset": rng.choice([0, at_end, at_end, rng.randint(-50, 50)]),
        "kv_offset": rng.choice([0, 0, rng.randint(-50, 50)]),
        "BLOCK_M": rng.choice(BLOCKS), "BLOCK_N": rng.choice(BLOCKS),
        "b": rng.randrange(batch), "h": rng.randrange(heads),
        "window": rng.choice([1, 2, 3, 5, 8, 13, 40]), "count": rng.randint(-12, 30),
        "flag": rng.random() < 0.5, "cap": rng.choice([0.5, 2.0, 30.0]),
        "beta": rng.choice([-1.5, -0.25, 0.0, 0.5, 3.0]),
    }  # fmt: skip
    values = np.random.default_rng(rng.getrandbits(32))
    sizes = {**names, 5: 5}
    return Scene(names, {t.name: _table(t, [sizes[n] for n in t.shape], values) for t in TENSORS})


def _table(tensor, shape: list[int], values: np.random.Generator) -> np.ndarray:
    if tensor.type == "bool":
        # Often constant along stretches, so that whole tiles are true or false.
        return np.repeat(values.random(shape) < 0.5, 6, axis=-1)[..., : shape[-1]]
    if tensor.type == "float":
        return values.choice([-2.0, -0.5, 0.25, 1.0, 3.0], shape).astype(np.float32)
    low, high = tensor.value_range or ((0, 4) if tensor.dtype == "uint8" else (-6, 40))
    if tensor.nondecreasing:
        # Below zero too: beside such values the 0 of a guarded read is out of order.
        low, high = tensor.value_range or (-3, 4)
    table = values.integers(low, high, shape).astype(tensor.dtype)
    return np.sort(table, axis=-1) if tensor.nondecreasing else table
