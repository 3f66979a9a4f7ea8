"""What a variant file asks for that has no effect yet: said, and not silently dropped."""

from __future__ import annotations

from dataclasses import replace

from fagen.spec.document import Document
from fagen.spec.errors import Diagnostic
from fagen.spec.source import Mapping


def notes(root: Mapping, document: Document) -> tuple[Diagnostic, ...]:
    """A note under each such key, in the order of the file."""
    idle = {
        "partition": "`partition: fa3` has no effect yet: the module holds `fa2`"
        if document.partition == "fa3"
        else "",
        "passes": "`passes` has no effect yet: the module holds forward and backward"
        if set(document.passes) != {"forward", "backward"}
        else "",
        "tuning": "`tuning` has no effect yet: configs are each GPU's defaults",
    }
    return tuple(
        replace(key.error(idle[word]), kind="note")
        for word, (key, _) in root.entries.items()
        if idle.get(word)
    )
