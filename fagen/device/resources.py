"""What a generated module's kernels take on GPUs that need not be there, with default configs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fagen.codegen.configs import ConfigRow, Visits
from fagen.codegen.kernel_text import KernelText
from fagen.codegen.signature import BYTES, Dtype, constexprs, default_row, signature
from fagen.device.gpus import architecture
from fagen.device.jobs import Job
from fagen.device.outcome import Result
from fagen.device.pool import compile_many
from fagen.spec.variant import Variant


@dataclass(frozen=True)
class Shape:
    """What a kernel is compiled for besides a GPU: element type and widths of the heads."""

    dtype: Dtype
    head_dim: int
    head_dim_v: int | None = None

    @property
    def width_v(self) -> int:
        return self.head_dim if self.head_dim_v is None else self.head_dim_v

    @property
    def widest(self) -> int:
        return max(self.head_dim, self.width_v)


#: What most models run.
USUAL = (Shape("bf16", 64), Shape("bf16", 128))


@dataclass(frozen=True)
class Build:
    """One kernel, for one GPU and shape, with the config that a call would take there."""

    role: str
    target: str
    shape: Shape
    row: ConfigRow


def default_builds(
    roles: Iterable[str],
    visits: Visits,
    targets: Sequence[str],
    shapes: Sequence[Shape] = USUAL,
) -> list[Build]:
    """Every role on every target and shape; raises UnknownGpu for an unknown target."""
    return [
        Build(role, target, shape, _row(role, visits, target, shape))
        for target in targets
        for shape in shapes
        for role in roles
    ]


def _row(role: str, visits: Visits, target: str, shape: Shape) -> ConfigRow:
    kib = architecture(target).shared_per_block // 1024
    return default_row(role, visits, kib, BYTES[shape.dtype], shape.widest)


def compile_builds(
    variant: Variant,
    kernels: Sequence[KernelText],
    module: Path,
    builds: Sequence[Build],
    *,
    workers: int | None = None,
    timeout: float = 300.0,
    triton_path: Path | None = None,
) -> list[Result]:
    """The result of each build of the module's `kernels`, in order; options as `compile_many`."""
    by_role = {kernel.role: kernel for kernel in kernels}
    jobs = [_job(variant, by_role[build.role], module, build) for build in builds]
    return compile_many(jobs, workers=workers, timeout=timeout, triton_path=triton_path)


def _job(variant: Variant, kernel: KernelText, module: Path, build: Build) -> Job:
    shape, row = build.shape, build.row
    nvidia = architecture(build.target).vendor == "nvidia"
    return Job(
        module=module.resolve(),
        kernel=kernel.name,
        signature=signature(kernel, variant, shape.dtype),
        constexprs=constexprs(kernel, row, shape.head_dim, shape.width_v, fast_tanh=nvidia),
        target=build.target,
        num_warps=row.num_warps,
        num_stages=row.num_stages,
    )
