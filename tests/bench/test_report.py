"""The report's arithmetic and its form, on records made by hand."""

from __future__ import annotations

import pytest

from fagen.bench.report import geometric_mean, ratio, render, shape_table, verdict

SHAPE = "4,16,16,4096,128"


def timed(tflops, rounds=(1.0, 1.0)):
    median = sorted(rounds)[len(rounds) // 2]
    return {"tflops": tflops, "median_ms": median, "rounds_ms": list(rounds)}


def cell(variant="causal", ours=(460.0, 350.0), flex=(400.0, 350.0), **more):
    def result(speeds):
        return {
            "forward": timed(speeds[0]), "backward": timed(speeds[1]), "notes": {}, "errors": {}
        }  # fmt: skip

    return {
        "variant": variant, "shape": SHAPE, "refused": None, "live_pairs": 7,
        "results": {"ours": result(ours), "flex": result(flex)}, **more,
    }  # fmt: skip


def record(*cells, **more):
    source = {
        "card": {"name": "Card X"}, "driver": "1.2", "torch": "2.11", "triton": "3.6", "cudnn": 9,
        "fagen": "0.1", "commit": "abc", "date": "today", "command": ["python", "-m", "x"],
    }  # fmt: skip
    return {
        "provenance": source, "rounds": 3, "matmul_tflops": 800.0, "references": ["formula"],
        "cells": list(cells), **more,
    }  # fmt: skip


def test_the_geometric_mean():
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
    assert geometric_mean([1.3]) == pytest.approx(1.3)
    assert geometric_mean([]) is None


def test_the_ratio_is_ours_over_the_peer():
    made = cell()
    assert ratio(made, "forward") == pytest.approx(1.15)
    assert ratio(made, "backward") == 1.0
    assert ratio(made, "forward", "cudnn") is None
    assert ratio({"variant": "causal", "shape": SHAPE}, "forward") is None


@pytest.mark.parametrize(
    ("variant", "direction", "value", "said"),
    [
        ("causal", "forward", 1.15, "met (1.15)"),
        # 1.1499 prints as 1.15 in the table and still misses the bar.
        ("causal", "forward", 1.1499, "**missed** (1.15)"),
        ("full", "forward", 1.06, "met (1.05)"),
        ("full", "backward", 0.99, "**missed** (1)"),
        ("document", "backward", 1.4, "met (1.4)"),
        ("softcap", "forward", 1.9, "**missed** (2)"),
        ("softcap", "backward", None, "not timed (1.5)"),
        ("gemma2_local", "forward", 3.0, ""),
    ],
)
def test_the_bars(variant, direction, value, said):
    assert verdict(variant, direction, value) == said


def test_a_row_of_the_table():
    lines = shape_table([cell(), cell("full", ours=(640.0, 400.0), flex=(400.0, 400.0))], 800.0)
    assert lines[2].split(" | ") == [
        "| causal", "460", "400", "-", "1.15", "met (1.15)", "57%",
        "350", "350", "-", "1.00", "met (1)", "44% |",
    ]  # fmt: skip
    assert lines[4].split(" | ")[4] == f"{(1.15 * 1.6) ** 0.5:.2f}"
    assert len({line.count("|") for line in lines}) == 1


def test_a_refused_cell_is_named_and_leaves_the_mean_alone():
    refused = {"variant": "alibi", "shape": SHAPE, "refused": "length 1000: dq 3.0e-01"}
    text = render(record(cell(), refused))
    assert "alibi at 4,16,16,4096,128: not timed, length 1000: dq 3.0e-01" in text
    assert "| alibi | - | - |" in text
    mean = next(line for line in text.splitlines() if line.startswith("| geometric mean"))
    assert "1.15" in mean


def test_a_failing_peer_is_named():
    made = cell()
    made["results"]["flex"]["errors"]["forward"] = "OutOfResources: shared memory"
    assert "flex: OutOfResources: shared memory" in render(record(made))


def test_the_report_says_where_its_numbers_come_from():
    text = render(record(cell()))
    for fact in (
        "Card X",
        "driver 1.2",
        "torch 2.11",
        "abc",
        "`python -m x`",
        "800 TFLOP/s",
        "float64 against formula",
    ):
        assert fact in text


def test_the_facts_behind_a_row():
    made = cell(
        errors={"1000": {"out": 2e-3, "dq": 4e-3}}, against_flex={"out": 1e-3}, block_mask_ms=12.34
    )
    made["results"]["flex"]["notes"] = {"options": {"fwd_BLOCK_M": 128}}
    made["results"]["ours"]["forward"] = timed(460.0, (0.9, 1.0, 1.1))
    text = render(record(made))
    assert f"| causal | {SHAPE} | 7 | 4.0e-03 | 1.0e-03 | 12.3 | fwd_BLOCK_M=128 | 20.0% |" in text


def test_host_costs_and_first_calls():
    host = {
        "causal": {
            "calls": {"ours": {"forward, no grad": 40.0}, "flex": {"error": "NotImplemented"}},
            "parts": {"op dispatch": 21.25},
        }
    }
    first = {"variant": "causal", "shape": SHAPE, "peers": {"ours": {"import": 2.5}}}
    text = render(record(cell(), host_cost=host, first_call=first))
    assert "| ours | 40.0 | - | - |  |" in text
    assert "| flex | - | - | - | NotImplemented |" in text
    assert "- op dispatch: 21.2" in text
    assert "| ours | 2.50 | - | - | - | - |  |" in text
