"""Which nodes of a DAG become variables: shared ones, demanded ones, and parts of long lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from fagen.analysis.axes import KERNEL_NAMES
from fagen.codegen.triton_text import Text, TritonText
from fagen.spec.expr import Expr, post_order
from fagen.spec.names import INDEX_NAMES
from fagen.spec.text import ATOM

WIDEST_TEXT = 60
_WORD = re.compile(r"[A-Za-z_]\w*")


def words(texts: Iterable[str | None]) -> frozenset[str]:
    """Every name that the texts mention."""
    return frozenset(w for text in texts if text for w in _WORD.findall(text))


@dataclass
class Names:
    """Variables of one kernel. `reserved` are the template's own; `taken` may not be used again.

    A loop's own variables may return in the next loop, but never for a value that is computed
    before the loops: the first loop would overwrite it before the second one reads it.
    """

    reserved: frozenset[str]
    taken: set[str] = field(default_factory=set)
    of_loop: set[str] = field(default_factory=set)
    of_past_loops: set[str] = field(default_factory=set)

    def fresh(self, suggestion: str, *, in_loop: bool = False) -> str:
        barred = self.reserved | self.taken | self.of_loop
        if not in_loop:
            barred |= self.of_past_loops
        variable, count = suggestion, 1
        while variable in barred:
            count += 1
            variable = f"{suggestion}_{count}"
        (self.of_loop if in_loop else self.taken).add(variable)
        return variable

    def end_loop(self) -> None:
        self.of_past_loops |= self.of_loop
        self.of_loop = set()


@dataclass
class Writer:
    """Writes assignments for nodes in order.

    `place` says to which list a node's line goes, and whether that list belongs to a loop.
    """

    printer: TritonText
    texts: dict[Expr, Text]
    place: Callable[[Expr], tuple[list[str], bool]]
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
        lines, in_loop = self.place(node)
        suggestion = self.labels.get(node) or suggested_name(node)
        variable = self.names.fresh(suggestion, in_loop=in_loop)
        lines.append(f"{variable} = {self.texts[node][0]}")
        self.texts[node] = (variable, ATOM)


def _is_simple(text: Text) -> bool:
    return re.fullmatch(r"-?[\w.]+", text[0]) is not None


def suggested_name(node: Expr) -> str:
    """A name from what the node is: the tensor and axes it reads, or its operation."""
    if node.op == "load":
        row, last, _ = node.args
        return f"{node.value}_{_places(*row.args, last)}".rstrip("_")
    if node.op == "row_of":
        return f"{str(node.value).partition('+')[0]}_row"
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


_INDICES = {n for n, entry in INDEX_NAMES.items() if entry.axes} | KERNEL_NAMES.keys()


def _places(*nodes: Expr) -> str:
    """`b_q` for indices that mention b and q_idx."""
    names = [str(n.value) for n in post_order(*nodes) if n.op == "name"]
    mentioned = [n for n in names if n in _INDICES]
    short = [re.sub(r"_(idx|row|token|column)$", "", n) for n in mentioned]
    return "_".join(dict.fromkeys(short))
