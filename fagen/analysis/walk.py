"""From segments to the tiles a program visits, as scalar steps and tile ranges, or as a list.

Units are tiles of BLOCK columns of the streamed side, counted from column 0; column = index -
offset. Masked tiles need the mask evaluated, full tiles do not. Liveness is decided before the
loops, since a branch around the loads of a loop would end its pipelining. Where the tiles that pass
a test may have others between them, no range says which to visit: they are listed. Where corners do
not tell, as of most tables, all pairs of a tile are looked at, once for all that share the walk.
"""

from __future__ import annotations

from dataclasses import dataclass

from fagen.analysis.gaps import Trends
from fagen.analysis.linear import (
    both,
    ceildiv,
    choose,
    either,
    floordiv,
    maximum,
    minimum,
    sub,
)
from fagen.analysis.ranges import Range, range_of
from fagen.analysis.reading import TileReader
from fagen.analysis.segments import Segment, solve
from fagen.spec.expr import FALSE, TRUE, Expr, const, make, name
from fagen.spec.variant import Variant

ZERO = const(0)
LABELS = ("first", "stop", "full_first", "full_stop")


@dataclass(frozen=True)
class Stream:
    """The side a program walks along: index, row, tile corners, length, offset and tile width."""

    axis: str
    index: Expr
    row: Expr
    lo: Expr
    hi: Expr
    length: Expr
    offset: Expr
    block: Expr


KEYS = Stream(
    "kv", name("kv_idx"), name("kv_column"), name("kv_lo"), name("kv_hi"), name("kv_len"),
    name("kv_offset"), name("BLOCK_N"),
)  # fmt: skip
QUERIES = Stream(
    "q", name("q_idx"), name("q_row"), name("q_lo"), name("q_hi"), name("q_len"),
    name("q_offset"), name("BLOCK_M"),
)  # fmt: skip


@dataclass(frozen=True)
class Let:
    """name = value, a scalar; a later Let may assign the name again."""

    name: str
    value: Expr


@dataclass(frozen=True)
class Test:
    """Narrows [first, stop) to the tiles where `may` holds, and [full_first, full_stop) to those
    where `must` holds; where they have gaps for want of knowledge, to their hull and to nothing.

    `may` and `must` are evaluated for a vector of tiles, through the stream's corner names.
    The full names are None where no tile can be full.
    """

    may: Expr
    must: Expr
    first: str
    stop: str
    full_first: str | None
    full_stop: str | None


@dataclass(frozen=True)
class TileRange:
    """Tiles first ... stop - 1, both scalar expressions, never negative in length."""

    first: Expr
    stop: Expr


#: The tile that a `Listing` is evaluated for.
TILE = name("tile")


@dataclass(frozen=True)
class Listing:
    """Of the tiles `first` ... `stop` - 1 (names of scalars) visit those where `sure` holds without
    the mask, and the others where `live` holds with it.

    Both are conditions on `TILE` and on the stream's corner names; `sure` is FALSE where they tell
    of no tile that it is full. Of tiles that are live but not sure, `pairs` is evaluated for every
    pair if it is not None: a tile is live where it holds for one, and full where for all.
    """

    first: str
    stop: str
    live: Expr
    sure: Expr
    pairs: Expr | None = None

    @property
    def has_full(self) -> bool:
        return self.pairs is not None or self.sure is not FALSE


@dataclass(frozen=True)
class Walk:
    """Run `steps` in order, then visit the tiles of `masked` and `full`, or those of `listing`."""

    stream: Stream
    segments: tuple[Segment, ...]
    steps: tuple[Let | Test, ...]
    masked: tuple[TileRange, ...]
    full: tuple[TileRange, ...]
    listing: Listing | None = None

    @property
    def tests(self) -> bool:
        """Whether tiles are tested one by one."""
        return self.listing is not None or any(isinstance(step, Test) for step in self.steps)

    @property
    def has_masked(self) -> bool:
        return bool(self.masked) or self.listing is not None

    @property
    def has_full(self) -> bool:
        return bool(self.full) or (self.listing is not None and self.listing.has_full)

    @property
    def roots(self) -> list[Expr]:
        """Every expression of tiles that the steps and the listing evaluate."""
        found: list[Expr] = []
        for step in self.steps:
            found += [step.value] if isinstance(step, Let) else [step.may, step.must]
        return found + ([] if self.listing is None else [self.listing.live, self.listing.sure])

    @property
    def pairs(self) -> Expr | None:
        """The condition that the walk evaluates for every pair of some tiles."""
        return None if self.listing is None else self.listing.pairs


def plan_walk(variant: Variant, stream: Stream, declared: dict[str, Range]) -> Walk:
    """The walk along `stream` of a program that holds one tile of the other side."""
    tensors = {t.name: t for t in variant.tensors}
    reader = TileReader("kv" if stream.axis == "q" else "q", declared, tensors)
    segments = solve(variant.mask, stream.index, reader)
    return _walk(variant.mask, stream, segments, reader, declared)


@dataclass
class _Names:
    first: Expr
    stop: Expr
    full_first: Expr
    full_stop: Expr
    starts_at_zero: bool
    can_be_full: bool
    suffix: str
    may: Expr
    must: Expr

    @property
    def is_tested(self) -> bool:
        return (self.may, self.must) not in ((TRUE, TRUE), (TRUE, FALSE))


def _walk(
    mask: Expr,
    stream: Stream,
    segments: tuple[Segment, ...],
    reader: TileReader,
    declared: dict[str, Range],
) -> Walk:
    steps: list[Let | Test] = []
    parts: list[_Names] = []
    for i, segment in enumerate(segments):
        suffix = f"_{i}" if len(segments) > 1 else ""
        parts.append(_tiles_of(segment, stream, suffix, reader, steps, declared))
    trends = Trends(frozenset({str(stream.lo), str(stream.hi)}), reader.declared, reader.tensors)
    pairs = None if all(reader.tells_all(s.residual) for s in segments) else mask
    if pairs or any(trends.leaves_gaps(t) for part in parts for t in (part.may, part.must)):
        listing = _listing(parts, steps, pairs)
        return Walk(stream, segments, tuple(steps), (), (), listing)
    for part in parts:
        if part.is_tested:
            _narrow(part, steps)
    if len(parts) > 1:
        parts = _in_order(parts, steps)
        _disjoint(parts, steps)
    masked: list[TileRange] = []
    full: list[TileRange] = []
    for part in parts:
        if not part.can_be_full:
            masked.append(TileRange(part.first, part.stop))
            continue
        if part.full_first is not part.first:
            masked.append(TileRange(part.first, part.full_first))
        masked.append(TileRange(part.full_stop, part.stop))
        full.append(TileRange(part.full_first, part.full_stop))
    return Walk(stream, segments, tuple(steps), tuple(masked), tuple(full))


def _tiles_of(
    segment: Segment,
    stream: Stream,
    suffix: str,
    reader: TileReader,
    steps: list[Let | Test],
    declared: dict[str, Range],
) -> _Names:
    def let(label: str, value: Expr) -> Expr:
        if value.op in ("const", "name"):
            return value
        steps.append(Let(label + suffix, value))
        return name(label + suffix)

    def column(index: Expr) -> Expr:
        found = sub(index, stream.offset)
        # kv_offset + n needs no clamp.
        return maximum(found, ZERO) if range_of(declared, found)[0] < 0 else found

    def end_of(index: Expr | None) -> Expr:
        return stream.length if index is None else minimum(column(index), stream.length)

    may, must = reader.truth(segment.residual)
    can_be_full = must is not FALSE and segment.gate_must is not FALSE
    # Not clamped to the length: then an interval past the end has no tile, not even the last one.
    first = ZERO if segment.lo is None else floordiv(column(segment.lo), stream.block)
    first = let("first", first)
    end = let("end", end_of(segment.hi))
    stop = ceildiv(end, stream.block)
    if first is not ZERO:
        stop = maximum(stop, first)
    if segment.gate_may is not TRUE:
        stop = choose(segment.gate_may, stop, first)
    stop = let("stop", stop)
    if not can_be_full:
        full_first = full_stop = stop
    else:
        full_first = first
        if segment.full_lo is not None:
            begin = ceildiv(column(segment.full_lo), stream.block)
            full_first = let("full_first", minimum(maximum(begin, first), stop))
        full_end = end
        if segment.full_hi is not segment.hi and segment.full_hi is not None:
            full_end = end_of(segment.full_hi)
        full_stop = floordiv(full_end, stream.block)
        if full_first is not ZERO:
            full_stop = maximum(full_stop, full_first)
        if segment.gate_may is not TRUE or segment.gate_must is not TRUE:
            full_stop = choose(segment.gate_must, full_stop, full_first)
        full_stop = let("full_stop", full_stop)
    return _Names(
        first=first,
        stop=stop,
        full_first=full_first,
        full_stop=full_stop,
        starts_at_zero=first is ZERO,
        can_be_full=can_be_full,
        suffix=suffix,
        may=may,
        must=must if can_be_full else FALSE,
    )


def _narrow(part: _Names, steps: list[Let | Test]) -> None:
    """Test the tiles of a segment; its ends become names that the test can assign."""
    if part.first is ZERO:
        part.first = _assigned("first" + part.suffix, ZERO, steps)
    if part.can_be_full and part.full_first is ZERO:
        part.full_first = _assigned("full_first" + part.suffix, ZERO, steps)
    part.starts_at_zero = False
    first, stop, *full = (f"{label}{part.suffix}" for label in LABELS)
    if part.can_be_full:
        steps.append(Test(part.may, part.must, first, stop, *full))
    else:
        steps.append(Test(part.may, FALSE, first, stop, None, None))


def _assigned(label: str, value: Expr, steps: list[Let | Test]) -> Expr:
    steps.append(Let(label, value))
    return name(label)


def _listing(parts: list[_Names], steps: list[Let | Test], pairs: Expr | None) -> Listing:
    """All segments at once: a tile is visited for any of them, and without the mask if one says
    that it is full."""
    first, stop = parts[0].first, parts[0].stop
    for part in parts[1:]:
        first, stop = minimum(first, part.first), maximum(stop, part.stop)
    if first.op != "name":
        first = _assigned("first", first, steps)
    if stop.op != "name":
        stop = _assigned("stop", stop, steps)
    live, sure = [], []
    for part in parts:
        live.append(both(_within(part.first, part.stop, first, stop), part.may))
        if part.can_be_full:
            full = _within(part.full_first, part.full_stop, first, stop)
            sure.append(both(full, part.must))
    return Listing(str(first.value), str(stop.value), either(*live), either(*sure), pairs)


def _within(first: Expr, stop: Expr, outer_first: Expr, outer_stop: Expr) -> Expr:
    """Whether `TILE`, one of outer_first ... outer_stop - 1, is one of first ... stop - 1."""
    return both(
        TRUE if first in (ZERO, outer_first) else make("ge", TILE, first),
        TRUE if stop is outer_stop else make("lt", TILE, stop),
    )


def _in_order(parts: list[_Names], steps: list[Let | Test]) -> list[_Names]:
    """Sort by first tile at run time; a segment that starts at 0 needs no comparison."""
    fixed = [p for p in parts if p.starts_at_zero]
    moving = [p for p in parts if not p.starts_at_zero]
    if len(moving) < 2:
        return fixed + moving
    anything_full = any(p.can_be_full for p in moving)
    for i, p in enumerate(moving):
        p.can_be_full = anything_full
        # Names of their own: an exchange must not reach what two ends share.
        for label in LABELS:
            own = f"{label}_of_{i}"
            steps.append(Let(own, getattr(p, label)))
            setattr(p, label, name(own))
    for end in range(len(moving) - 1, 0, -1):
        for i in range(end):
            _exchange(moving[i], moving[i + 1], steps)
    return fixed + moving


def _exchange(a: _Names, b: _Names, steps: list[Let | Test]) -> None:
    """Swap the tile ranges of two segments where the second starts before the first."""
    swap = name("swap", "bool")
    steps.append(Let("swap", make("lt", b.first, a.first)))
    for label in LABELS:
        x, y = getattr(a, label), getattr(b, label)
        steps.append(Let("smaller_end", make("where", swap, y, x)))
        steps.append(Let(str(y.value), make("where", swap, x, y)))
        steps.append(Let(str(x.value), name("smaller_end")))


def _disjoint(parts: list[_Names], steps: list[Let | Test]) -> None:
    """Give each tile to the first segment that visits it."""
    taken = parts[0].stop
    for i, part in enumerate(parts[1:], start=1):
        suffix = f"_{i}_trimmed"

        def let(label: str, value: Expr, suffix: str = suffix) -> Expr:
            if value.op == "name":
                return value
            steps.append(Let(label + suffix, value))
            return name(label + suffix)

        first = let("first", taken if part.first is ZERO else maximum(part.first, taken))
        stop = let("stop", maximum(part.stop, first))
        if part.can_be_full:
            full_first = first
            if part.full_first is not part.first:
                full_first = let("full_first", maximum(part.full_first, first))
            full_stop = let("full_stop", maximum(part.full_stop, full_first))
        else:
            full_first = full_stop = stop
        part.first, part.stop, part.full_first, part.full_stop = first, stop, full_first, full_stop
        taken = stop
