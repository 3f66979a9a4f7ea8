"""Errors a person can use: what is wrong, where, the line with a caret, and what to do about it."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

#: Longer source lines are cropped around the caret.
WIDTH = 100


@dataclass(frozen=True)
class Diagnostic:
    """One error, or note. `line` and `column` count from 1; `line` 0 means the file as a whole.

    `length` is the number of characters the caret underlines in `source_line`.
    """

    message: str
    path: str = ""
    line: int = 0
    column: int = 0
    length: int = 1
    source_line: str = ""
    hint: str = ""
    kind: Literal["error", "note"] = "error"

    def __str__(self) -> str:
        lines = [f"{self.kind}: {_printable(self.message)}"]
        if self.line:
            shown, caret = _caret(self.source_line, self.column - 1, self.length)
            lines += [f"  {_printable(self.path)}:{self.line}:{self.column}"]
            lines += [f"    {shown}".rstrip(), f"    {caret}"]
        elif self.path:
            lines.append(f"  {_printable(self.path)}")
        if self.hint:
            lines.append(f"hint: {_printable(self.hint)}")
        return "\n".join(lines)


class SpecErrors(Exception):
    """Every error found in a variant file, in the order of the file."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__(self.diagnostics)

    def __str__(self) -> str:
        return "\n\n".join(str(d) for d in self.diagnostics)


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """A hint naming the closest of `known`, or an empty string."""
    candidates = sorted(set(known))
    folded = {c.lower(): c for c in reversed(candidates)}
    close = difflib.get_close_matches(word.lower()[:100], folded, n=1, cutoff=cutoff)
    return f"did you mean `{folded[close[0]]}`?" if close else ""


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " if c.isspace() else "\N{MIDDLE DOT}" for c in text)


def _columns(text: str) -> int:
    """Terminal columns: East Asian wide characters take two, combining marks none."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def _caret(line: str, start: int, length: int) -> tuple[str, str]:
    text = _printable(line)
    start = max(0, min(start, len(text)))
    end = max(start + 1, min(start + length, len(text)))
    if len(text) > WIDTH:
        first = max(0, min(start - WIDTH // 2, len(text) - WIDTH))
        last = first + WIDTH
        before, after = "..." if first else "", "..." if last < len(text) else ""
        text = before + text[first:last] + after
        start += len(before) - first
        end = min(end, last) + len(before) - first
    width = max(1, _columns(text[start:end]))
    return text, " " * _columns(text[:start]) + "^" * width
