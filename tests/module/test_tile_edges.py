"""Where tiles end and lengths do not (public faults, second section, dense kernels)."""

from __future__ import annotations

import math

import pytest
import torch
from generated import check, inputs, module, shipped, tiles, written


def poisoned(x: torch.Tensor) -> torch.Tensor:
    """The same table with memory around it that must not be read."""
    poison = math.nan if x.is_floating_point() else 10**6
    whole = x.new_full([n + 3 for n in x.shape], poison)
    inner = whole[tuple(slice(0, n) for n in x.shape)]
    inner.copy_(x)
    return inner


def test_keys_past_the_end_are_not_in_the_denominator():
    mod = module("full")
    q, k, v = inputs(1, 1, 1, 20, 100, 16)
    found = check(shipped("full"), mod, q, k, v, config=tiles(mod, 16, 256))
    scores = q.double() @ k.double().mT / 4
    torch.testing.assert_close(found["lse"].double(), scores.logsumexp(-1), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["full", "causal"])
def test_one_row_past_a_tile_in_every_head(name):
    mod = module(name)
    found = check(
        shipped(name), mod, *inputs(1, 2, 2, 65, 65, 64), config=tiles(mod, 64, 64), loss="out"
    )
    assert (found["dv"][0, 1].abs().sum(-1) > 0).all()


def test_a_table_of_one_entry_a_row_is_not_read_past_its_end():
    variant, mod = written(
        "tensors: {horizon: {shape: [q_len], dtype: int32}}\nmask: kv_idx < horizon[q_row]"
    )
    horizon = poisoned((torch.arange(130) * 37 % 131).int())
    check(variant, mod, *inputs(1, 1, 1, 130, 130, 16), config=tiles(mod, 64, 32), horizon=horizon)


def test_a_table_one_entry_short_is_never_read_there():
    variant, mod = written(
        "tensors: {table: {shape: [n], dtype: float32}}\n"
        "mask: kv_idx < 127 and kv_idx <= q_idx\n"
        "score: score + table[kv_idx]"
    )
    table = poisoned(torch.randn(127, generator=torch.Generator().manual_seed(0)))
    check(variant, mod, *inputs(1, 1, 1, 128, 128, 16), config=tiles(mod, 64, 32), table=table)


def test_an_index_below_zero_is_guarded():
    variant, mod = written(
        "tensors: {bias: {shape: [batch, heads, q_len, 64], dtype: float32}}\n"
        "mask: 0 <= q_idx - kv_idx < 64\n"
        "score: score + bias[b, h, q_row, q_idx - kv_idx]"
    )
    bias = poisoned(torch.randn(1, 1, 128, 64, generator=torch.Generator().manual_seed(0)))
    check(variant, mod, *inputs(1, 1, 1, 128, 128, 64), config=tiles(mod, 64, 32), bias=bias)


def test_inner_tiles_are_masked_unless_proven_full():
    variant, mod = written(
        "tensors: {allowed: {shape: [q_len, kv_len], dtype: bool}}\nmask: allowed[q_row, kv_idx]"
    )
    allowed = torch.rand(40, 512, generator=torch.Generator().manual_seed(0)) < 0.5
    check(variant, mod, *inputs(1, 1, 1, 40, 512, 16), config=tiles(mod, 32, 64), allowed=allowed)


def test_documents_that_end_inside_tiles():
    # 1, 4, 9, ..., 100: squares that begin documents in 240 tokens.
    starts = [n * n for n in range(11)]
    doc = torch.bucketize(torch.arange(240), torch.tensor(starts[1:]), right=True).int()[None]
    mod = module("document")
    check(
        shipped("document"), mod, *inputs(1, 1, 1, 240, 240, 16), config=tiles(mod, 64, 32),
        doc=poisoned(doc),
    )  # fmt: skip


@pytest.mark.parametrize("blocks", [(64, 128), (128, 64)])
def test_a_block_map_under_tiles_of_another_shape(blocks):
    variant, mod = written(
        "parameters: {T: {type: int, default: 64, static: true}}\n"
        "tensors: {live: {shape: [batch, heads, q_blocks, kv_blocks], dtype: bool}}\n"
        "mask: live[b, h, q_row // T, kv_idx // T]"
    )
    live = torch.rand(1, 2, 4, 8, generator=torch.Generator().manual_seed(1)) < 0.4
    live[0, 0, 1] = False
    q, k, v = inputs(1, 2, 1, 256, 512, 16)
    found = check(variant, mod, q, k, v, config=tiles(mod, *blocks), live=live)
    assert (found["lse"][0, 0, 64:128] == -math.inf).all()


@pytest.mark.parametrize("name", ["full", "causal", "sliding_window", "sinks_window"])
@pytest.mark.parametrize(("q_len", "kv_len"), [(1, 1), (1, 33), (31, 32), (32, 33), (33, 17)])
def test_lengths_round_a_tile(name, q_len, kv_len):
    mod = module(name)
    keywords = {"window": 16} if "window" in name else {}
    q, k, v = inputs(1, 1, 1, q_len, kv_len, 16)
    check(shipped(name), mod, q, k, v, config=tiles(mod, 16, 32), **keywords)
