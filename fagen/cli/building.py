"""`fagen build`: read, render, prove, compile, and only then write."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from fagen.cli.problems import UserError
from fagen.codegen.configs import Visits
from fagen.codegen.kernel_text import KernelText
from fagen.codegen.plan import plan_module
from fagen.codegen.render import module_text, render, render_plan
from fagen.codegen.write import ready_folder, write_atomically
from fagen.device.outcome import Result
from fagen.device.resources import Build, compile_builds, default_builds
from fagen.spec.errors import Diagnostic, SpecErrors
from fagen.spec.load import find_variant, load_variant
from fagen.spec.variant import Variant
from fagen.verify.cases import Level
from fagen.verify.report import CaseResult, Report
from fagen.verify.verify import verify_module

Say = Callable[[str], None]
Device = Literal["auto", "cpu", "cuda"]
State = Literal["current", "stale", "missing"]


def read_variants(names: Sequence[str]) -> list[Variant]:
    """The variants of files or shipped names; SpecErrors hold the errors of all files at once."""
    found: list[Variant] = []
    problems: list[Diagnostic] = []
    for name in names:
        try:
            found.append(load_variant(find_variant(name)))
        except SpecErrors as errors:
            problems += errors.diagnostics
    if problems:
        raise SpecErrors(dict.fromkeys(problems))
    for i, variant in enumerate(found):
        for other in found[:i]:
            if other.name == variant.name:
                raise UserError(
                    f"`{other.path}` and `{variant.path}` both describe `{variant.name}`",
                    "build them one at a time, into different folders",
                )
    return found


def notes_json(variant: Variant) -> list[str]:
    """What of a file has no effect yet."""
    return [note.message for note in variant.notes]


@dataclass(frozen=True)
class Rendering:
    """A variant as text, and where it goes."""

    variant: Variant
    kernels: tuple[KernelText, ...]
    visits: Visits
    text: str
    path: Path


def renderings(variants: Sequence[Variant], folder: Path) -> list[Rendering]:
    found = []
    for variant in variants:
        plan = plan_module(variant)
        kernels = module_text(plan).kernels
        path = folder / f"{variant.name}.py"
        found.append(Rendering(variant, kernels, plan.visits, render_plan(plan), path))
    return found


@dataclass(frozen=True)
class Checked:
    """Whether a file holds what would be written now; `why` says how it differs."""

    rendering: Rendering
    state: State
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        variant = self.rendering.variant
        return {
            "name": variant.name,
            "path": str(self.rendering.path),
            "state": self.state,
            "why": self.why,
            "notes": notes_json(variant),
        }


def check(rendering: Rendering) -> Checked:
    """Compares the file in place with the rendering; nothing is written."""
    try:
        old = rendering.path.read_bytes().decode(errors="replace")
    except FileNotFoundError:
        return Checked(rendering, "missing", "there is no such file")
    except OSError as error:
        raise UserError(f"cannot read `{rendering.path}`: {error.strerror}", "") from None
    if old == rendering.text:
        return Checked(rendering, "current")
    specs = [re.search(r'^SPEC_HASH = "(\w+)"$', t, re.MULTILINE) for t in (old, rendering.text)]
    then, now = (found.group(1) if found else None for found in specs)
    if then is None:
        why = "it is not a module that fagen wrote"
    elif then != now:
        why = f"written for spec {then}, the variant is now {now}"
    else:
        why = "edited by hand, or written by another version of fagen"
    return Checked(rendering, "stale", why)


@dataclass(frozen=True)
class Built:
    """What one build found. `written` is None where the proof failed and the old file stayed."""

    rendering: Rendering
    builds: tuple[Build, ...]
    results: tuple[Result, ...]
    report: Report | None
    written: bool | None
    seconds: float

    @property
    def ok(self) -> bool:
        """Proven where that was asked for, and it runs on every target; spills are no failure."""
        runs = all(r.outcome in ("ok", "spilled") for r in self.results)
        return runs and self.written is not None

    def to_json(self) -> dict[str, Any]:
        variant = self.rendering.variant
        return {
            "name": variant.name,
            "path": str(self.rendering.path),
            "spec": variant.hash,
            "ok": self.ok,
            "notes": notes_json(variant),
            "state": {None: "refused", True: "written", False: "unchanged"}[self.written],
            "seconds": self.seconds,
            "kernels": [_kernel_json(b, r) for b, r in zip(self.builds, self.results, strict=True)],
            "verification": None if self.report is None else report_json(self.report),
        }


def _kernel_json(build: Build, result: Result) -> dict[str, Any]:
    row, shape = build.row, build.shape
    return {
        "kernel": build.role,
        "target": build.target,
        "dtype": shape.dtype,
        "head_dim": shape.head_dim,
        "head_dim_v": shape.width_v,
        "config": {
            "BLOCK_M": row.block_m,
            "BLOCK_N": row.block_n,
            "num_warps": row.num_warps,
            "num_stages": row.num_stages,
        },
        "outcome": result.outcome,
        "detail": result.detail,
        "resources": None if result.resources is None else asdict(result.resources),
    }


def report_json(report: Report, *, cases: bool = False) -> dict[str, Any]:
    """A verification as plain data: its worst measure and its failures, or every case."""
    worst = worst_of(report)
    return {
        "ok": report.ok,
        "device": report.device,
        "seed": report.seed,
        "seconds": report.seconds,
        "cases": [c.to_json() for c in report.cases] if cases else len(report.cases),
        "worst_error_ratio": worst.worst if worst else None,
        "worst_case": worst.name if worst else None,
        "failures": [c.to_json() for c in report.failures],
    }


def worst_of(report: Report) -> CaseResult | None:
    """The measured case nearest to, or furthest past, its limit."""
    measured = [case for case in report.cases if case.measures]
    return max(measured, key=lambda case: case.worst, default=None)


def build(
    rendering: Rendering,
    targets: Sequence[str],
    *,
    verify: bool,
    say: Say,
    on_case: Callable[[CaseResult], None] | None = None,
) -> Built:
    """Compiles and proves one rendering aside, and writes it unless the proof fails."""
    started = time.perf_counter()
    name = rendering.variant.name
    builds = default_builds([k.role for k in rendering.kernels], rendering.visits, targets)
    report: Report | None = None
    with tempfile.TemporaryDirectory(prefix="fagen-build-") as scratch:
        module = Path(scratch, rendering.path.name)
        module.write_bytes(rendering.text.encode())
        say(f"{name}: compiling {len(builds)} kernels for {', '.join(targets)}")
        results = compile_builds(rendering.variant, rendering.kernels, module, builds)
        if verify:
            say(f"{name}: verifying")
            report = verify_module(rendering.variant, module, on_case=on_case)
    written: bool | None = None
    if report is None or report.ok:
        ready_folder(rendering.path.parent)
        written = write_atomically(rendering.path, rendering.text)
    seconds = time.perf_counter() - started
    return Built(rendering, tuple(builds), tuple(results), report, written, seconds)


def prove(variant: Variant, level: Level, device: Device, seed: int | None) -> Report:
    """Verifies a variant's module, as it would be written now."""
    with tempfile.TemporaryDirectory(prefix="fagen-verify-") as scratch:
        module = Path(scratch, f"{variant.name}.py")
        module.write_bytes(render(variant).encode())
        return verify_module(variant, module, device=device, level=level, seed=seed)
