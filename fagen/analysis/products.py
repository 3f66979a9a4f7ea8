"""Float expressions in a normal form: sums of products with integer powers.

Used to pull out constant factors, to see what cancels, and to gather everything that does not
change within a program into one scalar. Values agree with the original up to rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from fagen.analysis.axes import axes_of
from fagen.spec.expr import Expr, const, is_const, make, rebuild, with_args

LOOPING = {"q", "kv"}
#: Constants from 2**-100 to 2**100 are gathered into one factor: with whatever it is multiplied by
#: next it stays inside float32. Others would overflow although the product does not.
STEP = 100


def in_steps(value: float) -> list[float]:
    """Factors of at most 2**100 (and at least 2**-100) whose product is the value, exactly."""
    if value == 0.0 or not math.isfinite(value):
        return [value]
    fraction, exponent = math.frexp(value)
    steps = []
    while abs(exponent) > STEP:
        step = STEP if exponent > 0 else -STEP
        steps.append(2.0**step)
        exponent -= step
    return [math.ldexp(fraction, exponent), *steps]


def is_one_step(value: float) -> bool:
    """Whether a finite constant may be gathered into one factor."""
    return math.isfinite(value) and len(in_steps(value)) == 1


@dataclass(frozen=True)
class Product:
    """coefficient * prod(base ** power); bases are neither products, quotients nor constants."""

    coefficient: float
    powers: tuple[tuple[Expr, int], ...] = field(default=())

    def times(self, other: Product) -> Product:
        merged = dict(self.powers)
        for base, power in other.powers:
            merged[base] = merged.get(base, 0) + power
        kept = tuple((b, p) for b, p in merged.items() if p)
        return Product(self.coefficient * other.coefficient, kept)

    def inverse(self) -> Product:
        return Product(1.0 / self.coefficient, tuple((b, -p) for b, p in self.powers))

    def split(self) -> tuple[Product, Product]:
        """(factors free of q and kv with the coefficient, the rest)."""
        fixed = tuple(x for x in self.powers if not axes_of(x[0]) & LOOPING)
        moving = tuple(x for x in self.powers if axes_of(x[0]) & LOOPING)
        return Product(self.coefficient, fixed), Product(1.0, moving)

    def expression(self) -> Expr:
        """Scalars of the program first, as one factor, so that it is computed once."""
        if self.powers and math.isfinite(self.coefficient) and not is_one_step(self.coefficient):
            return self._in_steps()
        fixed, moving = self.split()
        scalar, rest = fixed._flat(), moving._flat()
        if not moving.powers:
            return scalar
        if is_const(scalar, 1.0):
            return rest
        if is_const(scalar, -1.0):
            return make("neg", rest)
        return make("mul", rest, scalar)

    def _in_steps(self) -> Expr:
        """The constant's steps spread between the factors, which may keep it inside float32."""
        most = max(abs(power) for _, power in self.powers)
        factors = [(b, p > 0) for i in range(most) for b, p in self.powers if abs(p) > i]
        steps = in_steps(self.coefficient)
        total, taken = const(1.0), 0
        for count, (base, above) in enumerate(factors, 1):
            total = fmul(total, base) if above else make("div", total, base)
            while taken < count * len(steps) // len(factors):
                total = make("mul", total, const(steps[taken]))
                taken += 1
        return total

    def _flat(self) -> Expr:
        above: Expr | None = None if self.coefficient == 1.0 else const(self.coefficient)
        below: Expr | None = None
        for base, power in self.powers:
            for _ in range(abs(power)):
                if power > 0:
                    above = base if above is None else make("mul", above, base)
                else:
                    below = base if below is None else make("mul", below, base)
        above = above or const(1.0)
        return above if below is None else make("div", above, below)


def product_of(node: Expr) -> Product:
    """The product form of a float expression; an opaque node is a base of its own."""
    if node.op == "const" and node.type == "float":
        return Product(float(node.value))  # type: ignore[arg-type]
    if node.op == "neg":
        return Product(-1.0).times(product_of(node.args[0]))
    if node.op == "mul":
        return product_of(node.args[0]).times(product_of(node.args[1]))
    if node.op == "div":
        below = product_of(node.args[1])
        if below.coefficient != 0.0:
            return product_of(node.args[0]).times(below.inverse())
    return Product(1.0, ((node, 1),))


def canonical(node: Expr) -> Expr:
    """The same value with every chain of products gathered, bottom up."""

    def change(old: Expr, args: tuple[Expr, ...]) -> Expr:
        new = with_args(old, args)
        if new.type == "float" and new.op in ("mul", "div", "neg"):
            return product_of(new).expression()
        return fold(new)

    return rebuild(node, change)


def fold(node: Expr) -> Expr:
    """Drop zeros of sums; other foldings come with the product form."""
    if node.type == "float" and node.op in ("add", "sub"):
        a, b = node.args
        if is_const(b, 0.0):
            return a
        if is_const(a, 0.0):
            return b if node.op == "add" else make("neg", b)
    return node


def fmul(a: Expr, b: Expr) -> Expr:
    """Product with 0, 1 and constants folded."""
    if is_const(a) and is_const(b):
        return const(float(a.value) * float(b.value))  # type: ignore[arg-type]
    for one, other in ((a, b), (b, a)):
        if is_const(one, 0.0):
            return const(0.0)
        if is_const(one, 1.0):
            return other
    return make("mul", a, b)


def fadd(a: Expr, b: Expr) -> Expr:
    return fold(make("add", a, b))


def sum_terms(node: Expr) -> list[Product]:
    """The node as a sum of products, multiplied out; its own structure elsewhere is kept."""
    if node.op == "add":
        return sum_terms(node.args[0]) + sum_terms(node.args[1])
    if node.op == "sub":
        minus = Product(-1.0)
        return sum_terms(node.args[0]) + [minus.times(t) for t in sum_terms(node.args[1])]
    if node.op == "neg":
        return [Product(-1.0).times(t) for t in sum_terms(node.args[0])]
    if node.op == "mul" and node.type == "float":
        left, right = sum_terms(node.args[0]), sum_terms(node.args[1])
        if len(left) == 1 or len(right) == 1:
            return [a.times(b) for a in left for b in right]
    if node.op == "div":
        below = product_of(node.args[1])
        if below.coefficient != 0.0:
            return [t.times(below.inverse()) for t in sum_terms(node.args[0])]
    return [product_of(node)]
