"""Commands in one process: what they print where, and with which code they leave."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fagen.cli import app as application
from fagen.codegen.render import render
from fagen.device.outcome import Resources, Result
from fagen.spec.load import find_variant, load_variant, shipped_names
from fagen.verify.report import CaseResult, Report

WRONG = Report(False, (CaseResult("plain", "wrong", message="dq differs"),), 1.0, 7, "cpu")


def text_of(name: str) -> str:
    return render(load_variant(find_variant(name)))


def test_build_writes_what_it_proved(fagen, quick, tmp_path):
    code, out, err = fagen("build", "causal", "-o", "made")
    assert code == 0
    assert (tmp_path / "made" / "causal.py").read_text() == text_of("causal")
    assert quick["targets"] == [["sm_90"]], "without a GPU"
    assert out.startswith("causal: made/causal.py written (")
    assert "64.0 KiB" in out and "128" in out and "none" in out
    assert "verified on cpu in 1 s, seed 7: 2 cases, worst error 0.50 of its limit (plain)" in out
    assert err.splitlines()[-1] == "causal: verifying"
    assert fagen("build", "causal", "-o", "made")[1].startswith("causal: made/causal.py unchanged")


def test_build_goes_to_build(fagen, quick, tmp_path):
    assert fagen("build", find_variant("full"), "alibi", "--no-verify")[0] == 0
    assert sorted(p.name for p in (tmp_path / "build").iterdir()) == ["alibi.py", "full.py"]
    assert "options" not in quick


def test_the_gpu_at_hand_is_the_target(fagen, quick, monkeypatch):
    monkeypatch.setattr(application, "known_local_target", lambda: "sm_89")
    fagen("build", "full")
    assert quick["targets"] == [["sm_89"]]


@pytest.mark.parametrize(
    "spelling",
    [
        ["--target", "sm_80", "--target", "gfx942"],
        ["--target", "sm_80,gfx942"],
        ["--target", "sm_80", "gfx942"],
        ["--target=sm_80", "gfx942", "--target=sm_80"],
        ["--target", "A100", "mi300x"],
        ["--target", "a100,MI300X"],
    ],
)
def test_targets(fagen, quick, spelling):
    code, out, _ = fagen("build", "full", *spelling)
    assert code == 0 and quick["targets"] == [["gfx942", "sm_80"]]
    assert "gfx942" in out and "sm_80" in out


@pytest.mark.parametrize(
    ("word", "target"),
    [("h100", "sm_90"), ("rtx 4090", "sm_89"), ("RTX4090", "sm_89"), ("4090", "sm_89"),
     ("a6000", "sm_86"), ("rtx_pro_6000", "sm_120"), ("SM90", "sm_90")],
)  # fmt: skip
def test_a_gpu_names_its_target(fagen, quick, word, target):
    assert fagen("build", "full", "--target", word)[0] == 0
    assert quick["targets"] == [[target]]


def test_a_failed_proof_leaves_the_old_file(fagen, quick, tmp_path):
    (tmp_path / "build").mkdir()
    old = tmp_path / "build" / "full.py"
    old.write_text("old\n")
    quick["report"] = WRONG
    code, out, _ = fagen("build", "full")
    assert code == 1 and old.read_text() == "old\n"
    assert "NOT written" in out and "plain: wrong: dq differs" in out and "seed 7" in out
    assert fagen("build", "full", "--no-verify")[0] == 0 and old.read_text() == text_of("full")


def test_a_kernel_that_does_not_fit_is_a_failure_and_spills_are_not(fagen, quick):
    used = Resources(300000, 255, 0, 0, 1, 128)
    quick["result"] = Result("too_much_shared", "needs 300000 bytes of shared memory", used)
    code, out, _ = fagen("build", "full")
    assert code == 1 and "too much shared" in out and "needs 300000 bytes" in out
    quick["result"] = Result("spilled", "spills 12 bytes", Resources(1024, 255, 12, 16, 1, 128))
    code, out, _ = fagen("build", "full")
    assert code == 0 and "12 B" in out


def test_build_as_json(fagen, quick):
    code, out, _ = fagen("build", "full", "causal", "--json")
    modules = json.loads(out)["modules"]
    assert code == 0 and [m["name"] for m in modules] == ["full", "causal"]
    assert modules[0]["state"] == "written" and modules[0]["path"] == "build/full.py"
    kernel = modules[0]["kernels"][0]
    assert kernel["kernel"] == "forward" and kernel["target"] == "sm_90"
    assert kernel["resources"]["shared"] == 65536 and kernel["outcome"] == "ok"
    assert set(kernel["config"]) == {"BLOCK_M", "BLOCK_N", "num_warps", "num_stages"}
    assert modules[0]["verification"]["worst_error_ratio"] == 0.5


def test_check(fagen, quick, tmp_path):
    code, out, _ = fagen("build", "full", "--check")
    assert (code, out) == (1, "build/full.py: missing (there is no such file)\n")
    assert not (tmp_path / "build").exists(), "nothing is written"
    fagen("build", "full")
    assert fagen("build", "full", "--check")[:2] == (0, "build/full.py: current\n")
    path = tmp_path / "build" / "full.py"
    path.write_text(path.read_text() + "# mine\n")
    code, out, _ = fagen("build", "full", "--check")
    assert code == 1 and "stale (edited by hand, or written by another version of fagen)" in out
    path.write_text(text_of("causal"))
    code, out, _ = fagen("build", "full", "--check", "--json")
    (module,) = json.loads(out)["modules"]
    assert code == 1 and module["state"] == "stale" and "the variant is now" in module["why"]
    path.write_text("x = 1\n")
    assert "not a module that fagen wrote" in fagen("build", "full", "--check")[1]


def test_all_errors_of_all_files_come_together(fagen, quick, tmp_path):
    (tmp_path / "a.yaml").write_text("name: a\nmask: q_idx - kv_ix < windw\nscor: 1\n")
    (tmp_path / "b.yaml").write_text("name: b\nmask: 1.5\n")
    code, out, err = fagen("build", "a.yaml", "b.yaml", "nosuch", "causal")
    assert (code, out) == (2, "")
    places = ("a.yaml:2:15", "a.yaml:2:23", "a.yaml:3:1", "b.yaml:2:7")
    for line in (*places, "did you mean `kv_idx`?", "there is no variant `nosuch`"):
        assert line in err
    assert not (tmp_path / "build").exists()


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["build", "full", "--target", "sm_91"], "unknown target `sm_91`", "`sm_90`"),
        (["build", "full", "--target", "h1000"], "unknown target `h1000`", "`H100`? Known: sm_80"),
        (["build", "full", "--target", "tpu"], "unknown target `tpu`", "sm_90 (H100, H200)"),
        (["fuzz", "--count", 1, "--target", "tpu"], "unknown target `tpu`", "sm_90 (H100, H200)"),
        (["build", "causl"], "there is no variant `causl`", "did you mean `causal`?"),
        (["build", "no/such.yaml"], "there is no such file", "fagen new NAME"),
        (["build", "full", "-o", "/proc/self/x"], "cannot write `/proc/self/x`", "-o DIR"),
        (["build", "full", "full"], "both describe `full`", "one at a time"),
        (["verify", "full", "--device", "cuda"], "there is no CUDA device here", "--device cpu"),
        (["explain", "alibi", "--heads", "3", "--kv-heads", "2"], "must divide heads", "--heads"),
        (["explain", "full", "--set", "x=1"], "`full` has no parameter `x`", "it has none"),
        (["explain", "softcap", "--set", "cap=high"], "`cap` must be float", "--set cap=50.0"),
        (["explain", "softcap", "--set", "cap=-1"], "must be from 0.001 to 1.26765", ""),
        (["explain", "softcap", "--set", "cap=nan"], "must be from 0.001 to 1.26765", ""),
        (["explain", "sliding_window", "--set", "window=0"], "from 1 to 268435456, got 0", ""),
        (["explain", "sliding_window", "--set", "window=99999999999"], "from 1 to 268435456", ""),
        (["explain", "causal", "--q-len", 10**14], "`--q-len` must be at most 2**28", ""),
        (["explain", "full", "--kv-len", 2**28 + 1], "`--kv-len` must be at most 2**28", ""),
        (["explain", "full", "--batch", 10**40], "`--batch` must be at most 2**20", ""),
        (["build", "sm_90"], "sm_90: targets, but nothing to build", "variant file"),
        (["build", "l4"], "l4: targets, but nothing to build", "variant file"),
        (["build", "--target", "sm_90", "gfx942"], "gfx942: targets, but nothing", ""),
        (["explain", "document", "--table", "dox=x.npy"], "no tensor `dox`", "`doc`"),
        (["explain", "document", "--table", "doc=x.npy"], "cannot read `x.npy`", "numpy.save"),
        (["new", "2fast"], "`2fast` cannot be the name of a variant", "letters"),
        (["new", "torch"], "`import torch` means something else", "choose another name"),
    ],
)
def test_errors_of_the_user(fagen, quick, monkeypatch, arguments, message, hint):
    monkeypatch.setattr(application, "local_targets", lambda: [])
    code, out, err = fagen(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ") and message in err and hint in err


@pytest.mark.parametrize(
    "arguments",
    [["build"], ["build", "full", "--tagret", "sm_90"], ["explain", "full", "--batch", "0"],
     ["verify", "full", "--level", "deep"], ["bild", "full"],
     ["verify", "full", "--seed", 10**23], ["fuzz", "--seed", 10**23]],
)  # fmt: skip
def test_wrong_usage(fagen, arguments):
    code, out, err = fagen(*arguments)
    assert (code, out) == (2, "") and err.startswith("Usage: fagen")


def test_a_fault_of_fagen_is_told_apart(capsys, quick, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    quick["report"] = RuntimeError("boom")
    with pytest.raises(SystemExit) as leaving:
        application.app(["build", "full"], prog_name="fagen")
    err = capsys.readouterr().err
    assert leaving.value.code == 3
    assert "Traceback" in err and "error: RuntimeError: boom" in err and "fault of fagen" in err


def test_an_interrupt(fagen, quick, tmp_path):
    quick["report"] = KeyboardInterrupt()
    code, out, err = fagen("build", "full")
    assert (code, out) == (130, "") and "interrupted" in err
    assert list((tmp_path / "build").iterdir()) == []


def test_verify(fagen, quick):
    code, out, _ = fagen("verify", "full", "causal", "--seed", "7", "--level", "full")
    assert code == 0 and "no keys" in out and "causal" in out
    assert quick["options"] == {"device": "auto", "level": "full", "seed": 7}
    quick["report"] = WRONG
    code, out, _ = fagen("verify", "full", "--device", "cpu", "--json")
    (variant,) = json.loads(out)["variants"]
    assert code == 1 and variant["ok"] is False
    assert variant["failures"][0]["message"] == "dq differs"


def test_list(fagen):
    code, out, err = fagen("list")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()[1:]] == shipped_names()
    entries = json.loads(fagen("list", "--json")[1])["variants"]
    assert [e["name"] for e in entries] == shipped_names() and all(
        e["description"] for e in entries
    )


def test_new_makes_a_variant_that_builds(fagen, quick, tmp_path):
    code, out, _ = fagen("new", "mine")
    assert (code, out) == (0, "mine.yaml\n")
    assert fagen("build", "mine.yaml")[0] == 0
    (tmp_path / "mine.yaml").write_text("name: mine\n")
    code, _, err = fagen("new", "mine")
    assert code == 2 and "`mine.yaml` exists" in err
    assert (tmp_path / "mine.yaml").read_text() == "name: mine\n"


def test_new_says_where_a_variant_ships_under_the_name(fagen, tmp_path):
    code, out, err = fagen("new", "alibi")
    assert (code, out) == (0, "alibi.yaml\n") and (tmp_path / "alibi.yaml").exists()
    assert "note: a variant that ships is called `alibi` too; `fagen build alibi` is that" in err
    assert "note" not in fagen("new", "mine")[2]


def test_schema(fagen):
    code, out, _ = fagen("schema")
    assert code == 0 and json.loads(out)["$schema"].startswith("https://json-schema.org/")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device without room")
@pytest.mark.parametrize(
    "arguments", [["list"], ["list", "--json"], ["--version"], ["--help"], ["schema"]], ids=str
)
def test_a_full_stdout_is_said(arguments):
    code = "from fagen.cli import main; main()"
    with open("/dev/full", "w") as full:
        run = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )
    assert run.returncode == 2
    assert run.stderr.startswith("error: cannot write to stdout: no space left on device")
    assert "Traceback" not in run.stderr


def test_version_and_help(fagen):
    assert fagen("--version")[1] == "fagen 0.1.0\n"
    code, out, _ = fagen("--help")
    assert code == 0 and "Exit codes: 0 all is well" in " ".join(out.split())
    for command in ("build", "verify", "explain", "list", "new", "schema"):
        assert command in out and fagen(command, "--help")[0] == 0
