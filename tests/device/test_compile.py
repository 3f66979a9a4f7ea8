"""Compilation without a GPU: resources on every architecture, failures as values."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fagen.device.compile import judge
from fagen.device.gpus import ARCHITECTURES, GFX942, SM_90, SM_100
from fagen.device.jobs import Job
from fagen.device.outcome import Resources, Result
from fagen.device.pool import compile_many

KERNELS = Path(__file__).with_name("kernels.py")
NVIDIA = [target for target in ARCHITECTURES if target.startswith("sm_")]

#: Fits everywhere: two stages of 64 x 64 bf16 tiles.
SMALL = Job(
    module=KERNELS,
    kernel="matmul",
    signature={
        "a_ptr": "*bf16",
        "b_ptr": "*bf16",
        "out_ptr": "*fp32",
        "a_stride": "i32",
        "b_stride": "i32",
        "length": "i32",
    },
    constexprs={"BLOCK_M": 64, "BLOCK_N": 64},
    target="sm_90",
)
#: The float32 accumulator alone takes 512 registers of each of 64 threads, twice what there is.
HOPELESS = replace(
    SMALL,
    constexprs={"BLOCK_M": 256, "BLOCK_N": 128, "BLOCK_K": 32},
    num_warps=2,
    num_stages=1,
)
#: Tiles of 32 KiB in flight, one less than the stages at least.
GREEDY = replace(
    SMALL,
    constexprs={"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128},
    num_stages=4,
    num_warps=8,
)
COPY = Job(
    module=KERNELS,
    kernel="shifted_copy",
    signature={"source_ptr": "*fp32", "target_ptr": "*fp32", "shift": "i32"},
    constexprs={"BLOCK": 1024},
    target="sm_80",
)
BROKEN = replace(COPY, signature={"source_ptr": "*fp32", "target_ptr": "*fp32"})


def compiled_for(job: Job, targets, **where) -> dict[str, Result]:
    targets = list(targets)
    results = compile_many([replace(job, target=target) for target in targets], **where)
    return dict(zip(targets, results, strict=True))


@pytest.fixture(scope="module", params=["installed", "newest"])
def triton_path(request):
    return None if request.param == "installed" else request.getfixturevalue("newest_triton")


def test_a_small_kernel_fits_every_gpu(triton_path):
    for target, result in compiled_for(SMALL, ARCHITECTURES, triton_path=triton_path).items():
        assert result.ok, (target, result)
        used = result.resources
        assert used.threads == 4 * ARCHITECTURES[target].warp_size
        # One stage of both tiles at least, three at most (Hopper and Blackwell add barriers).
        assert 2 * 64 * 64 * 2 <= used.shared <= 3 * 2 * 64 * 64 * 2 + 1024, target
        assert 32 <= used.registers <= 255 and used.spilled == used.stack == 0, target
        assert used.binary > 4000, target
        assert used.tensor_memory == (64 if target == "sm_100" else 0), target


def test_a_kernel_that_wants_too_many_registers_spills(triton_path):
    for target, result in compiled_for(HOPELESS, NVIDIA, triton_path=triton_path).items():
        assert result.outcome == "spilled", (target, result)
        assert result.detail == f"spills {result.resources.spilled} bytes a thread"
        assert result.resources.spilled > 1000 and result.resources.stack > 1000


def test_amd_counts_spilled_registers(triton_path):
    # One wave has 64 lanes: the accumulator takes all 512 registers of each.
    one_wave = replace(HOPELESS, num_warps=1)
    result = compiled_for(one_wave, ["gfx942"], triton_path=triton_path)["gfx942"]
    assert result.outcome == "spilled" and result.resources.registers == 512
    assert result.resources.spilled >= 8 * 100 and result.resources.stack >= 4 * 100


def test_the_same_kernel_fits_one_gpu_and_not_another(triton_path):
    results = compiled_for(GREEDY, ARCHITECTURES, triton_path=triton_path)
    for target, result in results.items():
        used, limit = result.resources.shared, ARCHITECTURES[target].shared_per_block
        assert used >= 96 * 1024
        if target in ("sm_80", "sm_90", "sm_100"):
            assert result.ok and used <= limit, (target, result)
        else:
            assert result.outcome == "too_much_shared" and used > limit, (target, result)
            assert result.detail == (
                f"needs {used} bytes of shared memory, {target} has {limit} per block"
            )


@pytest.mark.parametrize(
    ("kernel", "target", "reason"),
    [
        ("adds_pointers", "sm_80", "source_ptr + target_ptr"),
        ("unknown_name", "gfx942", "no_such_name is not defined"),
        ("refused_by_assembler", "sm_80", "Unknown modifier '.such'"),
        ("refused_by_assembler", "gfx942", "invalid instruction"),
    ],
)
def test_failures_say_why(kernel, target, reason, triton_path):
    job = replace(BROKEN, kernel=kernel, target=target)
    (result,) = compile_many([job], triton_path=triton_path)
    assert result.outcome == "compile_failed" and result.resources is None
    assert reason in result.detail


def test_alignment_follows_the_launch():
    """What is known to be aligned is loaded and stored in wide pieces, by less code."""
    pointers = ("source_ptr", "target_ptr")
    any_shift = replace(COPY, kernel="shifted_copy_of_any")
    unaligned, wide_stores, all_wide, default, any_default, any_stores, any_wide = (
        result.resources.binary
        for result in compile_many(
            [
                replace(COPY, aligned=()),
                replace(COPY, aligned=pointers),
                replace(COPY, aligned=(*pointers, "shift")),
                COPY,
                any_shift,
                replace(any_shift, aligned=pointers),
                replace(any_shift, aligned=(*pointers, "shift")),
            ]
        )
    )
    assert unaligned > wide_stores > all_wide
    assert default == all_wide, "by default all that a launch would specialise"
    assert any_default == any_stores > any_wide, "and nothing that it would not"


def test_options_reach_the_backend():
    free, tight = compile_many([SMALL, replace(SMALL, options={"maxnreg": 64})])
    assert free.resources.registers > 64 >= tight.resources.registers


def test_spills_within_the_limit_are_tolerated():
    used = Resources(shared=0, registers=255, spilled=16, stack=8, binary=1, threads=128)
    assert judge(used, SM_90, spill_limit=16) == Result("ok", "", used)
    assert judge(used, SM_90, spill_limit=15).outcome == "spilled"


@pytest.mark.parametrize(
    ("limits", "change", "excess"),
    [
        (SM_90, {"shared": 227 * 1024}, None),
        (SM_90, {"shared": 227 * 1024 + 1}, "bytes of shared memory"),
        (GFX942, {"shared": 64 * 1024 + 1}, "bytes of shared memory"),
        (SM_100, {"tensor_memory": 512}, None),
        (SM_100, {"tensor_memory": 1024}, "columns of tensor memory"),
        (SM_90, {"threads": 2048, "registers": 32}, "threads"),
        (SM_90, {"threads": 512, "registers": 128}, None),
        (SM_90, {"threads": 512, "registers": 136}, "registers"),
    ],
)
def test_a_block_must_fit_in_every_respect(limits, change, excess):
    used = Resources(shared=0, registers=64, spilled=0, stack=0, binary=1, threads=128)
    result = judge(replace(used, **change), limits)
    assert result.outcome == ("ok" if excess is None else "too_much_shared")
    assert (excess or "") in result.detail


IN_PROCESS = """
import os, sys
sys.path.insert(0, sys.argv[1])
import kernels, triton
from fagen.device.compile import compile_kernel

def attempt(types=None, values=None, target="sm_80", kernel=kernels.copy, **more):
    try:
        return compile_kernel(
            kernel,
            types or {"source_ptr": "*fp32", "target_ptr": "*fp32"},
            values or {"BLOCK": 256},
            target,
            **more,
        ).outcome
    except Exception as error:
        return f"{type(error).__name__}: {error}"

print(attempt())
print(attempt(kernel=kernels.refused_by_assembler))
print(attempt(values={"BLOK": 256}))
print(attempt(types={"source_ptr": "*fp32", "target_ptr": "*fp32", "BLOCK": "i32"}))
print(attempt(values={"source_ptr": 1, "BLOCK": 256}))
print(attempt(aligned=["BLOCK"]))
print(attempt(target="sm_91"))
print(attempt(kernel=len))
print(triton.knobs.cache.dir == os.environ["TRITON_CACHE_DIR"], "torch" in sys.modules)
"""


def test_in_one_process(tmp_path):
    """The plain function: mistakes of the caller raise, nothing is printed, nothing is kept."""
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path / "cache")}
    environment.pop("TRITON_INTERPRET", None)
    run = subprocess.run(
        [sys.executable, "-c", IN_PROCESS, str(KERNELS.parent)],
        capture_output=True,
        text=True,
        env=environment,
        cwd=Path(__file__).resolve().parents[2],
    )
    assert run.stderr == ""
    assert run.stdout.splitlines() == [
        "ok",
        "compile_failed",
        "ValueError: `copy` has no argument `BLOK`; did you mean `BLOCK`?",
        "ValueError: `BLOCK` of `copy` has both a type and a value",
        "ValueError: `source_ptr` of `copy` has both a type and a value",
        "ValueError: `BLOCK` cannot be aligned: no pointer or integer argument",
        "UnknownGpu: unknown target `sm_91`; did you mean `sm_90`?",
        "ValueError: <built-in function len> is not a compiled Triton kernel; "
        "under TRITON_INTERPRET=1 there is none",
        "True False",
    ]
    assert not (tmp_path / "cache").exists()
