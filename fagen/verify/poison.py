"""Uninitialised memory that shows: while active, whatever torch leaves unwritten is NaN."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_FACTORIES = (
    (torch, "empty"),
    (torch, "empty_like"),
    (torch, "empty_strided"),
    (torch, "empty_permuted"),
    (torch.Tensor, "new_empty"),
    (torch.Tensor, "new_empty_strided"),
)


@contextmanager
def poisoned() -> Iterator[None]:
    """Within, tensors made by `torch.empty` and its kin hold NaN (ints: their largest value)."""
    originals = [(owner, name, getattr(owner, name)) for owner, name in _FACTORIES]
    try:
        for owner, name, original in originals:
            setattr(owner, name, _filled(original))
        yield
    finally:
        for owner, name, original in originals:
            setattr(owner, name, original)


@contextmanager
def filled_by_torch() -> Iterator[None]:
    """The same through torch's own deterministic fill, which also sees allocations made in C++."""
    before = torch.are_deterministic_algorithms_enabled()
    warn = torch.is_deterministic_algorithms_warn_only_enabled()
    fill = torch.utils.deterministic.fill_uninitialized_memory
    try:
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.utils.deterministic.fill_uninitialized_memory = True
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warn)
        torch.utils.deterministic.fill_uninitialized_memory = fill


def _filled(factory):
    @functools.wraps(factory)
    def make(*args, **kwargs):
        tensor = factory(*args, **kwargs)
        if isinstance(tensor, torch.Tensor) and tensor.device.type != "meta" and tensor.numel():
            with torch.no_grad():
                kind = tensor.dtype
                if kind.is_floating_point or kind.is_complex:
                    tensor.fill_(float("nan"))
                elif kind != torch.bool:
                    tensor.fill_(torch.iinfo(kind).max)
        return tensor

    return make
