"""One node -> Triton text, given the texts of its operands.

Triton divides and shifts like C, so `//` and `%` go through `floor_div` and `floor_mod` unless both
operands are known to be nonnegative; sums and products that may pass 2**31 are taken in 64 bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fagen.analysis.ranges import WIDENED, Range, needs_64_bits
from fagen.spec.expr import Expr, is_const, post_order
from fagen.spec.text import ATOM
from fagen.spec.variant import Tensor

Text = tuple[str, int]

_INFIX = {
    "or": ("|", 5), "bitor": ("|", 5), "bitxor": ("^", 6), "and": ("&", 7), "bitand": ("&", 7),
    "shl": ("<<", 8), "shr": (">>", 8), "add": ("+", 9), "sub": ("-", 9), "mul": ("*", 10),
    "div": ("/", 10), "lt": ("<", 4), "le": ("<=", 4), "gt": (">", 4), "ge": (">=", 4),
    "eq": ("==", 4), "ne": ("!=", 4),
}  # fmt: skip
_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
#: A constant is compared with on the right.
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
_CALLS = {
    "abs": "tl.abs", "exp": "tl.exp", "exp2": "tl.exp2", "log": "tl.log", "log2": "tl.log2",
    "sigmoid": "tl.sigmoid", "sqrt": "tl.sqrt", "rsqrt": "tl.rsqrt", "sin": "tl.sin",
    "cos": "tl.cos", "floor": "tl.floor", "tanh": "tanh", "saturate": "saturate",
}  # fmt: skip
#: Calls that are functions of the generated module, not of Triton.
OWN_FUNCTIONS = ("tanh", "saturate", "floor_div", "floor_mod", "load_streamed")


@dataclass(frozen=True)
class TritonText:
    """Prints nodes for kernels.

    `in_range` names the bool vector of rows inside the sequence; `is_streamed` tells whether a node
    is a vector along the streamed side.
    """

    ranges: Mapping[Expr, Range]
    tensors: Mapping[str, Tensor]
    in_range: str
    is_streamed: Callable[[Expr], bool]
    fast: bool = True
    _long: dict[Expr, bool] = field(default_factory=dict)

    def text(self, node: Expr, args: list[Text]) -> Text:
        if node.op == "const":
            return number(node.value)  # type: ignore[arg-type]
        if node.args and node.op != "row_of" and all(map(_is_number, node.args)):
            # What the compiler would compute by itself is no tensor, and has no `.to()`.
            args = [_as_tensor(a, t) for a, t in zip(node.args, args, strict=True)]
        if node.op == "name":
            return "HEAD_DIM" if node.value == "head_dim" else str(node.value), ATOM
        if node.op == "row_of":
            return self._row(node, args)
        if node.op == "load":
            return self._load(node, args), ATOM
        if node.op in ("floordiv", "mod"):
            return self._division(node, args)
        if node.op in _INFIX:
            return self._infix(node, args)
        if node.op in ("neg", "not", "invert"):
            symbol = "-" if node.op == "neg" else "~"
            return symbol + wrap(self._widened(node, args)[0], 11), 11
        if node.op in ("int", "float"):
            return self._converted(node, args[0]), ATOM
        if node.op in ("row_min", "row_max"):
            return self._extreme(node, args[0][0]), ATOM
        args = self._widened(node, args)
        inner = ", ".join(a[0] for a in args)
        if node.op == "where":
            return f"tl.where({inner})", ATOM
        if node.op in ("min", "max", "clamp"):
            call = {"min": "tl.minimum", "max": "tl.maximum", "clamp": "tl.clamp"}[node.op]
            if node.type == "float":
                inner += ", propagate_nan=tl.PropagateNan.ALL"
            elif node.op == "clamp":
                return f"tl.minimum(tl.maximum({args[0][0]}, {args[1][0]}), {args[2][0]})", ATOM
            return f"{call}({inner})", ATOM
        if node.op == "tanh" and self.fast:
            inner += ", FAST_TANH"
        return f"{_CALLS[node.op]}({inner})", ATOM

    def _is_wide(self, node: Expr) -> bool:
        return node.type == "int" and needs_64_bits(self.ranges[node])

    def is_long(self, root: Expr) -> bool:
        """Whether an int is printed in 64 bits, by its own range or an operand's."""
        for node in () if root in self._long else post_order(root):
            if node not in self._long:
                self._long[node] = self._printed_long(node)
        return self._long[root]

    def _printed_long(self, node: Expr) -> bool:
        if node.type != "int" or node.op in ("name", "int"):
            return False
        if node.op == "const":
            return self._is_wide(node)
        if node.op == "load":
            return self.tensors[str(node.value)].dtype == "int64"
        wide = node.op in WIDENED and self._is_wide(node)
        return wide or any(self._long[a] for a in node.args if a.type == "int")

    def _widened(self, node: Expr, args: list[Text]) -> list[Text]:
        """One operand in 64 bits where the result, or a constant beside it, does not fit into 32.

        Of a constant alone Triton says that it is out of the range of what stands beside it.
        """
        ints = [i for i, a in enumerate(node.args) if a.type == "int"]
        beside = any(node.args[i].op == "const" and self._is_wide(node.args[i]) for i in ints)
        if not (beside or (node.op in WIDENED and self._is_wide(node))):
            return args
        variable = [i for i in ints if node.args[i].op != "const"]
        if not variable or any(self.is_long(node.args[i]) for i in variable):
            return args
        position = next((i for i in variable if not _is_number(node.args[i])), variable[0])
        widened = list(args)
        widened[position] = (f"{wrap(args[position], ATOM)}.to(tl.int64)", ATOM)
        return widened

    def _infix(self, node: Expr, args: list[Text]) -> Text:
        symbol, level = _INFIX[node.op]
        left, right = self._widened(node, args)
        if node.op in _MIRRORED and node.args[0].op == "const" and node.args[1].op != "const":
            symbol, level = _INFIX[_MIRRORED[node.op]]
            left, right = right, left
        # In Python & and | bind tighter than comparisons, so those are wrapped there.
        left_level = level + 1 if node.op in _COMPARISONS else level
        return f"{wrap(left, left_level)} {symbol} {wrap(right, level + 1)}", level

    def _division(self, node: Expr, args: list[Text]) -> Text:
        args = self._widened(node, args)
        if all(self.ranges[a][0] >= 0 for a in node.args):
            symbol = "//" if node.op == "floordiv" else "%"
            return f"{wrap(args[0], 10)} {symbol} {wrap(args[1], 11)}", 10
        function = "floor_div" if node.op == "floordiv" else "floor_mod"
        return f"{function}({args[0][0]}, {args[1][0]})", ATOM

    def _converted(self, node: Expr, arg: Text) -> str:
        inner = node.args[0]
        if inner.op == "const":
            return f"({arg[0]} * 1.0)" if node.op == "float" else f"int({arg[0]})"
        target = "tl.float32" if node.op == "float" else "tl.int32"
        return f"{wrap(arg, ATOM)}.to({target})"

    def _extreme(self, node: Expr, text: str) -> str:
        low, high = (-(2**63), 2**63 - 1) if self.is_long(node.args[0]) else (-(2**31), 2**31 - 1)
        neutral = high if node.op == "row_min" else low
        call = "tl.min" if node.op == "row_min" else "tl.max"
        return f"{call}(tl.where({self.in_range}, {text}, {neutral}))"

    @staticmethod
    def _row(node: Expr, args: list[Text]) -> Text:
        # "t+2": on from a row that the first two indices gave.
        table, _, first = str(node.value).partition("+")
        base, taken = (args[0][0], 1) if first else (f"{table}_ptr", 0)
        # 64 bits: a table may hold more than 2**31 elements.
        steps = [
            f"{_as_64(index, text)} * {table}_stride_{axis}"
            for axis, (index, text) in enumerate(
                zip(node.args[taken:], args[taken:], strict=True), int(first or 0)
            )
        ]
        return " + ".join([base, *steps]), 9 if steps else ATOM

    def _load(self, node: Expr, args: list[Text]) -> str:
        row, last, guard = args
        dtype = self.tensors[str(node.value)].dtype
        pointers = f"{wrap(row, 9)} + {wrap(last, 10)}"
        if is_const(node.args[1], 0):
            pointers = row[0]
        if node.args[2].op == "const":
            load = f"tl.load({pointers})"
        elif self.is_streamed(node) and dtype != "bool":
            load = f"load_streamed({pointers}, {guard[0]})"
        else:
            load = f"tl.load({pointers}, mask={guard[0]}, other=0)"
        if dtype in ("float16", "bfloat16", "float64"):
            return f"{load}.to(tl.float32)"
        return f"{load}.to(tl.int32)" if dtype in ("int8", "uint8", "int16") else load


def number(value: int | float | bool) -> Text:
    """A constant; in Triton as in Python an infinity has no literal."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")', ATOM
    text = repr(value)
    return text, 11 if text.startswith("-") else ATOM


def _as_64(index: Expr, text: Text) -> str:
    return text[0] if _is_number(index) else f"{wrap(text, ATOM)}.to(tl.int64)"


def _is_number(node: Expr) -> bool:
    """Whether the kernel has the value at compile time."""
    return node.op == "const" or (node.op == "name" and node.value == "head_dim")


def _as_tensor(node: Expr, text: Text) -> Text:
    return text if node.op == "const" else (f"tl.full([], {text[0]}, tl.int32)", ATOM)


def wrap(text: Text, level: int) -> str:
    """The text, in parentheses where its operator binds less tightly than `level`."""
    return text[0] if text[1] >= level else f"({text[0]})"
