"""Texts of the functions that tell torch how to differentiate: what is saved, and for whom."""

from __future__ import annotations

from dataclasses import dataclass

from fagen.codegen.layout import braced, unpacked
from fagen.spec.variant import Variant

#: Operands of the operators after the variant's own.
LAST = ("scale", "q_offset", "kv_offset", "config")


@dataclass(frozen=True)
class AutogradText:
    """See `save_for_backward` and `differentiate` in `templates/module.jinja`."""

    variant: Variant

    @property
    def _tables(self) -> list[str]:
        return [t.name for t in self.variant.tensors]

    @property
    def _rest(self) -> list[str]:
        """What is kept beside tensors."""
        return [*(p.name for p in self.variant.parameters), *LAST]

    @property
    def inputs(self) -> list[str]:
        return unpacked(["q", "k", "v", *self._tables, *self._rest], "inputs")

    @property
    def save(self) -> list[str]:
        return braced("ctx.save_for_backward(", ["q", "k", "v", "*output", *self._tables], ")")

    @property
    def rest(self) -> list[str]:
        return braced("ctx.rest = (", self._rest, ")")

    @property
    def saved(self) -> list[str]:
        return unpacked(["q", "k", "v", "out", "lse", *self._tables], "ctx.saved_tensors")

    @property
    def backward(self) -> list[str]:
        operands = ["dout", "dlse", "out", "lse", "q", "k", "v", *self._tables]
        return braced("grads = backward_op(", [*operands, "*ctx.rest", "*flags"], ")")

    @property
    def without_gradient(self) -> int:
        """Operands behind q, k and v."""
        return len(self._tables) + len(self._rest)
