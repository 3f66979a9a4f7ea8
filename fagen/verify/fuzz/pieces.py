"""Texts of expressions, put together by how tightly their operators bind."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

from fagen.spec.expr import Type
from fagen.spec.text import ATOM, BINARY, CONDITIONAL, UNARY


@dataclass(frozen=True)
class Piece:
    """`level` says how tightly the outermost operator binds, as in `fagen.spec.text`; `size` is
    a rough bound of the magnitude, which keeps sums within int32 and scores within reason."""

    text: str
    level: int = ATOM
    size: float = 1.0

    def at(self, level: int) -> str:
        return self.text if self.level >= level else f"({self.text})"


def infix(op: str, left: Piece, right: Piece, size: float = 1.0) -> Piece:
    """`op` is a key of `fagen.spec.text.BINARY`."""
    symbol, level = BINARY[op]
    tight = level + 1 if op in (*COMPARISONS, "pow") else level
    right_level = UNARY["neg"][1] if op == "pow" else level + 1
    return Piece(f"{left.at(tight)} {symbol} {right.at(right_level)}", level, size)


def prefix(op: str, operand: Piece, size: float = 1.0) -> Piece:
    symbol, level = UNARY[op]
    return Piece(f"{symbol}{operand.at(level)}", level, size)


def plus(operand: Piece) -> Piece:
    level = UNARY["neg"][1]
    return Piece(f"+{operand.at(level)}", level, operand.size)


def called(function: str, *args: Piece, size: float = 1.0) -> Piece:
    return Piece(f"{function}({', '.join(a.at(CONDITIONAL) for a in args)})", ATOM, size)


def conditional(condition: Piece, yes: Piece, no: Piece) -> Piece:
    text = f"{yes.at(1)} if {condition.at(1)} else {no.at(CONDITIONAL)}"
    return Piece(text, CONDITIONAL, max(yes.size, no.size))


def chain(first: Piece, rest: list[tuple[str, Piece]]) -> Piece:
    """`a < b <= c`; `rest` holds comparisons (their symbols, or `in`) with what follows them."""
    level = BINARY["lt"][1]
    text = first.at(level + 1)
    for symbol, operand in rest:
        text += f" {symbol} {operand.at(level + 1)}"
    return Piece(text, level)


def whole(value: int, rng: Random) -> Piece:
    """A literal, now and then in another notation."""
    digits = str(abs(value))
    if value >= 0 and rng.random() < 0.1:
        digits = rng.choice([hex(value), f"0b{value:b}", f"0o{value:o}"])
    return Piece(digits, ATOM, abs(value)) if value >= 0 else negative(digits, abs(value))


def real(value: float) -> Piece:
    text = repr(abs(value))
    return Piece(text, ATOM, value) if value >= 0 else negative(text, abs(value))


def negative(digits: str, size: float) -> Piece:
    return Piece(f"-{digits}", UNARY["neg"][1], size)


COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
SYMBOLS = tuple(BINARY[op][0] for op in COMPARISONS)


@dataclass(frozen=True)
class Context:
    """What may be mentioned where an expression stands.

    `place` is one of ROWS, KEYS, SCORES; `indices` maps index names to sizes; `local` the
    arguments and counters in force to their types.
    """

    place: int
    indices: dict[str, float]
    local: dict[str, tuple[Type, float]] = field(default_factory=dict)
    tables: bool = True
    parameters: bool = True
    lets: bool = True
    score: bool = False

    def with_local(self, word: str, kind: Type, size: float) -> Context:
        return replace(self, local={**self.local, word: (kind, size)})
