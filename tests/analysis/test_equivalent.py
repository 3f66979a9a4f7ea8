"""A mask in other words holds for the same pairs, and in them says more to the solver."""

from __future__ import annotations

import blocks
import pytest
from drawing import sources
from grammar import KV, B, Q, table
from hypothesis import given, settings

from fagen.analysis.equivalent import arithmetic, congruent
from fagen.spec.expr import Expr, const, make
from fagen.spec.text import to_text


@settings(max_examples=200)
@given(sources)
def test_the_same_pairs(rng) -> None:
    blocks.check_equivalent(rng)


@settings(max_examples=200)
@given(sources)
def test_tables_of_blocks_are_walked_soundly(rng) -> None:
    blocks.check_blocks(rng)


@pytest.mark.parametrize(
    ("op", "number", "text"),
    [
        ("shr", 5, "kv_idx // 32"),
        ("shl", 3, "kv_idx * 8"),
        ("shr", 31, "kv_idx >> 31"),
        ("bitand", 127, "kv_idx % 128"),
        ("bitand", 1, "kv_idx % 2"),
        ("bitand", -64, "kv_idx // 64 * 64"),
        ("bitand", 0, "kv_idx & 0"),
        ("bitand", 5, "kv_idx & 5"),
        ("bitand", -6, "kv_idx & -6"),
        ("bitand", 2**31 - 1, f"kv_idx & {2**31 - 1}"),
    ],
)
def test_bits_as_arithmetic(op: str, number: int, text: str) -> None:
    assert to_text(arithmetic(make(op, KV, const(number)))) == text
    if op == "bitand" and "&" not in text:
        assert to_text(arithmetic(make(op, const(number), KV))) == text


def test_what_equals_stands_for_the_other() -> None:
    """Positions inside a document: the start that the key looks up is the query's own."""
    equal = make("eq", table("doc", B, Q), table("doc", B, KV))

    def local(index: Expr) -> Expr:
        return make("sub", index, table("order", table("doc", B, index)))

    mask = make("and", equal, make("le", local(KV), local(Q)))
    assert to_text(congruent(mask, "kv")) == (
        "doc[b, q_idx] == doc[b, kv_idx] and "
        "kv_idx - order[doc[b, q_idx]] <= q_idx - order[doc[b, q_idx]]"
    )
    assert "doc[b, q_idx]]" not in to_text(congruent(mask, "q"))


def test_an_equality_elsewhere_says_nothing() -> None:
    equal = make("eq", table("doc", B, Q), table("doc", B, KV))
    for mask in (make("or", equal, make("le", table("doc", B, KV), Q)), make("not", equal)):
        assert congruent(mask, "kv") is mask
