"""What a variant became: segments, lifetimes, rewrites and derivative, as texts and plain data.

Everything comes from the values that kernels are printed from: what is read here is what runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fagen.analysis.axes import axes_by_node
from fagen.analysis.rewrites import TileScore
from fagen.analysis.segments import Segment
from fagen.analysis.walk import Let, Test, TileRange, Walk
from fagen.codegen.kernel_plan import KernelPlan
from fagen.codegen.lifetimes import Lifetime, Role
from fagen.codegen.lower import separated
from fagen.codegen.plan import ModulePlan
from fagen.spec.expr import FALSE, LOG2E, TRUE, Expr, is_const, post_order
from fagen.spec.text import to_text

#: Names that the texts use beyond those of the language.
LEGEND = {
    "q_lo, q_hi": "first and last position of the tile of queries",
    "kv_lo, kv_hi": "first and last position of the tile of keys",
    "origin": "first position of the tile that the program holds",
    "LOG2E": "log2(e), since the kernels use exp2",
    "qk": "one query times one key, without scale",
    "row_min, row_max": "over the rows that the program holds",
}


@dataclass(frozen=True)
class SegmentText:
    """`live`: outside of it no pair is; `full`: inside of it the solved conjuncts all hold.

    `solved` are the conjuncts behind the bounds, `tested` what remains ("" for nothing), `gate` a
    condition free of the streamed index without which the segment is empty.
    """

    live: str
    full: str
    solved: tuple[str, ...]
    tested: str
    gate: str


@dataclass(frozen=True)
class RoleText:
    """One kernel: its axes, the segments it walks, the steps to their tiles, and its lifetimes."""

    role: str
    axes: dict[str, str]
    segments: tuple[SegmentText, ...]
    steps: tuple[str, ...]
    masked_tiles: tuple[str, ...]
    full_tiles: tuple[str, ...]
    lifetimes: dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Rewrites:
    """log2(e) * score = post_scale * tile_score + log2(e) * row_term, see `TileScore`."""

    tile_score: str
    post_scale: str
    post_scale_sign: str
    row_term: str
    reads_qk: bool


@dataclass(frozen=True)
class Explanation:
    """`derivative` is d(score after)/d(score before)."""

    name: str
    description: str
    spec: str
    mask: str
    score: str
    scale: str
    sink: str | None
    rewrites: Rewrites
    derivative: str
    roles: tuple[RoleText, ...]


_SIZE = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\.(\d+)")


def _shown(node: Expr) -> str:
    """As a user would write it, but for the two things a user has no word for."""
    return _SIZE.sub(r"\1.shape[\2]", to_text(node).replace(repr(LOG2E), "LOG2E"))


def explain(plan: ModulePlan) -> Explanation:
    """The decisions of a plan, for people."""
    variant = plan.variant
    kernels = {"forward": plan.forward, "dkdv": plan.dkdv, "dq": plan.dq}
    return Explanation(
        name=variant.name,
        description=variant.description,
        spec=variant.hash,
        mask=_shown(variant.mask),
        score=_shown(variant.score),
        scale=_shown(variant.scale),
        sink=None if variant.sink is None else _shown(variant.sink),
        rewrites=_rewrites(plan.tile),
        derivative=_shown(plan.slope),
        roles=tuple(
            _role(role, kernel, plan)
            for role, kernel in kernels.items()
            if role != "dq" or kernel.trains_qk
        ),
    )


def _rewrites(tile: TileScore) -> Rewrites:
    if is_const(tile.post_scale, 1.0):
        sign = "absent"
    else:
        sign = "positive, checked at the call" if tile.scale_must_be_positive else "proven positive"
    return Rewrites(
        tile_score=_shown(tile.score),
        post_scale=_shown(tile.post_scale),
        post_scale_sign=sign,
        row_term=_shown(tile.row_term),
        reads_qk=tile.reads_qk,
    )


def _role(label: str, kernel: KernelPlan, plan: ModulePlan) -> RoleText:
    walk = plan.walks[label]
    return RoleText(
        role=label,
        axes=kernel.role.describe(),
        segments=tuple(_segment(s, walk) for s in walk.segments),
        steps=_steps(walk),
        masked_tiles=_masked_tiles(walk),
        full_tiles=_full_tiles(walk),
        lifetimes=_lifetimes(kernel.role, _roots(label, plan)),
    )


def _segment(segment: Segment, walk: Walk) -> SegmentText:
    index = _shown(walk.stream.index)
    full = _interval(index, segment.full_lo, segment.full_hi)
    if segment.gate_must is FALSE:
        full = "nowhere"
    return SegmentText(
        live=_interval(index, segment.lo, segment.hi),
        full=full,
        solved=tuple(_shown(c) for c in segment.solved),
        tested="" if segment.residual is TRUE else _shown(segment.residual),
        gate="" if segment.gate_may is TRUE else _shown(segment.gate_may),
    )


def _interval(index: str, low: Expr | None, high: Expr | None) -> str:
    if low is None and high is None:
        return f"every {index}"
    left = "" if low is None else f"{_shown(low)} <= "
    right = "" if high is None else f" < {_shown(high)}"
    return f"{left}{index}{right}"


def _steps(walk: Walk) -> tuple[str, ...]:
    texts = [text for step in walk.steps for text in _step(step)]
    if walk.listing is not None:
        texts.append(
            f"list each tile of {walk.listing.first} ... {walk.listing.stop} that is visited"
        )
    return tuple(texts)


def _masked_tiles(walk: Walk) -> tuple[str, ...]:
    if walk.listing is None:
        return tuple(_tiles(t) for t in walk.masked)
    where = [] if walk.listing.live is TRUE else [_shown(walk.listing.live)]
    where += [] if walk.pairs is None else ["the mask holds for one of their pairs"]
    others = "others " if walk.has_full else ""
    return (f"{others}where {' and '.join(where)}" if where else f"all {others}".strip(),)


def _full_tiles(walk: Walk) -> tuple[str, ...]:
    if walk.listing is None:
        return tuple(_tiles(t) for t in walk.full)
    found = () if walk.listing.sure is FALSE else (f"where {_shown(walk.listing.sure)}",)
    return found if walk.pairs is None else (*found, "where the mask holds for all pairs")


def _step(step: Let | Test) -> list[str]:
    if isinstance(step, Let):
        return [f"{step.name} = {_shown(step.value)}"]
    texts = [f"narrow {step.first} ... {step.stop} to tiles where {_shown(step.may)}"]
    if step.full_first is not None:
        where = f"{step.full_first} ... {step.full_stop}"
        texts.append(f"narrow {where} to tiles where {_shown(step.must)}")
    return texts


def _tiles(tiles: TileRange) -> str:
    return f"{_shown(tiles.first)} ... {_shown(tiles.stop)}"


def _roots(label: str, plan: ModulePlan) -> list[Expr]:
    roots = [plan.tile.post_scale, plan.tile.score, separated(plan.lowered.mask)]
    if label == "forward":
        return [*roots, plan.tile.row_term, *([plan.lowered.sink] if plan.lowered.sink else [])]
    return [*roots, plan.tile.row_term, plan.slope]


_LIFETIMES = {
    Lifetime.PROGRAM: "once a program",
    Lifetime.ROWS: "once a row of the tile it holds",
    Lifetime.HEAD: "once a query head of its group",
    Lifetime.TILE: "once a row of each streamed tile",
    Lifetime.ELEMENT: "once a pair",
}


def _lifetimes(role: Role, roots: list[Expr]) -> dict[str, tuple[str, ...]]:
    """Per lifetime the largest expressions that live there; names and numbers are left out."""
    level = {n: role.lifetime(axes) for n, axes in axes_by_node(*roots).items()}
    top = dict.fromkeys(roots)
    for node in post_order(*roots):
        top.update((a, None) for a in node.args if level[a] < level[node])
    found: dict[Lifetime, list[str]] = {}
    for node in post_order(*roots):
        if node in top and node.args:
            found.setdefault(level[node], []).append(_shown(node))
    return {text: tuple(found[life]) for life, text in _LIFETIMES.items() if life in found}
