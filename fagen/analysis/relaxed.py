"""A mask where some of its tables are not known: what it may be at most, and must be at least."""

from __future__ import annotations

from collections.abc import Collection

from fagen.analysis.linear import both, either, negate
from fagen.spec.expr import FALSE, TRUE, Expr, post_order


def at_most(mask: Expr, unknown: Collection[str]) -> Expr:
    """A mask without the tables and names in `unknown` that holds wherever `mask` may hold.

    Conditions that read them are taken as true, or as false behind a negation.
    """
    hidden: set[Expr] = set()
    ends: dict[Expr, tuple[Expr, Expr]] = {}
    for node in post_order(mask):
        leaf = node.op in ("name", "read") and node.value in unknown
        if leaf or any(a in hidden for a in node.args):
            hidden.add(node)
        if node.type == "bool":
            ends[node] = _ends(node, ends) if node in hidden else (node, node)
    return ends[mask][0]


def _ends(node: Expr, ends: dict[Expr, tuple[Expr, Expr]]) -> tuple[Expr, Expr]:
    """(may, must) of a condition with something unknown in it."""
    if node.op in ("and", "bitand", "or", "bitor"):
        join = both if node.op in ("and", "bitand") else either
        of_args = [ends[a] for a in node.args]
        return join(*(may for may, _ in of_args)), join(*(must for _, must in of_args))
    if node.op in ("not", "invert"):
        may, must = ends[node.args[0]]
        return negate(must), negate(may)
    return TRUE, FALSE
