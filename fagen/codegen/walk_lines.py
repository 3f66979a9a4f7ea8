"""The walk as lines of a kernel: scalar steps, vector tests, and the headers of the tile loops."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fagen.analysis.axes import axes_of
from fagen.analysis.ranges import range_of
from fagen.analysis.walk import TILE, Let, Listing, Test, TileRange, Walk
from fagen.codegen.lifetimes import Lifetime
from fagen.codegen.naming import Names, Writer, suggested_name, words
from fagen.codegen.schedule import Scheduler
from fagen.codegen.triton_text import Text
from fagen.spec.expr import FALSE, TRUE, Expr, names_in, post_order
from fagen.spec.names import INDEX_LIMIT, Axes
from fagen.spec.text import ATOM


@dataclass(frozen=True)
class Narrowing:
    """A `walk.Test` ready to print: `lines` compute the texts `may` and `must` for many tiles.

    `may` is None where every tile may hold a pair, `must` where no tile is known to be full.
    `uses_lo` and `uses_hi`: whether the corners of the streamed tiles are needed.
    """

    lines: tuple[str, ...]
    may: str | None
    must: str | None
    first: str
    stop: str
    full_first: str | None
    full_stop: str | None
    uses_lo: bool
    uses_hi: bool

    def texts(self) -> list[str]:
        return [*self.lines, self.may or "", self.must or ""]


@dataclass(frozen=True)
class ListingText:
    """A `walk.Listing` ready to print: `lines` compute the texts `live` and `sure`.

    `live` is None where the corners of a tile exclude none, `sure` where they call none full.
    `pair_lines` compute `keep` for every pair of a tile, None where corners decide.
    """

    lines: tuple[str, ...]
    live: str | None
    sure: str | None
    first: str
    stop: str
    uses_lo: bool
    uses_hi: bool
    pair_lines: tuple[str, ...] = ()
    keep: str | None = None
    uses_index: bool = False

    @property
    def corners_tell(self) -> bool:
        return self.live is not None or self.sure is not None

    @property
    def live_as_int(self) -> str:
        return "1" if self.live is None else f"tl.where({self.live}, 1, 0)"

    @property
    def sure_as_int(self) -> str:
        return "0" if self.sure is None else f"tl.where({self.sure}, 1, 0)"

    def texts(self) -> list[str]:
        own = [*self.lines, self.live or "", self.sure or "", self.first, self.stop]
        return [*own, *self.pair_lines, self.keep or ""]


@dataclass(frozen=True)
class WalkStep:
    """A finished line, a narrowing or a listing; one of the three."""

    line: str = ""
    narrowing: Narrowing | None = None
    listing: ListingText | None = None

    @property
    def by_pairs(self) -> ListingText | None:
        """A listing that looks at pairs, tile by tile; others test many tiles at once."""
        return self.listing if self.listing is not None and self.listing.keep else None

    @property
    def test(self) -> Narrowing | ListingText | None:
        return self.narrowing or self.listing

    def texts(self) -> list[str]:
        return [self.line] if self.test is None else self.test.texts()


class WalkLines:
    """Prints one walk; row vectors it reduces are hoisted by the kernel's scheduler.

    `keep` is `walk.pairs` as kernels evaluate it, with the end of the streamed side.
    """

    def __init__(self, scheduler: Scheduler, walk: Walk, keep: Expr) -> None:
        self.scheduler = scheduler
        self.walk = walk
        self.keep = keep
        self.texts: dict[Expr, Text] = {}
        own = frozenset(s.name for s in walk.steps if isinstance(s, Let)) | {str(TILE.value)}
        # Tile and column counts: never negative, never past a length.
        scheduler.declared |= {label: (0, INDEX_LIMIT) for label in own}
        self.names = Names(scheduler.names.reserved | own, scheduler.names.taken)

    @property
    def axes(self) -> Axes:
        """Which of batch and heads the tiles depend on."""
        pairs = () if self.walk.pairs is None else (self.walk.pairs,)
        return axes_of(*self.walk.roots, *pairs) & {"b", "h"}

    def print(self) -> list[WalkStep]:
        printed = [WalkStep(line) for line in self._reductions()]
        for step in self.walk.steps:
            if isinstance(step, Let):
                lines, (text,) = self._write(step.value)
                text = self._narrowed(step.value, text)
                printed += [WalkStep(line) for line in (*lines, f"{step.name} = {text}")]
            else:
                printed.append(WalkStep(narrowing=self._narrowing(step)))
        if self.walk.listing is not None:
            printed.append(WalkStep(listing=self._listing(self.walk.listing)))
        return printed

    def _narrowed(self, value: Expr, text: str) -> str:
        """A count of tiles in 32 bits, whatever it came from: loops carry variables of one type.

        Beyond every length one count is as good as another.
        """
        lowered = self.scheduler.lowered(value)
        if value.type != "int" or not self.scheduler.printer(lowered).is_long(lowered):
            return text
        if range_of(self.scheduler.declared, value)[1] > INDEX_LIMIT:
            text = f"tl.minimum({text}, {INDEX_LIMIT})"
        return f"{text}.to(tl.int32)" if text.endswith(")") else f"({text}).to(tl.int32)"

    def _reductions(self) -> Iterable[str]:
        """`x_least = tl.min(...)`: extremes of row vectors, each once, before the steps."""
        for root in self.walk.roots:
            for node in post_order(self.scheduler.lowered(root)):
                if node.op not in ("row_min", "row_max") or node in self.texts:
                    continue
                rows = node.args[0]
                label = suggested_name(rows)
                _, texts = self.scheduler.emit([(label, rows)])
                text = self.scheduler.printer(node).text(node, [(texts[label], ATOM)])[0]
                suffix = "least" if node.op == "row_min" else "greatest"
                variable = self.names.fresh(f"{label}_{suffix}")
                self.texts[node] = (variable, ATOM)
                yield f"{variable} = {text}"

    def _write(self, *roots: Expr) -> tuple[list[str], list[str]]:
        """Lines and the final text of each root; only loads and parts of long lines get names."""
        lowered = [self.scheduler.lowered(root) for root in roots]
        lines: list[str] = []
        texts = dict(self.texts)
        writer = Writer(
            printer=self.scheduler.printer(*lowered),
            texts=texts,
            place=lambda node: (lines, False),
            names=self.names,
            named=lambda node: node.op == "load",
        )
        writer.write(lowered)
        return lines, [texts[root][0] for root in lowered]

    def _narrowing(self, test: Test) -> Narrowing:
        if test.full_first is None:
            lines, (may,) = self._write(test.may)
            must = None
        else:
            lines, (may, must) = self._write(test.may, test.must)
        return Narrowing(
            lines=tuple(lines),
            may=None if test.may is TRUE else may,
            must=must,
            first=test.first,
            stop=test.stop,
            full_first=test.full_first,
            full_stop=test.full_stop,
            uses_lo=self._mentions(self.walk.stream.lo, test.may, test.must),
            uses_hi=self._mentions(self.walk.stream.hi, test.may, test.must),
        )

    def _listing(self, listing: Listing) -> ListingText:
        lines, (live, sure) = self._write(listing.live, listing.sure)
        pair_lines: list[str] = []
        keep = None
        if listing.pairs is not None:
            found, texts = self.scheduler.emit([("keep", self.keep)])
            pair_lines = [*found.get(Lifetime.TILE, ()), *found.get(Lifetime.ELEMENT, ())]
            keep = texts["keep"]
        return ListingText(
            lines=tuple(lines),
            live=None if listing.live is TRUE else live,
            sure=None if listing.sure is FALSE else sure,
            first=listing.first,
            stop=listing.stop,
            uses_lo=self._mentions(self.walk.stream.lo, listing.live, listing.sure),
            uses_hi=self._mentions(self.walk.stream.hi, listing.live, listing.sure),
            pair_lines=tuple(pair_lines),
            keep=keep,
            uses_index=str(self.walk.stream.index.value) in words([*pair_lines, keep]),
        )

    @staticmethod
    def _mentions(corner: Expr, *tests: Expr) -> bool:
        return corner.value in names_in(*tests)


def walk_results(walk: Walk) -> tuple[str, ...]:
    """The variables that say where the walk leads, each once: ends of ranges or counts of tiles."""
    if walk.listing is not None:
        return ("full_count", "masked_count") if walk.has_full else ("masked_count",)
    ends = [e for tiles in (*walk.masked, *walk.full) for e in (tiles.first, tiles.stop)]
    return tuple(dict.fromkeys(str(e) for e in ends if e.op == "name"))


Header = tuple[list[str], str, list[str]]


def loop_header(walk: Walk, masked: bool, stages: str | None = None) -> Header:
    """(lines before, the `for` line, lines at its start) of one loop over all masked or full tiles.

    `stages` names the depth of its pipeline where that is not the kernel's.
    """
    kind = "masked" if masked else "full"
    depth = "" if stages is None else f", num_stages={stages}"
    if walk.listing is not None:
        return _over_list(kind, depth)
    return _over_ranges(walk.masked if masked else walk.full, kind, depth)


def _over_list(kind: str, depth: str) -> Header:
    """Each tile is read a step ahead, so that the loads of its keys need not wait for it."""
    first, following = {
        "full": ("walk + 2", "walk + 3 + step"),
        "masked": ("walk + walk_stride_0 - 1", "walk + walk_stride_0 - 2 - step"),
    }[kind]
    header = f"for step in tl.range(0, {kind}_count{depth}):"
    start = ["tile = next_tile", f"next_tile = tl.load({following})"]
    return [f"next_tile = tl.load({first})"], header, start


def _over_ranges(ranges: tuple[TileRange, ...], kind: str, depth: str) -> Header:
    """Several ranges become one loop whose counter is mapped to a tile by adding each gap once it
    is passed, so that the loop stays a single pipeline.
    """
    if len(ranges) == 1:
        first, stop = ranges[0].first, ranges[0].stop
        return [], f"for tile in tl.range({first}, {stop}{depth}):", []
    before: list[str] = []
    passed: list[str] = []
    for i, tiles in enumerate(ranges):
        length = f"{tiles.stop}" if str(tiles.first) == "0" else f"{tiles.stop} - {tiles.first}"
        previous = f"{passed[-1]} + " if passed else ""
        passed.append(f"{kind}_count_{i}")
        before.append(f"{passed[-1]} = {previous}{length}")
    start = [f"tile = {ranges[0].first} + step" if str(ranges[0].first) != "0" else "tile = step"]
    for i in range(1, len(ranges)):
        gap = f"{ranges[i].first} - {ranges[i - 1].stop}"
        start.append(f"tile += tl.where(step >= {passed[i - 1]}, {gap}, 0)")
    return before, f"for step in tl.range(0, {passed[-1]}{depth}):", start
