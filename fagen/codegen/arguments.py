"""Every argument a kernel may take, and what its launcher passes; a kernel keeps what it uses."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from fagen.spec.names import DIMENSIONS
from fagen.spec.variant import Variant


@dataclass(frozen=True)
class Argument:
    """`value` is the launcher's text. `runtime_int`: never specialised, so it never recompiles."""

    name: str
    value: str
    constexpr: bool = False
    runtime_int: bool = False

    @property
    def declaration(self) -> str:
        return f"{self.name}: tl.constexpr" if self.constexpr else self.name


_MATRICES = {
    "q": "m", "k": "n", "v": "n", "out": "m", "dout": "m", "dq": "m", "dk": "n", "dv": "n",
}  # fmt: skip
#: Where packed sequences begin and end; None in a dense call.
_ENDS = ("cu_seqlens_q", "cu_seqlens_k")
_OF_KERNEL: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "tabulate": ((), ()),
    "query_walk": ((), ("walk", *_ENDS)),
    "key_walk": ((), ("walk", *_ENDS)),
    "forward": (("q", "k", "v", "out"), ("lse", "walk", *_ENDS)),
    "prep": (("out", "dout"), ("lse", "dlse", "row_state")),
    "dkdv": (("q", "k", "v", "dout", "dk", "dv"), ("row_state", "walk", *_ENDS)),
    "dq": (("q", "k", "v", "dout", "dq"), ("row_state", "walk", *_ENDS)),
}


def candidates(kernel: str, variant: Variant) -> list[Argument]:
    """All arguments in the order of the signature."""
    matrices, vectors = _OF_KERNEL[kernel]
    found = [Argument(f"{m}_ptr", m) for m in matrices]
    found += [Argument(f"{x}_ptr", x) for x in vectors]
    found += _of_variant(variant)
    found.append(Argument("scale", "scale"))
    for m in matrices:
        for axis, letter in enumerate(("b", "h", _MATRICES[m])):
            found.append(Argument(f"{m}_stride_{letter}", f"{m}.stride({axis})"))
    if "walk" in vectors:
        found.append(Argument("walk_stride_0", "walk.stride(0)", runtime_int=True))
    found.append(Argument("blocks", "blocks", runtime_int=True))
    found.append(Argument("batch", "sequences", runtime_int=True))
    for size in ("heads", "kv_heads", "q_len", "kv_len", "q_offset", "kv_offset", "gap_first"):
        found.append(Argument(size, size, runtime_int=True))
    for name, value in (
        ("HEAD_DIM", "head_dim"),
        ("HEAD_DIM_V", "head_dim_v"),
        ("CHUNKS", "column_chunks(head_dim)"),
        ("CHUNKS_V", "column_chunks(head_dim_v)"),
        ("BLOCK_M", "config.BLOCK_M"),
        ("BLOCK_N", "config.BLOCK_N"),
        ("MASKED_STAGES", "min(config.num_stages, 2)"),
        ("PACKED", "cu_seqlens_q is not None"),
        ("HAS_DLSE", "dlse is not None"),
        ("FAST_TANH", "has_fast_tanh(q.device, q.dtype)"),
    ):
        found.append(Argument(name, value, constexpr=True))
    return found


def _of_variant(variant: Variant) -> list[Argument]:
    found = []
    for t in variant.tensors:
        found.append(Argument(f"{t.name}_ptr", t.name))
        for axis in range(len(t.shape) - 1):
            value = f"{t.name}.stride({axis})"
            found.append(Argument(f"{t.name}_stride_{axis}", value, runtime_int=True))
    for p in variant.parameters:
        value = f"int({p.name})" if p.type == "bool" else p.name
        found.append(Argument(p.name, value, runtime_int=p.type != "float"))
    for free, value in free_dimensions(variant):
        found.append(Argument(free, value, runtime_int=True))
    return found


def used_in(arguments: list[Argument], body: str) -> list[Argument]:
    """The arguments that the kernel's code names; attributes, texts and comments do not count."""
    tree = ast.parse(f"def kernel():\n{body}")
    words = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return [a for a in arguments if a.name in words]


def free_dimensions(variant: Variant) -> list[tuple[str, str]]:
    """Names bound by a tensor's shape at the call, with the text that reads them."""
    parameters = {p.name for p in variant.parameters}
    found: dict[str, str] = {}
    for t in variant.tensors:
        for axis, size in enumerate(t.shape):
            if isinstance(size, str) and size not in DIMENSIONS and size not in parameters:
                found.setdefault(size, f"{t.name}.shape[{axis}]")
    return list(found.items())
