"""Bounds that hold for every legal call: what may overflow, what is positive, what is nonzero.

Positions and lengths stay within `names.INDEX_LIMIT`; parameters within what the variant declares.
The bounds are plain Python numbers (infinite for floats of unknown size), so they are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from fagen.spec.expr import Expr, post_order
from fagen.spec.names import INDEX_LIMIT
from fagen.spec.variant import Variant

Range = tuple[float, float]
#: Operations that kernels take in 64 bits where the range of their result asks for it.
WIDENED = ("neg", "add", "sub", "mul", "abs", "floordiv", "shl")
INT32 = (-(2**31), 2**31 - 1)
FLOAT: Range = (-math.inf, math.inf)
#: What stays finite when multiplied by log2(e); infinities apart.
SATURATED: Range = (-2.3e38, 2.3e38)

_POSITION: Range = (-2 * INDEX_LIMIT, 2 * INDEX_LIMIT)
_LENGTH: Range = (0, INDEX_LIMIT)
_COUNT: Range = (0, 2**20)
_POSITIVE = (1, 2**20)

_NARROW: dict[str, Range] = {
    "int8": (-(2**7), 2**7 - 1),
    "uint8": (0, 2**8 - 1),
    "int16": (-(2**15), 2**15 - 1),
}

KNOWN: dict[str, Range] = {
    "b": _COUNT, "h": _COUNT, "kv_h": _COUNT,
    "q_idx": _POSITION, "kv_idx": _POSITION, "q_row": _LENGTH,
    "q_token": _LENGTH, "kv_token": _LENGTH, "q_len": _LENGTH, "kv_len": _LENGTH,
    "batch": _COUNT, "heads": _POSITIVE, "kv_heads": _POSITIVE, "head_dim": _POSITIVE,
    "total_q": _LENGTH, "total_kv": _LENGTH, "q_first": _LENGTH, "kv_first": _LENGTH,
    "q_lo": _POSITION, "q_hi": _POSITION, "kv_lo": _POSITION, "kv_hi": _POSITION,
    "q_offset": (-INDEX_LIMIT, INDEX_LIMIT), "kv_offset": (-INDEX_LIMIT, INDEX_LIMIT),
    "origin": _POSITION, "gap": _POSITION, "gap_first": _POSITION,
    "BLOCK_M": (1, 1024), "BLOCK_N": (1, 1024), "step": _LENGTH,
}  # fmt: skip


def declared_ranges(variant: Variant) -> dict[str, Range]:
    """The range of every name and, under `table[]`, of the values of every int tensor."""
    table = dict(KNOWN)
    for p in variant.parameters:
        table[p.name] = (0, 1) if p.type == "bool" else p.bounds
    for t in variant.tensors:
        if t.dtype in _NARROW:
            table[f"{t.name}[]"] = _NARROW[t.dtype]
        if t.value_range is not None:
            # A guarded read may yield 0 where the promise would not.
            table[f"{t.name}[]"] = (min(t.value_range[0], 0), max(t.value_range[1] - 1, 0))
    return table


def ranges(declared: Mapping[str, Range], *roots: Expr) -> dict[Expr, Range]:
    """Bounds of every node below the roots; bools are (0, 1)."""
    found: dict[Expr, Range] = {}
    for node in post_order(*roots):
        found[node] = _range(node, [found[a] for a in node.args], declared)
    return found


def range_of(declared: Mapping[str, Range], root: Expr) -> Range:
    return ranges(declared, root)[root]


def needs_64_bits(bounds: Range) -> bool:
    return bounds[0] < INT32[0] or bounds[1] > INT32[1]


def _unknown(node: Expr) -> Range:
    return {"int": INT32, "bool": (0, 1), "float": FLOAT}[node.type]


def _range(node: Expr, args: list[Range], declared: Mapping[str, Range]) -> Range:
    if node.op == "const":
        return (node.value, node.value)  # type: ignore[return-value]
    if node.op == "name":
        return declared.get(str(node.value), _unknown(node))
    if node.op in ("read", "load"):
        return declared.get(f"{node.value}[]", _unknown(node))
    if node.type == "bool":
        return (0, 1)
    if node.op in ("row_min", "row_max", "float", "saturate"):
        return args[0]
    if node.op == "int" and node.args[0].type == "bool":
        return (0, 1)
    rule = _RULES.get(node.op)
    if rule is None:
        return _unknown(node)
    found = rule(*args)
    # inf - inf among the corners says nothing.
    return _unknown(node) if math.isnan(found[0]) or math.isnan(found[1]) else found


def _product(a: Range, b: Range) -> Range:
    # inf * 0 would be NaN; a bound of 0 times anything is 0.
    corners = [0 if 0 in (x, y) else x * y for x in a for y in b]
    return (min(corners), max(corners))


def _floordiv(a: Range, b: Range) -> Range:
    # Extremes lie at the ends of the divisor's range and next to zero, which no divisor is.
    divisors = [y for y in (b[0], b[1], -1, 1) if y and b[0] <= y <= b[1]]
    corners = [x // y for x in a for y in divisors]
    return (min(corners), max(corners)) if corners else INT32


def _mod(a: Range, b: Range) -> Range:
    if a[0] >= 0 and b[0] >= 1:
        return (0, min(a[1], b[1] - 1))
    return (min(0, b[0] + 1), max(0, b[1] - 1))


def _quotient(a: Range, b: Range) -> Range:
    if b[0] <= 0 <= b[1]:
        return FLOAT
    corners = [0.0 if x == 0 else 0.0 if math.isinf(y) else x / y for x in a for y in b]
    return (min(corners), max(corners))


def _amounts(b: Range) -> tuple[int, int]:
    """A shift goes by 0 to 31 bits; more is an error of the call."""
    low, high = (int(min(max(end, 0), 31)) for end in b)
    return low, high


def _shift_left(a: Range, b: Range) -> Range:
    low, high = _amounts(b)
    return _product(a, (2**low, 2**high))


def _shift_right(a: Range, b: Range) -> Range:
    corners = [int(x) >> n for x in a for n in _amounts(b)]
    return (min(corners), max(corners))


def _bits(a: Range, b: Range) -> Range:
    """What as many bits as the operands have can say."""
    count = max(int(x if x >= 0 else ~int(x)).bit_length() for x in (*a, *b))
    return (0 if a[0] >= 0 and b[0] >= 0 else -(2**count), 2**count - 1)


def _and(a: Range, b: Range) -> Range:
    upper = [int(r[1]) for r in (a, b) if r[0] >= 0]
    return (0, min(upper)) if upper else _bits(a, b)


def _magnitude(a: Range) -> Range:
    largest = max(abs(a[0]), abs(a[1]))
    return (0 if a[0] <= 0 <= a[1] else min(abs(a[0]), abs(a[1])), largest)


_RULES: dict[str, Callable[..., Range]] = {
    "neg": lambda a: (-a[1], -a[0]),
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "mul": _product,
    "div": _quotient,
    "floordiv": _floordiv,
    "mod": _mod,
    "min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "max": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "clamp": lambda x, lo, hi: (min(max(x[0], lo[0]), hi[0]), min(max(x[1], lo[1]), hi[1])),
    "abs": _magnitude,
    "where": lambda c, a, b: (min(a[0], b[0]), max(a[1], b[1])),
    "bitand": _and,
    "bitor": _bits,
    "bitxor": _bits,
    "shl": _shift_left,
    "shr": _shift_right,
    "invert": lambda a: (-a[1] - 1, -a[0] - 1),
    "exp": lambda a: (0.0, math.inf),
    "exp2": lambda a: (0.0, math.inf),
    "sigmoid": lambda a: (0.0, 1.0),
    "tanh": lambda a: (-1.0, 1.0),
    "sin": lambda a: (-1.0, 1.0),
    "cos": lambda a: (-1.0, 1.0),
    "sqrt": lambda a: (0.0, math.inf),
    "rsqrt": lambda a: (0.0, math.inf),
    "floor": lambda a: (a[0] if math.isinf(a[0]) else math.floor(a[0]), a[1]),
}
