"""Jobs for the tests of the farm, in a module of their own that a spawned worker can import."""

import os
import time


def act(job, turn):
    """Does as the job says; the lock must be free unless another worker holds it."""
    kind, value = job
    if kind == "square":
        return value * value
    if kind == "raise":
        raise ValueError(f"no {value}\nsecond line")
    if kind == "die":
        os._exit(value)
    if kind == "fatal":
        raise RuntimeError(f"CUDA error: an illegal memory access, process {os.getpid()}")
    if kind == "sleep":
        time.sleep(value)
        return "slept"
    if kind == "die holding the turn":
        turn.acquire()
        os._exit(value)
    if kind == "take the turn":
        from fagen.bench.farm import exclusive

        with exclusive(turn, seconds=value):
            return "went on"
    return os.getpid()
