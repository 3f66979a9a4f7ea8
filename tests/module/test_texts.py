"""What people write in a variant file stands unharmed in the module's documentation."""

from __future__ import annotations

import ast
import subprocess
import sys
import warnings

import pytest

from fagen.codegen.render import render
from fagen.spec.load import load_text

pytestmark = pytest.mark.native
LONG = "word " * 60
DESCRIPTIONS = [
    'Says """hello""" and more.',
    'Ends with a quote "',
    r"A path C:\new\table and \N{x}.",
    "Ends with a backslash \\",
    LONG.strip(),
    "ünïcode → fine",
]


def described(text: str) -> str:
    quoted = text.replace("'", "''")
    return render(
        load_text(
            f"name: described\ndescription: '{quoted}'\n"
            f"parameters: {{w: {{type: int, default: 3, min: 0, description: '{quoted}'}},\n"
            f"  huge: {{type: float, default: 1.0e+20, description: '{quoted}'}}}}\n"
            f"tensors: {{slope: {{shape: [heads], dtype: float32, description: '{quoted}'}}}}\n"
            "mask: q_idx - kv_idx <= w\nscore: score - slope[h] * huge\n"
        )
    )


@pytest.mark.parametrize("text", DESCRIPTIONS, ids=range(len(DESCRIPTIONS)))
def test_any_description(text):
    source = described(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tree = ast.parse(source)
    functions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    words = " ".join((ast.get_docstring(functions["attention"]) or "").split())
    assert words.startswith(text.split()[0]) and words.count(" ".join(text.split())) == 4
    assert (ast.get_docstring(tree) or "").split("\n")[0].startswith(text[:38].strip())
    assert all(len(line) <= 100 for line in source.split("\n"))


@pytest.mark.parametrize("text", DESCRIPTIONS, ids=range(len(DESCRIPTIONS)))
def test_ruff_has_nothing_to_change(text):
    run = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--diff", "--line-length=100", "-"],
        input=described(text), capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout


def test_the_header_has_one_length():
    starts = {
        next(
            n for n, line in enumerate(described(text).split("\n")) if line.startswith("SPEC_HASH")
        )
        for text in DESCRIPTIONS
    }
    assert len(starts) == 1
