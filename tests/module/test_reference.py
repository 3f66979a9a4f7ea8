"""The dense function a module carries equals the verifier's float64 one, gradients included."""

from __future__ import annotations

import pytest
import torch
from generated import (
    SHIPPED,
    assert_close,
    inputs,
    module,
    shipped,
    tables,
    truth,
    with_gradients,
    written,
)

PARAMETERS = {
    "sliding_window": {"window": 5},
    "gemma2_local": {"window": 7, "cap": 2.0},
    "sinks_window": {"window": 4, "n_sink": 3},
    "softcap": {"cap": 1.5},
}

#: What the shipped variants do not use: each once.
WRITTEN = {
    "symmetric alibi": "tensors: {slope: {shape: [heads], dtype: float32, default: 1 / (h + 1)}}\n"
    "score: score - slope[h] * abs(q_idx - kv_idx)",
    "dilated": "parameters: {w: {type: int, default: 9}, d: {type: int, default: 3, min: 1}}\n"
    "mask: abs(q_idx - kv_idx) <= w and abs(q_idx - kv_idx) % d == 0",
    "floors": "mask: (q_idx - 20) // 7 >= (kv_idx - 20) // 5 or (kv_idx - q_idx) % 4 == 1",
    "bits": "mask: (q_idx ^ kv_idx) & 5 != 4 and ~q_idx << 1 <= kv_idx >> 1",
    "sink": "softmax: {sink: 0.25 * h - q_idx / 10}\nmask: kv_idx < q_idx",
    "sink of a constant": "softmax: {sink: 0}\nmask: kv_idx < q_idx",
    "groups": "score: score + 0.5 * kv_h - 0.25 * h + 0.125 * b\nmask: kv_h > 0 or kv_idx < 9",
    "square": "score: score * score - 0.5",
    "sigmoid": "score: 3 * sigmoid(score) + sqrt(abs(score) + 1) * exp2(-abs(q_idx - kv_idx))",
    "clamped": "score: clamp(score, -1, 1) + min(score, 0.5) - max(score, -0.25)",
    "conditional": "score: score if kv_idx % 2 == 0 or q_idx < 3 else 0.5 * score - 1",
    "ignored": "score: (q_idx - kv_idx) * 0.1",
    "scale of a formula": "scale: (head_dim + 3) / ((head_dim + 3) * sqrt(head_dim)) / log2(6)",
    "no scale": "scale: 1\nscore: 0.25 * score",
    "start": "position: start\nmask: kv_idx <= q_idx",
    "lengths": "mask: kv_idx * q_len <= q_row * kv_len + heads + batch",
    "switch": "parameters: {strict: {type: bool, default: true}}\n"
    "mask: kv_idx < q_idx or (not strict and kv_idx == q_idx)",
    "mask of a parameter": "parameters: {everything: {type: bool, default: true}}\n"
    "mask: everything",
    "free length": "tensors: {bias: {shape: [heads, n], dtype: float32}}\n"
    "score: score + bias[h, clamp(q_idx - kv_idx, 0, n - 1)]",
    "outside": "tensors: {bias: {shape: [heads, n], dtype: float32}}\n"
    "score: score + bias[h, q_idx - kv_idx]",
    "packed names": "tensors: {shift: {shape: [total_kv], dtype: float32, default: kv_token / 8}}\n"
    "score: score + shift[kv_token] * q_token / (total_q + total_kv)",
    "as wide as a parameter": "parameters: {n: {type: int, default: 8, min: 1}}\n"
    "tensors: {bias: {shape: [heads, n], dtype: float32, default: 1 / (h + 2)}}\n"
    "score: score + bias[h, kv_idx % n]",
    "membership": "tensors: {chosen: {shape: [batch, q_len, 3], dtype: int32}}\n"
    "mask: kv_idx // 8 in chosen[b, q_row, :]",
    "one of two numbers": "parameters: {near: {type: float, default: 0.1}}\n"
    "score: near if q_idx != score else 0.3",
    "a factor of two numbers": "score: score * (0.1 if kv_idx < 9 else 0.3)",
    "the larger of a number": "score: score * max(0.1, min(kv_idx * 0.3, 0.7))",
    "power": "score: score ** 3 + abs(score) ** 1.5",
}  # fmt: skip
GIVEN = {
    "free length": lambda: {"bias": torch.randn(4, 9)},
    "outside": lambda: {"bias": torch.randn(4, 9)},
    "membership": lambda: {"chosen": torch.randint(-1, 5, (2, 21, 3)).int()},
}


#: Those without a table or parameter of floats, which float32 holds, are float64 throughout.
EXACT = ("a factor of two numbers", "the larger of a number", "conditional", "square", "groups")


def compare(variant, mod, q_len=21, kv_len=30, dtype=torch.float64, tolerance=None, **keywords):
    q, k, v = inputs(2, 4, 2, q_len, kv_len, 16, 24, dtype)

    def attend(q, k, v):
        return mod.reference(q, k, v, return_lse=True, **keywords)

    found = with_gradients(attend, q, k, v)
    assert found["out"].dtype == dtype
    assert found["lse"].dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    usual = {torch.float64: 2e-6, torch.float32: 2e-5, torch.float16: 4e-3}[dtype]
    assert_close(found, truth(variant, q, k, v, **keywords), tolerance or usual)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("name", SHIPPED)
def test_shipped(name, dtype):
    keywords = {**PARAMETERS.get(name, {}), **tables(name, 2, 30)}
    compare(shipped(name), module(name), dtype=dtype, **keywords)


@pytest.mark.parametrize("name", SHIPPED)
def test_other_lengths_offsets_and_scales(name):
    for q_len, kv_len in ((30, 11), (1, 30), (5, 0), (0, 5)):
        keywords = {**PARAMETERS.get(name, {}), **tables(name, 2, kv_len)}
        compare(shipped(name), module(name), q_len, kv_len, **keywords)
    keywords = {**PARAMETERS.get(name, {}), **tables(name, 2, 30)}
    compare(shipped(name), module(name), q_offset=14, kv_offset=3, scale=0.5, **keywords)


@pytest.mark.parametrize("name", WRITTEN)
def test_written(name):
    torch.manual_seed(0)
    tolerance = 1e-12 if name in EXACT else None
    compare(*written(WRITTEN[name]), tolerance=tolerance, **GIVEN.get(name, dict)())


def test_parameters_are_read_at_the_call():
    variant, mod = written(WRITTEN["as wide as a parameter"])
    for n in (1, 3, 8):
        compare(variant, mod, n=n)
    variant, mod = written(WRITTEN["switch"])
    compare(variant, mod, strict=False)


def test_rows_whose_scores_are_all_minus_infinity_have_no_gradient():
    """No mask cuts them off from q and k here."""
    variant, mod = written("score: score + (0.0 if q_idx % 3 == 0 else -inf)")
    compare(variant, mod, tolerance=1e-12)


def test_a_default_table_can_be_trained_through_the_reference():
    q, k, v = inputs(1, 4, 2, 21, 30, 16)
    slopes = torch.full((4,), 0.25, requires_grad=True)
    module("alibi").reference(q, k, v, slopes=slopes).square().sum().backward()
    assert slopes.grad.abs().min() > 0
