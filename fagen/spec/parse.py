"""Expression text -> Python syntax tree -> Expr, every error at its place in the file."""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass

from fagen.spec.errors import Diagnostic
from fagen.spec.expand import Lowering
from fagen.spec.expr import Expr, make
from fagen.spec.lower import Lowered, TooLarge, a
from fagen.spec.scope import Rule, Scope
from fagen.spec.source import Text

#: Characters of one expression.
LONGEST = 20_000

_TYPOGRAPHIC = {
    "\N{LESS-THAN OR EQUAL TO}": "<=",
    "\N{GREATER-THAN OR EQUAL TO}": ">=",
    "\N{NOT EQUAL TO}": "!=",
    "\N{MINUS SIGN}": "-",
    "\N{EN DASH}": "-",
    "\N{MULTIPLICATION SIGN}": "*",
    "\N{MIDDLE DOT}": "*",
    "\N{DIVISION SIGN}": "/",
    "\N{INFINITY}": "inf",
    "\N{LOGICAL AND}": "and",
    "\N{LOGICAL OR}": "or",
    "\N{NOT SIGN}": "not",
    "\N{SUPERSCRIPT TWO}": "**2",
}
_FOREIGN = (
    ("&&", "write `and`"),
    ("||", "write `or`"),
    ("->", "an expression has no arrows"),
    ("++", "an expression changes nothing"),
    ("=>", "write `>=`"),
    ("=<", "write `<=`"),
    ("?", "write `a if condition else b`"),
    (";", "one expression, no statements"),
    ("$", "names have no `$`"),
)


@dataclass(frozen=True)
class Syntax:
    """A parsed expression: the tree's columns count in `text.value`, shifted by `shift`."""

    tree: ast.expr
    text: Text


def syntax(text: Text, place: str) -> Syntax | Diagnostic:
    """The syntax tree of an expression, or what is wrong with it. `place` is named in errors."""
    if len(text.value) > LONGEST:
        return text.error(f"{place} is longer than {LONGEST} characters", 0, 1)
    code = _without_comments(text.value)
    if not code.strip():
        return text.whole(f"{place} is empty", "remove the key, or write an expression")
    for at, character in enumerate(code):
        if not (character.isascii() and (character.isprintable() or character in "\n\t")):
            shown = character if character.isprintable() else f"U+{ord(character):04X}"
            better = _TYPOGRAPHIC.get(character)
            hint = f"write `{better}`" if better else ""
            return text.error(f"`{shown}` is not part of the language", at, at + 1, hint)
    if (found := _unbalanced(code)) is not None:
        at, message = found
        return text.error(f"{message} in {place}", at, at + 1)
    flat = re.sub(r"[\n\t]", " ", code)
    shift = len(flat) - len(flat.lstrip())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(flat.strip(), mode="eval").body
    except (SyntaxError, ValueError, OverflowError, MemoryError, RecursionError) as error:
        return _syntax_error(text, flat, shift, place, error)
    for node in ast.walk(tree):
        if isinstance(node, ast.expr):
            node.col_offset += shift
            node.end_col_offset = (node.end_col_offset or 0) + shift
    return Syntax(tree, text)


def parse(
    text: Text, place: str, scope: Scope, rule: Rule, problems: list[Diagnostic]
) -> Lowered | None:
    """The expression that a text means in a scope, or None after adding to `problems`."""
    parsed = syntax(text, place)
    if isinstance(parsed, Diagnostic):
        problems.append(parsed)
        return None
    try:
        return Lowering.run(parsed.tree, text, place, scope, rule, problems)
    except TooLarge as error:
        problems.append(text.whole(f"{place} {error}", error.hint))
    except RecursionError:
        problems.append(text.whole(f"{place} is nested too deeply", "name its parts under `let`"))
    return None


def as_type(
    node: Expr | None, kind: str, text: Text, place: str, problems: list[Diagnostic]
) -> Expr | None:
    """The expression converted to a float where that is meant, or None after an error."""
    if node is None or node.type == kind:
        return node
    if kind == "float" and node.type == "int":
        return make("float", node)
    hint = {
        "bool": "compare it with something, such as `x > 0`",
        "float": "write `1.0 if condition else 0.0`",
        "int": "convert it with `int(...)`",
    }[kind]
    problems.append(text.whole(f"{place} is {a(node.type)}; it must be {a(kind)}", hint))
    return None


def _without_comments(value: str) -> str:
    """Comments (they occur in block scalars alone) blanked, so that columns stay."""
    return re.sub(r"#[^\n]*", lambda m: " " * len(m[0]), value)


_CLOSES = {")": "(", "]": "[", "}": "{"}


def _unbalanced(code: str) -> tuple[int, str] | None:
    opened: list[tuple[int, str]] = []
    for at, character in enumerate(code):
        if character in "([{":
            opened.append((at, character))
        elif character in ")]}" and (not opened or opened.pop()[1] != _CLOSES[character]):
            return at, f"`{character}` closes nothing"
    return (opened[-1][0], f"`{opened[-1][1]}` is never closed") if opened else None


def _syntax_error(
    text: Text, flat: str, shift: int, place: str, error: BaseException
) -> Diagnostic:
    message = f"syntax error in {place}"
    if isinstance(error, (MemoryError, RecursionError)) or "nested" in str(error):
        return text.whole(f"{place} is nested too deeply", "name its parts under `let`")
    for token, hint in _FOREIGN:
        if (at := flat.find(token)) >= 0:
            return text.error(message, at, at + len(token), hint)
    if found := re.search(r"(?<![<>=!:])=(?!=)", flat):
        return text.error(message, found.start(), found.end(), "compare with `==`")
    if found := re.search(r"!(?!=)", flat):
        return text.error(message, found.start(), found.end(), "write `not`")
    if found := re.search(r"([-+*/%<>&|^~=]|\b(and|or|not|in|if|else))\s*$", flat):
        hint = f"something is missing behind `{found[1]}`"
        return text.error(message, found.start(1), found.end(1), hint)
    offset = getattr(error, "offset", None) or 1
    at = min(shift + offset - 1, len(flat.rstrip()) - 1)
    word = re.compile(r"\w+|[^\w\s]").match(flat, at)
    return text.error(message, at, word.end() if word else at + 1)
