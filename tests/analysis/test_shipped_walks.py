"""Every shipped mask is walked soundly, and how many of the tiles it visits it needed."""

from __future__ import annotations

from functools import cache
from random import Random

import numpy as np
import pytest
from properties import hold_walks, rows_of, tiles_with, whole_tiles
from scene import Scene
from shipped_scenes import scene_of, variant

from fagen.analysis.ranges import declared_ranges
from fagen.analysis.simulate import simulate, tile_count
from fagen.analysis.walk import KEYS, QUERIES, Stream, plan_walk
from fagen.spec.expr import TRUE
from fagen.spec.load import load_text, shipped_names
from fagen.spec.variant import Variant

MASKED = [name for name in shipped_names() if variant(name).mask is not TRUE]
#: The least share of visited tiles that hold a pair, along the keys and along the queries. All
#: other masks need all.
NEEDED = {"document_sinks_window": (0.95, 1.0)}
#: Masks whose tables corners do not tell of.
LOOKED_AT = {"bit_packed", "global_window", "tree_causal"}
#: The least share of full tiles that are visited without their mask: of unions of segments, each
#: of which may fill a part of a tile.
FULL = {
    "document_sinks_window": (0.76, 1.0),
    "prefix_lm": (0.97, 1.0),
    "shared_prefix": (0.96, 0.96),
    "sinks_window": (0.91, 1.0),
}


@pytest.mark.parametrize("name", MASKED)
def test_walked_soundly(name: str) -> None:
    """Lengths and tiles that divide nothing, more queries than keys and the reverse."""
    rng = Random(name)
    for seed in range(6):
        lengths = {"q_len": rng.choice([1, 33, 61, 130]), "kv_len": rng.choice([1, 40, 95, 130])}
        tiles = {"BLOCK_M": rng.choice([4, 8, 32]), "BLOCK_N": rng.choice([4, 8, 32])}
        hold_walks(variant(name), scene_of(name, seed, **lengths, **tiles))


@pytest.mark.parametrize("name", MASKED)
def test_tiles_visited_are_tiles_needed(name: str) -> None:
    for direction, stream in enumerate((KEYS, QUERIES)):
        visited, needed, unmasked, full = counts = _totals(name, stream)
        assert needed <= visited
        assert needed >= NEEDED.get(name, (1.0, 1.0))[direction] * visited, counts
        assert unmasked >= FULL.get(name, (1.0, 1.0))[direction] * full, counts


COLUMNS = ("mask", *(f"{end}: {count}" for end in ("along the keys", "along the queries")
                    for count in ("visited", "needed", "full", "without mask")))  # fmt: skip
REPORT = f"""# Walks of the shipped masks

What the walks visit of 208 queries and 208 keys in tiles of 16 by 16, three calls with tables drawn
at random each: how many of the tiles visited hold a live pair, and how many of those that hold live
pairs alone run without the mask. `make golden` counts anew.

| {" | ".join(COLUMNS)} |
| --- |{" ---: |" * 8}
"""


def test_the_report_is_of_today(golden) -> None:
    rows = []
    for name in MASKED:
        cells = [name]
        for stream in (KEYS, QUERIES):
            visited, needed, unmasked, full = _totals(name, stream)
            free = f"{unmasked / full:.0%}" if full else "-"
            cells += [str(visited), f"{needed / visited:.0%}", str(full), free]
        rows.append(f"| {' | '.join(cells)} |\n")
    golden("walks.md", REPORT + "".join(rows))


@cache
def _totals(name: str, stream: Stream) -> np.ndarray:
    return sum(_counts(variant(name), scene_of(name, seed), stream) for seed in range(3))


def _counts(loaded: Variant, scene: Scene, stream: Stream) -> np.ndarray:
    """Tiles visited, and of those needed; tiles visited without a mask, and all that are full."""
    live = scene.grid(loaded.mask)
    matrix = live if stream is KEYS else live.T
    walk = plan_walk(loaded, stream, declared_ranges(loaded))
    counts = np.zeros(4, int)
    for tile in range(tile_count(QUERIES if stream is KEYS else KEYS, scene.names)):
        seen = simulate(walk, tile, scene.names, scene.tensors)
        rows = rows_of(tile, stream, scene, matrix)
        needed, full = (
            tiles_with(stream, scene, rows.any(0)),
            whole_tiles(stream, scene, rows.all(0)),
        )
        counts += (len(seen.masked) + len(seen.full), len(needed), len(seen.full), len(full))
    return counts


def test_documents_without_a_promise_are_walked_exactly() -> None:
    """The ids of pairs are compared themselves where nothing orders them."""
    loaded = load_text(
        "name: loose\ntensors: {doc: {shape: [batch, kv_len], dtype: int32}}\n"
        "mask: doc[b, q_idx] == doc[b, kv_idx] and kv_idx <= q_idx"
    )
    promised, scene = variant("document"), scene_of("document", 0)
    for stream in (KEYS, QUERIES):
        assert (_counts(loaded, scene, stream) == _counts(promised, scene, stream)).all()


@pytest.mark.parametrize("name", MASKED)
def test_the_pairs_of_a_tile_are_looked_at_where_nothing_else_tells(name: str) -> None:
    for stream in (KEYS, QUERIES):
        walk = plan_walk(variant(name), stream, declared_ranges(variant(name)))
        assert (walk.pairs is not None) == (name in LOOKED_AT)
