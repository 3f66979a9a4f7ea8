"""The names every expression may use, and the axes each depends on.

Axes: "b" (batch), "h" (query head), "q" (query position), "kv" (key position).
`score` is the scaled product of one query and one key and depends on all four.
"""

from __future__ import annotations

from dataclasses import dataclass

Axes = frozenset[str]
AXES: tuple[str, ...] = ("b", "h", "q", "kv")


@dataclass(frozen=True)
class IndexName:
    axes: Axes
    meaning: str
    type: str = "int"


def _axes(*axes: str) -> Axes:
    return frozenset(axes)


INDEX_NAMES: dict[str, IndexName] = {
    "score": IndexName(_axes("b", "h", "q", "kv"), "scaled q.k, natural units", "float"),
    "b": IndexName(_axes("b"), "sequence of the batch"),
    "h": IndexName(_axes("h"), "query head"),
    "kv_h": IndexName(_axes("h"), "key/value head of the query head"),
    "q_idx": IndexName(_axes("q"), "position of the query"),
    "kv_idx": IndexName(_axes("kv"), "position of the key"),
    "q_row": IndexName(_axes("q"), "row of q, from 0"),
    "q_token": IndexName(_axes("q"), "position in the packed q; the row when dense"),
    "kv_token": IndexName(_axes("kv"), "position in the packed k; the column when dense"),
    "q_len": IndexName(_axes(), "queries of this sequence"),
    "kv_len": IndexName(_axes(), "keys of this sequence"),
    "batch": IndexName(_axes(), "sequences"),
    "heads": IndexName(_axes(), "query heads"),
    "kv_heads": IndexName(_axes(), "key/value heads"),
    "head_dim": IndexName(_axes(), "width of q and k"),
    "total_q": IndexName(_axes(), "rows of the packed q"),
    "total_kv": IndexName(_axes(), "rows of the packed k"),
}

#: Lengths that a tensor's shape may name.
DIMENSIONS = (
    "batch", "heads", "kv_heads", "q_len", "kv_len", "head_dim", "total_q", "total_kv",
)  # fmt: skip

#: The name that runs along a dimension, for default expressions of tensors.
INDEX_OF_DIMENSION = {
    "batch": "b",
    "heads": "h",
    "kv_heads": "kv_h",
    "q_len": "q_row",
    "kv_len": "kv_idx",
    "total_q": "q_token",
    "total_kv": "kv_token",
}

#: Largest magnitude of a position, an offset or an int parameter without a declared bound: a sum of
#: a few such values stays inside int32.
INDEX_LIMIT = 2**28
