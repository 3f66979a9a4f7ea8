"""Templates, variants and tuned configurations reach their user, from a checkout and a wheel."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from fagen import __version__, shipped

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("templates", "variants", "tune_cache")


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_checkout_uses_its_own_folders():
    for name in FOLDERS:
        assert shipped.folder(name) == ROOT / name


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder like site-packages, with nothing in it but the unpacked wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT]
    build = subprocess.run(command, capture_output=True, text=True)
    assert build.returncode == 0, build.stdout + build.stderr
    (wheel,) = folder.glob(f"fagen-{__version__}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def folder_as_seen_from(site: Path, name: str) -> subprocess.CompletedProcess[str]:
    code = f"from fagen import shipped; print(shipped.folder({name!r}))"
    return subprocess.run(
        [sys.executable, "-P", "-c", code],
        capture_output=True,
        text=True,
        cwd="/",
        env={**os.environ, "PYTHONPATH": str(site)},
    )


@pytest.mark.parametrize("name", FOLDERS)
def test_a_wheel_brings_them_along(installed, name):
    run = folder_as_seen_from(installed, name)
    assert run.returncode == 0, run.stderr
    found = Path(run.stdout.strip())
    assert found.is_relative_to(installed)
    assert contents(found) == contents(ROOT / name) != {}


def test_a_wheel_finds_variants_in_their_folders(installed):
    code = "from fagen.spec.load import find_variant; print(find_variant('block_map'))"
    run = subprocess.run(
        [sys.executable, "-P", "-c", code],
        capture_output=True,
        text=True,
        cwd="/",
        env={**os.environ, "PYTHONPATH": str(installed)},
    )
    assert run.returncode == 0, run.stderr
    found = Path(run.stdout.strip())
    assert found.is_relative_to(installed) and found.parts[-2:] == ("masks", "block_map.yaml")


def test_anothers_folder_of_that_name_does_not_do(installed, tmp_path):
    site = tmp_path / "site"
    (site / "fagen").mkdir(parents=True)
    for name in ("__init__.py", "shipped.py"):
        (site / "fagen" / name).write_bytes((installed / "fagen" / name).read_bytes())
    (site / "templates").mkdir()
    run = folder_as_seen_from(site, "templates")
    assert run.returncode == 1
    assert "fagen's `templates` folder is missing" in run.stderr
    assert "pip install --force-reinstall fagen" in run.stderr
