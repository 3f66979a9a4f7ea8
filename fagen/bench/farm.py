"""Runs one function over many jobs in worker processes, of which any may fail, hang or die.

Compiling dominates a search over kernel options, so it is spread over the cores; what a job raises
is an answer like any other. Workers are spawned (CUDA does not survive a fork) and share a `turn`
lock, under which a job may use the card alone.
"""

from __future__ import annotations

import math
import multiprocessing as mp
import os
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

#: Errors after which a process's CUDA context refuses all further work.
FATAL = ("illegal memory access", "unspecified launch failure", "misaligned address", "CUDA error")


@dataclass(frozen=True)
class Answer:
    """What became of a job: its value, or the error in one line."""

    value: Any = None
    error: str | None = None


def own_caches() -> None:
    """One fresh kernel cache for this process and its workers: compile times are cold ones."""
    folder = tempfile.mkdtemp(prefix="fagen_bench_")
    os.environ.setdefault("TRITON_CACHE_DIR", f"{folder}/triton")
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", f"{folder}/inductor")
    # Every core already compiles a job of its own.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")


def one_line(error: BaseException, width: int = 300) -> str:
    """An exception as `Type: message`, on one line of at most `width` characters."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:width]


@contextmanager
def exclusive(turn: Any, seconds: float = 30.0) -> Iterator[None]:
    """Holds the lock, or goes on without it after `seconds`: its holder may have died."""
    held = turn.acquire(timeout=seconds)
    try:
        yield
    finally:
        if held:
            turn.release()


def _work(function: Callable[[Any, Any], Any], connection: Connection, turn: Any) -> None:
    while (job := connection.recv()) is not None:
        try:
            answer = Answer(function(job[0], turn))
        except Exception as error:
            answer = Answer(error=one_line(error))
        connection.send(answer)
        if answer.error and any(sign in answer.error for sign in FATAL):
            return


@dataclass
class _Worker:
    process: Any
    connection: Connection
    job: int


def farm(
    function: Callable[[Any, Any], Any],
    jobs: Sequence[Any],
    *,
    workers: int,
    seconds: float = math.inf,
    grace: float = 15.0,
    on_answer: Callable[[int, Answer], None] = lambda index, answer: None,
) -> list[Answer]:
    """`function(job, turn)` for every job, in order of submission; one Answer a job.

    `function` must be importable by name. After `seconds` no further job starts, running ones get
    `grace` more seconds, and the rest are answered with the error "not tried: out of time".
    """
    context = mp.get_context("spawn")
    turn = context.Lock()
    waiting = deque(range(len(jobs)))
    answers: list[Answer | None] = [None] * len(jobs)
    crew: list[_Worker] = []
    dismissed: list[_Worker] = []
    end = time.monotonic() + seconds

    def hire() -> None:
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(function, theirs, turn), daemon=True)
        process.start()
        theirs.close()
        crew.append(_Worker(process, ours, -1))
        assign(crew[-1])

    def assign(worker: _Worker) -> None:
        if waiting and time.monotonic() < end:
            worker.job = waiting.popleft()
            worker.connection.send((jobs[worker.job],))
        else:
            _dismiss(worker)
            crew.remove(worker)
            dismissed.append(worker)

    def settle(worker: _Worker) -> None:
        try:
            answer, alive = worker.connection.recv(), True
        except (EOFError, OSError):
            worker.process.join()
            answer = Answer(error=f"worker died with exit code {worker.process.exitcode}")
            alive = False
        answers[worker.job] = answer
        on_answer(worker.job, answer)
        if alive and not (answer.error and any(sign in answer.error for sign in FATAL)):
            assign(worker)
        else:
            crew.remove(worker)
            if waiting and time.monotonic() < end:
                hire()

    try:
        while len(crew) < workers and waiting and time.monotonic() < end:
            hire()
        while crew and time.monotonic() < end + grace:
            ready = wait([worker.connection for worker in crew], timeout=0.5)
            for worker in [worker for worker in crew if worker.connection in ready]:
                settle(worker)
    finally:
        # Nothing of theirs may be left on the card when the caller begins to time.
        for worker in dismissed:
            worker.process.join(timeout=grace)
        for worker in [*crew, *dismissed]:
            worker.process.kill()
            worker.process.join()
    return [answer or Answer(error="not tried: out of time") for answer in answers]


def _dismiss(worker: _Worker) -> None:
    try:
        worker.connection.send(None)
    except OSError:
        return  # It died after its last answer; there is nobody left to tell.
    worker.connection.close()
