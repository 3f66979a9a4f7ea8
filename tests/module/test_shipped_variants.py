"""Every shipped variant at shapes that divide nothing, forward and backward."""

from __future__ import annotations

import pytest
import torch
from generated import SHIPPED, check, inputs, module, shipped, tables, tiles

#: Limits well inside the lengths, so that masks have edges in the middle of tiles.
PARAMETERS = {
    "sliding_window": {"window": 17},
    "gemma2_local": {"window": 21, "cap": 2.0},
    "sinks_window": {"window": 13, "n_sink": 3},
    "softcap": {"cap": 1.5},
}
SHAPES = [(1, 2, 1, 39, 53), (2, 2, 2, 37, 21)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["float32", "float16"])
@pytest.mark.parametrize("name", SHIPPED)
def test_odd_lengths(name, dtype):
    batch, heads, kv_heads, q_len, kv_len = SHAPES[dtype == torch.float16]
    q, k, v = inputs(batch, heads, kv_heads, q_len, kv_len, 24, 40, dtype)
    keywords = {**PARAMETERS.get(name, {}), **tables(name, batch, kv_len)}
    block = (16, 32) if dtype == torch.float32 else (32, 16)
    check(shipped(name), module(name), q, k, v, config=tiles(module(name), *block), **keywords)


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize(
    ("batch", "q_len", "kv_len"), [(0, 20, 20), (1, 0, 20), (1, 20, 0), (0, 0, 0)]
)
def test_nothing_to_do(name, batch, q_len, kv_len):
    q, k, v = inputs(batch, 4, 2, q_len, kv_len, 16, 24)
    found = check(shipped(name), module(name), q, k, v, **tables(name, batch, kv_len))
    if kv_len == 0:
        assert (found["out"] == 0).all() and (found["lse"] == -torch.inf).all()
    for gradient in ("dq", "dk", "dv"):
        assert (found[gradient] == 0).all()
