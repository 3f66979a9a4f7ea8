"""Facts of GPUs: complete, consistent, and found by name."""

from __future__ import annotations

import pytest

from fagen.device.gpus import (
    ARCHITECTURES,
    GPUS,
    UnknownGpu,
    architecture,
    gpu_named,
    gpus_with,
)
from fagen.device.target import triton_target


def test_every_target_has_a_product_and_a_description():
    assert {gpu.target for gpu in GPUS} == set(ARCHITECTURES)
    for target, facts in ARCHITECTURES.items():
        described = triton_target(target)
        assert described.warp_size == facts.warp_size == (32 if target.startswith("sm_") else 64)


def test_names_are_unique():
    assert len({gpu.name.casefold() for gpu in GPUS}) == len(GPUS)


@pytest.mark.parametrize(
    ("target", "kib"),
    [
        ("sm_80", 163),
        ("sm_86", 99),
        ("sm_89", 99),
        ("sm_90", 227),
        ("sm_100", 227),
        ("sm_120", 99),
        ("gfx942", 64),
        ("gfx950", 160),
    ],
)
def test_shared_memory(target, kib):
    assert architecture(target).shared_per_block == kib * 1024


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_figures_are_in_the_documented_units(gpu):
    # A figure in the wrong unit (MB for GB, GB/s for TB/s) falls out of these by its thousand.
    assert 20 <= gpu.processors <= 400
    assert 16 <= gpu.memory <= 512
    assert 200 <= gpu.bandwidth <= 10000
    assert 50 <= gpu.bf16 <= 3000
    assert 4 <= gpu.l2 <= 256
    # FLOPs a byte: between 75 and 500 on every chip made for matrix products.
    assert 75 <= gpu.bf16 * 1000 / gpu.bandwidth <= 500


def test_only_what_ran_says_so():
    assert [gpu.name for gpu in GPUS if gpu.evidence == "ran"] == ["H200"]


def test_lookups():
    assert gpu_named("h200").target == "sm_90"
    assert [gpu.name for gpu in gpus_with("sm_89")] == ["L4", "L40S", "RTX 4090"]
    assert triton_target("sm_90").backend == "cuda" and triton_target("sm_90").arch == 90
    assert triton_target("gfx950").backend == "hip" and triton_target("gfx950").arch == "gfx950"


@pytest.mark.parametrize(
    ("lookup", "name", "message"),
    [
        (architecture, "sm90", "unknown target `sm90`; did you mean `sm_90`?"),
        (gpus_with, "gfx943", "unknown target `gfx943`; did you mean `gfx942`?"),
        (triton_target, "SM_80", "unknown target `SM_80`; did you mean `sm_80`?"),
        (gpu_named, "H20", "unknown GPU `H20`; did you mean `H200`?"),
        (gpu_named, "xyz", "unknown GPU `xyz`; known: A100, RTX A6000, "),
    ],
)
def test_unknown_names_are_met_with_help(lookup, name, message):
    with pytest.raises(UnknownGpu) as error:
        lookup(name)
    assert str(error.value).startswith(message)
