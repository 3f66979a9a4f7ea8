"""Random bool expressions, and masks: bools that mostly bound one index by another."""

from __future__ import annotations

from fagen.spec.expr import Type
from fagen.spec.text import BINARY
from fagen.verify.fuzz.drawing import Drawing
from fagen.verify.fuzz.pieces import (
    COMPARISONS,
    SYMBOLS,
    Context,
    Piece,
    called,
    chain,
    conditional,
    infix,
    prefix,
    whole,
)


class Truths(Drawing):
    """`truth` draws any bool, `mask` one that keeps some pairs more often than not."""

    def truth(self, deep: int, context: Context) -> Piece:
        if deep <= 0 or self.fuel <= 0:
            return self.truth_leaf(context)
        return self.form(
            {
                self._comparison: 10, self._chained: 4, self._logic: 6, self._bit_logic: 3,
                self._negation: 3, self._equality: 1, self._choice_of_truths: 2,
                self._truth_loop: 2, self._member: 2, self._read_truth: 3, self._named_truth: 2,
                self._call_truth: 2, self._leaf_truth: 2,
            },
            deep,
            context,
        )  # fmt: skip

    def truth_leaf(self, context: Context) -> Piece:
        options = {
            lambda d, c: self.local("bool", c): 3.0,
            lambda d, c: self._bound(c): 8.0,
            lambda d, c: self.parameter("bool", c): 1.5,
            lambda d, c: self.table("bool", 0, c) if self.fuel > 0 else None: 2.0,
            lambda d, c: self.constant("bool"): 0.3,
        }
        return self.form(options, 0, context)

    def _bound(self, context: Context) -> Piece:
        kinds = self.rng.choice(SYMBOLS)
        return chain(self.whole(0, context), [(kinds, self.whole(0, context))])

    def _leaf_truth(self, deep: int, context: Context) -> Piece | None:
        return self.truth_leaf(context)

    def _operand(self, deep: int, context: Context) -> Piece:
        kinds: dict[Type, float] = {"int": 5, "float": 1.5}
        return self.draw(self.weighted(kinds), deep, context)

    def _comparison(self, deep: int, context: Context) -> Piece | None:
        a, b = self._operand(deep - 1, context), self._operand(deep - 1, context)
        return infix(self.rng.choice(COMPARISONS), a, b)

    def _chained(self, deep: int, context: Context) -> Piece | None:
        rest = [
            (self.rng.choice(SYMBOLS), self._operand(deep - 1, context))
            for _ in range(self.rng.choice([2, 2, 2, 3]))
        ]
        return chain(self._operand(deep - 1, context), rest)

    def _logic(self, deep: int, context: Context) -> Piece | None:
        op = self.rng.choice(["and", "or"])
        parts = [self.truth(deep - 1, context) for _ in range(self.rng.choice([2, 2, 3]))]
        level = BINARY[op][1]
        return Piece(f" {op} ".join(p.at(level + 1) for p in parts), level)

    def _bit_logic(self, deep: int, context: Context) -> Piece | None:
        op = self.rng.choice(["bitand", "bitor", "bitxor"])
        return infix(op, self.truth(deep - 1, context), self.truth(deep - 1, context))

    def _negation(self, deep: int, context: Context) -> Piece | None:
        return prefix(self.rng.choice(["not", "not", "invert"]), self.truth(deep - 1, context))

    def _equality(self, deep: int, context: Context) -> Piece | None:
        op = self.rng.choice(["eq", "ne"])
        return infix(op, self.truth(deep - 1, context), self.truth(deep - 1, context))

    def _choice_of_truths(self, deep: int, context: Context) -> Piece | None:
        parts = [self.truth(deep - 1, context) for _ in range(3)]
        return called("where", *parts) if self.chance(0.4) else conditional(*parts)

    def _truth_loop(self, deep: int, context: Context) -> Piece | None:
        return self.loop(self.rng.choice(["any", "all"]), min(deep, 2), context, "bool")

    def _member(self, deep: int, context: Context) -> Piece | None:
        """`value in table[b, q_idx, :]`, also amid a chain."""
        if not context.tables or self.fuel <= 0:
            return None
        kind: Type = "int" if self.chance(0.85) else "bool"
        value = self.draw(kind, deep - 1, context)
        table = self.ledger.table(kind, row=True)
        before = [self.place(axis, deep, context) for axis in table.shape[:-1]]
        row = Piece(f"{table.name}[{', '.join([*(p.at(0) for p in before), ':'])}]")
        word = "in" if self.chance(0.7) else "not in"
        if kind == "int" and self.chance(0.2):
            return chain(self.whole(0, context), [("<=", value), (word, row)])
        return chain(value, [(word, row)])

    def _read_truth(self, deep: int, context: Context) -> Piece | None:
        return self.table("bool", deep, context)

    def _named_truth(self, deep: int, context: Context) -> Piece | None:
        return self.named("bool", deep, context)

    def _call_truth(self, deep: int, context: Context) -> Piece | None:
        return self.user_function("bool", deep, context)

    # Masks

    def mask(self, deep: int, context: Context) -> Piece:
        """Bounds joined by `and` and `or`, with guests of any kind."""
        if deep <= 0 or self.fuel <= 0:
            return self.atom(context)
        kind = self.weighted({"atom": 3, "and": 4, "or": 5, "guest": 3, "not": 1, "any": 1})
        if kind == "any":
            return self.truth(deep + 1, context)
        if kind == "not":
            op = self.rng.choice(["and", "or", "bitor"])
            pair = infix(op, self.mask(deep - 1, context), self.mask(deep - 1, context))
            return prefix("not", pair)
        if kind == "atom":
            return self.atom(context)
        # A guest that is false more often than not takes little away behind `or`.
        op = self.weighted({"or": 3, "and": 1}) if kind == "guest" else kind
        op = {"and": "bitand", "or": "bitor"}[op] if self.chance(0.15) else op
        left = self.mask(deep - 1, context)
        right = self.truth(deep, context) if kind == "guest" else self.mask(deep - 1, context)
        return self.either_way(op, left, right)

    def atom(self, context: Context) -> Piece:
        """A comparison of the kinds that masks are made of."""
        q, kv = Piece("q_idx"), Piece("kv_idx")
        kind = self.weighted({
            "line": 6, "band": 3, "distance": 2, "first": 2, "same": 2, "modulo": 2, "table": 3,
            "blocks": 2,
        })  # fmt: skip
        if kind == "line":
            right = infix("add", q, self._width(context))
            return infix(self.rng.choice(["le", "lt"]), kv, right)
        if kind == "band":
            low = whole(self.rng.choice([0, 0, -3, -9]), self.rng)
            symbols = [self.rng.choice(["<", "<="]) for _ in range(2)]
            rest = [(symbols[0], infix("sub", q, kv)), (symbols[1], self._width(context))]
            return chain(low, rest)
        if kind == "distance":
            return infix("le", called("abs", infix("sub", q, kv)), self._width(context))
        if kind == "modulo":
            size = whole(self.rng.choice([2, 3, 4, -3]), self.rng)
            distance = infix("mod", self.rng.choice([infix("sub", q, kv), kv]), size)
            return infix(self.rng.choice(["eq", "ne", "le"]), distance, Piece("0"))
        if kind == "same" and context.tables:
            table = self.ledger.table("int")
            ends = [self.read(table, 1, context), self.read(table, 1, context)]
            return infix(self.rng.choice(["eq", "le", "ge"]), ends[0], ends[1])
        if kind == "table" and context.tables:
            found = self.read(self.ledger.table("int"), 1, context)
            return infix(self.rng.choice(["lt", "le", "ge", "ne"]), kv, found)
        if kind == "blocks":
            size = called("max", self._number(8, 24, context), Piece("1"))
            blocks = [infix("floordiv", x, size) for x in (q, kv)]
            return infix(self.rng.choice(["eq", "ge"]), blocks[0], blocks[1])
        return infix(self.rng.choice(["lt", "ge"]), kv, self._width(context))

    def _width(self, context: Context) -> Piece:
        return self.whole(1, context) if self.chance(0.4) else self._number(5, 40, context)

    def _number(self, low: int, high: int, context: Context) -> Piece:
        if self.chance(0.4) and (found := self.parameter("int", context)) is not None:
            return found
        return whole(self.rng.randint(low, high), self.rng)
