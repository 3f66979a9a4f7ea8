"""Facts of GPUs, as data.

An `Architecture` is what the compiler targets, a `Gpu` a product with it. Sources: the CUDA C++
Programming Guide's table of compute capabilities, AMD's CDNA3 and CDNA4 ISA documents, and the
vendors' data sheets (dense figures, without sparsity, float32 accumulation).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

Evidence = Literal["ran", "compiled"]


class UnknownGpu(LookupError):
    """A target or GPU that fagen has no facts of; the message lists or suggests known ones."""


@dataclass(frozen=True)
class Architecture:
    """What one block may use. `shared_per_block` in bytes, with the opt-in of the launch.

    `registers_per_block` counts 32-bit registers; `tensor_memory` columns of Blackwell's
    accumulator memory (0: none). `target` is "sm_90" or "gfx942".
    """

    target: str
    shared_per_block: int
    registers_per_block: int = 65536
    warp_size: int = 32
    threads_per_block: int = 1024
    tensor_memory: int = 0

    @property
    def vendor(self) -> Literal["nvidia", "amd"]:
        return "nvidia" if self.target.startswith("sm_") else "amd"


@dataclass(frozen=True)
class Gpu:
    """One product. `evidence`: whether fagen's kernels ever *ran* on it or were only *compiled*.

    `processors` are SMs or CUs; `bandwidth` in GB/s (1e9), `memory` in GB, `l2` in MB, `bf16` in
    dense TFLOP/s.
    """

    name: str
    architecture: Architecture
    processors: int
    memory: int
    bandwidth: int
    bf16: int
    l2: int
    evidence: Evidence = "compiled"

    @property
    def target(self) -> str:
        return self.architecture.target

    @property
    def warp_size(self) -> int:
        return self.architecture.warp_size

    @property
    def shared_per_block(self) -> int:
        return self.architecture.shared_per_block

    @property
    def registers_per_block(self) -> int:
        return self.architecture.registers_per_block


_KIB = 1024

SM_80 = Architecture("sm_80", 163 * _KIB)
SM_86 = Architecture("sm_86", 99 * _KIB)
SM_89 = Architecture("sm_89", 99 * _KIB)
SM_90 = Architecture("sm_90", 227 * _KIB)
SM_100 = Architecture("sm_100", 227 * _KIB, tensor_memory=512)
SM_120 = Architecture("sm_120", 99 * _KIB)
GFX942 = Architecture("gfx942", 64 * _KIB, registers_per_block=131072, warp_size=64)
GFX950 = Architecture("gfx950", 160 * _KIB, registers_per_block=131072, warp_size=64)

ARCHITECTURES: dict[str, Architecture] = {
    a.target: a for a in (SM_80, SM_86, SM_89, SM_90, SM_100, SM_120, GFX942, GFX950)
}

GPUS: tuple[Gpu, ...] = (
    Gpu("A100", SM_80, processors=108, memory=80, bandwidth=2039, bf16=312, l2=40),
    Gpu("RTX A6000", SM_86, processors=84, memory=48, bandwidth=768, bf16=155, l2=6),
    Gpu("RTX 3090", SM_86, processors=82, memory=24, bandwidth=936, bf16=71, l2=6),
    Gpu("L4", SM_89, processors=58, memory=24, bandwidth=300, bf16=121, l2=48),
    Gpu("L40S", SM_89, processors=142, memory=48, bandwidth=864, bf16=362, l2=96),
    Gpu("RTX 4090", SM_89, processors=128, memory=24, bandwidth=1008, bf16=165, l2=72),
    Gpu("H100", SM_90, processors=132, memory=80, bandwidth=3350, bf16=989, l2=50),
    Gpu("H200", SM_90, processors=132, memory=141, bandwidth=4800, bf16=989, l2=50, evidence="ran"),
    Gpu("B200", SM_100, processors=148, memory=180, bandwidth=8000, bf16=2250, l2=126),
    Gpu("RTX 5090", SM_120, processors=170, memory=32, bandwidth=1792, bf16=209, l2=96),
    Gpu("RTX PRO 6000", SM_120, processors=188, memory=96, bandwidth=1792, bf16=503, l2=128),
    Gpu("MI300X", GFX942, processors=304, memory=192, bandwidth=5300, bf16=1307, l2=32),
    Gpu("MI355X", GFX950, processors=256, memory=288, bandwidth=8000, bf16=2517, l2=32),
)


def architecture(target: str) -> Architecture:
    """The architecture of a target such as "sm_90"; raises UnknownGpu."""
    if target not in ARCHITECTURES:
        raise UnknownGpu(_unknown("target", target, ARCHITECTURES))
    return ARCHITECTURES[target]


def gpus_with(target: str) -> tuple[Gpu, ...]:
    """Every product of a target, in the order of `GPUS`; raises UnknownGpu."""
    known = architecture(target)
    return tuple(gpu for gpu in GPUS if gpu.architecture is known)


def gpu_named(name: str) -> Gpu:
    """The product of this name, upper or lower case alike ("h200"); raises UnknownGpu."""
    for gpu in GPUS:
        if gpu.name.casefold() == name.casefold():
            return gpu
    raise UnknownGpu(_unknown("GPU", name, [gpu.name for gpu in GPUS]))


def _unknown(kind: str, given: str, known: Collection[str]) -> str:
    spelled = {name.casefold(): name for name in known}
    close = get_close_matches(given.casefold(), spelled, n=1)
    hint = f"did you mean `{spelled[close[0]]}`?" if close else f"known: {', '.join(known)}"
    return f"unknown {kind} `{given}`; {hint}"
