"""FlexAttention's best kernel_options for a case, from a short list tried in worker processes.

Each trial pairs one forward with one backward candidate: their options carry separate prefixes, so
one compilation tries both, and the best of each direction are combined afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from fagen.bench.cases import case_of
from fagen.bench.farm import exclusive, one_line
from fagen.bench.peers import Contestant, FlexOptions, flex, flex_block_mask, prepare_torch
from fagen.bench.problem import Problem
from fagen.bench.timing import milliseconds, seconds_of

DIRECTIONS = ("forward", "backward")
_PREFIX = {"forward": "fwd_", "backward": "bwd_"}

#: Skips Flex's guard against an empty softmax. Legal only where the first tile that a row meets
#: always holds a live key for it: not where a mask is bounded from below, as tiles are smaller than
#: the blocks of the block mask (there it gives NaN).
BOUNDED_BELOW = {
    *("sliding_window", "gemma2_local", "document", "chunked_causal", "neighborhood_2d"),
    *("block_map", "dilated_window"),
}
_SAFE = {"fwd_ROWS_GUARANTEED_SAFE": True, "bwd_ROWS_GUARANTEED_SAFE": True}


def _pair(
    forward: tuple[int, int, int, int],
    backward: tuple[int, int, int, int, int, int],
    **more: bool,
) -> dict[str, int | bool]:
    names = ("BLOCK_M", "BLOCK_N", "num_warps", "num_stages")
    options: dict[str, int | bool] = {f"fwd_{n}": x for n, x in zip(names, forward, strict=True)}
    names_back = ("BLOCK_M1", "BLOCK_N1", "BLOCK_M2", "BLOCK_N2", "num_warps", "num_stages")
    options.update({f"bwd_{n}": x for n, x in zip(names_back, backward, strict=True)})
    return {**options, **more}


def candidates(variant: str, head_dim: int) -> list[dict[str, int | bool]]:
    """Options to try on a variant, with the guard off where that is legal."""
    safe = {} if variant in BOUNDED_BELOW else _SAFE
    return [{**options, **safe} if options else options for options in _shapes(head_dim)]


def _shapes(head_dim: int) -> list[dict[str, int | bool]]:
    """Options to try, most promising first; the first is what FlexAttention takes by itself.

    Its own choice on compute capability 9.0 is (128, 64, 8 warps, 3 stages) forward at head_dim
    128, (128, 128, 4, 3) at 64, and (64, 128, 128, 64, 8, 3) backward.
    """
    if head_dim <= 64:
        return [
            {},
            _pair((128, 128, 8, 3), (64, 128, 128, 64, 8, 2)),
            _pair((128, 64, 4, 3), (64, 64, 64, 64, 4, 3)),
            _pair((128, 128, 4, 2), (64, 128, 128, 64, 4, 3), fwd_USE_TMA=True),
        ]
    return [
        {},
        _pair((128, 128, 8, 2), (64, 128, 128, 64, 8, 2)),
        _pair((128, 64, 8, 3), (64, 64, 64, 64, 4, 3), fwd_USE_TMA=True),
        _pair((64, 64, 4, 3), (64, 64, 64, 64, 4, 2)),
    ]


def one_direction(options: FlexOptions, direction: str) -> dict[str, int | bool]:
    """The options that concern one direction, prefixes kept."""
    return {n: x for n, x in options.items() if n.startswith(_PREFIX[direction])}


@dataclass(frozen=True)
class FlexTrial:
    """A job: time FlexAttention with `options` on one variant and problem."""

    variant: str
    problem: Problem
    options: FlexOptions
    device: str = "cuda"
    seed: int = 0


@dataclass(frozen=True)
class TrialResult:
    """Times in ms of the directions that ran, and the errors of those that did not."""

    options: FlexOptions
    times: Mapping[str, float] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    compile_seconds: float | None = None


def run_trial(trial: FlexTrial, turn: Any) -> TrialResult:
    """Runs a trial in a worker; the turn keeps other workers' timed regions off the card.

    Options that break one direction also break the common compilation: then each direction is
    tried again beside the other's defaults.
    """
    result = _attempt(trial, trial.options, DIRECTIONS, turn)
    if not result.errors or not trial.options:
        return result
    times = dict(result.times)
    errors: dict[str, str] = {}
    for direction in DIRECTIONS:
        if direction in times:
            continue
        again = _attempt(trial, one_direction(trial.options, direction), (direction,), turn)
        times.update(again.times)
        errors.update(again.errors)
    return TrialResult(trial.options, times, errors, result.compile_seconds)


def _attempt(
    trial: FlexTrial, options: FlexOptions, directions: Sequence[str], turn: Any
) -> TrialResult:
    prepare_torch()
    torch._dynamo.reset()
    case = case_of(trial.variant, trial.problem, trial.device)
    leaves, d_out = trial.problem.inputs(trial.device, trial.seed)
    contestant = flex(case, leaves, options, flex_block_mask(case, trial.device))
    times: dict[str, float] = {}
    errors: dict[str, str] = {}
    compiled: float | None = None
    for direction in directions:
        try:
            action = _action(contestant, direction, d_out)
            took, _ = seconds_of(action)
            compiled = (compiled or 0.0) + took
            with exclusive(turn):
                times[direction] = milliseconds(action, warmup=10.0, repeat=40.0)
        except Exception as error:
            errors[direction] = one_line(error)
    return TrialResult(options, times, errors, compiled)


def _action(contestant: Contestant, direction: str, d_out: torch.Tensor) -> Any:
    return contestant.forward if direction == "forward" else contestant.backward(d_out)


def best_options(results: Sequence[TrialResult]) -> dict[str, int | bool]:
    """The fastest forward's options joined with the fastest backward's; {} if nothing ran."""
    chosen: dict[str, int | bool] = {}
    for direction in DIRECTIONS:
        ran = [r for r in results if direction in r.times]
        if ran:
            winner = min(ran, key=lambda r: r.times[direction])
            chosen.update(one_direction(winner.options, direction))
    return chosen
