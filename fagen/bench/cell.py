"""One cell of the table: a variant at a shape, checked, prepared and raced."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch

from fagen.bench.cases import case_of
from fagen.bench.correctness import peer_errors, reference_errors, small_problem, verdict
from fagen.bench.farm import one_line
from fagen.bench.flex_search import TrialResult, best_options
from fagen.bench.live_pairs import case_pairs, teraflops
from fagen.bench.modules import call, check_arguments, configs_for, import_module
from fagen.bench.peers import (
    Contestant,
    FlexOptions,
    block_mask_milliseconds,
    cudnn,
    flex,
    flex_block_mask,
)
from fagen.bench.problem import Case, Problem
from fagen.bench.report import DIRECTIONS
from fagen.bench.run import Run
from fagen.bench.timing import matmul_rate, race, seconds_of

CHECK_LENGTHS = (1000, 1024)

#: Share of the run's budget after which no further race starts.
RACE_SHARE = 0.95

#: Errors by length, found once for each (variant, head_dim, heads per kv head).
Checked = dict[tuple[str, int, int], dict[str, dict[str, float]]]


def check_module(run: Run, module: ModuleType, case: Case) -> dict[str, dict[str, float]]:
    """Errors against float64 at each of CHECK_LENGTHS, for the case's structure."""
    configs = configs_for(run.configs, case.variant, case.problem.head_dim)
    return {
        str(length): reference_errors(
            module,
            case.variant,
            small_problem(case.problem, length),
            device=run.device,
            seed=run.seed + length,
            configs=configs,
        )
        for length in CHECK_LENGTHS
    }


def _first_passes(contestant: Contestant, d_out: torch.Tensor) -> float:
    """Seconds of a first forward and backward together, compilation included."""
    return seconds_of(lambda: contestant.backward(d_out)())[0]


def _distinct(options: Sequence[FlexOptions]) -> list[FlexOptions]:
    return [x for i, x in enumerate(options) if x not in options[:i]]


def _prepare_flex(
    run: Run, cell: dict[str, Any], ours: Contestant, case: Case, d_out: torch.Tensor
) -> Contestant | None:
    """FlexAttention with its best options, compiled and compared with ours; None if it cannot.

    Options that were fast alone may be wrong or fail in combination: then its defaults serve. When
    even those differ from ours, the cell is refused.
    """
    result: dict[str, Any] = {"notes": {}, "errors": {}}
    cell["results"]["flex"] = result
    mask = flex_block_mask(case, run.device)
    cell["block_mask_ms"] = block_mask_milliseconds(case, run.device)
    for options in _distinct([cell["flex_options"], {}]):
        cell["refused"] = None
        try:
            torch._dynamo.reset()
            peer = flex(case, ours.leaves, options, mask)
            cell["first_call_in_process_s"]["flex"] = _first_passes(peer, d_out)
            cell["against_flex"] = peer_errors(ours, peer, d_out)
        except Exception as error:
            result["errors"][f"prepare {options}"] = one_line(error)
            continue
        cell["refused"] = verdict(cell["against_flex"])
        if cell["refused"] is None:
            result["notes"] = peer.notes
            return peer
        result["errors"][f"check {options}"] = cell["refused"]
    return None


def _prepare_cudnn(
    cell: dict[str, Any], case: Case, leaves: tuple[torch.Tensor, ...], d_out: torch.Tensor
) -> Contestant | None:
    try:
        peer = cudnn(case, leaves, d_out)
        if peer is None:
            return None
        cell["first_call_in_process_s"]["cudnn"] = _first_passes(peer, d_out)
    except Exception as error:
        cell["results"]["cudnn"] = {"notes": {}, "errors": {"prepare": one_line(error)}}
        return None
    cell["results"]["cudnn"] = {"notes": peer.notes, "errors": {}}
    return peer


def race_cell(run: Run, cell: dict[str, Any], module: ModuleType, case: Case) -> None:
    """Fills one cell of the record: errors, peers' preparation, all rounds, speeds."""
    leaves, d_out = case.problem.inputs(run.device, run.seed)
    configs = configs_for(run.configs, case.variant, case.problem.head_dim)
    ours = Contestant("ours", call(module, case, leaves, configs), leaves)
    cell["first_call_in_process_s"] = {"ours": _first_passes(ours, d_out)}
    cell["results"] = {"ours": {"notes": {"configs": configs}, "errors": {}}}
    peers = [
        _prepare_flex(run, cell, ours, case, d_out),
        _prepare_cudnn(cell, case, leaves, d_out),
    ]
    if cell["refused"]:
        return
    contestants = [ours, *(peer for peer in peers if peer is not None)]
    actions = {}
    for contestant in contestants:
        actions[f"{contestant.name} forward"] = contestant.forward
        actions[f"{contestant.name} backward"] = contestant.backward(d_out)
    matmul_rate(run.matmul_size, products=150, timed=20)
    times, errors = race(actions, rounds=run.rounds, seed=run.seed)
    for contestant in contestants:
        result = cell["results"][contestant.name]
        for direction in DIRECTIONS:
            key = f"{contestant.name} {direction}"
            if key in errors:
                result["errors"][direction] = errors[key]
                continue
            median = statistics.median(times[key])
            speed = teraflops(cell["live_pairs"], case.problem.head_dim, median, direction)
            result[direction] = {"rounds_ms": times[key], "median_ms": median, "tflops": speed}


def run_cell(
    run: Run,
    variant: str,
    problem: Problem,
    trials: Sequence[TrialResult],
    checked: Checked,
) -> None:
    """One row of the table; whatever fails in it is recorded in it."""
    cell: dict[str, Any] = {"variant": variant, "shape": problem.label, "refused": None}
    cell["flex_options"] = best_options(trials)
    cell["trials"] = [
        {
            "options": dict(t.options),
            "ms": dict(t.times),
            "errors": dict(t.errors),
            "compile_s": t.compile_seconds,
        }
        for t in trials
    ]
    run.record["cells"].append(cell)
    if run.elapsed > run.budget * RACE_SHARE:
        cell["refused"] = "out of time"
        return
    try:
        module = import_module(run.modules[variant])
        case = case_of(variant, problem, run.device)
        check_arguments(module, case)
        cell["live_pairs"] = case_pairs(case, run.device)
        structure = (variant, problem.head_dim, problem.heads // problem.kv_heads)
        if structure not in checked:
            checked[structure] = check_module(run, module, case)
        cell["errors"] = checked[structure]
        for length, errors in cell["errors"].items():
            trouble = verdict(errors)
            if trouble:
                cell["refused"] = f"length {length}: {trouble}"
                return
        race_cell(run, cell, module, case)
    except Exception as error:
        cell["refused"] = one_line(error)
    finally:
        if run.device == "cuda":
            torch.cuda.empty_cache()
