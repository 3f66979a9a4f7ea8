"""The declarations of a variant: parameters, tensors and functions enter the scope, checked."""

from __future__ import annotations

import ast
import math

from fagen.spec.bounds import INT_MAX, INT_MIN
from fagen.spec.document import Document, ParameterEntry, TensorEntry
from fagen.spec.errors import Diagnostic
from fagen.spec.expr import const, name
from fagen.spec.fold import FLOAT_MAX
from fagen.spec.names import DIMENSIONS, FLOAT_LIMIT, INDEX_LIMIT, INDEX_NAMES
from fagen.spec.parse import syntax
from fagen.spec.scope import Function, Scope, misnamed
from fagen.spec.source import Mapping, Node, Scalar, Sequence
from fagen.spec.variant import Parameter, Tensor


def declare_parameters(
    root: Mapping, document: Document, scope: Scope, problems: list[Diagnostic]
) -> tuple[Parameter, ...]:
    """The run-time parameters; static ones enter the scope as constants."""
    result = []
    section = root.get("parameters")
    for word, (key, node) in section.entries.items() if isinstance(section, Mapping) else ():
        entry = document.parameters.get(word)
        printed = entry is None or not entry.static
        if problem := scope.claim(word, "a parameter", printed=printed):
            problems.append(key.error(*problem))
            continue
        scope.values[word] = None
        if entry is None or not isinstance(node, Mapping):
            continue
        parameter = _parameter(word, entry, node, problems)
        if parameter is None:
            continue
        if entry.static:
            scope.values[word] = const(parameter.default)
            continue
        result.append(parameter)
        scope.values[word] = name(word, entry.type)
        if entry.type == "int":
            low, high = parameter.bounds
            scope.bounds[word] = (int(low), int(high))
    return tuple(result)


def _parameter(
    word: str, entry: ParameterEntry, node: Mapping, problems: list[Diagnostic]
) -> Parameter | None:
    before = len(problems)
    values: dict[str, int | float | bool | None] = {}
    for field in ("default", "min", "max"):
        value, place = getattr(entry, field), node.get(field)
        if value is None or place is None:
            values[field] = None
            continue
        if entry.type == "bool" and field != "default":
            problems.append(place.error(f"a bool has no `{field}`", "remove it"))
            continue
        if not _fits(value, entry.type):
            whole = isinstance(value, float) and math.isfinite(value) and value == int(value)
            hint = f"write `{int(value)}`" if whole and entry.type == "int" else ""
            kind = type(value).__name__
            message = f"`{field}` of `{word}` is {_a(kind)}; it must be {_a(entry.type)}"
            problems.append(place.error(message, hint))
            continue
        if entry.type == "float":
            if problem := _beyond_floats(field, word, value, entry, place):
                problems.append(problem)
                continue
            value = float(value)
        elif entry.type == "int":
            limit = (INT_MIN, INT_MAX) if entry.static else (-INDEX_LIMIT, INDEX_LIMIT)
            if field == "default" and not limit[0] <= value <= limit[1]:
                message = f"`default` of `{word}` is beyond {limit[0]} ... {limit[1]}"
                hint = "positions and what is compared with them stay inside this range"
                problems.append(place.error(message, hint))
            value = max(limit[0], min(value, limit[1]))
        values[field] = value
    if len(problems) > before:
        return None
    default, low, high = values["default"], values["min"], values["max"]
    assert default is not None
    if low is not None and high is not None and low > high:
        problems.append(_at(node, "min").error(f"`min` {low} is above `max` {high}"))
    elif (low is not None and default < low) or (high is not None and default > high):
        ends = f"{'' if low is None else low} ... {'' if high is None else high}".strip()
        message = f"`default` of `{word}` is {default}, outside {ends}"
        problems.append(_at(node, "default").error(message))
    if len(problems) > before:
        return None
    return Parameter(word, entry.type, default, low, high, entry.description)


def _beyond_floats(
    field: str, word: str, value: int | float, entry: ParameterEntry, place: Node
) -> Diagnostic | None:
    """An infinity may be baked in, but no call may pass one: 0 times it is NaN in most scores."""
    if entry.static:
        written = place.value if isinstance(place, Scalar) else ""
        if abs(value) > FLOAT_MAX and "inf" not in written.lower():
            return place.error("floats are float32; this one does not fit", "write `.inf`")
    elif abs(value) > FLOAT_LIMIT:
        message = f"`{field}` of `{word}` is beyond -2**100 ... 2**100"
        hint = "float parameters stay inside this range, so that products with them are finite"
        if field != "default":
            hint += "; leave the bound out"
        return place.error(message, hint)
    return None


def _fits(value: object, kind: str) -> bool:
    if isinstance(value, bool) or kind == "bool":
        return isinstance(value, bool) and kind == "bool"
    return isinstance(value, int) or kind == "float"


def declare_tensors(
    root: Mapping,
    document: Document,
    scope: Scope,
    parameters: tuple[Parameter, ...],
    problems: list[Diagnostic],
) -> tuple[Tensor, ...]:
    """The tensors, without their defaults, which need the whole scope."""
    section = root.get("tensors")
    entries = section.entries if isinstance(section, Mapping) else {}
    ours = []
    for word, (key, node) in entries.items():
        if problem := scope.claim(word, "a tensor"):
            problems.append(key.error(*problem))
            continue
        scope.tensors[word] = None
        entry = document.tensors.get(word)
        if entry is not None and isinstance(node, Mapping):
            ours.append((word, entry, node))
    # Lengths come after all declared names, so that each keeps its declared meaning.
    result = []
    for word, entry, node in ours:
        tensor = _tensor(word, entry, node, scope, problems)
        scope.tensors[word] = tensor
        if tensor is not None:
            result.append(tensor)
    return tuple(result)


def _tensor(
    word: str, entry: TensorEntry, node: Mapping, scope: Scope, problems: list[Diagnostic]
) -> Tensor | None:
    before = len(problems)
    axes = _at(node, "shape")
    places = axes.items if isinstance(axes, Sequence) else ()
    shape = [
        _length(length, place, scope, problems)
        for length, place in zip(entry.shape, places, strict=False)
    ]
    tensor = Tensor(
        word,
        tuple(shape),
        entry.dtype,
        None,
        entry.nondecreasing,
        entry.range,
        entry.description,
    )
    if entry.grad:
        hint = "leave `grad` out; the table is then a constant"
        problems.append(_at(node, "grad").error("trained tensors are not built yet", hint))
    if entry.nondecreasing and (tensor.type != "int" or not shape):
        at = _at(node, "nondecreasing")
        problems.append(at.error("`nondecreasing` is a promise about ints along the last axis"))
    if entry.range is not None:
        at = _at(node, "range")
        if tensor.type != "int":
            problems.append(at.error("`range` is a promise about ints"))
        elif not INT_MIN <= entry.range[0] < entry.range[1] <= INT_MAX + 1:
            message = f"`range` [{entry.range[0]}, {entry.range[1]}) holds no int"
            problems.append(at.error(message, "the upper end does not count"))
    if entry.default is not None:
        free = [d for d in shape if isinstance(d, str) and scope.kinds.get(d) == "a length"]
        repeated = [d for d in shape if d in DIMENSIONS and shape.count(d) > 1]
        if free or repeated:
            why = "is known only from the argument" if free else "occurs twice"
            message = f"`{word}` cannot have a default: its length `{(free or repeated)[0]}` {why}"
            problems.append(_at(node, "default").error(message))
    return tensor if len(problems) == before else None


def _length(length: int | str, place: Node, scope: Scope, problems: list[Diagnostic]) -> int | str:
    if isinstance(length, int) or length in DIMENSIONS:
        return length
    kind = scope.kinds.get(length)
    if kind == "a length":
        return length
    if kind is None:
        if length in INDEX_NAMES:
            hint = f"the lengths are {', '.join(DIMENSIONS)}"
            problems.append(place.error(f"`{length}` is a position, not a length", hint))
        elif problem := scope.claim(length, "a length"):
            problems.append(place.error(*problem))
        else:
            scope.values[length] = name(length)
            scope.bounds[length] = (1, INDEX_LIMIT)
        return length
    value = scope.values.get(length)
    if kind != "a parameter" or (value is not None and value.type != "int"):
        problems.append(place.error(f"`{length}` is not a length", "an int parameter may be one"))
    elif value is not None and value.op == "const":
        if int(value.value or 0) < 1:
            problems.append(place.error(f"`{length}` is {value.value}; a length is at least 1"))
        return int(value.value or 0)
    return length


def declare_functions(
    root: Mapping, document: Document, scope: Scope, problems: list[Diagnostic]
) -> list[Function]:
    """The functions that parse and do not call themselves."""
    section = root.get("functions")
    functions = []
    for key_text, (key, node) in section.entries.items() if isinstance(section, Mapping) else ():
        signature = _signature(key_text)
        if signature is None:
            hint = "such as `causal(q, kv): q >= kv`"
            problems.append(key.error(f"`{key_text}` is not `name(args)`", hint))
            continue
        word, args = signature
        if problem := scope.claim(word, "a function"):
            problems.append(key.error(*problem))
            continue
        scope.functions[word] = None
        if problem := _wrong_arguments(args, scope):
            problems.append(key.error(*problem))
            continue
        if key_text not in document.functions or not isinstance(node, Scalar):
            continue
        body = syntax(node.text, f"`{word}`")
        if isinstance(body, Diagnostic):
            problems.append(body)
            continue
        scope.functions[word] = Function(word, args, body.tree, node.text)
        functions.append((scope.functions[word], key))
    calls = {f.name: _names(f.body) & scope.functions.keys() for f, _ in functions if f}
    good = []
    for function, key in functions:
        assert function is not None
        if _reaches(function.name, calls):
            message = f"`{function.name}` calls itself"
            problems.append(key.error(message, "functions are expanded, so none may recur"))
            scope.functions[function.name] = None
        else:
            good.append(function)
    return good


def _signature(text: str) -> tuple[str, tuple[str, ...]] | None:
    try:
        call = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.keywords:
        return None
    args = [a.id for a in call.args if isinstance(a, ast.Name)]
    return (call.func.id, tuple(args)) if len(args) == len(call.args) else None


def _wrong_arguments(args: tuple[str, ...], scope: Scope) -> tuple[str, str] | None:
    """An argument may bear the name of an index, which it then stands for in the body."""
    for i, word in enumerate(args):
        if word in args[:i]:
            return f"two arguments are called `{word}`", ""
        if word not in INDEX_NAMES and (problem := misnamed(word, "an argument")):
            return problem
        if word in scope.kinds:
            return f"`{word}` is already {scope.kinds[word]}", "choose another name"
    return None


def _names(tree: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _reaches(word: str, calls: dict[str, set[str]]) -> bool:
    seen: set[str] = set()
    waiting = list(calls.get(word, ()))
    while waiting:
        called = waiting.pop()
        if called == word:
            return True
        if called not in seen:
            seen.add(called)
            waiting += calls.get(called, ())
    return False


def _at(node: Mapping, field: str) -> Node:
    return node.get(field) or node


def _a(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
