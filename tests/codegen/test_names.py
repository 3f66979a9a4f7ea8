"""A variant's names never meet those of the generated code: refused, or stepped aside from."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from fagen.codegen.render import render
from fagen.spec.errors import SpecErrors
from fagen.spec.load import load_text
from fagen.spec.names import RESERVED, RESERVED_IN_KERNELS
from fagen.spec.scope import misnamed

UNIQUE = "zzyzx"
#: Between them they print every function and nearly every line that templates have.
TEXTS = {
    "a parameter": """
name: probe
parameters:
  NAME: {type: float, default: 2.0, min: 0.5}
  span: {type: int, default: 9, min: 1}
tensors:
  doc: {shape: [batch, kv_len], dtype: int32, nondecreasing: true}
  slopes: {shape: [heads], dtype: float32, default: exp2(-8 * (h + 1) / heads)}
mask: doc[b, q_idx] == doc[b, kv_idx] and kv_idx <= q_idx and q_idx - kv_idx < span or kv_idx < 3
score: >-
  NAME * tanh(score / NAME) - slopes[h] * (q_idx - kv_idx)
  + float((q_idx - kv_idx) // span % 5)
softmax: {sink: 'NAME * float(h)'}
""",
    "a tensor": """
name: probe
parameters:
  span: {type: int, default: 9, min: 1}
tensors:
  NAME: {shape: [heads], dtype: float32, default: exp2(-8 * (h + 1) / heads)}
  doc: {shape: [batch, kv_len], dtype: int32}
mask: doc[b, q_idx] == doc[b, kv_idx] and q_idx - kv_idx < span
score: tanh(score) * NAME[h] - NAME[h] * (q_idx - kv_idx)
softmax: {sink: 'NAME[h]'}
""",
    "a length": """
name: probe
tensors:
  table: {shape: [heads, NAME], dtype: float32}
  flags: {shape: [batch, NAME], dtype: int32}
mask: flags[b, clamp(kv_idx, 0, NAME - 1)] > 0 or q_idx - kv_idx < NAME
score: tanh(score + table[h, clamp(q_idx - kv_idx, 0, NAME - 1)] * NAME)
""",
}


def rendered(kind: str, word: str) -> str:
    return render(load_text(TEXTS[kind].replace("NAME", word)))


def identifiers(source: str) -> list[tuple[str, Counter[str]]]:
    """(function, how often each identifier occurs in it), in order."""
    found = []
    for function in ast.parse(source).body:
        if isinstance(function, ast.FunctionDef):
            nodes = list(ast.walk(function))
            words = Counter(node.id for node in nodes if isinstance(node, ast.Name))
            words.update(node.arg for node in nodes if isinstance(node, ast.arg))
            found.append((function.name, words))
    return found


def own(words: Counter[str], word: str) -> set[str]:
    """The identifiers that a variant's name makes in a function: itself, a pointer, strides."""
    return {w for w in words if w == word or w.startswith((f"{word}_ptr", f"{word}_stride_"))}


def suspects(kind: str) -> set[str]:
    """Words that occur in a function beside those of the variant's name."""
    return {
        word.removesuffix("_ptr") if kind == "a tensor" else word
        for _, words in identifiers(rendered(kind, UNIQUE))
        if own(words, UNIQUE)
        for word in words
        if UNIQUE not in word
    }


def collisions(kind: str, word: str) -> list[str]:
    """Functions in which an identifier of the variant's name also stands for something else."""
    expected = identifiers(rendered(kind, UNIQUE))
    found = identifiers(rendered(kind, word))
    return [
        name
        for (name, words), (_, plain) in zip(found, expected, strict=True)
        if any(words[w.replace(UNIQUE, word)] != plain[w] for w in own(plain, UNIQUE))
    ]


@pytest.mark.parametrize("kind", TEXTS)
def test_no_accepted_name_collides(kind):
    accepted = {w for w in suspects(kind) if misnamed(w, kind) is None}
    others = {"span", "doc", "slopes", "table", "flags"}
    assert len(accepted) > 5, "names that only the lines of this variant bring are free"
    assert not {w: bad for w in accepted - others if (bad := collisions(kind, w))}


@pytest.mark.parametrize("word", sorted(RESERVED | RESERVED_IN_KERNELS))
def test_reserved_names_are_refused_with_a_place(word):
    with pytest.raises(SpecErrors) as error:
        load_text(TEXTS["a parameter"].replace("NAME", word), "probe.yaml")
    first = error.value.diagnostics[0]
    assert (first.path, first.line) == ("probe.yaml", 4)
    assert first.message.startswith(f"`{word}` cannot be the name of a parameter")


@pytest.mark.parametrize(
    "word", ["scale_ptr", "k_stride_x", "default_scale", "t0", "stop_1_trimmed"]
)
def test_reserved_forms_are_refused(word):
    for kind in TEXTS:
        assert "uses it already" in misnamed(word, kind)[0]


@pytest.mark.parametrize("word", ["torch", "triton", "random", "typing", "fagen"])
def test_a_module_hides_no_other(word):
    with pytest.raises(SpecErrors, match=f"`import {word}` means something else"):
        load_text(f"name: {word}\n")


def test_ordinary_words_stay_free():
    free = "w width left right index size field map id table bias live chosen mask_ids dilation"
    for kind in TEXTS:
        for word in free.split():
            if misnamed(word, kind) is not None:
                assert kind != "a tensor" and word == "live"


def test_a_constant_may_bear_any_name():
    text = TEXTS["a parameter"].replace("NAME:", "tile:").replace("min: 0.5}", "static: true}")
    assert "tile" not in render(load_text(text.replace("NAME", "tile"))).split("def reference")[1]
