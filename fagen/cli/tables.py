"""`fagen explain --table NAME=FILE.npy`: tables held to what `attention` asks of its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fagen.cli.problems import UserError
from fagen.spec.errors import did_you_mean
from fagen.spec.variant import Tensor, Variant


def tables_of(
    variant: Variant, options: Sequence[str], lengths: dict[str, Any]
) -> dict[str, np.ndarray]:
    """The tables by name; raises UserError for one that no call under `lengths` would take.

    A name of the user's own is bound by the first table that has such an axis.
    """
    given = {}
    for option in options:
        word, _, path = option.partition("=")
        known = [t.name for t in variant.tensors]
        if word not in known:
            hint = did_you_mean(word, known) or f"it has {', '.join(known) or 'none'}"
            raise UserError(f"`{variant.name}` has no tensor `{word}`", hint)
        given[word] = _read(path)
    # In the order of the variant, as a call checks them.
    bound = dict(lengths)
    for tensor in variant.tensors:
        if tensor.name in given:
            _check(tensor, given[tensor.name], bound)
    return given


def _read(path: str) -> np.ndarray:
    hint = "`numpy.save` writes such files"
    try:
        with open(path, "rb") as file:
            if file.read(6) != b"\x93NUMPY":
                raise UserError(f"`{path}` is not a .npy file", hint)
            file.seek(0)
            return np.lib.format.read_array(file, allow_pickle=False)
    except OSError as error:
        raise UserError(f"cannot read `{path}`: {error.strerror or error}", hint) from None
    except ValueError:
        message = f"`{path}` is cut short, or holds no numbers"
        raise UserError(message, hint) from None


def _check(tensor: Tensor, table: np.ndarray, lengths: dict[str, Any]) -> None:
    # NumPy has no bfloat16, which float32 holds.
    dtype = "float32" if tensor.dtype == "bfloat16" else tensor.dtype
    if table.dtype != np.dtype(dtype):
        hint = f"save it with `.astype(numpy.{np.dtype(dtype).name})`"
        raise UserError(f"`{tensor.name}` must be {dtype}, got {table.dtype}", hint)
    shape = list(table.shape)
    axes = ", ".join(map(str, tensor.shape))
    if len(shape) != len(tensor.shape):
        raise UserError(f"`{tensor.name}` must be [{axes}], got {shape}", "")
    for axis, length in zip(tensor.shape, shape, strict=True):
        if length != (axis if isinstance(axis, int) else lengths.setdefault(axis, length)):
            wanted = [lengths.get(str(a), a) for a in tensor.shape]
            message = f"`{tensor.name}` must be [{axes}], here {wanted}, got {shape}"
            raise UserError(message, "options such as `--batch` and `--q-len` give the lengths")
    if tensor.nondecreasing and (table[..., 1:] < table[..., :-1]).any():
        message = f"`{tensor.name}` must not decrease along its last axis"
        raise UserError(message, "the variant promises `nondecreasing: true`")
    if tensor.value_range is not None and table.size:
        low, high = tensor.value_range
        if table.min() < low or table.max() >= high:
            found = f"got {table.min()} to {table.max()}"
            message = f"`{tensor.name}` must hold values from {low} to {high - 1}, {found}"
            raise UserError(message, "the variant promises its `range`")
