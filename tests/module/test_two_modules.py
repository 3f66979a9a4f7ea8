"""Modules live side by side: of one name, of one file, and reloaded."""

from __future__ import annotations

import importlib
from pathlib import Path

import torch
from generated import check, import_source, inputs, module, shipped, tiles

from fagen.codegen.render import render
from fagen.spec.load import load_text

SEES_PAST = "name: same\nmask: kv_idx <= q_idx"
SEES_FUTURE = "name: same\nmask: kv_idx >= q_idx"


def test_two_variants_of_one_name():
    past, future = load_text(SEES_PAST), load_text(SEES_FUTURE)
    one = import_source(render(past), "one_same")
    other = import_source(render(future), "other_same")
    assert one.NAMESPACE != other.NAMESPACE
    # Interleaved, so that neither can have taken over the other's operators.
    for variant, mod in ((past, one), (future, other), (past, one)):
        check(variant, mod, *inputs(1, 2, 1, 20, 20, 16), config=tiles(mod))


def test_one_file_under_two_names():
    source = render(shipped("alibi"))
    first = import_source(source, "first_alibi")
    q, k, v = inputs(1, 2, 1, 20, 20, 16)
    out = first.attention(q, k, v, config=tiles(first))
    second = import_source(source, "second_alibi")
    # A graph recorded before the second import still has its backward.
    out.sum().backward()
    for mod in (first, second, first):
        check(shipped("alibi"), mod, *inputs(1, 2, 1, 20, 20, 16), config=tiles(mod))


def test_an_edited_copy_runs_its_own_kernels():
    source = render(shipped("full"))
    doubled = source.replace("acc, inverse[:, None]", "acc, 2.0 * inverse[:, None]")
    assert doubled != source
    first = import_source(source, "kept_full")
    edited = import_source(doubled, "edited_full")
    q, k, v = (x.detach() for x in inputs(1, 1, 1, 20, 20, 16))
    for _ in range(2):
        out = first.attention(q, k, v, config=tiles(first))
        torch.testing.assert_close(edited.attention(q, k, v, config=tiles(edited)), 2 * out)


def test_a_reloaded_module_works(monkeypatch):
    mod = import_source(render(shipped("softcap")), "reloaded_softcap")
    monkeypatch.syspath_prepend(Path(mod.__file__).parent)
    kept = mod.attention
    mod = importlib.reload(mod)
    assert mod.attention is not kept
    check(shipped("softcap"), mod, *inputs(1, 1, 1, 20, 20, 16), config=tiles(mod))
    q, k, v = inputs(1, 1, 1, 20, 20, 16)
    torch.testing.assert_close(kept(q, k, v), mod.attention(q, k, v))


def test_compiled_callers_of_two_modules_do_not_mix():
    torch.compiler.reset()
    window, full = module("sliding_window"), module("full")

    @torch.compile(fullgraph=True, backend="aot_eager")
    def both(q, k, v):
        near = window.attention(q, k, v, window=3, config=tiles(window))
        return near, full.attention(q, k, v, config=tiles(full))

    q, k, v = (x.detach() for x in inputs(1, 1, 1, 20, 20, 16))
    near, far = both(q, k, v)
    torch.testing.assert_close(near, window.reference(q, k, v, window=3))
    torch.testing.assert_close(far, full.reference(q, k, v))
