"""`Job`: one kernel to compile for one target, told in a form that crosses processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Job:
    """Arguments of `compile.compile_kernel`, with the kernel named by its file and its name."""

    module: Path
    kernel: str
    signature: Mapping[str, str]
    constexprs: Mapping[str, object]
    target: str
    num_warps: int = 4
    num_stages: int = 2
    aligned: tuple[str, ...] | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    spill_limit: int = 0
