"""Columns are right in every way YAML can write a scalar; bounds hold what they claim to."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fagen.spec.bounds import bounds
from fagen.spec.errors import SpecErrors
from fagen.spec.expr import Expr, const, make, name, post_order
from fagen.spec.load import load_text

# Each file holds the word `oops` once or more; every one must be underlined, and nothing else.
STYLES = {
    "plain": "mask: h < oops and b < oops",
    "plain on a line of its own": "mask:\n  h < oops\n  and b < oops  # oops in a comment\n",
    "plain over blank lines": "mask: h <\n\n\n   oops\n and b < oops",
    "single quotes": "mask: 'h < oops\n\n   and b < oops'",
    "double quotes": 'mask: "h < oops\n   and b < oops"',
    "double quotes with escapes": 'mask: "h \\x3c oops\\tand\\n b \\u003C oops \\\n  and oops < h"',
    "literal block": "mask: |\n  h < oops # a comment\n\n    and b < oops\n",
    "literal block with indicators": "mask: |2-  # a comment\n    h < oops\n  and b < oops\n\n",
    "folded block": "mask: >-\n  h < oops\n  and\n\n  b < oops\n",
    "folded block, more indented": "mask: >+\n  h < oops\n     and b\n     < oops\n\n",
    "windows line ends": "mask: |\r\n  h < oops\r\n  and b < oops\r\nposition: end\r\n",
    "flow mapping": "let: {a: h + oops, c: oops + b}\nmask: 'a > c'",
    "wide characters before": 'description: "\u6f22\u5b57"\nmask: h < oops',
    "wide characters on the line": "let: {\u00e9: 1, a: oops}\nmask: a > 0",
    "function": "functions:\n  f(x): x + oops\n  g(x): 'x +   oops'\nmask: f(h) > g(b)",
    "tensor": "tensors:\n  t:\n    shape: [heads]\n    dtype: int32\n    default: h + oops\n"
    "mask: t[h] > oops",
}  # fmt: skip


@pytest.mark.parametrize("style", STYLES)
def test_every_unknown_name_is_underlined(style: str) -> None:
    text = "name: x\n" + STYLES[style]
    with pytest.raises(SpecErrors) as caught:
        load_text(text)
    found = [d for d in caught.value.diagnostics if d.message.startswith("unknown name `oops`")]
    places = {(d.line, d.column) for d in found}
    expected = set()
    for number, line in enumerate(re.split(r"\r?\n", text), 1):
        code = re.sub(r"#.*", "", line)
        expected |= {(number, m.start() + 1) for m in re.finditer("oops", code)}
    assert places == expected
    for d in found:
        assert d.source_line[d.column - 1 : d.column - 1 + d.length] == "oops"
        line, caret = str(d).splitlines()[2:4]
        if line.isascii():
            assert line[caret.index("^") : caret.rindex("^") + 1] == "oops"


RANGES = {"p": (1, 3), "n": (-4, -2), "z": (-1, 2)}
VALUES = {word: range(lo, hi + 1) for word, (lo, hi) in RANGES.items()}
COMPUTE = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b, "min": min, "max": max,
    "clamp": lambda x, lo, hi: min(max(x, lo), hi), "neg": lambda a: -a, "abs": abs,
    "where": lambda c, a, b: a if c else b, "lt": lambda a, b: a < b, "int": int,
    "shr": lambda a, b: a >> b, "shl": lambda a, b: a << b,
}  # fmt: skip


def evaluated(root: Expr, values: dict[str, int]) -> int | None:
    """The value, or None where a division by zero, a wild shift or an overflow has no meaning."""
    done: dict[Expr, int] = {}
    for node in post_order(root):
        args = [done[a] for a in node.args]
        if node.op in ("floordiv", "mod") and args[1] == 0:
            return None
        if node.op in ("shl", "shr") and not 0 <= args[1] <= 31:
            return None
        if node.op == "const":
            done[node] = node.value
        else:
            done[node] = values[node.value] if node.op == "name" else COMPUTE[node.op](*args)
        if abs(done[node]) >= 2**31:
            return None
    return done[root]


LEAVES = st.sampled_from([*map(name, RANGES), *map(const, (-3, -1, 0, 1, 2, 5, 40000))])
TWO = st.sampled_from(["add", "sub", "mul", "floordiv", "mod", "min", "max", "shl", "shr"])


def grown(sub):
    return st.one_of(
        st.builds(make, TWO, sub, sub),
        st.builds(make, st.sampled_from(["neg", "abs"]), sub),
        st.builds(lambda x, lo, hi: make("clamp", x, lo, hi), sub, sub, sub),
        st.builds(lambda a, b, x, y: make("where", make("lt", a, b), x, y), sub, sub, sub, sub),
        st.builds(lambda a, b: make("int", make("lt", a, b)), sub, sub),
    )


@settings(max_examples=400, deadline=None)
@given(st.recursive(LEAVES, grown, max_leaves=8))
def test_bounds_hold_every_value(node: Expr) -> None:
    lo, hi = bounds(node, RANGES)
    for chosen in product(*VALUES.values()):
        value = evaluated(node, dict(zip(VALUES, chosen, strict=True)))
        assert value is None or lo <= value <= hi


def test_bounds_are_tight_where_divisors_need_them() -> None:
    p, n, z = map(name, RANGES)
    assert bounds(make("mod", z, p), RANGES) == (0, 2)
    assert bounds(make("mod", z, n), RANGES) == (-3, 0)
    assert bounds(make("abs", n), RANGES) == (2, 4)
    assert bounds(make("max", z, const(1)), RANGES) == (1, 2)
    assert bounds(make("mul", n, p), RANGES) == (-12, -2)
    assert bounds(make("floordiv", const(9), p), RANGES) == (3, 9)
