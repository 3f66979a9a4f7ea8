"""Times on a warm card: medians of event-timed repeats, contestants interleaved in rounds."""

from __future__ import annotations

import itertools
import random
import statistics
import time
from collections.abc import Callable, Mapping

import torch

from fagen.bench.farm import one_line

Action = Callable[[], object]
Measure = Callable[[Action], float]


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def milliseconds(action: Action, *, warmup: float = 25.0, repeat: float = 80.0) -> float:
    """Median time of one call in ms; `warmup` and `repeat` are ms spent on each.

    On a GPU by CUDA events with the L2 cleared before each call (triton.testing.do_bench), else by
    the clock.
    """
    if torch.cuda.is_available():
        from triton.testing import do_bench

        return float(do_bench(action, warmup=warmup, rep=repeat, return_mode="median"))
    action()
    times: list[float] = []
    end = time.perf_counter() + repeat / 1e3
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        action()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def matmul_rate(size: int = 8192, products: int = 600, timed: int = 100) -> float:
    """TFLOP/s of bf16 `size`-cubed products on random data: the median of the last `timed`.

    It also warms the card: a cold one runs the first kernels up to 10 % faster.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a, b = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    product = torch.empty_like(a)
    for _ in range(max(products - timed, 0)):
        torch.mm(a, b, out=product)
    if device == "cpu":
        took = milliseconds(lambda: torch.mm(a, b, out=product), repeat=5.0)
        return 2 * size**3 / took / 1e9
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(timed + 1)]
    marks[0].record()
    for mark in marks[1:]:
        torch.mm(a, b, out=product)
        mark.record()
    torch.cuda.synchronize()
    times = [x.elapsed_time(y) for x, y in itertools.pairwise(marks)]
    return 2 * size**3 / statistics.median(times) / 1e9


def race(
    contestants: Mapping[str, Action],
    *,
    rounds: int,
    seed: int,
    measure: Measure = milliseconds,
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Times of every contestant in every round (ms), and the errors of those that failed.

    Each round runs all of them in a fresh random order, so that drift falls on all alike. One that
    fails leaves the race; its earlier rounds are dropped with it.
    """
    shuffler = random.Random(seed)
    times: dict[str, list[float]] = {name: [] for name in contestants}
    errors: dict[str, str] = {}
    for _ in range(rounds):
        order = [name for name in contestants if name not in errors]
        shuffler.shuffle(order)
        for name in order:
            try:
                times[name].append(measure(contestants[name]))
            except Exception as error:
                errors[name] = one_line(error)
                del times[name]
    return times, errors


def seconds_of(action: Action) -> tuple[float, object]:
    """Wall time of one call up to the end of its work on the device, and what it returned."""
    synchronize()
    start = time.perf_counter()
    result = action()
    synchronize()
    return time.perf_counter() - start, result
