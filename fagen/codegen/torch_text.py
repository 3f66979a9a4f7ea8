"""Expression -> dense PyTorch text, for a module's `reference` and for default tables.

Values without an axis are Python numbers there, all others tensors that broadcast to
[batch, heads, q_len, kv_len]; floats are taken in the variable `dtype`.
"""

from __future__ import annotations

import math
import re
from collections import Counter

from fagen.analysis.axes import axes_by_node
from fagen.codegen.triton_text import Text, wrap
from fagen.spec.expr import Expr, make, post_order
from fagen.spec.text import ATOM, BINARY, UNARY

WIDEST_TEXT = 56
_NAME_OR_NUMBER = r"-?([A-Za-z_][\w.]*|[\d.]+(e[+-]?\d+)?)"
_CALLS = {
    "abs": "abs", "exp": "exp", "exp2": "exp2", "log": "log", "log2": "log2", "tanh": "tanh",
    "sigmoid": "sigmoid", "sqrt": "sqrt", "rsqrt": "rsqrt", "sin": "sin", "cos": "cos",
    "floor": "floor", "min": "minimum", "max": "maximum", "clamp": "clamp", "where": "where",
}  # fmt: skip
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
_ON_TENSORS = {"or": "|", "and": "&"}


def torch_lines(
    outputs: dict[str, Expr], *, inline: bool = False, device: str = "q.device"
) -> tuple[list[str], dict[str, str]]:
    """Lines in order, and the text of each output; shared and long parts get names.

    With `inline` there are no lines: everything stands in the texts. `device` is the text of the
    device that numbers go to where they must be tensors.
    """
    roots = list(outputs.values())
    axes = axes_by_node(*roots)
    tensor = {
        n: bool(axes[n]) or any(m.op == "read" for m in post_order(n)) for n in post_order(*roots)
    }
    uses = Counter(a for n in post_order(*roots) for a in set(n.args))
    texts: dict[Expr, Text] = {}
    lines: list[str] = []

    def assign(node: Expr) -> None:
        variable = f"t{len(lines)}"
        lines.append(f"{variable} = {texts[node][0]}")
        texts[node] = (variable, ATOM)

    for node in post_order(*roots):
        text = _text(node, [texts[a] for a in node.args], tensor, device)
        while not inline and len(text[0]) > WIDEST_TEXT:
            longest = max(node.args, key=lambda a: len(texts[a][0]))
            if texts[longest][0].isidentifier() or longest.op in ("const", "name"):
                break
            assign(longest)
            text = _text(node, [texts[a] for a in node.args], tensor, device)
        texts[node] = text
        if node.args and not inline and (uses[node] > 1 or len(text[0]) > WIDEST_TEXT):
            assign(node)
    return lines, {label: texts[root][0] for label, root in outputs.items()}


def _text(node: Expr, args: list[Text], tensor: dict[Expr, bool], device: str) -> Text:
    if node.op == "const":
        value = node.value
        if isinstance(value, float) and not math.isfinite(value):
            return f'float("{value}")', ATOM
        return repr(value), 11 if repr(value).startswith("-") else ATOM
    if node.op == "name":
        return str(node.value), ATOM
    if node.op == "read":
        indices = "".join(f", {a[0]}" for a in args)
        read = f"table_at({node.value}{indices})" if args else str(node.value)
        if node.type == "int" and not args:  # `table_at` widens those it reads
            return f"{read}.to(torch.int64)", ATOM
        return (f"{read}.to(dtype)" if node.type == "float" else read), ATOM
    if not tensor[node]:
        return _scalar(node, args)
    if node.op in ("float", "int"):
        target = "dtype" if node.op == "float" else "torch.int64"
        return f"{wrap(args[0], ATOM)}.to({target})", ATOM
    if node.op in ("not", "invert"):
        return f"~{wrap(args[0], 11)}", 11
    if node.op in BINARY:
        return _infix(node, args, on_tensors=True)
    if node.op == "neg":
        return f"-{wrap(args[0], 11)}", 11
    mixed = [tensor[n] for n in node.args]
    texts = [a[0] for a in args]
    if node.op in ("min", "max") and not all(mixed):
        bound = "max" if node.op == "min" else "min"
        return f"torch.clamp({texts[mixed.index(True)]}, {bound}={texts[mixed.index(False)]})", ATOM
    takes_numbers = mixed[0] and (node.op == "where" or not any(mixed[1:]))
    if not takes_numbers:
        places = range(len(texts))
    elif node.op == "where" and node.type == "float" and not any(mixed[1:]):
        places = range(1, 2)  # two plain floats alone would make float32
    else:
        places = range(0)
    for i in places:
        if not mixed[i]:
            kind = "dtype=dtype, " if node.args[i].type == "float" else ""
            texts[i] = f"torch.as_tensor({texts[i]}, {kind}device={device})"
    return f"torch.{_CALLS[node.op]}({', '.join(texts)})", ATOM


def _infix(node: Expr, args: list[Text], *, on_tensors: bool) -> Text:
    if node.op in _MIRRORED and node.args[0].op == "const":
        # Constants stand on the right, as people write comparisons.
        node, args = make(_MIRRORED[node.op], node.args[1], node.args[0]), args[::-1]
    symbol, level = BINARY[node.op]
    if on_tensors and node.op in _ON_TENSORS:
        symbol, level = _ON_TENSORS[node.op], BINARY["bitand" if node.op == "and" else "bitor"][1]
    if node.op == "pow":
        return _power(wrap(args[0], level + 1), wrap(args[1], level + 1)), level
    tight = level + 1 if level == 4 else level
    return f"{wrap(args[0], tight)} {symbol} {wrap(args[1], level + 1)}", level


def _power(base: str, exponent: str) -> str:
    """Spaced as formatters do: names and numbers stand close to the operator."""
    close = all(re.fullmatch(_NAME_OR_NUMBER, text) for text in (base, exponent))
    return f"{base}**{exponent}" if close else f"{base} ** {exponent}"


def _scalar(node: Expr, args: list[Text]) -> Text:
    """A value of Python numbers: lengths, parameters, literals."""
    if node.op in BINARY:
        return _infix(node, args, on_tensors=False)
    if node.op in UNARY:
        # Python's `~True` is -2.
        symbol, level = UNARY["not" if node.type == "bool" else node.op]
        return f"{symbol}{wrap(args[0], level)}", level
    if node.op == "where":
        return f"({wrap(args[1], 1)} if {wrap(args[0], 1)} else {args[2][0]})", ATOM
    if node.op == "rsqrt":
        return _power(wrap(args[0], 13), "-0.5"), 12
    if node.op == "sigmoid":
        return f"1.0 / (1.0 + math.exp(-{wrap(args[0], 11)}))", 10
    if node.op == "clamp":
        return f"min(max({args[0][0]}, {args[1][0]}), {args[2][0]})", ATOM
    if node.op == "float" and node.args[0].op == "name":
        return args[0]
    call = node.op if node.op in ("abs", "min", "max", "int", "float") else f"math.{node.op}"
    return f"{call}({', '.join(a[0] for a in args)})", ATOM
