"""Default tables: which lengths and parameters they need, and what stands for those in a call."""

from __future__ import annotations

from fagen.spec.expr import names_in
from fagen.spec.names import DIMENSIONS
from fagen.spec.variant import Tensor, Variant

#: A length in a table's shape -> what holds it where sequences may be packed.
LONGEST = {"q_len": "max_seqlen_q", "kv_len": "max_seqlen_k"}
_IN_LAUNCHERS = {**LONGEST, "batch": "sequences", "total_q": "q_len", "total_kv": "kv_len"}
_IN_REFERENCE = {"total_q": "q_len", "total_kv": "kv_len"}


def default_sizes(variant: Variant, tensor: Tensor) -> list[str]:
    """The lengths and parameters that the default of a table needs."""
    assert tensor.default is not None
    used = {str(s) for s in tensor.shape if isinstance(s, str)} | names_in(tensor.default)
    return [n for n in (*DIMENSIONS, *(p.name for p in variant.parameters)) if n in used]


def launcher_operands(variant: Variant, tensor: Tensor) -> str:
    """What a launcher passes for `default_sizes`, each with its comma."""
    return "".join(f"{_IN_LAUNCHERS.get(n, n)}, " for n in default_sizes(variant, tensor))


def reference_operands(variant: Variant, tensor: Tensor) -> str:
    """What the dense reference passes for `default_sizes`, each with its comma."""
    return "".join(f"{_IN_REFERENCE.get(n, n)}, " for n in default_sizes(variant, tensor))
