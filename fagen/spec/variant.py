"""`Variant`: what a YAML file says, checked and typed. The first value of the pipeline."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Literal

from fagen.spec.errors import Diagnostic
from fagen.spec.expr import TRUE, Expr, Type, make, name
from fagen.spec.names import FLOAT_LIMIT, INDEX_LIMIT
from fagen.spec.text import to_text

SCORE = name("score", "float")
DEFAULT_SCALE = make("rsqrt", name("head_dim"))
Pass = Literal["forward", "backward", "decode"]


@dataclass(frozen=True)
class Parameter:
    """A scalar of the call. `minimum` and `maximum` are inclusive; None means undeclared."""

    name: str
    type: Type
    default: int | float | bool
    minimum: int | float | None = None
    maximum: int | float | None = None
    description: str = ""

    @property
    def bounds(self) -> tuple[int | float, int | float]:
        """The least and the greatest value that a call may pass, of the parameter's type."""
        if self.type == "bool":
            return False, True
        kind, limit = (int, INDEX_LIMIT) if self.type == "int" else (float, FLOAT_LIMIT)
        low = -limit if self.minimum is None else max(self.minimum, -limit)
        high = limit if self.maximum is None else min(self.maximum, limit)
        return kind(low), kind(high)


@dataclass(frozen=True)
class Tensor:
    """A table of the call.

    `shape` holds dimension names, parameter names, free names and integers. `dtype` is a torch
    dtype's name. `default` is an expression over the index names of the shape (`h` runs along
    `heads`); without one the caller must pass the tensor. `value_range` is [lo, hi).
    """

    name: str
    shape: tuple[str | int, ...]
    dtype: str
    default: Expr | None = None
    nondecreasing: bool = False
    value_range: tuple[int, int] | None = None
    description: str = ""

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        bits = "".join(c for c in self.dtype if c.isdigit())
        return int(bits) // 8 if bits else 1

    @property
    def type(self) -> Type:
        if self.dtype == "bool":
            return "bool"
        return "int" if self.dtype.startswith(("int", "uint")) else "float"


@dataclass(frozen=True)
class Variant:
    """One attention variant. Static parameters are already folded into the expressions.

    `notes` say what of the file at `path` has no effect yet.
    """

    name: str
    description: str = ""
    parameters: tuple[Parameter, ...] = ()
    tensors: tuple[Tensor, ...] = ()
    mask: Expr = TRUE
    score: Expr = SCORE
    scale: Expr = DEFAULT_SCALE
    sink: Expr | None = None
    position: Literal["end", "start"] = "end"
    accuracy: Literal["fast", "exact"] = "fast"
    partition: Literal["auto", "fa2", "fa3"] = "auto"
    passes: tuple[Pass, ...] = ("forward", "backward", "decode")
    path: str = field(default="", compare=False)
    notes: tuple[Diagnostic, ...] = field(default=(), compare=False)

    def parameter(self, name: str) -> Parameter:
        return next(p for p in self.parameters if p.name == name)

    def tensor(self, name: str) -> Tensor:
        return next(t for t in self.tensors if t.name == name)

    def canonical(self) -> str:
        """A text that is equal exactly for variants that generate the same module."""
        lines = [
            f"name {self.name}",
            f"description {self.description}",
            *(repr(p) for p in self.parameters),
            *(
                f"{t.name} {t.shape} {t.dtype} {to_text(t.default) if t.default else None} "
                f"{t.nondecreasing} {t.value_range} {t.description}"
                for t in self.tensors
            ),
            f"mask {to_text(self.mask)}",
            f"score {to_text(self.score)}",
            f"scale {to_text(self.scale)}",
            f"sink {to_text(self.sink) if self.sink else None}",
            f"{self.position} {self.accuracy} {self.partition} {self.passes}",
        ]
        return "\n".join(lines)

    @property
    def hash(self) -> str:
        """Twelve hex digits of the SHA-256 of `canonical()`."""
        return hashlib.sha256(self.canonical().encode()).hexdigest()[:12]
