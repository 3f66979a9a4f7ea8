"""Makes a failing trial smaller while it still fails in the same way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from fagen.verify.cases import Case
from fagen.verify.fuzz.outcomes import Outcome, Trial
from fagen.verify.fuzz.smaller import smaller_drafts

Run = Callable[[Trial], Outcome]


def shrink(trial: Trial, outcome: Outcome, run: Run, seconds: float = 120.0) -> Trial:
    """The smallest trial found in the time whose outcome is of the same kind."""
    deadline = time.monotonic() + seconds

    def fails(candidate: Trial) -> bool:
        found = run(candidate)
        return (
            found.verdict == outcome.verdict
            and found.stage == outcome.stage
            and (found.verdict == "wrong" or found.kind == outcome.kind)
        )

    progress = True
    while progress:
        progress = False
        for candidates in (smaller_cases, _with_smaller_drafts):
            found = _first(candidates(trial), fails, deadline)
            while found is not None:
                trial, progress = found, True
                found = _first(candidates(trial), fails, deadline)
        if time.monotonic() > deadline:
            break
    return trial


def _first(
    candidates: Iterator[Trial], fails: Callable[[Trial], bool], deadline: float
) -> Trial | None:
    for candidate in candidates:
        if time.monotonic() > deadline:
            return None
        if fails(candidate):
            return candidate
    return None


def _with_smaller_drafts(trial: Trial) -> Iterator[Trial]:
    for draft in smaller_drafts(trial.draft):
        yield replace(trial, draft=draft)


PLAIN = Case("fuzz", batch=1, heads=1, kv_heads=1, q_len=17, kv_len=17, tiles=None)
#: Fields that are taken from PLAIN where the failure allows it, most telling first.
FIELDS = (
    "check", "deterministic_fill", "layout", "loss", "magnitude", "tables", "scale", "offsets",
    "dtype", "batch", "head_dim", "head_dim_v",
)  # fmt: skip


def smaller_cases(trial: Trial) -> Iterator[Trial]:
    case = trial.case
    if case.heads > 1:
        group = case.heads // case.kv_heads
        yield replace(trial, case=replace(case, heads=1, kv_heads=1))
        if case.kv_heads > 1 and group > 1:
            yield replace(trial, case=replace(case, heads=group, kv_heads=1))
    for field in FIELDS:
        plain = getattr(PLAIN, field)
        if getattr(case, field) != plain:
            yield replace(trial, case=replace(case, **{field: plain}))
    for field in ("q_len", "kv_len"):
        length = getattr(case, field)
        for shorter in sorted({1, 2, 5, 17, length // 2, length - 1}):
            if 0 < shorter < length:
                yield replace(trial, case=replace(case, **{field: shorter}))
    for name, _ in case.values:
        fewer = tuple(v for v in case.values if v[0] != name)
        yield replace(trial, case=replace(case, values=fewer))
