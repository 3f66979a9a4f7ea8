"""Candidates, the ranking, and the whole race on a module in plain PyTorch."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from fagen.bench.config_race import (
    RACED,
    Candidate,
    candidates,
    chosen_candidates,
    main,
    rank,
    winners,
)
from fagen.bench.modules import parse_configs
from fagen.bench.problem import Problem

HERE = Path(__file__).parent
SMALL = {"BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 4, "num_stages": 2}
TOO_BIG = {**SMALL, "BLOCK_N": 128}


@pytest.mark.parametrize("role", RACED)
def test_the_built_in_candidates(role):
    found = candidates(role)
    assert 10 < len(found) < 50
    assert len({tuple(c.values()) for c in found}) == len(found)
    for config in found:
        parse_configs({role: config})


def test_the_ranking_takes_medians():
    times = {"a": [1.0, 9.0, 9.0], "b": [2.0, 2.0, 2.0], "c": [2.0]}
    assert rank(times) == [("b", 2.0), ("c", 2.0), ("a", 9.0)]


def entrant(role, config):
    return Candidate("x.py", "causal", Problem(1, 1, 1, 16, 16), role, config, "cpu")


def test_a_winner_needs_to_beat_the_default():
    entrants = {role: [entrant(role, SMALL)] for role in RACED}
    label = entrants["dq"][0].label
    races = {
        "forward": {"ranking": [("default", 1.0), (label, 2.0)]},
        "dkdv": {"ranking": []},
        "dq": {"ranking": [(label, 1.0), ("default", 2.0)]},
    }
    assert winners(races, entrants) == {"dq": SMALL}


def test_candidates_from_a_file(tmp_path):
    path = tmp_path / "candidates.json"
    path.write_text(json.dumps({"dq": [SMALL], "forward": []}))
    assert chosen_candidates(["dq", "forward"], path) == {"dq": [SMALL]}
    path.write_text(json.dumps({"sideways": [SMALL]}))
    with pytest.raises(ValueError, match="sideways"):
        chosen_candidates(["dq"], path)
    path.write_text("[1]")
    with pytest.raises(ValueError, match="roles to lists"):
        chosen_candidates(["dq"], path)


def test_a_race_of_two_of_which_one_cannot_run(tmp_path, capsys, monkeypatch):
    for cache in ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"):
        monkeypatch.setenv(cache, str(tmp_path / "cache"))
    monkeypatch.setenv("TORCHINDUCTOR_COMPILE_THREADS", "1")
    shutil.copy(HERE / "plain_causal.py", tmp_path / "causal.py")
    lists = tmp_path / "candidates.json"
    lists.write_text(json.dumps({"forward": [SMALL, TOO_BIG]}))
    arguments = ["--out", str(tmp_path), "--shape", "1,2,1,64,16", "--modules", str(tmp_path)]
    arguments += ["--candidates", str(lists), "--rounds", "2", "--workers", "1"]
    assert main([*arguments, "--matmul-size", "64"]) == 0
    raced = json.loads((tmp_path / "race.json").read_text())["races"]["causal"]["forward"]
    assert set(raced["ms"]) == {"default", "64x64 w4 s2"}
    assert [len(found) for found in raced["ms"].values()] == [3, 3]
    assert raced["errors"] == {"64x128 w4 s2": "RuntimeError: out of shared memory: forward"}
    assert {label for label, _ in raced["ranking"]} == {"default", "64x64 w4 s2"}
    winner = json.loads((tmp_path / "configs.json").read_text())["causal/D16"]
    assert winner in ({}, {"forward": SMALL})
    assert "causal forward: 2 ran, 1 failed" in capsys.readouterr().out


def test_a_faulty_shape_ends_with_a_message(tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--out", str(tmp_path), "--shape", "9"])
    assert stopped.value.code == 2
    assert "shape 9 is not one of" in capsys.readouterr().err
