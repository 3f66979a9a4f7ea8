"""Attention variants in YAML become self-contained Python modules of Triton kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fagen.codegen.load import load, load_module
    from fagen.spec.errors import SpecErrors

__version__ = "0.1.0"
__all__ = ["SpecErrors", "__version__", "load", "load_module"]


def __getattr__(name: str) -> Any:
    # Opened on first use: `import fagen` costs next to nothing, and never imports torch.
    if name in ("load", "load_module"):
        from fagen.codegen import load as loading

        return getattr(loading, name)
    if name == "SpecErrors":
        from fagen.spec.errors import SpecErrors

        return SpecErrors
    raise AttributeError(f"module `fagen` has no attribute `{name}`")


def __dir__() -> list[str]:
    return sorted(__all__)
