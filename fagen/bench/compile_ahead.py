"""Everything a table compiles, on all cores before the first race: our kernels, Flex's options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fagen.bench.cases import case_of
from fagen.bench.farm import Answer, farm
from fagen.bench.flex_search import FlexTrial, TrialResult, candidates, run_trial
from fagen.bench.modules import call, configs_for, import_module
from fagen.bench.peers import Contestant
from fagen.bench.problem import Problem
from fagen.bench.run import Run
from fagen.bench.timing import seconds_of

#: Share of the run's budget after which no further trial starts.
SEARCH_SHARE = 0.42


@dataclass(frozen=True)
class WarmUp:
    """A job: compile our kernels of one variant and problem into Triton's cache."""

    path: str
    variant: str
    problem: Problem
    configs: Mapping[str, Mapping[str, int]]
    device: str


def run_job(job: WarmUp | FlexTrial, turn: Any) -> Any:
    """The farm's function: a trial of FlexAttention's options, or a warm-up of ours."""
    if isinstance(job, FlexTrial):
        return run_trial(job, turn)
    module = import_module(Path(job.path))
    case = case_of(job.variant, job.problem, job.device)
    leaves, d_out = job.problem.inputs(job.device, 0)
    ours = Contestant("ours", call(module, case, leaves, job.configs), leaves)
    return seconds_of(lambda: ours.backward(d_out)())[0]


def search_flex(
    run: Run, variants: Sequence[str], problems: Sequence[Problem], workers: int
) -> dict[tuple[str, Problem], list[TrialResult]]:
    """Tries FlexAttention's options on all cells, and compiles ours, on all cores at once.

    Defaults of every cell come first, then the second candidates: a search out of time is uneven
    in depth by one at most.
    """
    cells = [(variant, problem) for problem in problems for variant in variants]
    # Our kernels are compiled for a head_dim, not for a length or a number of heads.
    structures = {(variant, problem.head_dim): problem for variant, problem in cells}
    jobs: list[WarmUp | FlexTrial] = [
        WarmUp(
            str(run.modules[variant]),
            variant,
            problem,
            configs_for(run.configs, variant, head_dim),
            run.device,
        )
        for (variant, head_dim), problem in structures.items()
    ]
    depth = max(len(candidates("full", problem.head_dim)) for problem in problems)
    for rank in range(depth):
        jobs += [
            FlexTrial(
                variant, problem, candidates(variant, problem.head_dim)[rank], run.device, run.seed
            )
            for variant, problem in cells
        ]

    def on_answer(index: int, answer: Answer) -> None:
        job = jobs[index]
        if isinstance(job, WarmUp):
            run.say(f"compiled {job.variant} {job.problem.label}: {answer.error or 'ok'}")
            return
        errors = answer.value.errors if answer.value else {"job": answer.error}
        for direction, error in errors.items():
            options = " ".join(f"{n}={x}" for n, x in job.options.items()) or "defaults"
            run.say(f"flex {job.variant} {job.problem.label} {direction}, {options}: {error}")

    seconds = run.budget * SEARCH_SHARE - run.elapsed
    answers = farm(run_job, jobs, workers=workers, seconds=seconds, on_answer=on_answer)
    found: dict[tuple[str, Problem], list[TrialResult]] = {cell: [] for cell in cells}
    for job, answer in zip(jobs, answers, strict=True):
        if isinstance(job, FlexTrial):
            result = answer.value or TrialResult(job.options, errors={"job": answer.error or ""})
            found[job.variant, job.problem].append(result)
    return found
