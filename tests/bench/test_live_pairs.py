"""The count of live pairs is exact, for masks whose count has a formula and for arbitrary ones."""

from __future__ import annotations

import pytest
import torch

from fagen.bench.cases import case_of
from fagen.bench.live_pairs import case_pairs, live_pairs, row_counts, teraflops
from fagen.bench.problem import Problem, Sizes

LENGTH, WINDOW, PREFIX, SINKS = 1000, 96, 130, 4
TRIANGLE = LENGTH * (LENGTH + 1) // 2
BAND = WINDOW * LENGTH - WINDOW * (WINDOW - 1) // 2
# Row r sees min(r + 1, WINDOW) keys and those sink tokens that lie before its window.
SINK_BAND = BAND + sum(min(SINKS, max(0, r + 1 - WINDOW)) for r in range(LENGTH))


@pytest.mark.parametrize(
    ("variant", "pairs"),
    [
        ("full", LENGTH * LENGTH),
        ("causal", TRIANGLE),
        ("alibi", TRIANGLE),
        ("softcap", TRIANGLE),
        ("sliding_window", BAND),
        ("gemma2_local", BAND),
        ("sinks_window", SINK_BAND),
        ("prefix_lm", sum(max(row + 1, PREFIX) for row in range(LENGTH))),
        ("document", 8 * 125 * 126 // 2),
    ],
)
def test_a_case_has_the_pairs_of_its_formula(variant, pairs):
    problem = Problem(3, 4, 2, LENGTH, 16)
    case = case_of(variant, problem, "cpu", Sizes(window=WINDOW, prefix=PREFIX))
    assert case_pairs(case) == 12 * pairs


def test_documents_of_a_length_that_eight_does_not_divide():
    case = case_of("document", Problem(1, 1, 1, 20, 16), "cpu")
    # ceil(20 / 8) = 3 tokens each: six documents of 3 and one of 2.
    assert case_pairs(case) == 6 * 6 + 3


def random_mask(seed):
    table = torch.rand(2, 3, 37, 53, generator=torch.Generator().manual_seed(seed)) < 0.3
    return table, lambda b, h, q, kv: table[b, h, q, kv]


@pytest.mark.parametrize("rows_at_once", [1, 8, 37, 100])
def test_chunks_of_rows_change_nothing(rows_at_once):
    table, mask = random_mask(1)
    counted = row_counts(mask, 37, 53, b=1, h=2, rows_at_once=rows_at_once)
    assert counted.tolist() == table[1, 2].sum(1).tolist()


def test_a_mask_that_reads_batch_and_head_is_counted_for_each():
    table, mask = random_mask(2)
    assert live_pairs(mask, 2, 3, 37, 53, varies="bh") == int(table.sum())


def test_one_axis_is_counted_and_the_other_repeated():
    table, _ = random_mask(3)
    by_head = live_pairs(lambda b, h, q, kv: table[0, h, q, kv], 5, 3, 37, 53, varies="h")
    assert by_head == 5 * int(table[0].sum())
    by_batch = live_pairs(lambda b, h, q, kv: table[b, 0, q, kv], 2, 7, 37, 53, varies="b")
    assert by_batch == 7 * int(table[:, 0].sum())


def test_a_mask_of_rows_alone_covers_every_key():
    assert live_pairs(lambda b, h, q, kv: q < 3, 1, 1, 10, 6) == 18


def test_nothing_to_attend():
    assert live_pairs(None, 0, 4, 8, 8) == 0
    assert live_pairs(None, 2, 4, 0, 8) == 0
    assert live_pairs(lambda b, h, q, kv: q >= kv, 2, 4, 8, 0) == 0


def test_teraflops_count_two_products_forward_and_five_backward():
    # 10^6 pairs of width 100 are 0.4 GFLOP forward: in 1 ms, 0.4 TFLOP/s.
    assert teraflops(10**6, 100, 1.0, "forward") == pytest.approx(0.4)
    assert teraflops(10**6, 100, 1.0, "backward") == pytest.approx(1.0)
    assert teraflops(10**6, 100, 2.0, "backward") == pytest.approx(0.5)
