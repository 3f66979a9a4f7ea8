"""Reports as text for a terminal: legible without colour, and never cut where it is piped."""

from __future__ import annotations

import io
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fagen.cli.building import Built, Checked, worst_of
from fagen.cli.costing import Costs
from fagen.codegen.explain import LEGEND, Explanation, RoleText
from fagen.device.outcome import Result
from fagen.verify.report import CaseResult, Report

#: Columns for a pipe or a file, where nobody's window is too narrow.
PIPED_WIDTH = 160


def width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPED_WIDTH


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], right: str = "") -> str:
    """Aligned columns; those named in `right` (words) are numbers."""
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in headings:
        justify = "right" if heading in right.split() else "left"
        grid.add_column(Text(heading), justify=justify, overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        grid.add_row(*(Text(cell) for cell in row))
    # Not captured from stdout: that would write to it.
    printed, terminal = io.StringIO(), sys.stdout.isatty()
    Console(
        file=printed,
        width=width(),
        color_system="auto" if terminal else None,
        force_terminal=terminal,
    ).print(grid)
    return "\n".join(line.rstrip() for line in printed.getvalue().rstrip("\n").split("\n"))


def built(result: Built) -> str:
    """What a build made: where, what each kernel takes, and how it was proven."""
    rendering = result.rendering
    lines = len(rendering.text.splitlines())
    state = {True: "written", False: "unchanged", None: "NOT written"}[result.written]
    head = f"{rendering.variant.name}: {rendering.path} {state}"
    parts = [f"{head} ({lines} lines, spec {rendering.variant.hash})", _kernels(result)]
    for build, outcome in zip(result.builds, result.results, strict=True):
        if outcome.detail and outcome.outcome != "spilled":
            where = f"{build.role} for {build.target}, {build.shape.dtype} {build.shape.head_dim}"
            parts.append(f"{where}: {outcome.outcome.replace('_', ' ')}\n{outcome.detail}")
    if result.report is None:
        parts.append("not verified (--no-verify)")
    else:
        parts.append(_proof(result.report))
        if not result.report.ok:
            parts.append("The file in place, if any, is as it was; --no-verify writes regardless.")
    return "\n".join(parts)


def _kernels(result: Built) -> str:
    rows = []
    for build, outcome in zip(result.builds, result.results, strict=True):
        row, shape = build.row, build.shape
        tiles = f"{row.block_m}x{row.block_n}, warps {row.num_warps}, stages {row.num_stages}"
        rows.append(
            [build.role, build.target, f"{shape.dtype} {shape.head_dim}", tiles, *_taken(outcome)]
        )
    headings = ["kernel", "target", "heads of", "config", "shared", "registers", "spills", ""]
    return textwrap.indent(table(headings, rows, "shared registers spills"), "  ")


def _taken(result: Result) -> list[str]:
    verdict = "" if result.outcome in ("ok", "spilled") else result.outcome.replace("_", " ")
    used = result.resources
    if used is None:
        return ["-", "-", "-", verdict]
    spills = f"{used.spilled} B" if used.spilled else "none"
    return [f"{used.shared / 1024:.1f} KiB", str(used.registers), spills, verdict]


def _proof(report: Report) -> str:
    worst = worst_of(report)
    nearest = f", worst error {worst.worst:.2f} of its limit ({worst.name})" if worst else ""
    how = f"on {report.device} in {report.seconds:.0f} s, seed {report.seed}"
    if report.ok:
        return f"verified {how}: {len(report.cases)} cases{nearest}"
    failures = "\n".join(failed(case) for case in report.failures)
    return f"WRONG {how}: {len(report.failures)} of {len(report.cases)} cases fail\n{failures}"


def failed(case: CaseResult) -> str:
    """A case and why it failed."""
    said = f": {case.message}" if case.message else ""
    return f"  {case.name}: {case.outcome.replace('_', ' ')}{said}"


def verified(name: str, report: Report) -> str:
    """Every case of a verification."""
    rows = [
        [
            case.name,
            case.outcome.replace("_", " "),
            f"{case.worst:.2f}" if case.measures else "",
            f"{case.seconds:.1f} s",
        ]
        for case in report.cases
    ]
    headings = ["case", "outcome", "error/limit", "time"]
    cases = textwrap.indent(table(headings, rows, "error/limit time"), "  ")
    return f"{name}\n{cases}\n{_proof(report)}"


def checked(result: Checked) -> str:
    why = f" ({result.why})" if result.why else ""
    return f"{result.rendering.path}: {result.state}{why}"


def explained(explanation: Explanation, costs: Costs) -> str:
    """The whole explanation, one part after another."""
    parts = [_heading(explanation.name), explanation.description, ""]
    asked = {
        "mask": explanation.mask,
        "score": explanation.score,
        "scale": explanation.scale,
        "sink": explanation.sink,
    }
    parts += _pairs({key: value for key, value in asked.items() if value is not None})
    rewrites = explanation.rewrites
    parts += ["", _heading("Score in base 2")]
    parts += ["LOG2E * score = post_scale * tile_score + LOG2E * row_term"]
    parts += _pairs(
        {
            "tile_score": rewrites.tile_score,
            "post_scale": f"{rewrites.post_scale}  ({rewrites.post_scale_sign})",
            "row_term": f"{rewrites.row_term}{_row_note(rewrites.row_term)}",
            "q.k": "computed" if rewrites.reads_qk else "not needed, and not computed",
        }
    )
    parts += ["", _heading("Derivative"), f"  d score / d (q.k * scale) = {explanation.derivative}"]
    for role in explanation.roles:
        parts += ["", *_role(role)]
    parts += ["", *_costs(costs), "", _heading("Names"), *_pairs(LEGEND)]
    return "\n".join(parts)


def _row_note(row_term: str) -> str:
    return "" if row_term == "0.0" else "  (cancels in softmax: left out of tiles, added to lse)"


def _costs(costs: Costs) -> list[str]:
    p, c = costs.problem, costs.cost
    problem = (
        f"batch {p.batch}, heads {p.heads} over {p.kv_heads}, q_len {p.q_len}, kv_len {p.kv_len}, "
        f"head_dim {p.head_dim}, head_dim_v {p.head_dim_v}, {costs.dtype}"
    )
    pairs = f"{_si(c.pairs).strip()} of {_si(c.square).strip()} ({100 * c.density:.1f} %)"
    if costs.unknown:
        given = " ".join(f"--table {name}=FILE.npy" for name in costs.unknown)
        pairs += f", at most: `{', '.join(costs.unknown)}` decides, give it with {given}"
    elif not c.exact:
        pairs += ", at most: so many pairs are not looked at one by one"
    tables = f"{_si(c.table_bytes)}B"
    if not costs.tables_counted:
        tables = "not counted: one is not given"
    return [
        _heading("FLOPs and bytes"),
        *_pairs(
            {
                "problem": problem,
                "live pairs": pairs,
                "tables": tables,
                "forward": _traffic(c.forward_flops, c.forward_bytes, c.naive_forward_bytes),
                "backward": _traffic(c.backward_flops, c.backward_bytes, c.naive_backward_bytes),
                "as built": f"backward {_si(c.backward_flops_split)}FLOP: both of its kernels "
                "recompute scores and dP, so that neither needs atomics",
            }
        ),
    ]


def _traffic(flops: int, least: int, naive: int) -> str:
    return f"{_si(flops)}FLOP, {_si(least)}B at least; {_si(naive)}B if scores were stored"


def _si(number: int) -> str:
    """Four digits and a prefix of the SI: 274.9 G."""
    value, prefixes = float(number), ["", "k", "M", "G", "T", "P"]
    while value >= 999.95 and len(prefixes) > 1:
        value /= 1000
        prefixes.pop(0)
    return f"{value:.1f} {prefixes[0]}" if prefixes[0] else f"{number} "


_KERNELS = {
    "forward": "holds BLOCK_M queries, streams tiles of keys",
    "dkdv": "holds BLOCK_N keys, streams tiles of queries, head after head of its group",
    "dq": "holds BLOCK_M queries, streams tiles of keys",
}


def _role(role: RoleText) -> list[str]:
    parts = [_heading(f"{role.role}: {_KERNELS[role.role]}")]
    parts += _pairs({f"{axis} is": what for axis, what in role.axes.items()})
    for number, segment in enumerate(role.segments, 1):
        parts.append(f"segment {number} of {len(role.segments)}")
        entries = {
            "pairs only where": segment.live,
            "solved holds where": segment.full,
            "solved": "\n".join(segment.solved),
            "still tested": segment.tested,
            "only if": segment.gate,
        }
        parts += _pairs({key: value for key, value in entries.items() if value})
    parts += ["walk (tiles of the streamed side)", *_wrapped(role.steps)]
    visits = {"with mask": role.masked_tiles, "without": role.full_tiles}
    parts += _pairs({f"visit {k}": ", ".join(v) for k, v in visits.items() if v})
    parts.append("computed")
    parts += _pairs({life: "\n".join(texts) for life, texts in role.lifetimes.items()})
    return parts


def _heading(text: str) -> str:
    return f"{text}\n{'-' * len(text)}"


def _pairs(entries: dict[str, str]) -> list[str]:
    """`key  value` with the values in one column, wrapped under themselves."""
    room = max(map(len, entries), default=0) + 4
    lines = []
    for key, value in entries.items():
        texts = [
            line
            for one in value.split("\n")
            for line in textwrap.wrap(
                one, max(40, width() - room), subsequent_indent="  ", break_long_words=False
            )
        ]
        lines += [f"  {key if i == 0 else '':<{room - 4}}  {t}" for i, t in enumerate(texts)]
    return lines


def _wrapped(lines: Iterable[str]) -> list[str]:
    room = max(60, width() - 2)
    return [
        part
        for line in lines
        for part in textwrap.wrap(
            line, room, initial_indent="  ", subsequent_indent="      ", break_long_words=False
        )
    ]
