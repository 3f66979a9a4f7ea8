"""Random int expressions: every operator and function of the language that yields an int."""

from __future__ import annotations

from fagen.spec.text import BINARY
from fagen.verify.fuzz.drawing import Drawing
from fagen.verify.fuzz.pieces import (
    Context,
    Piece,
    called,
    conditional,
    infix,
    plus,
    prefix,
    whole,
)

#: Beyond this a value is brought back by a remainder or a clamp.
LARGEST = 2.0**20


class Wholes(Drawing):
    """`whole` draws; what may be negative stays so, since `//`, `%` and `>>` must floor."""

    def whole(self, deep: int, context: Context) -> Piece:
        if deep <= 0 or self.fuel <= 0:
            return self.whole_leaf(context)
        piece = self.form(
            {
                self._sum: 8, self._product: 3, self._extreme: 3, self._quotient: 6,
                self._bits: 5, self._shift: 3, self._sign: 3, self._choice: 3,
                self._converted: 3, self._whole_loop: 1, self._power: 1, self._read_whole: 4,
                self._named_whole: 2, self._call_whole: 2, self._leaf: 4,
            },
            deep,
            context,
        )  # fmt: skip
        return piece if piece.size <= LARGEST else self._smaller(piece, context)

    def whole_leaf(self, context: Context) -> Piece:
        options = {
            lambda d, c: self.local("int", c): 6.0,
            lambda d, c: self.index(c): 10.0,
            lambda d, c: self.parameter("int", c): 2.0,
            lambda d, c: self.table("int", 0, c) if self.fuel > 0 else None: 2.0,
            lambda d, c: self.free_length(c): 0.3,
            lambda d, c: self.constant("int"): 3.0,
        }
        return self.form(options, 0, context)

    def divisor(self, context: Context) -> Piece:
        """Provably not zero, of either sign."""
        kind = self.weighted({"const": 5, "negative": 2, "parameter": 2, "guarded": 2, "length": 1})
        if kind == "parameter" and (found := self.parameter("int", context, positive=True)):
            return found
        if kind == "guarded":
            return called("max", self.whole_leaf(context), whole(self.rng.randint(1, 3), self.rng))
        if kind == "length" and "heads" in context.indices:
            return Piece(self.rng.choice(["heads", "kv_len", "q_len", "batch"]))
        value = self.rng.choice([1, 2, 3, 4, 5, 7, 8, 16, 32])
        return whole(-value if kind == "negative" else value, self.rng)

    def _smaller(self, piece: Piece, context: Context) -> Piece:
        if self.chance(0.5):
            size = self.rng.choice([7, 64, 100, -50])
            return infix("mod", piece, whole(size, self.rng), abs(size))
        ends = (whole(-self.rng.randint(0, 99), self.rng), whole(self.rng.randint(1, 99), self.rng))
        return called("clamp", piece, *ends, size=99)

    def _leaf(self, deep: int, context: Context) -> Piece | None:
        return self.whole_leaf(context)

    def _sum(self, deep: int, context: Context) -> Piece | None:
        a, b = self.whole(deep - 1, context), self.whole(deep - 1, context)
        return infix(self.rng.choice(["add", "sub", "sub"]), a, b, a.size + b.size)

    def _product(self, deep: int, context: Context) -> Piece | None:
        a = self.whole(deep - 1, context)
        factor = whole(self.rng.choice([-3, -1, 2, 3, 5]), self.rng)
        b = factor if self.chance(0.6) else self.whole(0, context)
        return self.either_way("mul", a, b, a.size * b.size)

    def _extreme(self, deep: int, context: Context) -> Piece | None:
        if self.chance(0.3):
            parts = [self.whole(deep - 1, context) for _ in range(3)]
            return called("clamp", *parts, size=max(p.size for p in parts))
        parts = [self.whole(deep - 1, context) for _ in range(self.rng.choice([2, 2, 2, 3, 4]))]
        size = max(p.size for p in parts)
        return called(self.rng.choice(["min", "max"]), *parts, size=size)

    def _quotient(self, deep: int, context: Context) -> Piece | None:
        a = self.whole(deep - 1, context)
        op = self.rng.choice(["floordiv", "mod"])
        return infix(op, a, self.divisor(context), a.size if op == "floordiv" else 130.0)

    def _bits(self, deep: int, context: Context) -> Piece | None:
        op = self.rng.choice(["bitand", "bitor", "bitxor", "invert"])
        a = self.whole(deep - 1, context)
        if op == "invert":
            return prefix(op, a, a.size + 1)
        b = self.whole(deep - 1, context) if self.chance(0.5) else whole(15, self.rng)
        return infix(op, a, b, 2 * max(a.size, b.size))

    def _shift(self, deep: int, context: Context) -> Piece | None:
        op = self.rng.choice(["shl", "shr"])
        a, by = self.whole(deep - 1, context), self.rng.randint(0, 4)
        if self.chance(0.25):
            low = infix("bitand", self.whole(0, context), Piece("3"))
            return infix(op, a, low, a.size * 8)
        if op == "shr" and self.chance(0.1):
            by = 31
        return infix(op, a, whole(by, self.rng), a.size * 2**by if op == "shl" else a.size)

    def _sign(self, deep: int, context: Context) -> Piece | None:
        a = self.whole(deep - 1, context)
        kind = self.weighted({"neg": 4, "abs": 4, "plus": 1})
        if kind == "plus":
            return plus(a)
        return prefix("neg", a, a.size) if kind == "neg" else called("abs", a, size=a.size)

    def _choice(self, deep: int, context: Context) -> Piece | None:
        condition = self.truth(deep - 1, context)
        a, b = self.whole(deep - 1, context), self.whole(deep - 1, context)
        if self.chance(0.4):
            return called("where", condition, a, b, size=max(a.size, b.size))
        return conditional(condition, a, b)

    def _converted(self, deep: int, context: Context) -> Piece | None:
        if self.chance(0.4):
            return called("int", self.truth(deep - 1, context))
        a = self.real(deep - 1, context)
        if self.chance(0.3):
            a = called("floor", a, size=a.size + 1)
        return called("int", a, size=a.size + 1)

    def _whole_loop(self, deep: int, context: Context) -> Piece | None:
        return self.loop("sum", min(deep, 2), context, "int")

    def _power(self, deep: int, context: Context) -> Piece | None:
        a = self.whole(min(deep, 2) - 1, context)
        power = self.weighted({0: 0.5, 1: 1.0, 2: 4.0, 3: 1.0})
        if a.size**power > LARGEST:
            a = infix("mod", a, Piece("9"), 9.0)
        return Piece(f"{a.at(BINARY['pow'][1] + 1)} ** {power}", BINARY["pow"][1], a.size**power)

    def _read_whole(self, deep: int, context: Context) -> Piece | None:
        return self.table("int", deep, context)

    def _named_whole(self, deep: int, context: Context) -> Piece | None:
        return self.named("int", deep, context)

    def _call_whole(self, deep: int, context: Context) -> Piece | None:
        return self.user_function("int", deep, context)
