"""The variant as kernels see it: fewer names, whole powers multiplied out, and
comparisons arranged so that what a program holds and what it streams stand on opposite sides."""

from __future__ import annotations

from dataclasses import replace

from fagen.analysis.axes import axes_of
from fagen.analysis.linear import Linear, linear
from fagen.spec.expr import Expr, const, make, name, rebuild, substitute, with_args
from fagen.spec.variant import Variant

MOST_FACTORS = 16

_ROW = make("sub", name("q_idx"), name("q_offset"))
_COLUMN = make("sub", name("kv_idx"), name("kv_offset"))
_DENSE = {
    name("q_row"): _ROW,
    name("q_token"): _ROW,
    name("kv_token"): _COLUMN,
    name("total_q"): name("q_len"),
    name("total_kv"): name("kv_len"),
}
#: Of packed sequences each begins somewhere: `q_first` and `kv_first` are 0 in a dense batch.
_PACKED = {
    name("q_row"): _ROW,
    name("q_token"): make("add", _ROW, name("q_first")),
    name("kv_token"): make("add", _COLUMN, name("kv_first")),
}


def dense(variant: Variant) -> Variant:
    """The variant with packed positions written as rows and columns of one dense batch."""
    return _lowered(variant, _DENSE)


def packed(variant: Variant) -> Variant:
    """The variant as the kernels see it, whose sequences may begin anywhere in packed rows."""
    return _lowered(variant, _PACKED)


def _lowered(variant: Variant, positions: dict[Expr, Expr]) -> Variant:
    """Kernels get a bool parameter as an int: Triton's interpreter takes no bools."""
    flags = {
        name(p.name, "bool"): make("gt", name(p.name), const(0))
        for p in variant.parameters
        if p.type == "bool"
    }

    def change(node: Expr) -> Expr:
        return lower_powers(substitute(substitute(node, positions), flags))

    return replace(
        variant,
        mask=change(variant.mask),
        score=change(variant.score),
        sink=None if variant.sink is None else change(variant.sink),
    )


def lower_powers(root: Expr) -> Expr:
    """x ** n, |n| up to 16, as products, with a square root for halves; else by exp2 and log2."""

    def change(node: Expr, args: tuple[Expr, ...]) -> Expr:
        if node.op != "pow" or args[1].op != "const":
            return with_args(node, args)
        base, exponent = args[0], float(args[1].value)  # type: ignore[arg-type]
        if 2 * exponent == int(2 * exponent) and abs(exponent) <= MOST_FACTORS:
            product = _repeated(base, int(abs(exponent)))
            if exponent != int(exponent):
                root = make("sqrt", base)
                product = root if abs(exponent) < 1 else make("mul", product, root)
            return make("div", const(1.0), product) if exponent < 0 else product
        return make("exp2", make("mul", const(exponent), make("log2", base)))

    return rebuild(root, change)


def _repeated(base: Expr, count: int) -> Expr:
    if count == 0:
        return const(1.0)
    half = _repeated(base, count // 2)
    if count == 1:
        return base
    square = make("mul", half, half)
    return make("mul", square, base) if count % 2 else square


def separated(root: Expr) -> Expr:
    """Int comparisons with the key terms on the left and all others on the right.

    `0 <= q - kv` becomes `kv <= q`: one comparison an element against a hoisted row value.
    """

    def change(node: Expr, args: tuple[Expr, ...]) -> Expr:
        node = with_args(node, args)
        if node.op not in _MIRRORED or node.args[0].type != "int":
            return node
        form = linear(node.args[0]).plus(linear(node.args[1]).times(-1))
        if any({"q", "kv"} <= axes_of(t) for t, _ in form.terms):
            return node
        keys = tuple(t for t in form.terms if "kv" in axes_of(t[0]))
        others = tuple(t for t in form.terms if "kv" not in axes_of(t[0]))
        if not keys or not others:
            return node
        left, right = Linear(keys, 0), Linear(others, form.constant).times(-1)
        op = node.op
        if all(c < 0 for _, c in keys):
            left, right, op = left.times(-1), right.times(-1), _MIRRORED[op]
        if op == "lt" and right.constant == 1:
            op, right = "le", right.shifted(-1)
        if op == "gt" and right.constant == -1:
            op, right = "ge", right.shifted(1)
        return make(op, left.expression(), right.expression())

    return rebuild(root, change)


_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
