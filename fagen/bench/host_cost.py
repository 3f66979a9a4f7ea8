"""What a call costs the host, whole and part by part, on a problem too small to fill the device.

Wall time over many calls that are issued without waiting; few enough at a time that the launch
queue never fills, with a wait between batches outside the clock. The parts of our call are found
by recording one call: the operator's arguments and every kernel launch, which are then replayed
alone.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
from torch._ops import OpOverload

from fagen.bench.timing import synchronize

Action = Callable[[], object]


def microseconds(
    action: Action, *, calls: int = 100, batches: int = 15, seconds: float = 1.0
) -> float:
    """Host time of one call in us: the median over batches of each batch's mean.

    After `seconds` no further batch starts, so that a slow call cannot hold up the run.
    """
    for _ in range(20):
        action()
    means: list[float] = []
    end = time.perf_counter() + seconds
    while len(means) < batches and (not means or time.perf_counter() < end):
        synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            action()
        means.append((time.perf_counter() - start) / calls * 1e6)
    synchronize()
    return statistics.median(means)


def whole_call(forward: Callable[[], Any], leaves: tuple[torch.Tensor, ...]) -> dict[str, float]:
    """us of one call: without gradients, recording them, and with its backward."""

    def no_grad() -> None:
        with torch.no_grad():
            forward()

    d_out = torch.randn_like(forward())

    def both() -> None:
        torch.autograd.grad(forward(), leaves, d_out)

    return {
        "forward, no grad": microseconds(no_grad),
        "forward, grad": microseconds(forward),
        "forward and backward": microseconds(both, calls=50),
    }


class _Recorder:
    """Stands in for an operator in the module's namespace, keeping each call's arguments."""

    def __init__(self, op: OpOverload, calls: list[tuple[OpOverload, tuple, dict]]) -> None:
        self._op, self._calls = op, calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._calls.append((self._op, args, kwargs))
        return self._op(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._op, name)


@contextmanager
def recorded_ops(module: ModuleType) -> Iterator[list[tuple[OpOverload, tuple, dict]]]:
    """Collects the calls of the module's operators while the block runs."""
    calls: list[tuple[OpOverload, tuple, dict]] = []
    ops = {name: op for name, op in vars(module).items() if isinstance(op, OpOverload)}
    for name, op in ops.items():
        setattr(module, name, _Recorder(op, calls))
    try:
        yield calls
    finally:
        for name, op in ops.items():
            setattr(module, name, op)


@contextmanager
def recorded_launches() -> Iterator[list[tuple[str, Action]]]:
    """Collects every Triton launch while the block runs, as (kernel's name, its replay)."""
    from triton.runtime.jit import JITFunction

    launches: list[tuple[str, Action]] = []
    original = JITFunction.run

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        launches.append((self.fn.__name__, lambda: original(self, *args, **kwargs)))
        return original(self, *args, **kwargs)

    JITFunction.run = run
    try:
        yield launches
    finally:
        JITFunction.run = original


def parts_of_call(module: ModuleType, forward: Callable[[], Any]) -> dict[str, float]:
    """us of our call's parts, forward without gradients; parts that cannot be seen are absent.

    "checks and defaults" is what `attention` does around its operator, "op dispatch" what PyTorch
    adds around the operator's launcher, "launcher" that function without its launches.
    """
    with torch.no_grad(), recorded_ops(module) as ops, recorded_launches() as launches:
        forward()
    replays = list(launches)
    with torch.no_grad():
        whole = microseconds(forward)
        parts = {"attention": whole}
        launch_total = 0.0
        for name, replay in replays:
            took = microseconds(replay)
            parts[f"launch {name}"] = took
            launch_total += took
        if not ops:
            return parts
        op, args, kwargs = ops[0]
        dispatched = microseconds(lambda: op(*args, **kwargs))
        plain = microseconds(lambda: module.launch_forward(*args, **kwargs))
    return {
        **parts,
        "checks and defaults": whole - dispatched,
        "op dispatch": dispatched - plain,
        "launcher": plain - launch_total,
    }
