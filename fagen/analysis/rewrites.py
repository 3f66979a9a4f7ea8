"""Rewrites of the score that softmax allows.

The kernels work with base-2 scores of the raw product `qk`. Writing log2(e) * score as

    post_scale * tile_score + row_term

- a term that depends on the row alone cancels in softmax: it leaves the tile and returns in lse;
- a positive factor common to all of the rest moves into the FMA before exp2 (`post_scale`);
- scale and log2(e) fold into scalars computed once per program;
- a distance times a scalar is split into a key part and a row part, both counted from the origin
  of the stationary tile, so that neither loses precision at long context.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from fagen.analysis.axes import axes_of
from fagen.analysis.linear import Linear, linear
from fagen.analysis.products import Product, canonical, is_one_step, product_of, sum_terms
from fagen.analysis.ranges import Range, range_of
from fagen.analysis.reading import KV_IDX, Q_IDX
from fagen.spec.expr import (
    LOG2E,
    Expr,
    const,
    is_const,
    make,
    name,
    post_order,
    saturated,
    substitute,
)
from fagen.spec.scale import signs
from fagen.spec.variant import SCORE, Variant

QK, SCALE, ORIGIN = name("qk", "float"), name("scale", "float"), name("origin")
ONE, ZERO = const(1.0), const(0.0)
_WIDE = ("float32", "bfloat16")
#: What log2(e) multiplies past float32 is larger.
_LARGEST = 2.3e38
#: Operations whose result may be a value read from a table as it is.
_PASSING = ("min", "max", "clamp", "where", "abs", "neg", "add", "sub")


@dataclass(frozen=True)
class TileScore:
    """log2(e) * score = post_scale * score + log2(e) * row_term.

    `score` is in terms of `qk`, `origin` and the language's names. `post_scale` is a scalar of the
    program, positive by `scale_must_be_positive` (a launch check) or by declared bounds.
    `row_term` is in natural units; `reads_qk` tells whether the product of q and k is needed.
    """

    score: Expr
    post_scale: Expr
    scale_must_be_positive: bool
    row_term: Expr
    reads_qk: bool


def in_terms_of_qk(node: Expr) -> Expr:
    """The expression with `score` written as qk * scale and products gathered."""
    return canonical(substitute(node, {SCORE: make("mul", QK, SCALE)}))


def tile_score(variant: Variant, declared: Mapping[str, Range]) -> TileScore:
    """The score as the kernels compute it."""
    rows: list[Product] = []
    rest: list[Product] = []
    for term in sum_terms(in_terms_of_qk(variant.score)):
        row, moving = _split_distance(term)
        for part, target in ((row, rows), (moving, rest)):
            for product in part:
                depends = axes_of(*(b for b, _ in product.powers))
                stays = "kv" in depends or _may_be_infinite(product)
                (target if stays else rows).append(product)
    row_term = _sum([p.expression() for p in rows])
    scaled = [Product(LOG2E).times(_saturated(p, variant, declared)) for p in rest]
    reads_qk = any(QK in _leaves(p) for p in rest)
    if len(scaled) == 1:
        fixed, moving_part = scaled[0].split()
        factor = fixed.expression()
        sign = _sign(fixed, variant, declared)
        if sign is not None and not is_const(factor, 1.0) and moving_part.powers:
            return TileScore(
                moving_part.expression(), factor, sign == "if scale > 0", row_term, reads_qk
            )
    # The product of q and k comes first: its term opens the chain of FMAs.
    scaled.sort(key=lambda p: QK not in dict(p.powers))
    return TileScore(_sum([p.expression() for p in scaled]), ONE, False, row_term, reads_qk)


def _leaves(product: Product) -> set[Expr]:
    return {n for base, _ in product.powers for n in post_order(base) if not n.args}


def _sum(parts: list[Expr]) -> Expr:
    total: Expr | None = None
    for part in parts:
        if is_const(part, 0.0):
            continue
        if total is None:
            total = part
        elif part.op == "neg":
            total = make("sub", total, part.args[0])
        else:
            total = make("add", total, part)
    return total if total is not None else ZERO


def _split_distance(term: Product) -> tuple[list[Product], list[Product]]:
    """(row products, other products) of a term with one factor that is a float of an int sum."""
    for base, power in term.powers:
        if base.op != "float" or power != 1:
            continue
        others = Product(term.coefficient, tuple(x for x in term.powers if x[0] is not base))
        if axes_of(*(b for b, _ in others.powers)) & {"q", "kv"}:
            continue
        split = _split_int(linear(base.args[0]))
        if split is None:
            continue
        row, column = split
        return (
            [others.times(product_of(make("float", row)))],
            [others.times(product_of(make("float", column)))],
        )
    return [], [term]


def _split_int(form: Linear) -> tuple[Expr, Expr] | None:
    """Row part and key part of a sum; opposite multiples of the two positions use the origin."""
    row = Linear((), form.constant)
    column = Linear((), 0)
    for term, coefficient in form.terms:
        depends = axes_of(term)
        if {"q", "kv"} <= depends:
            return None
        part = Linear(((term, coefficient),), 0)
        if "kv" in depends:
            column = column.plus(part)
        else:
            row = row.plus(part)
    if not column.terms or not any("q" in axes_of(t) for t, _ in row.terms):
        return None
    if form.coefficient(KV_IDX) == -form.coefficient(Q_IDX):
        shift = Linear(((ORIGIN, form.coefficient(KV_IDX)),), 0)
        column, row = column.plus(shift.times(-1)), row.plus(shift)
    return row.expression(), column.expression()


def _may_be_infinite(product: Product) -> bool:
    """Whether an infinity is written in it: its row has no keys, which the tile must see."""
    infinite = any(
        n.op == "const" and n.type == "float" and math.isinf(float(n.value))  # type: ignore[arg-type]
        for base, _ in product.powers
        for n in post_order(base)
    )
    return infinite or not math.isfinite(product.coefficient)


def _saturated(product: Product, variant: Variant, declared: Mapping[str, Range]) -> Product:
    """Finite reads and constants as low as the least of float32 must stay finite times log2(e)."""

    def reads_wide(node: Expr) -> bool:
        if node.op == "const" and node.type == "float":
            return _LARGEST < abs(node.value) < math.inf  # type: ignore[arg-type]
        if node.op == "read":
            return variant.tensor(str(node.value)).dtype in _WIDE
        return node.op in _PASSING and any(reads_wide(a) for a in node.args if a.type == "float")

    def safe(base: Expr) -> Expr:
        wide = reads_wide(base) and any(abs(end) > _LARGEST for end in range_of(declared, base))
        return saturated(base) if wide else base

    return Product(product.coefficient, tuple((safe(b), p) for b, p in product.powers))


def _sign(fixed: Product, variant: Variant, declared: Mapping[str, Range]) -> str | None:
    """The text "positive" if declared so, "if scale > 0", or None where the sign is open.

    No sign is asked of a scale that is negative by default.
    """
    if fixed.coefficient <= 0.0 or not is_one_step(fixed.coefficient):
        return None
    answer = "positive"
    for base, _ in fixed.powers:
        if base is SCALE and 1 not in signs(variant.scale, variant.parameters):
            return None
        if base is SCALE:
            answer = "if scale > 0"
        elif range_of(declared, base)[0] <= 0.0:
            return None
    return answer
