"""The variants of the folders once more, as formulas in plain torch and plain Python.

Each takes a `Call` and gives a mask or a score that broadcasts to [batch, heads, q, kv]; nothing
here goes through the expression evaluator, a printer or the analysis.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from folder_tables import (
    Tables,
    bit_table,
    block_table,
    documents,
    documents_with_starts,
    drawn,
    graph_tables,
    starts,
    tree_tables,
)


@dataclass(frozen=True)
class Call:
    """Positions q [rows, 1] and kv [1, keys], the rows themselves, parameters and tables."""

    q: torch.Tensor
    kv: torch.Tensor
    row: torch.Tensor
    p: dict
    t: dict


@dataclass(frozen=True)
class Formula:
    """`score` takes the scaled product too; `sink` gives logits that broadcast to [.., rows, 1]."""

    mask: Callable[[Call], torch.Tensor] = lambda c: torch.ones_like(c.q - c.kv, dtype=torch.bool)
    score: Callable[[torch.Tensor, Call], torch.Tensor] = lambda s, c: s
    sink: Callable[[Call], torch.Tensor] | None = None
    scale: float | None = None
    from_start: bool = False
    parameters: dict = field(default_factory=dict)
    tables: Callable[..., Tables] = lambda batch, heads, q_len, kv_len: {}


def causal(c: Call) -> torch.Tensor:
    return c.kv <= c.q


def each_pair(c: Call, holds: Callable[[int, int, int], bool], batch: int) -> torch.Tensor:
    """A mask written down pair by pair."""
    rows, keys = c.q.flatten().tolist(), c.kv.flatten().tolist()
    pairs = [[[holds(b, i, j) for j in keys] for i in rows] for b in range(batch)]
    return torch.tensor(pairs, dtype=torch.bool).reshape(batch, 1, len(rows), len(keys))


def entry(row: list[int], i: int) -> int:
    """An entry of a table's row; 0 beyond its ends."""
    return row[i] if 0 <= i < len(row) else 0


def same_document(c: Call) -> torch.Tensor:
    ids = c.t["doc"].tolist()
    return each_pair(c, lambda b, i, j: entry(ids[b], i) == entry(ids[b], j), len(ids))


def packed_causal(c: Call) -> torch.Tensor:
    first = c.t["doc_start"].tolist()
    return each_pair(c, lambda b, i, j: entry(first[b], i) <= j <= i, len(first))


def sinks_in_documents(c: Call) -> torch.Tensor:
    ids, first = c.t["doc"].tolist(), c.t["start"].tolist()

    def holds(b: int, i: int, j: int) -> bool:
        document = entry(ids[b], i)
        if entry(ids[b], j) != document:
            return False
        begin = first[b][document]
        return j <= i and (j - begin < c.p["n_sink"] or i - j < c.p["window"])

    return each_pair(c, holds, len(ids))


def shared_prefix(c: Call) -> torch.Tensor:
    ids = c.t["doc"].tolist()

    def holds(b: int, i: int, j: int) -> bool:
        return j <= i and entry(ids[b], j) in (0, entry(ids[b], i))

    return each_pair(c, holds, len(ids))


def globals_and_window(c: Call) -> torch.Tensor:
    marked = c.t["is_global"].tolist()

    def holds(b: int, i: int, j: int) -> bool:
        near = abs(i - j) <= c.p["reach"]
        return near or bool(entry(marked[b], i)) or bool(entry(marked[b], j))

    return each_pair(c, holds, len(marked))


def middle(x: int, count: int, kernel: int) -> int:
    """The cell that a window of `kernel` cells round x is centred on, inside of `count` cells."""
    half = kernel // 2
    return min(max(x, half), count - 1 - half)


def neighborhood(c: Call) -> torch.Tensor:
    width, height, kernel = c.p["width"], c.p["height"], c.p["kernel"]

    def holds(b: int, i: int, j: int) -> bool:
        (y, x), (other_y, other_x) = divmod(i, width), divmod(j, width)
        return (
            abs(middle(y, height, kernel) - other_y) <= kernel // 2
            and abs(middle(x, width, kernel) - other_x) <= kernel // 2
        )

    return each_pair(c, holds, 1)


def sliding_tiles(c: Call) -> torch.Tensor:
    width, height, kernel = c.p["width"], c.p["height"], c.p["kernel"]
    frames = c.p.get("frames")

    def place(position: int) -> tuple[int, ...]:
        tile = position // c.p["tile_size"]
        x, line = tile % width, tile // width
        return (x, line) if frames is None else (x, line % height, line // height)

    counts = (width, height) if frames is None else (width, height, frames)

    def holds(b: int, i: int, j: int) -> bool:
        return all(
            abs(middle(own, count, kernel) - other) <= kernel // 2
            for own, other, count in zip(place(i), place(j), counts, strict=True)
        )

    return each_pair(c, holds, 1)


def blocks(c: Call) -> torch.Tensor:
    live, size = c.t["live"], c.p["block"]
    result = torch.zeros(*live.shape[:2], c.q.numel(), c.kv.numel(), dtype=torch.bool)
    for m, i in enumerate(c.q.flatten().tolist()):
        for n, j in enumerate(c.kv.flatten().tolist()):
            y, x = i // size, j // size
            if 0 <= y < live.shape[2] and 0 <= x < live.shape[3]:
                result[:, :, m, n] = live[:, :, y, x]
    return result


def tree(c: Call) -> torch.Tensor:
    ancestor, prefix = c.t["ancestor"], c.t["prefix"].tolist()
    nodes = ancestor.shape[1]
    result = torch.zeros(len(prefix), 1, c.q.numel(), c.kv.numel(), dtype=torch.bool)
    for b, length in enumerate(prefix):
        for n, j in enumerate(c.kv.flatten().tolist()):
            node = j - length
            result[b, 0, :, n] = j < length
            if 0 <= node < nodes:
                result[b, 0, :, n] |= ancestor[b, :, node]
    return result


def bits(c: Call) -> torch.Tensor:
    packed = c.t["packed"].tolist()
    rows = range(c.row.numel())
    keys = c.kv.flatten().tolist()

    def holds(words: list[int], j: int) -> bool:
        inside = 0 <= j < 32 * len(words)
        return inside and (words[j // 32] % 2**32) // 2 ** (j % 32) % 2 == 1

    found = [[[[holds(packed[b][m], j) for j in keys] for m in rows]] for b in range(len(packed))]
    return torch.tensor(found, dtype=torch.bool).reshape(len(packed), 1, len(rows), len(keys))


def slopes(heads: int) -> torch.Tensor:
    return torch.tensor([2.0 ** (-8 * (h + 1) / heads) for h in range(heads)])


def per_head(table: torch.Tensor) -> torch.Tensor:
    return table.double().view(1, -1, 1, 1)


def t5_bucket(away: int, buckets: int, max_distance: int) -> int:
    """Exact in whole numbers: the largest step j with (away/exact)**m >= (max/exact)**j."""
    exact = buckets // 2
    if away < exact:
        return away
    m, step = buckets - exact, 0
    while away**m * exact ** (step + 1) >= max_distance ** (step + 1) * exact**m:
        step += 1
    return min(exact + step, buckets - 1)


def t5(s: torch.Tensor, c: Call, *, both_sides: bool) -> torch.Tensor:
    bias, longest = c.t["bias"].double(), c.p["max_distance"]
    half = bias.shape[1] // 2 if both_sides else bias.shape[1]
    picked = torch.zeros(c.q.numel(), c.kv.numel(), dtype=torch.int64)
    for m, i in enumerate(c.q.flatten().tolist()):
        for n, j in enumerate(c.kv.flatten().tolist()):
            away = abs(i - j) if both_sides else max(i - j, 0)
            bucket = t5_bucket(away, half, longest)
            picked[m, n] = bucket + (half if both_sides and j > i else 0)
    return s + bias[:, picked]


def by_distance(s: torch.Tensor, c: Call) -> torch.Tensor:
    bias = c.t["bias"].double()
    centre = bias.shape[1] // 2
    return s + bias[:, (c.q - c.kv).clamp(-centre, bias.shape[1] - 1 - centre) + centre]


def by_offset(s: torch.Tensor, c: Call) -> torch.Tensor:
    bias, width = c.t["bias"].double(), c.p["width"]
    rows, columns = bias.shape[1:]
    total = s.clone()
    for m, i in enumerate(c.q.flatten().tolist()):
        for n, j in enumerate(c.kv.flatten().tolist()):
            y = i // width - j // width + rows // 2
            x = i % width - j % width + columns // 2
            if 0 <= y < rows and 0 <= x < columns:
                total[:, :, m, n] = total[:, :, m, n] + bias[:, y, x]
    return total


def by_graph(s: torch.Tensor, c: Call) -> torch.Tensor:
    bias, dist = c.t["bias"].double(), c.t["dist"].long()
    columns = dist.shape[2]
    keys = c.kv.flatten()
    inside = (keys >= 0) & (keys < columns)
    edges = dist[:, :, keys.clamp(0, columns - 1)]
    known = inside & (edges < bias.shape[1])
    found = bias[:, edges.clamp(max=bias.shape[1] - 1)].transpose(0, 1)
    # A pair beyond the table has distance 0.
    found = torch.where(inside, found, bias[:, 0].view(1, -1, 1, 1))
    return s + torch.where((known | ~inside)[:, None], found, 0.0)


def of_keys(table: torch.Tensor, c: Call) -> torch.Tensor:
    """The last axis of a table by position of the key, 0 beyond it."""
    keys = c.kv.flatten()
    inside = (keys >= 0) & (keys < table.shape[-1])
    return torch.where(inside, table.double()[..., keys.clamp(0, table.shape[-1] - 1)], 0.0)


FOLDER_FORMULAS: dict[str, Formula] = {
    "causal_start": Formula(causal, from_start=True),
    "two_sided_window": Formula(
        lambda c: (c.kv >= c.q - c.p["left"]) & (c.kv <= c.q + c.p["right"]),
        parameters={"left": 4, "right": 2},
    ),
    "dilated_window": Formula(
        lambda c: ((c.q - c.kv).abs() <= c.p["reach"]) & ((c.q - c.kv) % c.p["dilation"] == 0),
        parameters={"reach": 7, "dilation": 3},
    ),
    "global_window": Formula(
        globals_and_window,
        parameters={"reach": 2},
        tables=lambda batch, heads, q_len, kv_len: {
            "is_global": (torch.arange(kv_len) % 9 == 1).expand(batch, kv_len).contiguous()
        },
    ),
    "block_diagonal": Formula(
        lambda c: (c.q.double() / c.p["chunk"]).floor() == (c.kv.double() / c.p["chunk"]).floor(),
        parameters={"chunk": 6},
    ),
    "chunked_causal": Formula(
        lambda c: causal(c) & ((c.q / c.p["chunk"]).floor() == (c.kv / c.p["chunk"]).floor()),
        parameters={"chunk": 7},
    ),
    "mini_causal": Formula(
        lambda c: each_pair(c, lambda b, i, j: i % c.p["period"] >= j % c.p["period"], 1),
        parameters={"period": 8},
    ),
    "tree_causal": Formula(tree, tables=tree_tables),
    "neighborhood_2d": Formula(neighborhood, parameters={"width": 5, "height": 6, "kernel": 3}),
    "sliding_tile_2d": Formula(
        sliding_tiles, parameters={"tile_size": 2, "width": 4, "height": 3, "kernel": 3}
    ),
    "sliding_tile_3d": Formula(
        sliding_tiles,
        parameters={"tile_size": 1, "width": 3, "height": 3, "frames": 4, "kernel": 3},
    ),
    "block_map": Formula(blocks, parameters={"block": 5}, tables=block_table),
    "bit_packed": Formula(bits, tables=bit_table),
    "key_padding": Formula(
        lambda c: c.kv < c.t["valid"].view(-1, 1, 1, 1),
        tables=lambda batch, heads, q_len, kv_len: {
            "valid": torch.arange(batch, dtype=torch.int32) * 11
        },
    ),
    "document_full": Formula(same_document, tables=documents),
    "packed_causal": Formula(packed_causal, tables=starts),
    "document_sinks_window": Formula(
        sinks_in_documents, parameters={"n_sink": 2, "window": 3}, tables=documents_with_starts
    ),
    "shared_prefix": Formula(shared_prefix, tables=documents),
    "alibi_symmetric": Formula(
        score=lambda s, c: s - per_head(slopes(s.shape[1])) * (c.q - c.kv).abs()
    ),
    "t5_bias": Formula(
        score=lambda s, c: t5(s, c, both_sides=True),
        scale=1.0,
        parameters={"max_distance": 16},
        tables=drawn(bias=("heads", 16)),
    ),
    "t5_bias_causal": Formula(
        causal,
        lambda s, c: t5(s, c, both_sides=False),
        scale=1.0,
        parameters={"max_distance": 20},
        tables=drawn(bias=("heads", 10)),
    ),
    "relative_bias": Formula(score=by_distance, tables=drawn(bias=("heads", 13))),
    "grid_bias": Formula(
        score=by_offset, parameters={"width": 4}, tables=drawn(bias=("heads", 9, 7))
    ),
    "full_bias": Formula(
        score=lambda s, c: s + of_keys(c.t["bias"], c),
        tables=lambda *sizes: {
            "bias": drawn(bias=("batch", "heads", "q_len", "kv_len"))(*sizes)["bias"].bfloat16()
        },
    ),
    "batch_bias": Formula(
        score=lambda s, c: s + of_keys(c.t["bias"], c)[:, None, None, :],
        tables=drawn(bias=("batch", "kv_len")),
    ),
    "head_and_row_bias": Formula(
        score=lambda s, c: s + per_head(c.t["head"]) + c.t["row"].double().view(-1, 1),
        tables=drawn(head=("heads",), row=("q_len",)),
    ),
    "double_score": Formula(score=lambda s, c: s + s),
    "squared_score": Formula(score=lambda s, c: s**2),
    "temperature": Formula(
        score=lambda s, c: s * per_head(c.t["temperature"]), tables=drawn(temperature=("heads",))
    ),
    "graphormer": Formula(score=by_graph, tables=graph_tables),
    "distance_score": Formula(
        score=lambda s, c: 0.0 * s + (c.q - c.kv).double() * c.p["slope"], parameters={"slope": 0.3}
    ),
    "learned_sink": Formula(
        lambda c: (c.kv <= c.q) & (c.kv > c.q - c.p["window"]),
        sink=lambda c: per_head(c.t["sinks"]),
        parameters={"window": 6},
        tables=drawn(sinks=("heads",)),
    ),
    "softmax_plus_one": Formula(causal, sink=lambda c: torch.zeros((), dtype=torch.float64)),
}  # fmt: skip
