"""Rows that see no key, rows that see one, and the log-sum-exp (public faults, first section).

Of that section, the empty splits of decode have no kernels yet; what merging them must give stands
in test_merge.py.
"""

from __future__ import annotations

import math

import pytest
import torch
from generated import (
    assert_close,
    check,
    inputs,
    module,
    shipped,
    tiles,
    truth,
    with_gradients,
    written,
)

CAUSAL, FULL = module("causal"), module("full")


def test_a_row_without_keys_gives_0_and_minus_infinity_and_no_gradient():
    variant, mod = written("mask: q_idx > kv_idx")
    q, k, v = inputs(1, 1, 1, 256, 256, 64)
    found = check(variant, mod, q, k, v, config=tiles(mod, 64, 64))
    assert (found["out"][0, 0, 0] == 0).all() and found["lse"][0, 0, 0] == -math.inf
    assert (found["dq"][0, 0, 0] == 0).all()
    # Merged with another part, the empty row is that part.
    q, k, v = (x.detach() for x in (q, k, v))
    own = mod.attention(q, k, v, return_lse=True, config=tiles(mod, 64, 64))
    other = FULL.attention(q, k, v, return_lse=True, config=tiles(FULL, 64, 64))
    out, lse = mod.merge(*own, *other)
    torch.testing.assert_close(out[0, 0, 0], other[0][0, 0, 0], rtol=0, atol=0)
    torch.testing.assert_close(lse[0, 0, 0], other[1][0, 0, 0], rtol=0, atol=0)


@pytest.mark.parametrize("name", ["causal", "full"])
@pytest.mark.parametrize(("q_len", "head_dim"), [(4, 64), (128, 128)])
def test_no_keys_at_all(name, q_len, head_dim):
    q, k, v = inputs(1, 1, 1, q_len, 0, head_dim)
    found = check(shipped(name), module(name), q, k, v)
    assert (found["out"] == 0).all() and (found["lse"] == -math.inf).all()
    assert (found["dq"] == 0).all()


def test_the_first_tile_of_a_row_masked_the_next_not():
    variant, mod = written("mask: kv_idx >= 128 - q_idx")
    check(variant, mod, *inputs(1, 1, 1, 128, 256, 16), config=tiles(mod, 32, 64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["float32", "float16"])
def test_one_key_with_a_score_far_below(dtype):
    q = torch.full((1, 1, 1, 128), -64.0, dtype=dtype, requires_grad=True)
    k = torch.full((1, 1, 1, 128), 64.0, dtype=dtype, requires_grad=True)
    v = torch.randn(1, 1, 1, 128, generator=torch.Generator().manual_seed(0)).to(dtype)
    v.requires_grad_()
    for name in ("full", "causal"):
        out, lse = module(name).attention(q, k, v, return_lse=True)
        assert torch.equal(out, v)
        assert lse.item() == pytest.approx(-524288 / math.sqrt(128), rel=1e-6)
        dq, dk, dv = torch.autograd.grad(out.sum(), (q, k, v))
        # Two float32 sums of 128 terms, times a key of 64.
        assert dq.abs().max() < 1e-2 and dk.abs().max() < 1e-2 and (dv == 1).all()


BIASED = "tensors: {bias: {shape: [q_len, kv_len], dtype: float32}}\n"


def test_a_row_of_the_least_float_still_counts_its_keys():
    _, mod = written(BIASED + "score: score + bias[q_row, kv_idx]")
    q, k, v = inputs(1, 1, 1, 8, 8, 16)
    bias = torch.zeros(8, 8)
    bias[3] = -3.4e38
    out, lse = mod.attention(q, k, v, return_lse=True, bias=bias, config=tiles(mod))
    grads = torch.autograd.grad(out.sum(), (q, k, v))
    assert all(x.isfinite().all() for x in (out, lse, *grads))
    torch.testing.assert_close(out[0, 0, 3], v[0, 0].mean(0))


def test_a_bias_of_minus_infinity_hides_keys():
    _, mod = written(BIASED + "score: score + bias[q_row, kv_idx]")
    q, k, v = inputs(1, 1, 1, 20, 24, 16)
    bias = torch.zeros(20, 24)
    bias[:, ::2] = -math.inf
    bias[5] = -math.inf
    # Float reads are saturated: what is infinite becomes the least float, never NaN. Only a mask
    # takes keys away.
    out = mod.attention(q, k, v, bias=bias, config=tiles(mod))
    dq, dk, dv = torch.autograd.grad(out.sum(), (q, k, v))
    assert all(x.isfinite().all() for x in (out, dq, dk, dv))
    want = mod.reference(q, k, v, bias=bias)
    rows = torch.arange(20) != 5
    torch.testing.assert_close(out[:, :, rows], want[:, :, rows], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("poison", [math.nan, math.inf], ids=["nan", "inf"])
def test_what_a_mask_hides_never_leaks(poison):
    text = BIASED + "score: score + bias[q_row, kv_idx]\nmask: kv_idx <= q_idx"
    variant, mod = written(text)
    q, k, v = inputs(1, 1, 1, 40, 40, 16)
    bias = torch.randn(40, 40, generator=torch.Generator().manual_seed(2))
    hidden = torch.ones(40, 40, dtype=torch.bool).triu(1)
    clean = check(variant, mod, q, k, v, config=tiles(mod), bias=bias.masked_fill(hidden, 0.0))

    def attend(q, k, v):
        bad = bias.masked_fill(hidden, poison)
        return mod.attention(q, k, v, return_lse=True, bias=bad, config=tiles(mod))

    found = with_gradients(attend, q, k, v)
    assert_close(found, {n: x.double() for n, x in clean.items()}, 1e-6)


@pytest.mark.parametrize("name", ["full", "causal"])
def test_lse_is_natural(name):
    q, k, v = inputs(1, 1, 1, 128, 128, 64)
    mod = module(name)
    _, lse = mod.attention(q, k, v, return_lse=True, config=tiles(mod, 64, 64))
    scores = (q.double() @ k.double().mT) / 8
    if name == "causal":
        scores = scores.masked_fill(torch.ones(128, 128, dtype=torch.bool).triu(1), -math.inf)
    torch.testing.assert_close(lse.double(), scores.logsumexp(-1), rtol=1e-6, atol=1e-6)


def test_a_sink_is_in_the_lse_once_and_alone_in_an_empty_row():
    variant, mod = written(
        "tensors: {sinks: {shape: [heads], dtype: float32}}\n"
        "mask: kv_idx < q_idx\nsoftmax: {sink: 'sinks[h]'}"
    )
    sinks = torch.tensor([0.5, -3.0])
    q, k, v = inputs(1, 2, 1, 35, 35, 16)
    found = check(variant, mod, q, k, v, config=tiles(mod), sinks=sinks)
    torch.testing.assert_close(found["lse"][0, :, 0], sinks)
    assert (found["out"][:, :, 0] == 0).all()


def test_an_empty_row_is_its_sink_to_the_last_bit_beside_a_term_of_the_row():
    """Through the row's term, 40.0 here, the sink would come back rounded to its digits."""
    variant, mod = written(
        "mask: kv_idx < q_idx - 40\nscore: score + q_idx\nsoftmax: {sink: 'h * 0.1'}"
    )
    q, k, v = inputs(1, 2, 1, 60, 60, 16)
    found = check(variant, mod, q, k, v, config=tiles(mod))
    wanted = torch.tensor([0.0, 0.1])[:, None].expand(2, 41)
    assert torch.equal(found["lse"][0, :, :41].float(), wanted)


def test_a_sink_of_minus_infinity_is_no_sink():
    _, mod = written(
        "tensors: {sinks: {shape: [heads], dtype: float32}}\n"
        "mask: kv_idx <= q_idx\nsoftmax: {sink: 'sinks[h]'}"
    )
    q, k, v = inputs(1, 2, 1, 20, 20, 16)
    sinks = torch.tensor([-math.inf, -math.inf])
    out = mod.attention(q, k, v, sinks=sinks, config=tiles(mod))
    want = truth(shipped("causal"), q, k, v)
    assert_close({"out": out.detach()}, want, 2e-5)
