"""Host cost of a tiny call for every peer, and of the parts of ours."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from fagen.bench.cases import case_of
from fagen.bench.farm import one_line
from fagen.bench.host_cost import Action, parts_of_call, whole_call
from fagen.bench.modules import call, configs_for, import_module
from fagen.bench.peers import flex, flex_block_mask, tiny_problem
from fagen.bench.problem import Case
from fagen.bench.run import Run


def host_costs(run: Run, variants: Sequence[str]) -> dict[str, Any]:
    """us a call of each variant for each peer, and of the parts of ours; errors are values."""
    measured = {}
    for variant in variants:
        measured[variant] = _variant_costs(run, case_of(variant, tiny_problem(), run.device))
        run.say(f"host cost of {variant}: {json.dumps(measured[variant])}")
    return measured


def _sdpa(leaves: Sequence[Tensor], causal: bool) -> Tensor:
    q, k, v = leaves
    return scaled_dot_product_attention(q, k, v, is_causal=causal)


def _variant_costs(run: Run, case: Case) -> dict[str, Any]:
    torch._dynamo.reset()
    leaves, _ = case.problem.inputs(run.device, run.seed)
    module = import_module(run.modules[case.variant])
    configs = configs_for(run.configs, case.variant, case.problem.head_dim)
    ours = call(module, case, leaves, configs)
    mask = flex_block_mask(case, run.device)
    forwards: dict[str, Action] = {"ours": ours, "flex": flex(case, leaves, {}, mask).forward}
    if case.variant in ("full", "causal"):
        forwards["sdpa"] = partial(_sdpa, leaves, case.variant == "causal")
    calls: dict[str, Any] = {}
    for peer, forward in forwards.items():
        try:
            calls[peer] = whole_call(forward, leaves)
        except Exception as error:
            calls[peer] = {"error": one_line(error)}
    try:
        parts: dict[str, Any] = parts_of_call(module, ours)
    except Exception as error:
        parts = {"error": one_line(error)}
    return {"calls": calls, "parts": parts}
