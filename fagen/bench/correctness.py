"""A module's errors before it may race: to float64 at small shapes, to a peer at the timed one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from fagen.bench.cases import case_of, dense_reference
from fagen.bench.modules import RoleConfigs, call
from fagen.bench.peers import Contestant
from fagen.bench.problem import CHECK_SIZES, Case, Problem

Truth = Callable[[Case, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
NAMES = ("out", "dq", "dk", "dv")

#: Relative Frobenius errors that bf16 operands explain; lse is rounded nowhere but in float32.
LIMIT = 1e-2
LSE_LIMIT = 1e-3


def relative_error(found: Tensor, truth: Tensor) -> float:
    """||found - truth|| / ||truth|| in float64; infinite when any element found is not finite."""
    found, truth = found.detach().double(), truth.detach().double()
    if found.shape != truth.shape or not bool(torch.isfinite(found).all()):
        return float("inf")
    size = float(torch.linalg.vector_norm(truth))
    difference = float(torch.linalg.vector_norm(found - truth))
    return difference / size if size else difference


def small_problem(problem: Problem, length: int) -> Problem:
    """Two sequences and at least four heads with the same head_dim and heads per kv head."""
    group = problem.heads // problem.kv_heads
    kv_heads = max(1, 4 // group)
    return Problem(2, kv_heads * group, kv_heads, length, problem.head_dim)


def _gradients(out: Tensor, leaves: Sequence[Tensor], d_out: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(out, tuple(leaves), d_out)


def reference_errors(
    module: ModuleType,
    variant: str,
    problem: Problem,
    *,
    device: str,
    seed: int,
    configs: RoleConfigs | None = None,
) -> dict[str, float]:
    """Relative errors of out, lse, dq, dk, dv on fresh bf16 inputs: the largest over `truths`.

    One truth is the formula written by hand in `cases`, the other fagen.verify's reading of the
    shipped YAML file; a misread variant and a wrong kernel both show.
    """
    case = case_of(variant, problem, device, CHECK_SIZES)
    leaves, d_out = problem.inputs(device, seed)
    out, lse = call(module, case, leaves, configs, return_lse=True)()
    found = {"out": out, "lse": lse, **_named_gradients(out, leaves, d_out)}
    errors: dict[str, float] = dict.fromkeys(found, 0.0)
    for truth in truths().values():
        exact = [x.detach().double().requires_grad_() for x in leaves]
        true_out, true_lse = truth(case, *exact)
        expected = {
            "out": true_out,
            "lse": true_lse,
            **_named_gradients(true_out, exact, d_out.double()),
        }
        for name, value in found.items():
            errors[name] = max(errors[name], relative_error(value, expected[name]))
    return errors


def _named_gradients(out: Tensor, leaves: Sequence[Tensor], d_out: Tensor) -> dict[str, Tensor]:
    return dict(zip(NAMES[1:], _gradients(out, leaves, d_out), strict=True))


def truths() -> dict[str, Truth]:
    """The float64 references at hand: the hand-written formula and, if present, fagen.verify."""
    found: dict[str, Truth] = {"formula": dense_reference}
    try:
        from fagen.spec.load import find_variant, load_variant
        from fagen.verify.reference import attention_reference
    except ImportError:  # A machine that holds prebuilt modules may lack the YAML reader's needs.
        return found

    def shipped(case: Case, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        variant = load_variant(find_variant(case.variant))
        return attention_reference(
            variant, q, k, v, parameters=case.parameters, tensors=case.tensors, scale=case.scale
        )

    return {**found, "fagen.verify": shipped}


def peer_errors(ours: Contestant, peer: Contestant, d_out: Tensor) -> dict[str, float]:
    """Relative differences of out, dq, dk, dv between two contestants on the same inputs."""
    differences = {}
    mine, theirs = ours.forward(), peer.forward()
    differences["out"] = relative_error(mine, theirs)
    left, right = ours.backward(d_out)(), peer.backward(d_out)()
    for name, x, y in zip(NAMES[1:], left, right, strict=True):
        differences[name] = relative_error(x, y)
    return differences


def verdict(errors: Mapping[str, Any]) -> str | None:
    """None when every error is within its limit, else a sentence naming the worst offenders."""
    wrong = [
        f"{name} {value:.1e}"
        for name, value in errors.items()
        if not value <= (LSE_LIMIT if name == "lse" else LIMIT)
    ]
    return f"relative error too large: {', '.join(wrong)}" if wrong else None
