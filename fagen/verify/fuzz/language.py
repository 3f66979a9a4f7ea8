"""What the language consists of, taken from the tables that implement it, and what a draft uses.

A label is a kind and a name: "operator //", "function tanh", "name q_idx", "key tensors.range".
"""

from __future__ import annotations

import ast
import typing
from collections.abc import Iterator
from functools import cache
from typing import Any

from pydantic import BaseModel

from fagen.spec.document import DTYPES, Document, ParameterEntry, ProblemEntry, TensorEntry
from fagen.spec.expand import Lowering
from fagen.spec.lower import BINARY, COMPARISON
from fagen.spec.names import DIMENSIONS, INDEX_NAMES
from fagen.spec.scope import UNROLLED
from fagen.spec.semantics import FUNCTIONS, OPERATIONS
from fagen.verify.fuzz.draft import Draft, Mapping
from fagen.verify.fuzz.smaller import expressions, parsed

#: How the language writes what is neither in `BINARY` nor in `COMPARISON`.
_OTHER: dict[type, str] = {
    ast.Pow: "**", ast.And: "and", ast.Or: "or", ast.Not: "not", ast.Invert: "~",
    ast.USub: "unary -", ast.UAdd: "unary +", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
#: Models of the entries of a section, by the key that holds them.
_ENTRIES: dict[str, type[BaseModel]] = {
    "parameters": ParameterEntry, "tensors": TensorEntry, "tuning.problems": ProblemEntry,
}  # fmt: skip


def _symbol(operator: ast.AST) -> str:
    named = {**BINARY, **COMPARISON}.get(type(operator))
    symbol = OPERATIONS[named].symbol if named else _OTHER[type(operator)]
    return f"operator {symbol}"


@cache
def grammar() -> frozenset[str]:
    """Every label there is."""
    operators = [_symbol(kind()) for kind in (*BINARY, *COMPARISON, *_OTHER)]
    nodes = [n.removeprefix("visit_") for n in dir(Lowering) if n.startswith("visit_")]
    return frozenset([
        *operators,
        *(f"node {n}" for n in nodes),
        *(f"function {f}" for f in (*FUNCTIONS, *UNROLLED, "of the user")),
        *(f"name {n}" for n in (*INDEX_NAMES, "inf", "inherited")),
        *(f"literal {kind}" for kind in ("bool", "int", "float")),
        *(f"dtype {d}" for d in DTYPES),
        *(f"length {d}" for d in (*DIMENSIONS, "integer", "parameter", "free")),
        *_keys(Document),
    ])  # fmt: skip


def _keys(model: type[BaseModel], path: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        key = f"{path}{name}"
        yield f"key {key}"
        for value in _literals(field.annotation):
            # Listed for themselves above.
            if value not in DTYPES or name != "dtype" or path != "tensors.":
                yield f"value {key}: {value}"
        inner = _ENTRIES.get(key) or _model(field.annotation)
        if inner is not None:
            yield from _keys(inner, f"{key}.")


def _literals(annotation: Any) -> list[Any]:
    if typing.get_origin(annotation) is typing.Literal:
        return list(typing.get_args(annotation))
    return [v for inner in typing.get_args(annotation) for v in _literals(inner)]


def _model(annotation: Any) -> type[BaseModel] | None:
    for kind in (annotation, *typing.get_args(annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel) and kind not in _ENTRIES.values():
            return kind
    return None


def used(draft: Draft) -> list[str]:
    """The labels of a draft, once for each use."""
    found: list[str] = []
    declared: set[str] = set()
    functions: set[str] = set()
    for _, mapping in draft.files:
        declared |= mapping.get("parameters", {}).keys()
        functions |= {key.split("(")[0] for key in mapping.get("functions", {})}
    for _, mapping in draft.files:
        found += _of_keys(mapping, grammar())
        for entry in mapping.get("tensors", {}).values():
            found += [f"length {_length(d, declared)}" for d in entry.get("shape", ())]
            found.append(f"dtype {entry['dtype']}")
        for _, text in expressions(mapping):
            found += _of_expression(parsed(text), functions)
    return found


def _length(length: str | int, parameters: set[str]) -> str:
    if isinstance(length, int):
        return "integer"
    return length if length in DIMENSIONS else "parameter" if length in parameters else "free"


def _of_keys(value: Mapping, known: frozenset[str], path: str = "") -> Iterator[str]:
    for name, entry in value.items():
        key = f"{path}{name}"
        yield f"key {key}"
        values = entry if isinstance(entry, list) else [entry]
        labels = [f"value {key}: {v}" for v in values if isinstance(v, str)]
        yield from (label for label in labels if label in known)
        if key in ("let", "functions"):
            continue
        for inner in values:
            if isinstance(inner, dict):
                entries = key in ("parameters", "tensors")
                for one in inner.values() if entries else [inner]:
                    yield from _of_keys(one, known, f"{key}.")


def _of_expression(tree: ast.expr, functions: set[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        yield f"node {type(node).__name__}"
        if isinstance(node, ast.BinOp | ast.UnaryOp | ast.BoolOp):
            yield _symbol(node.op)
        elif isinstance(node, ast.Compare):
            yield from map(_symbol, node.ops)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield "function " + ("of the user" if node.func.id in functions else node.func.id)
        elif isinstance(node, ast.Name):
            yield f"name {node.id}"
        elif isinstance(node, ast.Constant):
            yield f"literal {type(node.value).__name__}"
