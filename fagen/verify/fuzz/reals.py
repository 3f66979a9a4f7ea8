"""Random float expressions that stay finite in float32, but reach caps, kinks and saturation."""

from __future__ import annotations

from fagen.spec.expr import Type
from fagen.verify.fuzz.drawing import SIZES, USUAL_SIZE, Drawing
from fagen.verify.fuzz.ledger import KEYS
from fagen.verify.fuzz.pieces import (
    Context,
    Piece,
    called,
    conditional,
    infix,
    plus,
    prefix,
    real,
)

#: Beyond this a value is squashed: scores much larger leave one key per row.
LARGEST = 60.0


class Reals(Drawing):
    """`real` draws any float, `score` one in which the score itself occurs, most often."""

    def real(self, deep: int, context: Context) -> Piece:
        if deep <= 0 or self.fuel <= 0:
            return self.real_leaf(context)
        piece = self.form(
            {
                self._real_sum: 8, self._real_product: 6, self._quotient_of_reals: 3,
                self._extreme_of_reals: 4, self._real_sign: 2, self._saturating: 5,
                self._waves: 1.5, self._exponential: 2.5, self._logarithm: 2, self._root: 2,
                self._floor: 1, self._real_power: 2, self._choice_of_reals: 4,
                self._real_loop: 1, self._read_real: 5, self._named_real: 2,
                self._call_real: 2, self._of_distance: 3, self._leaf_real: 4,
            },
            deep,
            context,
        )  # fmt: skip
        return piece if piece.size <= LARGEST else self._squashed(piece)

    def real_leaf(self, context: Context) -> Piece:
        options = {
            lambda d, c: Piece("score", size=6.0) if c.score else None: 7.0,
            lambda d, c: self.local("float", c): 4.0,
            lambda d, c: self._position(c): 3.0,
            lambda d, c: self.parameter("float", c): 2.0,
            lambda d, c: self.table("float", 0, c) if self.fuel > 0 else None: 3.0,
            lambda d, c: self.constant("float"): 2.0,
        }
        return self.form(options, 0, context)

    def _position(self, context: Context) -> Piece:
        """An int as a float, small enough not to drown the score."""
        found = self.whole(1, context) if self.chance(0.5) else self.whole(0, context)
        if self.chance(0.3):
            found = called("float", found, size=found.size)
        share = self.rng.choice([0.125, 0.1, 0.01, 0.5])
        while share * found.size > LARGEST:
            share /= 10
        if self.chance(0.3):
            return infix("div", found, real(1 / share), found.size * share)
        return self.either_way("mul", found, real(share), found.size * share)

    def _squashed(self, piece: Piece) -> Piece:
        kind = self.weighted({"clamp": 2, "tanh": 2, "fold": 2, "share": 2})
        if kind == "clamp":
            return called("clamp", piece, real(-8.0), real(16.0), size=16.0)
        if kind == "tanh":
            return infix("mul", real(4.0), called("tanh", piece), 4.0)
        if kind == "fold":
            below = infix("add", real(1.0), called("abs", piece))
            return infix("div", piece, below, 1.0)
        share = 2.0 ** -int(piece.size / 8).bit_length()
        return infix("mul", piece, real(share), piece.size * share)

    def _leaf_real(self, deep: int, context: Context) -> Piece | None:
        return self.real_leaf(context)

    def _mixed(self, deep: int, context: Context) -> Piece:
        """An operand beside a float: now and then a small int, to be converted."""
        if self.chance(0.1):
            return infix("mod", self.whole(0, context), Piece("5"), 5.0)
        return self.real(deep, context)

    def _real_sum(self, deep: int, context: Context) -> Piece | None:
        a, b = self.real(deep - 1, context), self._mixed(deep - 1, context)
        return self.either_way(self.rng.choice(["add", "sub"]), a, b, a.size + b.size)

    def _real_product(self, deep: int, context: Context) -> Piece | None:
        a, b = self.real(deep - 1, context), self._mixed(deep - 1, context)
        return self.either_way("mul", a, b, a.size * b.size)

    def _quotient_of_reals(self, deep: int, context: Context) -> Piece | None:
        a = self._mixed(deep - 1, context)
        if self.chance(0.3) and (found := self.parameter("float", context, positive=True)):
            return infix("div", a, found, 4 * a.size)
        if self.chance(0.4):
            size = self.rng.choice([2.0, 3.0, -4.0])
            return infix("div", a, real(size), a.size / abs(size))
        below = infix("add", real(1.0), called("abs", self.real(deep - 1, context)))
        return infix("div", a, below, a.size)

    def _extreme_of_reals(self, deep: int, context: Context) -> Piece | None:
        if self.chance(0.4):
            a = self.real(deep - 1, context)
            low = self.rng.choice([-2.0, -0.5, 0.0])
            ends = [real(low), real(low + self.rng.choice([0.5, 2.0]))]
            if self.chance(0.3):
                ends = [self.real(0, context), self.real(0, context)]
            return called("clamp", a, *ends, size=max(3.0, *(e.size for e in ends)))
        parts = [self.real(deep - 1, context)]
        parts += [self._mixed(deep - 1, context) for _ in range(self.rng.choice([1, 1, 2]))]
        size = max(p.size for p in parts)
        return called(self.rng.choice(["min", "max"]), *parts, size=size)

    def _real_sign(self, deep: int, context: Context) -> Piece | None:
        a = self.real(deep - 1, context)
        kind = self.weighted({"neg": 4, "abs": 4, "plus": 1})
        if kind == "plus":
            return plus(a)
        return prefix("neg", a, a.size) if kind == "neg" else called("abs", a, size=a.size)

    def _saturating(self, deep: int, context: Context) -> Piece | None:
        """cap * tanh(x / cap) with a cap that is reached, or its kin."""
        a = self.real(deep - 1, context)
        function = self.rng.choice(["tanh", "tanh", "sigmoid"])
        if self.chance(0.4) and (cap := self.parameter("float", context, positive=True)):
            inner = called(function, infix("div", a, cap))
            return infix("mul", cap, inner, 8.0)
        if self.chance(0.5):
            size = self.rng.choice([1.0, 3.0, 20.0])
            inner = called(function, infix("div", a, real(size)))
            return self.either_way("mul", inner, real(size), size)
        return called(function, a)

    def _of_distance(self, deep: int, context: Context) -> Piece | None:
        """What the distance of a key from its query decides alone, dear enough for a table."""
        if context.place < KEYS or context.local:
            return None
        word = "(q_idx - kv_idx)"
        local: dict[str, tuple[Type, float]] = {word: ("int", USUAL_SIZE)}
        gap = Context(context.place, {"h": SIZES["h"]}, local, tables=False, lets=False)
        wave = called("cos", infix("mul", Piece(word), real(self.rng.choice([0.125, 0.5, 3.0]))))
        other = self.rng.choice([self._waves, self._saturating])(2, gap)
        return None if other is None else infix("mul", wave, other, other.size)

    def _waves(self, deep: int, context: Context) -> Piece | None:
        return called(self.rng.choice(["sin", "cos"]), self.real(deep - 1, context))

    def _exponential(self, deep: int, context: Context) -> Piece | None:
        a = called("min", self.real(deep - 1, context), real(self.rng.choice([3.0, 1.0])))
        return called(self.rng.choice(["exp", "exp2"]), a, size=20.0)

    def _above(self, deep: int, context: Context) -> Piece:
        """A positive value, well away from 0."""
        a = called("abs", self.real(deep - 1, context))
        return infix("add", a, real(self.rng.choice([1.0, 0.5])), 70.0)

    def _logarithm(self, deep: int, context: Context) -> Piece | None:
        return called(self.rng.choice(["log", "log2"]), self._above(deep, context), size=6.0)

    def _root(self, deep: int, context: Context) -> Piece | None:
        function = self.rng.choice(["sqrt", "rsqrt"])
        return called(function, self._above(deep, context), size=8.0)

    def _floor(self, deep: int, context: Context) -> Piece | None:
        a = self.real(deep - 1, context)
        return called("floor", a, size=a.size + 1)

    def _real_power(self, deep: int, context: Context) -> Piece | None:
        """By a constant: whole for any base, else for a positive one."""
        power = self.rng.choice([2, 2.0, 3, 1.0, 0.5, -1, -2.0, -0.5, 1.5, 0])
        any_base = power in (2, 3, 1.0, 0)
        a = self.real(deep - 1, context) if any_base else self._above(deep, context)
        size = min(max(a.size, 1.0) ** max(power, 0), 1e6)
        return infix("pow", a, real(power), size)

    def _choice_of_reals(self, deep: int, context: Context) -> Piece | None:
        condition = self.truth(deep - 1, context)
        a, b = self.real(deep - 1, context), self._mixed(deep - 1, context)
        if self.chance(0.4):
            return called("where", condition, a, b, size=max(a.size, b.size))
        return conditional(condition, a, b)

    def _real_loop(self, deep: int, context: Context) -> Piece | None:
        return self.loop("sum", min(deep, 2), context, "float")

    def _read_real(self, deep: int, context: Context) -> Piece | None:
        return self.table("float", deep, context)

    def _named_real(self, deep: int, context: Context) -> Piece | None:
        return self.named("float", deep, context)

    def _call_real(self, deep: int, context: Context) -> Piece | None:
        return self.user_function("float", deep, context)

    # Scores

    def score(self, deep: int, context: Context) -> Piece:
        """A new score: the old one changed, beside something, or (seldom) left out."""
        score = Piece("score", size=6.0)
        kind = self.weighted({"any": 5, "beside": 4, "capped": 2, "shut": 1})
        if kind == "any":
            return self.real(deep, context)
        other = self.real(deep - 1, context)
        if kind == "beside":
            op = self.rng.choice(["add", "sub", "mul"])
            return self.either_way(op, score, other)
        if kind == "shut":
            return conditional(
                self.truth(1, context), infix("add", score, other), Piece("-inf", 11)
            )
        cap = self.parameter("float", context, positive=True) or real(2.0)
        inner = called("tanh", infix("div", infix("add", score, other), cap))
        return self.either_way("mul", cap, inner)
