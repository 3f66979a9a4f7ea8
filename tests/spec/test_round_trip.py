"""Text -> Expr -> text -> Expr is the identity, also where constants fold and ints convert."""

from __future__ import annotations

import pickle
import re

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fagen.spec.expr import const, make, name
from fagen.spec.parse import parse
from fagen.spec.scope import Rule, Scope
from fagen.spec.source import Source, Text
from fagen.spec.text import to_text
from fagen.spec.variant import Tensor


def scope() -> Scope:
    result = Scope()
    for word, kind in (("window", "int"), ("cap", "float"), ("flag", "bool")):
        result.claim(word, "a parameter")
        result.values[word] = name(word, kind)
    result.bounds["window"] = (1, 2**28)
    for tensor in (
        Tensor("slopes", ("heads",), "float32"),
        Tensor("doc", ("batch", "kv_len"), "int32"),
        Tensor("row", ("batch", 3), "int32"),
        Tensor("open", ("heads",), "bool"),
        Tensor("temperature", (), "float32"),
    ):
        result.claim(tensor.name, "a tensor")
        result.tensors[tensor.name] = tensor
    return result


def parsed(text: str):
    problems = []
    places = tuple(range(len(text)))
    whole = Text(Source("<test>", text), text, places, (0, len(text)))
    lowered = parse(whole, "the test", scope(), Rule("the test"), problems)
    return (lowered.node if lowered else None), problems


# Grammar: I, F and B stand for a subexpression of that type, N for a number of either.
LEAVES = {
    "I": [
        "q_idx",
        "kv_idx",
        "h",
        "b",
        "kv_len",
        "window",
        "0",
        "1",
        "2",
        "-3",
        "0x1F",
        "2147483647",
    ],
    "F": ["score", "cap", "0.5", "-2.0", "1e-3", "inf", "3.0", "temperature"],
    "B": ["True", "False", "flag", "open[h]"],
}
FORMS = {
    "I": [
        *(f"(I) {op} (I)" for op in ["+", "-", "*", "&", "|", "^"]),
        *(f"(I) {op} {by}" for op in ("//", "%") for by in ("window", "7", "(-2)", "kv_len")),
        *("-(I)", "~(I)", "abs(I)", "int(F)", "int(B)", "(I) ** 2", "doc[b, I]", "min(I, I, I)"),
        *("clamp(I, 0, I)", "(I) if (B) else (I)", "(I) >> 3", "1 << (I)"),
        "sum((I) for i in range(2))",
    ],
    "F": [
        *(f"({a}) {op} ({b})" for op in "+-*" for a, b in ("NF", "FN", "FF")),
        *("(N) / (N)", "-(F)", "tanh(N)", "exp2(N)", "float(N)", "float(I) + float(I)", "floor(F)"),
        *("min(N, F, N)", "max(F, float(I))", "(N) ** 2.0", "(N) ** -0.5", "(F) ** 2", "2. ** 3"),
        *("(N) if (B) else (F)", "(F) if (B) else (N)", "(F) - slopes[I]", "clamp(N, 0, F)"),
    ],
    "B": [
        *(f"(N) {op} (N)" for op in ("<", "<=", ">", ">=", "==", "!=")),
        *(f"(B) {op} (B)" for op in ("and", "or", "==", "!=", "&", "|", "^")),
        *("0 <= (I) < (I)", "(F) < (I) <= (F)", "not (B)", "~(B)", "(B) if (B) else (B)"),
        *("any((I) == i for i in range(3))", "all((I) > i for i in range(1))", "(I) in row[b, :]"),
    ],
}  # fmt: skip
FORMS["N"] = ["I", "F"]


@st.composite
def texts(draw, kind: str, depth: int = 4) -> str:
    """A well-typed text; parentheses everywhere, so that `to_text` decides which are needed."""
    if depth == 0 and kind != "N":
        return draw(st.sampled_from(LEAVES[kind]))
    form = draw(st.sampled_from(FORMS[kind] + LEAVES.get(kind, [])[:3]))
    left = depth if kind == "N" else depth - 1
    return re.sub(r"\b[IFBN]\b", lambda m: draw(texts(m[0], left)), form)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from("IFB").flatmap(texts))
def test_text_parses_back_to_the_same_node(text: str) -> None:
    node, problems = parsed(text)
    # Constants may meet in ways that cannot be meant (1 / 0, 2**31): those are refused, with cause.
    assert (node is None) == bool(problems)
    assume(node is not None)
    again, problems = parsed(to_text(node))
    assert not problems
    assert again is node


def test_conversions_stay_where_they_decide_the_type() -> None:
    for text in (
        "float(q_idx) + float(kv_idx)",
        "float(q_idx)",
        "float(q_idx) if flag else float(kv_idx)",
        "-float(q_idx)",
        "float(q_idx) < float(kv_idx)",
    ):
        assert to_text(parsed(text)[0]) == text
    assert to_text(parsed("float(q_idx) * 2.0 + 1")[0]) == "q_idx * 2.0 + 1.0"
    assert to_text(parsed("float(q_idx) / float(kv_len)")[0]) == "q_idx / kv_len"


def test_distinct_expressions_have_distinct_texts() -> None:
    q, kv = name("q_idx"), name("kv_idx")
    whole = make("add", q, kv)
    floats = make("add", make("float", q), make("float", kv))
    assert to_text(make("float", whole)) != to_text(floats)
    assert to_text(const(1)) != to_text(const(1.0)) != to_text(const(True))


def test_interned_nodes_survive_pickling() -> None:
    node, _ = parsed("cap * tanh(score / cap) - slopes[h] * (q_idx - kv_idx)")
    assert pickle.loads(pickle.dumps(node)) is node
