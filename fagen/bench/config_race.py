"""Hand-picked configurations: every candidate of one role raced while the others keep defaults.

`python -m fagen.bench.config_race --out DIR --shape 0 --variants causal` compiles the candidates on
all cores, checks each against the default's result, times the forward (for role forward) or the
whole backward (for dkdv and dq) and prints the ranking. DIR/configs.json holds the winners in the
form that `first_table --config-json` reads; DIR/race.json everything measured.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from fagen.bench.cases import VARIANTS, case_of
from fagen.bench.correctness import LIMIT, NAMES, relative_error
from fagen.bench.farm import farm, one_line, own_caches
from fagen.bench.modules import (
    ConfigNumbers,
    call,
    import_module,
    parse_configs,
    write_module,
)
from fagen.bench.peers import Contestant
from fagen.bench.problem import Case, Problem, parse_problem
from fagen.bench.provenance import provenance, write_json
from fagen.bench.timing import matmul_rate, milliseconds, seconds_of

#: Outside this range a tile either cannot stay in registers or leaves its warps without work.
LEAST_ELEMENTS_PER_WARP, MOST_ELEMENTS_PER_WARP = 512, 4096


#: The kernels worth a race; prep is bound by memory whatever its tile.
RACED = ("forward", "dkdv", "dq")


def candidates(role: str) -> list[dict[str, int]]:
    """Configurations worth a trial. BLOCK_M counts queries and BLOCK_N keys in every role.

    The tile that stays in registers (queries in forward and dq, keys in dkdv) is the wide one.
    """
    queries, keys = {
        "forward": ((64, 128), (32, 64, 128)),
        "dkdv": ((32, 64, 128), (64, 128)),
        "dq": ((64, 128), (32, 64, 128)),
    }[role]
    found = []
    for m, n, warps, stages in itertools.product(queries, keys, (4, 8), (2, 3, 4)):
        if LEAST_ELEMENTS_PER_WARP <= m * n // warps <= MOST_ELEMENTS_PER_WARP:
            config = {"BLOCK_M": m, "BLOCK_N": n, "num_warps": warps, "num_stages": stages}
            found.append(config)
    return found


@dataclass(frozen=True)
class Candidate:
    """A job of the farm, and later an entrant: one configuration of one role."""

    path: str
    variant: str
    problem: Problem
    role: str
    config: ConfigNumbers
    device: str

    def contestant(self, module: ModuleType, case: Case, leaves: Sequence[Any]) -> Contestant:
        forward = call(module, case, leaves, {self.role: self.config})
        return Contestant("ours", forward, tuple(leaves))

    @property
    def label(self) -> str:
        c = self.config
        return f"{c['BLOCK_M']}x{c['BLOCK_N']} w{c['num_warps']} s{c['num_stages']}"


def compile_candidate(candidate: Candidate, turn: Any) -> float:
    """Runs the candidate's pass once, which compiles it into the shared cache; its seconds."""
    module = import_module(Path(candidate.path))
    case = case_of(candidate.variant, candidate.problem, candidate.device)
    leaves, d_out = candidate.problem.inputs(candidate.device, 0)
    entrant = candidate.contestant(module, case, leaves)
    if candidate.role == "forward":
        return seconds_of(entrant.forward)[0]
    return seconds_of(lambda: entrant.backward(d_out)())[0]


def rank(times: Mapping[str, Sequence[float]]) -> list[tuple[str, float]]:
    """Labels with their median in ms, fastest first; ties in order of the labels."""
    return sorted(
        ((label, statistics.median(found)) for label, found in times.items()),
        key=lambda pair: (pair[1], pair[0]),
    )


def race_role(
    entrants: Sequence[Candidate], *, rounds: int, seed: int, finalists: int = 4
) -> dict[str, Any]:
    """Times and errors of one role's candidates; the `finalists` best are timed again.

    A first round over all finds the finalists; `rounds` more, interleaved, find the winner, so
    that one lucky measurement cannot.
    """
    module = import_module(Path(entrants[0].path))
    first = entrants[0]
    case = case_of(first.variant, first.problem, first.device)
    leaves, d_out = first.problem.inputs(first.device, seed)
    default = Contestant("ours", call(module, case, leaves), leaves)
    expected = dict(zip(NAMES, _results(default, d_out, first.role), strict=False))
    errors: dict[str, str] = {}

    def timed(entrant: Contestant) -> float:
        action = entrant.forward if first.role == "forward" else entrant.backward(d_out)
        return milliseconds(action, warmup=15.0, repeat=40.0)

    def attempt(name: str, entrant: Contestant) -> None:
        try:
            results = dict(zip(NAMES, _results(entrant, d_out, first.role), strict=False))
            wrong = {n: relative_error(x, expected[n]) for n, x in results.items()}
            if not max(wrong.values()) <= LIMIT:
                raise ArithmeticError(f"differs from the default's result: {wrong}")
            times[name] = [timed(entrant)]
        except Exception as error:
            errors[name] = one_line(error)

    times: dict[str, list[float]] = {}
    everyone = {c.label: c.contestant(module, case, leaves) for c in entrants}
    attempt("default", default)
    for label, entrant in everyone.items():
        attempt(label, entrant)
    last = [label for label, _ in rank(times)][:finalists]
    for _ in range(rounds):
        for label in dict.fromkeys([*last, "default"]):
            if label in times:
                times[label].append(timed(everyone.get(label, default)))
    return {"ms": times, "errors": errors, "ranking": rank({n: times[n] for n in last})}


def _results(entrant: Contestant, d_out: torch.Tensor, role: str) -> tuple[torch.Tensor, ...]:
    if role == "forward":
        return (entrant.forward().detach(),)
    return (entrant.forward().detach(), *entrant.backward(d_out)())


def winners(
    races: Mapping[str, Mapping[str, Any]], entrants: Mapping[str, Sequence[Candidate]]
) -> dict[str, ConfigNumbers]:
    """Each role's fastest configuration; absent where the default won or everything failed."""
    chosen: dict[str, ConfigNumbers] = {}
    for role, raced in races.items():
        by_label = {candidate.label: dict(candidate.config) for candidate in entrants[role]}
        if raced["ranking"] and raced["ranking"][0][0] in by_label:
            chosen[role] = by_label[raced["ranking"][0][0]]
    return chosen


def _show(variant: str, role: str, raced: Mapping[str, Any]) -> None:
    print(f"\n{variant} {role}: {len(raced['ms'])} ran, {len(raced['errors'])} failed", flush=True)
    default = statistics.median(raced["ms"]["default"]) if "default" in raced["ms"] else None
    for label, found in rank(raced["ms"])[:8]:
        share = f"{default / found:.3f} of the default's speed" if default else ""
        print(f"  {label:20} {found:8.4f} ms  {share}", flush=True)
    for label, error in raced["errors"].items():
        print(f"  {label:20} {error[:110]}", flush=True)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m fagen.bench.config_race", description=__doc__)
    made.add_argument("--out", type=Path, required=True)
    made.add_argument("--shape", default="0", help="index, or batch,heads,kv_heads,length,head_dim")
    made.add_argument("--variants", nargs="+", default=["causal"], choices=VARIANTS)
    made.add_argument("--roles", nargs="+", default=list(RACED), choices=RACED)
    made.add_argument("--modules", type=Path, help="folder of prebuilt NAME.py; else rendered")
    made.add_argument("--candidates", type=Path, help="JSON: role -> list of configurations")
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--budget", type=float, default=280.0, help="seconds for the whole run")
    made.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--matmul-size", type=int, default=8192)
    return made


def chosen_candidates(roles: Sequence[str], file: Path | None) -> dict[str, list[dict[str, int]]]:
    """The built-in lists, or those of a JSON file, checked; ValueError names the fault."""
    if file is None:
        return {role: candidates(role) for role in roles}
    document = json.loads(file.read_text())
    if not isinstance(document, dict) or not all(isinstance(x, list) for x in document.values()):
        raise ValueError("the candidates must map roles to lists of configurations")
    for role, configs in document.items():
        for config in configs:
            parse_configs({role: config})
    return {role: document[role] for role in roles if document.get(role)}


def main(arguments: Sequence[str] | None = None) -> int:
    made = parser()
    given = made.parse_args(arguments)
    try:
        problem = parse_problem(given.shape)
        lists = chosen_candidates(given.roles, given.candidates)
    except (ValueError, OSError) as error:
        made.error(str(error))
    own_caches()
    given.out.mkdir(parents=True, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    paths = {
        variant: given.modules / f"{variant}.py"
        if given.modules
        else write_module(variant, given.out / "modules")
        for variant in given.variants
    }
    entrants = {
        variant: {
            role: [Candidate(str(path), variant, problem, role, c, device) for c in configs]
            for role, configs in lists.items()
        }
        for variant, path in paths.items()
    }
    jobs = [c for roles in entrants.values() for found in roles.values() for c in found]
    print(f"compiling {len(jobs)} candidates in {given.workers} workers", flush=True)
    answers = farm(compile_candidate, jobs, workers=given.workers, seconds=given.budget * 0.6)
    failed = {
        (job.variant, job.role, job.label): answer.error
        for job, answer in zip(jobs, answers, strict=True)
        if answer.error
    }
    rate = matmul_rate(given.matmul_size)
    print(f"matrix product: {rate:.0f} TFLOP/s", flush=True)
    record: dict[str, Any] = {
        "provenance": provenance(paths), "shape": problem.label, "seed": given.seed,
        "matmul_tflops": rate, "races": {},
    }  # fmt: skip
    configs: dict[str, Any] = {}
    for variant, roles in entrants.items():
        races: dict[str, Any] = {}
        for role, found in roles.items():
            alive = [c for c in found if (variant, role, c.label) not in failed]
            if alive:
                races[role] = race_role(alive, rounds=given.rounds, seed=given.seed)
            else:
                races[role] = {"ms": {}, "errors": {}, "ranking": []}
            for c in found:
                if trouble := failed.get((variant, role, c.label)):
                    races[role]["errors"][c.label] = trouble
            _show(variant, role, races[role])
            record["races"][variant] = races
            write_json(given.out / "race.json", record)
        configs[f"{variant}/D{problem.head_dim}"] = winners(races, roles)
        write_json(given.out / "configs.json", configs)
    print(json.dumps(configs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
