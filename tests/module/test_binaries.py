"""Only tile sizes, widths and dtypes make new binaries; values never do.

`test_on_gpu.py` counts the same natively.
"""

from __future__ import annotations

import itertools

import pytest
import torch
from binaries import Recording, binaries, compile_nothing
from generated import SHIPPED, import_source, inputs, module, shipped, tables, tiles

from fagen.codegen.render import render

pytestmark = pytest.mark.native
COPIES = itertools.count()


@pytest.fixture
def recorded(monkeypatch):
    """A fresh copy of a shipped module, launched on CPU tensors as if on a GPU."""
    from triton import compiler
    from triton.runtime.driver import driver

    monkeypatch.setattr(driver, "_active", Recording())
    monkeypatch.setattr(compiler, "compile", compile_nothing)

    def load(name):
        mod = import_source(render(shipped(name)), f"recorded_{name}_{next(COPIES)}")
        # The one check that must let CPU tensors pass here.
        monkeypatch.setattr(mod, "check_matrices", lambda q, k, v: None)
        return mod

    return load


def step(mod, q, k, v, **keywords):
    """Forward and backward, through out and lse."""
    q, k, v = (x.requires_grad_() for x in (q, k, v))
    config = keywords.pop("config", tiles(mod, 64, 32))
    out, lse = mod.attention(q, k, v, return_lse=True, config=config, **keywords)
    (out.sum() + lse.sum()).backward()


def draw(batch=2, heads=4, kv_heads=2, q_len=1000, kv_len=1000, dtype=torch.float16):
    return inputs(batch, heads, kv_heads, q_len, kv_len, 64, 64, dtype)


def once(mod):
    """Every kernel of the module has been compiled once."""
    counts = binaries(mod)
    assert len(counts) >= 4
    return set(counts.values()) == {1}


def test_windows_share_a_binary(recorded):
    mod = recorded("sliding_window")
    for window in (1, 16, 17, 4096):
        step(mod, *draw(), window=window)
    assert once(mod)


@pytest.mark.parametrize("name", SHIPPED)
def test_lengths_share_a_binary(recorded, name):
    mod = recorded(name)
    for q_len, kv_len in ((1000, 1000), (1024, 1024), (16, 1024), (17, 33), (1024, 17), (1, 1)):
        step(mod, *draw(q_len=q_len, kv_len=kv_len), **tables(name, 2, kv_len))
    assert once(mod)


@pytest.mark.parametrize("name", ["causal", "alibi", "document"])
def test_batches_and_heads_share_a_binary(recorded, name):
    mod = recorded(name)
    for batch, heads, kv_heads in ((1, 1, 1), (2, 4, 2), (3, 16, 1), (16, 21, 7), (17, 16, 16)):
        step(mod, *draw(batch, heads, kv_heads, 100, 100), **tables(name, batch, 100))
    assert once(mod)


def test_offsets_and_scales_share_a_binary(recorded):
    mod = recorded("causal")
    for q_offset, kv_offset, scale in ((0, 0, 1), (1, 16, 0.125), (16, 1, 1.0), (17, -5, 0.3)):
        step(mod, *draw(), q_offset=q_offset, kv_offset=kv_offset, scale=scale)
    assert once(mod)


def test_float_parameters_share_a_binary(recorded):
    mod = recorded("gemma2_local")
    for cap, window in ((50.0, 4096), (1.0, 1), (16, 16), (30.5, 17)):
        step(mod, *draw(), cap=cap, window=window)
    assert once(mod)


def test_layouts_share_a_binary(recorded):
    mod = recorded("causal")
    step(mod, *draw())
    step(mod, *(x.detach().transpose(1, 2).contiguous().transpose(1, 2) for x in draw()))
    q, k, v = (x.detach() for x in draw(kv_heads=1))
    step(mod, q, k.expand(2, 4, -1, -1), v.expand(2, 4, -1, -1))
    assert once(mod)


def test_tables_of_any_stride_share_a_binary(recorded):
    mod = recorded("document")
    doc = tables("document", 2, 1000)["doc"]
    step(mod, *draw(), doc=doc)
    step(mod, *draw(), doc=doc[:1].expand(2, -1))
    wide = torch.zeros(2, 1003, dtype=torch.int32)
    step(mod, *draw(), doc=wide[:, :1000])
    assert once(mod)


@pytest.mark.parametrize(
    "change",
    [
        lambda mod: step(mod, *draw(dtype=torch.bfloat16)),
        lambda mod: step(mod, *draw(), config=tiles(mod, 32, 32)),
        lambda mod: step(mod, *inputs(2, 4, 2, 100, 100, 128, 128, torch.float16)),
    ],
    ids=["dtype", "tiles", "width"],
)
def test_what_does_make_another_binary(recorded, change):
    mod = recorded("causal")
    step(mod, *draw())
    assert once(mod)
    change(mod)
    counts = binaries(mod)
    assert max(counts.values()) == 2 and counts["forward_kernel"] == 2


def test_an_unused_lse_makes_another_preparation_only(recorded):
    mod = recorded("causal")
    step(mod, *draw())
    mod.attention(*draw(), config=tiles(mod, 64, 32)).sum().backward()
    counts = binaries(mod)
    assert counts.pop("prep_kernel") == 2 and set(counts.values()) == {1}


def test_launches_are_guarded_by_the_device_of_q(recorded, monkeypatch):
    """With several GPUs, the current one need not be the one that holds q."""
    mod = recorded("causal")
    inside = []

    class Guard:
        def __init__(self, x):
            self.x = x

        def __enter__(self):
            inside.append(self.x)

        def __exit__(self, *error):
            inside.pop()

    class Seen:
        def __init__(self, kernel):
            self.kernel = kernel

        def __getitem__(self, grid):
            assert inside, "launched outside of a device guard"
            return self.kernel[grid]

    monkeypatch.setattr(torch.cuda, "device_of", Guard)
    for name in binaries(mod):
        monkeypatch.setattr(mod, name, Seen(getattr(mod, name)))
    step(mod, *draw())
    assert not inside


def test_cpu_tensors_without_the_interpreter():
    q, k, v = inputs(1, 2, 1, 20, 20, 16)
    with pytest.raises(ValueError, match=r"q must be on a GPU, got cpu: use reference\(\), or set"):
        module("sliding_window").attention(q, k, v)
