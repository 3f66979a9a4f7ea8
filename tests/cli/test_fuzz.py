"""`fagen fuzz`: its options, its report, a failure kept and repeated."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from fagen.cli import app as application
from fagen.cli import fuzz as fuzzing
from fagen.cli.problems import UserError
from fagen.verify.cases import Case
from fagen.verify.fuzz.campaign import Finding, Summary, draw_trial
from fagen.verify.fuzz.draft import Draft
from fagen.verify.fuzz.outcomes import Outcome, Trial
from fagen.verify.fuzz.record import save

SMALL = Trial(Draft((("drawn", {"name": "drawn", "mask": "kv_idx <= q_idx"}),)), Case("fuzz"), 5)
WRONG = Outcome("wrong", "call", "out: differs")


@pytest.fixture
def fagen(capsys, tmp_path, monkeypatch):
    """`fagen("fuzz", ...)` in an empty folder: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(fuzzing, "local_targets", list)

    def run(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as leaving:
            application.app(["fuzz", *map(str, arguments)], prog_name="fagen")
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return int(leaving.value.code or 0), out, err

    return run


@pytest.fixture
def asked(monkeypatch):
    """No campaign runs; what was asked for, and the summary it answers with."""
    given = {"summary": Summary(3, "cpu", Counter(ok=7, refused=1), Counter({"the mask": 1}))}

    def campaign(**options):
        given.update(options)
        options["on_outcome"](3, WRONG)
        return given["summary"]

    monkeypatch.setattr(fuzzing, "campaign", campaign)
    return given


def test_options_arrive(fagen, asked, tmp_path):
    code, out, err = fagen("--count", 7, "--seed", 3, "--budget", "2m", "--workers", 4,
                           "--keep", "kept")  # fmt: skip
    wanted = {"count": 7, "seed": 3, "seconds": 120.0, "workers": 4, "device": "cpu"}
    assert code == 0 and {key: asked[key] for key in wanted} == wanted
    assert (tmp_path / "kept").is_dir()
    assert "seed 3: wrong: out: differs" in err and "seed 3" in err.splitlines()[-1]
    assert "7 ok, 1 refused" in out and "never met" in out and "the mask" in out


def test_a_time_alone_is_the_limit(fagen, asked):
    fagen("--budget", "90")
    assert asked["seconds"] == 90.0 and asked["count"] > 10**6
    fagen()
    assert asked["seconds"] is None and asked["count"] == 100


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("1.5h", 5400), ("10m", 600)])
def test_times(text, seconds):
    assert fuzzing.seconds_of(text) == seconds


def test_no_time():
    with pytest.raises(UserError):
        fuzzing.seconds_of("soon")


def test_a_failure_is_told_and_fails(fagen, asked):
    summary = asked["summary"]
    summary.kinds[WRONG.kind] += 1
    summary.findings.append(Finding(3, SMALL, WRONG, SMALL))
    code, out, _ = fagen()
    assert code == 1 and "seed 3: wrong: out: differs" in out and "mask: kv_idx <= q_idx" in out
    data = json.loads(fagen("--json")[1])
    assert data["ok"] is False and data["counts"]["ok"] == 7
    assert data["findings"][0]["files"]["drawn.yaml"].startswith("name: drawn")
    assert data["grammar"]["operator //"] == 0 and "operator //" in data["gaps"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--budget", "soon"], "`soon` is no time"),
        (["--device", "cuda"], "there is no CUDA device here"),
        (["--replay", "nothing.json"], "cannot read `nothing.json`"),
    ],
)
def test_errors_of_the_user(fagen, arguments, message):
    code, out, err = fagen(*arguments)
    assert (code, out) == (2, "") and message in err


@pytest.mark.slow
def test_a_real_campaign_and_a_replay(fagen, tmp_path):
    code, out, _ = fagen("--count", 2, "--seed", 11, "--workers", 1, "--device", "cpu", "--json")
    data = json.loads(out)
    assert data["trials"] == 2 and data["seed"] == 11 and code == (0 if data["ok"] else 1)
    path = save(tmp_path, SMALL, WRONG)
    code, out, _ = fagen("--replay", path)
    assert code == 0 and out.strip().endswith("drawn.json: ok")
    assert draw_trial(11, "cpu").seed == 11
