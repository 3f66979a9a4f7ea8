"""Random expressions of everything the types allow, drawn from one `random.Random`.

Under hypothesis that object is drawn from the strategy `randoms`, so examples shrink; the mutation
tests use plain seeds.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from fagen.spec.expr import Expr, const, make, name, read
from fagen.spec.variant import SCORE, Parameter, Tensor

Q, KV, B, H = name("q_idx"), name("kv_idx"), name("b"), name("h")
WINDOW, COUNT, FLAG = name("window"), name("count"), name("flag", "bool")
CAP, BETA = name("cap", "float"), name("beta", "float")
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")

PARAMETERS = (
    Parameter("window", "int", 4, 1, 64),
    Parameter("count", "int", 0),
    Parameter("flag", "bool", True),
    Parameter("cap", "float", 5.0, 1e-3),
    Parameter("beta", "float", 0.5),
)

#: Every kind of table: per key, per row, per pair, promised in order or in a range, bool, float.
TENSORS = (
    Tensor("doc", ("batch", "kv_len"), "int32", nondecreasing=True),
    Tensor("rank", ("kv_len",), "int32", nondecreasing=True, value_range=(1, 9)),
    Tensor("order", ("q_len",), "int32", nondecreasing=True),
    Tensor("start", ("batch", "q_len"), "int32"),
    Tensor("key", ("kv_len",), "int32", value_range=(-3, 30)),
    Tensor("prefix", ("batch",), "int32"),
    Tensor("seen", ("batch", "kv_len"), "bool"),
    Tensor("held", ("q_len",), "bool"),
    Tensor("grid", (5, 5), "bool"),
    Tensor("tree", ("q_len", "kv_len"), "uint8"),
    Tensor("bias", ("kv_len",), "float32"),
    Tensor("lift", ("q_len",), "float32"),
    Tensor("slopes", ("heads",), "float32"),
    Tensor("pair", ("q_len", "kv_len"), "float32"),
)
TYPES = {t.name: t.type for t in TENSORS}


def table(tensor: str, *indices: Expr) -> Expr:
    return read(tensor, indices, TYPES[tensor])


@dataclass
class Grammar:
    """Draws expressions; `deep` bounds how far they nest."""

    rng: Random

    def one(self, *options):
        return options[self.rng.randrange(len(options))]

    def number(self, least: int = -9, greatest: int = 9) -> Expr:
        return const(self.rng.randint(least, greatest))

    def divisor(self) -> Expr:
        """Never zero, and of either sign."""
        return self.one(
            const(self.rng.randint(2, 9)),
            const(self.rng.randint(2, 9)),
            WINDOW,
            make("max", self.one(Q, KV, COUNT), const(1)),
            const(-self.rng.randint(1, 5)),
        )

    def whole_leaf(self) -> Expr:
        return self.one(
            Q, KV, Q, KV, Q, KV, self.number(), WINDOW, COUNT, B, H, name("q_len"), name("kv_len"),
            table("doc", B, KV), table("rank", KV), table("order", Q), table("start", B, Q),
            table("key", KV), table("prefix", B), table("tree", Q, KV),
        )  # fmt: skip

    def whole(self, deep: int) -> Expr:
        """An int expression."""
        if deep <= 0:
            return self.whole_leaf()
        op = self.one(
            "add", "sub", "add", "sub", "neg", "mul", "floordiv", "mod", "min", "max", "clamp",
            "abs", "where", "shl", "shr", "bitand", "bitor", "bitxor", "invert", "int", "read",
            "leaf", "trunc", "square",
        )  # fmt: skip
        if op == "leaf":
            return self.whole_leaf()
        a = self.whole(deep - 1)
        if op in ("neg", "abs", "invert"):
            return make(op, a)
        if op == "mul":
            return make(
                "mul", *self.rng.sample([a, self.one(self.number(), WINDOW, COUNT, H, a)], 2)
            )
        if op == "square":
            return make("mul", a, self.whole(deep - 1))
        if op in ("floordiv", "mod"):
            return make(op, a, self.divisor())
        if op in ("shl", "shr"):
            return make(op, a, self.one(self.number(0, 4), self.number(0, 4), H))
        if op == "bitand":
            return make(op, *self.rng.sample([a, self.one(self.number(0, 15), self.whole(0))], 2))
        if op == "clamp":
            return make(op, a, self.whole(deep - 2), self.whole(deep - 2))
        if op == "where":
            return make(op, self.truth(deep - 1), a, self.whole(deep - 1))
        if op == "int":
            return make("int", self.truth(deep - 1))
        if op == "trunc":
            return make("int", self.real(deep - 2))
        if op == "read":
            return self.lookup(a)
        return make(op, a, self.whole(deep - 1))

    def lookup(self, index: Expr) -> Expr:
        """A table read at a computed place, often inside or just outside of it."""
        return self.one(
            table("doc", B, index), table("rank", index), table("order", index),
            table("start", B, index), table("key", index), table("doc", B, table("key", index)),
            table("rank", make("floordiv", index, const(2))), table("tree", index, KV),
            table("doc", make("mod", index, const(2)), KV),
        )  # fmt: skip

    def comparison(self, deep: int) -> Expr:
        return make(self.one(*COMPARISONS), self.whole(deep), self.whole(deep))

    def truth(self, deep: int) -> Expr:
        """A bool expression."""
        if deep <= 0:
            return self.one(
                self.comparison(0), self.comparison(0), FLAG, table("seen", B, KV),
                table("held", Q), table("grid", make("floordiv", Q, const(8)), H),
            )  # fmt: skip
        op = self.one(
            "compare", "compare", "compare", "linear", "linear", "and", "or", "not", "bitand",
            "bitor", "bitxor", "invert", "where", "eq", "ne", "float", "grid",
        )  # fmt: skip
        if op == "compare":
            return self.comparison(deep - 1)
        if op == "linear":
            return self.atom()
        if op == "float":
            return make(self.one(*COMPARISONS), self.real(deep - 1), self.real(deep - 1))
        if op == "grid":
            return table("grid", *(make("floordiv", i, const(8)) for i in (Q, KV)))
        if op in ("not", "invert"):
            return make(op, self.truth(deep - 1))
        if op == "where":
            return make(op, *(self.truth(deep - 1) for _ in range(3)))
        return make(op, self.truth(deep - 1), self.truth(deep - 1))

    def real_leaf(self) -> Expr:
        return self.one(
            make("float", Q), make("float", KV), make("float", make("sub", Q, KV)), CAP, BETA,
            make("float", make("add", make("sub", KV, Q), self.number())),
            const(self.rng.choice([0.5, -1.0, 2.0, 0.25, -3.0])), table("bias", KV),
            table("lift", Q), table("slopes", H), table("pair", Q, KV),
        )  # fmt: skip

    def real(self, deep: int, leaf: Expr | None = None) -> Expr:
        """A float expression; `leaf` (the score) stands at some of its ends."""
        if deep <= 0:
            return leaf if leaf is not None and self.rng.random() < 0.5 else self.real_leaf()
        a = self.real(deep - 1, leaf)
        op = self.one(
            "add", "sub", "mul", "add", "sub", "mul", "neg", "div", "min", "max", "clamp", "abs",
            "where", "tanh", "sigmoid", "exp2", "square", "float", "root",
        )  # fmt: skip
        if op in ("neg", "abs", "tanh", "sigmoid"):
            return make(op, a)
        if op == "exp2":
            return make("exp2", make("min", a, const(3.0)))
        if op == "root":
            return make("sqrt", make("add", make("abs", a), const(1.0)))
        if op == "square":
            return make("pow", a, const(2.0))
        if op == "div":
            below = make("add", const(1.0), make("abs", self.real(deep - 2, leaf)))
            return make("div", a, self.one(CAP, const(4.0), below))
        if op == "clamp":
            return make("clamp", a, const(-2.0), self.one(CAP, const(1.0)))
        if op == "where":
            return make("where", self.truth(1), a, self.real(deep - 1, leaf))
        if op == "float":
            return make("add", make("float", self.whole(1)), a)
        return make(op, a, self.real(deep - 1, leaf))

    def score(self, deep: int = 3) -> Expr:
        return self.real(deep, SCORE)

    # Masks whose conjuncts mostly bound one index

    def line(self) -> Expr:
        """A sum of small multiples of positions, row and key values."""
        total = self.one(KV, Q, self.number())
        for _ in range(self.rng.randint(0, 3)):
            part = self.one(
                Q, KV, Q, KV, WINDOW, COUNT, self.number(), table("prefix", B),
                table("start", B, Q), table("order", Q), table("key", KV),
                make("mul", self.number(-3, 3), self.one(Q, KV)),
                make("mod", Q, const(5)),
            )  # fmt: skip
            total = make(self.one("add", "sub"), total, part)
        return total

    def atom(self) -> Expr:
        op = self.one("lt", "le", "gt", "ge", "lt", "le", "gt", "ge", "eq", "ne")
        left, right = self.line(), self.line()
        shape = self.one("plain", "plain", "plain", "blocks", "abs", "extreme", "not")
        if shape == "blocks":
            size = self.rng.randint(2, 9)
            divisor = self.one(const(size), const(size), const(-size), WINDOW, WINDOW)
            left = make("floordiv", left, divisor)
            right = self.one(right, make("floordiv", right, divisor))
            if self.rng.random() < 0.3:
                left = make("mul", self.number(-3, 3), left)
        if shape == "abs":
            left = make("abs", left)
        if shape == "extreme":
            left = make(self.one("min", "max"), left, self.line())
        if self.rng.random() < 0.5:
            left, right = right, left
        result = make(op, left, right)
        return make("not", result) if shape == "not" else result

    def bounded(self, deep: int) -> Expr:
        """Conjunctions and disjunctions of atoms, with a guest of any kind now and then."""
        if deep <= 0:
            return self.truth(1) if self.rng.random() < 0.1 else self.atom()
        left, right = self.bounded(deep - 1), self.bounded(deep - self.rng.randint(1, 2))
        shape = self.one(*["two"] * 8, "not", "again")
        if shape == "not":
            return make("not", make(self.one("and", "or", "bitor"), left, right))
        if shape == "again":
            both = make("and", left, right)
            return make("or", *self.rng.sample([both, self.one(left, right)], 2))
        return make(self.one("and", "and", "or", "bitand", "bitor"), left, right)

    def mask(self) -> Expr:
        if self.rng.random() < 0.6:
            return self.bounded(self.rng.randint(0, 3))
        return self.truth(self.rng.randint(1, 4))
