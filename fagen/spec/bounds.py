"""Small intervals of int expressions: enough to prove that a divisor is never zero."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fagen.spec.expr import Expr, post_order
from fagen.spec.names import INDEX_LIMIT, INDEX_NAMES

Interval = tuple[int, int]
INT_MIN, INT_MAX = -(2**31), 2**31 - 1
#: An int that may be anything; also the result of whatever might wrap.
ANY: Interval = (INT_MIN, INT_MAX)

_POSITION = {"q_idx", "kv_idx"}


def name_bounds(name: str) -> Interval:
    """Bounds of an index name. A length counts as at least 1: an empty axis evaluates nothing."""
    if name in _POSITION:
        return (-INDEX_LIMIT, INDEX_LIMIT)
    return (0 if INDEX_NAMES[name].axes else 1, INDEX_LIMIT)


def bounds(root: Expr, of_names: Mapping[str, Interval]) -> Interval:
    """An interval that holds every value of an int expression; bools count as 0 and 1.

    A read may be guarded and then yields 0, so it is never assumed to be nonzero.
    """
    done: dict[Expr, Interval] = {}
    for node in post_order(root):
        if node.type == "float" and node.op != "const":
            done[node] = ANY
            continue
        lo, hi = _bounds(node, [done[a] for a in node.args], of_names)
        done[node] = (lo, hi) if lo >= INT_MIN and hi <= INT_MAX else ANY
    return done[root]


def _bounds(node: Expr, args: list[Interval], of_names: Mapping[str, Interval]) -> Interval:
    if node.op == "const":
        fits = not isinstance(node.value, float)
        return (int(node.value), int(node.value)) if fits else ANY  # type: ignore[arg-type]
    if node.op == "name":
        name = str(node.value)
        if name in of_names:
            return of_names[name]
        return name_bounds(name) if name in INDEX_NAMES and node.type == "int" else ANY
    if node.type == "bool":
        return (0, 1)
    rule = _RULES.get(node.op)
    return rule(*args) if rule else ANY


def _mul(a: Interval, b: Interval) -> Interval:
    corners = [x * y for x in a for y in b]
    return min(corners), max(corners)


def _floordiv(a: Interval, b: Interval) -> Interval:
    if b[0] <= 0 <= b[1]:
        return ANY
    corners = [x // y for x in a for y in b]
    return min(corners), max(corners)


def _mod(a: Interval, b: Interval) -> Interval:
    if b[0] > 0:
        return (0, b[1] - 1)
    return (b[0] + 1, 0) if b[1] < 0 else ANY


def _abs(a: Interval) -> Interval:
    nearest = 0 if a[0] <= 0 <= a[1] else min(abs(a[0]), abs(a[1]))
    return nearest, max(abs(a[0]), abs(a[1]))


def _clamp(x: Interval, lo: Interval, hi: Interval) -> Interval:
    return _smaller(_larger(x, lo), hi)


def _smaller(a: Interval, b: Interval) -> Interval:
    return min(a[0], b[0]), min(a[1], b[1])


def _larger(a: Interval, b: Interval) -> Interval:
    return max(a[0], b[0]), max(a[1], b[1])


def _shl(a: Interval, b: Interval) -> Interval:
    return _mul(a, (1 << b[0], 1 << b[1])) if b[0] >= 0 and b[1] <= 31 else ANY


def _shr(a: Interval, b: Interval) -> Interval:
    if not (b[0] >= 0 and b[1] <= 31):
        return ANY
    corners = [x >> y for x in a for y in b]
    return min(corners), max(corners)


_RULES: dict[str, Callable[..., Interval]] = {
    "neg": lambda a: (-a[1], -a[0]),
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "mul": _mul,
    "floordiv": _floordiv,
    "mod": _mod,
    "abs": _abs,
    "min": _smaller,
    "max": _larger,
    "clamp": _clamp,
    "shl": _shl,
    "shr": _shr,
    "where": lambda c, a, b: (min(a[0], b[0]), max(a[1], b[1])),
    "int": lambda a: a,
}
