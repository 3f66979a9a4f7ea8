"""A crash, a hang or a broken module costs one job and nothing else."""

from __future__ import annotations

import os
import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from fagen.device import pool
from fagen.device.jobs import Job
from fagen.device.outcome import Result
from fagen.device.pool import NoWorker, compile_many

COPY = Job(
    module=Path(__file__).with_name("kernels.py"),
    kernel="copy",
    signature={"source_ptr": "*fp32", "target_ptr": "*fp32"},
    constexprs={"BLOCK": 256},
    target="sm_80",
)


def hazard(folder: Path, name: str, source: str) -> Job:
    path = folder / f"{name}.py"
    path.write_text(source)
    return replace(COPY, module=path)


def test_no_jobs_need_no_workers(monkeypatch):
    monkeypatch.setattr(pool, "_Worker", None)
    assert compile_many([]) == []


def test_each_hazard_costs_its_own_job(tmp_path):
    jobs = [
        COPY,
        hazard(tmp_path, "aborts", "import os, sys\nsys.stderr.write('boom')\nos.abort()\n"),
        replace(COPY, constexprs={"BLOCK": 48}),
        hazard(tmp_path, "hangs", "import time\ntime.sleep(600)\n"),
        hazard(tmp_path, "leaves", "import os\nos._exit(3)\n"),
        hazard(tmp_path, "broken", "import no_such_module\n"),
        replace(COPY, kernel="no_such_kernel"),
        replace(COPY, signature={"source_ptr": "*fp32"}),
        replace(COPY, target="gfx942"),
        COPY,
    ]
    results = compile_many(jobs, workers=1, timeout=15)
    outcomes = [result.outcome for result in results]
    assert outcomes == [
        "ok",
        "crashed",
        "compile_failed",
        "timed_out",
        "crashed",
        "compile_failed",
        "compile_failed",
        "compile_failed",
        "ok",
        "ok",
    ]
    details = [result.detail for result in results]
    assert details[1].startswith("SIGABRT") and "boom" in details[1]
    assert "power of 2" in details[2]
    assert details[3] == "no answer within 15 s"
    assert details[4].startswith("exit code 3")
    assert "No module named 'no_such_module'" in details[5]
    assert "no_such_kernel" in details[6]
    assert "`target_ptr` of `copy` has neither a type nor a value" in details[7]
    assert results[0] == results[9], "the same kernel, before and after"


def test_what_a_module_prints_is_not_taken_for_a_result(tmp_path):
    source = COPY.module.read_text() + "\nprint('x' * 100)\nimport os\nos.write(1, b'y' * 100)\n"
    assert compile_many([hazard(tmp_path, "prints", source)])[0].ok


def test_the_users_cache_and_temporary_folder_stay_as_they_were(tmp_path, monkeypatch):
    cache, scratch = tmp_path / "cache", tmp_path / "tmp"
    cache.mkdir()
    scratch.mkdir()
    monkeypatch.setenv("TRITON_CACHE_DIR", str(cache))
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    crash = hazard(tmp_path, "aborts", "import os, tempfile\ntempfile.mkdtemp()\nos.abort()\n")
    outcomes = [result.outcome for result in compile_many([COPY, crash], workers=1)]
    assert outcomes == ["ok", "crashed"]
    assert list(cache.iterdir()) == list(scratch.iterdir()) == []


def test_the_interpreter_of_the_parent_does_not_reach_the_workers(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert compile_many([COPY])[0].ok


def test_a_worker_that_cannot_start_is_an_error_of_the_installation(tmp_path):
    (tmp_path / "triton.py").write_text("raise ImportError('this Triton is broken')\n")
    with pytest.raises(NoWorker, match="this Triton is broken"):
        compile_many([COPY, COPY], triton_path=tmp_path)


def test_a_worker_killed_from_outside_costs_its_job(tmp_path):
    kills_itself = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"
    results = compile_many([hazard(tmp_path, "killed", kills_itself), COPY], workers=2)
    assert results[0] == Result("crashed", "SIGKILL")
    assert results[1].ok


def test_jobs_and_results_cross_processes():
    assert pickle.loads(pickle.dumps(COPY)) == COPY
    result = Result("spilled", "why")
    assert pickle.loads(pickle.dumps(result)) == result


def test_an_interrupt_leaves_no_worker_behind(tmp_path, monkeypatch):
    started = []

    def interrupted(crew):
        started.extend(worker.process.pid for worker in crew)
        raise KeyboardInterrupt

    monkeypatch.setattr(pool, "_answering", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compile_many([COPY, COPY], workers=2)
    assert len(started) == 2
    for pid in started:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
