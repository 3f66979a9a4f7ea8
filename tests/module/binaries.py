"""How many binaries the kernels of a module have been compiled to, with and without a GPU.

`Recording` stands in for a GPU: Triton binds and specialises every launch as for the real one, but
nothing is compiled and nothing runs, so that launches on CPU tensors can be counted.
"""

from __future__ import annotations

from types import ModuleType

from triton.backends.compiler import GPUTarget


def binaries(module: ModuleType) -> dict[str, int]:
    """Kernel -> number of its binaries."""
    kernels = {n: x for n, x in vars(module).items() if n.endswith("_kernel")}
    return {
        name: sum(len(cache[0]) for cache in kernel.device_caches.values())
        for name, kernel in kernels.items()
    }


class Recording:
    """A driver for one sm_90 device."""

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


class Nothing:
    """What `compile_nothing` makes of a kernel: it can be launched, and does nothing."""

    function = packed_metadata = None

    def launch_metadata(self, *arguments) -> None:
        return None

    def run(self, *arguments) -> None:
        return None


def compile_nothing(source, target=None, options=None, **rest) -> Nothing:
    return Nothing()
