"""Processes that run trials: one that crashes or hangs costs the trial at hand, and is replaced."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Literal

from fagen.device.pool import NoWorker
from fagen.verify.fuzz.outcomes import Outcome, Trial

#: Seconds to import torch and Triton, and for one trial (on cuda with compilation).
START_LIMIT = 120.0
TRIAL_LIMIT = {"cpu": 60.0, "cuda": 180.0}
#: Trials after which a process is replaced: every module stays in it.
RETIRE_AFTER = 150
#: The first line of a process: torch and Triton are imported.
READY = "ready"


class Worker:
    """One process at a time, of a module that speaks as `fagen.verify.fuzz.worker` does.

    `limit` is the time for one trial in seconds. Close it, or use it as a context. Running a trial
    raises NoWorker where no process starts.
    """

    def __init__(
        self,
        device: Literal["cpu", "cuda"],
        limit: float | None = None,
        module: str = "fagen.verify.fuzz.worker",
    ) -> None:
        self.module = module
        self.device = device
        self.limit = limit or TRIAL_LIMIT[device]
        self.process: subprocess.Popen[bytes] | None = None
        self.trials = 0
        self.rest = b""
        self.folder = tempfile.TemporaryDirectory(prefix="fagen-fuzz-")

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def run(self, trial: Trial) -> Outcome:
        """The trial's outcome, `crashed` or `timed_out` if it took the process along."""
        if self.process is None or self.process.poll() is not None or self.trials >= RETIRE_AFTER:
            self.stop()
            self.start()
        process = self.process
        assert process is not None and process.stdin is not None
        self.trials += 1
        started = time.monotonic()
        line = json.dumps(trial.to_json()) + "\n"
        try:
            process.stdin.write(line.encode())
            process.stdin.flush()
        except BrokenPipeError:
            return Outcome("crashed", message=self.last_words())
        answer = self._line(self.limit)
        seconds = time.monotonic() - started
        if answer is None:
            hung = process.poll() is None and seconds >= self.limit
            words = f"no answer in {self.limit:g} seconds" if hung else self.last_words()
            self.stop()
            return Outcome("timed_out" if hung else "crashed", message=words, seconds=seconds)
        return Outcome.from_json(json.loads(answer))

    def start(self) -> None:
        errors = Path(self.folder.name, "stderr")
        with errors.open("wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", self.module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=self._environment(),
                start_new_session=True,
            )
        self.trials, self.rest = 0, b""
        if self._line(START_LIMIT) != READY:
            words = self.last_words()
            self.stop()
            raise NoWorker(f"a fuzzing process did not start: {words}")

    def _environment(self) -> dict[str, str]:
        root = str(Path(__file__).resolve().parents[3])
        paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "TMPDIR": self.folder.name,
            "TRITON_CACHE_DIR": str(Path(self.folder.name, "triton")),
        }
        environment.pop("TRITON_INTERPRET", None)
        if self.device == "cpu":
            environment["TRITON_INTERPRET"] = "1"
        return environment

    def _line(self, limit: float) -> str | None:
        """The next line of the process; None when it ends or the time is over."""
        process = self.process
        assert process is not None and process.stdout is not None
        deadline = time.monotonic() + limit
        descriptor = process.stdout.fileno()
        while b"\n" not in self.rest:
            patience = deadline - time.monotonic()
            if patience <= 0 or not select.select([descriptor], [], [], patience)[0]:
                return None
            read = os.read(descriptor, 1 << 16)
            if not read:
                process.wait()
                return None
            self.rest += read
        line, self.rest = self.rest.split(b"\n", 1)
        return line.decode()

    def last_words(self) -> str:
        code = self.process.poll() if self.process is not None else None
        how = "" if code is None else signal.Signals(-code).name if code < 0 else f"exit {code}"
        printed = Path(self.folder.name, "stderr").read_text(errors="replace")
        return f"{how}: {printed.strip()[-800:]}"

    def stop(self) -> None:
        if self.process is None:
            return
        # The worker leads a group of its own, so what it started goes with it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self.process = None

    def close(self) -> None:
        self.stop()
        self.folder.cleanup()
