"""Which signs a variant's default scale can have: one that no call accepts is refused early.

From 2**-100 to 2**100, and with the other sign, products with it are finite in float32, and not 0.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from fagen.spec.expr import Expr, names_in, post_order
from fagen.spec.fold import COMPUTE
from fagen.spec.names import FLOAT_LIMIT
from fagen.spec.variant import Parameter

Value = int | float | bool

HEAD_DIMS = (*range(1, 257), *(2**i for i in range(9, 21)))
#: Parameters are tried at their ends and at these, as far as their bounds go.
_TRIED = (0, 1, -1, 2, -2, 0.5, -0.5, 64, 1000, -1000, 1e-6, 1e6, 2.0**-100, 2.0**100)
#: A condition on a parameter may hold at a value that is not tried: then it is taken both ways.
MOST_CONDITIONS = 6


def signs(scale: Expr, parameters: Iterable[Parameter]) -> frozenset[int]:
    """1 where some call gets a positive scale that is accepted, -1 for a negative; maybe both."""
    found: set[int] = set()
    used = names_in(scale)
    for names in _calls([p for p in parameters if p.name in used], "head_dim" in used):
        for value in _values(scale, names):
            if 1 / FLOAT_LIMIT <= abs(value) <= FLOAT_LIMIT:
                found.add(1 if value > 0 else -1)
        if len(found) == 2:
            break
    return frozenset(found)


def example(scale: Expr, parameters: Iterable[Parameter]) -> float | None:
    """The scale of a call with head_dim 64 and the defaults; None where it is no number."""
    names: dict[str, Value] = {p.name: p.default for p in parameters}
    return next(_values(scale, {**names, "head_dim": 64}), None)


def _calls(parameters: list[Parameter], widths: bool) -> Iterator[dict[str, Value]]:
    """Head dims with the defaults, then other values of the parameters with some head dims."""
    defaults: dict[str, Value] = {p.name: p.default for p in parameters}
    for width in HEAD_DIMS if widths else (64,):
        yield {**defaults, "head_dim": width}
    for width in (1, 64, 128) if widths else (64,):
        for p in parameters:
            for value in _tried(p):
                yield {**defaults, p.name: value, "head_dim": width}
        for end in (0, 1):
            yield {**{p.name: p.bounds[end] for p in parameters}, "head_dim": width}


def _tried(p: Parameter) -> list[Value]:
    low, high = p.bounds
    if p.type == "bool":
        return [False, True]
    kind = int if p.type == "int" else float
    return [low, high, *(kind(x) for x in _TRIED if low <= kind(x) <= high)]


def _values(root: Expr, names: dict[str, Value]) -> Iterator[float]:
    """The value under these names, and those with conditions on parameters the other way."""
    order = list(post_order(root))
    open_ones = [
        node.args[0]
        for node in order
        if node.op == "where" and names_in(node.args[0]) - {"head_dim"}
    ][:MOST_CONDITIONS]
    for flips in itertools.product((False, True), repeat=len(open_ones)):
        flipped = dict(zip(open_ones, flips, strict=True))
        done: dict[Expr, Value] = {}
        try:
            for node in order:
                value = _value(node, [done[a] for a in node.args], names)
                done[node] = not value if flipped.get(node) else value
        except (ArithmeticError, TypeError, ValueError):  # TypeError: complex numbers compared
            continue
        value = done[root]
        if isinstance(value, (int, float)):
            yield float(value)


def _value(node: Expr, args: list[Value], names: dict[str, Value]) -> Value:
    if node.op == "const":
        return node.value  # type: ignore[return-value]
    if node.op == "name":
        return names[str(node.value)]
    if node.op == "where":
        return args[1] if args[0] else args[2]
    if node.op in ("and", "or"):
        return all(args) if node.op == "and" else any(args)
    return COMPUTE[node.op](*args)
