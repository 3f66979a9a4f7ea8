"""Views of every kind, and offsets past 2**31 elements (public faults, strides and widths)."""

from __future__ import annotations

import math

import pytest
import torch
from generated import check, inputs, module, shipped, tiles, written

CAUSAL, FULL = module("causal"), module("full")


def leaf(x: torch.Tensor) -> torch.Tensor:
    return x.detach().requires_grad_()


def nan_behind(x: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """The same values in a larger tensor of NaN."""
    *outer, length, width = x.shape
    whole = x.new_full((*outer, length + rows, width + columns), math.nan)
    whole[..., :length, :width] = x.detach()
    return leaf(whole[..., :length, :width])


@pytest.mark.parametrize("mod", [CAUSAL, FULL], ids=["causal", "full"])
def test_keys_sliced_along_the_sequence(mod):
    q, k, v = inputs(1, 2, 1, 20, 35, 16)
    whole = torch.full((1, 1, 35 + 128, 16), math.nan)
    whole[:, :, :35] = k.detach()
    variant = shipped("causal" if mod is CAUSAL else "full")
    check(variant, mod, q, leaf(whole[:, :, :-128]), v, config=tiles(mod))


def test_tensors_stored_batch_sequence_head():
    views = (x.detach().transpose(1, 2).contiguous().transpose(1, 2) for x in
             inputs(2, 2, 1, 20, 35, 16, 24))  # fmt: skip
    q, k, v = (leaf(x) for x in views)
    check(shipped("causal"), CAUSAL, q, k, v, config=tiles(CAUSAL))


def test_one_packed_projection():
    packed = torch.randn(1, 20, 4, 3, 16, generator=torch.Generator().manual_seed(0))
    q, k, v = (leaf(x.transpose(1, 2)) for x in packed.unbind(3))
    check(shipped("causal"), CAUSAL, q, k, v, config=tiles(CAUSAL))


@pytest.mark.parametrize("axis", [0, 1, 2], ids=["batch", "heads", "rows"])
def test_expanded_keys_and_values(axis):
    q, _, _ = inputs(2, 2, 2, 20, 20, 16)
    small = [2, 2, 20, 16]
    small[axis] = 1
    generator = torch.Generator().manual_seed(5)
    bases = [torch.randn(small, generator=generator).requires_grad_() for _ in range(2)]
    k, v = (x.expand(2, 2, 20, 16) for x in bases)
    check(shipped("causal"), CAUSAL, q, leaf(k), leaf(v), config=tiles(CAUSAL))
    # Through the expansion, the gradient is the sum over the copies.
    CAUSAL.attention(q, k, v, config=tiles(CAUSAL)).square().sum().backward()
    exact = [x.detach().double().requires_grad_() for x in bases]
    copies = (x.expand(2, 2, 20, 16) for x in exact)
    CAUSAL.reference(q.detach().double(), *copies).square().sum().backward()
    for ours, theirs in zip(bases, exact, strict=True):
        torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=1e-4, atol=1e-5)


def test_values_that_are_a_view():
    q, k, v = inputs(1, 2, 1, 20, 35, 16)
    pair = torch.stack([v.detach(), torch.full_like(v, math.nan)], 3)
    check(shipped("causal"), CAUSAL, q, k, leaf(pair[..., 0, :]), config=tiles(CAUSAL))


@pytest.mark.parametrize("columns", [1, 3, 8])
def test_rows_of_any_distance(columns):
    q, k, v = inputs(1, 2, 1, 20, 35, 40, 24, torch.float16)
    q, k, v = (nan_behind(x, 1, columns) for x in (q, k, v))
    check(shipped("causal"), CAUSAL, q, k, v, config=tiles(CAUSAL))


def test_an_unaligned_first_element():
    given = []
    for x in inputs(1, 1, 1, 20, 35, 16, dtype=torch.float16):
        flat = torch.full((x.numel() + 3,), math.nan, dtype=x.dtype)
        view = flat[3:].view(x.shape)
        view.copy_(x.detach())
        given.append(leaf(view))
    check(shipped("causal"), CAUSAL, *given, config=tiles(CAUSAL))


def test_a_gradient_of_stride_zero_and_one_of_transposed_memory():
    q, k, v = inputs(1, 2, 1, 20, 35, 16)
    exact = tuple(x.detach().double().requires_grad_() for x in (q, k, v))
    weights = torch.randn(1, 2, 16, 20, generator=torch.Generator().manual_seed(1)).mT
    for loss in (lambda out: out.sum(), lambda out: (out * weights.to(out.dtype)).sum()):
        found = torch.autograd.grad(
            loss(CAUSAL.attention(q, k, v, config=tiles(CAUSAL))), (q, k, v)
        )
        wants = torch.autograd.grad(loss(CAUSAL.reference(*exact)), exact)
        for ours, theirs in zip(found, wants, strict=True):
            torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kv_len", [43, 77])
def test_rows_of_a_bias_that_are_no_multiple_of_anything(kv_len):
    variant, mod = written(
        "tensors: {bias: {shape: [batch, heads, q_len, kv_len], dtype: float32}}\n"
        "score: score + bias[b, h, q_row, kv_idx]"
    )
    generator = torch.Generator().manual_seed(2)
    bias = torch.randn(2, 2, 19, kv_len, generator=generator)
    check(variant, mod, *inputs(2, 2, 1, 19, kv_len, 16), config=tiles(mod), bias=bias)
    # One bias for all sequences and heads.
    shared = bias[:1, :1].expand(2, 2, 19, kv_len)
    check(variant, mod, *inputs(2, 2, 1, 19, kv_len, 16), config=tiles(mod), bias=shared)


@pytest.mark.parametrize("axis", [0, 1, 2], ids=["batch", "heads", "rows"])
def test_offsets_past_2_to_the_31(axis):
    """Views over memory of which only the touched pages exist."""
    shape = (2, 2, 20, 16) if axis < 2 else (1, 1, 300, 16)
    far = 2**31 + 2**20 if axis < 2 else 2**23
    given = []
    for seed in range(3):
        strides = [512, 1024, 16, 1] if axis < 2 else [16, 16, far, 1]
        strides[axis] = far
        span = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1
        memory = torch.empty(span, dtype=torch.float16)
        view = memory.as_strided(shape, strides)
        view.copy_(torch.randn(shape, generator=torch.Generator().manual_seed(seed)))
        given.append(leaf(view))
    q, k, v = given
    if axis == 2:
        q, k = leaf(q[:, :, -20:]), k
    check(shipped("causal"), CAUSAL, q, k, v, config=tiles(CAUSAL, 32, 64))


def test_a_table_past_2_to_the_31():
    variant, mod = written(
        "tensors: {bias: {shape: [batch, heads, q_len, kv_len], dtype: float32}}\n"
        "score: score + bias[b, h, q_row, kv_idx]"
    )
    far = 2**31 + 2**20
    bias = torch.empty(far + 2 * 19 * 43, dtype=torch.float32).as_strided(
        (2, 1, 19, 43), (far, 19 * 43, 43, 1)
    )
    bias.copy_(torch.randn(2, 1, 19, 43, generator=torch.Generator().manual_seed(3)))
    check(variant, mod, *inputs(2, 1, 1, 19, 43, 16), config=tiles(mod), bias=bias)
