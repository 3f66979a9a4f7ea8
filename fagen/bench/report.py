"""The speed table as Markdown, from the record that first_table writes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

DIRECTIONS = ("forward", "backward")

#: Least ratio of our speed to FlexAttention's, forward and backward; no entry, no bar.
BARS: dict[str, dict[str, float]] = {
    "full": {"forward": 1.05, "backward": 1.0},
    "causal": {"forward": 1.15, "backward": 1.0},
    "sliding_window": {"forward": 1.15, "backward": 1.0},
    "prefix_lm": {"forward": 1.15, "backward": 1.0},
    "alibi": {"forward": 1.15, "backward": 1.0},
    "document": {"forward": 1.4, "backward": 1.4},
    "softcap": {"forward": 2.0, "backward": 1.5},
    "chunked_causal": {"forward": 1.1, "backward": 1.1},
    "neighborhood_2d": {"forward": 1.1, "backward": 1.1},
    "block_map": {"forward": 1.1, "backward": 1.1},
    "tree_causal": {"forward": 1.1, "backward": 1.1},
    "dilated_window": {"forward": 1.1, "backward": 1.1},
    "full_bias": {"forward": 1.2},
    "t5_bias": {"forward": 1.2},
    "head_and_row_bias": {"forward": 1.2},
}

Cell = Mapping[str, Any]


def geometric_mean(values: Iterable[float]) -> float | None:
    """The geometric mean of positive numbers; None of no numbers."""
    logs = [math.log(value) for value in values]
    return math.exp(math.fsum(logs) / len(logs)) if logs else None


def speed(cell: Cell, peer: str, direction: str) -> float | None:
    """TFLOP/s of a peer in a cell; None where it was not timed."""
    found = cell.get("results", {}).get(peer, {}).get(direction)
    return None if found is None else found["tflops"]


def ratio(cell: Cell, direction: str, peer: str = "flex") -> float | None:
    """Our speed over the peer's; None where either was not timed."""
    ours, theirs = speed(cell, "ours", direction), speed(cell, peer, direction)
    return None if ours is None or theirs is None else ours / theirs


def verdict(variant: str, direction: str, value: float | None) -> str:
    """`met` or `missed` with the bar, judged on the unrounded ratio; empty without a bar."""
    bar = BARS.get(variant, {}).get(direction)
    if bar is None:
        return ""
    if value is None:
        return f"not timed ({bar:g})"
    return f"{'met' if value >= bar else '**missed**'} ({bar:g})"


def _number(value: float | None, form: str = ".0f") -> str:
    return "-" if value is None else format(value, form)


def _row(values: Sequence[str]) -> str:
    return f"| {' | '.join(values)} |"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    alignment = ["---", *["---:"] * (len(heads) - 1)]
    return [_row(heads), _row(alignment), *(_row(row) for row in rows)]


def shape_table(cells: Sequence[Cell], matmul_tflops: float | None) -> list[str]:
    """One shape's lines: a row a variant and the geometric mean of the ratios."""
    heads = ["variant"]
    for direction in DIRECTIONS:
        heads += [f"{direction} ours", "Flex", "cuDNN", "ours / Flex", "bar", "of matmul"]
    rows = []
    for cell in cells:
        row = [cell["variant"]]
        for direction in DIRECTIONS:
            ours, times = speed(cell, "ours", direction), ratio(cell, direction)
            share = ours / matmul_tflops if ours and matmul_tflops else None
            row += [
                _number(ours),
                _number(speed(cell, "flex", direction)),
                _number(speed(cell, "cudnn", direction)),
                _number(times, ".2f"),
                verdict(cell["variant"], direction, times),
                _number(share, ".0%"),
            ]
        rows.append(row)
    mean = ["geometric mean"]
    for direction in DIRECTIONS:
        known = [r for cell in cells if (r := ratio(cell, direction)) is not None]
        mean += ["", "", "", _number(geometric_mean(known), ".2f"), "", ""]
    return _table(heads, [*rows, mean])


def _trouble(cells: Sequence[Cell]) -> list[str]:
    lines = []
    for cell in cells:
        place = f"{cell['variant']} at {cell['shape']}"
        if cell.get("refused"):
            lines.append(f"- {place}: not timed, {cell['refused']}")
        for peer, result in cell.get("results", {}).items():
            lines += [f"- {place}, {peer}: {text}" for text in result.get("errors", {}).values()]
    return ["## Refused and failed", "", *lines, ""] if lines else []


def _side_facts(cells: Sequence[Cell]) -> list[str]:
    rows = []
    for cell in cells:
        results = cell.get("results", {})
        errors = [e for checked in cell.get("errors", {}).values() for e in checked.values()]
        rows.append(
            [
                cell["variant"],
                cell["shape"],
                str(cell.get("live_pairs", "-")),
                _number(max(errors, default=None), ".1e"),
                _number(max(cell.get("against_flex", {}).values(), default=None), ".1e"),
                _number(cell.get("block_mask_ms"), ".1f"),
                _options(results.get("flex", {}).get("notes", {}).get("options")),
                _number(_spread(cell), ".1%"),
            ]
        )
    heads = [
        "variant", "shape", "live pairs", "error to float64", "difference to Flex",
        "Flex block mask ms", "Flex options", "spread of rounds",
    ]  # fmt: skip
    return ["## Behind each row", "", *_table(heads, rows), ""]


def _options(options: Mapping[str, Any] | None) -> str:
    if options is None:
        return "-"
    return " ".join(f"{n}={x}" for n, x in options.items()) or "default"


def _spread(cell: Cell) -> float | None:
    """The largest (slowest - fastest) / median over the rounds of any timed contestant."""
    spreads = [
        (max(found["rounds_ms"]) - min(found["rounds_ms"])) / found["median_ms"]
        for result in cell.get("results", {}).values()
        for direction in DIRECTIONS
        if (found := result.get(direction)) is not None
    ]
    return max(spreads, default=None)


def _host_lines(host: Mapping[str, Any]) -> list[str]:
    if not host:
        return []
    lines = ["## Host cost of a call (microseconds, shape 1,2,2,64,64)", ""]
    for variant, measured in host.items():
        peers: Mapping[str, Any] = measured.get("calls", {})
        kinds = ("forward, no grad", "forward, grad", "forward and backward")
        rows = [
            [peer, *(_number(found.get(kind), ".1f") for kind in kinds), found.get("error", "")]
            for peer, found in peers.items()
        ]
        lines += [f"### {variant}", "", *_table(["peer", *kinds, "error"], rows), ""]
        parts = measured.get("parts", {})
        for part, value in parts.items():
            lines.append(f"- {part}: {value if isinstance(value, str) else format(value, '.1f')}")
        lines += [""] if parts else []
    return lines


def _first_lines(first: Mapping[str, Any]) -> list[str]:
    if not first.get("peers"):
        return []
    steps = ("import", "first forward", "first backward", "second forward", "second backward")
    rows = [
        [peer, *(_number(found.get(step), ".2f") for step in steps), found.get("error", "")]
        for peer, found in first["peers"].items()
    ]
    title = f"## First call (seconds; {first['variant']} at {first['shape']}, empty caches)"
    return [title, "", *_table(["peer", *steps, "error"], rows), ""]


def render(record: Mapping[str, Any]) -> str:
    """The whole report: a table a shape, then the facts behind it. Cells may be incomplete."""
    source, cells = record["provenance"], record["cells"]
    card = (source.get("card") or {}).get("name", "no GPU")
    rate = record.get("matmul_tflops")
    lines = [
        "# Speed against FlexAttention and cuDNN",
        "",
        f"{card}, driver {source['driver']}, torch {source['torch']}, triton {source['triton']}, "
        f"cuDNN {source['cudnn']}, fagen {source['fagen']} ({source['commit'] or 'no commit'}), "
        f"{source['date']}. bf16, TFLOP/s over live pairs (4 x pairs x head_dim forward, "
        f"10 x backward); medians of {record['rounds']} interleaved rounds. "
        f"8k bf16 matrix product: {_number(rate)} TFLOP/s. "
        f"Checked in float64 against {' and '.join(record['references'])}.",
        "",
        "Made by `" + " ".join(source["command"]) + "`",
        "",
    ]
    for shape in dict.fromkeys(cell["shape"] for cell in cells):
        here = [cell for cell in cells if cell["shape"] == shape]
        title = f"## (batch, heads, kv_heads, length, head_dim) = ({shape})"
        lines += [title, "", *shape_table(here, rate), ""]
    lines += _trouble(cells)
    lines += _side_facts(cells)
    lines += _host_lines(record.get("host_cost", {}))
    lines += _first_lines(record.get("first_call", {}))
    return "\n".join(lines).rstrip() + "\n"
