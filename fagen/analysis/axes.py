"""Index sets: which axes of {b, h, q, kv} an expression depends on.

Everything about lifetimes follows from these sets and the role that reads them; no node has a rank
of its own.
"""

from __future__ import annotations

from fagen.spec.expr import Expr, post_order
from fagen.spec.names import INDEX_NAMES, Axes

NONE: Axes = frozenset()

#: Names that only kernels know: the raw product, the column of a key, the distance in a table by
#: distance (whose columns are walked as keys are), the row's log-sum-exp.
KERNEL_NAMES: dict[str, Axes] = {
    "qk": frozenset({"b", "h", "q", "kv"}),
    "kv_column": frozenset({"kv"}),
    "gap": frozenset({"kv"}),
    "lse2": frozenset({"b", "h", "q"}),
}


def axes_of(*roots: Expr) -> Axes:
    """The union of the axes of all names below the roots."""
    found: set[str] = set()
    for node in post_order(*roots):
        found |= own_axes(node)
    return frozenset(found)


def own_axes(node: Expr) -> Axes:
    """The axes a leaf brings in; empty for every other node, for lengths and for parameters."""
    if node.op != "name":
        return NONE
    if node.value in INDEX_NAMES:
        return INDEX_NAMES[str(node.value)].axes
    return KERNEL_NAMES.get(str(node.value), NONE)


def axes_by_node(*roots: Expr) -> dict[Expr, Axes]:
    """The index set of every node below the roots, each computed once."""
    sets: dict[Expr, Axes] = {}
    for node in post_order(*roots):
        sets[node] = own_axes(node).union(*(sets[a] for a in node.args))
        if node.op in ("row_min", "row_max"):
            # A reduction over the tile's rows belongs to the program, like a length.
            sets[node] = sets[node] - {"q", "kv"}
    return sets
