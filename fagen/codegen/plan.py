"""`KernelPlan`: one role of one variant with every decision taken; templates only print it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from fagen.analysis.axes import axes_of
from fagen.analysis.derivative import derivative
from fagen.analysis.linear import both
from fagen.analysis.products import product_of
from fagen.analysis.ranges import Range, declared_ranges
from fagen.analysis.rewrites import ORIGIN, TileScore, in_terms_of_qk, tile_score
from fagen.analysis.walk import KEYS, QUERIES, Stream, Test, Walk, plan_walk
from fagen.codegen.configs import Visits
from fagen.codegen.lifetimes import (
    BACKWARD_DKDV,
    BACKWARD_DQ,
    FORWARD,
    KEY_WALK,
    QUERY_WALK,
    Lifetime,
    Role,
)
from fagen.codegen.lower import dense, separated
from fagen.codegen.schedule import Scheduler
from fagen.codegen.triton_text import OWN_FUNCTIONS
from fagen.codegen.walk_lines import WalkLines, WalkStep, loop_header, range_ends
from fagen.spec.expr import LOG2E, TRUE, Expr, const, is_const, make, name, substitute
from fagen.spec.variant import SCORE, Variant

_WORD = re.compile(r"[A-Za-z_]\w*")


def words(texts: Iterable[str | None]) -> frozenset[str]:
    return frozenset(w for text in texts if text for w in _WORD.findall(text))


@dataclass(frozen=True)
class Loop:
    """One loop over tiles. `tile_lines` and `lines` are ready; the texts name what they computed.

    `tile_lines` concern vectors of the streamed side and stand before the products, so that no load
    of theirs falls between the start of an asynchronous product and its use.

    `keep` is the mask with the end of the streamed side, None for full tiles. `slope` is
    d(score')/d(score) where it is not constant; `row_shift` what is subtracted before exp2.
    """

    masked: bool
    before: tuple[str, ...]
    header: str
    start: tuple[str, ...]
    tile_lines: tuple[str, ...]
    lines: tuple[str, ...]
    keep: str | None
    score: str
    slope: str | None = None
    row_shift: str | None = None
    post_scale: str | None = None

    def texts(self) -> list[str | None]:
        named = (self.keep, self.score, self.slope, self.row_shift)
        return [*self.before, self.header, *self.start, *self.tile_lines, *self.lines, *named]

    @property
    def scores(self) -> str:
        return "scores" if self.masked else self.score

    @property
    def selects_gradient(self) -> bool:
        return self.masked and self.slope is not None

    @property
    def update_operands(self) -> str:
        return ", ".join(t for t in (self.scores, self.post_scale, "v") if t)

    @property
    def uses_kv_idx(self) -> bool:
        return "kv_idx" in words(self.texts())

    @property
    def uses_kv_column(self) -> bool:
        return not words(self.texts()).isdisjoint({"kv_idx", "kv_column"})

    @property
    def uses_q_idx(self) -> bool:
        return "q_idx" in words(self.texts())

    @property
    def uses_q_row(self) -> bool:
        return not words(self.texts()).isdisjoint({"q_idx", "q_row"})


class _Uses:
    """What a template asks about the variables that a kernel's lines mention."""

    uses: frozenset[str]

    def _uses(self, *names: str) -> bool:
        return not self.uses.isdisjoint(names)

    @property
    def uses_q_row(self) -> bool:
        return self._uses("q_idx", "q_row", "q_in_range")

    @property
    def uses_q_idx(self) -> bool:
        return self._uses("q_idx")

    @property
    def uses_q_in_range(self) -> bool:
        return self._uses("q_in_range")

    @property
    def uses_q_corners(self) -> bool:
        return self._uses("q_lo", "q_hi")

    @property
    def uses_q_hi(self) -> bool:
        return self._uses("q_hi")

    @property
    def uses_kv_column(self) -> bool:
        return self._uses("kv_idx", "kv_column", "kv_in_range")

    @property
    def uses_kv_idx(self) -> bool:
        return self._uses("kv_idx")

    @property
    def uses_kv_in_range(self) -> bool:
        return self._uses("kv_in_range")

    @property
    def uses_kv_corners(self) -> bool:
        return self._uses("kv_lo", "kv_hi")

    @property
    def uses_kv_hi(self) -> bool:
        return self._uses("kv_hi")


@dataclass(frozen=True)
class WalkPlan(_Uses):
    """A walk whose tests run in a kernel of their own, once for all programs that share it.

    That kernel writes `results` (the ends of the tile ranges) for each block of the stationary
    side, [batch, heads, blocks, results] without the axes that the walk does not depend on.
    """

    program_lines: tuple[str, ...]
    walk: tuple[WalkStep, ...]
    results: tuple[str, ...]
    by_batch: bool
    by_head: bool
    uses: frozenset[str]

    @property
    def place_lines(self) -> list[str]:
        """Lines that take `program` apart."""
        lines = ["h = program // blocks % heads"] if self.by_head else []
        if self.by_batch:
            lines.append("b = program // blocks" + (" // heads" if self.by_head else ""))
        return lines

    @property
    def store_lines(self) -> list[str]:
        count = len(self.results)
        return [
            f"tl.store(walk_ptr + program * {count} + {i}, {result})"
            for i, result in enumerate(self.results)
        ]

    def load_steps(self, block: str) -> tuple[WalkStep, ...]:
        """What a program that holds block `block` does instead of walking."""
        row = {
            (True, True): f"(b * heads + h) * blocks + {block}",
            (True, False): f"b * blocks + {block}",
            (False, True): f"h * blocks + {block}",
            (False, False): block,
        }[self.by_batch, self.by_head]
        lines = [f"walk = walk_ptr + ({row}) * {len(self.results)}"]
        least = "0"
        for i, result in enumerate(self.results):
            # The ends ascend. Said again here, since ptxas gives up on overlapping the products of
            # loops whose counts it cannot bound (C7515).
            lines.append(f"{result} = tl.maximum(tl.load(walk + {i}), {least})")
            least = result
        return tuple(WalkStep(line) for line in lines)

    def programs(self, blocks: str) -> str:
        """How many there are, as the launcher computes it."""
        return f"{blocks}{' * heads' * self.by_head}{' * batch' * self.by_batch}"


@dataclass(frozen=True)
class KernelPlan(_Uses):
    """What a template needs to print one kernel.

    `constant_slope` multiplies dq and dk at the end; where the derivative varies it is 1 and each
    loop has its `slope`. `epilogue` computes `sink` (base 2, relative to the row term) and
    `row_term` (natural) on flat vectors of rows.
    """

    role: Role
    program_lines: tuple[str, ...]
    head_lines: tuple[str, ...]
    walk: tuple[WalkStep, ...]
    walk_in_head_loop: bool
    loops: tuple[Loop, ...]
    post_scale: str | None
    reads_qk: bool
    constant_slope: float
    epilogue: tuple[str, ...]
    sink: str | None
    row_term: str | None
    uses: frozenset[str]

    @property
    def walk_once(self) -> bool:
        return not self.walk_in_head_loop

    @property
    def trains_qk(self) -> bool:
        """Whether q and k receive a gradient at all."""
        return self.constant_slope != 0.0

    @property
    def recomputes_qk(self) -> bool:
        return self.reads_qk or self.trains_qk

    @property
    def qk_factor(self) -> str:
        return "scale" if self.constant_slope == 1.0 else f"scale * {self.constant_slope!r}"

    @property
    def epilogue_uses_q_idx(self) -> bool:
        return "q_idx" in words(self.epilogue)


@dataclass(frozen=True)
class ModulePlan:
    """The kernels of a module and what its public functions need to know."""

    variant: Variant
    lowered: Variant
    forward: KernelPlan
    dkdv: KernelPlan
    dq: KernelPlan
    query_walk: WalkPlan | None
    key_walk: WalkPlan | None
    tile: TileScore
    slope: Expr
    walks: dict[str, Walk] = field(hash=False)

    @property
    def own_functions(self) -> frozenset[str]:
        used = self.forward.uses | self.dkdv.uses | self.dq.uses
        for walk in (self.query_walk, self.key_walk):
            used |= frozenset() if walk is None else walk.uses
        return frozenset(OWN_FUNCTIONS) & (used | words(self.forward.epilogue))

    @property
    def visits(self) -> Visits:
        """How much of its row a program of the forward visits."""
        segments = self.walks["forward"].segments
        if self.lowered.mask is TRUE:
            return "all"
        bounded = all(s.lo is not None and s.hi is not None for s in segments)
        return "few" if self.query_walk is not None or bounded else "some"

    @property
    def multiplies(self) -> bool:
        """Whether any kernel needs the product of two tiles, such as that of q and k."""
        return self.forward.reads_qk or self.dkdv.trains_qk

    @property
    def narrows(self) -> bool:
        return self.query_walk is not None or self.key_walk is not None


def plan_module(variant: Variant) -> ModulePlan:
    """Every decision for the dense kernels of partition fa2."""
    lowered = dense(variant)
    declared = declared_ranges(lowered)
    tile = tile_score(lowered, declared)
    slope = in_terms_of_qk(derivative(lowered.score, SCORE))
    by_keys = plan_walk(lowered, KEYS, declared)
    by_queries = plan_walk(lowered, QUERIES, declared)
    build = _Builder(lowered, declared, tile, slope)
    query_walk = build.walk(QUERY_WALK, by_keys)
    key_walk = build.walk(KEY_WALK, by_queries)
    return ModulePlan(
        variant=variant,
        lowered=lowered,
        forward=build.kernel(FORWARD, by_keys, query_walk, backward=False),
        dkdv=build.kernel(BACKWARD_DKDV, by_queries, key_walk, backward=True),
        dq=build.kernel(BACKWARD_DQ, by_keys, query_walk, backward=True),
        query_walk=query_walk,
        key_walk=key_walk,
        tile=tile,
        slope=slope,
        walks={"forward": by_keys, "dkdv": by_queries, "dq": by_keys},
    )


@dataclass
class _Builder:
    variant: Variant
    declared: dict[str, Range]
    tile: TileScore
    slope: Expr

    def _scheduler(self, role: Role) -> Scheduler:
        return Scheduler(
            role,
            self.declared,
            {t.name: t for t in self.variant.tensors},
            in_range=f"{role.stationary}_in_range",
            fast=self.variant.accuracy == "fast",
        )

    def walk(self, role: Role, walk: Walk) -> WalkPlan | None:
        """The walk as a kernel of its own, if it tests tiles; others are a few scalar steps."""
        if not any(isinstance(step, Test) for step in walk.steps):
            return None
        scheduler = self._scheduler(role)
        lines = WalkLines(scheduler, walk)
        steps = tuple(lines.print())
        hoisted = scheduler.hoisted
        program = (*hoisted.get(Lifetime.PROGRAM, ()), *hoisted.get(Lifetime.ROWS, ()))
        texts = [*program, *(text for step in steps for text in step.texts())]
        return WalkPlan(
            program_lines=program,
            walk=steps,
            results=range_ends(walk),
            by_batch="b" in lines.axes,
            by_head="h" in lines.axes,
            uses=words(texts),
        )

    def kernel(
        self, role: Role, walk: Walk, mapped: WalkPlan | None, *, backward: bool
    ) -> KernelPlan:
        own = QUERIES if role.stationary == "q" else KEYS
        scheduler = self._scheduler(role)
        walk_lines = WalkLines(scheduler, walk)
        if mapped is None:
            printed_walk = tuple(walk_lines.print())
        else:
            printed_walk = mapped.load_steps(f"{own.axis}_start // {own.block}")
        post_scale = self._post_scale(scheduler)
        loops = tuple(
            self._loop(scheduler, walk, masked, post_scale, backward=backward, own=own)
            for masked in (False, True)
            if (walk.masked if masked else walk.full)
        )
        epilogue: tuple[str, ...] = ()
        sink = row_term = None
        if not backward:
            epilogue, sink, row_term = self._epilogue(scheduler)
        lines = scheduler.hoisted
        program = (*lines.get(Lifetime.PROGRAM, ()), *lines.get(Lifetime.ROWS, ()))
        heads = tuple(lines.get(Lifetime.HEAD, ()))
        texts: list[str | None] = [*program, *heads, post_scale]
        for step in printed_walk:
            texts += step.texts()
        for loop in loops:
            texts += loop.texts()
        slope = product_of(self.slope)
        return KernelPlan(
            role=role,
            program_lines=program,
            head_lines=heads,
            walk=printed_walk,
            walk_in_head_loop=role.loops_over_heads and "h" in walk_lines.axes,
            loops=loops,
            post_scale=post_scale,
            reads_qk=self.tile.reads_qk,
            constant_slope=1.0 if slope.powers else slope.coefficient,
            epilogue=epilogue,
            sink=sink,
            row_term=row_term,
            uses=words(texts),
        )

    def _anchored(self, node: Expr, own: Stream) -> Expr:
        """Distances counted from the first index of the tile that the program holds."""
        return substitute(node, {ORIGIN: own.lo})

    def _post_scale(self, scheduler: Scheduler) -> str | None:
        if is_const(self.tile.post_scale, 1.0):
            return None
        _, texts = scheduler.emit([("post_scale", self.tile.post_scale)])
        return texts["post_scale"]

    def _loop(
        self,
        scheduler: Scheduler,
        walk: Walk,
        masked: bool,
        post_scale: str | None,
        *,
        backward: bool,
        own: Stream,
    ) -> Loop:
        outputs: list[tuple[str, Expr]] = [("score", self._anchored(self.tile.score, own))]
        if masked:
            inside = make("lt", walk.stream.row, walk.stream.length)
            outputs.append(("keep", both(separated(self.variant.mask), inside)))
        if backward and product_of(self.slope).powers:
            outputs.append(("slope", self._anchored(self.slope, own)))
        if backward:
            lse2, row_term = name("lse2", "float"), self._anchored(self.tile.row_term, own)
            if not is_const(row_term, 0.0):
                lse2 = make("sub", lse2, make("mul", row_term, const(LOG2E)))
            outputs.append(("row_shift", lse2))
        lines, texts = scheduler.emit(outputs)
        before, header, start = loop_header(
            walk.masked if masked else walk.full, "masked" if masked else "full"
        )
        score = texts["score"]
        spread: tuple[str, ...] = ()
        if not {"q", "kv"} <= axes_of(self.tile.score):
            # A row of scores would not broadcast over the tile by itself.
            zeros = f"tl.zeros([{own.block}, {walk.stream.block}], tl.float32)"
            variable = scheduler.names.fresh("spread", in_loop=True)
            score, spread = variable, (f"{variable} = {zeros} + {score}",)
        scheduler.names.end_loop()
        return Loop(
            masked=masked,
            before=tuple(before),
            header=header,
            start=tuple(start),
            tile_lines=tuple(lines.get(Lifetime.TILE, ())),
            lines=(*lines.get(Lifetime.ELEMENT, ()), *spread),
            keep=texts.get("keep"),
            score=score,
            slope=texts.get("slope"),
            row_shift=texts.get("row_shift"),
            post_scale=post_scale,
        )

    def _epilogue(self, scheduler: Scheduler):
        """Lines after the loops on flat row vectors, and the texts of sink and row term."""
        flat = self._scheduler(FORWARD)
        flat.adopt_program_values(scheduler)
        outputs: list[tuple[str, Expr]] = []
        row_term = self._anchored(self.tile.row_term, QUERIES)
        if not is_const(row_term, 0.0):
            outputs.append(("row_term", row_term))
        if self.variant.sink is not None:
            sink = self.variant.sink
            if not is_const(row_term, 0.0):
                sink = make("sub", sink, row_term)
            outputs.append(("sink", make("mul", sink, const(LOG2E))))
        if not outputs:
            return (), None, None
        _, texts = flat.emit(outputs)
        lines = (
            *flat.hoisted.get(Lifetime.PROGRAM, ()),
            *flat.hoisted.get(Lifetime.ROWS, ()),
        )
        return lines, texts.get("sink"), texts.get("row_term")
