"""Whatever is in the file, the answer is a variant or SpecErrors, and soon."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fagen.spec.errors import SpecErrors
from fagen.spec.load import load_text, load_variant, shipped_files


def survives(text: str) -> None:
    try:
        load_text(text).canonical()
    except SpecErrors as errors:
        assert errors.diagnostics
        lines = text.count("\n") + 2
        for d in errors.diagnostics:
            assert d.message and d.line >= 0
            if d.line and d.path == "<text>" and not set(text) & set("\r\x85\u2028\u2029"):
                assert d.line <= lines and d.column <= len(d.source_line) + 1
        assert str(errors).startswith("error: ")


@settings(max_examples=300, deadline=None)
@given(st.text())
@example("\ud800")
@example("a: \ufeff")
@example("name: x\nmask: \x00")
@example("{}")
@example("? ")
@example("%YAML 9.9\n---\n")
@example('"\\U99999999": 1')
def test_any_text(text: str) -> None:
    survives(text)


WORDS = """
name mask score let functions parameters tensors extends softmax scale x y f(x) shape dtype int32
float type int default min static true 0 1 -1 0.5 1e400 inf h q_idx kv_idx heads and or not if else
in for i range any sum ( ) [ ] { } , : | > - # ' " & * ! ? ~ ** // % << == = < lambda yield await
None ... @ \\ ; $
""".split()  # noqa: SIM905


@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from([*WORDS, "\n", "\n  ", "\n    ", ": ", "\t"]), max_size=40))
def test_words_of_the_language_in_any_order(words: list[str]) -> None:
    survives(" ".join(words))


@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=12), st.sampled_from(["mask", "score", "scale"]))
def test_words_of_the_language_as_an_expression(words: list[str], key: str) -> None:
    survives(f"name: x\n{key}: |\n  {' '.join(words)}\n")


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_shipped_file_with_a_piece_changed(data) -> None:
    files = list(shipped_files().values())
    text = data.draw(st.sampled_from(files)).read_text()
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 12)))
    piece = data.draw(st.sampled_from(["", *WORDS, "\n", ": ", "  "]))
    survives(text[:start] + piece + text[end:])


@settings(max_examples=100, deadline=None)
@given(content=st.binary(max_size=200))
def test_any_bytes(content: bytes, tmp_path_factory) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(content)
    try:
        load_variant(path)
    except SpecErrors as errors:
        assert str(path) in str(errors)


HUGE = {
    "sum": "mask: " + " + ".join(["q_idx"] * 5000) + " > 0",
    "or": "mask: " + " or ".join(["q_idx > 0"] * 3000),
    "not": "mask: " + "not " * 4000 + "True",
    "minus": "score: " + "-" * 8000 + "1",
    "parentheses": "mask: " + "(" * 5000 + "True" + ")" * 5000,
    "calls": "score: " + "tanh(" * 3000 + "1" + ")" * 3000,
    "powers": "score: 2.0" + " ** 2.0" * 3000,
    "digits": "score: " + "9" * 6000,
    "conditionals": "score: " + "1 if h > 0 else " * 1000 + "1",
    "subscripts": "mask: " + "h[" * 1000 + "h" + "]" * 1000,
    "brackets": "mask: " + "[" * 100_000,
    "braces": "mask: " + "{a: " * 100_000,
    "file": "# " + "x" * 300_000,
    "indents": "\n".join(" " * i + "a:" for i in range(1000)),
    "lets": "let:\n  a0: h + b\n"
    + "".join(f"  a{i + 1}: a{i} * a{i}\n" for i in range(60))
    + "mask: a60 > 0",
    "tall": "let:\n  a0: h + b\n"
    + "".join(f"  a{i + 1}: a{i} + 1\n" for i in range(3000))
    + "mask: a3000 > 0",
    "functions": "functions:\n  f0(x): x + 1\n"
    + "".join(f"  f{i + 1}(x): f{i}(x) + f{i}(x)\n" for i in range(60))
    + "mask: f60(h) > 0",
    "chain": "functions:\n  f0(x): x + 1\n"
    + "".join(f"  f{i + 1}(x): f{i}(x)\n" for i in range(2000))
    + "mask: f2000(h) > 0",
    "loops": "mask: any(any(any(h == i + j + k for i in range(200)) for j in range(200))"
    " for k in range(200))",
    "shift": "mask: h < (1 << 31)",
    "power": "mask: h < 9 ** 9 ** 9",
}


@pytest.mark.parametrize("kind", HUGE)
def test_huge_and_deep_inputs_are_refused_in_time(kind: str) -> None:
    started = time.perf_counter()
    with pytest.raises(SpecErrors) as caught:
        load_text("name: x\n" + HUGE[kind] + "\n")
    assert time.perf_counter() - started < 10
    assert len(str(caught.value)) < 2000 * len(caught.value.diagnostics)
