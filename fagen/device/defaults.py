"""Every config that a module may take by default, compiled: does it fit, and do its values?

    python -m fagen.device.defaults [--variants softcap,document] [--targets sm_80,...]

prints a line for each kernel, GPU and shape, and ends with 1 if one does not fit or, unless it was
tuned by measurement, spills more than `MOST_SPILLED` bytes a thread.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from fagen.codegen.configs import is_tuned
from fagen.codegen.plan import plan_module
from fagen.codegen.render import module_text, render_plan
from fagen.device.gpus import ARCHITECTURES
from fagen.device.outcome import Result
from fagen.device.resources import Build, Shape, compile_builds, default_builds
from fagen.spec.load import find_variant, load_variant

#: The shipped variants that need most: a derivative that varies, and tables read in the loop.
HARDEST = ("softcap", "document")
#: One shape for every row of the tables, and widths that are made of several chunks.
SHAPES = tuple(
    Shape(dtype, width)  # type: ignore[arg-type]
    for dtype, widths in (("bf16", (64, 96, 128, 192, 256)), ("fp32", (64, 128, 256)))
    for width in widths
)
#: Stores and loads a thread, counted in the code: some hundred cost a few percent, a thousand half.
MOST_SPILLED = 256


def compile_defaults(
    variant_name: str,
    targets: Sequence[str],
    shapes: Sequence[Shape] = SHAPES,
    *,
    workers: int | None = None,
    triton_path: Path | None = None,
) -> Iterator[tuple[Build, Result]]:
    """What each kernel of a shipped variant takes, with the config that it takes by default."""
    variant = load_variant(find_variant(variant_name))
    plan = plan_module(variant)
    kernels = module_text(plan).kernels
    builds = default_builds([k.role for k in kernels], plan.visits, targets, shapes)
    with tempfile.TemporaryDirectory(prefix="fagen-defaults-") as scratch:
        module = Path(scratch, f"{variant.name}.py")
        module.write_bytes(render_plan(plan).encode())
        results = compile_builds(
            variant, kernels, module, builds, workers=workers, triton_path=triton_path
        )
    yield from zip(builds, results, strict=True)


def complaint(build: Build, result: Result) -> str:
    """Why a default is a bad one, or "". Rows that won by their speed may spill."""
    if result.outcome not in ("ok", "spilled"):
        return f"{result.outcome}: {result.detail}"
    assert result.resources is not None
    spills = result.resources.spilled > MOST_SPILLED and not is_tuned(build.row)
    return result.detail if spills else ""


def line(variant: str, build: Build, result: Result) -> str:
    """One build in one line."""
    row, used = build.row, result.resources
    config = f"{row.block_m}x{row.block_n} w{row.num_warps} s{row.num_stages}"
    shape = f"{build.shape.dtype} {build.shape.head_dim}"
    taken = "" if used is None else f"{used.shared:7d} B {used.registers:4d} r {used.spilled:5d} sp"
    head = f"{variant:<14} {build.target:<7} {shape:<9} {build.role:<11} {config:<14}"
    return f"{head} {taken}  {complaint(build, result)}".rstrip()


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fagen.device.defaults")
    parser.add_argument("--variants", default=",".join(HARDEST))
    parser.add_argument("--targets", default=",".join(ARCHITECTURES))
    options = parser.parse_args(None if arguments is None else list(arguments))
    bad = 0
    for variant in options.variants.split(","):
        for target in options.targets.split(","):
            for build, result in compile_defaults(variant, [target]):
                print(line(variant, build, result), flush=True)
                bad += bool(complaint(build, result))
    print(f"{bad} bad defaults" if bad else "every default fits")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
