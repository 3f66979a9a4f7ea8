"""Building one node from its operands: constants are computed, what cannot be meant is refused.

Algebra on names is left to the analysis; here only constants meet constants.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping

from fagen.spec.bounds import INT_MAX, INT_MIN, Interval, bounds
from fagen.spec.expr import FALSE, TRUE, Expr, const, is_const, make

#: The largest finite float32, and the least positive number that it does not round to 0.
FLOAT_MAX, FLOAT_MIN = 3.4028234663852886e38, 2.0**-149


class Refusal(Exception):
    """An operation that type-checks but cannot be meant; carries a hint."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def build(op: str, args: list[Expr], of_names: Mapping[str, Interval]) -> Expr:
    """`op(*args)` with constants computed. Raises TypeMismatch or Refusal."""
    node = make(op, *args)
    if node.op in ("floordiv", "mod"):
        _check_divisor(node, of_names)
    if node.op == "div" and is_const(node.args[1], 0):
        raise Refusal("division by zero")
    if node.op in ("shl", "shr"):
        lo, hi = bounds(node.args[1], of_names)
        if hi < 0 or lo > 31:
            raise Refusal("a shift goes by 0 to 31 bits", "shift the other way" if hi < 0 else "")
    if node.op in ("and", "or", "where"):
        return _choice(node)
    if node.args and all(a.op == "const" for a in node.args):
        return _computed(node)
    if node.op in ("mul", "div") and FLOAT_MAX < abs(size := _constant_factor(node)) < math.inf:
        raise Refusal(f"the constants of `{node!r}` multiply to {size:g}, past float32")
    return node


def literal(value: int | float | bool) -> Expr:
    """A constant that int32 or float32 can hold; raises Refusal."""
    if isinstance(value, bool):
        return const(value)
    if isinstance(value, int) and not INT_MIN <= value <= INT_MAX:
        wrapped = (value + 2**31) % 2**32 - 2**31
        hint = f"as a pattern of 32 bits it is {wrapped}" if 0 < value < 2**32 else ""
        raise Refusal("ints have 32 bits; this one does not fit", hint)
    if isinstance(value, float) and abs(value) > FLOAT_MAX:
        raise Refusal("floats are float32; this one does not fit", "write `inf`")
    if isinstance(value, float) and 0 < abs(value) < FLOAT_MIN:
        raise Refusal("floats are float32, in which this one is 0", "write `0.0`")
    return const(value)


def _check_divisor(node: Expr, of_names: Mapping[str, Interval]) -> None:
    divisor = node.args[1]
    if is_const(divisor, 0):
        raise Refusal("division by zero")
    lo, hi = bounds(divisor, of_names)
    if lo <= 0 <= hi:
        named = divisor.op == "name" and divisor.value in of_names
        hint = f"give `{divisor.value}` a `min: 1`" if named else f"write `max({divisor!r}, 1)`"
        raise Refusal(f"the divisor `{divisor!r}` may be zero", hint)


def _constant_factor(node: Expr) -> float:
    """The product of the constants in a chain of products and quotients of floats."""
    if node.type != "float":
        return 1.0
    if node.op == "const":
        return float(node.value)  # type: ignore[arg-type]
    if node.op == "neg":
        return -_constant_factor(node.args[0])
    if node.op == "mul":
        return _constant_factor(node.args[0]) * _constant_factor(node.args[1])
    if node.op == "div":
        below = _constant_factor(node.args[1])
        return _constant_factor(node.args[0]) / below if below else math.inf
    return 1.0


def _choice(node: Expr) -> Expr:
    """Constant conditions decide: that is what a static flag is for."""
    if node.op == "where":
        condition, yes, no = node.args
        return node if condition.op != "const" else yes if condition.value else no
    a, b = node.args
    decides, neutral = (FALSE, TRUE) if node.op == "and" else (TRUE, FALSE)
    if decides in (a, b):
        return decides
    return b if a is neutral else a if b is neutral else node


def _computed(node: Expr) -> Expr:
    values = [a.value for a in node.args]
    compute = COMPUTE.get(node.op)
    if compute is None:
        return node
    try:
        value = compute(*values)
    except (ValueError, ZeroDivisionError):
        raise Refusal(f"`{node!r}` is not a number") from None
    except OverflowError:
        if node.op == "int":
            raise Refusal(f"`{node!r}` is not an int") from None
        value = math.inf
    if node.type == "float" and (isinstance(value, complex) or math.isnan(value)):
        raise Refusal(f"`{node!r}` is not a number")
    if node.type == "int" and not INT_MIN <= value <= INT_MAX:
        raise Refusal(f"`{node!r}` is {value}, which 32 bits cannot hold")
    if node.type == "float" and abs(value) > FLOAT_MAX:
        if all(math.isfinite(v) for v in values):  # type: ignore[arg-type]
            raise Refusal(f"`{node!r}` is more than float32 can hold", "write `inf` if it is meant")
        value = math.copysign(math.inf, value)
    return const(value)


def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x > -700 else 0.0


def _invert(x: int | bool) -> int | bool:
    return not x if isinstance(x, bool) else ~x


def _floor(x: float) -> float:
    return float(math.floor(x)) if math.isfinite(x) else x


#: Every operation but `and`, `or` and `where` on Python numbers.
COMPUTE: dict[str, Callable] = {
    "neg": operator.neg, "add": operator.add, "sub": operator.sub, "mul": operator.mul,
    "div": operator.truediv, "floordiv": operator.floordiv, "mod": operator.mod,
    "pow": operator.pow, "min": min, "max": max, "abs": abs,
    "clamp": lambda x, lo, hi: min(max(x, lo), hi),
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "eq": operator.eq, "ne": operator.ne, "not": operator.not_,
    "bitand": operator.and_, "bitor": operator.or_, "bitxor": operator.xor, "invert": _invert,
    "shl": operator.lshift, "shr": operator.rshift, "int": int, "float": float, "floor": _floor,
    "exp": math.exp, "exp2": math.exp2, "log": math.log, "log2": math.log2, "tanh": math.tanh,
    "sigmoid": _sigmoid, "sqrt": math.sqrt, "rsqrt": lambda x: 1.0 / math.sqrt(x),
    "sin": math.sin, "cos": math.cos,
}  # fmt: skip
