"""Operators in graphs: made before a reload, with symbolic lengths, under other derivatives."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import torch
from generated import import_source, inputs, module, shipped, tiles

from fagen.codegen.render import render


def reloadable(monkeypatch, name):
    mod = import_source(render(shipped("softcap")), name)
    monkeypatch.syspath_prepend(Path(mod.__file__).parent)
    return mod


def test_a_compiled_graph_outlives_two_reloads(monkeypatch):
    torch.compiler.reset()
    mod = reloadable(monkeypatch, "outlived_softcap")
    config = tiles(mod)
    leaves = inputs(1, 2, 1, 20, 20, 16)
    compiled = torch.compile(
        lambda q, k, v: mod.attention(q, k, v, config=config), fullgraph=True, backend="aot_eager"
    )
    out = compiled(*leaves)
    eager = torch.autograd.grad(mod.attention(*leaves, config=config).sum(), leaves)
    spaces = {mod.NAMESPACE}
    for _ in range(2):
        importlib.reload(mod)
        spaces.add(mod.NAMESPACE)
    torch.testing.assert_close(torch.autograd.grad(out.sum(), leaves), eager)
    assert len(spaces) == 3


def test_an_exported_program_outlives_a_reload(monkeypatch):
    mod = reloadable(monkeypatch, "exported_softcap")
    config = tiles(mod)

    class Model(torch.nn.Module):
        def forward(self, q, k, v):
            return mod.attention(q, k, v, config=config)

    leaves = tuple(x.detach() for x in inputs(1, 2, 1, 20, 20, 16))
    exported = torch.export.export(Model(), leaves).module()
    right = mod.attention(*leaves, config=config)
    importlib.reload(mod)
    torch.testing.assert_close(exported(*leaves), right)


@pytest.mark.parametrize("strict", [True, False])
def test_export_with_lengths_of_later(strict):
    mod = module("sliding_window")
    config = tiles(mod)

    class Model(torch.nn.Module):
        def forward(self, q, k, v):
            return mod.attention(q, k, v, window=7, config=config)

    length = torch.export.Dim("length", min=2, max=512)
    shapes = tuple({2: length} for _ in range(3))
    exported = torch.export.export(
        Model(),
        tuple(x.detach() for x in inputs(1, 2, 1, 20, 20, 16)),
        dynamic_shapes=shapes,
        strict=strict,
    )
    leaves = tuple(x.detach() for x in inputs(1, 2, 1, 37, 37, 16))
    torch.testing.assert_close(exported.module()(*leaves), Model()(*leaves))


@pytest.mark.parametrize("by", ["func", "dual"])
def test_forward_mode_is_refused_by_name(by):
    mod = module("causal")
    q, k, v = (x.detach() for x in inputs(1, 2, 1, 20, 20, 16))

    def call(x):
        return mod.attention(x, k, v, config=tiles(mod))

    with pytest.raises(RuntimeError, match=r"forward-mode derivatives.*reference\(\)"):
        if by == "func":
            torch.func.jvp(call, (q,), (torch.ones_like(q),))
        else:
            with torch.autograd.forward_ad.dual_level():
                call(torch.autograd.forward_ad.make_dual(q, torch.ones_like(q)))


def test_a_row_alone_may_have_any_stride():
    mod = module("causal")
    q = torch.randn(2 * 2**24)[: 2 * 32].as_strided((1, 2, 1, 16), (64, 32, 2**24, 1))
    k, v = (torch.randn(1, 2, 5, 16) for _ in range(2))
    out = mod.attention(q, k, v, config=tiles(mod))
    torch.testing.assert_close(out, mod.reference(q, k, v))
