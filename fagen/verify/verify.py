"""Proves a generated module against float64, in a process of its own.

The process matters: TRITON_INTERPRET must be set before the module is imported, and a module that
crashes, corrupts a device or never returns must cost one case and not the caller.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import queue
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from fagen.spec.variant import Variant
from fagen.verify.cases import Level, cases_for
from fagen.verify.report import CaseResult, Report

#: Exit status of a worker that asks for a fresh process from the next case on.
RESTART = 3

#: Seconds a process may take to import torch and the module, at the least.
START_TIMEOUT = 60.0

#: Seconds one case may take, compilation included.
CASE_TIMEOUT = {"cpu": 120.0, "cuda": 300.0}


def verify_module(
    variant: Variant,
    module_path: str | os.PathLike[str],
    *,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    level: Level = "quick",
    only: Collection[str] | None = None,
    seed: int | None = None,
    case_timeout: float | None = None,
    on_case: Callable[[CaseResult], None] | None = None,
) -> Report:
    """Runs every case of `variant` against the module at `module_path`.

    "cpu" interprets the kernels (float16 and float32), "cuda" runs them natively, "auto" takes
    CUDA where a device is visible. `only` keeps the cases of these names. `seed` (None: drawn
    afresh) repeats a report. `on_case` is called with each result as it comes. Raises
    FileNotFoundError when there is no such module and ValueError for an unknown name in `only`;
    whatever the module does wrong is in the Report.
    """
    path = Path(module_path).resolve()
    if not path.is_file():
        raise FileNotFoundError(f"no module at {path}")
    kind = ("cuda" if _has_cuda() else "cpu") if device == "auto" else device
    if seed is None:
        seed = random.SystemRandom().randrange(2**31)
    started = time.perf_counter()
    if only is not None:
        known = {c.name for c in cases_for(variant, kind, level)}
        unknown = sorted(set(only) - known)
        if unknown:
            raise ValueError(f"no case of level {level} is called {', '.join(unknown)}")
    timeout = case_timeout or CASE_TIMEOUT[kind]
    run = _Run(variant, path, kind, level, only, seed, timeout, on_case)
    run.all()
    ok = bool(run.results) and all(r.outcome == "ok" for r in run.results)
    seconds = time.perf_counter() - started
    return Report(ok, tuple(run.results), seconds, seed, run.device)


def _has_cuda() -> bool:
    if shutil.which("nvidia-smi") is None:
        return False
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    return listed.returncode == 0 and "GPU" in listed.stdout


@dataclass
class _Run:
    variant: Variant
    path: Path
    kind: str
    level: Level
    only: Collection[str] | None
    seed: int
    timeout: float
    on_case: Callable[[CaseResult], None] | None
    device: str = ""
    results: list[CaseResult] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def all(self) -> None:
        """Workers, one after another, until every case has a result or none can start."""
        self.device = self.kind
        with tempfile.TemporaryDirectory(prefix="fagen-verify-") as folder:
            while not self.names or len(self.results) < len(self.names):
                before = len(self.results)
                fault = self._worker(Path(folder))
                if fault is not None:
                    self._add(fault)
                if len(self.results) == before or (fault and fault.name not in self.names):
                    return

    def _add(self, result: CaseResult) -> None:
        self.results.append(result)
        if self.on_case is not None:
            self.on_case(result)

    def _worker(self, folder: Path) -> CaseResult | None:
        """One worker from the next case on; a result for what it died in, if it did."""
        before = len(self.results)
        request = folder / "request.pickle"
        request.write_bytes(pickle.dumps({
            "variant": self.variant, "module": str(self.path), "device": self.kind,
            "level": self.level, "only": self.only, "seed": self.seed, "start": before,
        }))  # fmt: skip
        errors = folder / "stderr"
        with errors.open("w") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", "fagen.verify.worker", str(request)],
                stdout=subprocess.PIPE, stderr=stderr, text=True, env=self._environment(),
                start_new_session=True,
            )  # fmt: skip
            try:
                running, hung = self._listen(process)
            finally:
                _end(process)
        progressed = len(self.results) > before
        if running is None and not hung and progressed and process.returncode in (0, RESTART):
            return None
        place = "exit" if progressed else "import"
        name = place if running is None else self.names[running]
        if hung:
            waited = self.timeout if running is not None else max(self.timeout, START_TIMEOUT)
            return CaseResult(name, "timed_out", message=f"no answer in {waited:g} seconds")
        code = process.returncode
        how = f"signal {-code}" if code < 0 else f"exit status {code}"
        tail = errors.read_text(errors="replace").strip()[-800:]
        return CaseResult(name, "crashed", message=f"{how}: {tail}")

    def _listen(self, process: subprocess.Popen[str]) -> tuple[int | None, bool]:
        """Takes results until the worker is silent: (case it was running, whether it hung)."""
        lines: queue.Queue[str | None] = queue.Queue()

        def pump() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                lines.put(line)
            lines.put(None)

        threading.Thread(target=pump, daemon=True).start()
        running: int | None = None
        patience = max(self.timeout, START_TIMEOUT)
        while True:
            try:
                line = lines.get(timeout=patience)
            except queue.Empty:
                return running, True
            if line is None:
                process.wait()
                return running, False
            message: dict[str, Any] = json.loads(line)
            if "cases" in message:
                self.device, self.names = message["device"], message["cases"]
            elif "start" in message:
                running, patience = message["start"], self.timeout
            else:
                running = None
                self._add(CaseResult.from_json(message["result"]))

    def _environment(self) -> dict[str, str]:
        environment = dict(os.environ)
        environment.pop("TRITON_INTERPRET", None)
        if self.kind == "cpu":
            environment["TRITON_INTERPRET"] = "1"
        root = str(Path(__file__).resolve().parents[2])
        before = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = root if not before else os.pathsep.join((root, before))
        return environment


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        # The worker leads a process group of its own, so what it started goes with it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait()
