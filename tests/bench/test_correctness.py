"""A wrong module does not race."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from fagen.bench.correctness import (
    peer_errors,
    reference_errors,
    relative_error,
    small_problem,
    verdict,
)
from fagen.bench.modules import import_module
from fagen.bench.peers import Contestant
from fagen.bench.problem import SHAPES, Problem

PLAIN = import_module(Path(__file__).parent / "plain_causal.py")
PROBLEM = Problem(2, 4, 2, 250, 16)


def test_the_relative_error():
    truth = torch.tensor([3.0, 4.0])
    assert relative_error(truth, truth) == 0
    assert relative_error(torch.tensor([3.0, 4.5]), truth) == pytest.approx(0.1)
    assert relative_error(torch.zeros(2), torch.zeros(2)) == 0
    assert relative_error(torch.tensor([1.0, 0.0]), torch.zeros(2)) == 1


@pytest.mark.parametrize("bad", [torch.tensor([float("nan"), 4.0]), torch.zeros(3)])
def test_nan_and_another_shape_are_infinitely_wrong(bad):
    assert relative_error(bad, torch.tensor([3.0, 4.0])) == float("inf")


def test_a_right_module_is_within_the_limits():
    errors = reference_errors(PLAIN, "causal", PROBLEM, device="cpu", seed=0)
    assert set(errors) == {"out", "lse", "dq", "dk", "dv"}
    assert 0 < errors["out"] < 1e-2
    assert verdict(errors) is None


def test_a_module_of_another_mask_is_found_wrong():
    def lenient(q, k, v, *, window, **keywords):
        return PLAIN.attention(q, k, v, **keywords)

    module = SimpleNamespace(attention=lenient, Config=PLAIN.Config)
    errors = reference_errors(module, "sliding_window", PROBLEM, device="cpu", seed=0)
    assert verdict(errors).startswith("relative error too large: out ")


def test_a_wrong_gradient_alone_is_found():
    def scaled_v(q, k, v, **keywords):
        return PLAIN.attention(q, k, v + 0.05 * (v - v.detach()), **keywords)

    module = SimpleNamespace(attention=scaled_v, Config=PLAIN.Config)
    errors = reference_errors(module, "causal", PROBLEM, device="cpu", seed=0)
    assert verdict(errors) == f"relative error too large: dv {errors['dv']:.1e}"


def test_nan_is_no_verdict_of_right():
    assert verdict({"out": float("nan")}) is not None
    assert verdict({"lse": 2e-3, "out": 2e-3}) == "relative error too large: lse 2.0e-03"


@pytest.mark.parametrize("shape", SHAPES)
def test_the_small_problem_keeps_the_structure(shape):
    small = small_problem(shape, 1000)
    assert small.head_dim == shape.head_dim
    assert small.heads // small.kv_heads == shape.heads // shape.kv_heads
    assert small.heads >= 4 and small.batch == 2 and small.length == 1000


def test_peers_are_compared_in_outputs_and_gradients():
    leaves, d_out = PROBLEM.inputs("cpu", 0)
    q, k, v = leaves
    ours = Contestant("ours", lambda: PLAIN.attention(q, k, v), leaves)
    other = Contestant("other", lambda: PLAIN.attention(q, k, v, scale=0.3), leaves)
    assert peer_errors(ours, ours, d_out) == {"out": 0, "dq": 0, "dk": 0, "dv": 0}
    assert min(peer_errors(ours, other, d_out).values()) > 1e-2
