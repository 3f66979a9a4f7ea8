"""Long statements laid out as ruff would, so that what is rendered is formatted already."""

from __future__ import annotations


def braced(opening: str, items: list[str], closing: str, width: int = 92) -> list[str]:
    """On one line of at most `width`, or an item a line."""
    line = f"{opening}{', '.join(items)}{closing}"
    if len(line) <= width:
        return [line]
    return [opening, *(f"    {item}," for item in items), closing]


def unpacked(names: list[str], value: str, width: int = 92) -> list[str]:
    """`a, b = value`, with parentheses where it is long."""
    line = f"{', '.join(names)} = {value}"
    return [line] if len(line) <= width else braced("(", names, f") = {value}", 0)
