"""Small faults in the rules of the algebra; for each, the check that must notice it.

A mutant is (module, exact old text, new text, check). The old text occurs once in the module. No
mutant here leaves the meaning as it was: one that survives is a hole in the checks.
"""

# The texts are those of the files, whatever their length.
# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

#: Which file holds each check, and how many seeds it gets.
CHECKS = {
    "walk": ("properties", 250),
    "exact_walk": ("properties", 250),
    "reader": ("properties", 1200),
    "exact_reading": ("properties", 200),
    "segments": ("properties", 1000),
    "ranges": ("values", 1200),
    "known_ranges": ("values", 1),
    "builders": ("values", 300),
    "products": ("scores", 300),
    "score": ("scores", 800),
    "known_scores": ("scores", 1),
    "derivative": ("slopes", 300),
    "ties": ("slopes", 1),
    "blocks": ("blocks", 300),
    "equivalent": ("blocks", 300),
    "gaps": ("gaps", 3000),
    "listing": ("gaps", 200),
}


class Mutant(NamedTuple):
    module: str
    old: str
    new: str
    check: str


def mutants() -> Iterator[Mutant]:
    for module, rows in FAULTS.items():
        for check, old, new in rows:
            yield Mutant(module, old, new, check)


WALK = [
    ("walk", "else floordiv(column(segment.lo), stream.block)", "else ceildiv(column(segment.lo), stream.block)"),
    ("walk", "stop = ceildiv(end, stream.block)", "stop = floordiv(end, stream.block)"),
    ("walk", "return maximum(found, ZERO) if range_of(declared, found)[0] < 0 else found", "return found"),
    ("walk", "minimum(column(index), stream.length)", "column(index)"),
    ("walk", "found = sub(index, stream.offset)", "found = index"),
    ("walk", "        stop = maximum(stop, first)\n", "        pass\n"),
    ("walk", "stop = choose(segment.gate_may, stop, first)", "stop = choose(segment.gate_must, stop, first)"),
    ("walk", "begin = ceildiv(column(segment.full_lo), stream.block)", "begin = floordiv(column(segment.full_lo), stream.block)"),
    ("walk", "minimum(maximum(begin, first), stop)", "maximum(begin, first)"),
    ("walk", "full_stop = floordiv(full_end, stream.block)", "full_stop = ceildiv(full_end, stream.block)"),
    ("walk", "full_stop = maximum(full_stop, full_first)", "pass"),
    ("walk", "choose(segment.gate_must, full_stop, full_first)", "choose(segment.gate_may, full_stop, full_first)"),
    ("walk", "if segment.full_hi is not segment.hi and segment.full_hi is not None:", "if False:"),
    ("walk", "Test(part.may, part.must, first, stop, *full)", "Test(part.must, part.must, first, stop, *full)"),
    ("walk", "Test(part.may, part.must, first, stop, *full)", "Test(part.may, part.may, first, stop, *full)"),
    ("walk", "minimum(first, part.first), maximum(stop, part.stop)", "maximum(first, part.first), maximum(stop, part.stop)"),
    ("walk", "minimum(first, part.first), maximum(stop, part.stop)", "minimum(first, part.first), minimum(stop, part.stop)"),
    ("listing", "live.append(both(_within(part.first, part.stop, first, stop), part.may))", "live.append(_within(part.first, part.stop, first, stop))"),
    ("walk", "live.append(both(_within(part.first, part.stop, first, stop), part.may))", "live.append(part.must)"),
    ("walk", "sure.append(both(full, part.must))", "sure.append(full)"),
    ("walk", "sure.append(both(full, part.must))", "sure.append(part.must)"),
    ("walk", "either(*live), either(*sure)", "both(*live), either(*sure)"),
    ("walk", "either(*live), either(*sure)", "either(*live), both(*sure)"),
    ("walk", 'make("ge", TILE, first)', 'make("gt", TILE, first)'),
    ("walk", 'TRUE if stop is outer_stop else make("lt", TILE, stop)', "TRUE"),
    ("exact_walk", 'make("lt", b.first, a.first)', 'make("gt", b.first, a.first)'),
    ("exact_walk", 'Let(str(y.value), make("where", swap, x, y))', 'Let(str(y.value), make("where", swap, y, x))'),
    ("walk", "taken if part.first is ZERO else maximum(part.first, taken)", "part.first"),
    ("walk", 'let("stop", maximum(part.stop, first))', 'let("stop", part.stop)'),
    ("walk", 'let("full_first", maximum(part.full_first, first))', "part.full_first"),
    ("walk", "maximum(part.full_stop, full_first)", "part.full_stop"),
    ("walk", "masked.append(TileRange(part.full_stop, part.stop))", "pass"),
    ("walk", "full.append(TileRange(part.full_first, part.full_stop))", "full.append(TileRange(part.first, part.full_stop))"),
    ("exact_walk", "        for i in range(end):\n", "        for i in range(end - 1):\n"),
    ("exact_walk", "    return fixed + moving\n\n\ndef _exchange", "    return moving + fixed\n\n\ndef _exchange"),
    ("exact_walk", "        return fixed + moving\n", "        return moving + fixed\n"),
    ("walk", "        if part.full_first is not part.first:\n            masked", "        if False:\n            masked"),
]  # fmt: skip

SEGMENTS = [
    ("segments", "form = form.shifted(1)", "form = form"),
    ("segments", 'if atom.op in ("gt", "ge"):', 'if atom.op in ("gt",):'),
    ("segments", "Bound(False, floordiv(right, const(coefficient)))", "Bound(False, floordiv(shift(right, 1), const(coefficient)))"),
    ("segments", "sub(const(0), floordiv(right, const(-coefficient)))", "floordiv(sub(const(0), right), const(-coefficient))"),
    ("segments", "rest.times(-1).shifted(1).expression()", "rest.times(-1).expression()"),
    ("segments", 'make("lt", inner, limit)', 'make("le", inner, limit)'),
    ("segments", 'make("ge", inner, limit)', 'make("gt", inner, limit)'),
    ("segments", "not reader.varies(divisor) and reader._positive(divisor)", "not reader.varies(divisor)"),
    ("segments", 'if term.op == "floordiv" and coefficient in (1, -1):', 'if term.op == "floordiv":'),
    ("segments", "if len(holders) != 1:", "if not holders:"),
    ("segments", "return _divide(coefficient, rest.times(-1).expression())", "return _divide(coefficient, rest.expression())"),
    ("segments", "lowers.append(extent[0])", "lowers.append(extent[1])"),
    ("segments", "full_lowers.append(extent[1])", "full_lowers.append(extent[0])"),
    ("segments", "uppers.append(shift(extent[1], 1))", "uppers.append(extent[1])"),
    ("segments", "full_uppers.append(shift(extent[0], 1))", "full_uppers.append(shift(extent[1], 1))"),
    ("segments", "full_uppers.append(shift(extent[0], 1))", "full_uppers.append(shift(extent[0], 2))"),
    ("exact_walk", "hi=_fold(minimum, uppers)", "hi=_fold(maximum, uppers)"),
    ("segments", "full_lo=_fold(maximum, full_lowers)", "full_lo=_fold(minimum, full_lowers)"),
    ("segments", "full_hi=_fold(minimum, full_uppers)", "full_hi=_fold(maximum, full_uppers)"),
    ("segments", "gate_must=both(*(g[1] for g in gates))", "gate_must=both(*(g[0] for g in gates))"),
    ("segments", "return either(*(_normal(negate(a)) for a in inner.args))", "return both(*(_normal(negate(a)) for a in inner.args))"),
    ("segments", "return both(*(_normal(negate(a)) for a in inner.args))", "return either(*(_normal(negate(a)) for a in inner.args))"),
    ("segments", "make(node.op, sub(const(0), b), x)", "make(node.op, b, x)"),
    ("segments", "make(node.op, x, sub(const(0), a))", "make(node.op, x, a)"),
    ("segments", '("min", 0, either)', '("min", 0, both)'),
    ("segments", '("max", 0, both)', '("max", 0, either)'),
    ("segments", '("max", 1, either)', '("max", 1, both)'),
    ("segments", '("min", 1, both)', '("min", 1, either)'),
    ("segments", 'make("lt" if node.op == "gt" else "le", b, a)', 'make("le" if node.op == "gt" else "lt", b, a)'),
    ("segments", "return both(*parts)", "return parts[0]"),
    ("segments", "set(other) <= set(kept) for other in unique", "set(other) >= set(kept) for other in unique"),
]  # fmt: skip

LINEAR = [
    ("builders", '1 if node.op == "add" else -1', "1"),
    ("builders", '"add" if coefficient > 0 else "sub", total, part', '"add", total, part'),
    ("builders", 'op = "add" if self.constant > 0 else "sub"', 'op = "add"'),
    ("builders", "floordiv(add(a, shift(b, -1)), b)", "floordiv(add(a, b), b)"),
    ("builders", "floordiv(add(a, shift(b, -1)), b)", "floordiv(a, b)"),
    ("builders", "a_is_less = difference.constant <= 0", "a_is_less = difference.constant >= 0"),
    ("builders", '"lt": d < 0', '"lt": d <= 0'),
    ("builders", '"ge": d >= 0', '"ge": d > 0'),
    ("builders", '"lt": "ge"', '"lt": "gt"'),
    ("builders", ' and all(a.type != "float" for a in c.args)', ""),
    ("builders", "return no if condition is FALSE else make", "return yes if condition is FALSE else make"),
    ("builders", "c * factor) for t, c in self.terms), self.constant * factor)", "c * factor) for t, c in self.terms), self.constant)"),
    ("builders", "total[term] = total.get(term, 0) + coefficient", "total[term] = coefficient"),
    ("segments", "-(-self.constant // common)", "self.constant // common"),
]  # fmt: skip

GAPS = [
    ("gaps", "len(moving) > 1 or self.leaves_gaps(moving[0])", "self.leaves_gaps(moving[0])"),
    ("gaps", "left is None or right is None or left == right", "left is None or right is None"),
    ("gaps", "left is None or right is None or left == right", "left == right"),
    ("gaps", '"ge", "eq")', '"ge", "eq", "ne")'),
    ("gaps", "_turned(self.trend(node.args[1]))", "self.trend(node.args[1])"),
    ("gaps", "return _turned(self.trend(node.args[0]))", "return self.trend(node.args[0])"),
    ("gaps", "return self.trend(node.args[0]) if positive else None", "return self.trend(node.args[0])"),
    ("gaps", "node.args[2].value in INT32", "True"),
    ("gaps", "low < 0 < high", "False"),
    ("gaps", "if low >= 0 else _turned(self.trend(b))", "if True else None"),
    ("gaps", "not tensor.nondecreasing or", ""),
    ("gaps", "moving.pop() if len(moving) == 1 else None", "moving.pop()"),
    ("gaps", "any(self.leaves_gaps(a) for a in test.args)", "all(self.leaves_gaps(a) for a in test.args)"),
]  # fmt: skip

EQUIVALENT = [
    ("equivalent", 'make("mod", x, const(value + 1))', 'make("mod", x, const(value))'),
    ("equivalent", "_is_power(value + 1)", "True"),
    ("equivalent", "const(-value)), const(-value))", "const(-value)), const(value))"),
    ("equivalent", '"mul" if node.op == "shl" else "floordiv"', '"floordiv" if node.op == "shl" else "mul"'),
    ("equivalent", 'if atom.op != "eq" or', 'if atom.op not in ("eq", "le") or'),
    ("equivalent", "p if p is equality else substitute", "substitute"),
]  # fmt: skip

READING = [
    ("blocks", "shift(found[0], 1)))\n            choices", "shift(found[0], 2)))\n            choices"),
    ("blocks", "low, high = minimum(low, element), maximum(high, element)", "low, high = low, maximum(high, element)"),
    ("blocks", "low, high = minimum(low, element), maximum(high, element)", "low, high = minimum(low, element), high"),
    ("blocks", "choose(few, low, const(int(least)))", "low"),
    ("blocks", "choose(few, high, const(int(greatest)))", "high"),
    ("reader", "found if coefficient > 0 else (found[1], found[0])", "found"),
    ("reader", "mul(self._at_least_zero(a[0]), self._at_least_zero(b[0]))", "mul(a[0], b[0])"),
    ("reader", "self._nonnegative(node.args[0]) and self._nonnegative(node.args[1])", "self._nonnegative(node.args[0])"),
    ("reader", "if not self.varies(factor) and self._nonnegative(factor):", "if not self.varies(factor):"),
    ("reader", "low, high = minimum(low, corner), maximum(high, corner)", "low, high = minimum(low, corner), high"),
    ("reader", "if a is None or self.varies(divisor) or not self._positive(divisor):", "if a is None or self.varies(divisor):"),
    ("reader", "if self.varies(divisor) or not self._positive(divisor):\n            return None\n        whole", "if self.varies(divisor):\n            return None\n        whole"),
    ("reader", "whole = (const(0), shift(divisor, -1))", "whole = (const(0), shift(divisor, -2))"),
    ("reader", 'choose(one_period, make("mod", a[0], divisor), whole[0])', 'make("mod", a[0], divisor)'),
    ("reader", 'choose(one_period, make("mod", a[1], divisor), whole[1])', 'make("mod", a[1], divisor)'),
    ("reader", "minimum(pair[0][0], pair[1][0])", "maximum(pair[0][0], pair[1][0])"),
    ("reader", "maximum(pair[0][1], pair[1][1])", "minimum(pair[0][1], pair[1][1])"),
    ("exact_reading", "minimum(pair[0][1], pair[1][1])", "maximum(pair[0][1], pair[1][1])"),
    ("reader", "minimum(maximum(x[1], low[1]), high[1])", "minimum(maximum(x[1], low[0]), high[1])"),
    ("reader", "minimum(maximum(x[0], low[0]), high[0])", "minimum(maximum(x[0], low[0]), high[1])"),
    ("reader", "largest = maximum(high, sub(const(0), low))", "largest = high"),
    ("reader", "maximum(maximum(low, sub(const(0), high)), const(0))", "maximum(maximum(low, sub(const(0), low)), const(0))"),
    ("reader", "choose(must, yes[0], choose(may, mixed[0], no[0]))", "choose(may, yes[0], no[0])"),
    ("reader", "choose(must, yes[1], choose(may, mixed[1], no[1]))", "choose(must, yes[1], no[1])"),
    ("reader", 'make("shr", a[0], amount), make("shr", a[1], amount)', 'make("shr", a[1], amount), make("shr", a[0], amount)'),
    ("reader", "((node.args[0], 2 ** int(amount.value)),)", "((node.args[0], 2 * int(amount.value)),)"),
    ("reader", "if not self.varies(mask) and self._nonnegative(mask):", "if not self.varies(mask):"),
    ("reader", "return choose(must, const(1), const(0)), choose(may, const(1), const(0))", "return choose(may, const(1), const(0)), choose(must, const(1), const(0))"),
    ("reader", 'both(compare("ge", found[0], const(0)), compare("lt", found[1], size))', 'compare("ge", found[0], const(0))'),
    ("reader", 'both(compare("ge", found[0], const(0)), compare("lt", found[1], size))', 'compare("lt", found[1], size)'),
    ("reader", 'compare("lt", found[1], size)', 'compare("le", found[1], size)'),
    ("reader", "if tensor is None or not self.is_in_order(node) or", "if tensor is None or"),
    ("reader", "return negate(must), negate(may)\n        if", "return negate(may), negate(must)\n        if"),
    ("reader", "either(both(may, yes[0]), both(negate(must), no[0]))", "either(both(must, yes[0]), both(negate(may), no[0]))"),
    ("reader", "either(both(must, yes[1]), both(negate(may), no[1]), both(yes[1], no[1]))", "either(both(may, yes[1]), both(negate(may), no[1]))"),
    ("reader", 'compare("lt", left[0], right[1]), compare("lt", left[1], right[0])', 'compare("lt", left[0], right[1]), compare("lt", left[0], right[0])'),
    ("reader", 'compare("le", left[0], right[1]), compare("le", left[1], right[0])', 'compare("lt", left[0], right[1]), compare("le", left[1], right[0])'),
    ("exact_reading", 'compare("le", left[0], right[1]), compare("le", left[1], right[0])', 'compare("le", left[0], right[1]), compare("lt", left[1], right[0])'),
    ("reader", 'compare("gt", left[1], right[0]), compare("gt", left[0], right[1])', 'compare("gt", left[1], right[0]), compare("ge", left[0], right[1])'),
    ("reader", 'compare("ge", left[1], right[0]), compare("ge", left[0], right[1])', 'compare("ge", left[0], right[0]), compare("ge", left[0], right[1])'),
    ("reader", 'both(compare("eq", left[0], right[1]), compare("eq", left[1], right[0]))', 'compare("eq", left[0], right[1])'),
    ("reader", 'else (negate(must), negate(may))', 'else (negate(may), negate(must))'),
    ("reader", "max(-constant, 0)", "0"),
    ("reader", 'return extreme("row_min", node), extreme("row_max", node)', 'return extreme("row_max", node), extreme("row_min", node)'),
    ("reader", 'make("gt", extreme("row_min", as_int), const(0))', 'make("gt", extreme("row_max", as_int), const(0))'),
    ("reader", 'return name("kv_lo"), name("kv_hi")', 'return name("kv_lo"), name("kv_lo")'),
]  # fmt: skip

RANGES = [
    ("known_ranges", '"add": lambda a, b: (a[0] + b[0], a[1] + b[1])', '"add": lambda a, b: (a[0] + b[1], a[1] + b[0])'),
    ("ranges", '"sub": lambda a, b: (a[0] - b[1], a[1] - b[0])', '"sub": lambda a, b: (a[0] - b[0], a[1] - b[1])'),
    ("ranges", '"neg": lambda a: (-a[1], -a[0])', '"neg": lambda a: (-a[0], -a[1])'),
    ("ranges", "(0, min(a[1], b[1] - 1))", "(0, min(a[1], b[1] - 2))"),
    ("ranges", "(min(0, b[0] + 1), max(0, b[1] - 1))", "(0, max(0, b[1] - 1))"),
    ("known_ranges", "(b[0], b[1], -1, 1)", "(b[0], b[1])"),
    ("ranges", "0 if a[0] <= 0 <= a[1] else min(abs(a[0]), abs(a[1]))", "min(abs(a[0]), abs(a[1]))"),
    ("ranges", "return _product(a, (2**low, 2**high))", "return _product(a, (2**low, 2**low))"),
    ("ranges", "min(max(end, 0), 31)", "min(max(end, 0), 30)"),
    ("ranges", "int(x) >> n for x in a for n in _amounts(b)", "int(x) >> n for x in a for n in _amounts(b)[:1]"),
    ("ranges", "int(r[1]) for r in (a, b) if r[0] >= 0", "int(r[1]) for r in (a, b)"),
    ("ranges", "-(2**count)", "-(2 ** (count - 1))"),
    ("ranges", "int(x if x >= 0 else ~int(x)).bit_length()", "(int(abs(x)).bit_length() - 1)"),
    ("ranges", "(-a[1] - 1, -a[0] - 1)", "(-a[1], -a[0])"),
    ("ranges", "(min(t.value_range[0], 0), max(t.value_range[1] - 1, 0))", "(t.value_range[0], t.value_range[1] - 1)"),
    ("ranges", "max(t.value_range[1] - 1, 0)", "max(t.value_range[1] - 2, 0)"),
    ("ranges", '"where": lambda c, a, b: (min(a[0], b[0]), max(a[1], b[1]))', '"where": lambda c, a, b: a'),
    ("ranges", '"min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1]))', '"min": lambda a, b: (max(a[0], b[0]), min(a[1], b[1]))'),
    ("ranges", "(-2 * INDEX_LIMIT, 2 * INDEX_LIMIT)", "(-INDEX_LIMIT, INDEX_LIMIT)"),
    ("ranges", 'WIDENED = ("neg", "add", "sub",', 'WIDENED = ("neg", "add",'),
    ("ranges", "bounds[0] < INT32[0] or bounds[1] > INT32[1]", "bounds[1] > INT32[1]"),
    ("known_ranges", "return _unknown(node) if math.isnan(found[0]) or math.isnan(found[1]) else found", "return found"),
    ("ranges", '"uint8": (0, 2**8 - 1)', '"uint8": (0, 2**7 - 1)'),
    ("known_ranges", "if b[0] <= 0 <= b[1]:\n        return FLOAT", "if b[0] < 0 < b[1] - 1:\n        return FLOAT"),
]  # fmt: skip

REWRITES = [
    ("known_scores", '"kv" in depends or _may_be_infinite(product)', '"kv" in depends'),
    ("score", 'stays = "kv" in depends or', 'stays = "q" in depends or'),
    ("score", "Product(LOG2E).times(_saturated", "Product(1.0).times(_saturated"),
    ("score", "if fixed.coefficient <= 0.0 or", "if fixed.coefficient == 0.0 or"),
    ("score", "elif range_of(declared, base)[0] <= 0.0:", "elif range_of(declared, base)[1] <= 0.0:"),
    ("score", 'answer = "if scale > 0"', 'answer = "positive"'),
    ("score", "column.plus(shift.times(-1)), row.plus(shift)", "column.plus(shift), row.plus(shift)"),
    ("known_scores", "column, row = column.plus(shift.times(-1)), row.plus(shift)", "pass"),
    ("score", "row = Linear((), form.constant)", "row = Linear((), 0)"),
    ("known_scores", 'if base.op != "float" or power != 1:', 'if base.op != "float":'),
    ("known_scores", "wide = reads_wide(base) and any(", "wide = reads_wide(base) or any("),
    ("known_scores", "return saturated(base) if wide else base", "return base"),
    ("score", 'total = make("sub", total, part.args[0])', 'total = make("add", total, part.args[0])'),
    ("score", "reads_qk = any(QK in _leaves(p) for p in rest)", "reads_qk = any(QK in dict(p.powers) for p in rest)"),
]  # fmt: skip

PRODUCTS = [
    ("products", "tuple((b, -p) for b, p in self.powers)", "self.powers"),
    ("products", "merged.get(base, 0) + power", "power"),
    ("products", "Product(1.0 / self.coefficient,", "Product(self.coefficient,"),
    ("products", 'return make("neg", rest)', "return rest"),
    ("products", "[minus.times(t) for t in sum_terms(node.args[1])]", "sum_terms(node.args[1])"),
    ("products", 'return b if node.op == "add" else make("neg", b)', "return b"),
    ("products", "            return const(0.0)\n", "            return other\n"),
    ("products", 'LOOPING = {"q", "kv"}', 'LOOPING = {"q"}'),
    ("products", "for _ in range(abs(power)):", "for _ in range(1):"),
]  # fmt: skip

DERIVATIVE = [
    ("ties", "half = fmul(HALF, adjoint)", "half = adjoint"),
    ("ties", '"max": _extremum("gt")', '"max": _extremum("lt")'),
    ("derivative", '"min": _extremum("lt")', '"min": _extremum("gt")'),
    ("ties", 'both(make("ge", x, low), make("le", x, high))', 'both(make("gt", x, low), make("le", x, high))'),
    ("ties", 'both(make("ge", x, low), make("le", x, high))', 'both(make("ge", x, low), make("lt", x, high))'),
    ("ties", 'both(make("lt", x, low), make("lt", low, high))', 'make("lt", x, low)'),
    ("ties", 'make("or", make("gt", x, high), make("lt", high, low))', 'make("gt", x, high)'),
    ("ties", 'make("lt", x, ZERO), negated', 'make("le", x, ZERO), negated'),
    ("derivative", "fmul(const(-1.0), adjoint) if is_const(adjoint) else _neg(adjoint)", "adjoint"),
    ("ties", "_if(condition, adjoint, ZERO), _if(condition, ZERO, adjoint)", "_if(condition, ZERO, adjoint), _if(condition, adjoint, ZERO)"),
    ("ties", 'make("pow", base, const(p - 1.0))', 'make("pow", base, const(p))'),
    ("ties", "base if p == 2.0", "base if p == 3.0"),
    ("derivative", '"sub": lambda n: (ONE, const(-1.0))', '"sub": lambda n: (ONE, ONE)'),
    ("ties", '_neg(make("div", n, n.args[1]))', 'make("div", n, n.args[1])'),
    ("derivative", '"mul": lambda n: (n.args[1], n.args[0])', '"mul": lambda n: (n.args[0], n.args[1])'),
    ("derivative", 'make("sub", ONE, make("mul", n, n))', 'make("sub", ONE, n)'),
    ("derivative", 'make("mul", n, make("sub", ONE, n))', 'make("sub", ONE, n)'),
    ("derivative", "fmul(n, const(math.log(2.0)))", "n"),
    ("derivative", 'make("div", HALF, n)', 'make("div", ONE, n)'),
    ("derivative", "fadd(adjoint.get(argument, ZERO), part)", "part"),
    ("ties", 'if all(n.op != "where" for n in post_order(adjoint)):', "if True:"),
    ("ties", 'make("where", make("eq", adjoint, ZERO), ZERO, product)', 'make("where", make("eq", adjoint, ZERO), product, ZERO)'),
]  # fmt: skip

FAULTS = {
    "walk": WALK,
    "equivalent": EQUIVALENT,
    "gaps": GAPS,
    "segments": SEGMENTS,
    "linear": LINEAR,
    "reading": READING,
    "ranges": RANGES,
    "rewrites": REWRITES,
    "products": PRODUCTS,
    "derivative": DERIVATIVE,
}
