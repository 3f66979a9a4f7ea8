"""Modules are written whole or not at all, and loaded once."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import fagen
from fagen.codegen import write
from fagen.codegen.load import cache_folder, load, load_module
from fagen.codegen.write import CannotWrite, ready_folder, write_atomically
from fagen.spec.load import find_variant, load_variant

ROOT = Path(__file__).resolve().parents[2]


def test_a_file_is_written_once(tmp_path):
    path = tmp_path / "module.py"
    assert write_atomically(path, "é = 1\n") is True
    assert path.read_bytes() == "é = 1\n".encode()
    before = path.stat().st_mtime_ns
    assert write_atomically(path, "é = 1\n") is False
    assert path.stat().st_mtime_ns == before
    assert write_atomically(path, "x = 2\n") is True
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupt_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "module.py"
    path.write_text("old\n")
    for step in ("fsync", "replace"):

        def interrupted(*arguments):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(write.os, step, interrupted)
            with pytest.raises(KeyboardInterrupt):
                write_atomically(path, "new\n")
        assert path.read_text() == "old\n"
        assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_said(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(write.os, "fsync", full)
    with pytest.raises(CannotWrite, match=r"cannot write `.*module.py`: no space left on device"):
        write_atomically(tmp_path / "module.py", "new\n")
    assert list(tmp_path.iterdir()) == []


def test_permissions_follow_the_umask_and_stay(tmp_path):
    path = tmp_path / "module.py"
    before = os.umask(0o027)
    try:
        write_atomically(path, "x\n")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640
    path.chmod(0o755)
    write_atomically(path, "y\n")
    assert path.stat().st_mode & 0o777 == 0o755


def test_a_link_is_followed(tmp_path):
    target, link = tmp_path / "target.py", tmp_path / "link.py"
    target.write_text("old\n")
    link.symlink_to(target)
    write_atomically(link, "new\n")
    assert link.is_symlink() and target.read_text() == "new\n"


def test_folders_that_refuse(tmp_path):
    assert ready_folder(tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "deeper"):
        with pytest.raises(CannotWrite, match="a file stands in its way"):
            ready_folder(folder)
    (tmp_path / "module.py").mkdir()
    with pytest.raises(CannotWrite, match="it is a folder"):
        write_atomically(tmp_path / "module.py", "x\n")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that even root minds")
def test_a_folder_nobody_may_write():
    with pytest.raises(CannotWrite) as error:
        ready_folder(Path("/proc/self/fagen"))
    assert error.value.hint.endswith("name another folder with `-o DIR`")


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("FAGEN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "modules"


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.delenv("FAGEN_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "fagen" / "modules"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder() == tmp_path / "home" / ".cache" / "fagen" / "modules"


@pytest.mark.parametrize("given", [3, None, b"causal"])
def test_loading_anything_else_is_an_error_that_says_what_it_takes(given):
    with pytest.raises(TypeError, match=f"name of a shipped .* not {type(given).__name__}"):
        fagen.load(given)


def test_loading_by_name_path_and_value_gives_one_module(cache, tmp_path):
    by_name = fagen.load("causal")
    path = find_variant("causal")
    assert by_name is fagen.load(path) is load(str(path)) is load(load_variant(path))
    assert by_name.__name__ in sys.modules
    (cached,) = cache.glob("*/causal.py")
    copy = tmp_path / "vendored.py"
    copy.write_bytes(cached.read_bytes())
    assert load_module(copy).SPEC_HASH == by_name.SPEC_HASH


def test_the_same_content_is_imported_once(cache, tmp_path):
    source = Path(load("full").__file__)
    places = [tmp_path / str(i) / "full.py" for i in range(8)]
    for place in places:
        place.parent.mkdir()
        place.write_bytes(source.read_bytes())
    with ThreadPoolExecutor(8) as pool:
        modules = set(pool.map(load_module, [source, *places]))
    assert len(modules) == 1


def test_a_damaged_cache_is_repaired(cache):
    load("full")
    (path,) = cache.glob("*/full.py")
    text = path.read_text()
    path.write_text(text[: len(text) // 2])
    assert load("full").SPEC_HASH and path.read_text() == text


def test_a_module_that_fails_is_not_kept(tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("raise ValueError('no')\n")
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            load_module(path)
    with pytest.raises(FileNotFoundError, match="no module at"):
        load_module(tmp_path / "absent.py")


def test_eight_processes_share_an_empty_cache(tmp_path):
    code = "import fagen; print(fagen.load('full').__file__)"
    environment = {**os.environ, "FAGEN_CACHE": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    processes = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(8)
    ]
    answers = {process.communicate()[0] for process in processes}
    assert [process.returncode for process in processes] == [0] * 8
    assert len(answers) == 1
    (folder,) = (tmp_path / "modules").iterdir()
    assert [path.name for path in folder.iterdir() if path.is_file()] == ["full.py"]


def test_importing_fagen_is_light():
    code = (
        "import sys, fagen\n"
        "assert not {'torch', 'triton', 'jinja2', 'yaml', 'numpy'} & set(sys.modules)\n"
        "assert 'load' in dir(fagen) and fagen.SpecErrors.__name__ == 'SpecErrors'\n"
        "print(getattr(fagen, 'lode', 'absent'), 'torch' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (run.stdout.split(), run.stderr) == (["absent", "False"], "")
