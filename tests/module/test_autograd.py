"""What autograd, autocast and checkpointing may expect of a generated module."""

from __future__ import annotations

import pytest
import torch
from generated import TOLERANCE, assert_close, check, inputs, module, shipped, tiles, truth
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

CAUSAL, WINDOW = module("causal"), module("sliding_window")


def draw(dtype=torch.float32, q_len=35, kv_len=35):
    return inputs(1, 2, 1, q_len, kv_len, 16, 16, dtype)


@pytest.mark.parametrize("loss", ["out", "lse", "both"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["float32", "float16"])
def test_a_loss_through_either_output(loss, dtype):
    # Rows 0 ... 9 have no key.
    q, k, v = draw(dtype, q_len=40, kv_len=30)
    found = check(shipped("causal"), CAUSAL, q, k, v, config=tiles(CAUSAL), loss=loss)
    assert (found["dq"][:, :, :10] == 0).all()
    if loss == "lse":
        assert (found["dv"] == 0).all()


def test_a_loss_through_the_lse_of_softcapped_scores():
    variant, mod = shipped("softcap"), module("softcap")
    check(variant, mod, *draw(), config=tiles(mod), loss="lse", cap=1.25)


@pytest.mark.parametrize("wanted", ["q", "k", "v", "qk", "kv", "qv"])
def test_only_what_is_wanted_is_computed(wanted, monkeypatch):
    full = truth(shipped("causal"), *draw(), loss="out")
    q, k, v = (
        x.detach().requires_grad_(name in wanted)
        for name, x in zip("qkv", draw(), strict=True)
    )  # fmt: skip
    launched = []
    for role in ("prep", "dkdv", "dq"):
        kernel = getattr(CAUSAL, f"{role}_kernel")
        monkeypatch.setattr(CAUSAL, f"{role}_kernel", Noting(kernel, role, launched))
    out = CAUSAL.attention(q, k, v, config=tiles(CAUSAL))
    generator = torch.Generator().manual_seed(1)
    out.backward(torch.randn(out.shape, generator=generator))
    expected = ["prep"] + ["dkdv"] * bool({*wanted} & {*"kv"}) + ["dq"] * ("q" in wanted)
    assert launched == expected
    for name, x in (("q", q), ("k", k), ("v", v)):
        assert (x.grad is not None) == (name in wanted)
        if x.grad is not None:
            assert_close({f"d{name}": x.grad}, full, 2e-5)


class Noting:
    """A kernel that notes its launches."""

    def __init__(self, kernel, role, launched):
        self.kernel, self.role, self.launched = kernel, role, launched

    def __getitem__(self, grid):
        self.launched.append(self.role)
        return self.kernel[grid]


def test_no_graph_without_gradients():
    q, k, v = draw()
    with torch.no_grad():
        out, lse = CAUSAL.attention(q, k, v, return_lse=True, config=tiles(CAUSAL))
    assert out.grad_fn is None and lse.grad_fn is None
    assert not CAUSAL.attention(*(x.detach() for x in (q, k, v))).requires_grad


def test_inference_mode_leaves_nothing_behind():
    alibi = module("alibi")
    q, k, v = draw()
    with torch.inference_mode():
        alibi.attention(q, k, v, config=tiles(alibi))
        alibi.reference(q, k, v)
    check(shipped("alibi"), alibi, q, k, v, config=tiles(alibi))
    alibi.reference(q, k, v).sum().backward()


def test_the_second_derivative_is_refused():
    q, k, v = draw()
    out = CAUSAL.attention(q, k, v, config=tiles(CAUSAL))
    (dq,) = torch.autograd.grad(out.square().sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match=r"second derivatives .* use reference\(\)"):
        dq.sum().backward()


def test_a_changed_input_is_noticed():
    q, k, v = draw()
    out = CAUSAL.attention(q, k, v, config=tiles(CAUSAL))
    with torch.no_grad():
        k.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_inputs_are_left_alone():
    q, k, v = draw()
    before = [x.detach().clone() for x in (q, k, v)]
    CAUSAL.attention(q, k, v, config=tiles(CAUSAL)).sum().backward()
    assert all(torch.equal(x, y) for x, y in zip((q, k, v), before, strict=True))


def test_one_tensor_as_query_key_and_value():
    x = torch.randn(1, 1, 35, 16, generator=torch.Generator().manual_seed(3))
    x.requires_grad_()
    CAUSAL.attention(x, x, x, config=tiles(CAUSAL)).square().sum().backward()
    y = x.detach().double().requires_grad_()
    CAUSAL.reference(y, y, y).square().sum().backward()
    assert_close({"dq": x.grad}, {"dq": y.grad}, 2e-5)


def test_autocast_to_what_the_interpreter_cannot_compute_is_refused():
    q, k, v = draw()
    with (
        torch.autocast("cpu", dtype=torch.bfloat16),
        pytest.raises(TypeError, match="float16 or float32 in Triton's interpreter"),
    ):
        CAUSAL.attention(q, k, v, config=tiles(CAUSAL))


def test_autocast_as_scaled_dot_product_attention():
    q, k, v = draw()
    dtype = torch.float16
    with torch.autocast("cpu", dtype=dtype):
        theirs = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        ours, lse = CAUSAL.attention(q, k, v, return_lse=True, config=tiles(CAUSAL))
    assert ours.dtype == theirs.dtype == dtype and lse.dtype == torch.float32
    ours.sum().backward()
    assert q.grad.dtype == k.grad.dtype == v.grad.dtype == torch.float32
    full = truth(shipped("causal"), q, k, v, loss="out")
    assert_close({"out": ours}, full, TOLERANCE[dtype])
    q, k, v = draw()
    with torch.autocast("cpu", dtype=dtype):
        check_in = CAUSAL.attention(q, k, v, config=tiles(CAUSAL))
    generator = torch.Generator().manual_seed(1)
    check_in.backward(torch.randn(check_in.shape, generator=generator).to(dtype))
    grads = {"dq": q.grad, "dk": k.grad, "dv": v.grad}
    assert_close(grads, full, TOLERANCE[dtype])


def test_autocast_joins_mixed_dtypes():
    q, k, v = draw()
    with torch.autocast("cpu", dtype=torch.float16):
        out = CAUSAL.attention(q.half(), k, v.half(), config=tiles(CAUSAL))
    assert out.dtype == torch.float16
    with pytest.raises(TypeError, match="k must have the dtype of q"):
        CAUSAL.attention(q.half(), k, v.half(), config=tiles(CAUSAL))


def test_autocast_leaves_float64_alone():
    q, k, v = (x.double() for x in draw())
    with (
        torch.autocast("cpu", dtype=torch.float16),
        pytest.raises(TypeError, match=r"float16, bfloat16 or float32, got torch\.float64"),
    ):
        CAUSAL.attention(q, k, v)


@pytest.mark.parametrize("reentrant", [False, True])
def test_activation_checkpointing_changes_nothing(reentrant):
    def block(q, k, v):
        out, lse = WINDOW.attention(q, k, v, window=9, return_lse=True, config=tiles(WINDOW))
        return out * lse[..., None]

    def gradients(run):
        q, k, v = draw()
        run(q, k, v).square().sum().backward()
        return q.grad, k.grad, v.grad

    plain = gradients(block)
    again = gradients(lambda *x: checkpoint(block, *x, use_reentrant=reentrant))
    # NumPy's products, and so the interpreter's, depend on the alignment of memory.
    torch.testing.assert_close(again, plain, rtol=1e-5, atol=1e-6)


def test_a_hook_sees_the_gradient_of_each_input():
    q, k, v = draw()
    seen = []
    for name, x in (("q", q), ("k", k), ("v", v)):
        x.register_hook(lambda g, name=name: seen.append((name, tuple(g.shape))))
    CAUSAL.attention(q, k, v, config=tiles(CAUSAL)).sum().backward()
    assert sorted(seen) == [(n, tuple(x.shape)) for n, x in (("k", k), ("q", q), ("v", v))]
