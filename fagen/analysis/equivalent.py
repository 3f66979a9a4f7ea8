"""A mask in other words that are easier to solve: the same pairs, fewer kinds of nodes."""

from __future__ import annotations

from fagen.analysis.axes import axes_of
from fagen.analysis.linear import both
from fagen.spec.expr import Expr, const, make, rebuild, substitute, with_args

_LARGEST = 2**30


def solvable(mask: Expr, axis: str) -> Expr:
    """The mask for a walk along `axis` ("q" or "kv"), true for the same pairs."""
    return congruent(arithmetic(mask), axis)


def arithmetic(root: Expr) -> Expr:
    """Shifts by constants and masks of low or high bits as products, quotients and remainders."""

    def change(node: Expr, args: tuple[Expr, ...]) -> Expr:
        node = with_args(node, args)
        if node.type != "int" or node.op not in ("shl", "shr", "bitand"):
            return node
        x, number = node.args
        if node.op == "bitand" and x.op == "const":
            x, number = number, x
        if number.op != "const":
            return node
        value = int(number.value)  # type: ignore[arg-type]
        if node.op != "bitand":
            if not 0 <= value <= 30:
                return node
            return make("mul" if node.op == "shl" else "floordiv", x, const(2**value))
        if 0 < value < _LARGEST and _is_power(value + 1):
            return make("mod", x, const(value + 1))
        if -_LARGEST <= value < 0 and _is_power(-value):
            return make("mul", make("floordiv", x, const(-value)), const(-value))
        return node

    return rebuild(root, change)


def _is_power(value: int) -> bool:
    return value & (value - 1) == 0


def congruent(mask: Expr, axis: str) -> Expr:
    """Where `table[kv] == table[q]` must hold, one may stand for the other beside it.

    Reads along the streamed axis give way to those that a program holds: where positions count
    from the start of a part, the start that the key looks up becomes the one of the query.
    """
    if mask.op == "or":
        return make("or", *(congruent(a, axis) for a in mask.args))
    parts = _conjuncts(mask)
    if len(parts) == 1:
        return mask
    found = [congruent(part, axis) for part in parts]
    for equality in found:
        pair = _replaceable(equality, axis)
        if pair is not None:
            found = [p if p is equality else substitute(p, dict([pair])) for p in found]
    return mask if found == parts else both(*found)


def _conjuncts(node: Expr) -> list[Expr]:
    if node.op == "and":
        return [c for a in node.args for c in _conjuncts(a)]
    return [node]


def _replaceable(atom: Expr, axis: str) -> tuple[Expr, Expr] | None:
    """(a read along the axis, what it equals without it) of an equality of ints."""
    if atom.op != "eq" or atom.args[0].type != "int":
        return None
    for moving, held in (atom.args, atom.args[::-1]):
        if moving.op == "read" and axis in axes_of(moving) and axis not in axes_of(held):
            return moving, held
    return None
