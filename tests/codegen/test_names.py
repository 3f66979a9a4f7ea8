"""A variant's names never meet those of the generated code: refused, or stepped aside from."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import keyword
import re
from collections import Counter

import pytest

from fagen.codegen.render import render
from fagen.spec.errors import SpecErrors
from fagen.spec.load import find_variant, load_text, load_variant, shipped_names
from fagen.spec.names import (
    INDEX_NAMES,
    LONGEST_NAME,
    RESERVED,
    RESERVED_BY_LAUNCH,
    RESERVED_IN_KERNELS,
)
from fagen.spec.scope import misnamed
from fagen.spec.variant import Variant

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
  doc: {shape: [batch, kv_len], dtype: int32, nondecreasing: true}
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


@functools.cache
def modules() -> tuple[tuple[Variant, ast.Module], ...]:
    """Every module that ships and every probe."""
    variants = [load_variant(find_variant(name)) for name in shipped_names()]
    variants += [load_text(text.replace("NAME", UNIQUE)) for text in TEXTS.values()]
    return tuple((v, ast.parse(render(v))) for v in variants)


def names_of(variant: Variant) -> set[str]:
    """What the variant itself brings into the module, pointers and strides included."""
    tables = {t.name for t in variant.tensors}
    sizes = {str(s) for t in variant.tensors for s in t.shape}
    pointers = {f"{t}_ptr" for t in tables}
    strides = {f"{t.name}_stride_{i}" for t in variant.tensors for i in range(len(t.shape))}
    defaults = {f"default_{t}" for t in tables}
    words = {p.name for p in variant.parameters} | tables | sizes | pointers | strides | defaults
    return words - INDEX_NAMES.keys()


@functools.cache
def concerned() -> frozenset[str]:
    """Functions in which a parameter, tensor or length stands as it is, told by the probes."""
    found = {
        name
        for kind in TEXTS
        for name, words in identifiers(rendered(kind, UNIQUE))
        if own(words, UNIQUE)
    }
    return frozenset(found)


def around(tree: ast.Module) -> list[ast.FunctionDef]:
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return [f for f in functions if f.name.endswith("_kernel") or f.name in concerned()]


def given_to(function: ast.FunctionDef) -> set[str]:
    """Names that a function reads and does not make: arguments, globals and builtins."""
    nodes = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
    stored = {node.id for node in nodes if isinstance(node.ctx, ast.Store)}
    arguments = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
    return {node.id for node in nodes} - stored | arguments


def test_what_generated_functions_are_given_is_refused():
    """Read from the syntax trees, so that no new argument, global or builtin can be forgotten."""
    met: set[str] = set()
    for variant, tree in modules():
        for function in around(tree):
            is_kernel = function.name.endswith("_kernel")
            for word in given_to(function) - names_of(variant):
                met.add(word)
                for kind in ("a parameter", "a length"):
                    assert misnamed(word, kind), (function.name, word, kind)
                table = word.removesuffix("_ptr") if is_kernel else word
                if not is_kernel or table != word:
                    assert misnamed(table, "a tensor"), (function.name, word)
    assert met >= {"walk_ptr", "len", "float", "kv_offset", "made_once", "tl"}


def test_launchers_keep_their_variables_from_tables_and_parameters():
    for variant, tree in modules():
        for function in around(tree):
            if function.name.startswith(("launch_", "attention", "reference", "default_")):
                nodes = [n for n in ast.walk(function) if isinstance(n, ast.Name)]
                for word in {n.id for n in nodes} - names_of(variant) - {"_"}:
                    assert misnamed(word, "a tensor") and misnamed(word, "a parameter"), word


def test_words_of_triton_s_launch_are_refused():
    """The names in the function that Triton makes of a signature, and what it adds to a call."""
    from triton.runtime import jit

    made = inspect.getsource(jit.create_function_from_signature)
    body = made.split("func_body =")[1].split('"""')[1]
    words = set(re.findall(r"^ *(\w+) = |\*\*(\w+)|return (.*)", body, re.MULTILINE))
    words = {w for group in words for w in re.findall(r"\w+", " ".join(group))}
    words |= set(re.findall(r'func_namespace\["(\w+)"\]', made)) - {"JITCallable"}
    words |= set(re.findall(r'kwargs\["(\w+)"\] =', inspect.getsource(jit.JITFunction.run)))
    words |= {k.arg for _, tree in modules() for k in launch_keywords(tree)}
    assert words >= {"params", "options", "backend", "debug", "num_warps"}
    for word in words:
        assert misnamed(word, "a parameter") and misnamed(word, "a length"), word


def launch_keywords(tree: ast.Module) -> list[ast.keyword]:
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
    return [k for c in calls if isinstance(c.func, ast.Subscript) for k in c.keywords]


def test_accepted_names_may_stand_in_an_operator_s_schema():
    import torch

    candidates = {*dir(builtins), "Tensor", "Scalar", "self", "t", "None", "inf", "nan", "NoneType"}
    for word in {w for w in candidates if not keyword.iskeyword(w)}:
        if misnamed(word, "a parameter") is None:
            torch._C.parse_schema(f"f(Tensor q, float {word}) -> Tensor")


def test_a_tensor_called_walk_is_refused():
    with pytest.raises(SpecErrors, match="`walk` cannot be the name of a tensor"):
        load_text(TEXTS["a tensor"].replace("NAME", "walk"))


@pytest.mark.parametrize("word", ["load", "give", "float32", "late", "join", "num", "other"])
def test_attributes_comments_and_docstrings_ask_for_no_argument(word):
    """`tl.load` names no parameter `load`."""
    for name, words in identifiers(rendered("a parameter", word)):
        if name == "prep_kernel":
            assert word not in words


def test_long_names_are_refused():
    for kind in (*TEXTS, "a variant", "a `let` name", "an argument"):
        assert misnamed("n" * LONGEST_NAME, kind) is None
        message, hint = misnamed("n" * (LONGEST_NAME + 1), kind)
        assert "101 characters" in message and "100" in hint and len(message) < 150


@pytest.mark.parametrize("kind", TEXTS)
def test_no_accepted_name_collides(kind):
    accepted = {w for w in suspects(kind) if misnamed(w, kind) is None}
    others = {"span", "doc", "slopes", "table", "flags"}
    assert len(accepted) > 5, "names that only the lines of this variant bring are free"
    assert not {w: bad for w in accepted - others if (bad := collisions(kind, w))}


@pytest.mark.parametrize("word", sorted(RESERVED | RESERVED_IN_KERNELS | RESERVED_BY_LAUNCH))
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
