"""The first speed table: our modules against FlexAttention and cuDNN on one card.

`python -m fagen.bench.first_table --out DIR` checks each variant against float64, searches
FlexAttention's best options, races all contestants in interleaved rounds, measures the host's part
of a call and the time to a first result, and writes DIR/table.json and DIR/table.md after every
step, so that a run cut short keeps what it has.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from fagen.bench.cases import FIRST, VARIANTS
from fagen.bench.cell import Checked, run_cell
from fagen.bench.compile_ahead import search_flex
from fagen.bench.correctness import truths
from fagen.bench.farm import one_line, own_caches
from fagen.bench.first_call import in_fresh_processes
from fagen.bench.host_table import host_costs
from fagen.bench.modules import import_module, parse_configs, write_module
from fagen.bench.peers import prepare_torch
from fagen.bench.problem import SHAPES, parse_problem
from fagen.bench.provenance import provenance
from fagen.bench.report import DIRECTIONS, ratio, render
from fagen.bench.run import Run
from fagen.bench.timing import matmul_rate


def _spoken(cell: Mapping[str, Any]) -> str:
    if cell["refused"]:
        return f"{cell['variant']} {cell['shape']}: {cell['refused']}"
    parts = []
    for direction in DIRECTIONS:
        speeds = [
            f"{peer} {result[direction]['tflops']:.0f}"
            for peer, result in cell["results"].items()
            if direction in result
        ]
        times = ratio(cell, direction)
        shown = "-" if times is None else f"{times:.2f}"
        parts.append(f"{direction} {', '.join(speeds)} (ours/flex {shown})")
    return f"{cell['variant']} {cell['shape']}: {'; '.join(parts)}"


def _guarded(run: Run, key: str, variants: Sequence[str]) -> None:
    """Host costs and first calls must not cost the table when they fail."""
    try:
        if key == "host_cost":
            run.record[key] = host_costs(run, variants)
        else:
            shape = run.record["shapes"][0]
            peers = in_fresh_processes(variants[0], shape, run.modules[variants[0]])
            run.record[key] = {"variant": variants[0], "shape": shape, "peers": peers}
            run.say(f"first calls: {json.dumps(peers)}")
    except Exception as error:
        run.record[key] = {}
        run.say(f"{key}: {one_line(error)}")
    run.save()


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m fagen.bench.first_table", description=__doc__)
    made.add_argument("--out", type=Path, required=True, help="folder for table.json and table.md")
    made.add_argument("--variants", nargs="+", default=list(FIRST), choices=VARIANTS)
    made.add_argument(
        "--shapes",
        nargs="+",
        default=[str(i) for i in range(len(SHAPES))],
        help="indices, or batch,heads,kv_heads,length,head_dim",
    )
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--modules", type=Path, help="folder of prebuilt NAME.py; else rendered")
    made.add_argument("--config-json", type=Path, help="configurations, as config_race writes them")
    made.add_argument("--budget", type=float, default=450.0, help="seconds for the whole run")
    made.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 3))
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--host-variants", nargs="*", default=["causal", "alibi"], choices=VARIANTS)
    made.add_argument("--no-first-call", action="store_true", help="skip the fresh processes")
    made.add_argument("--matmul-size", type=int, default=8192)
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    made = parser()
    given = made.parse_args(arguments)
    try:
        problems = [parse_problem(text) for text in given.shapes]
        text = given.config_json.read_text() if given.config_json else "{}"
        configs = parse_configs(json.loads(text))
    except (ValueError, OSError) as error:
        made.error(str(error))
    own_caches()
    prepare_torch()
    given.out.mkdir(parents=True, exist_ok=True)
    run = Run(
        out=given.out,
        device="cuda" if torch.cuda.is_available() else "cpu",
        rounds=given.rounds,
        seed=given.seed,
        budget=given.budget,
        matmul_size=given.matmul_size,
        configs=configs,
        record={"shapes": [problem.label for problem in problems], "cells": []},
    )
    variants = list(dict.fromkeys([*given.variants, *given.host_variants]))
    for variant in variants:
        run.modules[variant] = (
            given.modules / f"{variant}.py"
            if given.modules
            else write_module(variant, given.out / "modules")
        )
        import_module(run.modules[variant])
    run.record.update(
        provenance=provenance(run.modules),
        rounds=run.rounds,
        seed=run.seed,
        references=list(truths()),
        configs=configs,
    )
    run.say(f"modules ready: {', '.join(variants)}")
    run.say(f"checked against {' and '.join(run.record['references'])}")
    if not given.no_first_call:
        first = "causal" if "causal" in given.variants else given.variants[0]
        _guarded(run, "first_call", [first])
    trials = search_flex(run, given.variants, problems, given.workers)
    run.record["matmul_tflops"] = matmul_rate(run.matmul_size)
    run.say(f"matrix product: {run.record['matmul_tflops']:.0f} TFLOP/s")
    checked: Checked = {}
    for problem in problems:
        for variant in given.variants:
            run_cell(run, variant, problem, trials[variant, problem], checked)
            run.say(_spoken(run.record["cells"][-1]))
            run.save()
    _guarded(run, "host_cost", given.host_variants)
    run.say("done")
    print(render(run.record))
    return 0 if all(cell["refused"] is None for cell in run.record["cells"]) else 1


if __name__ == "__main__":
    sys.exit(main())
