"""Which nodes of a DAG become variables: shared ones, demanded ones, and parts of long lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from fagen.codegen.triton_text import Text, TritonText
from fagen.spec.expr import Expr, post_order
from fagen.spec.text import ATOM

WIDEST_TEXT = 60


@dataclass
class Names:
    """Variables of one kernel, no two alike; `reserved` are the template's own."""

    reserved: frozenset[str]
    taken: set[str] = field(default_factory=set)

    def fresh(self, suggestion: str) -> str:
        variable, count = suggestion, 1
        while variable in self.taken or variable in self.reserved:
            count += 1
            variable = f"{suggestion}_{count}"
        self.taken.add(variable)
        return variable


@dataclass
class Writer:
    """Writes assignments for nodes in order. `place` says to which list a node's line goes."""

    printer: TritonText
    texts: dict[Expr, Text]
    place: Callable[[Expr], list[str]]
    names: Names
    labels: dict[Expr, str] = field(default_factory=dict)
    named: Callable[[Expr], bool] = lambda node: False

    def write(self, roots: Iterable[Expr]) -> None:
        """Fill `texts` for every root; lines are appended to their places."""
        order = self._unwritten(list(roots))
        uses = Counter(a for node in order for a in set(node.args))
        for node in order:
            text = self._fitting(node)
            self.texts[node] = text
            wanted = node in self.labels or uses[node] > 1 or self.named(node)
            if node.args and wanted and not _is_simple(text):
                self._assign(node)

    def _unwritten(self, roots: list[Expr]) -> list[Expr]:
        """Operands before users; what lies below a node that has its text is not needed."""
        needed: dict[Expr, None] = {}
        stack = [root for root in roots if root not in self.texts]
        while stack:
            node = stack.pop()
            if node not in needed:
                needed[node] = None
                stack += [a for a in node.args if a not in self.texts]
        return [node for node in post_order(*roots) if node in needed]

    def _fitting(self, node: Expr) -> Text:
        """The node's text, with its longest operands named until it fits on a line."""
        while True:
            text = self.printer.text(node, [self.texts[a] for a in node.args])
            long = [a for a in node.args if not _is_simple(self.texts[a])]
            if len(text[0]) <= WIDEST_TEXT or not long:
                return text
            self._assign(max(long, key=lambda a: len(self.texts[a][0])))

    def _assign(self, node: Expr) -> None:
        variable = self.names.fresh(self.labels.get(node) or suggested_name(node))
        self.place(node).append(f"{variable} = {self.texts[node][0]}")
        self.texts[node] = (variable, ATOM)


def _is_simple(text: Text) -> bool:
    return re.fullmatch(r"-?[\w.]+", text[0]) is not None


def suggested_name(node: Expr) -> str:
    """A name from what the node is: the tensor and axes it reads, or its operation."""
    if node.op == "load":
        row, last, _ = node.args
        return f"{node.value}_{_places(*row.args, last)}".rstrip("_")
    if node.op == "row_of":
        return f"{node.value}_row"
    if node.op in ("saturate", "float", "int"):
        inner = node.args[0]
        return suggested_name(inner) if inner.args else f"{inner.value}_{node.op}"
    return _WORDS.get(node.op, node.op)


_WORDS = {
    "add": "total", "sub": "difference", "mul": "product", "div": "ratio", "neg": "negated",
    "floordiv": "quotient", "mod": "remainder", "and": "both", "or": "either", "not": "negation",
    "lt": "below", "le": "at_most", "gt": "above", "ge": "at_least", "eq": "equal", "ne": "differ",
    "min": "smaller", "max": "larger", "clamp": "clamped", "where": "chosen", "abs": "magnitude",
    "row_min": "least", "row_max": "greatest", "pow": "power",
}  # fmt: skip


def _places(*nodes: Expr) -> str:
    """`b_q` for indices that mention b and q_idx."""
    mentioned = [str(n.value) for n in post_order(*nodes) if n.op == "name"]
    short = [re.sub(r"_(idx|row|token|column)$", "", n) for n in mentioned]
    return "_".join(dict.fromkeys(short))
