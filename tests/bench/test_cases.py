"""Each case says the same in its mods, its YAML file and through FlexAttention's tracing."""

from __future__ import annotations

import pytest
import torch

from fagen.bench.cases import VARIANTS, case_of, dense_reference
from fagen.bench.correctness import relative_error, truths
from fagen.bench.peers import flex, flex_block_mask
from fagen.bench.problem import SHAPES, Problem, Sizes, parse_problem

SMALL = Problem(2, 4, 2, 200, 32)
SIZES = Sizes(window=50, prefix=30)


def exact_leaves(problem):
    leaves, _ = problem.inputs("cpu", 1)
    return tuple(x.detach().double() for x in leaves)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_formula_agrees_with_the_shipped_variant(variant):
    case = case_of(variant, SMALL, "cpu", SIZES)
    found = {name: truth(case, *exact_leaves(SMALL)) for name, truth in truths().items()}
    assert set(found) == {"formula", "fagen.verify"}
    for ours, theirs in zip(found["formula"], found["fagen.verify"], strict=True):
        assert relative_error(ours, theirs) < 1e-12


@pytest.mark.parametrize("variant", VARIANTS)
def test_flex_attention_accepts_the_mods(variant, monkeypatch):
    compile = torch.compile
    monkeypatch.setattr(
        torch, "compile", lambda f, dynamic: compile(f, dynamic=dynamic, backend="eager")
    )
    torch._dynamo.reset()
    case = case_of(variant, SMALL, "cpu", SIZES)
    q, k, v = (x.float() for x in exact_leaves(SMALL))
    options = {"fwd_num_warps": 4, "bwd_ROWS_GUARANTEED_SAFE": True}
    out = flex(case, (q, k, v), options, flex_block_mask(case, "cpu")).forward()
    assert relative_error(out, dense_reference(case, *exact_leaves(SMALL))[0]) < 1e-5


def test_the_sizes_of_the_check_reach_what_the_timed_ones_reach():
    # A window or prefix no shorter than the sequence would check nothing but causal.
    problem = Problem(1, 1, 1, 1000, 16)
    for variant in ("sliding_window", "prefix_lm"):
        out = [
            dense_reference(case_of(variant, problem, "cpu", sizes), *exact_leaves(problem))[0]
            for sizes in (Sizes(window=200, prefix=100), Sizes(window=1000, prefix=1))
        ]
        assert relative_error(*out) > 1e-2


def test_an_index_or_five_numbers_name_a_problem():
    assert parse_problem("0") == SHAPES[0] == Problem(4, 16, 16, 4096, 128)
    assert parse_problem("4,32,8,4096,64") == SHAPES[1]
    assert parse_problem(SHAPES[2].label) == SHAPES[2]


@pytest.mark.parametrize("text", ["3", "-1", "1,2,3", "a", "", "1,3,2,64,64", "1,2,2,0,64"])
def test_other_shapes_are_refused_by_name(text):
    with pytest.raises(ValueError, match="shape"):
        parse_problem(text)


def test_an_unknown_variant_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"causl.*sliding_window"):
        case_of("causl", SMALL, "cpu")


def test_inputs_are_those_of_their_seed():
    (q, k, v), d_out = SMALL.inputs("cpu", 3)
    assert q.shape == d_out.shape == (2, 4, 200, 32)
    assert k.shape == v.shape == (2, 2, 200, 32)
    assert q.requires_grad and k.requires_grad and v.requires_grad and not d_out.requires_grad
    assert torch.equal(SMALL.inputs("cpu", 3)[0][1], k)
    assert not torch.equal(SMALL.inputs("cpu", 4)[0][1], k)
