"""The language's reference page, written from the tables that define it (docs/semantics.md)."""

from __future__ import annotations

from collections.abc import Sequence

from fagen.spec.names import DIMENSIONS, INDEX_NAMES
from fagen.spec.scope import UNROLLED
from fagen.spec.semantics import FUNCTIONS, OPERATIONS

_INTRODUCTION = """\
# What expressions mean

Written from the tables in `fagen/spec` by `python -m fagen.spec.handbook > docs/semantics.md`. The
keys of a variant file are in [language.md](language.md).

Ints have 32 bits, floats are float32; a sum, product or shift to the left that may leave 32 bits is
taken in 64, so nothing wraps: `1 << 31` is positive. An int beside a float is converted to a float.
An int parameter is from `-2**28` to `2**28`, a float parameter from `-2**100` to `2**100`, or as
declared; `scale` must be from `2**-100` to `2**100`, or the negative of that, for some `head_dim`.
Constants past float32 are refused, whether written or computed; infinity is written `inf`.
A read whose index is out of range, a negative one included, yields 0. Divisors of `//` and `%` are
proven nonzero while the file is read. What only constants decide is computed then too, so a branch
behind a `static: true` flag leaves nothing behind. Constants are written `True`, `False`, `12`,
`0xFF`, `1_000`, `0.5` and `1e-3`.

What is promised of a table, `nondecreasing: true` and `range: [lo, hi]`, is taken on trust: it
decides which keys are visited and which reads need no guard. With `FAGEN_CHECK=1` in the
environment every `attention` checks the tables passed to it, outside of `torch.compile` and
tracing, and waits for the device to do so. Packed calls and default tables are not checked.

What a score or a table holds where the mask is false, NaN and infinity included, changes nothing.
The rows of q, k, v and of the output's gradient are multiplied whole, as in every attention: a NaN
or an infinity in one of them reaches what shares a tile with it, whatever the mask says. Scores are
kept in float32, and the backward takes probabilities from them and from lse again: past a magnitude
of about 1e5 their gradients lose digits, past 1e7 they are not to be used.
"""

_EXPANSIONS = """\
## What is expanded while the file is read

| text | becomes |
|---|---|
| `a < b <= c` | `a < b and b <= c` |
| `a if c else b` | `where(c, a, b)`: both are computed, one is chosen |
| `x in table[b, i, :]` | `x == table[b, i, 0] or x == table[b, i, 1] or ...`, for a row whose \
length is an integer in the shape; `not in` is its negation |
| `any(... for i in range(N))`, `all(...)`, `sum(...)` | the `or`, `and`, `+` of its terms, for a \
constant N |
| `min(a, b, c)`, `max(a, b, c)` | `min(min(a, b), c)`, ... |
| `n ** 3`, n an int | `n * n * n`; every other power is a float |
| `f(x)`, f under `functions` | its expression, with x for its argument |
"""


def semantics_page() -> str:
    """The page as Markdown: names, operators, functions, expansions."""
    parts = [_INTRODUCTION, "## Names\n"]
    rows = [(f"`{n}`", e.type, _axes(n), e.meaning) for n, e in INDEX_NAMES.items()]
    rows.append(("`inf`", "float", "", "infinity"))
    rows.append(("`True`, `False`", "bool", "", "truth"))
    parent = "in `mask` and `score` of a file that `extends` another: the parent's expression"
    rows.append(("`inherited`", "bool, float", "as there", parent))
    parts.append(_table(("name", "type", "depends on", "meaning"), rows))
    parts.append(f"Lengths in shapes: {', '.join(f'`{d}`' for d in DIMENSIONS)}.\n")
    symbols = [o for o in OPERATIONS.values() if o.symbol is not None]
    parts.append("## Operators\n")
    parts.append(
        _table(("operator", "meaning"), [(f"`{_escaped(o.symbol)}`", o.meaning) for o in symbols])
    )
    parts.append("## Functions\n")
    functions = sorted(FUNCTIONS)
    rows2 = [(f"`{n}`", str(OPERATIONS[n].arity), OPERATIONS[n].meaning) for n in functions]
    parts.append(_table(("function", "arguments", "meaning"), rows2))
    parts.append(f"Loops: {', '.join(f'`{n}`' for n in UNROLLED)}.\n")
    parts.append(_EXPANSIONS)
    return "\n".join(parts)


def _axes(name: str) -> str:
    order = ("b", "h", "q", "kv")
    return ", ".join(axis for axis in order if axis in INDEX_NAMES[name].axes)


def _escaped(symbol: str | None) -> str:
    return (symbol or "").replace("|", "\\|")


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(semantics_page(), end="")
