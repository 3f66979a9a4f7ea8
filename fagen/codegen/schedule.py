"""From expressions to lines: each node is computed once, at the lifetime its index set allows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from fagen.analysis.axes import axes_by_node, axes_of
from fagen.analysis.ranges import Range, ranges
from fagen.codegen.lifetimes import Lifetime, Role
from fagen.codegen.naming import Names, Writer
from fagen.codegen.reads import lower_reads
from fagen.codegen.triton_text import OWN_FUNCTIONS, Text, TritonText
from fagen.spec.expr import Expr, post_order
from fagen.spec.names import INDEX_NAMES, RESERVED, RESERVED_BY_LAUNCH, RESERVED_IN_KERNELS
from fagen.spec.variant import Tensor

Lines = dict[Lifetime, list[str]]

#: Variables that the templates themselves assign or take, among others.
TAKEN = (
    RESERVED | RESERVED_IN_KERNELS | RESERVED_BY_LAUNCH | INDEX_NAMES.keys() | set(OWN_FUNCTIONS)
)


@dataclass
class Scheduler:
    """Writes lines for one kernel.

    Lines of the program, its rows and its heads are shared by all loops (`hoisted`); those of
    tiles and elements belong to one loop and are returned by `emit`. `in_range` is the variable
    that tells which rows of the stationary tile exist.
    """

    role: Role
    declared: dict[str, Range]
    tensors: dict[str, Tensor]
    in_range: str
    fast: bool = True
    hoisted: Lines = field(default_factory=dict)
    names: Names = field(default_factory=lambda: Names(TAKEN))
    _texts: dict[Expr, Text] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names.taken |= self._given

    @property
    def _given(self) -> set[str]:
        """Names that stand for themselves: those of the language, parameters, lengths of tables."""
        lengths = {str(size) for t in self.tensors.values() for size in t.shape}
        return set(self.declared) | lengths

    def lowered(self, node: Expr) -> Expr:
        return lower_reads(node, self.tensors, self.declared)

    def printer(self, *roots: Expr) -> TritonText:
        def is_streamed(node: Expr) -> bool:
            return self.role.lifetime(axes_of(node)) == Lifetime.TILE

        bounds = ranges(self.declared, *roots)
        return TritonText(bounds, self.tensors, self.in_range, is_streamed, self.fast)

    def emit(self, outputs: Iterable[tuple[str, Expr]]) -> tuple[Lines, dict[str, str]]:
        """(this loop's lines by lifetime, {label: text}) that compute every output.

        A label becomes the variable of its expression unless that is a plain name or number.
        """
        wanted = [(label, self.lowered(node)) for label, node in outputs]
        roots = [node for _, node in wanted]
        level = {n: self.role.lifetime(axes) for n, axes in axes_by_node(*roots).items()}
        crossing = {a for n in post_order(*roots) for a in n.args if level[a] < level[n]}
        texts, local = dict(self._texts), Lines()

        def place(node: Expr) -> tuple[list[str], bool]:
            in_loop = level[node] > Lifetime.HEAD
            return (local if in_loop else self.hoisted).setdefault(level[node], []), in_loop

        writer = Writer(
            printer=self.printer(*roots),
            texts=texts,
            place=place,
            names=self.names,
            labels={node: label for label, node in reversed(wanted)},
            named=crossing.__contains__,
        )
        writer.write(roots)
        self._texts |= {n: t for n, t in texts.items() if level.get(n, 9) <= Lifetime.HEAD}
        return local, {label: texts[node][0] for label, node in wanted}

    def adopt_program_values(self, other: Scheduler) -> None:
        """Use what another scheduler of the same kernel has computed once per program."""
        for node, text in other._texts.items():
            if self.role.lifetime(axes_of(node)) == Lifetime.PROGRAM:
                self._texts[node] = text
        self.names.taken |= other.names.taken | other.names.of_past_loops
