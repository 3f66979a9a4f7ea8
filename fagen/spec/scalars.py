"""YAML scalars: what a plain one stands for, and where in the file each of its characters is."""

from __future__ import annotations

import re

_NULL = {"", "~", "null", "Null", "NULL"}
_BOOL = {
    word: value
    for value, words in ((True, "true yes on"), (False, "false no off"))
    for lower in words.split()
    for word in (lower, lower.capitalize(), lower.upper())
}
_INT = re.compile(r"[-+]?(0|[1-9][0-9_]*|0x[0-9a-fA-F_]+|0o[0-7_]+|0b[01_]+)")
_FLOAT = re.compile(r"[-+]?([0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)([eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"([-+]?)\.?(inf|Inf|INF)|\.(nan|NaN|NAN)")


def plain_value(text: str) -> object:
    """The value of an unquoted scalar: None, bool, int, float or the text itself.

    Numbers are those of Python, so `1e-3`, which YAML 1.1 calls text, is a number, and `010`,
    which YAML 1.1 reads as 8, is not.
    """
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    try:
        if _INT.fullmatch(text):
            return int(text, 0)
        if _FLOAT.fullmatch(text) and not re.match(r"[-+]?0[0-9]", text):
            return float(text)
    except ValueError:  # stray underscores, or more digits than Python converts
        return text
    if special := _SPECIAL.fullmatch(text):
        return float((special[1] or "") + (special[2] or "nan"))
    return text


_ESCAPED_DIGITS = {"x": 2, "u": 4, "U": 8}
_ESCAPED_SPACE = set("0abtnvfre N_LP\t\n\r")


def aligned(text: str, start: int, end: int, value: str, style: str | None) -> tuple[int, ...]:
    """The index in `text` of every character of `value`, a scalar written in text[start:end].

    Folding only changes white space, so the other characters occur in the file in their order.
    """
    at = start
    if style in ("|", ">"):
        at = text.find("\n", start) + 1 or end  # behind the header, which may hold a comment
    elif style in ("'", '"'):
        at = start + 1
    places = []
    for character in value:
        if character.isspace():
            places.append(min(at, end - 1))
            if at < end and text[at] == character:
                at += 1
            continue
        at = _next_visible(text, at, end, style)
        places.append(min(at, end - 1))
        at += _width(text, at, style)
    return tuple(places)


def _width(text: str, at: int, style: str | None) -> int:
    """Characters of the file that stand for the one at this place."""
    if style == "'" and text[at : at + 2] == "''":
        return 2
    if style == '"' and text[at : at + 1] == "\\":
        return 2 + _ESCAPED_DIGITS.get(text[at + 1 : at + 2], 0)
    return 1


def _next_visible(text: str, at: int, end: int, style: str | None) -> int:
    while at < end:
        if text[at].isspace():
            at += 1
        elif style == '"' and text[at] == "\\" and text[at + 1 : at + 2] in _ESCAPED_SPACE:
            at += 2
        else:
            break
    return at
