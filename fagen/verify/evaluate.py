"""Expressions evaluated in PyTorch: floats in float64, ints in int64, whole index ranges at once.

One of the independent implementations of the semantics table (`fagen.spec.semantics`). It shares
nothing with the analysis or the printers, so that a slip there cannot hide here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from fagen.spec.expr import Expr, post_order

Hook = Callable[[Expr, torch.Tensor], torch.Tensor]


def evaluate(
    root: Expr,
    names: Mapping[str, torch.Tensor | int | float | bool],
    tensors: Mapping[str, torch.Tensor],
    *,
    hook: Hook | None = None,
) -> torch.Tensor:
    """The value of `root`, broadcast over whatever shapes the names have.

    `names` binds every name the expression uses; `tensors` every table it reads. `hook(node,
    value)` may replace the value of any float node (the error budget injects rounding there).
    Autograd flows through float values; a lane whose incoming gradient is zero passes exactly
    zero on, even where the local derivative is infinite or NaN.
    """
    device = _device(names, tensors)
    done: dict[Expr, torch.Tensor] = {}
    for node in post_order(root):
        if node.op == "const":
            value = _constant(node.value, device)
        elif node.op == "name":
            value = _bound(names, str(node.value), node, device)
        elif node.op == "read":
            value = guarded_read(tensors[str(node.value)], [done[a] for a in node.args])
        elif node.op == "pow" and node.args[1].op == "const":
            # No kernel computes the exponent; one a little off has no real power of x < 0.
            exponent = _constant(node.args[1].value, device)
            value = _apply(node.op, [done[node.args[0]], exponent])
        else:
            value = _apply(node.op, [done[a] for a in node.args])
        if hook is not None and node.type == "float":
            value = hook(node, value)
        done[node] = value
    return done[root]


def widen(value: torch.Tensor) -> torch.Tensor:
    """float64 for floats, int64 for ints, bools as they are."""
    if value.dtype == torch.bool:
        return value
    return value.to(torch.float64 if value.dtype.is_floating_point else torch.int64)


def guarded_read(table: torch.Tensor, indices: list[torch.Tensor]) -> torch.Tensor:
    """`table[indices]`, with 0 (or false) where any index is negative or past its axis."""
    table = widen(table)
    indices = list(torch.broadcast_tensors(*indices)) if indices else []
    inside = torch.ones_like(indices[0], dtype=torch.bool) if indices else None
    for axis, index in enumerate(indices):
        inside = inside & (index >= 0) & (index < table.shape[axis])
    if inside is None:
        return table
    zero = torch.zeros((), dtype=table.dtype, device=table.device)
    if table.numel() == 0:
        return zero.expand(inside.shape)
    safe = [torch.where(inside, index, 0) for index in indices]
    return torch.where(inside, table[tuple(safe)], zero)


def _device(names: Mapping, tensors: Mapping) -> torch.device:
    for value in (*names.values(), *tensors.values()):
        if isinstance(value, torch.Tensor):
            return value.device
    return torch.device("cpu")


def _constant(value, device: torch.device) -> torch.Tensor:
    kind = (
        torch.bool
        if isinstance(value, bool)
        else torch.int64
        if isinstance(value, int)
        else torch.float64
    )
    return torch.tensor(value, dtype=kind, device=device)


def _bound(names: Mapping, key: str, node: Expr, device: torch.device) -> torch.Tensor:
    value = names[key]
    if not isinstance(value, torch.Tensor):
        value = _constant(float(value) if node.type == "float" else value, device)
    return widen(value)


def _nonzero(divisor: torch.Tensor) -> torch.Tensor:
    # A zero divisor may sit in a branch that `where` discards; dividing by it would raise.
    return torch.where(divisor == 0, 1, divisor)


_OPERATIONS: dict[str, Callable[..., torch.Tensor]] = {
    "neg": torch.neg,
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "floordiv": lambda x, y: torch.div(x, _nonzero(y), rounding_mode="floor"),
    "mod": lambda x, y: torch.remainder(x, _nonzero(y)),
    "pow": torch.pow,
    "min": torch.minimum,
    "max": torch.maximum,
    "clamp": lambda x, lo, hi: torch.clamp(x, lo, hi),
    "abs": torch.abs,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
    "eq": torch.eq,
    "ne": torch.ne,
    "and": torch.logical_and,
    "or": torch.logical_or,
    "not": torch.logical_not,
    "bitand": torch.bitwise_and,
    "bitor": torch.bitwise_or,
    "bitxor": torch.bitwise_xor,
    "invert": torch.bitwise_not,
    "shl": lambda x, by: x << by,
    "shr": lambda x, by: x >> by,
    "where": torch.where,
    # A float64 to int64 cast truncates towards zero.
    "int": lambda x: x.to(torch.int64),
    "float": lambda x: x.to(torch.float64),
    "floor": torch.floor,
    "exp": torch.exp,
    "exp2": torch.exp2,
    "log": torch.log,
    "log2": torch.log2,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "sin": torch.sin,
    "cos": torch.cos,
}


#: Their results are ints or bools even of floats: nothing to differentiate.
_DISCRETE = {"lt", "le", "gt", "ge", "eq", "ne", "int"}


def _apply(op: str, args: list[torch.Tensor]) -> torch.Tensor:
    function = _OPERATIONS[op]
    if op in _DISCRETE:
        return function(*(a.detach() for a in args))
    if torch.is_grad_enabled() and any(a.requires_grad for a in args):
        return _Quiet.apply(function, *torch.broadcast_tensors(*args))
    return function(*args)


class _Quiet(torch.autograd.Function):
    """An elementwise function whose backward keeps zero gradients zero.

    Plain autograd multiplies: 0 * inf is NaN, so a branch that `where` discarded, or a score that
    the mask removed, would poison the gradient of its operands.
    """

    @staticmethod
    def forward(ctx, function, *args):
        ctx.function = function
        ctx.save_for_backward(*args)
        return function(*args)

    @staticmethod
    def backward(ctx, grad):
        with torch.enable_grad():
            args = [
                a.detach().requires_grad_(needed)
                for a, needed in zip(ctx.saved_tensors, ctx.needs_input_grad[1:], strict=True)
            ]
            value = ctx.function(*args)
        wanted = [a for a in args if a.requires_grad]
        if not value.requires_grad:
            return (None, *(torch.zeros_like(a) if a.requires_grad else None for a in args))
        found = iter(torch.autograd.grad(value, wanted, grad, allow_unused=True))
        result = []
        for a in args:
            piece = next(found) if a.requires_grad else None
            result.append(None if piece is None else torch.where(grad == 0, 0.0, piece))
        return (None, *result)
