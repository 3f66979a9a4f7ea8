"""A variant file in the making: plain mappings, written as YAML that the language reads back."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fagen.spec.load import load_variant
from fagen.spec.variant import Variant

Mapping = dict[str, Any]


class Block(str):
    """An expression that is written as a block scalar."""


class _Writer(yaml.SafeDumper):
    pass


def _block(writer: _Writer, value: Block) -> yaml.Node:
    return writer.represent_scalar("tag:yaml.org,2002:str", str(value), style="|")


_Writer.add_representer(Block, _block)


@dataclass(frozen=True)
class Draft:
    """The files of one variant by their names without suffix, the oldest ancestor first.

    Each file is a mapping as YAML would read it; expressions are texts.
    """

    files: tuple[tuple[str, Mapping], ...]

    @property
    def name(self) -> str:
        return self.files[-1][0]

    def texts(self) -> dict[str, str]:
        """File name -> YAML."""
        return {f"{name}.yaml": to_yaml(mapping) for name, mapping in self.files}

    def write(self, folder: Path) -> Path:
        """Writes every file; the path of the variant itself."""
        for name, text in self.texts().items():
            (folder / name).write_text(text, encoding="utf-8")
        return folder / f"{self.name}.yaml"

    def load(self, folder: Path) -> Variant:
        """Written and read back; raises SpecErrors."""
        return load_variant(self.write(folder))

    def edited(self, file: int, mapping: Mapping) -> Draft:
        files = list(self.files)
        files[file] = (files[file][0], mapping)
        return Draft(tuple(files))

    def copy(self) -> Draft:
        return Draft(copy.deepcopy(self.files))

    def to_json(self) -> list[list[Any]]:
        return [[name, mapping] for name, mapping in self.files]

    @staticmethod
    def from_json(data: list[list[Any]]) -> Draft:
        return Draft(tuple((name, mapping) for name, mapping in data))


def to_yaml(mapping: Mapping) -> str:
    """YAML whose keys keep their order."""
    # Lines are not folded: a place in an expression is a place in its line.
    return yaml.dump(mapping, Dumper=_Writer, sort_keys=False, width=10_000, allow_unicode=True)
