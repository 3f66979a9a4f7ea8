"""FlexAttention's candidates are legal, and the best of each direction are combined."""

from __future__ import annotations

import pytest

from fagen.bench.flex_search import TrialResult, best_options, candidates, one_direction

BLOCK_MASK_TILE = 128


@pytest.mark.parametrize("head_dim", [64, 128])
def test_few_candidates_the_defaults_first(head_dim):
    found = candidates("full", head_dim)
    assert found[0] == {}
    assert 2 <= len(found) <= 4
    assert len({tuple(sorted(x.items())) for x in found}) == len(found)


@pytest.mark.parametrize("options", candidates("full", 64)[1:] + candidates("full", 128)[1:])
def test_tiles_divide_the_block_mask_and_each_other(options):
    # FlexAttention's own conditions on its tiles.
    tiles = {n: x for n, x in options.items() if "BLOCK" in n}
    assert all(BLOCK_MASK_TILE % x == 0 for x in tiles.values())
    assert options["bwd_BLOCK_N1"] % options["bwd_BLOCK_M1"] == 0
    assert options["bwd_BLOCK_M2"] % options["bwd_BLOCK_N2"] == 0
    assert all(name.startswith(("fwd_", "bwd_")) for name in options)


def test_the_best_of_each_direction_are_joined():
    first = {"fwd_BLOCK_M": 64, "bwd_BLOCK_M1": 64}
    second = {"fwd_BLOCK_M": 128, "bwd_BLOCK_M1": 32}
    results = [
        TrialResult({}, {"forward": 2.0, "backward": 5.0}),
        TrialResult(first, {"forward": 1.0}, {"backward": "OutOfResources"}),
        TrialResult(second, {"forward": 1.5, "backward": 4.0}),
    ]
    assert best_options(results) == {"fwd_BLOCK_M": 64, "bwd_BLOCK_M1": 32}


def test_defaults_that_win_need_no_options():
    results = [
        TrialResult({}, {"forward": 1.0, "backward": 1.0}),
        TrialResult({"fwd_BLOCK_M": 64}, {"forward": 2.0, "backward": 2.0}),
    ]
    assert best_options(results) == {}
    assert best_options([TrialResult({"fwd_BLOCK_M": 64}, {}, {"job": "died"})]) == {}
    assert best_options([]) == {}


def test_options_of_one_direction():
    options = {"fwd_num_warps": 4, "bwd_num_warps": 8}
    assert one_direction(options, "forward") == {"fwd_num_warps": 4}
    assert one_direction(options, "backward") == {"bwd_num_warps": 8}


def test_the_guard_stays_where_a_tile_may_hold_no_key_of_a_row() -> None:
    assert all("fwd_ROWS_GUARANTEED_SAFE" not in o for o in candidates("sliding_window", 128))
    assert any("fwd_ROWS_GUARANTEED_SAFE" in o for o in candidates("causal", 128))
