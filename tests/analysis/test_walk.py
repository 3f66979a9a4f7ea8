"""Walks held against the mask itself, and how exact they are where a closed form exists."""

from random import Random

import numpy as np
import pytest
from drawing import sources
from grammar import KV, PARAMETERS, TENSORS, WINDOW, B, Grammar, Q, table
from hypothesis import given, settings
from properties import (
    BREAKS_FULL,
    EXACT,
    check_exact_walk,
    check_walk,
    hold_exact,
    hold_walks,
    tiles_with,
    walks_of,
)
from scene import Scene, draw_scene, variant_of
from values import hold_ranges

from fagen.analysis.evaluate import evaluate
from fagen.analysis.linear import both, either
from fagen.analysis.ranges import declared_ranges, range_of
from fagen.analysis.simulate import simulate, tile_count
from fagen.analysis.walk import KEYS, QUERIES, Let, TileRange, Walk, plan_walk
from fagen.analysis.walk import Test as Narrowing
from fagen.spec.expr import FALSE, TRUE, Expr, const, make, names_in
from fagen.spec.names import INDEX_LIMIT

ZERO, ONE = const(0), const(1)
DISTANCE = make("sub", Q, KV)
PAST = make("le", KV, Q)


@settings(max_examples=600)
@given(sources)
def test_any_mask_is_walked_soundly(rng):
    check_walk(rng)


@settings(max_examples=200)
@given(sources)
def test_closed_forms_are_walked_exactly(rng):
    check_exact_walk(rng)


def test_closed_forms_leave_nothing_to_test():
    for label, mask in EXACT.items():
        by_keys, by_queries = walks_of(mask(Grammar(Random(1))))
        # What bounds the keys alone does not bound the queries: there a union may be tested.
        for walk in (by_keys,) if label in BREAKS_FULL else (by_keys, by_queries):
            assert not any(isinstance(s, Narrowing) for s in walk.steps), label
            assert all(s.residual is TRUE for s in walk.segments), label


#: Groups of one meaning: every member must yield the walk of the first, object for object.
SPELLINGS = {
    "past": [
        PAST,
        make("ge", Q, KV),
        make("not", make("lt", Q, KV)),
        make("not", make("gt", KV, Q)),
        make("invert", make("lt", Q, KV)),
        make("not", make("not", make("not", make("lt", Q, KV)))),
        make("le", make("sub", KV, Q), ZERO),
        make("ge", DISTANCE, ZERO),
        make("lt", KV, make("add", Q, ONE)),
        make("gt", make("add", Q, ONE), KV),
        make("le", make("mul", const(3), KV), make("mul", Q, const(3))),
        make("ge", make("neg", KV), make("neg", Q)),
        make("and", PAST, TRUE),
        make("bitand", PAST, make("le", KV, Q)),
        make("or", PAST, make("and", PAST, make("lt", KV, WINDOW))),
        make("le", make("max", KV, make("sub", Q, const(0))), Q),
    ],
    "band": [
        both(make("le", ZERO, DISTANCE), make("lt", DISTANCE, WINDOW)),
        both(PAST, make("gt", KV, make("sub", Q, WINDOW))),
        make("not", either(make("lt", Q, KV), make("ge", DISTANCE, WINDOW))),
        both(make("le", KV, Q), make("lt", Q, make("add", KV, WINDOW))),
    ],
    "two sides": [
        make("le", make("abs", DISTANCE), WINDOW),
        make("le", make("abs", make("sub", KV, Q)), WINDOW),
        both(make("le", DISTANCE, WINDOW), make("le", make("sub", KV, Q), WINDOW)),
        make("not", make("gt", make("abs", DISTANCE), WINDOW)),
    ],
    "prefix": [
        either(make("lt", KV, table("prefix", B)), PAST),
        make("not", both(make("ge", KV, table("prefix", B)), make("gt", KV, Q))),
        make("le", KV, make("max", make("sub", table("prefix", B), ONE), Q)),
    ],
}
CASES = [
    pytest.param(group[0], other, id=f"{label}-{i}")
    for label, group in SPELLINGS.items()
    for i, other in enumerate(group[1:], start=1)
]


def _seen(walk: Walk, scene: Scene) -> list:
    held = QUERIES if walk.stream is KEYS else KEYS
    tiles = range(tile_count(held, scene.names))
    return [simulate(walk, t, scene.names, scene.tensors) for t in tiles]


@pytest.mark.parametrize(("first", "other"), CASES)
def test_spellings_are_walked_alike(first, other):
    rng = Random(5)
    for a, b in zip(walks_of(first), walks_of(other), strict=True):
        for _ in range(12):
            scene = draw_scene(rng)
            seen_a, seen_b = _seen(a, scene), _seen(b, scene)
            assert [sorted(v.masked) for v in seen_a] == [sorted(v.masked) for v in seen_b]
            assert [sorted(v.full) for v in seen_a] == [sorted(v.full) for v in seen_b]


ONE_FORM = [case for case in CASES if case.id.startswith("past") and case.id not in ("past-15",)]


@pytest.mark.parametrize(("first", "other"), ONE_FORM)
def test_spellings_of_one_bound_are_one_walk(first, other):
    for a, b in zip(walks_of(first), walks_of(other), strict=True):
        assert (a.steps, a.masked, a.full) == (b.steps, b.masked, b.full)
        for x, y in zip(a.steps, b.steps, strict=True):
            assert isinstance(x, Let)
            assert isinstance(y, Let)
            assert x.value is y.value


def _count(mask: Expr, scene: Scene) -> tuple[int, int, int, int]:
    """Dead and live visits, full tiles missed and found, over both directions."""
    live, totals = scene.grid(mask), np.zeros(4, int)
    for walk, matrix in zip(walks_of(mask), (live, live.T), strict=True):
        block = scene.names["BLOCK_M" if walk.stream is KEYS else "BLOCK_N"]
        width = scene.names[str(walk.stream.block)]
        for tile, seen in enumerate(_seen(walk, scene)):
            rows = matrix[tile * block : (tile + 1) * block]
            alive = tiles_with(walk.stream, scene, rows.any(0))
            whole = rows.all(0)[: rows.shape[1] // width * width].reshape(-1, width).all(1).sum()
            visited = {*seen.masked, *seen.full}
            totals += (len(visited - alive), len(alive), whole - len(seen.full), len(seen.full))
    return tuple(totals)


def _scene(seed: int, **names) -> Scene:
    """A long scene with documents, started rows and blocks that divide nothing."""
    values = np.random.default_rng(seed)
    length = names.get("q_len", 200)
    cuts = np.sort(values.choice(np.arange(1, length), 4, replace=False))
    doc = np.searchsorted(cuts, np.arange(length), side="right")
    start = np.concatenate([[0], cuts])[doc]
    base = draw_scene(Random(seed))
    tensors = {
        **base.tensors,
        "doc": np.stack([doc, doc]).astype(np.int32),
        "start": np.stack([start, start]).astype(np.int32),
        "order": start.astype(np.int32),
        "prefix": np.array([37, 150], np.int32),
    }
    sizes = {"q_len": length, "kv_len": length, "q_offset": 0, "kv_offset": 0}
    return Scene(
        {**base.names, **sizes, "BLOCK_M": 16, "BLOCK_N": 8, "window": 24, **names}, tensors
    )


@pytest.mark.parametrize("seed", range(6))
def test_packed_rows_are_walked_exactly(seed):
    mask = both(make("le", table("start", B, Q), KV), PAST)
    walk, _ = walks_of(mask)
    assert not any(isinstance(s, Narrowing) for s in walk.steps)
    scene = _scene(seed)
    live = scene.grid(mask)
    for tile, seen in enumerate(_seen(walk, scene)):
        rows = live[tile * 16 : (tile + 1) * 16]
        assert {*seen.masked, *seen.full} == tiles_with(KEYS, scene, rows.any(0))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("inner", [TRUE, PAST], ids=["both ways", "past"])
def test_documents_in_order_are_walked_exactly(seed, inner):
    """Equal ids of a nondecreasing table are one run of tiles, found by end points alone."""
    mask = both(make("eq", table("doc", B, Q), table("doc", B, KV)), inner)
    scene = _scene(seed)
    dead, live, _, full = _count(mask, scene)
    assert (dead, full > 0) == (0, True)
    assert live > 0


def test_documents_without_the_promise_visit_all_the_past():
    """The end points say nothing of a table in any order, and soundness comes first."""
    scene = _scene(0)
    key = scene.tensors["doc"][0]
    mixed = Scene(scene.names, {**scene.tensors, "key": key, "start": scene.tensors["doc"]})
    mask = both(make("eq", table("start", B, Q), table("key", KV)), PAST)
    hold_walks(variant_of(mask), mixed)
    walk, _ = walks_of(mask)
    assert [len(v.masked) for v in _seen(walk, mixed)][-1] == 25


@pytest.mark.parametrize("size", [5, 8, 16, 24, 40])
def test_chunks_are_walked_exactly(size):
    mask = make("eq", make("floordiv", Q, WINDOW), make("floordiv", KV, WINDOW))
    for walk in walks_of(mask):
        assert not any(isinstance(s, Narrowing) for s in walk.steps)
    hold_exact(variant_of(mask), _scene(1, window=size, q_offset=-7, kv_offset=-7))


def test_a_tested_mask_visits_live_tiles_alone():
    """Not solvable for kv_idx, yet the corners tell which tiles can be live."""
    mask = make("lt", make("mul", KV, KV), make("add", Q, const(40)))
    walk, _ = walks_of(mask)
    assert walk.listing is not None
    scene = _scene(2)
    dead, _, missed, full = _count(mask, scene)
    assert (dead, missed) == (0, 0)
    assert full > 0


def test_full_tiles_with_gaps_are_visited_without_their_mask():
    """mini blocks: every second tile is full, which no range could say."""
    mask = make("lt", make("mod", KV, const(16)), make("add", make("mod", Q, ONE), const(8)))
    hold_walks(variant_of(mask), _scene(3))
    walk, _ = walks_of(mask)
    for seen in _seen(walk, _scene(3)):
        assert (seen.masked, seen.full) == ((), tuple(range(0, 25, 2)))


def test_a_union_is_listed_where_two_parts_of_it_move():
    """Any tile of any part, and full where one part alone fills it."""
    mask = either(make("eq", make("mod", KV, const(48)), make("mod", Q, const(48))), PAST)
    hold_walks(variant_of(mask), _scene(4))
    for walk in walks_of(mask):
        assert walk.listing is not None
    dead, live, missed, full = _count(mask, _scene(4))
    assert (dead, missed) == (0, 0)
    assert live > full > 0


def test_a_mask_that_is_never_true_visits_nothing():
    for mask in (FALSE, both(PAST, FALSE), make("not", TRUE)):
        for walk in walks_of(mask):
            assert (walk.masked, walk.full, walk.steps) == ((), (), ())


def test_no_mask_is_full_but_for_the_last_tile():
    walk, _ = walks_of(TRUE)
    scene = _scene(0, kv_len=21, BLOCK_N=8)
    assert {(v.masked, v.full) for v in _seen(walk, scene)} == {((2,), (0, 1))}


def test_a_tile_beyond_the_rows_is_refused():
    walk, _ = walks_of(PAST)
    scene = _scene(0, q_len=33)
    with pytest.raises(IndexError):
        simulate(walk, 3, scene.names, scene.tensors)


def test_a_negative_range_is_refused():
    with pytest.raises(ValueError, match="negative length"):
        broken = Walk(KEYS, (), (), (TileRange(ONE, ZERO),), ())
        simulate(broken, 0, _scene(0).names, {})


def test_what_is_missing_is_named():
    walk, _ = walks_of(make("le", KV, WINDOW))
    scene = _scene(0)
    names = {n: v for n, v in scene.names.items() if n != "window"}
    with pytest.raises(KeyError, match="window"):
        simulate(walk, 0, names, scene.tensors)


@settings(max_examples=200)
@given(sources)
def test_no_scalar_of_a_walk_wraps(rng):
    """Steps of a walk at the largest positions, offsets and parameters."""
    mask = Grammar(rng).bounded(rng.randint(0, 3))
    variant = variant_of(mask)
    declared = declared_ranges(variant)
    for stream in (KEYS, QUERIES):
        known, tensors = _far(rng)
        declared = {
            **declared,
            **{f"{t.name}.{i}": (0, INDEX_LIMIT) for t in TENSORS for i in (0, 1)},
        }
        for step in plan_walk(variant, stream, declared).steps:
            roots = [step.value] if isinstance(step, Let) else [step.may, step.must]
            for root in roots:
                hold_ranges(root, known, tensors, declared)
            if isinstance(step, Let):
                known[step.name] = evaluate(step.value, known, tensors)
                now, before = range_of(declared, step.value), declared.get(step.name, (0, 0))
                declared[step.name] = (min(now[0], before[0]), max(now[1], before[1]))


def _far(rng: Random) -> tuple[dict, dict]:
    ends = [-INDEX_LIMIT, INDEX_LIMIT, 0]
    names = {"q_offset": rng.choice(ends), "kv_offset": rng.choice(ends)}
    for axis, block in (("q", "BLOCK_M"), ("kv", "BLOCK_N")):
        length = rng.choice([1, 100, INDEX_LIMIT])
        first = rng.choice([0, max(length - 5, 0)])
        index = np.arange(first, min(first + 4, length)) + names[f"{axis}_offset"]
        names |= {f"{axis}_len": length, f"{axis}_lo": index[0], f"{axis}_hi": index[-1]}
        names |= {f"{axis}_idx": index, block: rng.choice([1, 64, 1024])}
    names |= {"b": 1, "h": 2, "flag": True}
    for p in PARAMETERS:
        low = -INDEX_LIMIT if p.minimum is None else p.minimum
        high = INDEX_LIMIT if p.maximum is None else p.maximum
        if p.type != "bool":
            names[p.name] = rng.choice([low, high]) if p.type == "int" else p.default
    tensors = {}
    for t in TENSORS:
        low, high = t.value_range or (-(2**31), 2**31)
        values = {"bool": [True, False], "float": [-2.0, 9.5], "int": [low, high - 1]}[t.type]
        if t.dtype == "uint8":
            values = [0, 255]
        tensors[t.name] = np.full([4] * len(t.shape), rng.choice(values))
        names |= {f"{t.name}.{i}": 4 for i in range(len(t.shape))}
    return names, tensors


def test_names_of_tensor_axes_come_from_the_tables():
    mask = make("lt", table("doc", B, KV), table("doc", B, Q))
    _, by_queries = walks_of(mask)
    narrowing = next(s for s in by_queries.steps if isinstance(s, Narrowing))
    assert "doc.1" in names_in(narrowing.may)
