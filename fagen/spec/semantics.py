"""The semantics table: every operation of the language, its types and its meaning.

This table says what is legal and what it means in words. It is implemented independently several
times (verify/reference.py in float64 PyTorch, codegen/triton_printer.py, codegen/torch_printer.py,
analysis/evaluate.py in NumPy); tests compare them with each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


class TypeMismatch(Exception):
    """Operands whose types an operation does not accept; the message names them."""


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _numeric(symbol: str) -> Callable[[list[str]], str]:
    def rule(kinds: list[str]) -> str:
        if "bool" in kinds:
            raise TypeMismatch(f"`{symbol}` needs numbers, not a bool (write `1 if c else 0`)")
        return "float" if "float" in kinds else "int"

    return rule


def _real(symbol: str) -> Callable[[list[str]], str]:
    def rule(kinds: list[str]) -> str:
        if "bool" in kinds:
            raise TypeMismatch(f"`{symbol}` needs numbers, not a bool")
        return "float"

    return rule


def _ints(symbol: str) -> Callable[[list[str]], str]:
    def rule(kinds: list[str]) -> str:
        for kind in kinds:
            if kind != "int":
                raise TypeMismatch(f"`{symbol}` needs ints, not {_article(kind)}")
        return "int"

    return rule


def _bits(symbol: str) -> Callable[[list[str]], str]:
    def rule(kinds: list[str]) -> str:
        if len(set(kinds)) != 1 or kinds[0] == "float":
            raise TypeMismatch(f"`{symbol}` needs ints or bools, not {' and '.join(kinds)}")
        return kinds[0]

    return rule


def _logic(symbol: str) -> Callable[[list[str]], str]:
    def rule(kinds: list[str]) -> str:
        for kind in kinds:
            if kind != "bool":
                raise TypeMismatch(f"`{symbol}` needs bools, not {_article(kind)}")
        return "bool"

    return rule


def _order(symbol: str) -> Callable[[list[str]], str]:
    def rule(kinds: list[str]) -> str:
        if "bool" in kinds:
            raise TypeMismatch(f"`{symbol}` compares numbers, not a bool")
        return "bool"

    return rule


def _equality(symbol: str) -> Callable[[list[str]], str]:
    def rule(kinds: list[str]) -> str:
        if ("bool" in kinds) and set(kinds) != {"bool"}:
            raise TypeMismatch(f"`{symbol}` cannot compare {' with '.join(kinds)}")
        return "bool"

    return rule


def _where(kinds: list[str]) -> str:
    if kinds[0] != "bool":
        raise TypeMismatch(f"the condition must be a bool, not {_article(kinds[0])}")
    a, b = kinds[1:]
    if (a == "bool") != (b == "bool"):
        raise TypeMismatch(f"the branches are {a} and {b}")
    return "float" if "float" in (a, b) else a


def _to_float(kinds: list[str]) -> str:
    if kinds[0] == "bool":
        raise TypeMismatch("`float` takes a number, not a bool (write `1.0 if c else 0.0`)")
    return "float"


def _floor_result(kinds: list[str]) -> str:
    if kinds[0] != "float":
        raise TypeMismatch(f"`floor` takes a float, not {_article(kinds[0])}")
    return "float"


@dataclass(frozen=True)
class Operation:
    """`result` maps operand types to the result's type or raises TypeMismatch.

    `promotes`: an int operand beside a float one is converted to float first.
    `symbol`: how the language writes it; None for a function call.
    """

    name: str
    arity: int
    result: Callable[[list[str]], str]
    meaning: str
    symbol: str | None = None
    promotes: bool = False
    needs_float: bool = False


def _table() -> dict[str, Operation]:
    rows = [
        Operation("neg", 1, _numeric("-"), "negation", "-"),
        Operation("add", 2, _numeric("+"), "sum", "+", True),
        Operation("sub", 2, _numeric("-"), "difference", "-", True),
        Operation("mul", 2, _numeric("*"), "product", "*", True),
        Operation("div", 2, _real("/"), "float32 quotient", "/", True, True),
        Operation("floordiv", 2, _ints("//"), "quotient rounded to minus infinity", "//"),
        Operation("mod", 2, _ints("%"), "remainder with the sign of the divisor", "%"),
        Operation("pow", 2, _real("**"), "float power by a constant", "**", True, True),
        Operation("min", 2, _numeric("min"), "smaller; NaN wins", None, True),
        Operation("max", 2, _numeric("max"), "larger; NaN wins", None, True),
        Operation("clamp", 3, _numeric("clamp"), "min(max(x, lo), hi); NaN stays", None, True),
        Operation("abs", 1, _numeric("abs"), "magnitude"),
        Operation("lt", 2, _order("<"), "less; false with NaN", "<", True),
        Operation("le", 2, _order("<="), "at most; false with NaN", "<=", True),
        Operation("gt", 2, _order(">"), "greater; false with NaN", ">", True),
        Operation("ge", 2, _order(">="), "at least; false with NaN", ">=", True),
        Operation("eq", 2, _equality("=="), "equal; false with NaN", "==", True),
        Operation("ne", 2, _equality("!="), "not equal; true with NaN", "!=", True),
        Operation("and", 2, _logic("and"), "both", "and"),
        Operation("or", 2, _logic("or"), "either", "or"),
        Operation("not", 1, _logic("not"), "negated truth", "not"),
        Operation("bitand", 2, _bits("&"), "bitwise and", "&"),
        Operation("bitor", 2, _bits("|"), "bitwise or", "|"),
        Operation("bitxor", 2, _bits("^"), "bitwise exclusive or", "^"),
        Operation("invert", 1, _bits("~"), "bitwise complement; of a bool its negation", "~"),
        Operation("shl", 2, _ints("<<"), "shift left by 0 to 31", "<<"),
        Operation("shr", 2, _ints(">>"), "arithmetic shift right by 0 to 31", ">>"),
        Operation(
            "where", 3, _where, "second operand where the first holds, else the third", None, True
        ),
        Operation(
            "int",
            1,
            lambda kinds: "int",
            "truncation towards zero; of a bool 0 or 1; of NaN or past 32 bits unspecified",
        ),
        Operation("float", 1, _to_float, "float32 of an int"),
        Operation("floor", 1, _floor_result, "largest whole float not above"),
    ]
    for function, meaning in (
        ("exp", "e to the power"),
        ("exp2", "2 to the power"),
        ("log", "natural logarithm"),
        ("log2", "logarithm to base 2"),
        ("tanh", "hyperbolic tangent"),
        ("sigmoid", "1 / (1 + exp(-x))"),
        ("sqrt", "square root"),
        ("rsqrt", "1 / sqrt(x)"),
        ("sin", "sine of radians"),
        ("cos", "cosine of radians"),
    ):
        rows.append(Operation(function, 1, _real(function), meaning, None, False, True))
    return {row.name: row for row in rows}


OPERATIONS = _table()

#: Functions a variant may call by name, beside `where`-like syntax.
FUNCTIONS = {
    row.name
    for row in OPERATIONS.values()
    if row.symbol is None and row.name not in ("bitand", "bitor", "bitxor", "invert")
}
