"""The error budget: its truth, what it allows, what it refuses."""

import math
from dataclasses import replace

import pytest
import torch
from formulas import FORMULAS

from fagen.spec.load import load_text
from fagen.verify.dense import Rounding, _window_maximum, dense
from fagen.verify.judge import judge
from fagen.verify.reference import attention_reference, bind
from fagen.verify.yardstick import QUANTITIES, budget

SEED = 20250


def problem(key="causal", shape=(2, 4, 2, 37, 45), width=16, **given):
    """A bound problem and its five float64 inputs."""
    batch, heads, kv_heads, q_len, kv_len = shape
    formula = FORMULAS[key]
    generator = torch.Generator().manual_seed(SEED)
    sizes = (
        (batch, heads, q_len, width),
        (batch, kv_heads, kv_len, width),
        (batch, kv_heads, kv_len, width),
        (batch, heads, q_len, width),
        (batch, heads, q_len),
    )
    inputs = [torch.randn(s, generator=generator, dtype=torch.float64) for s in sizes]
    tables = formula.tables(batch, heads, q_len, kv_len)
    setting = bind(
        formula.variant, inputs[0], inputs[1], parameters=formula.parameters, tensors=tables,
        **given,
    )  # fmt: skip
    return setting, inputs


def as_module_would(values, dtype):
    return {n: x.to(torch.float32 if n == "lse" else dtype) for n, x in values.items()}


@pytest.mark.parametrize("shape", [(2, 4, 2, 37, 45), (1, 3, 3, 20, 7), (1, 1, 1, 1, 1)])
@pytest.mark.parametrize("key", FORMULAS)
def test_truth_equals_autograd_through_the_reference(key, shape):
    setting, (q, k, v, grad_out, grad_lse) = problem(key, shape)
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    out, lse = attention_reference(
        setting.variant, *leaves, parameters=FORMULAS[key].parameters, tensors=setting.tensors
    )
    live = torch.where(torch.isfinite(lse), lse, 0.0)
    grads = torch.autograd.grad((out * grad_out).sum() + (live * grad_lse).sum(), leaves)
    truth = dense(setting, q, k, v, grad_out, grad_lse).values
    for name, expected in zip(QUANTITIES, (out, lse, *grads), strict=True):
        torch.testing.assert_close(truth[name], expected.detach(), rtol=1e-10, atol=1e-11)


def test_zeros_by_definition():
    """Seven queries over four keys, causal: rows 0 to 2 see nothing. With two keys too many at
    the end, nobody sees those."""
    setting, inputs = problem("causal", (1, 2, 1, 7, 4))
    zeros = dense(setting, *inputs).zeros
    assert zeros["out"][0, 0].tolist() == [True] * 3 + [False] * 4
    assert not zeros["dk"].any()
    setting, inputs = problem("causal", (1, 2, 1, 7, 4), q_offset=-5)
    assert dense(setting, *inputs).zeros["dv"][0, 0].tolist() == [False, False, True, True]


def test_boxes_change_nothing(monkeypatch):
    from fagen.verify import reference

    setting, inputs = problem("prefix_lm", (3, 4, 2, 11, 13))
    whole = dense(setting, *inputs)
    for elements in (1, 13 * 5, 13 * 11 * 3):
        monkeypatch.setattr(reference, "CHUNK_ELEMENTS", elements)
        parts = dense(setting, *inputs)
        for name in QUANTITIES:
            torch.testing.assert_close(parts.values[name], whole.values[name])
        for name, zeros in whole.zeros.items():
            assert torch.equal(parts.zeros[name], zeros)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_yardstick_is_of_the_size_of_the_roundoff(dtype):
    setting, inputs = problem()
    found = budget(setting, *inputs, dtype=dtype, seed=SEED)
    roundoff = torch.finfo(dtype).eps / 2
    for name in ("out", "dq", "dk", "dv"):
        size = float(found.truth.values[name].norm())
        assert 0.2 * roundoff < found.yardstick[name][0] / size < 3 * roundoff
        assert found.limit[name][0] < 6 * roundoff * size + 4e-6 * size


def test_limit_nears_the_factor_where_there_is_much_to_average():
    """Chance and storage fade: for 200,000 elements a limit is close to 1.25 yardsticks."""
    setting, inputs = problem("full", (1, 4, 4, 384, 384), 128)
    found = budget(setting, *inputs, dtype=torch.float16, seed=SEED)
    for name in ("out", "dk", "dv"):
        assert 1.25 <= found.limit[name][0] / found.yardstick[name][0] < 1.32


def test_the_maximum_allows_half_an_ulp_in_large_tensors():
    """-73.2436 stored as -73.5 and not -73.0, for an error of 0.12 before: seen, and no fault."""
    setting, inputs = problem("full", (1, 4, 4, 384, 384), 128)
    found = budget(setting, *inputs, dtype=torch.bfloat16, seed=SEED)
    for name in ("out", "dq", "dk", "dv"):
        largest = float(found.truth.values[name].abs().max())
        half_an_ulp = 2.0 ** (math.floor(math.log2(largest)) - 8)
        assert found.limit[name][1] >= 1.25 * found.yardstick[name][1] + half_an_ulp


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_the_truth_rounded_once_passes(dtype):
    setting, inputs = problem("gemma2_local", (2, 4, 2, 50, 45))
    found = budget(setting, *inputs, dtype=dtype, seed=SEED)
    measures, message = judge(as_module_would(found.truth.values, dtype), found)
    assert message == ""
    assert len(measures) == 10


def float32_attention(setting, inputs):
    """Dense attention in float32 throughout, differentiated by autograd."""
    q, k, v, grad_out, grad_lse = (x.float() for x in inputs)
    q, k, v = (x.requires_grad_() for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    scores = setting.scale * q @ k.repeat_interleave(group, 1).mT
    out = torch.softmax(scores, -1) @ v.repeat_interleave(group, 1)
    lse = torch.logsumexp(scores, -1)
    grads = torch.autograd.grad([out, lse], (q, k, v), [grad_out, grad_lse])
    values = (out.detach(), lse.detach(), *grads)
    return dict(zip(QUANTITIES, values, strict=True))


@pytest.mark.parametrize(
    "shape", [(1, 1, 1, 1, 1), (1, 1, 1, 3, 1), (2, 4, 2, 37, 45), (1, 1, 1, 40, 2000)]
)
@pytest.mark.parametrize("size", [1e-3, 1.0, 30.0])
def test_plain_float32_passes(shape, size):
    """One key (every dS is a difference of equals), many keys, tiny and huge scores."""
    setting, inputs = problem("full", shape)
    inputs[0] = inputs[0] * size
    found = budget(setting, *inputs, dtype=torch.float32, seed=SEED)
    assert judge(float32_attention(setting, inputs), found)[1] == ""


def test_tf32_products_fail_in_float32():
    """A factor of 2**13 in the inputs' precision is no rounding error of float32."""
    setting, inputs = problem("full")
    found = budget(setting, *inputs, dtype=torch.float32, seed=SEED)
    coarse = float32_attention(setting, [x.bfloat16().double() for x in inputs])
    message = judge(coarse, found)[1]
    assert all(f"{name}: frobenius error" in message for name in QUANTITIES)


@pytest.mark.parametrize("name", QUANTITIES)
def test_a_deviation_above_the_budget_fails_and_is_named(name):
    setting, inputs = problem()
    found = budget(setting, *inputs, dtype=torch.float16, seed=SEED)
    values = as_module_would(found.truth.values, torch.float16)
    values[name] = values[name] * 1.01
    message = judge(values, found)[1]
    assert message.startswith(f"{name}: frobenius error")
    assert message.count("error") == 1


def test_a_single_wrong_element_fails_in_the_maximum():
    setting, inputs = problem("full", (1, 4, 4, 128, 128), 64)
    found = budget(setting, *inputs, dtype=torch.bfloat16, seed=SEED)
    values = as_module_would(found.truth.values, torch.bfloat16)
    values["out"][0, 2, 100, 5] += 0.05
    assert "out: maximum error" in judge(values, found)[1]
    assert "(0, 2, 100, 5)" in judge(values, found)[1]


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", QUANTITIES)
def test_nan_and_infinity_never_pass(name, poison):
    setting, inputs = problem()
    found = budget(setting, *inputs, dtype=torch.float32, seed=SEED)
    values = as_module_would(found.truth.values, torch.float32)
    values[name][1, 1, 3] = poison
    assert judge(values, found)[1].startswith(f"{name}: ")


def test_infinity_must_be_where_the_truth_has_it():
    setting, inputs = problem("causal", (1, 1, 1, 6, 3))
    found = budget(setting, *inputs, dtype=torch.float32, seed=SEED)
    good = as_module_would(found.truth.values, torch.float32)
    assert judge(good, found)[1] == ""
    for wrong in (0.0, math.inf, math.nan, -1e30):
        values = {**good, "lse": good["lse"].masked_fill(good["lse"] == -math.inf, wrong)}
        assert judge(values, found)[1].startswith("lse: ")


def test_almost_zero_is_not_zero():
    setting, inputs = problem("causal", (1, 1, 1, 6, 3))
    found = budget(setting, *inputs, dtype=torch.float32, seed=SEED)
    for name in ("out", "dq"):
        values = as_module_would(found.truth.values, torch.float32)
        values[name][0, 0, 1, 2] = 1e-30
        assert f"{name}: 1 elements without any live pair are not 0" in judge(values, found)[1]


def test_form_is_checked():
    setting, inputs = problem()
    found = budget(setting, *inputs, dtype=torch.float16, seed=SEED)
    good = as_module_would(found.truth.values, torch.float16)
    assert "dtype" in judge({**good, "out": good["out"].float()}, found)[1]
    assert "dtype" in judge({**good, "lse": good["lse"].half()}, found)[1]
    assert "shape" in judge({**good, "lse": good["lse"].unsqueeze(-1)}, found)[1]
    assert "not a tensor" in judge({**good, "dk": None}, found)[1]


def test_noise_disturbs_by_float32_roundings_only():
    generator = torch.Generator().manual_seed(SEED)
    rounding = Rounding(torch.float32, generator)
    x = torch.tensor([1.0, -1e6, math.inf, math.nan], dtype=torch.float64)
    noisy = rounding.noise(x, x.abs)
    assert 0 < abs(noisy[0] - 1) <= 4 * 2**-24
    assert 0 < abs(noisy[1] + 1e6) <= 4e6 * 2**-24
    assert noisy[2] == math.inf and math.isnan(noisy[3])
    assert torch.equal(replace(rounding, generator=None).noise(x[:2], x.abs), x[:2])


@pytest.mark.parametrize("axis", [2, 3])
@pytest.mark.parametrize("reach", [1, 2, 3, 5, 8, 100])
def test_window_maximum(axis, reach):
    x = torch.rand(2, 1, 11, 9, generator=torch.Generator().manual_seed(SEED)).double()
    found = _window_maximum(x, axis, reach)
    for i in range(x.shape[axis]):
        around = slice(max(0, i - reach + 1), i + reach)
        near = x.transpose(0, axis)[around].amax(0)
        assert torch.equal(found.transpose(0, axis)[i], near)


def test_a_bias_relative_to_a_tile_passes_for_that_tile_only():
    """Steep ALiBi in float32, the bias measured from a point 300 keys away and returned in lse."""
    setting, inputs = problem("alibi", (1, 4, 4, 330, 330))
    steep = dict(setting.tensors, slopes=torch.tensor([4.0, 2.0, 3.0, 1.0]))
    setting = replace(setting, tensors=steep)
    q, k, v, grad_out, grad_lse = (x.float() for x in inputs)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    slopes, row, key = steep["slopes"][:, None, None], torch.arange(330)[:, None], torch.arange(330)
    scores = setting.scale * q @ k.mT + slopes * (key - 300)
    scores = scores.masked_fill(key > row, -math.inf)
    lse = torch.logsumexp(scores, -1)
    out = torch.exp(scores - lse[..., None]) @ v
    lse = lse - (slopes * (row - 300))[..., 0]
    grads = torch.autograd.grad([out, lse], leaves, [grad_out, grad_lse])
    found = dict(zip(QUANTITIES, (out.detach(), lse.detach(), *grads), strict=True))
    for tile, passes in ((301, True), (1, False)):
        allowed = budget(setting, *inputs, dtype=torch.float32, seed=SEED, tile=tile)
        assert (judge(found, allowed)[1] == "") == passes


@pytest.mark.parametrize("score", ["tanh(score * 8)", "sigmoid(score * 15.4)"])
def test_a_derivative_that_float32_rounds_to_zero_passes(score):
    """Of 1 - tanh(18)**2 float64 keeps 1e-15 where float32 has nothing left."""
    variant = load_text(f"name: saturated\nscore: {score}\n")
    q = torch.full((1, 1, 1, 16), 1.5, dtype=torch.float64)
    inputs = (q, q / 4, q, q, q[..., 0])
    setting = bind(variant, q, inputs[1])
    allowed = budget(setting, *inputs, torch.float32, SEED)
    exact = allowed.truth.values
    assert 0 < exact["dq"].abs().max() < 1e-13
    lost = {n: x if n in ("out", "lse", "dv") else x * 0 for n, x in exact.items()}
    assert judge(as_module_would(lost, torch.float32), allowed)[1] == ""
