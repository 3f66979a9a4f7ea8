"""The command line in one process, without the parts that have tests of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from fagen.cli import app as application
from fagen.cli import building
from fagen.device.outcome import Resources, Result
from fagen.verify.report import CaseResult, Measure, Report

MEASURED = CaseResult("plain", "ok", (Measure("out", "maximum", 1e-6, 1e-6, 2e-6, 0.5),))
PROVEN = Report(True, (MEASURED, CaseResult("no keys", "ok")), 1.0, 7, "cpu")
FITS = Result("ok", "", Resources(65536, 128, 0, 0, 9000, 128))


@pytest.fixture
def fagen(capsys, tmp_path, monkeypatch):
    """`fagen("build", "causal")` in an empty folder: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as leaving:
            application.app([str(a) for a in arguments], prog_name="fagen")
        out, err = capsys.readouterr()
        assert "\x1b" not in out + err and "Traceback" not in err
        return int(leaving.value.code or 0), out, err

    return run


@pytest.fixture
def quick(monkeypatch):
    """Neither compiles nor verifies: both have tests of their own. Returns what was asked for."""
    asked: dict = {"targets": [], "report": PROVEN, "result": FITS}

    def compile_builds(variant, kernels, module, builds):
        assert Path(module).read_text().startswith('"""')
        asked["targets"].append(sorted({b.target for b in builds}))
        return [asked["result"]] * len(builds)

    def verify_module(variant, module, **options):
        asked["options"] = options
        if isinstance(asked["report"], BaseException):
            raise asked["report"]
        return asked["report"]

    monkeypatch.setattr(building, "compile_builds", compile_builds)
    monkeypatch.setattr(building, "verify_module", verify_module)
    monkeypatch.setattr(application, "known_local_target", lambda: None)
    return asked
