"""What the files of the folders mean, by formulas of their own."""

from __future__ import annotations

import pytest
import torch
from folder_formulas import FOLDER_FORMULAS, Call, Formula, t5_bucket
from formulas import FORMULAS

from fagen.spec.load import find_variant, load_variant, shipped_files
from fagen.spec.variant import Variant
from fagen.verify.evaluate import evaluate
from fagen.verify.reference import attention_reference

#: batch, heads, kv_heads, q_len, kv_len
SHAPES = {
    "square": (2, 4, 2, 31, 31),
    "more keys": (2, 2, 2, 9, 33),
    "more queries": (1, 3, 1, 30, 12),
}
OFFSETS = ({}, {"q_offset": 3, "kv_offset": 2}, {"q_offset": -4})


def by_hand(formula: Formula, q, k, v, tables, q_offset=None, kv_offset=0):
    """out and lse straight from the definition, the sink as one more column without value."""
    q_len, kv_len = q.shape[2], k.shape[2]
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    if q_offset is None:
        q_offset = 0 if formula.from_start else kv_len - q_len
    row = torch.arange(q_len).view(-1, 1)
    keys = torch.arange(kv_len).view(1, -1) + kv_offset
    call = Call(row + q_offset, keys, row, formula.parameters, tables)
    scale = q.shape[3] ** -0.5 if formula.scale is None else formula.scale
    scores = formula.score(torch.einsum("bhqd,bhkd->bhqk", q, k) * scale, call)
    mask = formula.mask(call).expand_as(scores)
    columns = [scores.masked_fill(~mask, float("-inf"))]
    if formula.sink is not None:
        columns.append(formula.sink(call).expand(*scores.shape[:3], 1))
        v = torch.cat([v, v.new_zeros(*v.shape[:2], 1, v.shape[3])], 2)
    whole = torch.cat(columns, -1)
    live = (whole > float("-inf")).any(-1, keepdim=True)
    weights = torch.softmax(whole.masked_fill(~live, 0.0), -1).masked_fill(~live, 0.0)
    return weights @ v, torch.logsumexp(whole, -1)


def test_every_file_of_the_folders_has_a_formula() -> None:
    files = {n: p for n, p in shipped_files().items() if p.parent.name != "models"}
    assert files.keys() == FORMULAS.keys() | FOLDER_FORMULAS.keys()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", FOLDER_FORMULAS)
def test_the_file_means_the_formula(name: str, shape: str) -> None:
    formula, variant = FOLDER_FORMULAS[name], load_variant(find_variant(name))
    batch, heads, kv_heads, q_len, kv_len = SHAPES[shape]
    generator = torch.Generator().manual_seed(0)
    sizes = ((heads, q_len, 8), (kv_heads, kv_len, 8), (kv_heads, kv_len, 12))
    q, k, v = (
        torch.randn(batch, *s, generator=generator, dtype=torch.float64, requires_grad=True)
        for s in sizes
    )
    tables = formula.tables(batch, heads, q_len, kv_len)
    for offsets in OFFSETS:
        found = attention_reference(
            variant, q, k, v, parameters=formula.parameters, tensors=tables, **offsets
        )
        expected = by_hand(formula, q, k, v, tables, **offsets)
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", FOLDER_FORMULAS)
def test_the_formula_tells_pairs_apart(name: str) -> None:
    """A formula that admits all pairs or none and changes no score would prove nothing."""
    formula, (batch, heads, _, q_len, kv_len) = FOLDER_FORMULAS[name], SHAPES["square"]
    row = torch.arange(q_len).view(-1, 1)
    tables = formula.tables(batch, heads, q_len, kv_len)
    call = Call(row, row.view(1, -1), row, formula.parameters, tables)
    mask = formula.mask(call)
    score = torch.randn(batch, heads, q_len, kv_len, dtype=torch.float64)
    changed = not torch.equal(formula.score(score, call).broadcast_to(score.shape), score)
    assert (mask.any() and not mask.all()) or changed or formula.sink is not None


@pytest.mark.parametrize(("name", "half"), [("t5_bias", 16), ("t5_bias_causal", 32)])
def test_buckets_of_t5_are_exact_at_powers_of_two(name: str, half: int) -> None:
    """In whole numbers, where logarithms would leave 16, 32, 64 to their rounding."""
    buckets = _buckets(load_variant(find_variant(name)), range(2000))
    assert buckets == [t5_bucket(away, half, 128) for away in range(2000)]


def _buckets(variant: Variant, distances: range) -> list[int]:
    names = {
        "q_idx": torch.tensor(list(distances)), "kv_idx": 0, "h": 0, "buckets": 32,
        "max_distance": 128, "score": torch.zeros((), dtype=torch.float64),
    }  # fmt: skip
    return evaluate(variant.score, names, {"bias": torch.arange(32.0).view(1, 32)}).long().tolist()
