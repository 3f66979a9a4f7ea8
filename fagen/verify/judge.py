"""Compares what a module returned with a budget: errors in numbers, faults in words."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from fagen.verify.report import Measure
from fagen.verify.yardstick import QUANTITIES, Budget, norms

_NORMS = ("frobenius", "maximum")


def judge(found: Mapping[str, torch.Tensor], budget: Budget) -> tuple[tuple[Measure, ...], str]:
    """The measures of every quantity found, and what is wrong ("" when nothing is).

    Wrong are: a shape or dtype that differs, a NaN or infinity that is not in the truth (or the
    reverse), anything but 0 where the truth is zero by definition, an error above its limit.
    """
    measures: list[Measure] = []
    faults: list[str] = []
    for name in QUANTITIES:
        if name not in found:
            continue
        value, expected = found[name], budget.truth.values[name]
        fault = _form(name, value, expected, budget) or _positions(name, value, expected)
        zeros = budget.truth.zeros.get(name)
        if not fault and zeros is not None:
            fault = _zeros(name, value, zeros)
        if fault:
            faults.append(fault)
            continue
        pairs = _measures(name, value, expected, budget)
        measures += pairs
        faults += [
            f"{m.quantity}: {m.norm} error {m.error:.3g} exceeds {m.limit:.3g} "
            f"(yardstick {m.yardstick:.3g}); worst at {_worst(value, expected)}"
            for m in pairs
            if not m.ratio <= 1.0
        ][:1]
    return tuple(measures), "; ".join(faults)


def _form(name: str, value: torch.Tensor, expected: torch.Tensor, budget: Budget) -> str:
    if not isinstance(value, torch.Tensor):
        return f"{name}: is {type(value).__name__}, not a tensor"
    if value.shape != expected.shape:
        return f"{name}: shape {list(value.shape)}, not {list(expected.shape)}"
    dtype = torch.float32 if name == "lse" else budget.dtype
    if value.dtype != dtype:
        return f"{name}: dtype {value.dtype}, not {dtype}"
    return ""


def _positions(name: str, value: torch.Tensor, expected: torch.Tensor) -> str:
    value = value.to(torch.float64)
    for kind, at in (
        ("NaN", torch.isnan),
        ("inf", lambda x: x == math.inf),
        ("-inf", lambda x: x == -math.inf),
    ):
        differs = at(value) != at(expected)
        if differs.any():
            place = _first(differs)
            return (
                f"{name}: {int(differs.sum())} elements differ in being {kind}, "
                f"first at {place}: {float(value[place])} instead of {float(expected[place])}"
            )
    return ""


def _zeros(name: str, value: torch.Tensor, zeros: torch.Tensor) -> str:
    stray = zeros.unsqueeze(-1) & (value != 0)
    if not stray.any():
        return ""
    place = _first(stray)
    return (
        f"{name}: {int(stray.sum())} elements without any live pair are not 0, "
        f"first at {place}: {float(value[place])}"
    )


def _measures(
    name: str, value: torch.Tensor, expected: torch.Tensor, budget: Budget
) -> list[Measure]:
    sizes = norms(expected, torch.zeros_like(expected))
    errors = norms(value, expected)
    found = []
    for i, norm in enumerate(_NORMS):
        limit, yard = budget.limit[name][i], budget.yardstick[name][i]
        ratio = errors[i] / limit if limit else (0.0 if errors[i] == 0 else math.inf)
        unit = sizes[i] or 1.0
        found.append(
            Measure(name, norm, errors[i] / unit, yard / unit, limit / unit, ratio)  # type: ignore[arg-type]
        )
    return found


def _first(flags: torch.Tensor) -> tuple[int, ...]:
    return tuple(int(i) for i in flags.nonzero()[0])


def _worst(value: torch.Tensor, expected: torch.Tensor) -> str:
    both = torch.isfinite(value) & torch.isfinite(expected)
    difference = torch.where(both, value.to(torch.float64) - expected, 0.0).abs()
    flat = int(difference.argmax())
    place = tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), expected.shape))
    return f"{place}: {float(value[place]):.6g} instead of {float(expected[place]):.6g}"
