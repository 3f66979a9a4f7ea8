"""Compiles many kernels at once, in processes that may crash or hang without harm.

One loop in one thread waits on all workers. A job that kills its worker, or takes too long, costs
that job: it becomes a Result like any other, and a fresh worker takes the next one.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import wait
from pathlib import Path
from typing import IO, cast

import fagen
from fagen.device.jobs import Job
from fagen.device.messages import READY, receive, send
from fagen.device.outcome import Result

#: Seconds within which a worker must have imported Triton.
START_LIMIT = 120.0
#: Characters of a dead worker's last words that are kept.
LAST_WORDS = 2000


class NoWorker(RuntimeError):
    """A worker cannot start, whatever the job; the message holds what it printed."""


def compile_many(
    jobs: Sequence[Job],
    *,
    workers: int | None = None,
    timeout: float = 300.0,
    triton_path: Path | None = None,
) -> list[Result]:
    """The result of every job, in the jobs' order.

    `workers` processes (default: one a core), `timeout` in seconds a job. `triton_path` is a
    folder with another Triton, put in front of the workers' import path. Raises NoWorker.
    """
    waiting = deque(enumerate(pickle.dumps(job) for job in jobs))
    results: dict[int, Result] = {}
    crew: list[_Worker] = []

    def fail(worker: _Worker, result: Result) -> None:
        worker.stop()
        if not worker.ready:
            raise NoWorker(f"a compiling process cannot start: {result.detail}")
        if worker.job is not None:
            results[worker.job] = result
        if waiting:
            worker.start()
        else:
            crew.remove(worker)

    with tempfile.TemporaryDirectory(prefix="fagen-pool-") as scratch:
        try:
            for number in range(min(workers or os.cpu_count() or 1, len(jobs))):
                crew.append(_Worker(Path(scratch, str(number)), triton_path))
            while len(results) < len(jobs):
                for worker in _answering(crew):
                    message = receive(worker.answers)
                    if message is None:
                        fail(worker, Result("crashed", worker.last_words()))
                    elif worker.job is None:
                        worker.become_ready(message)
                    else:
                        results[worker.job] = pickle.loads(message)
                        worker.rest()
                for worker in [w for w in crew if w.deadline < time.monotonic()]:
                    fail(worker, Result("timed_out", f"no answer within {worker.limit:g} s"))
                for worker in crew:
                    if worker.ready and worker.job is None and waiting:
                        worker.give(*waiting.popleft(), timeout)
        finally:
            for worker in crew:
                worker.stop()
    return [results[number] for number in range(len(jobs))]


class _Worker:
    """One process at a time. `job` numbers the job in hand; `deadline` is monotonic seconds."""

    process: subprocess.Popen[bytes]
    answers: IO[bytes]
    job: int | None
    ready: bool
    deadline: float
    limit: float

    def __init__(self, folder: Path, triton_path: Path | None) -> None:
        folder.mkdir()
        self.log = folder / "compiler.log"
        self._errors = folder / "errors.log"
        # fagen's own folder comes last: in a wheel it is site-packages, which holds a Triton too.
        paths = [triton_path, os.environ.get("PYTHONPATH"), Path(fagen.__file__).parent.parent]
        self._environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(str(path) for path in paths if path),
            "TRITON_CACHE_DIR": str(folder / "cache"),
            # What a killed compiler leaves behind goes with the pool's own folder.
            "TMPDIR": str(folder),
        }
        # Under it `triton.jit` makes no kernel that could be compiled.
        self._environment.pop("TRITON_INTERPRET", None)
        self.start()

    def start(self) -> None:
        self.ready = False
        self.rest()
        self._expect(START_LIMIT)
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "fagen.device.worker", str(self.log)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=self._environment,
                # Its own group, so that `stop` takes a running ptxas along.
                start_new_session=True,
            )
        # Both are pipes, as asked for above.
        self._jobs = cast(IO[bytes], self.process.stdin)
        self.answers = cast(IO[bytes], self.process.stdout)

    def become_ready(self, message: bytes) -> None:
        if message != READY:
            raise NoWorker(f"a compiling process began with {message[:100]!r}")
        self.ready = True
        self.rest()

    def give(self, number: int, job: bytes, timeout: float) -> None:
        self.log.unlink(missing_ok=True)
        self.job = number
        self._expect(timeout)
        # A worker that died while it had nothing to do is found by the silence that follows.
        with suppress(BrokenPipeError):
            send(self._jobs, job)

    def rest(self) -> None:
        self.job = None
        self._expect(float("inf"))

    def _expect(self, limit: float) -> None:
        self.limit = limit
        self.deadline = time.monotonic() + limit

    def last_words(self) -> str:
        """How the process ended and the end of what it printed; waits for it to end."""
        code = self.process.wait()
        reason = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        printed = [p.read_text(errors="replace") for p in (self.log, self._errors) if p.exists()]
        return f"{reason}\n{''.join(printed).strip()[-LAST_WORDS:]}".strip()

    def stop(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self._jobs, self.answers):
            # Closing flushes what a dead worker never took.
            with suppress(BrokenPipeError):
                pipe.close()


def _answering(crew: Sequence[_Worker]) -> list[_Worker]:
    """The workers that have answered or ended; waits for one, at most to the first deadline."""
    first = min(worker.deadline for worker in crew) - time.monotonic()
    patience = None if first == float("inf") else max(first, 0.0)
    answered = wait([worker.answers.fileno() for worker in crew], patience)
    return [worker for worker in crew if worker.answers.fileno() in answered]
