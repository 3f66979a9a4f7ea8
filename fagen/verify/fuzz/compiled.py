"""A trial's kernels compiled for a GPU that need not be there: what the interpreter lets pass, the
compiler may refuse."""

from __future__ import annotations

import tempfile
from pathlib import Path

from fagen.codegen.plan import plan_module
from fagen.codegen.render import module_text, render_plan
from fagen.device.resources import Shape, compile_builds, default_builds
from fagen.verify.fuzz.outcomes import Outcome, Trial

#: What is compiled for; `prep` depends on no variant.
SHAPE = Shape("bf16", 64)
#: Too large a kernel for a default config is a matter of speed, not a fault of the kernel.
ACCEPTED = ("ok", "spilled", "too_much_shared")


def compile_trial(trial: Trial, target: str) -> Outcome:
    """`ok`, or `crashed` at stage "compile" with what the compiler said."""
    with tempfile.TemporaryDirectory(prefix="fagen-fuzz-") as scratch:
        folder = Path(scratch)
        variant = trial.draft.load(folder)
        plan = plan_module(variant)
        kernels = module_text(plan).kernels
        module = folder / f"{variant.name}.py"
        module.write_text(render_plan(plan), encoding="utf-8")
        roles = [k.role for k in kernels if k.role != "prep"]
        builds = default_builds(roles, plan.visits, [target], [SHAPE])
        results = compile_builds(variant, kernels, module, builds, workers=1)
    for build, result in zip(builds, results, strict=True):
        if result.outcome not in ACCEPTED:
            lines = [line for line in result.detail.strip().splitlines() if line.strip()]
            last = lines[-1] if lines else result.outcome
            message = f"{last} ({build.role}, {target})\n{result.detail}"
            return Outcome("crashed", "compile", message)
    return Outcome("ok", "compile")
