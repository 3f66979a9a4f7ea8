"""A variant file held to the model of its keys: what is wrong, and the document without it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError

from fagen.spec.document import (
    Document,
    ParameterEntry,
    ProblemEntry,
    SoftmaxEntry,
    TensorEntry,
    TuningEntry,
)
from fagen.spec.errors import Diagnostic, did_you_mean
from fagen.spec.source import Mapping, Node, Scalar, Sequence, data

_MODELS: dict[tuple[str, ...], type[BaseModel]] = {
    (): Document,
    ("parameters", "*"): ParameterEntry,
    ("tensors", "*"): TensorEntry,
    ("softmax",): SoftmaxEntry,
    ("tuning",): TuningEntry,
    ("tuning", "problems", "*"): ProblemEntry,
}


def validate(root: Mapping) -> tuple[Document, list[Diagnostic]]:
    """The document without its faulty parts, and the errors."""
    values: Any = data(root)
    problems: list[Diagnostic] = []
    while True:
        try:
            return Document.model_validate(values), problems
        except ValidationError as error:
            # The first round reports; later ones only meet what the cuts of earlier ones left.
            found = [(_steps(e["loc"]), e) for e in error.errors(include_url=False)]
            if not problems:
                problems = [_diagnostic(root, s, e) for s, e in found if not _misspelt(s, e, found)]
            for steps, e in found:
                _cut(values, steps, missing=e["type"] == "missing")


def _misspelt(steps: tuple[str, ...], error: Any, found: list) -> bool:
    """Whether the key that lacks is there in another spelling, which is reported by itself."""
    return error["type"] == "missing" and any(
        other["type"] == "extra_forbidden"
        and there[:-1] == steps[:-1]
        and did_you_mean(there[-1], [steps[-1]])
        for there, other in found
    )


def _steps(loc: tuple[str | int, ...]) -> tuple[str, ...]:
    return tuple(map(str, loc))


def _cut(values: Any, steps: tuple[str, ...], missing: bool) -> None:
    """Removes what is in error: a key, or the entry that lacks one."""
    if missing:
        if len(steps) == 1:
            values["name"] = "unnamed"
            return
        steps = steps[:-1]
    while steps:
        holder = values
        for step in steps[:-1]:
            holder = holder.get(step) if isinstance(holder, dict) else None
        if isinstance(holder, dict) and steps[-1] in holder:
            del holder[steps[-1]]
            return
        steps = steps[:-1]  # inside a list: the list goes


def _locate(root: Mapping, steps: tuple[str, ...]) -> tuple[Scalar | None, Node]:
    key: Scalar | None = None
    node: Node = root
    for step in steps:
        if isinstance(node, Mapping) and step in node.entries:
            key, node = node.entries[step]
        elif isinstance(node, Sequence) and step.isdigit() and int(step) < len(node.items):
            node = node.items[int(step)]
        else:
            break
    return key, node


def _diagnostic(root: Mapping, steps: tuple[str, ...], error: Any) -> Diagnostic:
    key, node = _locate(root, steps)
    where = ".".join(steps)
    kind, context = error["type"], error.get("ctx", {})
    if kind == "extra_forbidden":
        known = _MODELS[tuple("*" if _numbered(steps, i) else s for i, s in enumerate(steps[:-1]))]
        hint = did_you_mean(steps[-1], known.model_fields) or (
            f"the keys here are {', '.join(known.model_fields)}"
        )
        inside = f" in `{'.'.join(steps[:-1])}`" if steps[:-1] else ""
        return (key or node).error(f"unknown key `{steps[-1]}`{inside}", hint)
    if kind == "missing":
        if len(steps) == 1:
            return Diagnostic(
                f"the variant has no `{steps[0]}`", node.source.path, hint=f"add `{steps[0]}: ...`"
            )
        message = f"`{'.'.join(steps[:-1])}` has no `{steps[-1]}`"
        return (key or node).error(message, f"add `{steps[-1]}: ...`")
    at: Node = key if key is not None and not _visible(node) else node
    if isinstance(node, Scalar) and node.plain is None:
        return at.error(f"`{where}` is empty", "remove the key, or give it a value")
    if kind == "literal_error":
        given = node.value if isinstance(node, Scalar) else "this"
        choices = str(context["expected"]).replace("'", "`")
        possible = choices.split("`")[1::2]
        usual = next((u for u in _USUAL.get(given.lower(), ()) if u in possible), None)
        hint = f"did you mean `{usual}`?" if usual else did_you_mean(given, possible)
        return at.error(f"`{where}` must be {choices}", hint)
    message = _WORDS.get(kind, error["msg"][:1].lower() + error["msg"][1:])
    return at.error(f"`{where}` {message}", _hint(steps, kind, node))


def _hint(steps: tuple[str, ...], kind: str, node: Node) -> str:
    if kind == "list_type" and isinstance(node, Scalar):
        return f"write `[{node.value}]`"
    if steps[0] == "tensors" and steps[-1] == "default" and isinstance(node, Sequence):
        return "leave `default` out and pass the values with the call, or write one expression"
    return ""


#: What other places call a type, and what it may be here.
_USUAL: dict[str, tuple[str, ...]] = {
    "int": ("int32",), "integer": ("int", "int32"), "long": ("int", "int64"),
    "float": ("float32",), "double": ("float", "float32"), "float64": ("float", "float32"),
    "number": ("float", "float32"), "boolean": ("bool",), "half": ("float16",),
    "fp16": ("float16",), "bf16": ("bfloat16",), "fp32": ("float32",),
    "int32": ("int",), "float32": ("float",),
}  # fmt: skip


_WORDS = {
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "list_type": "must be a list",
    "bool_type": "must be true or false",
    "int_type": "must be an int",
    "int_from_float": "must be an int",
    "too_short": "must not be empty",
    "greater_than_equal": "must be at least 1",
}


def _numbered(steps: tuple[str, ...], i: int) -> bool:
    return i > 0 and steps[i - 1] in ("parameters", "tensors", "problems")


def _visible(node: Node) -> bool:
    return node.end > node.start and not isinstance(node, Mapping)
