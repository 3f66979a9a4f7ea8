"""Reads of tables taken apart: the row they lie in, the guard, and the load itself.

As nodes of their own these parts get lifetimes of their own: the pointer to a row is computed once
per program, and a guard is shared by every read at the same place.
"""

from __future__ import annotations

from collections.abc import Mapping

from fagen.analysis.distance import TABULATED
from fagen.analysis.linear import both
from fagen.analysis.ranges import Range, range_of
from fagen.spec.expr import Expr, const, kernel_node, make, name, rebuild, with_args
from fagen.spec.variant import Tensor

#: Indices that one line of a row's start may take.
WIDEST_STEP = 1
_PROVEN = {("b", "batch"), ("h", "heads"), ("kv_h", "kv_heads")}


def lower_reads(root: Expr, tensors: Mapping[str, Tensor], declared: Mapping[str, Range]) -> Expr:
    """The DAG with each read as load(row_of(outer indices), last index, guard)."""

    def change(node: Expr, args: tuple[Expr, ...]) -> Expr:
        if node.op == "name" and "." in str(node.value):
            tensor, axis = str(node.value).split(".")
            return _size(tensors[tensor], int(axis))
        if node.op != "read":
            return with_args(node, args)
        tensor_of = tensors[str(node.value)]
        row = _row_of(str(node.value), args[:-1])
        last = args[-1] if args else const(0)
        guards = [_guard(tensor_of, i, index, declared) for i, index in enumerate(args)]
        if node.value == TABULATED:
            # Its launcher makes room for every distance within a tile.
            guards = []
        return kernel_node("load", (row, last, both(*guards)), str(node.value), node.type)

    return rebuild(root, change)


def _row_of(tensor: str, indices: tuple[Expr, ...]) -> Expr:
    """The row's start; of a table with many axes a part at a time, each with its own lifetime."""
    row = kernel_node("row_of", indices[:WIDEST_STEP], tensor, "int")
    for axis in range(WIDEST_STEP, len(indices), WIDEST_STEP):
        step = indices[axis : axis + WIDEST_STEP]
        row = kernel_node("row_of", (row, *step), f"{tensor}+{axis}", "int")
    return row


def _size(tensor: Tensor, axis: int) -> Expr:
    size = tensor.shape[axis]
    return const(size) if isinstance(size, int) else name(size)


def _guard(tensor: Tensor, axis: int, index: Expr, declared: Mapping[str, Range]) -> Expr:
    """Conditions for the index to lie in its dimension, without those that always hold."""
    size = tensor.shape[axis]
    if index.op == "name" and (index.value, size) in _PROVEN:
        return both()
    low, high = range_of(declared, index)
    conditions = []
    if low < 0:
        conditions.append(make("ge", index, const(0)))
    if not (isinstance(size, int) and high < size):
        conditions.append(make("lt", index, _size(tensor, axis)))
    return both(*conditions)
