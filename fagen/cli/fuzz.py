"""`fagen fuzz`: random variants against float64, or one kept failure again."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from fagen.cli.problems import UserError
from fagen.cli.targets import target_of
from fagen.codegen.write import ready_folder
from fagen.device.local import local_targets
from fagen.verify.fuzz import record
from fagen.verify.fuzz.campaign import Finding, Summary, campaign
from fagen.verify.fuzz.crew import Worker
from fagen.verify.fuzz.outcomes import Outcome

Kind = Literal["cpu", "cuda"]
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def run(
    *,
    count: int | None,
    seed: int | None,
    budget: str | None,
    device: str,
    workers: int | None,
    keep: Path | None,
    target: str | None,
    say: Callable[[str], None],
) -> Summary:
    """A campaign as the options ask for it: 100 trials where neither count nor time is given."""
    kind = _kind(device)
    target = None if target is None else target_of(target)
    seconds = None if budget is None else seconds_of(budget)
    if count is None:
        count = 100 if seconds is None else 10**9
    if keep is not None:
        ready_folder(keep)
    if seed is None:
        seed = random.SystemRandom().randrange(2**31)
    say(f"seeds from {seed}, on {kind}")

    def progress(number: int, outcome: Outcome) -> None:
        if outcome.is_fault:
            say(f"seed {number}: {said(outcome)}")

    return campaign(
        count=count, seed=seed, device=kind, seconds=seconds, workers=workers, keep=keep,
        on_outcome=progress, target=target,
    )  # fmt: skip


def again(path: Path) -> Outcome:
    """The outcome of a kept failure, now."""
    try:
        trial = record.load(path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        hint = "give the JSON file of a failure that `--keep` wrote"
        raise UserError(f"cannot read `{path}`: {error}", hint) from None
    with Worker(_kind(trial.device)) as worker:
        return worker.run(trial)


def seconds_of(budget: str) -> float:
    """`90s`, `10m`, `1.5h` or plain seconds; raises UserError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", budget.strip())
    if found is None:
        raise UserError(f"`{budget}` is no time", "write it as 90s, 10m or 1h")
    return float(found[1]) * _UNITS[found[2]]


def _kind(device: str) -> Kind:
    present = bool(local_targets())
    if device == "cuda" and not present:
        raise UserError("there is no CUDA device here", "`--device cpu` interprets")
    return "cuda" if present and device != "cpu" else "cpu"


def said(outcome: Outcome) -> str:
    """A verdict and why, on one line but for what an exception said."""
    why = f": {outcome.message}" if outcome.message else ""
    return f"{outcome.verdict.replace('_', ' ')}{why}"


def report(summary: Summary) -> str:
    """Verdicts, coverage and failures, for a terminal."""
    counts = ", ".join(f"{n} {v.replace('_', ' ')}" for v, n in summary.counts.most_common())
    parts = [
        f"{summary.trials} variants from seed {summary.seed} on {summary.device} "
        f"in {summary.seconds:.0f} s: {counts}"
    ]
    for title, counter in (
        ("refused by the language", summary.refusals),
        ("of the language", summary.coverage),
        ("of plans and calls", summary.features),
    ):
        if counter:
            rows = [f"  {n:>6}  {label}" for label, n in counter.most_common()]
            parts += ["", title, *rows]
    if summary.gaps:
        parts += ["", "never met", *(f"  {label}" for label in summary.gaps)]
    for finding in summary.findings:
        parts += ["", *_finding(finding)]
    return "\n".join(parts)


def _finding(finding: Finding) -> list[str]:
    texts = [
        line
        for name, text in finding.small.draft.texts().items()
        for line in (f"  # {name}", *(f"  {line}" for line in text.splitlines()))
    ]
    kept = [f"  fagen fuzz --replay {finding.path}"] if finding.path else []
    return [f"seed {finding.number}: {said(finding.outcome)}", *texts, *kept]
