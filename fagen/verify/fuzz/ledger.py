"""Parameters, tensors, functions and `let` names of a draft, declared when an expression wants one.

Nothing is declared without a use, since the language refuses what is never used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from fagen.spec.document import DTYPES
from fagen.spec.expr import Type
from fagen.spec.names import DIMENSIONS

#: What an expression may mention: rows (a sink), keys too (a mask), the score too. Each includes
#: the ones before it.
ROWS, KEYS, SCORES = 0, 1, 2

#: Some are ordinary, some are words that generated code likes to use for its own variables.
NAMES: dict[str, tuple[str, ...]] = {
    "int": ("window", "count", "left", "n", "both", "quotient", "above", "at_least", "i32"),
    "float": ("cap", "beta", "slope", "x1", "chosen", "spread", "post", "shifted"),
    "bool": ("flag", "wide", "strict", "below", "same"),
    "length": ("slots", "pages", "n_rows"),
    "table": (
        "doc", "bias", "prefix", "slopes", "order", "seen", "key", "tree", "chosen_2", "table",
        "d", "doc_row", "member_of", "part",
    ),
    "let": ("distance", "near", "far", "term", "bound", "gap", "row_part", "both_2", "value"),
    "function": ("past", "f", "bucket", "soft", "within", "pick", "g"),
    "argument": ("x", "y", "z", "q_idx", "kv_idx", "h", "a", "u"),
}  # fmt: skip

LONG = {"q_len", "kv_len", "total_q", "total_kv", "head_dim"}
#: Sizes of axes given as integers.
SMALL = (1, 2, 3, 4, 5, 8)


@dataclass
class Declared:
    """A parameter: what the file says of it, and what values a call may give."""

    name: str
    type: Type
    entry: dict[str, Any]
    positive: bool

    @property
    def static(self) -> bool:
        return bool(self.entry.get("static"))


@dataclass
class Table:
    """A tensor: `least` and `size` bound its values roughly."""

    name: str
    type: Type
    shape: list[str | int]
    entry: dict[str, Any]
    size: float


@dataclass
class Known:
    """A `let` name or a function: its type, and the least place that may mention it."""

    name: str
    type: Type
    place: int
    text: str
    size: float
    arguments: tuple[tuple[str, Type], ...] = ()


@dataclass
class Ledger:
    """Everything declared so far. `entries` renders sections for a file."""

    rng: Random
    parameters: list[Declared] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    lets: list[Known] = field(default_factory=list)
    functions: list[Known] = field(default_factory=list)
    lengths: list[str] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)

    def fresh(self, kind: str) -> str:
        word = self.rng.choice(NAMES[kind])
        number = 2
        while word in self.taken:
            word = f"{self.rng.choice(NAMES[kind])}{number}"
            number += 1
        self.taken.add(word)
        return word

    # Parameters

    def parameter(self, kind: Type, *, positive: bool = False, static: bool = False) -> Declared:
        """One of this type: declared already, or new. `positive` for divisors and lengths."""
        found = [
            p
            for p in self.parameters
            if p.type == kind and p.static == static and (p.positive or not positive)
        ]
        if found and self.rng.random() < 0.6:
            return self.rng.choice(found)
        entry = self._parameter(kind, positive)
        if static:
            entry["static"] = True
            if kind == "int":  # it may be the length of a loop
                entry = {"type": "int", "default": self.rng.randint(1, 4), "static": True}
        if self.rng.random() < 0.15:
            entry["description"] = "A number: what it does, says the mask."
        declared = Declared(self.fresh(kind), kind, entry, positive)
        self.parameters.append(declared)
        return declared

    def _parameter(self, kind: Type, positive: bool) -> dict[str, Any]:
        rng = self.rng
        if kind == "bool":
            return {"type": "bool", "default": rng.random() < 0.5}
        if kind == "int":
            entry: dict[str, Any] = {"type": "int", "default": rng.randint(1, 24)}
            if positive:
                entry["min"] = rng.choice([1, 1, 1, entry["default"]])
            elif rng.random() < 0.4:
                entry["default"] = rng.randint(-9, 24)
                entry["min"] = entry["default"] - rng.randint(0, 9)
            if rng.random() < 0.4:
                entry["max"] = entry["default"] + rng.choice([0, 1, 17, 40])
            return entry
        entry = {"type": "float", "default": rng.choice([0.25, 0.5, 1.0, 2.0, 5.0, 0.1, 3.7])}
        if positive:
            entry["min"] = rng.choice([0.01, 0.05, 0.1])
        elif rng.random() < 0.5:
            entry["default"] *= rng.choice([1, -1])
        if rng.random() < 0.3:
            entry["max"] = 8.0
        return entry

    # Tensors

    def table(self, kind: Type, *, row: bool = False) -> Table:
        """A table of this type; `row`: its last axis is an integer, for `in`."""
        found = [
            t
            for t in self.tables
            if t.type == kind and (not row or (t.shape and isinstance(t.shape[-1], int)))
        ]
        if found and (self.rng.random() < 0.5 or len(self.tables) >= 5):
            return self.rng.choice(found)
        rng = self.rng
        dtype = rng.choice([d for d in DTYPES if type_of(d) == kind])
        shape = self._shape(row)
        entry: dict[str, Any] = {"shape": shape, "dtype": dtype}
        size = {"int": 60.0, "float": 4.0, "bool": 1.0}[kind]
        if kind == "int":
            size = self._promises(entry, shape)
        if rng.random() < 0.1:
            entry["description"] = "Values by index."
        if rng.random() < 0.05:
            entry["grad"] = False
        table = Table(self.fresh("table"), kind, shape, entry, size)
        self.tables.append(table)
        return table

    def _shape(self, row: bool) -> list[str | int]:
        rng = self.rng
        rank = rng.choice([0, 1, 1, 1, 1, 2, 2, 2, 3, 4, 4])
        shape: list[str | int] = [self._axis() for _ in range(rank)]
        # Four axes of a sequence's length each would take megabytes.
        shape = shape[:2] if sum(d in LONG for d in shape) > 2 else shape
        return [*shape[:3], rng.choice(SMALL)] if row else shape

    def _axis(self) -> str | int:
        rng = self.rng
        kind = rng.random()
        if kind < 0.7:
            return rng.choice(DIMENSIONS)
        if kind < 0.85:
            return rng.choice(SMALL)
        if kind < 0.93:
            if not self.lengths or rng.random() < 0.3:
                self.lengths.append(self.fresh("length"))
            return rng.choice(self.lengths)
        return self.parameter("int", positive=True).name

    def _promises(self, entry: dict[str, Any], shape: list[str | int]) -> float:
        rng = self.rng
        if shape and rng.random() < 0.25:
            entry["nondecreasing"] = True
        if rng.random() < 0.4:
            low = 0 if entry["dtype"] == "uint8" else rng.choice([-20, -3, -1, 0, 0, 1])
            entry["range"] = [low, low + rng.choice([1, 2, 4, 17, 40])]
        return 120.0

    # What a file holds

    def entries(self, before: Ledger | None = None) -> dict[str, Any]:
        """The sections of a file; `before`: those of its parent are left out."""
        sections: dict[str, Any] = {}

        def add(section: str, key: str, value: Any) -> None:
            sections.setdefault(section, {})[key] = value

        known = before.taken if before else set()
        for parameter in self.parameters:
            if parameter.name not in known:
                add("parameters", parameter.name, parameter.entry)
        for table in self.tables:
            if table.name not in known:
                add("tensors", table.name, table.entry)
        for item in self.functions:
            if item.name not in known:
                names = ", ".join(name for name, _ in item.arguments)
                add("functions", f"{item.name}({names})", item.text)
        for item in self.lets:
            if item.name not in known:
                add("let", item.name, item.text)
        return sections

    def snapshot(self) -> Ledger:
        """What is declared now; later declarations do not enter it."""
        return Ledger(self.rng, taken=set(self.taken))


def type_of(dtype: str) -> Type:
    if dtype == "bool":
        return "bool"
    return "int" if "int" in dtype else "float"
