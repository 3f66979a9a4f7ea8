"""Expression -> text of the variant language, with as few parentheses as Python needs.

The text parses back to the same expression, so two expressions with one text are one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fagen.spec.semantics import OPERATIONS

if TYPE_CHECKING:
    from fagen.spec.expr import Expr

BINARY = {
    "or": ("or", 1), "and": ("and", 2), "lt": ("<", 4), "le": ("<=", 4), "gt": (">", 4),
    "ge": (">=", 4), "eq": ("==", 4), "ne": ("!=", 4), "bitor": ("|", 5), "bitxor": ("^", 6),
    "bitand": ("&", 7), "shl": ("<<", 8), "shr": (">>", 8), "add": ("+", 9), "sub": ("-", 9),
    "mul": ("*", 10), "div": ("/", 10), "floordiv": ("//", 10), "mod": ("%", 10), "pow": ("**", 12),
}  # fmt: skip
UNARY = {"not": ("not ", 3), "neg": ("-", 11), "invert": ("~", 11)}
CONDITIONAL, ATOM = 0, 13


def to_text(root: Expr) -> str:
    """The expression as a user would write it.

    A conversion to float is left implicit where the language makes it by itself: in operands of an
    operation that needs floats, and beside an operand that is a float on its own.
    """
    done: dict[Expr, tuple[str, int]] = {}

    def wrapped(node: Expr, level: int, implicit: bool = False) -> str:
        if implicit and node.op == "float":
            node = node.args[0]
        text, own = done[node]
        return text if own >= level else f"({text})"

    from fagen.spec.expr import post_order

    for node in post_order(root):
        done[node] = _text(node, wrapped)
    return done[root][0]


def _text(node: Expr, operand) -> tuple[str, int]:
    implicit = _converts(node)

    def wrapped(arg: Expr, level: int) -> str:
        return operand(arg, level, implicit)

    if node.op == "const":
        if isinstance(node.value, float) and math.isinf(node.value):
            return ("inf", ATOM) if node.value > 0 else ("-inf", 11)
        return repr(node.value), ATOM if not _negative(node.value) else 11
    if node.op == "name":
        return str(node.value), ATOM
    if node.op == "read":
        if not node.args:
            return str(node.value), ATOM
        return f"{node.value}[{', '.join(wrapped(a, CONDITIONAL) for a in node.args)}]", ATOM
    if node.op == "where":
        condition, yes, no = node.args
        return f"{wrapped(yes, 1)} if {wrapped(condition, 1)} else {wrapped(no, 0)}", CONDITIONAL
    if node.op in BINARY:
        symbol, level = BINARY[node.op]
        left, right = node.args
        # Comparisons do not associate; ** binds its right operand; the rest lean left.
        tight_left = level + 1 if node.op in ("pow", *_COMPARISONS) else level
        return f"{wrapped(left, tight_left)} {symbol} {wrapped(right, level + 1)}", level
    if node.op in UNARY:
        symbol, level = UNARY[node.op]
        return f"{symbol}{wrapped(node.args[0], level)}", level
    return f"{node.op}({', '.join(wrapped(a, CONDITIONAL) for a in node.args)})", ATOM


def _converts(node: Expr) -> bool:
    operation = OPERATIONS.get(node.op)
    if operation is None or not (operation.promotes or operation.needs_float):
        return False
    return operation.needs_float or any(a.type == "float" and a.op != "float" for a in node.args)


_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


def _negative(value) -> bool:
    return not isinstance(value, bool) and (value < 0 or repr(value).startswith("-"))
