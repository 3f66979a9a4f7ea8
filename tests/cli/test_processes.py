"""The command as a user runs it: a real build, Ctrl-C in the middle of one, a pipe that closes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-P", "-m", "fagen.cli"]


@pytest.fixture
def environment(tmp_path) -> dict[str, str]:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(scratch)}


@pytest.mark.slow
def test_a_build_from_elsewhere(tmp_path, environment):
    """The whole way: compiled, proven, written; and current when asked again."""
    command = [*COMMAND, "build", "causal", "--target", "sm_80", "--json"]
    options = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True}
    run = subprocess.run(command, **options)
    assert run.returncode == 0, run.stdout + run.stderr
    (module,) = json.loads(run.stdout)["modules"]
    assert {k["kernel"] for k in module["kernels"]} == {"forward", "prep", "dkdv", "dq"}
    assert all(k["resources"]["registers"] > 0 for k in module["kernels"])
    assert module["verification"]["ok"] and module["verification"]["cases"] > 10
    assert (tmp_path / "build" / "causal.py").is_file()
    check = subprocess.run([*COMMAND, "build", "causal", "--check"], **options)
    assert (check.returncode, check.stdout) == (0, "build/causal.py: current\n")
    assert left_in(tmp_path / "scratch") == []


@pytest.mark.parametrize(
    ("number", "stage", "code"),
    [
        (signal.SIGINT, "compiling", 130),
        (signal.SIGINT, "verifying", 130),
        (signal.SIGTERM, "verifying", 128 + signal.SIGTERM),
    ],
)
def test_an_interrupt_leaves_nothing_behind(tmp_path, environment, number, stage, code):
    old = tmp_path / "build" / "causal.py"
    old.parent.mkdir()
    old.write_text("old\n")
    process = subprocess.Popen(
        [*COMMAND, "build", "causal", "--target", "sm_90"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell starts its background jobs with SIGINT ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    for line in process.stderr:
        if stage in line:
            break
    time.sleep(1.0)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code and out == "" and "Traceback" not in err
    assert old.read_text() == "old\n" and list(old.parent.iterdir()) == [old]
    assert left_in(tmp_path / "scratch") == []
    assert not running(tmp_path / "scratch")


def left_in(scratch: Path) -> list[str]:
    """What fagen left; torch makes a folder of its own as soon as it is imported."""
    return [p.name for p in scratch.iterdir() if not p.name.startswith("torchinductor")]


def running(scratch: Path) -> list[str]:
    """Processes whose environment points into the scratch folder."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if str(scratch).encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_text())
        except OSError:
            continue
    return found


def test_a_reader_that_leaves_early(environment):
    command = f"{sys.executable} -P -m fagen.cli schema | head -n 1; echo ${{PIPESTATUS[0]}}"
    run = subprocess.run(
        ["bash", "-c", command], env=environment, capture_output=True, text=True, cwd=ROOT
    )
    first, code = run.stdout.splitlines()
    assert first == "{" and code in ("0", "141") and run.stderr == ""


def test_any_encoding_of_the_terminal(tmp_path, environment):
    text = "name: naive\ndescription: naïve \N{ROCKET}\nmask: kv_idx <= q_idx\n"
    (tmp_path / "naive.yaml").write_text(text, encoding="utf-8")
    ascii_only = {**environment, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    run = subprocess.run(
        [*COMMAND, "explain", "naive.yaml"], cwd=tmp_path, env=ascii_only, capture_output=True
    )
    assert run.returncode == 0, run.stderr
    assert b"Score in base 2" in run.stdout
    code = "import fagen; print(fagen.load('naive.yaml').attention.__doc__.isascii())"
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**ascii_only, "FAGEN_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
    )
    assert run.stdout == "False\n", run.stderr
