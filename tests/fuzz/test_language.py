"""Everything the language has can come up, and most of what comes up is legal."""

import re
from random import Random

import pytest

from fagen.spec.errors import SpecErrors
from fagen.spec.semantics import OPERATIONS
from fagen.verify.fuzz.campaign import draw_trial
from fagen.verify.fuzz.documents import draw_document
from fagen.verify.fuzz.draft import Draft
from fagen.verify.fuzz.language import grammar, used

DRAWN = 3000


def test_every_part_of_the_language_is_drawn():
    missing = set(grammar())
    for seed in range(DRAWN):
        missing -= set(used(draw_trial(seed, "cpu").draft))
        if not missing:
            return
    assert not missing


def test_the_grammar_follows_the_tables():
    labels = grammar()
    for operation in OPERATIONS.values():
        if operation.symbol is None:
            assert f"function {operation.name}" in labels
        elif operation.name == "neg":
            assert "operator unary -" in labels
        else:
            assert f"operator {operation.symbol}" in labels
    assert {"node IfExp", "key tensors.range", "name kv_h", "dtype uint8", "length free",
            "function any", "value position: start", "key softmax.sink"} <= labels  # fmt: skip


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("0 <= q_idx < 5", {"operator <=", "operator <", "node Compare", "name q_idx"}),
        (
            "not -b in t[h, :]",
            {"operator not", "operator in", "operator unary -", "node Subscript"},
        ),
        ("any(i < h for i in range(3))", {"function any", "operator <", "name h", "literal int"}),
        ("f(1) if True else ~kv_idx > 2", {"function of the user", "node IfExp", "operator ~"}),
        ("inherited and 2.5 ** 2 > b // 3", {"name inherited", "operator **", "operator //"}),
    ],
)
def test_uses_are_seen(text, labels):
    mapping = {"name": "x", "functions": {"f(a)": "a > 0"}, "mask": text}
    found = set(used(Draft((("x", mapping),))))
    assert labels | {"key mask", "key functions"} <= found
    assert "operator %" not in found and "name kv_len" not in found


def test_few_drafts_are_refused_and_all_cleanly(tmp_path):
    refused = 0
    for seed in range(400):
        try:
            draw_document(Random(seed)).draft.load(tmp_path)
        except SpecErrors as errors:
            refused += 1
            assert all(d.message and d.line for d in errors.diagnostics)
    assert refused <= 12


def test_a_seed_draws_one_trial():
    for seed in (3, 2**31):
        assert draw_trial(seed, "cpu") == draw_trial(seed, "cpu")
    assert draw_trial(3, "cpu") != draw_trial(4, "cpu")


def test_texts_have_more_than_one_style():
    texts = [t for s in range(300) for t in draw_trial(s, "cpu").draft.texts().values()]
    for pattern in (r": \|", r"#", r"0x", r"extends:", r"in \w+\[[^\]]*:\]", r"not in"):
        assert any(re.search(pattern, text) for text in texts), pattern
