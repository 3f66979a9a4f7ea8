"""Drafts a step smaller than a given one: keys dropped, names written out, subtrees replaced."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from typing import Any

from fagen.verify.fuzz.draft import Draft, Mapping

#: Keys that a file can do without.
OPTIONAL = (
    "tuning", "passes", "partition", "accuracy", "position", "softmax", "scale", "score", "mask",
    "description",
)  # fmt: skip
ATOMS = ("True", "False", "0", "1", "0.0", "1.0", "score", "q_idx", "kv_idx")


def smaller_drafts(draft: Draft) -> Iterator[Draft]:
    """Each is smaller by some measure; most are illegal, which the caller sees."""
    for candidate in _candidates(draft):
        yield tidied(candidate)


def tidied(draft: Draft) -> Draft:
    """Without declarations that no file mentions."""
    draft = draft.copy()
    while True:
        words = _words(draft)
        dropped = False
        for _, mapping in draft.files:
            for section in ("parameters", "tensors", "let", "functions"):
                entries = mapping.get(section, {})
                for key in list(entries):
                    if words.get(key.split("(")[0], 0) == 0:
                        del entries[key]
                        dropped = True
                if not entries:
                    mapping.pop(section, None)
        if not dropped:
            return draft


def _words(draft: Draft) -> dict[str, int]:
    counts: dict[str, int] = {}
    for _, mapping in draft.files:
        texts = [text for _, text in expressions(mapping)]
        for entry in mapping.get("tensors", {}).values():
            texts += [str(d) for d in entry.get("shape", ())]
        for word in re.findall(r"[A-Za-z_]\w*", " ".join(texts)):
            counts[word] = counts.get(word, 0) + 1
    return counts


Path = tuple[str, ...]


def expressions(mapping: Mapping) -> Iterator[tuple[Path, str]]:
    """Every expression of a file and the keys that lead to it."""
    for key in ("mask", "score", "scale"):
        if key in mapping:
            yield (key,), str(mapping[key])
    if "softmax" in mapping:
        yield ("softmax", "sink"), str(mapping["softmax"]["sink"])
    for section in ("let", "functions"):
        for key, text in mapping.get(section, {}).items():
            yield (section, key), str(text)
    for name, entry in mapping.get("tensors", {}).items():
        if "default" in entry:
            yield ("tensors", name, "default"), str(entry["default"])


def replaced(mapping: Mapping, path: Path, value: Any) -> Mapping:
    mapping = copy.deepcopy(mapping)
    holder = mapping
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return mapping


def parsed(text: str) -> ast.expr:
    flat = re.sub(r"#[^\n]*", " ", text).replace("\n", " ")
    return ast.parse(flat.strip(), mode="eval").body


def _candidates(draft: Draft) -> Iterator[Draft]:
    for i, (_, mapping) in enumerate(draft.files):
        for key in OPTIONAL:
            if key in mapping:
                yield draft.edited(i, {k: v for k, v in mapping.items() if k != key})
    yield from _merged(draft)
    yield from _written_out(draft)
    for i, (_, mapping) in enumerate(draft.files):
        for path, text in expressions(mapping):
            for edited in smaller_texts(text):
                yield draft.edited(i, replaced(mapping, path, edited))
        yield from (draft.edited(i, m) for m in _plainer_declarations(mapping))


def _merged(draft: Draft) -> Iterator[Draft]:
    """Parent and child as one file, with `inherited` written out."""
    if len(draft.files) == 1:
        return
    parent, child = (mapping for _, mapping in draft.files)
    merged = {**copy.deepcopy(parent), **copy.deepcopy(child)}
    for section in ("parameters", "tensors", "let", "functions"):
        entries = {**parent.get(section, {})}
        for key, value in child.get(section, {}).items():
            both = isinstance(value, dict) and key in entries
            entries[key] = {**entries[key], **value} if both else value
        merged.pop(section, None)
        if entries:
            merged[section] = entries
    for key, plain in (("mask", "True"), ("score", "score")):
        if key in child:
            inherited = parsed(str(parent.get(key, plain)))
            tree = _Names({"inherited": inherited}).visit(parsed(str(child[key])))
            merged[key] = ast.unparse(tree)
    merged.pop("extends", None)
    yield Draft(((draft.name, merged),))


def _written_out(draft: Draft) -> Iterator[Draft]:
    """A `let` name, a call of a function or a parameter replaced by what it stands for."""
    if len(draft.files) != 1:
        return
    mapping = draft.files[0][1]
    for name, text in mapping.get("let", {}).items():
        yield draft.edited(0, _everywhere(mapping, _Names({name: parsed(str(text))})))
    for signature, text in mapping.get("functions", {}).items():
        call = ast.parse(signature, mode="eval").body
        assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        args = [a.id for a in call.args if isinstance(a, ast.Name)]
        yield draft.edited(0, _everywhere(mapping, _Calls(call.func.id, args, parsed(str(text)))))
    for name, entry in mapping.get("parameters", {}).items():
        value = ast.parse(repr(entry["default"]), mode="eval").body
        yield draft.edited(0, _everywhere(mapping, _Names({name: value})))


def _everywhere(mapping: Mapping, change: ast.NodeTransformer) -> Mapping:
    for path, text in list(expressions(mapping)):
        mapping = replaced(mapping, path, ast.unparse(change.visit(parsed(text))))
    return mapping


class _Names(ast.NodeTransformer):
    def __init__(self, table: dict[str, ast.expr]) -> None:
        self.table = table

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return copy.deepcopy(self.table.get(node.id, node))


class _Calls(ast.NodeTransformer):
    def __init__(self, name: str, args: list[str], body: ast.expr) -> None:
        self.name, self.args, self.body = name, args, body

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.func, ast.Name) or node.func.id != self.name:
            return node
        table = dict(zip(self.args, node.args, strict=True))
        return _Names(table).visit(copy.deepcopy(self.body))


def smaller_texts(text: str) -> Iterator[str]:
    """The expression with one of its subtrees replaced by a part of it or by an atom."""
    tree = parsed(text)
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.expr)]
    for node in nodes:
        parts = [c for c in ast.walk(node) if isinstance(c, ast.expr) and c is not node]
        for part in parts[:12]:
            yield _swapped(tree, node, part)
        if isinstance(node, ast.BoolOp) and len(node.values) > 2:
            for i in range(len(node.values)):
                fewer = ast.BoolOp(node.op, node.values[:i] + node.values[i + 1 :])
                yield _swapped(tree, node, fewer)
        if isinstance(node, ast.Compare) and len(node.ops) > 1:
            yield _swapped(tree, node, ast.Compare(node.left, node.ops[:1], node.comparators[:1]))
        if parts:
            for atom in ATOMS:
                yield _swapped(tree, node, ast.parse(atom, mode="eval").body)


def _swapped(tree: ast.expr, old: ast.expr, new: ast.expr) -> str:
    class Swap(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            return new if node is old else self.generic_visit(node)

    # The transformer works in place: on a copy in which `old` is found by its position.
    nodes = list(ast.walk(tree))
    at = next(i for i, n in enumerate(nodes) if n is old)
    copied = copy.deepcopy(tree)
    new = copy.deepcopy(new)
    old = list(ast.walk(copied))[at]  # type: ignore[assignment]
    return ast.unparse(Swap().visit(copied))


def _plainer_declarations(mapping: Mapping) -> Iterator[Mapping]:
    for name, entry in mapping.get("tensors", {}).items():
        for key in ("default", "range", "nondecreasing", "description"):
            if key in entry:
                plainer = {k: v for k, v in entry.items() if k != key}
                yield replaced(mapping, ("tensors", name), plainer)
        plain = {"bool": "bool", "f": "float32", "b": "float32"}
        dtype = plain.get(entry["dtype"], plain.get(entry["dtype"][0], "int32"))
        if dtype != entry["dtype"]:
            yield replaced(mapping, ("tensors", name, "dtype"), dtype)
    for name, entry in mapping.get("parameters", {}).items():
        for key in ("max", "min", "description", "static"):
            if key in entry:
                plainer = {k: v for k, v in entry.items() if k != key}
                yield replaced(mapping, ("parameters", name), plainer)
