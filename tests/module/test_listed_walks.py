"""Walks that list their tiles: gaps, groups of heads and packed sequences, against float64."""

from __future__ import annotations

from dataclasses import replace

import pytest
from generated import import_source, shipped, written

from fagen.codegen.plan import plan_module
from fagen.codegen.render import render
from fagen.verify.cases import WIDE_KEYS, WIDE_ROWS, Case
from fagen.verify.checks import run_case

DENSE = Case("dense", heads=4, kv_heads=2, q_len=51, kv_len=150, tiles=WIDE_ROWS)
PACKED = ((0, 40), (33, 75), (1, 90), (0, 0), (49, 131))
CASES = {
    "grouped": DENSE,
    "wide keys": replace(DENSE, tiles=WIDE_KEYS, offsets=(37, 5)),
    "packed": replace(
        DENSE, batch=len(PACKED), q_len=49, kv_len=131, lengths=PACKED, tiles=WIDE_KEYS
    ),
    "packed in half precision": replace(
        DENSE, batch=3, q_len=49, kv_len=131, lengths=PACKED[-3:], dtype="float16",
        layout="nan_padded",
    ),
}  # fmt: skip

#: Full tiles, masked ones and gaps in one row, for each query head and for each head of keys.
TEXTS = {
    "each query head": "mask: (kv_idx // 16 + q_row // 32 + h) % 3 == 0 or kv_idx % (50 + h) == 0",
    "each kv head": """\
tensors:
  live: {shape: [kv_heads, down, across], dtype: bool}
mask: live[kv_h, q_row // 16, kv_idx // 32] and (kv_idx & 63) != q_row & 31""",
    "alike for all heads": """\
tensors:
  seen: {shape: [batch, q_len, q_len], dtype: bool}
  prefix: {shape: [batch], dtype: int32}
mask: kv_idx < prefix[b] or seen[b, q_row, kv_idx - prefix[b]]""",
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_heads_and_gaps(text: str, case: Case) -> None:
    variant, module = written(text)
    walk = plan_module(variant).query_walk
    assert walk is not None and walk.lists
    result = run_case(variant, module, case, "cpu", 5)
    assert result.outcome == "ok", result.message


@pytest.mark.parametrize("name", ["block_map", "neighborhood_2d", "tree_causal", "dilated_window"])
def test_shipped_and_packed(name: str) -> None:
    variant = shipped(name)
    module = import_source(render(variant), f"listed_{name}")
    case = replace(CASES["packed in half precision"], parameters="five")
    result = run_case(variant, module, case, "cpu", 6)
    assert result.outcome == "ok", result.message
