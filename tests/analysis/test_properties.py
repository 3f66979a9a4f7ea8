"""The properties of tile reading, segments, ranges, builders and rewrites on drawn examples."""

import gaps
import properties
import pytest
import scores
import slopes
import values
from drawing import sources
from hypothesis import given, settings


@settings(max_examples=600)
@given(sources)
def test_tile_reading_is_sound(rng):
    properties.check_reader(rng)


@settings(max_examples=300)
@given(sources)
def test_tile_reading_is_exact_where_monotone(rng):
    properties.check_exact_reading(rng)


@settings(max_examples=400)
@given(sources)
def test_segments_hold_what_is_live(rng):
    properties.check_segments(rng)


@settings(max_examples=1000)
@given(sources)
def test_what_leaves_no_gap_leaves_none(rng):
    gaps.check_gaps(rng)


@settings(max_examples=200)
@given(sources)
def test_stripes_are_walked_exactly(rng):
    gaps.check_listing(rng)


@settings(max_examples=600)
@given(sources)
def test_values_stay_in_their_ranges(rng):
    values.check_ranges(rng)


@settings(max_examples=200)
@given(sources)
def test_builders_keep_values(rng):
    values.check_builders(rng)


@settings(max_examples=200)
@given(sources)
def test_products_keep_values(rng):
    scores.check_products(rng)


@settings(max_examples=300)
@given(sources)
def test_scores_are_rewritten_without_change(rng):
    scores.check_score(rng)


@settings(max_examples=200)
@given(sources)
def test_index_sets_hold_every_dependence(rng):
    values.check_axes(rng)


@settings(max_examples=300)
@given(sources)
def test_derivatives_are_slopes(rng):
    slopes.check_derivative(rng)


@pytest.mark.parametrize("case", slopes.ties(), ids=lambda case: case[0])
def test_ties_and_kinks(case):
    slopes.hold_tie(*case)


@pytest.mark.parametrize("case", values.known_ranges(), ids=lambda case: str(case[0]))
def test_ranges_are_tight(case):
    values.hold_known_range(*case)


@pytest.mark.parametrize("case", scores.known_scores(), ids=lambda case: case[0])
def test_scores_take_their_form(case):
    scores.hold_known_score(*case)
