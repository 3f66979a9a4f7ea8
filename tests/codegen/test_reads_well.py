"""Rendered modules read as if written by hand: nothing unused or dead, formatted as they are."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fagen.codegen.render import render
from fagen.spec.load import find_variant, load_text, load_variant, shipped_names

ROOT = Path(__file__).resolve().parents[2]
#: What torch calls by position, and what takes the arguments of `attention`, used or not.
BY_CONTRACT = {
    "fake_forward",
    "fake_backward",
    "backward",
    "attention",
    "launch_forward",
    "launch_backward",
    "reference",
}
OTHERS = {
    "exact": "name: exact\naccuracy: exact\nscore: tanh(score)",
    "two_tanh": "name: two_tanh\nscore: tanh(score) + tanh(0.5 * score) * tanh(score)",
    "no_qk": "name: no_qk\nscore: (q_idx - kv_idx) * 0.1",
    "never_full": "name: never_full\nmask: (q_idx * kv_idx) % 3 == 1",
    "still": "name: still\nparameters: {wide: {type: bool, default: true}}\n"
    "tensors: {kept: {shape: [kv_len], dtype: bool}}\n"
    "mask: kept[kv_idx] or (kv_idx % 3 == 0 and wide)",
    "crowd": "name: crowd\ntensors:\n"
    + "".join(f"  relative_position_{c}: {{shape: [heads], dtype: float32}}\n" for c in "abcdef")
    + "score: score"
    + "".join(f" + relative_position_{c}[h] * (q_idx - kv_idx)" for c in "abcdef"),
    "sink": "name: sink\ntensors: {s: {shape: [heads], dtype: float32}}\n"
    "mask: q_idx >= kv_idx\nsoftmax: {sink: 's[h]'}",
    "from_start": "name: from_start\nposition: start\nmask: q_row >= kv_token",
    "static": "name: static\nparameters: {w: {type: int, default: 8, static: true}}\n"
    "mask: q_idx // w == kv_idx // w",
    "bias": "name: bias\ntensors: {t: {shape: [batch, heads, q_len, kv_len], dtype: bfloat16}}\n"
    "score: score + t[b, h, q_row, kv_token]",
    "long_scale": "name: long_scale\n"
    "parameters: {long_factor: {type: float, default: 40.0, min: 1.0}}\n"
    "scale: rsqrt(head_dim) * (0.1 * log(long_factor) + 1) ** 2 / (1 + log2(long_factor) ** 2)",
    "powers": "name: powers\nparameters: {beta: {type: float, default: 40.0, min: 1.0}}\n"
    "tensors: {t: {shape: [heads], dtype: float32, default: (h + 1) ** 0.5 + heads ** -0.5}}\n"
    "score: score * t[h]\nscale: rsqrt(beta) * (beta + 1) ** 1.0e-7 * beta ** 1.0e-7",
    "switch": "name: switch\nparameters: {strict: {type: bool, default: true}}\n"
    "mask: not strict or q_idx >= kv_idx",
}
TEXTS = {name: None for name in shipped_names()} | OTHERS


@pytest.fixture(scope="module", params=TEXTS)
def source(request) -> str:
    text = TEXTS[request.param]
    if text is None:
        return render(load_variant(find_variant(request.param)))
    return render(load_text(text))


def functions(source: str) -> list[ast.FunctionDef]:
    return [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]


def stored_and_read(node: ast.AST) -> tuple[set[str], set[str]]:
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
    read = {n.id for n in names if isinstance(n.ctx, ast.Load)}
    # `x += 1` reads x, but only to write it.
    return {n.id for n in names if isinstance(n.ctx, ast.Store)}, read


def test_every_argument_and_variable_is_used(source):
    for function in functions(source):
        stored, read = stored_and_read(function)
        arguments = {a.arg for a in (*function.args.args, *function.args.kwonlyargs)}
        if function.name in BY_CONTRACT:
            arguments = set()
        assert not (arguments | stored) - read - {"_"}, function.name


def test_every_function_and_constant_is_used(source):
    tree = ast.parse(source)
    public = {"attention", "attention_varlen", "merge", "reference", "SPEC_HASH", "_"}
    defined = {n.name for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    targets = [n.targets[0] for n in tree.body if isinstance(n, ast.Assign)]
    defined |= {t.id for t in targets if isinstance(t, ast.Name)}
    _, read = stored_and_read(tree)
    assert not defined - read - public


def test_no_branch_is_dead(source):
    """Flags that kernels test are passed as true here and false there, or decided at launch."""
    tree = ast.parse(source)
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
    for function in functions(source):
        names = [a.arg for a in function.args.args]
        tests = [n.test for n in ast.walk(function) if isinstance(n, (ast.If, ast.IfExp))]
        assert not [t for t in tests if isinstance(t, ast.Constant)], function.name
        tested = {n.id for t in tests for n in ast.walk(t) if isinstance(n, ast.Name)}
        for flag in tested & {n for n in names if n.isupper()}:
            given = [c.args[names.index(flag)] for c in calls if c.func.id == function.name]
            values = {g.value for g in given if isinstance(g, ast.Constant)}
            decided_at_launch = any(isinstance(g, ast.Name) for g in given) or not given
            # Where no tile is ever full, all of them may reach past the end.
            if flag == "CHECK_ROWS" and values == {True}:
                continue
            assert decided_at_launch or values == {True, False}, (function.name, flag)


@pytest.fixture(scope="module")
def rendered_folder(tmp_path_factory) -> Path:
    """All modules in a folder under our own settings."""
    folder = tmp_path_factory.mktemp("rendered")
    for name, text in TEXTS.items():
        variant = load_variant(find_variant(name)) if text is None else load_text(text)
        (folder / f"{name}.py").write_text(render(variant))
    return folder


def run(*command: object, **settings) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, text=True, **settings)


def test_ruff_finds_nothing(rendered_folder):
    config = ("--no-cache", "--config", ROOT / "pyproject.toml")
    for arguments in (("check", *config), ("format", "--check", "--diff", *config)):
        result = run(sys.executable, "-m", "ruff", *arguments, rendered_folder)
        assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("rules", [(), ("--select", "RUF"), ("--select", "E,F,I,UP,B,RUF100")])
def test_ruff_finds_nothing_in_a_repository_of_other_settings(rendered_folder, rules):
    command = ("check", "--isolated", "--no-cache", "--line-length", "100", *rules)
    result = run(sys.executable, "-m", "ruff", *command, rendered_folder)
    assert result.returncode == 0, result.stdout + result.stderr


IMPORT = """
import importlib.util, sys
sys.modules["fagen"] = None  # any import of it fails
before = set(sys.modules)
spec = importlib.util.spec_from_file_location("module", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
named = {name.split(".")[0] for name in module.__dict__ if not name.startswith("__")}
print(module.attention.__doc__.splitlines()[0])
"""


@pytest.mark.parametrize("name", shipped_names())
def test_it_imports_torch_and_triton_alone(rendered_folder, name):
    path = rendered_folder / f"{name}.py"
    tops = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            tops |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            tops.add(str(node.module).split(".")[0])
    assert tops - set(sys.stdlib_module_names) == {"torch", "triton"}


def test_it_runs_without_fagen(rendered_folder):
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    result = run(
        sys.executable, "-P", "-c", IMPORT, rendered_folder / "alibi.py",
        cwd=rendered_folder, env=environment,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("Causal attention with a linear penalty")


NASTY = [
    'He said "go", and it\'s \\"fine\\"',
    'ends in a quote "',
    'three """ of them',
    "a backslash \\",
    "\\N{DASH} and {braces} and {{ jinja }} and {% tags %} and %s",
    "naïve \N{HANGUL SYLLABLE GA}\N{HANGUL SYLLABLE NA} \N{ROCKET} text",
    "a long sentence " * 40,
    "x" * 300,
    "# a comment: with, yaml [signs]",
]


@pytest.mark.parametrize("text", NASTY)
def test_descriptions_may_hold_anything(text, tmp_path):
    quoted = "'" + text.replace("'", "''") + "'"
    source = render(
        load_text(
            f"name: nasty\ndescription: {quoted}\n"
            f"parameters: {{span: {{type: int, default: 8, min: 1, description: {quoted}}}}}\n"
            f"tensors: {{bias: {{shape: [heads], dtype: float32, description: {quoted}}}}}\n"
            "mask: q_idx - kv_idx < span\nscore: score + bias[h]\n"
        )
    )
    documented = next(f for f in functions(source) if f.name == "attention")
    found = " ".join((ast.get_docstring(documented) or "").split())
    assert found.count(" ".join(text.split())[:60].strip()) >= 3
    path = tmp_path / "nasty.py"
    path.write_text(source)
    config = ("--no-cache", "--config", ROOT / "pyproject.toml")
    assert run(sys.executable, "-m", "ruff", "format", "--diff", *config, path).stdout == ""
    longest = run(sys.executable, "-m", "ruff", "check", "--ignore", "RUF", *config, path)
    assert longest.returncode == 0, longest.stdout
