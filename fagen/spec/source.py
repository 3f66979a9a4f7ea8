"""YAML with positions: a file's text -> mappings, sequences and scalars that know where they stand.

Only the part of YAML that a variant needs: no anchors, aliases or tags, no key twice.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

import yaml

from fagen.spec.errors import Diagnostic
from fagen.spec.scalars import aligned, plain_value

_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
#: Files and nesting beyond any honest variant are refused before they can exhaust the machine.
LARGEST_FILE, DEEPEST = 256 * 1024, 20


@dataclass(frozen=True, eq=False)
class Source:
    """A file: its path as the user wrote it, and its text."""

    path: str
    text: str

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(m.end() for m in _BREAK.finditer(self.text))]

    def line_of(self, index: int) -> int:
        """The line, from 1, of a character of the text."""
        return bisect_right(self._starts, index)

    def error(self, message: str, start: int, end: int, hint: str = "") -> Diagnostic:
        """An error under the characters [start, end) of the text."""
        start = max(0, min(start, len(self.text)))
        line = self.line_of(start)
        first = self._starts[line - 1]
        last = self._starts[line] if line < len(self._starts) else len(self.text)
        shown = _BREAK.split(self.text[first:last])[0]
        column = min(start - first, len(shown))
        length = max(1, min(end - start, len(shown) - column))
        return Diagnostic(message, self.path, line, column + 1, length, shown, hint)


@dataclass(frozen=True, eq=False)
class Text:
    """An expression's text; `places[i]` is the index in the source of its i-th character."""

    source: Source
    value: str
    places: tuple[int, ...]
    fallback: tuple[int, int]

    def error(self, message: str, start: int, end: int, hint: str = "") -> Diagnostic:
        """An error under the characters [start, end) of `value`."""
        if not self.value.strip():
            return self.source.error(message, *self.fallback, hint)
        start = max(0, min(start, len(self.value) - 1))
        end = max(start + 1, min(end, len(self.value)))
        return self.source.error(message, self.places[start], self.places[end - 1] + 1, hint)

    def whole(self, message: str, hint: str = "") -> Diagnostic:
        """An error under all of the text."""
        stripped = self.value.strip()
        start = self.value.find(stripped)
        return self.error(message, start, start + len(stripped), hint)


@dataclass(frozen=True, eq=False)
class Node:
    """A piece of the file: characters [start, end) of the source."""

    source: Source
    start: int
    end: int

    def error(self, message: str, hint: str = "") -> Diagnostic:
        return self.source.error(message, self.start, self.end, hint)


@dataclass(frozen=True, eq=False)
class Scalar(Node):
    """`style` is None for a plain scalar, else one of ' " | >."""

    value: str
    style: str | None

    @property
    def plain(self) -> object:
        """The Python value: None, bool, int, float or str."""
        return plain_value(self.value) if self.style is None else self.value

    @property
    def text(self) -> Text:
        """The scalar as an expression. A YAML boolean or infinity is read as the language's."""
        value, plain = self.value, self.plain
        if isinstance(plain, bool):
            value = str(plain)
        elif isinstance(plain, float) and "." in value and "inf" in value.lower():
            value = "-inf" if plain < 0 else "inf"
        if value is not self.value:
            last = max(self.start, self.end - 1)
            places = tuple(min(self.start + i, last) for i in range(len(value)))
        else:
            places = aligned(self.source.text, self.start, self.end, value, self.style)
        return Text(self.source, value, places, (self.start, self.end))


@dataclass(frozen=True, eq=False)
class Sequence(Node):
    items: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Mapping(Node):
    """Entries in the order of the file, by the text of their key."""

    entries: dict[str, tuple[Scalar, Node]]

    def get(self, key: str) -> Node | None:
        return self.entries[key][1] if key in self.entries else None


def data(node: Node) -> object:
    """The node as plain Python values."""
    if isinstance(node, Mapping):
        return {key: data(value) for key, (_, value) in node.entries.items()}
    if isinstance(node, Sequence):
        return [data(item) for item in node.items]
    assert isinstance(node, Scalar)
    return node.plain


def read_mapping(source: Source) -> tuple[Mapping | None, list[Diagnostic]]:
    """The file's mapping, and what is wrong with its YAML. None when it cannot be read at all."""
    if len(source.text) > LARGEST_FILE:
        size = f"{len(source.text) // 1024} KiB"
        return None, [
            Diagnostic(
                f"the file has {size}; a variant has at most {LARGEST_FILE // 1024}", source.path
            )
        ]
    loader = None
    try:
        loader = _Loader(source.text)
        root = loader.get_single_node()
    except _Refused as refused:
        return None, [source.error(refused.message, refused.start, refused.end, refused.hint)]
    except yaml.reader.ReaderError as error:
        return None, [
            source.error("this character may not stand in YAML", error.position, error.position + 1)
        ]
    except yaml.MarkedYAMLError as error:
        return None, [_syntax_error(source, error)]
    except (RecursionError, ValueError, OverflowError, IndexError):
        # Malformed escapes and directives reach PyYAML's own int() and chr().
        mark = loader.get_mark().index if loader is not None else 0
        return None, [source.error("invalid YAML", mark, mark + 1)]
    problems: list[Diagnostic] = []
    if root is None:
        hint = "`fagen new NAME` writes a file to start from"
        return None, [Diagnostic("the file is empty", source.path, hint=hint)]
    node = _convert(source, root, problems)
    if not isinstance(node, Mapping):
        hint = "a variant is a mapping, such as `name: causal` and `mask: kv_idx <= q_idx`"
        first = source.text[node.start : node.end].split("\n")[0]
        end = node.start + len(first.rstrip())
        problems.append(source.error("this is not a variant", node.start, end, hint))
        return None, problems
    return node, problems


class _Refused(Exception):
    def __init__(self, message: str, start: int, end: int, hint: str) -> None:
        super().__init__(message)
        self.message, self.start, self.end, self.hint = message, start, end, hint


class _Loader(yaml.SafeLoader):
    """Composes nodes, refusing what a variant has no use for."""

    depth = 0

    def compose_node(self, parent, index):
        event = self.peek_event()
        start, end = event.start_mark.index, event.end_mark.index
        quote = "an expression that begins with `{}` needs quotes around it"
        if isinstance(event, yaml.AliasEvent):
            raise _Refused("YAML aliases are not used here", start, end, quote.format("*"))
        if event.anchor is not None:
            raise _Refused("YAML anchors are not used here", start, end, quote.format("&"))
        if event.tag is not None:
            hint = "write `not` for a negation, and no YAML tags"
            raise _Refused("YAML tags are not used here", start, end, hint)
        self.depth += 1
        if self.depth > DEEPEST:
            raise _Refused("nested too deeply", start, start + 1, "")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def _convert(source: Source, node: yaml.Node, problems: list[Diagnostic]) -> Node:
    start, end = node.start_mark.index, node.end_mark.index
    if isinstance(node, yaml.ScalarNode):
        if node.style in ("|", ">"):
            end = start + len(source.text[start:end].rstrip())
        return Scalar(source, start, end, node.value, node.style)
    if isinstance(node, yaml.SequenceNode):
        items = tuple(_convert(source, item, problems) for item in node.value)
        return Sequence(source, start, end, items)
    entries: dict[str, tuple[Scalar, Node]] = {}
    for key_node, value_node in node.value:
        key = _convert(source, key_node, problems)
        value = _convert(source, value_node, problems)
        if not isinstance(key, Scalar):
            problems.append(key.error("a key must be a name"))
        elif key.value in entries:
            first = source.line_of(entries[key.value][0].start)
            hint = f"the first one is on line {first}; keep one of them"
            problems.append(key.error(f"key `{key.value}` occurs twice", hint))
        else:
            entries[key.value] = (key, value)
    return Mapping(source, start, end, entries)


_HINTS = (
    ("mapping values are not allowed", "put quotes around an expression that contains `: `"),
    ("'\\t'", "indent with spaces, not tabs"),
    ("cannot start any token", "put quotes around a value that begins with this character"),
    ("found unexpected end of stream", "close the quotes"),
    ("could not find expected ':'", "every line is `key: value`"),
    ("expected ',' or ']'", "close the list with `]`; put quotes around an expression in it"),
    ("expected ',' or '}'", "close the mapping with `}`; put quotes around an expression in it"),
    ("expected <block end>", "indent the keys of one mapping alike"),
    ("single document", "one file holds one variant: remove the `---`"),
)


def _syntax_error(source: Source, error: yaml.MarkedYAMLError) -> Diagnostic:
    told = f"{error.context or ''} {error.problem or ''}"
    hint = next((hint for part, hint in _HINTS if part in told), "")
    mark = error.problem_mark or error.context_mark
    index = mark.index if mark is not None else 0
    return source.error(f"invalid YAML: {error.problem or error.context}", index, index + 1, hint)
