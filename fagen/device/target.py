"""From a target's name to the compiler's own description of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fagen.device.gpus import architecture

if TYPE_CHECKING:
    from triton.backends.compiler import GPUTarget


def triton_target(target: str) -> GPUTarget:
    """Triton's GPUTarget of "sm_90" or "gfx942"; raises UnknownGpu."""
    # Targets are named far more often than compiled for: Triton is imported when needed.
    from triton.backends.compiler import GPUTarget

    facts = architecture(target)
    if facts.vendor == "nvidia":
        return GPUTarget("cuda", int(target.removeprefix("sm_")), facts.warp_size)
    return GPUTarget("hip", target, facts.warp_size)
