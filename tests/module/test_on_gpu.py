"""Generated modules run natively: `pytest -m gpu tests/module`, faster with `-n 8`."""

from __future__ import annotations

import itertools

import pytest
import torch
from binaries import binaries
from generated import (
    SHIPPED,
    TOLERANCE,
    assert_close,
    check,
    import_source,
    inputs,
    module,
    shipped,
    tables,
    tiles,
    truth,
    with_gradients,
    written,
)
from small_model import Model, gradients
from test_varlen import check as check_packed
from test_varlen import given
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

from fagen.codegen.render import render

pytestmark = pytest.mark.gpu
COPIES = itertools.count()
HALF = torch.bfloat16
#: Limits well inside the lengths.
PARAMETERS = {
    "sliding_window": {"window": 300},
    "gemma2_local": {"window": 300, "cap": 5.0},
    "sinks_window": {"window": 200, "n_sink": 5},
    "softcap": {"cap": 5.0},
}


def on_gpu(batch, heads, kv_heads, q_len, kv_len, head_dim, head_dim_v=None, dtype=HALF):
    return inputs(batch, heads, kv_heads, q_len, kv_len, head_dim, head_dim_v, dtype, "cuda")


def keywords_of(name, batch, kv_len):
    return {**PARAMETERS.get(name, {}), **tables(name, batch, kv_len, "cuda")}


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_variants_in_bfloat16(name):
    """Every length shares the binaries that the first has made."""
    mod = import_source(render(shipped(name)), f"counted_{name}_{next(COPIES)}")
    for batch, heads, kv_heads, q_len, kv_len in (
        (2, 8, 2, 1000, 1000), (1, 4, 4, 1024, 1024), (1, 3, 1, 1023, 77), (3, 2, 1, 1, 1025),
        (1, 2, 2, 130, 3001),
    ):  # fmt: skip
        q, k, v = on_gpu(batch, heads, kv_heads, q_len, kv_len, 128)
        check(shipped(name), mod, q, k, v, **keywords_of(name, batch, kv_len))
    found = binaries(mod)
    # Forward and dQ each launch the walk of queries with their own config.
    assert found.pop("query_walk_kernel", 2) == 2
    assert set(found.values()) == {1}


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=["float16", "float32"])
@pytest.mark.parametrize("name", ["full", "sliding_window", "document", "gemma2_local"])
def test_other_dtypes(name, dtype):
    for q_len, kv_len in ((1000, 1000), (1024, 515)):
        q, k, v = on_gpu(1, 4, 2, q_len, kv_len, 64, dtype=dtype)
        check(shipped(name), module(name), q, k, v, **keywords_of(name, 1, kv_len))


@pytest.mark.parametrize(
    ("head_dim", "head_dim_v"),
    [(16, 16), (40, 40), (80, 80), (96, 96), (120, 120), (160, 160), (256, 256), (192, 128),
     (64, 128), (128, 64), (3, 5)],
)  # fmt: skip
def test_head_widths(head_dim, head_dim_v):
    q, k, v = on_gpu(1, 4, 2, 515, 700, head_dim, head_dim_v)
    check(shipped("causal"), module("causal"), q, k, v)


@pytest.mark.parametrize(
    ("head_dim", "head_dim_v"), [(64, 16), (16, 16), (80, 80), (64, 64), (128, 128), (128, 32)]
)
def test_loops_without_a_pipeline(head_dim, head_dim_v):
    mod = module("causal")
    for block_m, block_n, warps in ((64, 64, 4), (128, 64, 8), (64, 32, 4)):
        q, k, v = on_gpu(1, 4, 2, 282, 300, head_dim, head_dim_v)
        config = dict.fromkeys(mod.ROLES, mod.Config(block_m, block_n, warps, 1))
        check(shipped("causal"), mod, q, k, v, config=config)


def test_a_table_read_through_a_table():
    """Loads that wait for loads, which the pipeline leaves where they are."""
    variant, mod = written(
        "tensors:\n"
        "  seen: {shape: [total_kv], dtype: int64}\n"
        "  key: {shape: [5], dtype: bfloat16}\n"
        "mask: kv_idx <= q_idx + 15\nscore: score + key[seen[kv_token]]"
    )
    for head_dim, head_dim_v in ((80, 16), (64, 64), (128, 128)):
        q, k, v = on_gpu(1, 4, 2, 282, 282, head_dim, head_dim_v)
        seen = torch.arange(282, device="cuda") * 7 % 6 - 1
        check(variant, mod, q, k, v, seen=seen, key=torch.randn(5, device="cuda").to(HALF))


def test_a_score_by_distance():
    variant, mod = shipped("t5_bias"), import_source(render(shipped("t5_bias")), "gpu_t5_bias")
    q, k, v = on_gpu(2, 4, 4, 515, 700, 64)
    bias = torch.randn(4, 32, generator=torch.Generator().manual_seed(0)).cuda()
    check(variant, mod, q, k, v, bias=bias, scale=0.125)


@pytest.mark.parametrize("name", ["full", "causal", "sliding_window", "alibi", "document"])
@pytest.mark.parametrize("head_dim", [64, 128])
def test_packed_sequences(name, head_dim):
    lengths = ((517, 0, 1000, 1, 64, 0), (517, 64, 1027, 333, 64, 5))
    made = {n: t.cuda() for n, t in given(name, lengths).items()}
    parameters = {"window": 200} if name == "sliding_window" else {}
    check_packed(
        shipped(name), module(name), lengths, heads=4, kv_heads=2, head_dim=head_dim, dtype=HALF,
        tables=made, parameters=parameters, config={}, device="cuda",
    )  # fmt: skip


@pytest.mark.parametrize("head_dim", [128, 256])
def test_wide_heads_in_float32(head_dim):
    q, k, v = on_gpu(1, 2, 1, 300, 515, head_dim, dtype=torch.float32)
    check(shipped("causal"), module("causal"), q, k, v)


def test_parameters_share_a_binary():
    mod = import_source(render(shipped("gemma2_local")), f"counted_values_{next(COPIES)}")
    for window, cap, scale in ((1, 5.0, 1.0), (16, 16, 0.125), (17, 0.5, 3 / 8), (4096, 50.0, 1)):
        q, k, v = on_gpu(1, 2, 1, 400, 400, 64)
        check(
            shipped("gemma2_local"), mod, q, k, v, window=window, cap=cap, scale=scale,
            q_offset=window - 5, kv_offset=3,
        )  # fmt: skip
    assert set(binaries(mod).values()) == {1}
    q, k, v = on_gpu(1, 2, 1, 400, 400, 64, dtype=torch.float16)
    check(shipped("gemma2_local"), mod, q, k, v, window=16, cap=5.0)
    assert max(binaries(mod).values()) == 2


def leaf(x):
    return x.detach().requires_grad_()


def test_views():
    """Sliced, transposed, expanded, padded and unaligned; NaN wherever nothing may be read."""
    variant, mod = shipped("causal"), module("causal")
    q, k, v = on_gpu(2, 4, 2, 300, 400, 64)
    check(variant, mod, *(leaf(x.transpose(1, 2).contiguous().transpose(1, 2)) for x in (q, k, v)))
    whole = k.new_full((2, 2, 528, 64), torch.nan)
    whole[:, :, :400] = k.detach()
    check(variant, mod, q, leaf(whole[:, :, :-128]), v)
    check(variant, mod, q, *(leaf(x[:, :1].expand(2, 2, -1, -1)) for x in (k, v)))
    for columns, first in ((8, 0), (3, 0), (0, 1), (16, 3)):
        given = []
        for x in (q, k, v):
            *outer, length, width = x.shape
            rows = x.new_full((*outer, length + 2, width + columns), torch.nan)
            flat = torch.cat([x.new_full((first,), torch.nan), rows.flatten()])
            view = flat[first:].view(rows.shape)[..., :length, :width]
            view.copy_(x.detach())
            given.append(leaf(view))
        check(variant, mod, *given)


@pytest.mark.parametrize("layout", ["heads outer", "rows outer"])
def test_offsets_past_2_to_the_31_elements(layout):
    heads, kv_len = 700, 24000
    mod = module("causal")
    generator = torch.Generator("cuda").manual_seed(0)

    def draw(length):
        shape = (1, heads, length, 128) if layout == "heads outer" else (1, length, heads, 128)
        x = torch.randn(shape, generator=generator, device="cuda", dtype=HALF)
        return (x if layout == "heads outer" else x.transpose(1, 2)).requires_grad_()

    q, k, v = draw(16), draw(kv_len), draw(kv_len)
    assert k.numel() > 2**31
    out, lse = mod.attention(q, k, v, return_lse=True)
    generator = torch.Generator().manual_seed(1)
    last = slice(heads - 2, heads)
    dout, dlse = torch.zeros_like(out), torch.zeros_like(lse)
    dout[:, last] = torch.randn(1, 2, 16, 128, generator=generator).to("cuda", HALF)
    dlse[:, last] = torch.randn(1, 2, 16, generator=generator).cuda()
    grads = torch.autograd.grad([out, lse], [q, k, v], [dout, dlse])
    parts = (x.detach()[:, last] for x in (out, lse, *grads))
    found = dict(zip(("out", "lse", "dq", "dk", "dv"), parts, strict=True))
    want = truth(shipped("causal"), *(x.detach()[:, last] for x in (q, k, v)))
    assert_close(found, want, TOLERANCE[HALF])


def test_a_table_past_2_to_the_31_elements():
    variant, mod = written(
        "tensors: {bias: {shape: [batch, heads, q_len, kv_len], dtype: float32}}\n"
        "score: score + bias[b, h, q_row, kv_idx]"
    )
    memory = torch.empty(2**31 + 2**20 + 2 * 300 * 433, device="cuda")
    bias = memory.as_strided((2, 1, 300, 433), (2**31 + 2**20, 300 * 433, 433, 1))
    bias.copy_(torch.randn(2, 1, 300, 433, generator=torch.Generator().manual_seed(3)))
    check(variant, mod, *on_gpu(2, 1, 1, 300, 433, 64), bias=bias)


def test_nothing_to_do():
    for name in ("causal", "document"):
        for batch, q_len, kv_len in ((0, 20, 20), (1, 0, 20), (1, 20, 0)):
            q, k, v = on_gpu(batch, 4, 2, q_len, kv_len, 64)
            check(shipped(name), module(name), q, k, v, **tables(name, batch, kv_len, "cuda"))


def test_the_backward_is_the_same_bits_twice():
    q, k, v = on_gpu(2, 8, 2, 1000, 1000, 128)

    def attend(q, k, v):
        return module("causal").attention(q, k, v, return_lse=True, deterministic=True)

    first, again = with_gradients(attend, q, k, v), with_gradients(attend, q, k, v)
    assert all(torch.equal(x, again[name]) for name, x in first.items())


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_a_compiled_model_equals_eager(mode):
    torch.manual_seed(0)
    torch.compiler.reset()
    model = Model(64).cuda()
    compiled = torch.compile(model, fullgraph=True, mode=mode)
    for _ in range(3):  # with CUDA graphs, the third is a replay
        x = torch.randn(2, 200, 128, device="cuda")
        found, want = gradients(model, compiled, x), gradients(model, model, x)
        for ours, theirs in zip(found, want, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


def test_a_compiled_model_under_autocast_equals_eager():
    torch.manual_seed(0)
    torch.compiler.reset()
    model, x = Model(64).cuda(), torch.randn(2, 200, 128, device="cuda")

    def run(x):
        with torch.autocast("cuda", dtype=HALF):
            return model(x)

    found = gradients(model, torch.compile(run, fullgraph=True), x)
    for ours, theirs in zip(found, gradients(model, run, x), strict=True):
        error = (ours.float() - theirs.float()).norm() / theirs.float().norm()
        assert error < 5e-2


@pytest.mark.parametrize("name", ["causal", "alibi", "document"])
def test_a_cuda_graph_replays_forward_and_backward(name):
    mod = module(name)
    given = tables(name, 1, 500, "cuda")
    q, k, v = on_gpu(1, 4, 2, 500, 500, 64)

    def step():
        out, lse = mod.attention(q, k, v, return_lse=True, **given)
        loss = out.float().square().sum() + lse.sum()
        return [out, lse, *torch.autograd.grad(loss, (q, k, v))]

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    for seed in (5, 6):
        fresh = inputs(1, 4, 2, 500, 500, 64, None, HALF, "cuda", seed)
        with torch.no_grad():
            for x, y in zip((q, k, v), fresh, strict=True):
                x.copy_(y)
        graph.replay()
        replayed = [x.detach().clone() for x in captured]
        for ours, theirs in zip(replayed, step(), strict=True):
            assert torch.equal(ours, theirs.detach())


def test_a_table_made_during_capture_is_not_kept():
    mod = import_source(render(shipped("alibi")), f"captured_alibi_{next(COPIES)}")
    q, k, v = (x.detach() for x in on_gpu(1, 4, 2, 300, 300, 64))
    slopes = torch.exp2(-8 * torch.arange(1, 5, device="cuda") / 4)
    want = mod.attention(q, k, v, slopes=slopes)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = mod.attention(q, k, v)
    assert torch.equal(mod.attention(q, k, v), want)
    graph.replay()
    assert torch.equal(captured, want)
    del graph, captured
    assert torch.equal(mod.attention(q, k, v), want)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
def test_autocast_as_scaled_dot_product_attention(dtype):
    q, k, v = on_gpu(1, 4, 4, 500, 500, 64, dtype=torch.float32)
    with torch.autocast("cuda", dtype=dtype):
        theirs = scaled_dot_product_attention(q, k, v, is_causal=True)
        ours = module("causal").attention(q, k, v)
    assert ours.dtype == theirs.dtype == dtype
    wants = torch.autograd.grad(theirs.float().square().sum(), (q, k, v))
    founds = torch.autograd.grad(ours.float().square().sum(), (q, k, v))
    for found, want in zip(founds, wants, strict=True):
        assert found.dtype == want.dtype == torch.float32
        assert (found - want).norm() < 3e-2 * want.norm()


@pytest.mark.parametrize("reentrant", [False, True])
def test_activation_checkpointing_changes_no_bit(reentrant):
    mod = module("sliding_window")

    def block(q, k, v):
        out, lse = mod.attention(q, k, v, window=100, return_lse=True)
        return out * lse[..., None].to(out.dtype)

    def grads(run):
        q, k, v = on_gpu(1, 4, 2, 500, 500, 64)
        run(q, k, v).float().square().sum().backward()
        return q.grad, k.grad, v.grad

    plain, again = grads(block), grads(lambda *x: checkpoint(block, *x, use_reentrant=reentrant))
    assert all(torch.equal(a, b) for a, b in zip(plain, again, strict=True))


def test_another_stream():
    mod = import_source(render(shipped("alibi")), f"streamed_alibi_{next(COPIES)}")
    q, k, v = (x.detach() for x in on_gpu(1, 4, 2, 300, 300, 64))
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        first = mod.attention(q, k, v)
    second = mod.attention(q, k, v)
    torch.cuda.synchronize()
    assert torch.equal(first, second)


def test_operators_pass_the_checks_of_torch():
    mod = module("causal")
    q, k, v = on_gpu(1, 2, 1, 100, 120, 64, dtype=torch.float16)
    operands = (q, k, v, None, None, 0.125, 20, 0, [])
    torch.library.opcheck(mod.forward_op, operands)
    out, lse = (x.detach() for x in mod.forward_op(*operands))
    rest = (*(x.detach() for x in (q, k, v)), None, None, 0.125, 20, 0, [], True, True)
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    backward = (torch.ones_like(out), torch.ones_like(lse), out, lse, *rest)
    torch.library.opcheck(mod.backward_op, backward, test_utils=checks)


def test_meta_tensors_on_a_machine_with_a_gpu():
    q, k, v = (x.to("meta") for x in inputs(1, 2, 1, 100, 120, 64, 32))
    out, lse = module("causal").attention(q, k, v, return_lse=True)
    assert out.shape == (1, 2, 100, 32) and lse.shape == (1, 2, 100) and out.is_meta


def test_mixed_devices_are_refused():
    q, k, v = on_gpu(1, 2, 1, 100, 120, 64)
    with pytest.raises(ValueError, match="k must be on the device of q, cuda:0, got cpu"):
        module("causal").attention(q, k.cpu(), v)
    with pytest.raises(ValueError, match="doc must be on the device of q, cuda:0, got cpu"):
        module("document").attention(q, k, v, doc=torch.zeros(1, 120, dtype=torch.int32))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_tensors_of_a_device_that_is_not_the_current_one():
    q, k, v = (leaf(x.to("cuda:1")) for x in inputs(1, 2, 1, 300, 300, 64, None, HALF))
    for name in ("causal", "alibi"):
        check(shipped(name), module(name), q, k, v)


def test_small_tiles_of_another_shape():
    mod = module("document")
    q, k, v = on_gpu(1, 4, 2, 300, 400, 64)
    for blocks in ((16, 64), (64, 16)):
        given = tables("document", 1, 400, "cuda")
        check(shipped("document"), mod, q, k, v, config=tiles(mod, *blocks), **given)
