"""Texts of the functions that tell torch how to differentiate: what is saved, and for whom."""

from __future__ import annotations

from dataclasses import dataclass

from fagen.codegen.layout import braced, unpacked
from fagen.codegen.plan import ModulePlan

#: Operands of the operators after the variant's own.
LAST = ("scale", "q_offset", "kv_offset", "config")
#: Those that say where packed sequences begin and end.
ENDS = ("cu_seqlens_q", "cu_seqlens_k")


def operands_of(plan: ModulePlan) -> list[str]:
    """Operands of the operators between q, k, v and `LAST`: tensors first."""
    variant = plan.variant
    names = [*(t.name for t in variant.tensors), *ENDS, *(p.name for p in variant.parameters)]
    return names + plan.lengths


@dataclass(frozen=True)
class AutogradText:
    """See `Forward` in `templates/module.jinja`."""

    plan: ModulePlan

    @property
    def _tables(self) -> list[str]:
        return [*(t.name for t in self.plan.variant.tensors), *ENDS]

    @property
    def operands(self) -> list[str]:
        return unpacked(["q", "k", "v", *self._tables, "*ctx.rest"], "operands")

    @property
    def save(self) -> list[str]:
        saved = ["q", "k", "v", "out", "lse", *self._tables]
        return braced("ctx.save_for_backward(", saved, ")")

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
        return len(operands_of(self.plan)) + len(LAST)
