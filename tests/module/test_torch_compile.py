"""Generated modules under torch.compile, fake tensors and torch.library's own checks."""

from __future__ import annotations

import pytest
import torch
from generated import inputs, module, tables, tiles, written
from small_model import Model, gradients

CAUSAL, WINDOW, SOFTCAP = module("causal"), module("sliding_window"), module("softcap")
CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor")


def assert_same(found, expected):
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_compiled_model_equals_eager(backend):
    torch.manual_seed(0)
    torch.compiler.reset()
    model, x = Model(16, tiles(WINDOW, 32, 32)), torch.randn(1, 35, 32)
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    assert_same(gradients(model, compiled, x), gradients(model, model, x))


def count_graphs():
    graphs = []

    def backend(graph, example_inputs):
        graphs.append(graph)
        return graph.forward

    return graphs, backend


def test_a_parameter_that_varies_compiles_twice_at_most():
    torch.compiler.reset()
    graphs, backend = count_graphs()

    @torch.compile(fullgraph=True, backend=backend)
    def attend(q, k, v, window):
        return WINDOW.attention(q, k, v, window=window, config=tiles(WINDOW))

    q, k, v = (x.detach() for x in inputs(1, 1, 1, 35, 35, 16))
    for window in (1, 16, 17, 5, 33):
        eager = WINDOW.attention(q, k, v, window=window, config=tiles(WINDOW))
        torch.testing.assert_close(attend(q, k, v, window), eager)
    # Once for the first value, once more with the window as a symbol.
    assert len(graphs) == 2


def test_a_float_parameter_that_varies_keeps_its_values():
    torch.compiler.reset()
    graphs, backend = count_graphs()

    @torch.compile(fullgraph=True, backend=backend)
    def attend(q, k, v, cap, scale):
        return SOFTCAP.attention(q, k, v, cap=cap, scale=scale, config=tiles(SOFTCAP))

    q, k, v = (x.detach() for x in inputs(1, 1, 1, 20, 20, 16))
    seen = []
    for cap, scale in ((2.0, 0.25), (3.0, 0.5), (0.5, 0.75), (4.0, 1.0)):
        eager = SOFTCAP.attention(q, k, v, cap=cap, scale=scale, config=tiles(SOFTCAP))
        seen.append(attend(q, k, v, cap, scale))
        torch.testing.assert_close(seen[-1], eager)
    assert len(graphs) <= len(seen)


def test_lengths_that_vary_are_one_graph():
    torch.compiler.reset()
    graphs, backend = count_graphs()

    @torch.compile(fullgraph=True, backend=backend, dynamic=True)
    def attend(q, k, v):
        return CAUSAL.attention(q, k, v, return_lse=True, config=tiles(CAUSAL))

    for length in (33, 20, 47):
        q, k, v = (x.detach() for x in inputs(2, 2, 1, length, length, 16))
        eager = CAUSAL.attention(q, k, v, return_lse=True, config=tiles(CAUSAL))
        torch.testing.assert_close(attend(q, k, v), eager)
    assert len(graphs) == 1


@pytest.mark.parametrize("name", ["alibi", "prefix_lm", "document"])
def test_tables_under_compile(name):
    torch.compiler.reset()
    mod = module(name)
    given = tables(name, 1, 35)
    q, k, v = inputs(1, 2, 1, 35, 35, 16)

    def attend(q, k, v):
        return mod.attention(q, k, v, config=tiles(mod), **given)

    compiled = torch.compile(attend, fullgraph=True, backend="aot_eager")
    found = torch.autograd.grad(compiled(q, k, v).square().sum(), (q, k, v))
    plain = torch.autograd.grad(attend(q, k, v).square().sum(), (q, k, v))
    assert_same(found, plain)


def test_a_refusal_under_compile_keeps_its_words():
    torch.compiler.reset()
    q, k, v = inputs(1, 2, 1, 20, 20, 16)
    compiled = torch.compile(WINDOW.attention, backend="eager")
    with pytest.raises(Exception, match="window must be from 1 to"):
        compiled(q, k, v, window=0)


def test_autocast_under_compile():
    torch.compiler.reset()
    q, k, v = inputs(1, 2, 1, 35, 35, 16)

    def attend(q, k, v):
        with torch.autocast("cpu", dtype=torch.float16):
            return CAUSAL.attention(q, k, v, config=tiles(CAUSAL))

    compiled = torch.compile(attend, fullgraph=True, backend="aot_eager")
    out = compiled(q, k, v)
    assert out.dtype == torch.float16
    torch.testing.assert_close(out, attend(q, k, v))
    out.float().sum().backward()
    assert q.grad.dtype == torch.float32


def operands(mod, q, k, v, given, flat):
    """Arguments of forward_op and of backward_op behind (dout, dlse, out, lse)."""
    head = (q, k, v, *given)
    return (*head, 0.25, k.shape[2] - q.shape[2], 0, flat)


def laid_out(layout):
    q, k, v = (x.detach() for x in inputs(2, 2, 1, 18, 20, 16, 24))
    if layout == "batch-seq-head":
        q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v))
    if layout == "expanded":
        k, v = (x.expand(2, 2, -1, -1) for x in (k, v))
    return tuple(x.requires_grad_() for x in (q, k, v))


LAYOUTS = ("contiguous", "batch-seq-head", "expanded")


@pytest.mark.parametrize(
    ("name", "layout"),
    [*(("sliding_window", layout) for layout in LAYOUTS), ("alibi", "contiguous"),
     ("document", "batch-seq-head")],
)  # fmt: skip
def test_operators_pass_the_checks_of_torch(name, layout):
    mod = module(name)
    q, k, v = laid_out(layout)
    given = {"sliding_window": (), "alibi": (None,), "document": ()}[name]
    given += tuple(tables(name, 2, 20).values())
    given += (None, None, *((7,) if name == "sliding_window" else ()))
    flat = [16, 32, 4, 1] * 4
    forward = operands(mod, q, k, v, given, flat)
    torch.library.opcheck(
        mod.forward_op, forward, test_utils=(*CHECKS, "test_aot_dispatch_dynamic")
    )
    out, lse = (x.detach() for x in mod.forward_op(*forward))
    q, k, v = (x.detach() for x in (q, k, v))
    rest = operands(mod, q, k, v, given, flat)
    for dlse, dq, dkdv in ((torch.ones_like(lse), True, True), (None, False, True),
                           (None, True, False)):  # fmt: skip
        backward = (torch.ones_like(out), dlse, out, lse, *rest, dq, dkdv)
        torch.library.opcheck(mod.backward_op, backward, test_utils=CHECKS)


def test_a_score_that_ignores_qk_passes_too():
    _, mod = written("score: (q_idx - kv_idx) * 0.1")
    for layout in LAYOUTS:
        q, k, v = laid_out(layout)
        out, lse = mod.forward_op(q, k, v, None, None, 0.25, 2, 0, [])
        q, k, v = (x.detach() for x in (q, k, v))
        saved = (out.detach(), None, out.detach(), lse.detach(), q, k, v)
        backward = (*saved, None, None, 0.25, 2, 0, [])
        torch.library.opcheck(mod.backward_op, (*backward, True, True), test_utils=CHECKS)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_meta_tensors_have_the_shapes_and_strides_of_real_ones(layout):
    q, k, v = laid_out(layout)
    real = CAUSAL.attention(q, k, v, return_lse=True, config=tiles(CAUSAL))
    meta = CAUSAL.attention(*(x.to("meta") for x in (q, k, v)), return_lse=True)
    for ours, theirs in zip(meta, real, strict=True):
        assert ours.device.type == "meta" and ours.dtype == theirs.dtype
        assert (ours.shape, ours.stride()) == (theirs.shape, theirs.stride())


def test_out_is_laid_out_as_q():
    for layout in LAYOUTS:
        q, k, v = laid_out(layout)
        out = CAUSAL.attention(q, k, v, config=tiles(CAUSAL))
        assert (out.stride(1) < out.stride(2)) == (q.stride(1) < q.stride(2))
