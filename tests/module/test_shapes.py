"""Head widths, head counts and where the first query stands (public faults, third section).

Of that section, packed sequences and decode have no kernels yet; nor have the gradients of tables,
of which only the score that ignores q.k and the deterministic backward are tested here.
"""

from __future__ import annotations

import pytest
import torch
from generated import check, inputs, module, shipped, tiles, with_gradients, written

CAUSAL = module("causal")
WIDTHS = [16, 32, 40, 64, 72, 80, 96, 112, 120, 128, 160, 192, 224, 256]


@pytest.mark.parametrize(
    ("head_dim", "head_dim_v"),
    [*((n, n) for n in WIDTHS), (192, 128), (64, 128), (128, 64), (1, 1), (3, 5), (16, 1)],
)
def test_head_widths(head_dim, head_dim_v):
    dtype = torch.float16 if head_dim % 16 else torch.float32
    q, k, v = inputs(1, 2, 1, 19, 34, head_dim, head_dim_v, dtype)
    found = check(shipped("causal"), CAUSAL, q, k, v, config=tiles(CAUSAL, 32, 32))
    assert found["out"].shape == (1, 2, 19, head_dim_v)


@pytest.mark.parametrize(
    ("heads", "kv_heads"), [(1, 1), (8, 8), (8, 2), (9, 3), (21, 7), (8, 1), (32, 8)]
)
def test_head_counts(heads, kv_heads):
    # Every head has a penalty of its own, so that none can stand for another.
    mod = module("alibi")
    check(shipped("alibi"), mod, *inputs(1, heads, kv_heads, 18, 20, 16), config=tiles(mod, 32, 32))


def rows_seen(mod, q_len, kv_len, **keywords):
    """Which keys each row sees: with q = 0 and v = identity, out is the average over them."""
    q, k, v = torch.zeros(1, 1, q_len, 16), torch.zeros(1, 1, kv_len, 16), torch.eye(kv_len, 16)
    out = mod.attention(q, k, v[None, None], **keywords)[0, 0]
    return [[n for n in range(kv_len) if row[n] > 0] for row in out]


def test_causal_is_aligned_to_the_end_by_default():
    assert rows_seen(CAUSAL, 2, 5) == [[0, 1, 2, 3], [0, 1, 2, 3, 4]]
    assert rows_seen(CAUSAL, 5, 2) == [[], [], [], [0], [0, 1]]
    assert rows_seen(CAUSAL, 3, 16)[0] == list(range(14))


def test_causal_is_aligned_to_the_start_where_asked():
    _, mod = written("mask: kv_idx <= q_idx\nposition: start")
    assert rows_seen(mod, 2, 5) == [[0], [0, 1]]
    assert rows_seen(mod, 5, 2) == [[0], [0, 1], [0, 1], [0, 1], [0, 1]]
    assert rows_seen(mod, 3, 16) == [[0], [0, 1], [0, 1, 2]]


@pytest.mark.parametrize(("q_len", "kv_len"), [(3, 128), (2, 5), (5, 2)])
@pytest.mark.parametrize("position", ["start", "end"])
def test_causal_of_other_lengths(q_len, kv_len, position):
    variant, mod = written(f"mask: kv_idx <= q_idx\nposition: {position}")
    check(variant, mod, *inputs(1, 1, 1, q_len, kv_len, 16), config=tiles(mod, 16, 64))


def test_a_window_of_4_ends_at_the_query_itself():
    seen = rows_seen(module("sliding_window"), 8, 8, window=4)
    assert seen[7] == [4, 5, 6, 7] and seen[0] == [0] and seen[3] == [0, 1, 2, 3]
    assert rows_seen(module("sliding_window"), 8, 8, window=1) == [[n] for n in range(8)]


def test_offsets_move_both_sides():
    assert rows_seen(CAUSAL, 2, 5, q_offset=0) == [[0], [0, 1]]
    assert rows_seen(CAUSAL, 2, 5, q_offset=10, kv_offset=8) == [[0, 1, 2], [0, 1, 2, 3]]
    assert rows_seen(CAUSAL, 2, 5, q_offset=1, kv_offset=2) == [[], [0]]


def test_alibi_prefers_the_near_key_at_every_absolute_position():
    mod = module("alibi")
    q, k = torch.zeros(1, 2, 1, 16), torch.zeros(1, 2, 16, 16)
    v = torch.eye(16).expand(1, 2, 16, 16)
    weights = mod.attention(q, k, v)[0, :, 0]
    assert (weights.diff(dim=-1) > 0).all()
    # The last query alone, as when decoding, is the last row of the whole.
    whole = mod.attention(torch.zeros(1, 2, 16, 16), k, v)[0, :, -1]
    torch.testing.assert_close(weights, whole)
    moved = mod.attention(q, k, v, q_offset=10**6 + 15, kv_offset=10**6)[0, :, 0]
    torch.testing.assert_close(weights, moved)


def test_softcapped_scores_stay_inside_the_cap():
    mod = module("softcap")
    q, k, v = inputs(1, 1, 1, 33, 40, 16)
    q = (q.detach() * 100).requires_grad_()
    for cap in (10.0, 1.0):
        found = check(shipped("softcap"), mod, q, k, v, config=tiles(mod), cap=cap)
        keys = torch.arange(8, 41)
        assert (found["lse"] <= cap + keys.log() + 1e-3).all()
        assert (found["lse"] >= -cap + keys.log() - 1e-3).all()


@pytest.mark.parametrize("scale", [128**-0.5, 3 * 128**-0.5, 1e-6, 1.0])
def test_scale_is_not_baked_in(scale):
    q, k, v = inputs(1, 1, 1, 20, 20, 16)
    check(shipped("causal"), CAUSAL, q, k, v, config=tiles(CAUSAL, 32, 32), scale=scale)


def test_a_score_that_ignores_the_product_gives_no_gradient_to_it():
    variant, mod = written("score: (q_idx - kv_idx) * 0.1")
    found = check(variant, mod, *inputs(1, 2, 1, 20, 30, 16), config=tiles(mod))
    assert (found["dq"] == 0).all() and (found["dk"] == 0).all()


def test_the_backward_is_the_same_bits_twice():
    q, k, v = inputs(1, 4, 2, 40, 40, 16)

    def attend(q, k, v):
        return CAUSAL.attention(q, k, v, return_lse=True, deterministic=True, config=tiles(CAUSAL))

    first, again = with_gradients(attend, q, k, v), with_gradients(attend, q, k, v)
    for name, value in first.items():
        torch.testing.assert_close(value, again[name], rtol=1e-6, atol=1e-6)
