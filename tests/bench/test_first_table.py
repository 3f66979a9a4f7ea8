"""The whole table on a machine without a GPU: the peers fail, and the record says so."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from fagen.bench.first_table import main
from fagen.bench.provenance import write_atomically

PLAIN_CAUSAL = Path(__file__).parent / "plain_causal.py"


def arguments(folder, *more):
    made = ["--out", str(folder / "out"), "--modules", str(folder), "--rounds", "2"]
    made += ["--shapes", "1,2,1,64,16", "--workers", "1", "--matmul-size", "64"]
    return [*made, "--no-first-call", *more]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for cache in ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"):
        monkeypatch.setenv(cache, str(tmp_path / "cache"))
    monkeypatch.setenv("TORCHINDUCTOR_COMPILE_THREADS", "1")
    for name in ("causal", "full"):
        shutil.copy(PLAIN_CAUSAL, tmp_path / f"{name}.py")
    return tmp_path


def test_a_right_module_is_timed_and_a_wrong_one_is_not(folder, capsys):
    more = ["--variants", "causal", "full", "--host-variants", "causal"]
    assert main(arguments(folder, *more)) == 1
    record = json.loads((folder / "out" / "table.json").read_text())
    causal, full = record["cells"]
    assert causal["refused"] is None
    assert causal["live_pairs"] == 2 * 64 * 65 // 2
    forward = causal["results"]["ours"]["forward"]
    assert len(forward["rounds_ms"]) == 2
    assert forward["tflops"] == pytest.approx(
        4 * causal["live_pairs"] * 16 / forward["median_ms"] / 1e9
    )
    assert "backward on CPU" in " ".join(causal["results"]["flex"]["errors"].values())
    assert "cudnn" in causal["results"]
    assert causal["trials"][0]["options"] == {}
    # The module of `full` is causal: found wrong before any race.
    assert full["refused"].startswith("length 1000: relative error too large: out")
    assert "results" not in full
    assert record["host_cost"]["causal"]["calls"]["ours"]["forward, grad"] > 0
    assert record["references"] == ["formula", "fagen.verify"]
    assert record["seed"] == 0 and record["provenance"]["torch"]
    written = (folder / "out" / "table.md").read_text()
    assert written in capsys.readouterr().out
    assert "full at 1,2,1,64,16: not timed, length 1000" in written


def test_no_time_left_is_said_in_every_cell(folder):
    more = ["--variants", "causal", "--host-variants", "--budget", "0"]
    assert main(arguments(folder, *more)) == 1
    record = json.loads((folder / "out" / "table.json").read_text())
    assert [cell["refused"] for cell in record["cells"]] == ["out of time"]
    assert record["cells"][0]["trials"][0]["errors"] == {"job": "not tried: out of time"}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--shapes", "7"], "shape 7"),
        (["--variants", "casual"], "casual"),
        (["--config-json", "/nowhere.json"], "nowhere"),
    ],
)
def test_bad_arguments_end_with_a_message(folder, capsys, more, said):
    with pytest.raises(SystemExit) as stopped:
        main(arguments(folder, *more))
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err


def test_a_file_is_replaced_whole(tmp_path, monkeypatch):
    path = tmp_path / "table.json"
    write_atomically(path, "first")
    monkeypatch.setattr(Path, "replace", lambda self, target: (_ for _ in ()).throw(OSError()))
    with pytest.raises(OSError):
        write_atomically(path, "second")
    assert path.read_text() == "first"
