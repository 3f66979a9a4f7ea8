"""The pages about the language are as the code would write them, and what they show loads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fagen.spec.document import json_schema
from fagen.spec.handbook import semantics_page
from fagen.spec.keys import keys_page
from fagen.spec.load import load_text

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("page", "text", "module"),
    [("semantics", semantics_page, "handbook"), ("language", keys_page, "keys")],
)
def test_a_page_is_current(page, text, module) -> None:
    path = ROOT / "docs" / f"{page}.md"
    assert path.read_text() == text(), f"python -m fagen.spec.{module} > docs/{page}.md"


def examples() -> list[str]:
    pages = (ROOT / "README.md", ROOT / "docs" / "language.md")
    return [t for page in pages for t in re.findall("```yaml\n(.*?)```", page.read_text(), re.S)]


@pytest.mark.parametrize("text", examples())
def test_what_a_page_shows_loads(text) -> None:
    named = re.search("^name:", text, re.M)
    variant = load_text(text if named else f"name: example\n{text}")
    assert variant.name


def test_there_are_examples_of_every_key() -> None:
    texts = "\n".join(examples())
    for key in json_schema()["properties"]:
        assert re.search(rf"^{key}:", texts, re.M), key


def entries() -> list[tuple[str, dict]]:
    schema = json_schema()
    models = {"": schema, **schema["$defs"]}
    return [(f"{m}.{k}", e) for m, s in models.items() for k, e in s["properties"].items()]


@pytest.mark.parametrize(("key", "entry"), entries())
def test_every_key_of_the_schema_says_what_it_means(key, entry) -> None:
    said = entry["description"]
    assert said and said not in ("an expression", "a constant") and not said.endswith("."), key
    # On the page they stand in a cell, where `**` would turn what follows bold.
    assert "**" not in re.sub("`[^`]*`", "", said) and "\n" not in said
