"""Whether the tiles that pass a test lie side by side, told by how its sides run along the stream.

A comparison of what only rises with what only falls holds from one tile on, or up to one, or
between; several of them leave one run of tiles. Of any other test the answer is that there may be
gaps.
"""

from __future__ import annotations

from collections.abc import Mapping

from fagen.analysis.ranges import INT32, Range, range_of
from fagen.spec.expr import Expr, names_in
from fagen.spec.variant import Tensor

RISES, STAYS, FALLS = 1, 0, -1
_COMPARISONS = ("lt", "le", "gt", "ge", "eq")


class Trends:
    """Reads expressions of tiles; `corners` are the names that rise from tile to tile."""

    def __init__(
        self, corners: frozenset[str], declared: Mapping[str, Range], tensors: Mapping[str, Tensor]
    ) -> None:
        self.corners = corners
        self.declared = declared
        self.tensors = tensors

    def leaves_gaps(self, test: Expr) -> bool:
        """Whether tiles where `test` fails may lie between tiles where it holds.

        Where a table ends and says nothing, a tile may pass for want of knowledge: that is no gap.
        """
        if self._stays(test):
            return False
        if test.op in ("and", "bitand"):
            return any(self.leaves_gaps(a) for a in test.args)
        if test.op in ("or", "bitor"):
            moving = [a for a in test.args if not self._stays(a)]
            return len(moving) > 1 or self.leaves_gaps(moving[0])
        if test.op in _COMPARISONS and test.args[0].type == "int":
            left, right = (self.trend(a) for a in test.args)
            return left is None or right is None or left == right
        return True

    def trend(self, node: Expr) -> int | None:
        """RISES, STAYS or FALLS from tile to tile, each in the wide sense; None for neither."""
        if self._stays(node):
            return STAYS
        if node.op == "name":
            return RISES
        if node.op in ("add", "min", "max"):
            return self._common([self.trend(a) for a in node.args])
        if node.op == "sub":
            return self._common([self.trend(node.args[0]), _turned(self.trend(node.args[1]))])
        if node.op in ("neg", "invert"):
            return _turned(self.trend(node.args[0]))
        if node.op == "mul":
            return self._scaled(*node.args)
        if node.op in ("floordiv", "shr") and self._stays(node.args[1]):
            positive = node.op == "shr" or range_of(self.declared, node.args[1])[0] >= 1
            return self.trend(node.args[0]) if positive else None
        if node.op == "where" and node.args[2].op == "const" and node.args[2].value in INT32:
            return self.trend(node.args[1])
        if node.op == "read":
            return self._read(node)
        return None

    def _stays(self, node: Expr) -> bool:
        return names_in(node).isdisjoint(self.corners)

    def _scaled(self, a: Expr, b: Expr) -> int | None:
        if not self._stays(a):
            a, b = b, a
        low, high = range_of(self.declared, a)
        if not self._stays(a) or low < 0 < high:
            return None
        return self.trend(b) if low >= 0 else _turned(self.trend(b))

    def _read(self, node: Expr) -> int | None:
        tensor = self.tensors.get(str(node.value))
        *outer, last = node.args
        if tensor is None or not tensor.nondecreasing or not all(map(self._stays, outer)):
            return None
        return self.trend(last)

    @staticmethod
    def _common(trends: list[int | None]) -> int | None:
        moving = {t for t in trends if t != STAYS}
        return STAYS if not moving else moving.pop() if len(moving) == 1 else None


def _turned(trend: int | None) -> int | None:
    return None if trend is None else -trend
