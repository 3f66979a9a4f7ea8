"""Many random trials, run side by side, counted, and the failing ones made small and kept."""

from __future__ import annotations

import os
import queue
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Literal

from fagen.verify.fuzz.calls import draw_case
from fagen.verify.fuzz.compiled import compile_trial
from fagen.verify.fuzz.crew import Worker
from fagen.verify.fuzz.documents import draw_document
from fagen.verify.fuzz.features import CALL, PLAN
from fagen.verify.fuzz.language import grammar, used
from fagen.verify.fuzz.outcomes import Outcome, Trial
from fagen.verify.fuzz.record import save
from fagen.verify.fuzz.shrink import shrink

Device = Literal["cpu", "cuda"]
#: Failures of one kind that are made small; further ones are only counted.
MOST_OF_A_KIND = 2
#: Seconds spent on making one failure small.
SHRINK_SECONDS = 60.0


@dataclass(frozen=True)
class Finding:
    """A failing trial; `small` is what shrinking left of it, `path` where it was kept."""

    number: int
    trial: Trial
    outcome: Outcome
    small: Trial
    path: Path | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "seed": self.number,
            "kind": self.outcome.kind,
            "message": self.outcome.message,
            "files": self.small.draft.texts(),
            "kept": str(self.path) if self.path else None,
        }


@dataclass
class Summary:
    """What a campaign found. `counts` by verdict, `refusals` by reason, `coverage` by label."""

    seed: int
    device: Device
    counts: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    coverage: Counter[str] = field(default_factory=Counter)
    features: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def trials(self) -> int:
        return sum(self.counts.values())

    @property
    def ok(self) -> bool:
        return self.trials > 0 and not self.kinds

    @property
    def gaps(self) -> list[str]:
        """Parts of the language, plan features and properties of calls that never came up."""
        missing = [label for label in sorted(grammar()) if not self.coverage[label]]
        return missing + [label for label in (*PLAN, *CALL) if not self.features[label]]

    def to_json(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "seed": self.seed,
            "device": self.device,
            "seconds": self.seconds,
            "trials": self.trials,
            "counts": dict(self.counts),
            "refusals": dict(self.refusals),
            "kinds": dict(self.kinds),
            "grammar": {label: self.coverage[label] for label in sorted(grammar())},
            "features": {label: self.features[label] for label in (*PLAN, *CALL)},
            "gaps": self.gaps,
            "findings": [f.to_json() for f in self.findings],
        }


def draw_trial(number: int, device: Device) -> Trial:
    """The trial of a seed: the same on every machine."""
    rng = Random(number)
    drawn = draw_document(rng)
    return Trial(drawn.draft, draw_case(rng, drawn.ledger, device), number, device)


def campaign(
    *,
    count: int,
    seed: int,
    device: Device,
    seconds: float | None = None,
    workers: int | None = None,
    keep: Path | None = None,
    on_outcome: Callable[[int, Outcome], None] | None = None,
    limit: float | None = None,
    target: str | None = None,
) -> Summary:
    """Runs the trials of `count` seeds from `seed` on, or as many as `seconds` allow.

    `workers` processes (default: one a core), `limit` seconds for one trial. With `target`, a GPU
    that need not be there, kernels are compiled for it too. Failures are shrunk and, with `keep`,
    written there, each into a folder of its own.
    """
    started = time.monotonic()
    deadline = None if seconds is None else started + seconds
    summary = Summary(seed, device)
    found: list[tuple[int, Trial, Outcome]] = []
    with _Crew(device, workers or os.cpu_count() or 1, limit, target) as crew:
        for number, trial, outcome in crew.outcomes(_trials(count, seed, device, deadline)):
            _count(summary, trial, outcome)
            if outcome.is_fault and summary.kinds[outcome.kind] <= MOST_OF_A_KIND:
                found.append((number, trial, outcome))
            if on_outcome is not None:
                on_outcome(number, outcome)
        for number, trial, outcome in sorted(found, key=lambda f: f[0]):
            small = shrink(trial, outcome, crew.run, SHRINK_SECONDS)
            path = None
            if keep is not None:
                path = save(keep / str(number), small, outcome, drawn_from=number)
            summary.findings.append(Finding(number, trial, outcome, small, path))
    summary.seconds = time.monotonic() - started
    return summary


def _trials(
    count: int, seed: int, device: Device, deadline: float | None
) -> Iterator[tuple[int, Trial]]:
    for number in range(seed, seed + count):
        if deadline is not None and time.monotonic() > deadline:
            return
        yield number, draw_trial(number, device)


def _count(summary: Summary, trial: Trial, outcome: Outcome) -> None:
    summary.counts[outcome.verdict] += 1
    summary.features.update(outcome.features)
    if outcome.verdict == "refused":
        summary.refusals[re.sub(r"`[^`]*`", "`_`", outcome.message)] += 1
    else:
        summary.coverage.update(label for label in used(trial.draft) if label in grammar())
    if outcome.is_fault:
        summary.kinds[outcome.kind] += 1


class _Crew:
    """Workers that take trials as they come free."""

    def __init__(
        self, device: Device, workers: int, limit: float | None, target: str | None
    ) -> None:
        self.target = target
        self.workers = [Worker(device, limit) for _ in range(workers)]
        self.idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        for worker in self.workers:
            self.idle.put(worker)

    def __enter__(self) -> _Crew:
        return self

    def __exit__(self, *exception: object) -> None:
        for worker in self.workers:
            worker.close()

    def run(self, trial: Trial) -> Outcome:
        worker = self.idle.get()
        try:
            outcome = worker.run(trial)
        finally:
            self.idle.put(worker)
        if self.target is None or outcome.verdict != "ok":
            return outcome
        compiled = compile_trial(trial, self.target)
        return outcome if compiled.verdict == "ok" else compiled

    def outcomes(self, trials: Iterator[tuple[int, Trial]]) -> Iterator[tuple[int, Trial, Outcome]]:
        """In the order in which they come; few trials are drawn ahead."""
        running: dict[Future[Outcome], tuple[int, Trial]] = {}
        pool = ThreadPoolExecutor(len(self.workers))
        try:
            for number, trial in trials:
                running[pool.submit(self.run, trial)] = (number, trial)
                if len(running) >= 2 * len(self.workers):
                    yield from self._finished(running)
            while running:
                yield from self._finished(running)
        finally:
            for worker in self.workers if running else ():
                worker.stop()  # ends what it runs, so that the pool does not wait for it
            pool.shutdown(cancel_futures=True)

    @staticmethod
    def _finished(
        running: dict[Future[Outcome], tuple[int, Trial]],
    ) -> list[tuple[int, Trial, Outcome]]:
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        return [(*running.pop(future), future.result()) for future in done]
