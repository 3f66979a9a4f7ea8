"""Expressions evaluated with NumPy: what a property test or a pair count sees of the algebra.

Ints are int64 here, so that an overflow in 32 bits shows as a difference, and floats float64.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fagen.spec.expr import Expr, post_order

_UNARY = {
    "neg": np.negative, "abs": np.abs, "not": np.logical_not, "exp": np.exp, "exp2": np.exp2,
    "log": np.log, "log2": np.log2, "tanh": np.tanh, "sqrt": np.sqrt, "sin": np.sin,
    "cos": np.cos, "floor": np.floor,
}  # fmt: skip
_BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide,
    "floordiv": np.floor_divide, "mod": np.mod, "pow": np.power, "min": np.minimum,
    "max": np.maximum, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal, "and": np.logical_and,
    "or": np.logical_or, "bitand": np.bitwise_and, "bitor": np.bitwise_or,
    "bitxor": np.bitwise_xor, "shl": np.left_shift, "shr": np.right_shift,
}  # fmt: skip


def evaluate(
    root: Expr,
    names: Mapping[str, Any],
    tensors: Mapping[str, np.ndarray] | None = None,
) -> Any:
    """The value of `root`: NumPy broadcasting over whatever arrays `names` holds.

    An index outside its tensor reads 0, as in every kernel. `row_min` and `row_max` reduce over
    all of their operand, so `names` must then hold the rows of one tile. KeyError names what is
    missing.
    """
    done: dict[Expr, Any] = {}
    with np.errstate(all="ignore"):
        for node in post_order(root):
            done[node] = _value(node, [done[a] for a in node.args], names, tensors or {})
    return done[root]


def _value(node: Expr, args: list[Any], names: Mapping[str, Any], tensors: Mapping[str, Any]):
    if node.op == "const":
        return np.int64(node.value) if node.type == "int" else node.value  # type: ignore[arg-type]
    if node.op == "name":
        return names[str(node.value)]
    if node.op == "read":
        return guarded_read(_widened(tensors[str(node.value)]), args)
    if node.op in _UNARY:
        return _UNARY[node.op](args[0])
    if node.op in _BINARY:
        return _BINARY[node.op](args[0], args[1])
    if node.op == "where":
        return np.where(args[0], args[1], args[2])
    if node.op == "clamp":
        return np.minimum(np.maximum(args[0], args[1]), args[2])
    if node.op == "invert":
        return np.logical_not(args[0]) if node.type == "bool" else np.invert(args[0])
    if node.op == "int":
        return np.trunc(args[0]).astype(np.int64) if node.args[0].type == "float" else args[0] * 1
    if node.op == "float":
        return np.asarray(args[0], np.float64)
    if node.op == "sigmoid":
        return 1.0 / (1.0 + np.exp(-np.asarray(args[0], np.float64)))
    if node.op == "rsqrt":
        return 1.0 / np.sqrt(args[0])
    if node.op == "saturate":
        return args[0]
    if node.op == "row_min":
        return np.min(args[0])
    if node.op == "row_max":
        return np.max(args[0])
    raise KeyError(node.op)


def _widened(table: np.ndarray) -> np.ndarray:
    """int64 or float64; two bytes of a uint8 table must not wrap when subtracted."""
    if table.dtype == np.bool_:
        return table
    return table.astype(np.float64 if table.dtype.kind == "f" else np.int64, copy=False)


def guarded_read(table: np.ndarray, indices: list[Any]) -> Any:
    """table[indices], 0 where any index is negative or past its dimension."""
    if table.size == 0:
        return np.zeros(np.broadcast_shapes(*(np.shape(i) for i in indices)), table.dtype)
    inside: Any = True
    for index, size in zip(indices, table.shape, strict=True):
        inside = inside & (index >= 0) & (index < size)
    safe = tuple(np.clip(i, 0, n - 1) for i, n in zip(indices, table.shape, strict=True))
    return np.where(inside, table[safe], np.zeros((), table.dtype))
