"""`ModulePlan`: every decision for the kernels of a module, taken from its variant."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from fagen.analysis.axes import axes_of
from fagen.analysis.derivative import derivative
from fagen.analysis.distance import TABULATED, tabulate
from fagen.analysis.equivalent import congruent
from fagen.analysis.linear import both
from fagen.analysis.products import in_steps, is_one_step, product_of
from fagen.analysis.ranges import FLOAT, SATURATED, Range, declared_ranges, range_of
from fagen.analysis.rewrites import ORIGIN, TileScore, in_terms_of_qk, tile_score
from fagen.analysis.walk import KEYS, QUERIES, Stream, Walk, plan_walk
from fagen.codegen.configs import Visits
from fagen.codegen.defaults import LONGEST, default_sizes
from fagen.codegen.kernel_plan import KernelPlan, Loop, TabulatePlan, WalkPlan
from fagen.codegen.lifetimes import (
    BACKWARD_DKDV,
    BACKWARD_DQ,
    FORWARD,
    KEY_WALK,
    QUERY_WALK,
    TABULATE,
    Lifetime,
    Role,
)
from fagen.codegen.lower import packed, separated
from fagen.codegen.naming import words
from fagen.codegen.schedule import Scheduler
from fagen.codegen.triton_text import OWN_FUNCTIONS, number
from fagen.codegen.walk_lines import WalkLines, WalkStep, loop_header, walk_results
from fagen.spec.expr import (
    LOG2E,
    TRUE,
    Expr,
    const,
    is_const,
    make,
    name,
    post_order,
    saturated,
    substitute,
)
from fagen.spec.names import Axes
from fagen.spec.variant import SCORE, Variant


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
    tabulate: TabulatePlan | None = None

    @property
    def own_functions(self) -> frozenset[str]:
        used = self.forward.uses | self.dkdv.uses | self.dq.uses
        for walk in (self.query_walk, self.key_walk):
            used |= frozenset() if walk is None else walk.uses
        used |= frozenset() if self.tabulate is None else self.tabulate.uses
        return frozenset(OWN_FUNCTIONS) & (used | words(self.forward.epilogue))

    @property
    def lengths(self) -> list[str]:
        """What launchers need to know of the longest sequence, for tables and lists they make."""
        variant = self.variant
        made = [default_sizes(variant, t) for t in variant.tensors if t.default is not None]
        sizes = {size for table in made for size in table}
        walks = (self.query_walk, self.key_walk)
        sizes |= {walk.streamed_length for walk in walks if walk is not None and walk.lists}
        return [longest for size, longest in LONGEST.items() if size in sizes]

    @property
    def visits(self) -> Visits:
        """How much of its row a program of the forward visits, and what it reads there."""
        segments = self.walks["forward"].segments
        staged = self._staged()
        of_pairs = [size for axes, size in staged if {"q", "kv"} <= axes]
        if of_pairs:
            return "reads" if sum(of_pairs) <= 4 else "gathers"
        if self.lowered.mask is TRUE:
            # Also what is read for each key takes room beside the largest tiles.
            return "some" if any("kv" in axes for axes, _ in staged) else "all"
        bounded = all(s.lo is not None and s.hi is not None for s in segments)
        return "few" if self.query_walk is not None or bounded else "some"

    def _staged(self) -> list[tuple[Axes, int]]:
        """Axes and bytes of every read that may be staged in shared memory, as no bool is."""
        reads = [n for n in post_order(self.lowered.mask, self.lowered.score) if n.op == "read"]
        tables = {t.name: t for t in self.lowered.tensors if t.dtype != "bool"}
        return [
            (axes_of(n), tables[str(n.value)].itemsize) for n in reads if str(n.value) in tables
        ]

    @property
    def multiplies(self) -> bool:
        """Whether any kernel needs the product of two tiles, such as that of q and k."""
        return self.forward.reads_qk or self.dkdv.trains_qk

    @property
    def tests_many_tiles(self) -> bool:
        """Whether a walk tests the corners of many tiles at once."""
        walks = [w for w in (self.query_walk, self.key_walk) if w is not None]
        steps = [step for w in walks for step in w.walk]
        return any(step.test is not None and step.by_pairs is None for step in steps)


def plan_module(variant: Variant) -> ModulePlan:
    """Every decision for the kernels of partition fa2."""
    lowered = packed(variant)
    tabulation = tabulate(lowered)
    if tabulation is not None:
        lowered = tabulation.variant
    declared = declared_ranges(lowered) | {f"{TABULATED}[]": SATURATED}
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
        tabulate=None if tabulation is None else build.tabulate(tabulation.entry),
    )


def _of_template(steps: Iterable[WalkStep], stream: Stream) -> set[str]:
    """What the template adds to the lines of tests: corners of streamed tiles, rows that exist."""
    found: set[str] = set()
    for step in steps:
        if step.test is not None and (step.test.uses_lo or step.test.uses_hi):
            found.add(str(stream.offset))
        if step.test is not None and step.test.uses_hi:
            found.add(str(stream.length))
        if step.listing is not None and step.listing.keep is not None:
            found.add("kv_in_range" if stream.axis == "q" else "q_in_range")
    return found


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

    def tabulate(self, entry: Expr) -> TabulatePlan:
        """A kernel that writes `entry` for every distance, kept finite as `SATURATED` says."""
        scheduler = self._scheduler(TABULATE)
        if range_of(self.declared, entry) == FLOAT:
            entry = saturated(entry)
        lines, texts = scheduler.emit([("entry", entry)])
        return TabulatePlan(
            program_lines=tuple(scheduler.hoisted.get(Lifetime.PROGRAM, ())),
            lines=tuple(lines.get(Lifetime.TILE, ())),
            entry=texts["entry"],
        )

    def walk(self, role: Role, walk: Walk) -> WalkPlan | None:
        """The walk as a kernel of its own, if it tests tiles; others are a few scalar steps."""
        if not walk.tests:
            return None
        scheduler = self._scheduler(role)
        lines = WalkLines(scheduler, walk, self._keep(walk.stream))
        steps = tuple(lines.print())
        hoisted = scheduler.hoisted
        program = (*hoisted.get(Lifetime.PROGRAM, ()), *hoisted.get(Lifetime.ROWS, ()))
        texts = [*program, *(text for step in steps for text in step.texts())]
        return WalkPlan(
            program_lines=program,
            walk=steps,
            results=walk_results(walk),
            lists=walk.listing is not None,
            in_range=scheduler.in_range,
            streamed_length=str(walk.stream.length),
            longest=LONGEST[str(walk.stream.length)],
            block=str(walk.stream.block),
            by_batch="b" in lines.axes,
            by_head="h" in lines.axes,
            uses=words(texts) | _of_template(steps, walk.stream),
            ends_meet=self.variant.position == "end",
        )

    def kernel(
        self, role: Role, walk: Walk, mapped: WalkPlan | None, *, backward: bool
    ) -> KernelPlan:
        own = QUERIES if role.stationary == "q" else KEYS
        scheduler = self._scheduler(role)
        walk_lines = WalkLines(scheduler, walk, self._keep(walk.stream))
        printed_walk = tuple(walk_lines.print()) if mapped is None else mapped.load_steps
        post_scale = self._post_scale(scheduler)
        loops = tuple(
            self._loop(scheduler, walk, masked, post_scale, backward=backward, own=own)
            for masked in (False, True)
            if (walk.has_masked if masked else walk.has_full)
        )
        epilogue: tuple[str, ...] = ()
        ends: dict[str, str] = {}
        if not backward:
            epilogue, ends = self._epilogue(scheduler)
        lines = scheduler.hoisted
        program = (*lines.get(Lifetime.PROGRAM, ()), *lines.get(Lifetime.ROWS, ()))
        heads = tuple(lines.get(Lifetime.HEAD, ()))
        texts: list[str | None] = [*program, *heads, post_scale]
        for step in printed_walk:
            texts += step.texts()
        for loop in loops:
            texts += loop.texts()
        return KernelPlan(
            role=role,
            program_lines=program,
            head_lines=heads,
            walk=printed_walk,
            walk_in_head_loop=role.loops_over_heads and "h" in walk_lines.axes,
            loops=loops,
            post_scale=post_scale,
            reads_qk=self.tile.reads_qk,
            constant_slope=1.0 if self._slope_varies else product_of(self.slope).coefficient,
            epilogue=epilogue,
            sink=ends.get("sink"),
            own_sink=ends.get("own_sink"),
            row_term=ends.get("row_term"),
            uses=words(texts),
            ends_meet=self.variant.position == "end",
        )

    @property
    def _slope_varies(self) -> bool:
        """Also a constant that is no plain number of float32 stands where a select follows it."""
        slope = product_of(self.slope)
        return bool(slope.powers) or not is_one_step(slope.coefficient)

    def _anchored(self, node: Expr, own: Stream) -> Expr:
        """Distances counted from the first index of the tile that the program holds."""
        return substitute(node, {ORIGIN: own.lo})

    def _keep(self, stream: Stream) -> Expr:
        """The mask with the end of the streamed side."""
        inside = make("lt", stream.row, stream.length)
        return both(separated(congruent(self.variant.mask, stream.axis)), inside)

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
            outputs.append(("keep", self._keep(walk.stream)))
        if backward and self._slope_varies:
            outputs.append(("slope", self._anchored(self.slope, own)))
        if backward:
            lse2, row_term = name("lse2", "float"), self._anchored(self.tile.row_term, own)
            if not is_const(row_term, 0.0):
                lse2 = make("sub", lse2, make("mul", row_term, const(LOG2E)))
            outputs.append(("row_shift", lse2))
        lines, texts = scheduler.emit(outputs)
        if "slope" in texts and self.slope.op == "const":
            texts["slope"] = _constant_slope(float(self.slope.value))  # type: ignore[arg-type]
        # Few tiles are masked where others are full: a shorter pipeline leaves more shared memory,
        # and with it another block, to each multiprocessor.
        stages = "MASKED_STAGES" if masked and walk.has_full else None
        before, header, start = loop_header(walk, masked, stages)
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

    def _epilogue(self, scheduler: Scheduler) -> tuple[tuple[str, ...], dict[str, str]]:
        """Lines after the loops on flat row vectors, and the texts that KernelPlan calls so."""
        flat = self._scheduler(FORWARD)
        flat.adopt_program_values(scheduler)
        outputs: list[tuple[str, Expr]] = []
        row_term = self._anchored(self.tile.row_term, QUERIES)
        if not is_const(row_term, 0.0):
            outputs.append(("row_term", row_term))
        if self.variant.sink is not None:
            sink = self.variant.sink
            if not is_const(row_term, 0.0):
                outputs.append(("own_sink", sink))
                sink = make("sub", sink, row_term)
            outputs.append(("sink", make("mul", sink, const(LOG2E))))
        if not outputs:
            return (), {}
        _, texts = flat.emit(outputs)
        lines = (
            *flat.hoisted.get(Lifetime.PROGRAM, ()),
            *flat.hoisted.get(Lifetime.ROWS, ()),
        )
        return lines, texts


def _constant_slope(value: float) -> str:
    """A slope past float32 as factors, applied one after another; zero stays zero beside inf."""
    if not math.isfinite(value):
        return f"tl.where(p == 0.0, 0.0, {number(value)[0]})"
    return " * ".join(number(factor)[0] for factor in in_steps(value))
