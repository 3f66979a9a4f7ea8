"""The README's Python runs as it stands, and its commands are those there are."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from fagen.cli.app import app
from fagen.codegen.render import render
from fagen.spec.load import find_variant, load_variant

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
CODE = re.findall("```python\n(.*?)```", README, re.S)
#: From a GPU's sizes to an interpreter's.
SMALL = {
    '"cuda"': '"cpu"', "bfloat16": "float32", "2, 16, 4096, 128": "1, 4, 64, 32",
    "2, 4, 4096, 128": "1, 2, 64, 32", "[0, 1000, 4096]": "[0, 20, 64]", "3096": "44",
}  # fmt: skip


@pytest.fixture
def run(tmp_path):
    """Runs code beside the folder `attention_kernels` of the README's build."""
    (tmp_path / "attention_kernels").mkdir()
    (tmp_path / "attention_kernels" / "alibi.py").write_text(
        render(load_variant(find_variant("alibi")))
    )

    def run(code: str) -> None:
        (tmp_path / "call.py").write_text(code)
        command = [sys.executable, tmp_path / "call.py"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr

    return run


def test_the_call_without_a_gpu(run):
    (code,) = (c for c in CODE if "TRITON_INTERPRET" in c)
    run(code)


def test_the_calls_on_a_gpu_in_small(run):
    code = "\n".join(c for c in CODE if "TRITON_INTERPRET" not in c)
    for large, small in SMALL.items():
        assert large in code
        code = code.replace(large, small)
    checks = "assert out.shape == q.shape and torch.isfinite(out).all()\n"
    run(f'import os\nos.environ["TRITON_INTERPRET"] = "1"\n{code}{checks}')


COMMANDS = re.findall(r"^    fagen (\w+)(.*)$", README, re.M)


def test_every_command_is_shown():
    assert {name for name, _ in COMMANDS} == set(get_command(app).commands)


@pytest.mark.parametrize(("name", "rest"), COMMANDS)
def test_commands_have_the_options_they_are_shown_with(name, rest):
    command = get_command(app).commands[name]
    options = {option for p in command.params for option in p.opts}
    assert set(re.findall(r"(?<=\s)--?[a-z][a-z-]*", rest)) <= options
