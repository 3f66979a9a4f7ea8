"""Attention over parts of the keys, merged, is attention over all of them."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from generated import assert_close, inputs, module, shipped, tiles, truth, with_gradients

CUTS = [(0, 17, 50), (0, 1, 50), (0, 50, 50), (0, 0, 50), (0, 16, 32, 50)]


def in_parts(mod, cuts, q_offset, **keywords):
    def attend(q, k, v):
        state = None
        for start, stop in itertools.pairwise(cuts):
            part = mod.attention(
                q, k[:, :, start:stop], v[:, :, start:stop], kv_offset=start, q_offset=q_offset,
                return_lse=True, config=tiles(mod), **keywords,
            )  # fmt: skip
            state = part if state is None else mod.merge(*state, *part)
        return state

    return attend


@pytest.mark.parametrize("cuts", CUTS, ids=str)
@pytest.mark.parametrize(
    ("name", "q_offset", "keywords"),
    [
        ("full", 0, {}),
        # Rows 0 ... 5 see nothing, rows up to 22 nothing of the second part.
        ("causal", -6, {}),
        # Late rows see nothing of the first part.
        ("sliding_window", 15, {"window": 9}),
    ],
)
def test_parts_merge_to_the_whole_with_gradients(name, q_offset, keywords, cuts):
    q, k, v = inputs(1, 2, 1, 35, 50, 16)
    found = with_gradients(in_parts(module(name), cuts, q_offset, **keywords), q, k, v)
    want = truth(shipped(name), q, k, v, q_offset=q_offset, **keywords)
    assert_close(found, want, 2e-5)


def test_half_precision():
    q, k, v = inputs(1, 2, 1, 35, 50, 16, dtype=torch.float16)
    found = with_gradients(in_parts(module("causal"), (0, 17, 50), 0), q, k, v)
    assert found["out"].dtype == torch.float16 and found["lse"].dtype == torch.float32
    assert_close(found, truth(shipped("causal"), q, k, v, q_offset=0), 6e-3)


def states(*lses):
    """Two states of one row a value each, whose gradients are wanted."""
    found = []
    for n, values in enumerate(lses):
        lse = torch.tensor(values)
        out = torch.where(lse == -math.inf, 0.0, torch.full_like(lse, n + 1.0))[..., None]
        found += [out.requires_grad_(), lse.requires_grad_()]
    return found


def test_empty_states():
    nothing = -math.inf
    given = states([nothing, nothing, 0.5], [nothing, 0.25, nothing])
    out, lse = module("full").merge(*given)
    assert out[:, 0].tolist() == [0.0, 2.0, 1.0]
    assert lse.tolist() == [nothing, 0.25, 0.5]
    grads = torch.autograd.grad(out.sum() + lse[1:].sum(), given)
    assert all(g.isfinite().all() for g in grads)
    assert [g.flatten().tolist() for g in grads] == [[0, 0, 1], [0, 0, 1], [0, 1, 0], [0, 1, 0]]


def test_no_gradient_is_lost_or_invented_where_both_parts_are_empty():
    given = states([-math.inf, 1.0], [-math.inf, 1.0])
    out, lse = module("full").merge(*given)
    for g in torch.autograd.grad([out, lse], given, [torch.ones(2, 1), torch.ones(2)]):
        assert g.isfinite().all() and g.flatten()[0] == 0


def test_order_does_not_matter_and_large_values_do_not_overflow():
    given = states([300.0, -300.0, 80.0], [299.0, 300.0, -200.0])
    out, lse = module("full").merge(*given)
    swapped = module("full").merge(*given[2:], *given[:2])
    torch.testing.assert_close((out, lse), swapped)
    weight = 1 / (1 + math.exp(-1))
    torch.testing.assert_close(out[:, 0].detach(), torch.tensor([2 - weight, 2.0, 1.0]))
    assert lse.isfinite().all()


def test_float64_states_keep_their_precision():
    given = [x.detach().double() for x in states([0.1, 0.2], [0.3, 0.7])]
    out, lse = module("full").merge(*given)
    assert out.dtype == lse.dtype == torch.float64
    torch.testing.assert_close(lse, torch.logaddexp(given[1], given[3]), rtol=1e-15, atol=0)
