"""Golden modules: the whole text of some shipped variants, byte for byte, and alike everywhere."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fagen.codegen.render import render
from fagen.spec.load import find_variant, load_variant, shipped_names

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
#: Enough for every part of the templates; the others are rendered and read, not kept.
KEPT = (
    "alibi", "block_map", "causal", "document", "full", "gemma2_local", "prefix_lm",
    "sinks_window", "sliding_window", "softcap", "tree_causal",
)  # fmt: skip
HASHES = """
import hashlib
from fagen.codegen.render import render
from fagen.spec.load import find_variant, load_variant, shipped_names
for name in shipped_names():
    text = render(load_variant(find_variant(name)))
    print(name, hashlib.sha256(text.encode()).hexdigest())
"""


def text_of(name: str) -> str:
    return render(load_variant(find_variant(name)))


@pytest.mark.parametrize("name", KEPT)
def test_golden(name, golden):
    golden(f"{name}.py", text_of(name))


def test_no_golden_is_left_over():
    assert sorted(path.stem for path in GOLDEN.glob("*.py")) == sorted(KEPT)


def test_the_same_bytes_in_every_process():
    printed = set()
    for seed in ("0", "1", "31337"):
        run = subprocess.run(
            [sys.executable, "-c", HASHES],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        assert run.returncode == 0, run.stderr
        printed.add(run.stdout)
    assert len(printed) == 1 and len(printed.pop().splitlines()) == len(shipped_names())


def test_a_module_is_rendered_at_once():
    text_of("causal")
    variant = load_variant(find_variant("document"))
    started = time.perf_counter()
    render(variant)
    # 0.05 s on two cores of 2024; the limit is for the slowest and busiest.
    assert time.perf_counter() - started < 0.5


def test_headers_have_one_length():
    """Triton 3.6 makes the first line number of a kernel part of its cache key."""
    assert len({text_of(name).split("SPEC_HASH")[0].count("\n") for name in shipped_names()}) == 1
