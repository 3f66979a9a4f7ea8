"""What became of a kernel: values, not exceptions, since a sweep meets all of them every day."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fagen.device.gpus import Architecture

Outcome = Literal[
    "ok", "compile_failed", "too_much_shared", "spilled", "wrong", "crashed", "timed_out"
]


@dataclass(frozen=True)
class Resources:
    """What one block of a compiled kernel takes.

    `shared` in bytes; `registers` of 32 bits a thread; `spilled` bytes a thread written to memory
    and read back for want of registers (stores plus loads in the code, not executions); `stack`
    bytes a thread; `binary` bytes of cubin or hsaco. `tensor_memory` counts columns (Blackwell),
    `scalar_spills` registers kept in vector lanes instead (AMD; they do not reach memory).
    `serialised` are the reasons for which ptxas waits for every matrix product before the next
    instruction (Hopper): the kernel is right, and several times slower.
    """

    shared: int
    registers: int
    spilled: int
    stack: int
    binary: int
    threads: int
    tensor_memory: int = 0
    scalar_spills: int = 0
    serialised: tuple[str, ...] = ()

    def excess(self, limits: Architecture) -> str | None:
        """Why a block cannot be launched on `limits`, or None when it fits."""
        for used, limit, what in (
            (self.shared, limits.shared_per_block, "bytes of shared memory"),
            (self.tensor_memory, limits.tensor_memory, "columns of tensor memory"),
            (self.threads, limits.threads_per_block, "threads"),
            (self.registers * self.threads, limits.registers_per_block, "registers"),
        ):
            if used > limit:
                return f"needs {used} {what}, {limits.target} has {limit} per block"
        return None


@dataclass(frozen=True)
class Result:
    """An outcome with its detail for people ("" when ok) and, where it compiled, its resources."""

    outcome: Outcome
    detail: str = ""
    resources: Resources | None = None

    @property
    def ok(self) -> bool:
        return self.outcome == "ok"
