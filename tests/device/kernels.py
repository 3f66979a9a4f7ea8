"""Small kernels for the tests of fagen.device: what they need is known, none is ever launched."""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["length"])
def matmul(
    a_ptr,
    b_ptr,
    out_ptr,
    a_stride,
    b_stride,
    length,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr = 64,
):
    """out [BLOCK_M, BLOCK_N] = a [BLOCK_M, length] @ b [length, BLOCK_N] in one program."""
    rows = tl.arange(0, BLOCK_M)
    columns = tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, length, BLOCK_K):
        k = start + inner
        a = tl.load(a_ptr + rows[:, None] * a_stride + k[None, :], mask=(k < length)[None, :])
        b = tl.load(b_ptr + k[:, None] * b_stride + columns[None, :], mask=(k < length)[:, None])
        acc = tl.dot(a, b, acc)
    tl.store(out_ptr + rows[:, None] * BLOCK_N + columns[None, :], acc)


@triton.jit
def copy(source_ptr, target_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(target_ptr + offsets, tl.load(source_ptr + offsets))


@triton.jit
def shifted_copy(source_ptr, target_ptr, shift, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(target_ptr + offsets, tl.load(source_ptr + shift + offsets))


@triton.jit(do_not_specialize=["shift"])
def shifted_copy_of_any(source_ptr, target_ptr, shift, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(target_ptr + offsets, tl.load(source_ptr + shift + offsets))


@triton.jit
def adds_pointers(source_ptr, target_ptr, BLOCK: tl.constexpr):
    tl.store(target_ptr + tl.arange(0, BLOCK), source_ptr + target_ptr)


@triton.jit
def unknown_name(source_ptr, target_ptr, BLOCK: tl.constexpr):
    tl.store(target_ptr + tl.arange(0, BLOCK), no_such_name)  # noqa: F821


@triton.jit
def refused_by_assembler(source_ptr, target_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    value = tl.inline_asm_elementwise(
        "no.such.instruction $0, $1;", "=r,r", [offsets], dtype=tl.int32, is_pure=True, pack=1
    )
    tl.store(target_ptr + offsets, value)
