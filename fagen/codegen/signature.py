"""What a launch tells Triton about a kernel: types, compile-time values, and its default config.

Mirrors the launchers and `default_config` of `templates/module.jinja`, so that a kernel can be
compiled for a GPU that is not there exactly as a call would compile it.
"""

from __future__ import annotations

from typing import Literal

from fagen.codegen.configs import LAUNCHED_AS, ConfigRow, Visits, rows_of
from fagen.codegen.kernel_text import KernelText
from fagen.spec.variant import Variant

Dtype = Literal["fp16", "bf16", "fp32"]

BYTES: dict[Dtype, int] = {"fp16": 2, "bf16": 2, "fp32": 4}
_TABLES = {
    "bool": "u1", "int8": "i8", "uint8": "u8", "int16": "i16", "int32": "i32", "int64": "i64",
    "float16": "fp16", "bfloat16": "bf16", "float32": "fp32",
}  # fmt: skip
_SCALARS = {"int": "i32", "float": "fp32", "bool": "i32"}
#: Always float32: per-row vectors and the table by distance; others are matrices or tables.
_VECTORS = ("lse", "dlse", "row_state", "tabulated")
_INTS = ("walk", "cu_seqlens_q", "cu_seqlens_k")


def signature(kernel: KernelText, variant: Variant, dtype: Dtype) -> dict[str, str]:
    """Triton's type of each run-time argument, for q, k and v of `dtype`."""
    tables = {t.name: _TABLES[t.dtype] for t in variant.tensors}
    parameters = {p.name: _SCALARS[p.type] for p in variant.parameters}
    types = {}
    for argument in kernel.arguments:
        if argument.constexpr:
            continue
        pointer = argument.name.removesuffix("_ptr")
        if pointer == argument.name:
            types[argument.name] = parameters.get(pointer, "fp32" if pointer == "scale" else "i32")
        elif pointer in _INTS:
            types[argument.name] = "*i32"
        elif pointer in _VECTORS:
            types[argument.name] = "*fp32"
        else:
            types[argument.name] = f"*{tables.get(pointer, dtype)}"
    return types


def constexprs(
    kernel: KernelText, row: ConfigRow, head_dim: int, head_dim_v: int, *, fast_tanh: bool
) -> dict[str, object]:
    """The value of each compile-time argument; a dense call with a loss through lse."""
    values: dict[str, object] = {
        "HEAD_DIM": head_dim,
        "HEAD_DIM_V": head_dim_v,
        "CHUNKS": column_chunks(head_dim),
        "CHUNKS_V": column_chunks(head_dim_v),
        "BLOCK_M": row.block_m,
        "BLOCK_N": row.block_n,
        "MASKED_STAGES": min(row.num_stages, 2),
        "PACKED": False,
        "HAS_DLSE": True,
        "FAST_TANH": fast_tanh,
    }
    return {a.name: values[a.name] for a in kernel.arguments if a.constexpr}


def default_row(role: str, visits: Visits, shared_kib: int, itemsize: int, width: int) -> ConfigRow:
    """The config a module whose programs visit so many tiles takes for a role when none is passed.

    `shared_kib` KiB of shared memory a block, elements of `itemsize` bytes, heads of at most
    `width` columns. Raises LookupError where the table has no row, as the module raises ValueError.
    """
    for row in rows_of(LAUNCHED_AS.get(role, role), visits):
        if shared_kib >= row.shared_kib and itemsize <= row.bytes and width <= row.width:
            return row
    raise LookupError(f"no {role} config for heads of {width} columns of {itemsize} bytes")


def column_chunks(width: int) -> tuple[int, ...]:
    """Powers of two from 16 whose sum is the least not below `width`: 80 -> (64, 16)."""
    rest = max(16, -(-width // 16) * 16)
    chunks = []
    while rest:
        chunks.append(1 << (rest.bit_length() - 1))
        rest -= chunks[-1]
    return tuple(chunks)
