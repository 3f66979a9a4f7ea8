"""The process in which `pool` compiles: `python -m fagen.device.worker LOG`.

Jobs come on stdin and results leave on the original stdout. It ends when stdin does, so it never
outlives its parent by more than the job at hand.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

from fagen.device.compile import DETAIL_LENGTH, compile_kernel
from fagen.device.jobs import Job
from fagen.device.messages import READY, receive, send
from fagen.device.outcome import Result


@cache
def _module(path: Path) -> ModuleType:
    """Loaded once a process: a generated module registers its operators with torch on import."""
    spec = importlib.util.spec_from_file_location(f"fagen_job_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(message: bytes, log: Path) -> Result:
    """The result of one pickled Job; whatever it raises is its own failure, not the worker's."""
    try:
        job: Job = pickle.loads(message)
        kernel = getattr(_module(job.module), job.kernel)
        return compile_kernel(
            kernel,
            job.signature,
            job.constexprs,
            job.target,
            num_warps=job.num_warps,
            num_stages=job.num_stages,
            aligned=job.aligned,
            options=job.options,
            spill_limit=job.spill_limit,
            log=log,
        )
    except Exception as error:
        return Result("compile_failed", f"{type(error).__name__}: {error}"[-DETAIL_LENGTH:])


def main(log: Path) -> None:
    import triton  # noqa: F401  (before READY, so that a job's time limit does not pay for it)

    jobs = sys.stdin.buffer
    with os.fdopen(os.dup(1), "wb") as results:
        # Whatever a module prints must not end up among the results.
        os.dup2(2, 1)
        send(results, READY)
        while (message := receive(jobs)) is not None:
            send(results, pickle.dumps(run(message, log)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
