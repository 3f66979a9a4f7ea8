"""A walk run with NumPy, step by step as the kernels run it.

What a tile map draws and what property tests hold against the mask is the walk itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fagen.analysis.evaluate import evaluate
from fagen.analysis.walk import KEYS, QUERIES, TILE, Listing, Stream, Test, TileRange, Walk
from fagen.spec.expr import Expr


@dataclass(frozen=True)
class Visits:
    """Tiles of the streamed side in the order of their visit; full ones need no mask."""

    masked: tuple[int, ...]
    full: tuple[int, ...]


def tile_count(stream: Stream, names: Mapping[str, Any]) -> int:
    """Tiles along one side, the last of which may be partly filled."""
    return -(-int(names[str(stream.length)]) // int(names[str(stream.block)]))


def simulate(
    walk: Walk,
    tile: int,
    names: Mapping[str, Any],
    tensors: Mapping[str, np.ndarray] | None = None,
) -> Visits:
    """The tiles that the program of stationary tile `tile` visits.

    `names` holds BLOCK_M, BLOCK_N, q_len, kv_len, q_offset, kv_offset, and what the mask reads of
    b, h, other lengths and parameters. Raises KeyError for what is missing, IndexError for a tile
    that does not exist, and ValueError for a range of negative length, which no walk may have.
    """
    held = QUERIES if walk.stream is KEYS else KEYS
    known = {**_axis_sizes(tensors or {}), **names, **_stationary(held, tile, names)}
    for step in walk.steps:
        if isinstance(step, Test):
            known |= _narrowed(step, walk.stream, known, tensors)
        else:
            known[step.name] = evaluate(step.value, known, tensors)
    if walk.listing is not None:
        return _listed(walk.listing, walk.stream, held, known, tensors)
    return Visits(_tiles(walk.masked, known, tensors), _tiles(walk.full, known, tensors))


def _axis_sizes(tensors: Mapping[str, np.ndarray]) -> dict[str, int]:
    return {
        f"{name}.{axis}": size
        for name, table in tensors.items()
        for axis, size in enumerate(table.shape)
    }


def _stationary(held: Stream, tile: int, names: Mapping[str, Any]) -> dict[str, Any]:
    """Corners and existing rows of the tile that the program holds."""
    if not 0 <= tile < tile_count(held, names):
        raise IndexError(f"no tile {tile} along {held.axis}")
    block, length = int(names[str(held.block)]), int(names[str(held.length)])
    rows = np.arange(tile * block, min((tile + 1) * block, length), dtype=np.int64)
    index = rows + int(names[str(held.offset)])
    return {
        str(held.lo): index[0],
        str(held.hi): index[-1],
        str(held.index): index,
        str(held.row): rows,
        f"{held.axis}_token": rows,
    }


def _narrowed(
    test: Test, stream: Stream, known: Mapping[str, Any], tensors: Mapping[str, np.ndarray] | None
) -> dict[str, int]:
    """The new values of the names that a test assigns."""
    first, stop = int(known[test.first]), int(known[test.stop])
    tiles, here = _tested(first, stop, stream, known)
    live = tiles[np.broadcast_to(evaluate(test.may, here, tensors), tiles.shape)]
    new_first = int(live.min()) if live.size else stop
    new_stop = max(int(live.max()) + 1 if live.size else first, new_first)
    found = {test.first: new_first, test.stop: new_stop}
    if test.full_first is None or test.full_stop is None:
        return found
    must = np.broadcast_to(evaluate(test.must, here, tensors), tiles.shape)
    sure = tiles[must & (tiles >= known[test.full_first]) & (tiles < known[test.full_stop])]
    # Full tiles with others between them are visited as masked ones.
    unbroken = sure.size > 0 and sure.size == int(sure.max()) + 1 - int(sure.min())
    found[test.full_first] = int(sure.min()) if unbroken else new_stop
    found[test.full_stop] = int(sure.max()) + 1 if unbroken else new_stop
    return found


def _listed(
    listing: Listing,
    stream: Stream,
    held: Stream,
    known: Mapping[str, Any],
    tensors: Mapping[str, np.ndarray] | None,
) -> Visits:
    tiles, here = _tested(int(known[listing.first]), int(known[listing.stop]), stream, known)
    live, sure = (
        np.broadcast_to(evaluate(test, here, tensors), tiles.shape).astype(bool)
        for test in (listing.live, listing.sure)
    )
    if listing.pairs is not None:
        live, sure = live.copy(), sure.copy()
        for i in np.flatnonzero(live & ~sure):
            whole = _pairs(listing.pairs, int(tiles[i]), stream, held, known, tensors)
            live[i], sure[i] = whole.any(), whole.all()
    return Visits(tuple(tiles[live & ~sure].tolist()), tuple(tiles[sure].tolist()))


def _pairs(
    condition: Expr,
    tile: int,
    stream: Stream,
    held: Stream,
    known: Mapping[str, Any],
    tensors: Mapping[str, np.ndarray] | None,
) -> np.ndarray:
    """[rows that the program holds, columns of the tile]; those past the end do not hold."""
    block, length = int(known[str(stream.block)]), int(known[str(stream.length)])
    columns = np.arange(tile * block, (tile + 1) * block, dtype=np.int64)
    own = {n: known[n][:, None] for n in _positions(held)}
    index = columns[None, :] + int(known[str(stream.offset)])
    other = dict.fromkeys(_positions(stream), columns[None, :]) | {str(stream.index): index}
    inside = (columns < length)[None, :]
    shape = (len(known[str(held.row)]), block)
    return np.broadcast_to(evaluate(condition, {**known, **own, **other}, tensors), shape) & inside


def _positions(side: Stream) -> tuple[str, str, str]:
    """Names of positions along one side of a sequence of its own."""
    return str(side.index), str(side.row), f"{side.axis}_token"


def _tested(
    first: int, stop: int, stream: Stream, known: Mapping[str, Any]
) -> tuple[np.ndarray, dict[str, Any]]:
    """A vector of tiles, and what is known of them."""
    tiles = np.arange(first, stop, dtype=np.int64)
    block, offset = int(known[str(stream.block)]), int(known[str(stream.offset)])
    corners = {
        str(TILE): tiles,
        str(stream.lo): tiles * block + offset,
        str(stream.hi): np.minimum((tiles + 1) * block, known[str(stream.length)]) - 1 + offset,
    }
    return tiles, {**known, **corners}


def _tiles(
    ranges: tuple[TileRange, ...],
    known: Mapping[str, Any],
    tensors: Mapping[str, np.ndarray] | None,
) -> tuple[int, ...]:
    visited: list[int] = []
    for tiles in ranges:
        first, stop = (int(evaluate(end, known, tensors)) for end in (tiles.first, tiles.stop))
        if stop < first:
            raise ValueError(f"tiles {first} to {stop}: a range of negative length")
        visited.extend(range(first, stop))
    return tuple(visited)
