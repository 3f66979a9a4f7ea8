"""Costs against numbers worked out by hand, and counts of pairs against the mask itself."""

from random import Random

import numpy as np
import pytest
from drawing import sources
from grammar import KV, WINDOW, B, Grammar, H, Q, table
from hypothesis import given, settings
from scene import draw_scene, variant_of

from fagen.analysis.cost import Problem, cost
from fagen.analysis.pairs import PAIRS_AT_ONCE, live_pairs
from fagen.spec.expr import TRUE, const, make, name, read
from fagen.spec.variant import SCORE, Parameter, Tensor, Variant

PAST = make("le", KV, Q)
SMALL = Problem(2, 6, 3, 4, 4, 8, 16)


def test_everything_by_hand():
    found = cost(Variant("past", mask=PAST), SMALL)
    assert found.pairs == 2 * 6 * 10
    assert found.square == 2 * 6 * 16
    assert found.density == 10 / 16
    assert found.forward_flops == 2 * 120 * (8 + 16)
    assert found.backward_flops == 2 * 120 * (8 + 16 + 16 + 8 + 8)
    assert found.backward_flops_split == 2 * 120 * (8 + 8 + 16 + 16 + 16 + 8 + 8)
    q, out = 2 * 6 * 4 * 8 * 2, 2 * 6 * 4 * 16 * 2
    k, v, lse = 2 * 3 * 4 * 8 * 2, 2 * 3 * 4 * 16 * 2, 2 * 6 * 4 * 4
    assert found.forward_bytes == q + k + v + out + lse == 3648
    assert found.backward_bytes == 2 * (q + k + v + out) + lse == 7104
    square = 2 * 6 * 4 * 4 * 2
    assert found.naive_forward_bytes == q + k + v + out + 4 * square == 4992
    assert found.naive_backward_bytes == 2 * (q + k + v + out) + 7 * square == 9600
    assert found.table_bytes == 0


def test_the_width_of_the_dtype_counts():
    half, single = (cost(Variant("all"), Problem(1, 1, 1, 8, 8, 16, 16, w)) for w in (2, 4))
    lse = 8 * 4
    assert single.forward_bytes - lse == 2 * (half.forward_bytes - lse)
    assert single.forward_flops == half.forward_flops == 2 * 64 * 32


def test_a_long_square_is_counted_without_being_built():
    found = cost(Variant("past", mask=PAST), Problem(1, 32, 8, 2**20, 2**20, 128, 128))
    assert found.pairs == 32 * 2**20 * (2**20 + 1) // 2


def test_a_mask_without_closed_form_is_counted_in_chunks():
    length = 3000
    assert length * length > 2 * PAIRS_AT_ONCE
    mask = make("eq", make("mod", make("sub", Q, KV), const(7)), const(0))
    found = cost(Variant("dilated", mask=mask), Problem(1, 2, 2, length, length, 64, 64))
    residues = [len(range(r, length, 7)) for r in range(7)]
    assert found.pairs == 2 * sum(n * n for n in residues)


def test_positions_and_offsets():
    variant = Variant("past", mask=PAST)
    start = Variant("past", mask=PAST, position="start")
    problem = Problem(1, 1, 1, 2, 5, 16, 16)
    assert cost(variant, problem).pairs == 4 + 5
    assert cost(start, problem).pairs == 1 + 2
    assert cost(variant, problem, q_offset=-1).pairs == 0 + 1
    assert cost(variant, problem, kv_offset=2).pairs == 2 + 3
    tall = Problem(1, 1, 1, 5, 2, 16, 16)
    assert cost(variant, tall).pairs == 0 + 0 + 0 + 1 + 2


def test_parameters_and_tables():
    window = Parameter("window", "int", 2, 1)
    near = make("and", PAST, make("lt", make("sub", Q, KV), WINDOW))
    banded = Variant("near", parameters=(window,), mask=near)
    assert cost(banded, Problem(1, 1, 1, 6, 6, 16, 16)).pairs == 1 + 2 * 5
    assert cost(banded, Problem(1, 1, 1, 6, 6, 16, 16), {"window": 3}).pairs == 1 + 2 + 3 * 4
    prefix = Tensor("prefix", ("batch",), "int32")
    padded = Variant("padded", tensors=(prefix,), mask=make("lt", KV, read("prefix", (B,), "int")))
    tables = {"prefix": np.array([3, 9], np.int32)}
    found = cost(padded, Problem(2, 3, 3, 4, 5, 16, 16), tensors=tables)
    assert (found.pairs, found.table_bytes) == (3 * 4 * (3 + 5), 2 * 4)
    with pytest.raises(KeyError, match="prefix"):
        cost(padded, Problem(2, 3, 3, 4, 5, 16, 16))


def test_tables_by_default_and_by_shape():
    """A table of the score costs its bytes; one of the mask is made from its default."""
    limit = Tensor("limit", ("heads",), "int64", default=make("add", H, const(1)))
    bias = Tensor("bias", ("heads", "q_len", "kv_len"), "bfloat16")
    unread = Tensor("unread", ("q_len",), "float32")
    variant = Variant(
        "tables",
        tensors=(limit, bias, unread),
        mask=make("lt", KV, read("limit", (H,), "int")),
        score=make("add", SCORE, read("bias", (H, Q, KV), "float")),
    )
    found = cost(variant, Problem(1, 3, 3, 4, 5, 16, 16))
    assert found.pairs == 4 * (1 + 2 + 3)
    assert found.table_bytes == 3 * 8 + 3 * 4 * 5 * 2


def test_a_free_length_is_bound_by_its_table():
    table_ = Tensor("starts", ("batch", "documents"), "int32")
    mask = make("lt", KV, name("documents"))
    variant = Variant(
        "free",
        tensors=(table_,),
        mask=make("and", mask, make("ge", read("starts", (B, KV), "int"), const(0))),
    )
    tables = {"starts": np.zeros((1, 3), np.int32)}
    assert cost(variant, Problem(1, 1, 1, 2, 8, 16, 16), tensors=tables).pairs == 6


@pytest.mark.parametrize(
    "sizes", [(0, 2, 2, 4, 4), (1, 2, 2, 0, 4), (1, 2, 2, 4, 0)], ids=["batch", "queries", "keys"]
)
def test_nothing_costs_no_operations(sizes):
    found = cost(Variant("past", mask=PAST), Problem(*sizes, 16, 16))
    assert (found.pairs, found.forward_flops, found.density) == (0, 0, 0.0)


def test_heads_must_divide():
    with pytest.raises(ValueError, match=r"kv_heads \(3\) must divide heads \(4\)"):
        Problem(1, 4, 3, 8, 8, 16, 16)


def test_key_value_heads_follow_their_group():
    mask = make("lt", KV, name("kv_h"))
    assert cost(Variant("by head", mask=mask), Problem(1, 6, 3, 1, 9, 16, 16)).pairs == 0 + 2 + 4


@settings(max_examples=150)
@given(sources)
def test_pairs_of_any_mask(rng):
    scene = draw_scene(rng)
    mask = rng.choice(
        [Grammar(rng).mask, lambda: make("le", KV, table("prefix", B)), lambda: TRUE]
    )()
    names = {**scene.names, "kv_heads": 3}
    del names["b"], names["h"]
    live = 0
    for b in range(2):
        for h in range(3):
            here = type(scene)({**scene.names, "b": b, "h": h}, scene.tensors)
            live += int(here.grid(mask).sum())
    assert live_pairs(variant_of(mask), names, scene.tensors) == live


def test_overlapping_intervals_count_once():
    mask = make("or", make("lt", KV, const(5)), make("and", PAST, make("gt", KV, const(2))))
    scene = draw_scene(Random(0))
    names = {**scene.names, "kv_heads": 3, "q_len": 8, "kv_len": 8, "q_offset": 0, "kv_offset": 0}
    found = live_pairs(variant_of(mask), names, scene.tensors)
    assert found == 2 * 3 * sum(max(5, q + 1) for q in range(8))
