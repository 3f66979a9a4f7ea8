"""Live (query, key) pairs of a mask, counted exactly in memory that does not grow with the square.

Where the solved segments are the whole truth a row's keys are counted as intervals; elsewhere the
mask is evaluated a few rows at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fagen.analysis.axes import axes_of
from fagen.analysis.evaluate import evaluate
from fagen.analysis.ranges import declared_ranges
from fagen.analysis.reading import TileReader
from fagen.analysis.segments import Segment, solve
from fagen.spec.expr import TRUE, Expr, name, rebuild, with_args
from fagen.spec.variant import Variant

#: Pairs evaluated at once where there is no closed form.
PAIRS_AT_ONCE = 2**20
_KV_IDX = name("kv_idx")


def live_pairs(
    variant: Variant,
    names: Mapping[str, Any],
    tensors: Mapping[str, np.ndarray] | None = None,
) -> int:
    """Live pairs over all sequences and query heads.

    `names` holds batch, heads, kv_heads, q_len, kv_len, q_offset, kv_offset and what else the mask
    reads but its positions and b, h, kv_h. Raises KeyError for what is missing.
    """
    tables = dict(tensors or {})
    axes = axes_of(variant.mask)
    batches = range(names["batch"] if "b" in axes else min(names["batch"], 1))
    heads = range(names["heads"] if "h" in axes else min(names["heads"], 1))
    repeats = (1 if "b" in axes else names["batch"]) * (1 if "h" in axes else names["heads"])
    reader = TileReader("q", declared_ranges(variant), {t.name: t for t in variant.tensors})
    segments = solve(variant.mask, _KV_IDX, reader)
    counted = 0
    for b in batches:
        for h in heads:
            kv_h = h // (names["heads"] // names["kv_heads"])
            rows = np.arange(names["q_len"], dtype=np.int64)
            known = {**names, "b": b, "h": h, "kv_h": kv_h, **_rows(rows, names)}
            found = _by_intervals(segments, known, tables)
            counted += _by_evaluation(variant.mask, known, tables) if found is None else found
    return counted * repeats


def _rows(rows: np.ndarray, names: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Names of a tile of one row, for every row at once."""
    index = rows + names["q_offset"]
    return {"q_row": rows, "q_token": rows, "q_idx": index, "q_lo": index, "q_hi": index}


def _by_intervals(
    segments: tuple[Segment, ...], known: Mapping[str, Any], tensors: dict[str, np.ndarray]
) -> int | None:
    """The sizes of the unions of every row's intervals, or None where those are not exact."""
    first, past = known["kv_offset"], known["kv_offset"] + known["kv_len"]
    shape = known["q_idx"].shape
    sizes = {f"{n}.{i}": s for n, t in tensors.items() for i, s in enumerate(t.shape)}

    def value(end: Expr | None, otherwise: int) -> np.ndarray:
        found = (
            otherwise if end is None else evaluate(_of_one_row(end), {**known, **sizes}, tensors)
        )
        return np.broadcast_to(found, shape)

    intervals = []
    for segment in segments:
        low, high = value(segment.lo, first), value(segment.hi, past)
        gate = value(segment.gate_may, 1)
        exact = segment.residual is TRUE and all(
            np.array_equal(a, b)
            for a, b in (
                (low, value(segment.full_lo, first)),
                (high, value(segment.full_hi, past)),
                (gate, value(segment.gate_must, 1)),
            )
        )
        if not exact:
            return None
        low = np.clip(low, first, past)
        intervals.append((low, np.where(gate, np.clip(high, low, past), low)))
    return _union(intervals)


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


def _by_evaluation(mask: Expr, known: Mapping[str, Any], tensors: dict[str, np.ndarray]) -> int:
    columns = np.arange(known["kv_len"], dtype=np.int64)[None, :]
    keys = {"kv_idx": columns + known["kv_offset"], "kv_token": columns}
    rows_at_once = max(PAIRS_AT_ONCE // max(known["kv_len"], 1), 1)
    counted = 0
    for start in range(0, known["q_len"], rows_at_once):
        rows = np.arange(start, min(start + rows_at_once, known["q_len"]), dtype=np.int64)
        here = {**known, **_rows(rows[:, None], known), **keys}
        live = evaluate(mask, here, tensors)
        counted += int(np.broadcast_to(live, (len(rows), known["kv_len"])).sum())
    return counted
