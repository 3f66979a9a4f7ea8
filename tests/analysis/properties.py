"""What must hold of the tile algebra for any legal expression, held against brute force.

Each `check_*` draws one example from a `random.Random` and raises AssertionError (or whatever the
analysis raises) where the property fails. They import no torch: the mutation tests run them too.
"""

from __future__ import annotations

from random import Random

import numpy as np
from grammar import KV, WINDOW, B, Grammar, Q, table
from scene import Scene, draw_scene, variant_of

from fagen.analysis.evaluate import evaluate
from fagen.analysis.linear import both
from fagen.analysis.ranges import declared_ranges
from fagen.analysis.reading import TileReader
from fagen.analysis.segments import Segment, solve
from fagen.analysis.simulate import Visits, simulate, tile_count
from fagen.analysis.walk import KEYS, QUERIES, Stream, Walk, plan_walk
from fagen.spec.expr import TRUE, Expr, const, make, name, post_order
from fagen.spec.variant import Variant

DECLARED = declared_ranges(variant_of())
TABLES = {t.name: t for t in variant_of().tensors}


# Walks


def check_walk(rng: Random) -> None:
    """Both directions of a random mask visit what they must, once, and call full what is full."""
    scene, mask = draw_scene(rng), Grammar(rng).mask()
    hold_walks(variant_of(mask), scene)


def hold_walks(variant: Variant, scene: Scene) -> None:
    live = scene.grid(variant.mask)
    declared = declared_ranges(variant)
    for stream, matrix in ((KEYS, live), (QUERIES, live.T)):
        walk = plan_walk(variant, stream, declared)
        for tile in range(tile_count(QUERIES if stream is KEYS else KEYS, scene.names)):
            seen = simulate(walk, tile, scene.names, scene.tensors)
            _hold_visits(seen, stream, scene, rows_of(tile, stream, scene, matrix))


def rows_of(tile: int, stream: Stream, scene: Scene, matrix: np.ndarray) -> np.ndarray:
    block = scene.names["BLOCK_M" if stream is KEYS else "BLOCK_N"]
    return matrix[tile * block : (tile + 1) * block]


def tiles_with(stream: Stream, scene: Scene, columns: np.ndarray) -> set[int]:
    """Tiles of the stream that hold one of the marked columns."""
    return {int(c) // scene.names[str(stream.block)] for c in np.flatnonzero(columns)}


def whole_tiles(stream: Stream, scene: Scene, columns: np.ndarray) -> set[int]:
    """Tiles that lie inside the sequence with every column marked."""
    block = scene.names[str(stream.block)]
    count = len(columns) // block
    return set(np.flatnonzero(columns[: count * block].reshape(count, block).all(1)).tolist())


def _hold_visits(seen: Visits, stream: Stream, scene: Scene, rows: np.ndarray) -> None:
    visited = [*seen.masked, *seen.full]
    assert len(visited) == len(set(visited)), f"visited twice: {seen}"
    for tiles in (seen.masked, seen.full):
        assert list(tiles) == sorted(tiles), f"out of order: {seen}"
    assert set(visited) <= set(range(tile_count(stream, scene.names))), f"outside: {seen}"
    missed = tiles_with(stream, scene, rows.any(0)) - set(visited)
    assert not missed, f"live tiles not visited: {missed} of {seen}"
    wrong = set(seen.full) - whole_tiles(stream, scene, rows.all(0))
    assert not wrong, f"not full: {wrong} of {seen}"


def check_exact_walk(rng: Random) -> None:
    """Masks with a closed form are walked exactly: no full tile is masked, and no dead one visited
    except one for a segment that is empty."""
    grammar = Grammar(rng)
    label = rng.choice(list(EXACT))
    mask = EXACT[label](grammar)
    streams = (KEYS,) if label in HAS_GAPS else (KEYS, QUERIES)
    hold_exact(variant_of(mask), draw_scene(rng), streams, may_break_full=label in BREAKS_FULL)


def hold_exact(
    variant: Variant,
    scene: Scene,
    streams: tuple[Stream, ...] = (KEYS, QUERIES),
    *,
    may_break_full: bool = False,
) -> None:
    hold_walks(variant, scene)
    live = scene.grid(variant.mask)
    for stream in streams:
        matrix = live if stream is KEYS else live.T
        walk = plan_walk(variant, stream, declared_ranges(variant))
        for tile in range(tile_count(QUERIES if stream is KEYS else KEYS, scene.names)):
            seen = simulate(walk, tile, scene.names, scene.tensors)
            rows = rows_of(tile, stream, scene, matrix)
            dead = {*seen.masked, *seen.full} - tiles_with(stream, scene, rows.any(0))
            spare = _empty_segments(walk, tile, scene)
            assert len(dead) <= spare, f"dead tiles {dead} of {seen} along {stream.axis} for {tile}"
            masked = whole_tiles(stream, scene, rows.all(0)) - set(seen.full)
            assert not masked or may_break_full, f"full tiles {masked} masked in {seen}"


def _empty_segments(walk: Walk, tile: int, scene: Scene) -> int:
    """Segments without any index of the sequence: each may cost one tile."""
    along_keys = walk.stream is KEYS
    rows, along = (scene.q_idx, scene.kv_idx) if along_keys else (scene.kv_idx, scene.q_idx)
    block = scene.names["BLOCK_M" if along_keys else "BLOCK_N"]
    rows = rows[tile * block : (tile + 1) * block]
    q_idx, kv_idx = (rows, along) if along_keys else (along, rows)
    known = corner_names(scene, "q" if along_keys else "kv", q_idx, kv_idx)
    ends = [_ends(segment, known, scene) for segment in walk.segments]
    return sum(max(e[0], along[0]) >= min(e[1], along[-1] + 1) for e in ends)


def three_parts(grammar: Grammar) -> Expr:
    """The first keys, a band, and what lies far ahead, in any order."""
    first = make("lt", KV, grammar.number(0, 9))
    past, near = make("le", KV, Q), make("lt", make("sub", Q, KV), WINDOW)
    ahead = make("ge", KV, make("add", Q, grammar.number(9, 30)))
    a, b, c = grammar.rng.sample([first, make("and", past, near), ahead], 3)
    return make("or", make("or", a, b), c)


def _masks():
    past = make("le", KV, Q)
    distance = make("sub", Q, KV)
    near = make("lt", distance, WINDOW)

    def start(grammar):
        return make("and", make("le", table("order", Q), KV), past)

    return {
        "past": lambda g: past,
        "shifted": lambda g: make("le", make("add", KV, g.number()), Q),
        "band": lambda g: make("and", make("le", const(0), distance), near),
        "two-sided": lambda g: make("le", make("abs", distance), WINDOW),
        "unequal sides": lambda g: make(
            "and", make("le", make("sub", KV, Q), g.number(0, 9)), make("le", distance, WINDOW)
        ),
        "prefix": lambda g: make("or", make("lt", KV, table("prefix", B)), past),
        "first keys": lambda g: make("and", past, make("or", make("lt", KV, g.number(0, 9)), near)),
        "three parts": three_parts,
        "padding": lambda g: make("lt", KV, table("prefix", B)),
        "multiple": lambda g: make(
            "le", make("mul", const(g.rng.randint(1, 4)), KV), make("add", Q, g.number())
        ),
        "negated": lambda g: make("not", make("lt", Q, KV)),
        "everything": lambda g: TRUE,
    }


EXACT = _masks()
#: Along the queries a union is tested, and a test finds the hull of what is live.
HAS_GAPS = {"three parts"}
#: Two segments may each hold a part of a tile that only their union fills.
BREAKS_FULL = {"prefix", "first keys", "three parts"}


# Tile reading


def check_reader(rng: Random) -> None:
    """(lo, hi) and (may, must) of every node hold over a random tile."""
    scene, grammar = draw_scene(rng), Grammar(rng)
    root = grammar.one(
        grammar.mask(),
        grammar.truth(3),
        grammar.whole(4),
        make("mul", *(table("rank", grammar.one(KV, grammar.whole(1))) for _ in range(2))),
    )
    stationary = rng.choice(["q", "kv"])
    q_idx, kv_idx = _tile(rng, scene.q_idx), _tile(rng, scene.kv_idx)
    known = corner_names(scene, stationary, q_idx, kv_idx)
    reader = TileReader(stationary, DECLARED, TABLES)
    for node in post_order(root):
        if node.type == "float":
            continue
        values = scene.grid(node, q_idx, kv_idx)
        if node.type == "bool":
            may, must = (evaluate(e, known, scene.tensors) for e in reader.truth(node))
            assert may or not values.any(), f"may of {node}"
            assert not must or values.all(), f"must of {node}"
        elif (found := reader.bounds(node)) is not None:
            low, high = (evaluate(e, known, scene.tensors) for e in found)
            assert low <= values.min(), f"lo of {node}: {low} > {values.min()}"
            assert high >= values.max(), f"hi of {node}: {high} < {values.max()}"


def _tile(rng: Random, index: np.ndarray) -> np.ndarray:
    first = rng.randrange(len(index))
    return index[first : first + rng.randint(1, 12)]


def corner_names(scene: Scene, stationary: str, q_idx: np.ndarray, kv_idx: np.ndarray) -> dict:
    """What a program knows: corners of both tiles and the rows of its own."""
    return {
        **scene.names,
        **{f"{n}.{i}": size for n, t in scene.tensors.items() for i, size in enumerate(t.shape)},
        "q_lo": q_idx[0], "q_hi": q_idx[-1], "kv_lo": kv_idx[0], "kv_hi": kv_idx[-1],
        **({"q_idx": q_idx} if stationary == "q" else {"kv_idx": kv_idx}),
    }  # fmt: skip


def check_exact_reading(rng: Random) -> None:
    """Monotone operations on one expression a side have bounds that are attained."""
    scene = draw_scene(rng)
    q_idx, kv_idx = _tile(rng, scene.q_idx), _tile(rng, scene.kv_idx)
    left, right = _monotone(rng, "q_idx"), _monotone(rng, "kv_idx")
    op = rng.choice(["add", "sub", "mul", "min", "max", "lt", "le", "gt", "ge", "eq", "ne"])
    root = make(op, left, right)
    if root.type == "int":
        root = rng.choice([root, make("abs", root), make("clamp", root, const(-3), const(9))])
    known = corner_names(scene, rng.choice(["q", "kv"]), q_idx, kv_idx)
    reader, values = TileReader("q", DECLARED, TABLES), scene.grid(root, q_idx, kv_idx)
    if root.type == "int":
        low, high = (evaluate(e, known, scene.tensors) for e in reader.bounds(root))
        if root.op != "abs":
            assert low == values.min(), f"lo of {root}"
        assert high == values.max(), f"hi of {root}"
    elif op not in ("eq", "ne"):
        may, must = (bool(evaluate(e, known, scene.tensors)) for e in reader.truth(root))
        assert (may, must) == (values.any(), values.all()), f"{root}"
    else:
        may, must = (bool(evaluate(e, known, scene.tensors)) for e in reader.truth(root))
        assert must == values.all() if op == "eq" else may == values.any()


def _monotone(rng: Random, index: str) -> Expr:
    """An expression of one index that rises with it, or falls."""
    node = name(index)
    for _ in range(rng.randint(0, 3)):
        size = const(rng.randint(1, 5))
        node = rng.choice(
            [
                make("add", node, const(rng.randint(-9, 9))),
                make("mul", node, const(rng.choice([-3, -1, 2, 4]))),
                make("floordiv", node, size),
                make("floordiv", node, name("window")),
                make("neg", node),
                make("min", node, const(rng.randint(-9, 20))),
                make("max", const(rng.randint(-9, 20)), node),
                make("clamp", node, const(-5), const(17)),
                make("shr", node, size),
                make("shl", node, size),
            ]
        )
    return node


# Segments


def check_segments(rng: Random) -> None:
    """Live indices lie in a segment; inside its inner interval the solved conjuncts hold."""
    scene, grammar = draw_scene(rng), Grammar(rng)
    mask = grammar.mask()
    for stream in (KEYS, QUERIES):
        hold_segments(mask, stream, scene, rng)


def hold_segments(mask: Expr, stream: Stream, scene: Scene, rng: Random) -> None:
    stationary = "q" if stream is KEYS else "kv"
    reader = TileReader(stationary, DECLARED, TABLES)
    segments = solve(mask, stream.index, reader)
    rows = _tile(rng, scene.q_idx if stationary == "q" else scene.kv_idx)
    along = scene.kv_idx if stationary == "q" else scene.q_idx

    def grid(root: Expr) -> np.ndarray:
        """[rows, indices along the stream]"""
        if stationary == "q":
            return scene.grid(root, rows, along)
        return scene.grid(root, along, rows).T

    q_idx, kv_idx = (rows, along) if stationary == "q" else (along, rows)
    known = corner_names(scene, stationary, q_idx, kv_idx)
    # Bounds are found before any tile of the stream is chosen.
    del known[str(stream.lo)], known[str(stream.hi)]
    live, covered = grid(mask).any(0), np.zeros(len(along), bool)
    for segment in segments:
        low, high, full_low, full_high, gate_may, gate_must = _ends(segment, known, scene)
        inside = (along >= low) & (along < high) & gate_may
        inner = (along >= full_low) & (along < full_high) & gate_must
        covered |= inside
        assert not (inner & ~inside).any(), f"inner interval outside of {segment}"
        holds = grid(both(*segment.solved)).all(0)
        assert holds[inner].all(), f"inner interval of {segment}"
        if segment.residual is TRUE:
            assert grid(mask)[:, inner].all(), f"full part of {segment}"
    assert covered[live].all(), f"live indices {along[live & ~covered]} outside of {segments}"


def _ends(segment: Segment, known: dict, scene: Scene):
    def value(end: Expr | None, otherwise: float):
        return otherwise if end is None else evaluate(end, known, scene.tensors)

    return (
        value(segment.lo, -np.inf), value(segment.hi, np.inf),
        value(segment.full_lo, -np.inf), value(segment.full_hi, np.inf),
        value(segment.gate_may, True), value(segment.gate_must, True),
    )  # fmt: skip


def walks_of(mask: Expr) -> tuple[Walk, Walk]:
    variant = variant_of(mask)
    declared = declared_ranges(variant)
    return plan_walk(variant, KEYS, declared), plan_walk(variant, QUERIES, declared)
