"""Solving a mask for one index: conjuncts that bound it become segments, the rest a residual.

A segment is a half-open interval of the streamed index outside of which no pair of the tile can be
live, with an inner interval inside of which every solved conjunct holds for all rows. Bounds come
in closed form where the row expression has one, else from its extremes over the tile's rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fagen.analysis.axes import axes_of
from fagen.analysis.equivalent import solvable
from fagen.analysis.linear import (
    both,
    either,
    floordiv,
    linear,
    maximum,
    minimum,
    negate,
    shift,
    sub,
)
from fagen.analysis.reading import TileReader
from fagen.spec.expr import FALSE, TRUE, Expr, const, make

MOST_SEGMENTS = 4


@dataclass(frozen=True)
class Segment:
    """Live indices lie in [lo, hi); solved conjuncts all hold in [full_lo, full_hi).

    None is unbounded. `gate_may` and `gate_must` are conditions free of the streamed index.
    `residual` is what remains to be tested; TRUE when the segment is the whole truth.
    `solved` are the conjuncts behind the bounds, for people.
    """

    lo: Expr | None
    hi: Expr | None
    full_lo: Expr | None
    full_hi: Expr | None
    gate_may: Expr
    gate_must: Expr
    residual: Expr
    solved: tuple[Expr, ...]


def solve(mask: Expr, streamed: Expr, reader: TileReader) -> tuple[Segment, ...]:
    """The segments whose union holds every live pair; none when the mask is never true."""
    segments = []
    mask = solvable(mask, "kv" if streamed.value == "kv_idx" else "q")
    for conjunction in _alternatives(mask, lambda atom: _narrows(atom, streamed, reader)):
        segment = _segment(conjunction, streamed, reader)
        if segment is not None:
            segments.append(segment)
    return tuple(segments)


@dataclass(frozen=True)
class Bound:
    """streamed >= value (is_lower) or streamed <= value."""

    is_lower: bool
    value: Expr


#: Whether an atom tells tiles apart, by a bound or by their corners.
Narrows = Callable[[Expr], bool]


def _narrows(atom: Expr, streamed: Expr, reader: TileReader) -> bool:
    if bound_on(atom, streamed, reader) is not None:
        return True
    # A comparison with what lies in order along the stream, such as labels of its parts.
    orders = atom.op in ("lt", "le", "gt", "ge") and atom.args[0].type == "int"
    reads = any(reader.is_in_order(a) and streamed in a.args for a in atom.args)
    return orders and reads


def bound_on(atom: Expr, streamed: Expr, reader: TileReader) -> Bound | None:
    """The atom as a bound on the streamed index, or None where it is not one.

    Handles c * streamed + r <= 0 and the like, and (linear) // d compared with a row expression.
    """
    if atom.op not in ("lt", "le", "gt", "ge") or atom.args[0].type != "int":
        return None
    form = linear(atom.args[0]).plus(linear(atom.args[1]).times(-1))
    if atom.op in ("gt", "ge"):
        form = form.times(-1)
    if atom.op in ("lt", "gt"):
        form = form.shifted(1)
    # Now the atom says form <= 0.
    form = form.lowest()
    own_axis = "kv" if streamed.value == "kv_idx" else "q"
    holders = [(t, c) for t, c in form.terms if own_axis in axes_of(t)]
    if len(holders) != 1:
        return None
    term, coefficient = holders[0]
    rest = form.without(term)
    if term is streamed:
        return _divide(coefficient, rest.times(-1).expression())
    if term.op == "floordiv" and coefficient in (1, -1):
        inner, divisor = term.args
        positive = not reader.varies(divisor) and reader._positive(divisor)
        if not positive:
            return None
        if coefficient == 1:
            # inner // d <= r  is  inner < (r + 1) * d
            limit = make("mul", rest.times(-1).shifted(1).expression(), divisor)
            return bound_on(make("lt", inner, limit), streamed, reader)
        limit = make("mul", rest.expression(), divisor)
        return bound_on(make("ge", inner, limit), streamed, reader)
    return None


def _divide(coefficient: int, right: Expr) -> Bound:
    """coefficient * x <= right, solved for x."""
    if coefficient > 0:
        return Bound(False, floordiv(right, const(coefficient)))
    # x >= ceil(-right / |c|) = -floor(right / |c|)
    return Bound(True, sub(const(0), floordiv(right, const(-coefficient))))


def _alternatives(mask: Expr, narrows: Narrows) -> list[tuple[Expr, ...]]:
    """The mask as a union of conjunctions, multiplied out only where that gives bounds."""
    result: list[tuple[Expr, ...]] = [()]
    for part in _conjuncts(_normal(mask)):
        if part is FALSE:
            return []
        options = _options(part, narrows)
        if len(options) * len(result) > MOST_SEGMENTS:
            options = [(part,)]
        result = [(*left, *right) for left in result for right in options]
    unique: list[tuple[Expr, ...]] = []
    for conjunction in result:
        kept = tuple(dict.fromkeys(c for c in conjunction if c is not TRUE))
        if not any(set(other) <= set(kept) for other in unique):
            unique = [u for u in unique if not set(kept) <= set(u)] + [kept]
    return unique


def _options(part: Expr, narrows: Narrows) -> list[tuple[Expr, ...]]:
    if part.op not in ("or", "bitor"):
        return [(part,)]
    options: list[tuple[Expr, ...]] = []
    for side in _disjuncts(part):
        options.extend(_alternatives(side, narrows))
    if all(any(narrows(atom) for atom in option) for option in options):
        return options
    return [(part,)]


def _conjuncts(node: Expr) -> list[Expr]:
    if node.op in ("and", "bitand") and node.type == "bool":
        return [c for a in node.args for c in _conjuncts(a)]
    return [node]


def _disjuncts(node: Expr) -> list[Expr]:
    if node.op in ("or", "bitor") and node.type == "bool":
        return [d for a in node.args for d in _disjuncts(a)]
    return [node]


def _normal(node: Expr) -> Expr:
    """Negations pushed down; int equalities, abs, min and max turned into plain comparisons."""
    if node.op in ("not", "invert") and node.type == "bool":
        inner = node.args[0]
        if inner.op in ("and", "bitand"):
            return either(*(_normal(negate(a)) for a in inner.args))
        if inner.op in ("or", "bitor"):
            return both(*(_normal(negate(a)) for a in inner.args))
        flipped = negate(inner)
        return flipped if flipped is node else _normal(flipped)
    if node.op in ("and", "bitand") and node.type == "bool":
        return both(*(_normal(a) for a in node.args))
    if node.op in ("or", "bitor") and node.type == "bool":
        return either(*(_normal(a) for a in node.args))
    if node.op in ("eq", "lt", "le", "gt", "ge") and node.args[0].type == "int":
        return _normal_comparison(node)
    return node


def _normal_comparison(node: Expr) -> Expr:
    a, b = node.args
    if node.op in ("gt", "ge"):
        return _normal_comparison(make("lt" if node.op == "gt" else "le", b, a))
    if node.op == "eq":
        parts = [_normal_comparison(make("le", a, b)), _normal_comparison(make("ge", a, b))]
        return both(*parts)
    if a.op == "abs":
        x = a.args[0]
        return both(
            _normal_comparison(make(node.op, x, b)),
            _normal_comparison(make(node.op, sub(const(0), b), x)),
        )
    if b.op == "abs":
        x = b.args[0]
        return either(
            _normal_comparison(make(node.op, a, x)),
            _normal_comparison(make(node.op, x, sub(const(0), a))),
        )
    joins = (("max", 0, both), ("min", 1, both), ("min", 0, either), ("max", 1, either))
    for op, side, join in joins:
        if node.args[side].op == op:
            other = node.args[1 - side]
            pairs = [(x, other) if side == 0 else (other, x) for x in node.args[side].args]
            return join(*(_normal_comparison(make(node.op, *pair)) for pair in pairs))
    return node


def _segment(conjunction: tuple[Expr, ...], streamed: Expr, reader: TileReader) -> Segment | None:
    lowers: list[Expr] = []
    uppers: list[Expr] = []
    full_lowers: list[Expr] = []
    full_uppers: list[Expr] = []
    gates: list[tuple[Expr, Expr]] = []
    residual: list[Expr] = []
    solved: list[Expr] = []
    own_axis = "kv" if streamed.value == "kv_idx" else "q"
    for atom in conjunction:
        if own_axis not in axes_of(atom):
            gates.append(reader.truth(atom))
            solved.append(atom)
            continue
        bound = bound_on(atom, streamed, reader)
        extent = None if bound is None else reader.bounds(bound.value)
        if bound is None or extent is None:
            residual.append(atom)
            continue
        solved.append(atom)
        if bound.is_lower:
            lowers.append(extent[0])
            full_lowers.append(extent[1])
        else:
            uppers.append(shift(extent[1], 1))
            full_uppers.append(shift(extent[0], 1))
    gate_may = both(*(g[0] for g in gates))
    if gate_may is FALSE:
        return None
    return Segment(
        lo=_fold(maximum, lowers),
        hi=_fold(minimum, uppers),
        full_lo=_fold(maximum, full_lowers),
        full_hi=_fold(minimum, full_uppers),
        gate_may=gate_may,
        gate_must=both(*(g[1] for g in gates)),
        residual=both(*residual),
        solved=tuple(solved),
    )


def _fold(pick: Callable[[Expr, Expr], Expr], values: list[Expr]) -> Expr | None:
    if not values:
        return None
    total = values[0]
    for value in values[1:]:
        total = pick(total, value)
    return total
