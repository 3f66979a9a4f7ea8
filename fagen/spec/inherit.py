"""`extends`: a file and its ancestors merged into one document, every piece with its own place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fagen.spec.errors import Diagnostic, SpecErrors
from fagen.spec.source import Mapping, Node, Scalar, Source, read_mapping

DEEPEST = 8
#: Keys that every file gives for itself.
OWN = ("name", "description", "extends")
#: Keys in which `inherited` means the parent's expression.
LAYERED = ("mask", "score")


@dataclass(frozen=True)
class Family:
    """The merged document; `layers` holds `mask` and `score` of each file, oldest first."""

    root: Mapping
    layers: dict[str, list[Scalar | None]]


def read_family(
    source: Source, find: Callable[[str, str], Source], problems: list[Diagnostic]
) -> Family | None:
    """Reads a file and what it extends. `find(name, path of the child)` may raise SpecErrors."""
    files: list[Mapping] = []
    seen: set[str] = set()
    while True:
        mapping, found = read_mapping(source)
        problems += found
        if mapping is None:
            break
        files.append(mapping)
        parent = mapping.get("extends")
        if not isinstance(parent, Scalar) or not parent.value:
            break
        seen.add(source.path)
        try:
            source = find(parent.value, source.path)
        except SpecErrors as errors:
            first = errors.diagnostics[0]
            problems.append(parent.error(first.message, first.hint))
            break
        if source.path in seen:
            problems.append(parent.error("this variant extends itself"))
            break
        if len(seen) >= DEEPEST:
            problems.append(parent.error(f"more than {DEEPEST} variants extend one another"))
            break
    if not files:
        return None
    merged = files[-1]
    for child in reversed(files[:-1]):
        merged = _merge(_without(merged, OWN), child)
    layers: dict[str, list[Scalar | None]] = {}
    for key in LAYERED:
        nodes = [file.get(key) for file in reversed(files)]
        layers[key] = [n if isinstance(n, Scalar) and n.plain is not None else None for n in nodes]
    return Family(merged, layers)


def _without(mapping: Mapping, keys: tuple[str, ...]) -> Mapping:
    entries = {k: v for k, v in mapping.entries.items() if k not in keys}
    return Mapping(mapping.source, mapping.start, mapping.end, entries)


def _merge(parent: Mapping, child: Mapping) -> Mapping:
    """Mappings merge by name (a function's without its arguments); all else is replaced."""
    entries: dict[str, tuple[Scalar, Node]] = dict(parent.entries)
    spelled = {_name(key): key for key in entries}
    for key, (key_node, node) in child.entries.items():
        old = spelled.get(_name(key))
        if old is None:
            entries[key] = (key_node, node)
            continue
        before = entries[old][1]
        if isinstance(before, Mapping) and isinstance(node, Mapping):
            node = _merge(before, node)
        if old == key:
            entries[key] = (key_node, node)
        else:  # keep the place in the order under the new spelling
            entries = {
                (key if k == old else k): ((key_node, node) if k == old else v)
                for k, v in entries.items()
            }
    return Mapping(child.source, child.start, child.end, entries)


def _name(key: str) -> str:
    return key.split("(")[0].strip()
