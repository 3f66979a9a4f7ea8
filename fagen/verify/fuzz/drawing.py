"""The ground of a random expression: choices, fuel, leaves of every type and reads of tables."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TypeVar

from fagen.spec.expr import Type
from fagen.spec.names import INDEX_NAMES
from fagen.verify.fuzz.ledger import KEYS, SCORES, Known, Ledger, Table
from fagen.verify.fuzz.pieces import Context, Piece, called, infix, real, whole

Form = Callable[[int, Context], Piece | None]
T = TypeVar("T")

#: Rough sizes of what the index names hold in a fuzzed call.
SIZES = {"score": 6.0, "b": 3.0, "h": 8.0, "kv_h": 8.0, "batch": 3.0, "heads": 8.0, "kv_heads": 8.0}
USUAL_SIZE = 130.0
#: Index names that run along a dimension.
ALONG = {
    "batch": ("b",), "heads": ("h",), "kv_heads": ("kv_h",),
    "q_len": ("q_row", "q_idx", "q_token"), "kv_len": ("kv_idx", "kv_token", "q_idx"),
    "total_q": ("q_token", "q_idx"), "total_kv": ("kv_token", "kv_idx"),
}  # fmt: skip


def indices(place: int) -> dict[str, float]:
    """The index names that a place may mention."""
    return {
        word: SIZES.get(word, USUAL_SIZE)
        for word, entry in INDEX_NAMES.items()
        if word != "score" and (place >= KEYS or "kv" not in entry.axes)
    }


def context(place: int) -> Context:
    return Context(place, indices(place), score=place == SCORES)


class Drawing:
    """`fuel` bounds the operations of a whole draft: without it only leaves are drawn."""

    def __init__(self, rng: Random, ledger: Ledger, fuel: int = 60) -> None:
        self.rng, self.ledger, self.fuel = rng, ledger, fuel

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def weighted(self, options: dict[T, float]) -> T:
        return self.rng.choices(list(options), list(options.values()))[0]

    def either_way(self, op: str, a: Piece, b: Piece, size: float = 1.0) -> Piece:
        """`a op b` or `b op a`."""
        return infix(op, a, b, size) if self.chance(0.5) else infix(op, b, a, size)

    def form(self, options: dict[Form, float], deep: int, context: Context) -> Piece:
        """The first of the forms, in a random order by weight, that the context has room for."""
        self.fuel -= 1
        left = dict(options)
        while left:
            form = self.weighted(left)
            if (piece := form(deep, context)) is not None:
                return piece
            del left[form]
        raise AssertionError("the last form, a constant, is always possible")

    # Any type

    def draw(self, kind: Type, deep: int, context: Context) -> Piece:
        return {"int": self.whole, "float": self.real, "bool": self.truth}[kind](deep, context)

    def whole(self, deep: int, context: Context) -> Piece:
        raise NotImplementedError

    def truth(self, deep: int, context: Context) -> Piece:
        raise NotImplementedError

    def real(self, deep: int, context: Context) -> Piece:
        raise NotImplementedError

    # Leaves

    def local(self, kind: Type, context: Context) -> Piece | None:
        found = [(w, s) for w, (k, s) in context.local.items() if k == kind]
        if not found:
            return None
        word, size = self.rng.choice(found)
        return Piece(word, size=size)

    def index(self, context: Context) -> Piece | None:
        """Positions more often than counts."""
        words = [w for w in context.indices if w not in context.local]
        if not words:
            return None
        usual = {"q_idx": 9.0, "kv_idx": 9.0, "h": 2.0, "b": 2.0}
        word = self.weighted({w: usual.get(w, 0.8) for w in words})
        return Piece(word, size=context.indices[word])

    def free_length(self, context: Context) -> Piece | None:
        """The name of a length that only a table's argument tells: the table is read beside it."""
        tables = [t for t in self.ledger.tables if any(d in self.ledger.lengths for d in t.shape)]
        if not context.tables or not tables or context.place < KEYS:
            return None
        table = self.rng.choice(tables)
        length = next(str(d) for d in table.shape if d in self.ledger.lengths)
        if table.type != "int":
            return None
        return infix("add", self.read(table, 0, context), Piece(length), table.size + 60)

    def parameter(self, kind: Type, context: Context, *, positive: bool = False) -> Piece | None:
        if not context.parameters:
            return None
        static = self.chance(0.12)
        found = self.ledger.parameter(kind, positive=positive, static=static)
        return Piece(found.name, size={"int": 60.0, "float": 6.0, "bool": 1.0}[kind])

    def table(self, kind: Type, deep: int, context: Context) -> Piece | None:
        if not context.tables:
            return None
        return self.read(self.ledger.table(kind), deep, context)

    def read(self, table: Table, deep: int, context: Context) -> Piece:
        if not table.shape:
            return Piece(table.name, size=table.size)
        places = [self.place(axis, deep, context) for axis in table.shape]
        return Piece(f"{table.name}[{', '.join(p.at(0) for p in places)}]", size=table.size)

    def place(self, axis: str | int, deep: int, context: Context) -> Piece:
        """An index for an axis: mostly what runs along it, else anything, out of range or not."""
        along = [
            w for w in ALONG.get(str(axis), ()) if w in context.indices and w not in context.local
        ]
        if along and self.chance(0.75):
            word = along[0] if self.chance(0.6) else self.rng.choice(along)
            return Piece(word)
        if isinstance(axis, int) and self.chance(0.5):
            if axis == 1:
                return Piece("0")
            return infix("mod", self.whole(min(deep, 1) - 1, context), whole(axis, self.rng))
        if self.chance(0.2):
            return whole(self.rng.randint(-1, 5), self.rng)
        return self.whole(deep - 1, context)

    def named(self, kind: Type, deep: int, context: Context) -> Piece | None:
        """A `let` name: one there is, or a new one."""
        if not context.lets or context.local:
            return None
        known = [k for k in self.ledger.lets if k.type == kind and k.place <= context.place]
        if known and (self.chance(0.6) or self.fuel <= 0):
            item = self.rng.choice(known)
            return Piece(item.name, size=item.size)
        if self.fuel <= 0 or len(self.ledger.lets) >= 6:
            return None
        body = self.draw(kind, deep, context)
        name = self.ledger.fresh("let")
        self.ledger.lets.append(Known(name, kind, context.place, body.text, body.size))
        return Piece(name, size=body.size)

    def user_function(self, kind: Type, deep: int, context: Context) -> Piece | None:
        """A call of a user's function: one there is, or a new one."""
        if not context.tables:
            return None
        known = [k for k in self.ledger.functions if k.type == kind and k.place <= context.place]
        if known and (self.chance(0.6) or self.fuel <= 0):
            function = self.rng.choice(known)
        elif self.fuel <= 0 or len(self.ledger.functions) >= 4:
            return None
        else:
            function = self._function(kind, deep, context)
        args = [self.draw(k, deep - 1, context) for _, k in function.arguments]
        return called(function.name, *args, size=function.size)

    def _function(self, kind: Type, deep: int, context: Context) -> Known:
        rng = self.rng
        names: list[str] = []
        words = ["x", "y", "z", "a", "u", "q_idx", "kv_idx", "h"]
        for _ in range(rng.randint(1, 3)):
            names.append(rng.choice([w for w in words if w not in names]))
        kinds: dict[Type, float] = {"int": 4, "float": 2, "bool": 1}
        arguments: list[tuple[str, Type]] = [
            (n, "int" if n in INDEX_NAMES else self.weighted(kinds)) for n in names
        ]
        sizes = {"int": 120.0, "float": 8.0, "bool": 1.0}
        local = {n: (k, sizes[k]) for n, k in arguments}
        inner = Context(context.place, indices(context.place), local, score=context.score)
        body = self.draw(kind, max(1, deep - 1), inner)
        name = self.ledger.fresh("function")
        known = Known(name, kind, context.place, body.text, body.size, tuple(arguments))
        self.ledger.functions.append(known)
        return known

    def count(self, context: Context) -> Piece:
        """The constant length of a loop."""
        if context.parameters and self.chance(0.25):
            return Piece(self.ledger.parameter("int", positive=True, static=True).name)
        return whole(self.weighted({0: 0.5, 1: 0.7, 2: 3.0, 3: 3.0, 5: 1.0}), self.rng)

    def loop(self, kind: str, deep: int, context: Context, of: Type) -> Piece | None:
        """`any(... for i in range(N))`."""
        if self.fuel <= 0:
            return None
        used = self.ledger.taken | context.local.keys()
        counter = next(w for w in ("i", "j", "r", "i2", "i3", "i4") if w not in used)
        body = self.draw(of, deep - 1, context.with_local(counter, "int", 5.0))
        text = f"{kind}({body.at(0)} for {counter} in range({self.count(context).text}))"
        return Piece(text, size=5 * body.size)

    def constant(self, kind: Type) -> Piece:
        if kind == "int":
            return whole(self.rng.choice([0, 1, 2, 3, 5, 7, 16, -1, -4, 31, 64]), self.rng)
        if kind == "float":
            return real(self.rng.choice([0.5, -1.0, 2.0, 0.25, -3.0, 0.1, 1e-3, 1.5]))
        return Piece(self.rng.choice(["True", "False"]))
