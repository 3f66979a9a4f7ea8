"""Int expressions as sums of integer multiples, and builders that fold constants on the way."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fagen.spec.expr import FALSE, TRUE, Expr, const, is_const, make


@dataclass(frozen=True)
class Linear:
    """sum(coefficient * term) + constant, terms in order of first appearance, none zero."""

    terms: tuple[tuple[Expr, int], ...]
    constant: int

    def coefficient(self, term: Expr) -> int:
        return dict(self.terms).get(term, 0)

    def without(self, term: Expr) -> Linear:
        return Linear(tuple((t, c) for t, c in self.terms if t is not term), self.constant)

    def times(self, factor: int) -> Linear:
        if factor == 0:
            return Linear((), 0)
        return Linear(tuple((t, c * factor) for t, c in self.terms), self.constant * factor)

    def plus(self, other: Linear) -> Linear:
        total: dict[Expr, int] = dict(self.terms)
        for term, coefficient in other.terms:
            total[term] = total.get(term, 0) + coefficient
        return Linear(tuple((t, c) for t, c in total.items() if c), self.constant + other.constant)

    def shifted(self, amount: int) -> Linear:
        return Linear(self.terms, self.constant + amount)

    def lowest(self) -> Linear:
        """The least multiples for which `form <= 0` says the same."""
        common = math.gcd(*(c for _, c in self.terms)) or 1
        # common * x + constant <= 0 is x <= floor(-constant / common).
        return Linear(tuple((t, c // common) for t, c in self.terms), -(-self.constant // common))

    def expression(self) -> Expr:
        """Positive terms first, so that no leading minus is needed where one can be avoided."""
        ordered = [t for t in self.terms if t[1] > 0] + [t for t in self.terms if t[1] < 0]
        total: Expr | None = None
        for term, coefficient in ordered:
            size = abs(coefficient)
            part = term if size == 1 else make("mul", const(size), term)
            if total is None:
                total = part if coefficient > 0 else make("neg", part)
            else:
                total = make("add" if coefficient > 0 else "sub", total, part)
        if total is None:
            return const(self.constant)
        if self.constant:
            op = "add" if self.constant > 0 else "sub"
            total = make(op, total, const(abs(self.constant)))
        return total


#: Multiples beyond this one are not gathered: no kernel could hold the number.
LARGEST = 2**60


def linear(node: Expr) -> Linear:
    """The linear form of an int expression; what is not linear becomes a term of its own."""
    form = _linear(node)
    fits = all(abs(c) <= LARGEST for c in (form.constant, *(c for _, c in form.terms)))
    return form if fits else Linear(((node, 1),), 0)


def _linear(node: Expr) -> Linear:
    if node.op == "const":
        return Linear((), int(node.value))  # type: ignore[arg-type]
    if node.op == "neg":
        return linear(node.args[0]).times(-1)
    if node.op in ("add", "sub"):
        left, right = linear(node.args[0]), linear(node.args[1])
        return left.plus(right.times(1 if node.op == "add" else -1))
    if node.op == "mul":
        left, right = linear(node.args[0]), linear(node.args[1])
        if not left.terms:
            return right.times(left.constant)
        if not right.terms:
            return left.times(right.constant)
    return Linear(((node, 1),), 0)


def add(a: Expr, b: Expr) -> Expr:
    return linear(a).plus(linear(b)).expression()


def sub(a: Expr, b: Expr) -> Expr:
    return linear(a).plus(linear(b).times(-1)).expression()


def shift(a: Expr, amount: int) -> Expr:
    return linear(a).shifted(amount).expression()


def mul(a: Expr, b: Expr) -> Expr:
    return linear(make("mul", a, b)).expression()


def floordiv(a: Expr, b: Expr) -> Expr:
    if is_const(b, 1) or is_const(a, 0):
        return a
    if is_const(a) and is_const(b):
        return const(a.value // b.value)  # type: ignore[operator]
    return make("floordiv", a, b)


def ceildiv(a: Expr, b: Expr) -> Expr:
    """Smallest int not below a / b, for a >= 0 and b >= 1."""
    if is_const(a, 0):
        return a
    return floordiv(add(a, shift(b, -1)), b)


def _pick(op: str, a: Expr, b: Expr) -> Expr:
    if a is b:
        return a
    difference = linear(a).plus(linear(b).times(-1))
    if not difference.terms:
        a_is_less = difference.constant <= 0
        return a if a_is_less == (op == "min") else b
    return make(op, a, b)


def minimum(a: Expr, b: Expr) -> Expr:
    return _pick("min", a, b)


def maximum(a: Expr, b: Expr) -> Expr:
    return _pick("max", a, b)


def compare(op: str, a: Expr, b: Expr) -> Expr:
    """A comparison of ints, folded when the difference is a constant."""
    difference = linear(a).plus(linear(b).times(-1))
    if difference.terms:
        return make(op, a, b)
    d = difference.constant
    return const(
        {"lt": d < 0, "le": d <= 0, "gt": d > 0, "ge": d >= 0, "eq": d == 0, "ne": d != 0}[op]
    )


def both(*conditions: Expr) -> Expr:
    """Conjunction; TRUE when empty."""
    kept: list[Expr] = []
    for c in conditions:
        if c is FALSE:
            return FALSE
        if c is not TRUE and c not in kept:
            kept.append(c)
    total = kept[0] if kept else TRUE
    for c in kept[1:]:
        total = make("and", total, c)
    return total


def either(*conditions: Expr) -> Expr:
    """Disjunction; FALSE when empty."""
    kept: list[Expr] = []
    for c in conditions:
        if c is TRUE:
            return TRUE
        if c is not FALSE and c not in kept:
            kept.append(c)
    total = kept[0] if kept else FALSE
    for c in kept[1:]:
        total = make("or", total, c)
    return total


_OPPOSITE = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}


def negate(c: Expr) -> Expr:
    """`not c`, pushed into int comparisons; float ones keep it, since NaN makes both false."""
    if c.op == "const":
        return const(not c.value)
    if c.op == "not":
        return c.args[0]
    if c.op == "invert" and c.type == "bool":
        return c.args[0]
    if c.op in _OPPOSITE and all(a.type != "float" for a in c.args):
        return make(_OPPOSITE[c.op], *c.args)
    return make("not", c)


def choose(condition: Expr, yes: Expr, no: Expr) -> Expr:
    if condition is TRUE or yes is no:
        return yes
    return no if condition is FALSE else make("where", condition, yes, no)
