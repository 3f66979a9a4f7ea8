"""What depends on the distance of query and key alone: worth computing once for each distance.

A problem has q_len * kv_len pairs but only q_len + kv_len distances. Where a part of the score
costs more than reading a number, it moves into a table by distance that a kernel fills first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fagen.analysis.axes import axes_by_node, axes_of
from fagen.analysis.linear import Linear, linear
from fagen.analysis.reading import KV_IDX, Q_IDX
from fagen.spec.expr import (
    Expr,
    const,
    make,
    name,
    names_in,
    read,
    substitute,
    tensors_in,
    with_args,
)
from fagen.spec.names import DIMENSIONS
from fagen.spec.variant import Tensor, Variant

#: The table, its length, its first distance, and a distance as a name.
TABULATED, GAPS, GAP_FIRST, GAP = "tabulated", "gaps", name("gap_first"), name("gap")

#: Additions that the reading of one element is worth.
WORTH_A_READ = 24
_COSTS = {
    "floordiv": 8, "mod": 8, "div": 4, "pow": 16, "read": 8,
    "exp": 4, "exp2": 4, "log": 4, "log2": 4, "tanh": 8, "sigmoid": 8,
    "sqrt": 4, "rsqrt": 4, "sin": 16, "cos": 16,
}  # fmt: skip
#: What a table for all sequences cannot know: where each begins, and lengths but those of heads.
_OF_ONE_CALL = {*DIMENSIONS, "q_first", "kv_first", "q_offset", "kv_offset"} - {"heads", "kv_heads"}


@dataclass(frozen=True)
class Tabulation:
    """A variant whose score reads `TABULATED`[heads, gaps]; `entry` is that of distance `GAP`."""

    variant: Variant
    entry: Expr


def tabulate(variant: Variant) -> Tabulation | None:
    """The variant with the dearest part of its score read by distance; None if none is dear."""
    entries, axes = _entries(variant.score), axes_by_node(variant.score)
    found = [
        (cost, node, entry)
        for node, entry in entries.items()
        if node.type == "float" and {"q", "kv"} <= axes[node] <= {"q", "kv", "h"}
        if entry is not None and not _lengths_in(variant, entry)
        if (cost := _cost(entry)) > WORTH_A_READ
    ]
    if not found:
        return None
    # The last of the dearest is the outermost of those that cost the same.
    _, node, entry = max(reversed(found), key=lambda x: x[0])
    index = make("sub", make("sub", Q_IDX, GAP_FIRST), KV_IDX)
    place = read(TABULATED, (name("h"), index), "float")
    table = Tensor(TABULATED, ("heads", GAPS), "float32")
    score = substitute(variant.score, {node: place})
    return Tabulation(replace(variant, score=score, tensors=(*variant.tensors, table)), entry)


def by_distance(node: Expr) -> Expr | None:
    """The expression in terms of `GAP` = q_idx - kv_idx; None if the positions matter otherwise."""
    return _entries(node)[node]


def _entries(root: Expr) -> dict[Expr, Expr | None]:
    """Every node below the root, operands first, in terms of `GAP` where it can be said so."""
    axes = axes_by_node(root)
    done: dict[Expr, Expr | None] = {}
    for node in axes:
        done[node] = _by_distance(node, done) if axes[node] & {"q", "kv"} else node
    return done


def _by_distance(node: Expr, done: dict[Expr, Expr | None]) -> Expr | None:
    if node.op in ("lt", "le", "gt", "ge", "eq", "ne") and node.args[0].type == "int":
        sides = linear(node.args[0]).plus(linear(node.args[1]).times(-1))
        difference = _gap_form(sides, done)
        return None if difference is None else make(node.op, difference, const(0))
    form = linear(node) if node.type == "int" else None
    if form is not None and not form.coefficient(node):
        return _gap_form(form, done)
    args = [done[a] for a in node.args]
    if not args or any(a is None for a in args):
        return None
    return with_args(node, tuple(a for a in args if a is not None))


def _gap_form(form: Linear, done: dict[Expr, Expr | None]) -> Expr | None:
    count = form.coefficient(Q_IDX)
    if form.coefficient(KV_IDX) != -count:
        return None
    total = Linear(((GAP, count),) if count else (), form.constant)
    for term, coefficient in form.terms:
        if term in (Q_IDX, KV_IDX):
            continue
        part = done.get(term) if axes_of(term) & {"q", "kv"} else term
        if part is None:
            return None
        total = total.plus(linear(part).times(coefficient))
    return total.expression()


def _lengths_in(variant: Variant, entry: Expr) -> set[str]:
    """Those of `_OF_ONE_CALL` that it names, or that bound an axis of a table it reads."""
    shapes = {str(size) for t in tensors_in(entry) for size in variant.tensor(t).shape}
    return (names_in(entry) | shapes) & _OF_ONE_CALL


def _cost(entry: Expr) -> int:
    """Additions that the nodes which vary with the distance are worth."""
    varying = [n for n, axes in axes_by_node(entry).items() if n.args and "kv" in axes]
    return sum(_COSTS.get(n.op, 1) for n in varying)
