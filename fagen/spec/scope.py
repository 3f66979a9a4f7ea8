"""What the names of one variant mean, and which of them a given place may use."""

from __future__ import annotations

import ast
import keyword
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from fagen.spec.bounds import Interval
from fagen.spec.expr import Expr, name, post_order
from fagen.spec.names import (
    INDEX_NAMES,
    LONGEST_NAME,
    RESERVED,
    RESERVED_BY_LAUNCH,
    RESERVED_FORMS,
    RESERVED_IN_KERNELS,
)
from fagen.spec.semantics import FUNCTIONS
from fagen.spec.source import Text
from fagen.spec.variant import Tensor

UNROLLED = ("any", "all", "sum")
#: Words with a meaning of their own in expressions.
WORDS = {*INDEX_NAMES, *FUNCTIONS, *UNROLLED, "range", "inf", "inherited", "True", "False"}
#: Modules that a generated file, or what it imports, must find under these names.
IMPORTED = {"fagen", "numpy", "torch", "triton"}
#: Words that YAML reads as something else than text.
YAML_WORDS = {"true", "false", "yes", "no", "on", "off", "null"}


@dataclass(frozen=True)
class Function:
    """A user's function: lowered anew for the arguments of each call."""

    name: str
    args: tuple[str, ...]
    body: ast.expr
    text: Text


@dataclass
class Scope:
    """Names in force. None marks a name whose definition is in error: its uses stay silent."""

    values: dict[str, Expr | None] = field(default_factory=dict)
    tensors: dict[str, Tensor | None] = field(default_factory=dict)
    functions: dict[str, Function | None] = field(default_factory=dict)
    later: set[str] = field(default_factory=set)
    bounds: dict[str, Interval] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    called: set[str] = field(default_factory=set)
    inherited: Expr | None = None

    def __post_init__(self) -> None:
        for index, entry in INDEX_NAMES.items():
            self.values[index] = name(index, entry.type)  # type: ignore[arg-type]

    def known(self) -> set[str]:
        """Every name an expression might mean."""
        return {*self.values, *self.tensors, "inf"}

    def claim(self, word: str, kind: str, *, printed: bool = True) -> tuple[str, str] | None:
        """Takes a name for a parameter, tensor, ...; else says (what is wrong, hint).

        `printed` is False for what the generated code does not mention, such as a constant.
        """
        if problem := misnamed(word, kind if printed else "a constant"):
            return problem
        if word in self.kinds:
            return f"`{word}` is already {self.kinds[word]}", "choose another name"
        self.kinds[word] = kind
        return None


def misnamed(word: str, kind: str) -> tuple[str, str] | None:
    """Why a word cannot name something of this kind ("a parameter", ...), with a hint; or None."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", word):
        return (
            f"`{word[:LONGEST_NAME]}` cannot be the name of {kind}",
            "use letters, digits and underscores",
        )
    if len(word) > LONGEST_NAME:
        shown, most = f"{word[:20]}...", f"use at most {LONGEST_NAME} characters"
        return f"`{shown}` cannot be the name of {kind}: it is {len(word)} characters long", most
    if keyword.iskeyword(word) or word in YAML_WORDS:
        return f"`{word}` cannot be the name of {kind}: it is a reserved word", ""
    if word in WORDS:
        return f"`{word}` cannot be the name of {kind}: it has a meaning of its own", ""
    if is_reserved(word, kind):
        return f"`{word}` cannot be the name of {kind}: the generated code uses it already", (
            "choose another name"
        )
    if kind == "a variant" and (word in sys.stdlib_module_names or word in IMPORTED):
        return f"`{word}` cannot be the name of {kind}: `import {word}` means something else", (
            "choose another name; it becomes the module's"
        )
    return None


def is_reserved(word: str, kind: str) -> bool:
    """Whether the generated code has a word for purposes of its own where this kind would stand."""
    if kind not in ("a parameter", "a tensor", "a length"):
        return False
    in_kernels = kind != "a tensor" and word in RESERVED_IN_KERNELS | RESERVED_BY_LAUNCH
    return word in RESERVED or in_kernels or any(re.fullmatch(f, word) for f in RESERVED_FORMS)


@dataclass(frozen=True)
class Rule:
    """What may occur in one place. `refuses` gives the reason against a name or read, or ""."""

    place: str
    refuses: Callable[[Expr], str] = lambda leaf: ""

    def check(self, node: Expr) -> tuple[Expr, str] | None:
        """The first leaf of the expression that the place refuses, and the reason."""
        for leaf in post_order(node):
            if leaf.op in ("name", "read") and (reason := self.refuses(leaf)):
                return leaf, reason
        return None


def mask_rule() -> Rule:
    """A mask decides which keys count before any score exists."""

    def refuses(leaf: Expr) -> str:
        return "a mask says which keys count, whatever they score" if _is(leaf, "score") else ""

    return Rule("`mask`", refuses)


def scale_rule(parameters: set[str]) -> Rule:
    allowed = {"head_dim", *parameters}

    def refuses(leaf: Expr) -> str:
        if leaf.op == "name" and leaf.value in allowed:
            return ""
        return "one factor holds for the whole call: it depends on `head_dim` and parameters alone"

    return Rule("`scale`", refuses)


def sink_rule() -> Rule:
    def refuses(leaf: Expr) -> str:
        axes = _axes(leaf)
        return "a sink belongs to a row, not to a key: it depends on b, h and q" * ("kv" in axes)

    return Rule("`softmax.sink`", refuses)


def default_rule(tensor: str, indices: dict[str, str]) -> Rule:
    """`indices` maps the index names that run along the tensor's shape to their lengths."""

    def refuses(leaf: Expr) -> str:
        if leaf.op == "name" and leaf.type == "int":
            word = str(leaf.value)
            if word in indices or (word in INDEX_NAMES and not INDEX_NAMES[word].axes):
                return ""
        along = " and ".join(f"`{i}` (along {d})" for i, d in indices.items())
        return f"a default is made of {along or 'constants'}{' and' if along else ','} lengths"

    return Rule(f"the default of `{tensor}`", refuses)


def _is(leaf: Expr, word: str) -> bool:
    return leaf.op == "name" and leaf.value == word


def _axes(leaf: Expr) -> frozenset[str]:
    known = leaf.op == "name" and leaf.value in INDEX_NAMES
    return INDEX_NAMES[str(leaf.value)].axes if known else frozenset()
