"""Variants of the folders, and what the language allows beyond them, as kernels against float64."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from generated import import_source, shipped, written

from fagen.codegen.render import render
from fagen.spec.load import shipped_files
from fagen.verify.cases import WIDE_ROWS, Case
from fagen.verify.checks import run_case

FOLDERS = ("masks", "documents", "scores", "softmax")
IN_FOLDERS = [name for name, path in shipped_files().items() if path.parent.name in FOLDERS]
#: Lengths that divide nothing; the queries are the last, so that their positions are not rows.
CASE = Case("small", heads=2, q_len=19, kv_len=45, parameters="five", tiles=WIDE_ROWS)

TEXTS = {
    "a bit that leaves 32": "mask: (1 << (kv_idx & 31)) > 0",
    "bits of words": """\
tensors:
  seen: {shape: [batch, kv_len, words], dtype: int32}
mask: seen[b, q_idx, kv_idx // 32] & (1 << (kv_idx % 32)) != 0""",
    "a table without axes": """\
tensors:
  beta: {shape: [], dtype: float32}
score: score * beta""",
    "a bool chooses": """\
tensors:
  ahead: {shape: [batch, kv_len], dtype: bool}
mask: kv_idx <= q_idx if ahead[b, kv_idx] else kv_idx >= q_idx""",
    "bools differ": """\
tensors:
  kind: {shape: [batch, kv_len], dtype: bool}
mask: kind[b, q_idx] != kind[b, kv_idx] or kv_idx == q_idx""",
    "bytes subtracted": """\
tensors:
  rank: {shape: [batch, kv_len], dtype: uint8}
mask: rank[b, q_idx] - rank[b, kv_idx] < 2""",
    "powers": "score: (abs(score) + 1) ** 1.5 * 0.1 + (abs(score) + 1) ** -0.5 + score ** 3 * 0.01",
    "in a row": """\
tensors:
  chosen: {shape: [batch, kv_len, 4], dtype: int32}
mask: kv_idx // 16 in chosen[b, q_idx, :] and kv_idx <= q_idx""",
    "any of a loop": "mask: any(kv_idx % 32 == q_idx % 32 - i for i in range(4))",
    "all of a loop": """\
tensors:
  t: {shape: [3, kv_len], dtype: int32}
mask: all(t[i, q_idx] != t[i, kv_idx] + i for i in range(3))""",
    "sum of a loop": """\
tensors:
  t: {shape: [3, kv_len], dtype: float32}
score: score + sum(t[i, q_idx] * t[i, kv_idx] for i in range(3))""",
    "a free length as an int": """\
tensors:
  t: {shape: [heads, n], dtype: float32}
mask: kv_idx < n * 2
score: score + t[h, (q_idx - kv_idx) % n] * (n * 0.01)""",
    "negative divisors": "mask: (kv_idx - q_idx) // -3 < 2 and (kv_idx - q_idx) % -5 < -1",
    "a table through two tables": """\
tensors:
  first: {shape: [batch, kv_len], dtype: int32, range: [0, 40]}
  second: {shape: [m], dtype: int32}
  third: {shape: [n], dtype: float32}
score: score + third[second[first[b, kv_idx]]]""",
    "kinds of blocks": """\
tensors:
  kind: {shape: [down, across], dtype: int8, range: [0, 3]}
let:
  k: kind[q_idx // 16, kv_idx // 16]
mask: k == 2 or (k == 1 and kv_idx <= q_idx)""",
    "blocks by shifts": """\
tensors:
  live: {shape: [kv_heads, down, across], dtype: bool}
mask: live[kv_h, q_row >> 4, kv_idx >> 4] and (q_idx & -8) >= (kv_idx & -8)""",
    "no product": "mask: kv_idx <= q_idx\nscore: q_idx * 0.1 - kv_idx * 0.2",
}


@pytest.mark.parametrize("name", IN_FOLDERS)
def test_a_variant_of_a_folder(name: str) -> None:
    module = import_source(render(shipped(name)), f"generated_{name}")
    result = run_case(shipped(name), module, CASE, "cpu", 0)
    assert result.outcome == "ok", result.message


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("check", ["attention", "reference"])
def test_what_the_language_allows(text: str, check: str) -> None:
    variant, module = written(text)
    case = replace(CASE, check=check, parameters="default")  # type: ignore[arg-type]
    result = run_case(variant, module, case, "cpu", 3)
    assert result.outcome == "ok", result.message


def test_the_reference_reads_a_bool_table_as_bools() -> None:
    """`not` of a 64-bit 1 would be -2, which is true."""
    _, module = written("tensors:\n  t: {shape: [kv_len], dtype: bool}\nmask: not t[kv_idx]")
    q, k, v = torch.ones(1, 1, 1, 16), torch.ones(1, 1, 2, 16), torch.ones(1, 1, 2, 16)
    v[:, :, 0] = 7.0
    assert (module.reference(q, k, v, t=torch.tensor([True, False])) == 1.0).all()
