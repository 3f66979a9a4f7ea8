"""Walks that test tiles, compiled: loops carry 32 bits and tables of any type are read."""

from __future__ import annotations

import pytest

from fagen.codegen.plan import plan_module
from fagen.codegen.render import module_text, render_plan
from fagen.device.resources import Shape, compile_builds, default_builds
from fagen.spec.load import find_variant, load_text, load_variant
from fagen.spec.variant import Variant

#: A bound that may pass 32 bits beside a test of tiles.
WIDE = """name: wide
tensors:
  doc: {shape: [batch, kv_len], dtype: int32, nondecreasing: true}
  start: {shape: [batch, kv_len], dtype: int32}
  far: {shape: [batch, kv_len], dtype: int64}
parameters:
  n: {type: int, default: 4, min: 0}
mask: >-
  doc[b, q_idx] == doc[b, kv_idx]
  and (kv_idx < start[b, q_idx] + n or far[b, q_idx] * 3 <= kv_idx <= q_idx)
"""
#: Tables of blocks, tables of bools, tables behind tables, and much arithmetic.
TESTED = ("block_map", "global_window", "document_sinks_window", "sliding_tile_3d")


def failures(variant: Variant, folder) -> dict:
    """What does not compile of the walks and, for bools in the loop, of the gradient of q."""
    plan = plan_module(variant)
    kernels = module_text(plan).kernels
    roles = {"query_walk", "key_walk"}
    if any(t.dtype == "bool" for t in variant.tensors):
        roles.add("dq")
    wanted = [k.role for k in kernels if k.role in roles]
    builds = default_builds(wanted, plan.visits, ["sm_90"], [Shape("bf16", 64)])
    module = folder / f"{variant.name}.py"
    module.write_text(render_plan(plan))
    results = compile_builds(variant, kernels, module, builds, workers=1)
    assert wanted and len(results) == len(wanted)
    return {
        b.role: (r.outcome, r.detail)
        for b, r in zip(builds, results, strict=True)
        if r.outcome not in ("ok", "spilled")
    }


@pytest.mark.parametrize("name", TESTED)
def test_a_shipped_walk_compiles(name: str, tmp_path) -> None:
    assert not failures(load_variant(find_variant(name)), tmp_path)


def test_a_wide_bound_compiles(tmp_path) -> None:
    assert not failures(load_text(WIDE), tmp_path)
