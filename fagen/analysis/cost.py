"""What attention of a variant costs: live pairs, floating-point operations, bytes of HBM traffic.

Operations count the matrix products alone, 2 * rows * columns * depth each, over live pairs only:
what a kernel computes beyond them is its own waste. Bytes are the least that can be moved, each
input read once and each output written once, beside those of the algorithm that writes scores and
probabilities to memory in the dtype of q (algorithm 0 of Dao et al., 2022).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fagen.analysis.evaluate import evaluate
from fagen.analysis.pairs import Pairs, count_pairs
from fagen.spec.expr import Expr, tensors_in
from fagen.spec.names import INDEX_OF_DIMENSION
from fagen.spec.variant import Tensor, Variant

_ROW_BYTES = 4
#: Of a default table, where the work is limited.
MOST_ELEMENTS = 2**24
_WIDTH = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "float16": 2, "bfloat16": 2,
    "int32": 4, "float32": 4, "int64": 8,
}  # fmt: skip


@dataclass(frozen=True)
class Problem:
    """Shapes of one call. `dtype_bytes` is the width of q, k, v, out and their gradients.

    Raises ValueError unless kv_heads divides heads.
    """

    batch: int
    heads: int
    kv_heads: int
    q_len: int
    kv_len: int
    head_dim: int
    head_dim_v: int
    dtype_bytes: int = 2

    def __post_init__(self) -> None:
        if self.kv_heads < 1 or self.heads % self.kv_heads:
            raise ValueError(f"kv_heads ({self.kv_heads}) must divide heads ({self.heads})")

    def q_bytes(self, width: int) -> int:
        """A matrix [q_len, width] of every query head."""
        return self.batch * self.heads * self.q_len * width * self.dtype_bytes

    def kv_bytes(self, width: int) -> int:
        """A matrix [kv_len, width] of every key/value head."""
        return self.batch * self.kv_heads * self.kv_len * width * self.dtype_bytes

    @property
    def row_bytes(self) -> int:
        """One float32 for each row of every query head: lse."""
        return self.batch * self.heads * self.q_len * _ROW_BYTES


@dataclass(frozen=True)
class Cost:
    """Operations in FLOPs, traffic in bytes.

    `backward_flops` counts the five products that gradients need (scores again, dP, dV, dK, dQ),
    `backward_flops_split` the seven of two kernels without atomics, each of which recomputes the
    scores and dP. `table_bytes`, what the variant's tensors hold, is part of every traffic.
    Where `exact` is False, `pairs` is the most they may be, since counting them takes too long.
    """

    pairs: int
    square: int
    forward_flops: int
    backward_flops: int
    backward_flops_split: int
    table_bytes: int
    forward_bytes: int
    backward_bytes: int
    naive_forward_bytes: int
    naive_backward_bytes: int
    exact: bool = True

    @property
    def density(self) -> float:
        """Live pairs over all pairs; 0 when there are none."""
        return self.pairs / self.square if self.square else 0.0


def cost(
    variant: Variant,
    problem: Problem,
    parameters: Mapping[str, Any] | None = None,
    tensors: Mapping[str, np.ndarray] | None = None,
    *,
    q_offset: int | None = None,
    kv_offset: int = 0,
    limited: bool = False,
) -> Cost:
    """The cost of one call; `limited` bounds the work of counting its pairs.

    What `parameters`, `tensors` and `q_offset` leave out is as the variant declares it. Raises
    KeyError for a tensor without default that the mask reads, or a length nothing binds.
    """
    given = dict(tensors or {})
    names = _names(variant, problem, parameters or {}, given, q_offset, kv_offset)
    p, d, dv = problem, problem.head_dim, problem.head_dim_v
    needed = [variant.tensor(t) for t in tensors_in(variant.mask) - given.keys()]
    if limited and any(math.prod(_shape(t, names)) > MOST_ELEMENTS for t in needed):
        found = Pairs(p.batch * p.heads * p.q_len * p.kv_len, False)
    else:
        given |= {t.name: _default_table(t, names) for t in needed}
        found = count_pairs(variant, names, given, limited=limited)
    pairs = found.count
    square = p.q_bytes(p.kv_len)
    tables = _table_bytes(variant, names)
    forward = p.q_bytes(d) + p.kv_bytes(d) + p.kv_bytes(dv) + p.q_bytes(dv) + tables
    backward = 2 * (p.q_bytes(d) + p.kv_bytes(d) + p.kv_bytes(dv) + p.q_bytes(dv)) + tables
    return Cost(
        pairs=pairs,
        square=p.batch * p.heads * p.q_len * p.kv_len,
        forward_flops=2 * pairs * (d + dv),
        backward_flops=2 * pairs * (3 * d + 2 * dv),
        backward_flops_split=2 * pairs * (4 * d + 3 * dv),
        table_bytes=tables,
        # q, k, v -> out, lse
        forward_bytes=forward + p.row_bytes,
        # q, k, v, out, dout, lse -> dq, dk, dv
        backward_bytes=backward + p.row_bytes,
        # S written and read, P written and read.
        naive_forward_bytes=forward + 4 * square,
        # P twice, dP and dS written, dP once and dS twice read; dout twice, out not at all.
        naive_backward_bytes=backward + 7 * square,
        exact=found.exact,
    )


def _names(
    variant: Variant,
    problem: Problem,
    parameters: Mapping[str, Any],
    tensors: Mapping[str, np.ndarray],
    q_offset: int | None,
    kv_offset: int,
) -> dict[str, Any]:
    """Everything of the call that expressions may read, but positions, b and h."""
    at_end = problem.kv_len - problem.q_len if variant.position == "end" else 0
    names = {
        **{p.name: p.default for p in variant.parameters},
        **parameters,
        "batch": problem.batch, "heads": problem.heads, "kv_heads": problem.kv_heads,
        "q_len": problem.q_len, "kv_len": problem.kv_len, "head_dim": problem.head_dim,
        "total_q": problem.q_len, "total_kv": problem.kv_len,
        "q_offset": at_end if q_offset is None else q_offset, "kv_offset": kv_offset,
    }  # fmt: skip
    for tensor in variant.tensors:
        if tensor.name in tensors:
            for label, size in zip(tensor.shape, tensors[tensor.name].shape, strict=True):
                names.setdefault(str(label), size)
    return names


def _shape(tensor: Tensor, names: Mapping[str, Any]) -> list[int]:
    return [s if isinstance(s, int) else int(names[s]) for s in tensor.shape]


def _default_table(tensor: Tensor, names: Mapping[str, Any]) -> np.ndarray:
    if tensor.default is None:
        raise KeyError(tensor.name)
    shape = _shape(tensor, names)
    grids = np.meshgrid(*(np.arange(size) for size in shape), indexing="ij", sparse=True)
    along = {
        INDEX_OF_DIMENSION[str(label)]: grid
        for label, grid in zip(tensor.shape, grids, strict=True)
        if str(label) in INDEX_OF_DIMENSION
    }
    return np.broadcast_to(np.asarray(evaluate(tensor.default, {**names, **along})), shape)


def _table_bytes(variant: Variant, names: Mapping[str, Any]) -> int:
    roots: list[Expr] = [variant.mask, variant.score]
    roots += [variant.sink] if variant.sink is not None else []
    return sum(
        math.prod(_shape(variant.tensor(t), names)) * _WIDTH[variant.tensor(t).dtype]
        for t in tensors_in(*roots)
    )
