"""Ints past 32 bits and floats near the ends of float32: computed as written, never wrapped."""

from __future__ import annotations

import pytest
import torch
from generated import check, inputs, module, shipped, tiles, written

INTS = (
    "kv_idx > -2147483648",
    "q_idx - 2147483647 > kv_idx or kv_idx < 9",
    "kv_idx >= min(q_idx, 5) - 2147483647 and kv_idx <= q_idx",
    "(q_idx if kv_idx > 3 else -2147483648) < kv_idx",
    "(q_idx + 2147483647) // 7 > kv_idx and (kv_idx - 2147483647) % 5 > 0",
    "clamp(kv_idx - 2147483647, -2147483648, -2147483643) + 2147483647 > -4",
)


@pytest.mark.parametrize("mask", INTS)
def test_ints_past_32_bits(mask):
    variant, mod = written(f"mask: {mask}")
    check(variant, mod, *inputs(1, 1, 1, 20, 35, 16), config=tiles(mod, 16, 16))


def test_constants_that_only_together_leave_float32():
    """1e60 times a score near 1e-30 squared: no factor of it overflows where it is written."""
    variant, mod = written("score: (1e30 * score) ** 2 * 0.125")
    q, k, v = inputs(1, 1, 1, 20, 35, 16)
    check(variant, mod, q, k, v, config=tiles(mod), scale=2.0**-100)


def test_infinity_as_a_coefficient():
    _, mod = written("score: score + inf * float(min(q_idx - kv_idx, 0))")
    q, k, v = (x.detach() for x in inputs(1, 1, 1, 20, 20, 16))
    with torch.no_grad():
        out = mod.attention(q, k, v, config=tiles(mod))
    # 0 times inf is NaN where the key is no later than the query: so says float arithmetic.
    assert out.isnan().all()
    _, mod = written("score: score if kv_idx <= q_idx else score * -inf * score")
    found = mod.attention(q, k, v, config=tiles(mod))
    causal = module("causal")
    torch.testing.assert_close(found, causal.attention(q, k, v, config=tiles(causal)))


def test_the_largest_float_parameter_gives_numbers():
    mod = module("softcap")
    q, k, v = (x.detach() for x in inputs(1, 1, 1, 20, 20, 16))
    out = mod.attention(q, k, v, cap=2.0**100, config=tiles(mod))
    assert out.isfinite().all()
    with pytest.raises(ValueError, match=r"cap must be from 0.001 to 1.26\d+e\+30, got 2\.5"):
        mod.attention(q, k, v, cap=2.0**101, config=tiles(mod))


@pytest.mark.parametrize("cap", [50.0, 1e4, 2.0**60])
def test_a_cap_far_above_the_scores_leaves_them(cap):
    check(
        shipped("softcap"), module("softcap"), *inputs(1, 2, 1, 20, 35, 16), cap=cap,
        config=tiles(module("softcap")),
    )  # fmt: skip
