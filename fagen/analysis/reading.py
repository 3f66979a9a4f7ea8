"""The tile reading: what an expression can be over a whole tile, as expressions of its corners.

An int expression becomes (lo, hi), a bool one (may be true somewhere, must be true everywhere).
Because the results are expressions, what a test evaluates is exactly what a kernel prints.
Soundness is absolute: lo and hi bound every element, `may` is never false where some element is
true, `must` is never true where some element is false. None means unbounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fagen.analysis.axes import axes_of
from fagen.analysis.linear import (
    add,
    both,
    choose,
    compare,
    either,
    floordiv,
    linear,
    maximum,
    minimum,
    mul,
    negate,
    shift,
    sub,
)
from fagen.analysis.ranges import INT32, Range, range_of
from fagen.spec.expr import FALSE, TRUE, Expr, const, extreme, make, name, read
from fagen.spec.variant import Tensor

Bounds = tuple[Expr, Expr]
Truth = tuple[Expr, Expr]

Q_IDX, KV_IDX = name("q_idx"), name("kv_idx")
UNDECIDED: Truth = (TRUE, FALSE)
#: Elements of a table of blocks that one tile is decided by, and the least block worth it.
MOST_CORNERS, LEAST_BLOCK = 4, 8
INT_MIN, INT_MAX = const(INT32[0]), const(INT32[1])


@dataclass
class TileReader:
    """Reads expressions over tiles whose corners are the names q_lo, q_hi, kv_lo and kv_hi.

    `stationary` is the axis whose rows a program holds ("q" in the forward, "kv" in the backward
    of keys): expressions of it alone without closed form are reduced over those rows.
    """

    stationary: str
    declared: Mapping[str, Range]
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    _bounds: dict[Expr, Bounds | None] = field(default_factory=dict)
    _truth: dict[Expr, Truth] = field(default_factory=dict)

    def bounds(self, node: Expr) -> Bounds | None:
        """(lo, hi) of an int expression, both inclusive."""
        if node not in self._bounds:
            self._bounds[node] = self._find_bounds(node)
        return self._bounds[node]

    def truth(self, node: Expr) -> Truth:
        """(may, must) of a bool expression."""
        if node not in self._truth:
            self._truth[node] = self._find_truth(node)
        return self._truth[node]

    def varies(self, node: Expr) -> bool:
        return bool(axes_of(node) & {"q", "kv"})

    def _of_rows_only(self, node: Expr) -> bool:
        return not axes_of(node) & ({"q", "kv"} - {self.stationary})

    def _positive(self, node: Expr) -> bool:
        return range_of(self.declared, node)[0] >= 1

    def _nonnegative(self, node: Expr) -> bool:
        return range_of(self.declared, node)[0] >= 0

    def _at_least_zero(self, low: Expr) -> Expr:
        # A lower bound may be negative although what it bounds is not.
        return low if self._nonnegative(low) else maximum(low, const(0))

    def tells_all(self, node: Expr) -> bool:
        """Whether the corners of a tile tell something of every part of a condition."""
        if node.op in ("and", "bitand", "or", "bitor", "not", "invert"):
            return all(self.tells_all(a) for a in node.args)
        return node in UNDECIDED or self.truth(node) != UNDECIDED

    # Ints

    def _find_bounds(self, node: Expr) -> Bounds | None:
        if not self.varies(node):
            return node, node
        if node is Q_IDX:
            return name("q_lo"), name("q_hi")
        if node is KV_IDX:
            return name("kv_lo"), name("kv_hi")
        closed = self._closed_form(node)
        if closed is not None:
            return closed
        if self._of_rows_only(node):
            return extreme("row_min", node), extreme("row_max", node)
        low, high = range_of(self.declared, node)
        if (low, high) != INT32 and node.op == "read":
            return const(int(low)), const(int(high))
        return None

    def _closed_form(self, node: Expr) -> Bounds | None:
        if node.op in ("add", "sub", "neg", "mul"):
            form = linear(node)
            if form.terms != ((node, 1),):
                return self._of_sum(form.terms, form.constant)
        rule = getattr(self, f"_bounds_{node.op}", None)
        return None if rule is None else rule(node)

    def _of_sum(self, terms: tuple[tuple[Expr, int], ...], constant: int) -> Bounds | None:
        low = high = const(constant)
        for term, coefficient in terms:
            found = self.bounds(term)
            if found is None:
                return None
            first, last = found if coefficient > 0 else (found[1], found[0])
            low = add(low, mul(const(coefficient), first))
            high = add(high, mul(const(coefficient), last))
        return low, high

    def _pair(self, node: Expr) -> tuple[Bounds, Bounds] | None:
        a, b = self.bounds(node.args[0]), self.bounds(node.args[1])
        return None if a is None or b is None else (a, b)

    def _bounds_mul(self, node: Expr) -> Bounds | None:
        pair = self._pair(node)
        if pair is None:
            return None
        a, b = pair
        if self._nonnegative(node.args[0]) and self._nonnegative(node.args[1]):
            return mul(self._at_least_zero(a[0]), self._at_least_zero(b[0])), mul(a[1], b[1])
        for own, other in ((0, 1), (1, 0)):
            factor = node.args[other]
            if not self.varies(factor) and self._nonnegative(factor):
                return mul(pair[own][0], factor), mul(pair[own][1], factor)
        corners = [mul(x, y) for x in a for y in b]
        low = high = corners[0]
        for corner in corners[1:]:
            low, high = minimum(low, corner), maximum(high, corner)
        return low, high

    def _bounds_floordiv(self, node: Expr) -> Bounds | None:
        a, divisor = self.bounds(node.args[0]), node.args[1]
        if a is None or self.varies(divisor) or not self._positive(divisor):
            return None
        return floordiv(a[0], divisor), floordiv(a[1], divisor)

    def _bounds_mod(self, node: Expr) -> Bounds | None:
        a, divisor = self.bounds(node.args[0]), node.args[1]
        if self.varies(divisor) or not self._positive(divisor):
            return None
        whole = (const(0), shift(divisor, -1))
        if a is None:
            return whole
        one_period = compare("eq", floordiv(a[0], divisor), floordiv(a[1], divisor))
        return (
            choose(one_period, make("mod", a[0], divisor), whole[0]),
            choose(one_period, make("mod", a[1], divisor), whole[1]),
        )

    def _bounds_min(self, node: Expr) -> Bounds | None:
        pair = self._pair(node)
        return pair and (minimum(pair[0][0], pair[1][0]), minimum(pair[0][1], pair[1][1]))

    def _bounds_max(self, node: Expr) -> Bounds | None:
        pair = self._pair(node)
        return pair and (maximum(pair[0][0], pair[1][0]), maximum(pair[0][1], pair[1][1]))

    def _bounds_clamp(self, node: Expr) -> Bounds | None:
        x, low, high = (self.bounds(a) for a in node.args)
        if x is None or low is None or high is None:
            return None
        return (
            minimum(maximum(x[0], low[0]), high[0]),
            minimum(maximum(x[1], low[1]), high[1]),
        )

    def _bounds_abs(self, node: Expr) -> Bounds | None:
        a = self.bounds(node.args[0])
        if a is None:
            return None
        low, high = a
        largest = maximum(high, sub(const(0), low))
        return maximum(maximum(low, sub(const(0), high)), const(0)), largest

    def _bounds_where(self, node: Expr) -> Bounds | None:
        may, must = self.truth(node.args[0])
        yes, no = self.bounds(node.args[1]), self.bounds(node.args[2])
        if yes is None or no is None:
            return None
        mixed = minimum(yes[0], no[0]), maximum(yes[1], no[1])
        return (
            choose(must, yes[0], choose(may, mixed[0], no[0])),
            choose(must, yes[1], choose(may, mixed[1], no[1])),
        )

    def _bounds_shr(self, node: Expr) -> Bounds | None:
        a, amount = self.bounds(node.args[0]), node.args[1]
        if a is None or self.varies(amount):
            return None
        return make("shr", a[0], amount), make("shr", a[1], amount)

    def _bounds_shl(self, node: Expr) -> Bounds | None:
        amount = node.args[1]
        if amount.op != "const" or not 0 <= int(amount.value) <= 30:  # type: ignore[arg-type]
            return None
        return self._of_sum(((node.args[0], 2 ** int(amount.value)),), 0)  # type: ignore[arg-type]

    def _bounds_bitand(self, node: Expr) -> Bounds | None:
        for mask in node.args:
            if not self.varies(mask) and self._nonnegative(mask):
                return const(0), mask
        return None

    def _bounds_int(self, node: Expr) -> Bounds | None:
        if node.args[0].type != "bool":
            return None
        may, must = self.truth(node.args[0])
        return choose(must, const(1), const(0)), choose(may, const(1), const(0))

    def _bounds_bitor(self, node: Expr) -> Bounds | None:
        pair = self._pair(node)
        if pair is None or not all(self._nonnegative(a) for a in node.args):
            return None
        (a_low, a_high), (b_low, b_high) = pair
        return maximum(a_low, b_low), add(a_high, b_high)

    def _bounds_bitxor(self, node: Expr) -> Bounds | None:
        pair = self._pair(node)
        if pair is None or not all(self._nonnegative(a) for a in node.args):
            return None
        return const(0), add(pair[0][1], pair[1][1])

    def _bounds_invert(self, node: Expr) -> Bounds | None:
        a = self.bounds(node.args[0])
        return a and (sub(const(-1), a[1]), sub(const(-1), a[0]))

    def _bounds_read(self, node: Expr) -> Bounds | None:
        return self._in_order(node) or self._of_few(node)

    def _of_few(self, node: Expr) -> Bounds | None:
        corners = self._corner_reads(node)
        if corners is None or node.type != "int":
            return None
        reads, few = corners
        low = high = reads[0]
        for element in reads[1:]:
            low, high = minimum(low, element), maximum(high, element)
        least, greatest = range_of(self.declared, node)
        return choose(few, low, const(int(least))), choose(few, high, const(int(greatest)))

    def _corner_reads(self, node: Expr) -> tuple[list[Expr], Expr] | None:
        """The elements at the corners of the indices, and whether there are no others.

        For tables of blocks: an index takes one or two values over a tile that is hardly larger
        than a block. Guards need no care, since these are reads at indices that do occur.
        """
        if self._of_rows_only(node) or not all(self._is_slow(i) for i in node.args):
            return None
        choices: list[tuple[Expr, ...]] = [()]
        few: list[Expr] = []
        for index in node.args:
            found = self.bounds(index)
            if found is None:
                return None
            ends = dict.fromkeys(found)
            if len(ends) > 1:
                few.append(compare("le", found[1], shift(found[0], 1)))
            choices = [(*before, end) for before in choices for end in ends]
        if len(choices) > MOST_CORNERS:
            return None
        return [read(str(node.value), c, node.type) for c in choices], both(*few)

    def _is_slow(self, node: Expr) -> bool:
        """Whether neighbouring positions mostly share the value of an index."""
        if not self.varies(node):
            return True
        if node.op in ("floordiv", "shr"):
            divisor = node.args[1]
            if divisor.op == "const":
                size = int(divisor.value)  # type: ignore[arg-type]
                return (2**size if node.op == "shr" else size) >= LEAST_BLOCK
            return not self.varies(divisor)
        slow = ("add", "sub", "neg", "min", "max", "clamp", "mod", "floordiv")
        return node.op in slow and all(self._is_slow(a) for a in node.args)

    def is_in_order(self, node: Expr) -> bool:
        """Whether a node reads a table whose values are promised not to decrease."""
        tensor = self.tensors.get(str(node.value)) if node.op == "read" else None
        return tensor is not None and tensor.nondecreasing

    def _in_order(self, node: Expr) -> Bounds | None:
        tensor = self.tensors.get(str(node.value))
        if tensor is None or not self.is_in_order(node) or self._of_rows_only(node):
            return None
        *outer, last = node.args
        found = self.bounds(last)
        if found is None or any(self.varies(i) for i in outer) or tensor.type != "int":
            return None
        # Out of range a guarded read yields 0 and the promise ends, so the end points must lie in.
        size = name(f"{tensor.name}.{len(outer)}")
        inside = both(compare("ge", found[0], const(0)), compare("lt", found[1], size))
        first, final = (read(tensor.name, (*outer, i), "int") for i in found)
        return choose(inside, first, INT_MIN), choose(inside, final, INT_MAX)

    # Bools

    def _find_truth(self, node: Expr) -> Truth:
        if not self.varies(node):
            return node, node
        if node.op in ("and", "bitand"):
            pairs = [self.truth(a) for a in node.args]
            return both(*(p[0] for p in pairs)), both(*(p[1] for p in pairs))
        if node.op in ("or", "bitor"):
            pairs = [self.truth(a) for a in node.args]
            return either(*(p[0] for p in pairs)), either(*(p[1] for p in pairs))
        if node.op in ("not", "invert"):
            may, must = self.truth(node.args[0])
            return negate(must), negate(may)
        if node.op == "where":
            return self._truth_where(node)
        if node.op in ("lt", "le", "gt", "ge", "eq", "ne") and node.args[0].type == "int":
            found = self._truth_comparison(node)
            if found is not None:
                return found
        if node.op == "read" and (corners := self._corner_reads(node)) is not None:
            reads, few = corners
            return either(negate(few), *reads), both(few, *reads)
        if self._of_rows_only(node):
            as_int = make("int", node)
            return (
                make("gt", extreme("row_max", as_int), const(0)),
                make("gt", extreme("row_min", as_int), const(0)),
            )
        return UNDECIDED

    def _truth_where(self, node: Expr) -> Truth:
        (may, must), yes, no = (self.truth(a) for a in node.args)
        return (
            either(both(may, yes[0]), both(negate(must), no[0])),
            either(both(must, yes[1]), both(negate(may), no[1]), both(yes[1], no[1])),
        )

    def _truth_comparison(self, node: Expr) -> Truth | None:
        # Every term stands on the side where its coefficient is positive: correlations such as
        # q_idx - q_idx cancel, and no difference of table values can overflow.
        form = linear(node.args[0]).plus(linear(node.args[1]).times(-1))
        constant = form.constant
        left = self._of_sum(tuple(t for t in form.terms if t[1] > 0), max(constant, 0))
        right = self._of_sum(tuple((t, -c) for t, c in form.terms if c < 0), max(-constant, 0))
        if left is None or right is None:
            return None
        if node.op == "lt":
            return compare("lt", left[0], right[1]), compare("lt", left[1], right[0])
        if node.op == "le":
            return compare("le", left[0], right[1]), compare("le", left[1], right[0])
        if node.op == "gt":
            return compare("gt", left[1], right[0]), compare("gt", left[0], right[1])
        if node.op == "ge":
            return compare("ge", left[1], right[0]), compare("ge", left[0], right[1])
        may = both(compare("le", left[0], right[1]), compare("ge", left[1], right[0]))
        must = both(compare("eq", left[0], right[1]), compare("eq", left[1], right[0]))
        return (may, must) if node.op == "eq" else (negate(must), negate(may))
