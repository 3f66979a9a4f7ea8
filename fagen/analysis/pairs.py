"""Live (query, key) pairs of a mask, counted exactly in memory that does not grow with the square.

Where the solved segments are the whole truth a row's keys are counted as intervals; elsewhere the
mask is evaluated a few rows at a time, or the intervals are taken for the most that may be live.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fagen.analysis.axes import axes_of
from fagen.analysis.evaluate import evaluate
from fagen.analysis.ranges import declared_ranges
from fagen.analysis.reading import TileReader
from fagen.analysis.segments import Segment, solve
from fagen.spec.expr import TRUE, Expr, name, rebuild, with_args
from fagen.spec.variant import Variant

#: Pairs evaluated, and rows whose intervals are measured, at once.
PAIRS_AT_ONCE, ROWS_AT_ONCE = 2**20, 2**16
#: The same in all, of a limited count: some tens of seconds. A head takes as long as so many rows.
MOST_PAIRS, MOST_ROWS, ROWS_OF_A_HEAD = 2**32, 2**28, 2**14
_KV_IDX = name("kv_idx")


@dataclass(frozen=True)
class Pairs:
    """How many pairs are live; `exact` is False where that is only known to be the most."""

    count: int
    exact: bool


def live_pairs(
    variant: Variant,
    names: Mapping[str, Any],
    tensors: Mapping[str, np.ndarray] | None = None,
) -> int:
    """Live pairs over all sequences and query heads, exactly, however long that takes.

    `names` holds batch, heads, kv_heads, q_len, kv_len, q_offset, kv_offset and what else the mask
    reads but its positions and b, h, kv_h. Raises KeyError for what is missing.
    """
    return count_pairs(variant, names, tensors, limited=False).count


def count_pairs(
    variant: Variant,
    names: Mapping[str, Any],
    tensors: Mapping[str, np.ndarray] | None = None,
    *,
    limited: bool = True,
) -> Pairs:
    """Live pairs as `live_pairs` counts them, or at most so many where that is too much work."""
    if variant.mask is TRUE:
        return Pairs(_square(names), True)
    axes = axes_of(variant.mask)
    batches = range(names["batch"] if "b" in axes else min(names["batch"], 1))
    heads = range(names["heads"] if "h" in axes else min(names["heads"], 1))
    repeats = (1 if "b" in axes else names["batch"]) * (1 if "h" in axes else names["heads"])
    walked = len(batches) * len(heads)
    if limited and walked * max(names["q_len"], ROWS_OF_A_HEAD) > MOST_ROWS:
        return Pairs(_square(names), False)
    evaluates = not limited or walked * names["q_len"] * names["kv_len"] <= MOST_PAIRS
    reader = TileReader("q", declared_ranges(variant), {t.name: t for t in variant.tensors})
    segments = solve(variant.mask, _KV_IDX, reader)
    counted, exact = 0, True
    for b, h in itertools.product(batches, heads):
        here = {**names, "b": b, "h": h, "kv_h": h // (names["heads"] // names["kv_heads"])}
        for start in range(0, names["q_len"], ROWS_AT_ONCE):
            stop = min(start + ROWS_AT_ONCE, names["q_len"])
            rows = np.arange(start, stop, dtype=np.int64)
            found = _by_intervals(segments, {**here, **_rows(rows, names)}, dict(tensors or {}))
            if not found.exact and evaluates:
                found = Pairs(_by_evaluation(variant.mask, rows, here, dict(tensors or {})), True)
            counted, exact = counted + found.count, exact and found.exact
    return Pairs(counted * repeats, exact)


def _square(names: Mapping[str, Any]) -> int:
    return names["batch"] * names["heads"] * names["q_len"] * names["kv_len"]


def _rows(rows: np.ndarray, names: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Names of a tile of one row, for every row at once."""
    index = rows + names["q_offset"]
    return {"q_row": rows, "q_token": rows, "q_idx": index, "q_lo": index, "q_hi": index}


def _by_intervals(
    segments: tuple[Segment, ...], known: Mapping[str, Any], tensors: dict[str, np.ndarray]
) -> Pairs:
    """The sizes of the unions of every row's intervals, outside of which no pair is live."""
    first, past = known["kv_offset"], known["kv_offset"] + known["kv_len"]
    shape = known["q_idx"].shape
    sizes = {f"{n}.{i}": s for n, t in tensors.items() for i, s in enumerate(t.shape)}

    def value(end: Expr | None, otherwise: int) -> np.ndarray:
        found = (
            otherwise if end is None else evaluate(_of_one_row(end), {**known, **sizes}, tensors)
        )
        return np.broadcast_to(found, shape)

    intervals, exact = [], True
    for segment in segments:
        low, high = value(segment.lo, first), value(segment.hi, past)
        gate = value(segment.gate_may, 1)
        exact = (
            exact
            and segment.residual is TRUE
            and all(
                np.array_equal(a, b)
                for a, b in (
                    (low, value(segment.full_lo, first)),
                    (high, value(segment.full_hi, past)),
                    (gate, value(segment.gate_must, 1)),
                )
            )
        )
        low = np.clip(low, first, past)
        intervals.append((low, np.where(gate, np.clip(high, low, past), low)))
    return Pairs(_union(intervals), exact)


def _of_one_row(root: Expr) -> Expr:
    def change(node: Expr, args: tuple[Expr, ...]) -> Expr:
        return args[0] if node.op in ("row_min", "row_max") else with_args(node, args)

    return rebuild(root, change)


def _union(intervals: list[tuple[np.ndarray, np.ndarray]]) -> int:
    """Total length of each row's union of [low, high)."""
    if not intervals:
        return 0
    low, high = (np.stack(ends) for ends in zip(*intervals, strict=True))
    order = np.argsort(low, axis=0, kind="stable")
    low, high = np.take_along_axis(low, order, 0), np.take_along_axis(high, order, 0)
    reached = np.maximum.accumulate(high, axis=0)
    low[1:] = np.maximum(low[1:], reached[:-1])
    return int(np.maximum(high - low, 0).sum())


def _by_evaluation(
    mask: Expr, rows: np.ndarray, known: Mapping[str, Any], tensors: dict[str, np.ndarray]
) -> int:
    width = known["kv_len"]
    columns_at_once = min(width, PAIRS_AT_ONCE)
    rows_at_once = max(PAIRS_AT_ONCE // max(columns_at_once, 1), 1)
    counted = 0
    for row in range(0, len(rows), rows_at_once):
        some = rows[row : row + rows_at_once, None]
        for column in range(0, width, max(columns_at_once, 1)):
            stop = min(column + columns_at_once, width)
            columns = np.arange(column, stop, dtype=np.int64)[None, :]
            keys = {"kv_idx": columns + known["kv_offset"], "kv_token": columns}
            live = evaluate(mask, {**known, **_rows(some, known), **keys}, tensors)
            counted += int(np.broadcast_to(live, (len(some), stop - column)).sum())
    return counted
