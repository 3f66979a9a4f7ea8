"""What every test may use: the machine's capabilities and the golden files."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from difflib import unified_diff
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write tests/golden anew instead of comparing with it",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    native = [item for item in items if item.get_closest_marker("gpu")]
    if not native:
        return
    import torch

    if not torch.cuda.is_available():
        for item in native:
            item.add_marker(pytest.mark.skip(reason="needs a GPU"))


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)`: `text` must equal the file `name` in tests/golden, byte for byte."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            return
        if not path.is_file():
            pytest.fail(f"{path} does not exist; `make golden` writes it", pytrace=False)
        kept = path.read_text()
        if text != kept:
            lines = unified_diff(
                kept.splitlines(), text.splitlines(), f"golden/{name}", "rendered now", lineterm=""
            )
            difference = "\n".join(lines) or "they differ in line ends only"
            pytest.fail(
                f"{difference}\nIf that is meant, `make golden` writes the files anew.",
                pytrace=False,
            )

    return compare


@pytest.fixture(scope="session")
def newest_triton() -> Path:
    """A folder that holds the newest Triton users may bring; `make test` puts it there.

    It is imported in subprocesses alone (`PYTHONPATH`, or `compile_many(triton_path=...)`).
    """
    chosen = os.environ.get("FAGEN_NEWEST_TRITON")
    folder = Path(chosen or Path(sys.prefix, "triton-newest"))
    if not (folder / "triton" / "__init__.py").is_file():
        message = f"no Triton in {folder}; `make test` installs it"
        # Where it was asked for, going without would hide a broken installation.
        if chosen:
            pytest.fail(message, pytrace=False)
        pytest.skip(message)
    return folder
