"""The shape of the project: which part may know which, and what no file may do."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "fagen"

#: The pipeline. A stage imports itself and those before it.
STAGES = ("spec", "analysis", "codegen", "device", "verify", "tune", "bench", "cli")
#: What may be imported from anywhere, and imports no stage itself.
GROUND = {"fagen", "fagen.shipped"}
#: Where the heavy or replaceable packages may be imported: files, or whole stages.
ONLY_IN = {
    "jinja2": {"codegen/render.py"},
    "optuna": {"tune/search.py"},
    "rich": {"cli"},
    "typer": {"cli"},
    "torch": {"verify", "tune", "bench"},
    "triton": {"device", "verify", "tune", "bench"},
}
LONGEST = 400
SAY_NOTHING = {"util", "utils", "common", "helper", "helpers", "base", "manager", "misc"}


def sources(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def imported(source: str, package: str) -> list[str]:
    """Every module that a file of `package` imports, at its top or in a function."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            start = ".".join([*(above if node.level else []), *filter(None, [node.module])])
            # `from fagen import device` names a module, `from fagen.device.gpus import Gpu` none;
            # with the longer name both lead to the right stage.
            found += [f"{start}.{alias.name}" for alias in node.names]
    return found


def stage_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in STAGES else None


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def backward_imports(path: Path, source: str) -> list[str]:
    own = stage_of(name_of(path))
    package = name_of(path.parent)
    return [
        module
        for module in imported(source, package)
        if (stage := stage_of(module)) and (own is None or STAGES.index(stage) > STAGES.index(own))
    ]


@pytest.mark.parametrize(
    ("file", "line", "wrong"),
    [
        ("spec/load.py", "from fagen.analysis.walk import x", ["fagen.analysis.walk.x"]),
        ("spec/load.py", "from fagen import device", ["fagen.device"]),
        ("spec/load.py", "from ..verify import reference", ["fagen.verify.reference"]),
        ("spec/load.py", "def f():\n    import fagen.cli", ["fagen.cli"]),
        ("shipped.py", "import fagen.spec.expr", ["fagen.spec.expr"]),
        ("spec/load.py", "from fagen.spec.expr import Expr", []),
        ("spec/load.py", "from .expr import Expr", []),
        ("verify/run.py", "from fagen.device.pool import compile_many", []),
        ("cli/app.py", "from fagen.spec import load", []),
    ],
)
def test_the_check_of_imports_sees(file, line, wrong):
    assert backward_imports(PACKAGE / file, line) == wrong


def test_imports_run_along_the_pipeline():
    # fagen/__init__.py is the front door: it may open any stage, inside a function.
    files = [path for path in sources("fagen") if path != PACKAGE / "__init__.py"]
    wrong = {name_of(p): bad for p in files if (bad := backward_imports(p, p.read_text()))}
    assert not wrong


def test_every_module_has_its_place():
    loose = {name_of(path) for path in sources("fagen") if stage_of(name_of(path)) is None}
    assert loose - {"fagen.__init__"} <= GROUND


@pytest.mark.parametrize("package", ONLY_IN)
def test_one_place_imports(package):
    def allowed(path: Path) -> bool:
        relative = path.relative_to(PACKAGE)
        return not ONLY_IN[package].isdisjoint({relative.as_posix(), relative.parts[0]})

    guilty = [
        name_of(path)
        for path in sources("fagen")
        if not allowed(path)
        and any(
            module.split(".")[0] == package
            for module in imported(path.read_text(), name_of(path.parent))
        )
    ]
    assert not guilty


@pytest.mark.parametrize(
    ("stages", "absent"),
    [(("spec", "analysis", "codegen"), ("torch", "triton")), (("device",), ("torch",))],
)
def test_the_front_of_the_pipeline_loads_without(stages, absent):
    files = sources(*(f"fagen/{stage}" for stage in stages))
    modules = [name_of(path).removesuffix(".__init__") for path in files]
    assert len(modules) >= len(stages)
    code = (
        "import importlib, sys\n"
        f"for module in {modules!r}: importlib.import_module(module)\n"
        f"print(*(set({absent!r}) & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == []


#: Parts of variants' names that are ordinary words, or words of the language itself.
ORDINARY = {"full", "lm", "local", "sinks"}
#: Names that must not steer the code even where no file of variants/ bears them.
KNOWN = (
    "causal window sliding alibi softcap prefix document gemma mistral llama swin natten bloom "
    "graphormer neighborhood dilated"
)


def variant_words() -> set[str]:
    parts = {
        re.sub(r"\d", "", part)
        for path in (ROOT / "variants").glob("*.yaml")
        for part in path.stem.split("_")
    }
    return parts - ORDINARY - {""} | set(KNOWN.split())


def words(text: str) -> set[str]:
    """Lower-case words, those inside identifiers too: IS_CAUSAL, isCausal, causal_mask2."""
    split = re.sub(r"([a-z])([A-Z])", r"\1 \2", text)
    found = {word.lower() for word in re.findall("[A-Za-z]+", split)}
    return found | {word.removesuffix("s") for word in found}


@pytest.mark.parametrize("text", ["IS_CAUSAL", "isCausal", "# causal", "causal2", "Causals"])
def test_the_check_of_words_sees(text):
    assert "causal" in words(text)


def test_the_check_of_words_leaves_other_words_alone():
    assert words("documented removeprefix") == {"documented", "removeprefix"}


def test_no_variant_is_known_by_name():
    forbidden = variant_words()
    files = [
        path
        for folder in ("templates", "fagen/analysis", "fagen/codegen")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    ]
    assert any(path.suffix == ".jinja" for path in files), "no templates found"
    guilty = {
        f"{path.relative_to(ROOT)}:{number}": sorted(used)
        for path in files
        for number, line in enumerate([path.stem, *path.read_text().splitlines()])
        if (used := words(line) & forbidden)
    }
    assert not guilty


def test_file_names_say_something():
    files = sources("fagen", "tests") + sorted((ROOT / "templates").rglob("*.jinja"))
    assert not [path for path in files if SAY_NOTHING & set(path.name.split(".")[0].split("_"))]


def test_no_file_is_long():
    files = [path for path in sources("fagen", "tests") if "golden" not in path.parts]
    files += sorted((ROOT / "templates").rglob("*.jinja"))
    lengths = {str(p.relative_to(ROOT)): len(p.read_text().splitlines()) for p in files}
    assert not {name: length for name, length in lengths.items() if length > LONGEST}
