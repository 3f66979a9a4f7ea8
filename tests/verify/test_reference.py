"""The float64 reference against formulas written by hand and against PyTorch's own attention."""

import math

import pytest
import torch
from formulas import CAUSAL, FORMULAS, KV, H, Q, by_hand

from fagen.spec.expr import const, make, read
from fagen.spec.load import find_variant, load_variant
from fagen.spec.variant import SCORE, Tensor, Variant
from fagen.verify import reference
from fagen.verify.reference import attention_reference

SHAPES = {
    "square": (2, 4, 2, 33, 33),
    "more keys": (2, 2, 2, 9, 31),
    "more queries": (1, 6, 3, 29, 12),
    "one by one": (1, 1, 1, 1, 1),
    "no keys": (1, 2, 1, 4, 0),
    "no queries": (2, 2, 1, 0, 7),
    "no batch": (0, 2, 1, 5, 7),
}


def tensors(batch, heads, kv_heads, q_len, kv_len, head_dim=8, head_dim_v=12, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randn(s, generator=generator, dtype=torch.float64, requires_grad=True)
        for s in (
            (batch, heads, q_len, head_dim),
            (batch, kv_heads, kv_len, head_dim),
            (batch, kv_heads, kv_len, head_dim_v),
        )
    )


def agree(found, expected):
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("key", FORMULAS)
def test_formula(key, shape):
    formula = FORMULAS[key]
    batch, heads, _, q_len, kv_len = SHAPES[shape]
    q, k, v = tensors(*SHAPES[shape])
    tables = formula.tables(batch, heads, q_len, kv_len)
    found = attention_reference(
        formula.variant, q, k, v, parameters=formula.parameters, tensors=tables
    )
    expected = by_hand(formula, q, k, v, tables, formula.parameters)
    agree(found, expected)
    weights = torch.randn_like(found[0])
    agree(
        torch.autograd.grad((found[0] * weights).sum(), (q, k, v)),
        torch.autograd.grad((expected[0] * weights).sum(), (q, k, v)),
    )


@pytest.mark.parametrize("key", FORMULAS)
def test_shipped_file(key):
    """The YAML file means what the formula says, offsets included."""
    formula = FORMULAS[key]
    variant = load_variant(find_variant(key))
    q, k, v = tensors(2, 4, 2, 21, 26)
    tables = formula.tables(2, 4, 21, 26)
    for offsets in ({}, {"q_offset": 3, "kv_offset": 2}, {"q_offset": -4}):
        found = attention_reference(
            variant, q, k, v, parameters=formula.parameters, tensors=tables, **offsets
        )
        agree(found, by_hand(formula, q, k, v, tables, formula.parameters, **offsets))


def test_default_table():
    formula = FORMULAS["alibi"]
    q, k, v = tensors(1, 4, 2, 9, 9)
    agree(
        attention_reference(formula.variant, q, k, v),
        by_hand(formula, q, k, v, formula.tables(1, 4, 9, 9), {}),
    )


def test_sdpa():
    q, k, v = tensors(2, 4, 4, 17, 17, 16, 16)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    out, _ = attention_reference(FORMULAS["causal"].variant, q, k, v)
    torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-12)
    grad = torch.randn_like(out)
    agree(torch.autograd.grad(out, (q, k, v), grad), torch.autograd.grad(expected, (q, k, v), grad))


@pytest.mark.filterwarnings("ignore")
def test_flex_attention():
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    q, k, v = (x.detach().float() for x in tensors(1, 2, 2, 40, 40, 16, 16))
    slopes = torch.tensor([0.5, 0.125])
    mask = create_block_mask(
        lambda b, h, q_idx, kv_idx: kv_idx <= q_idx, None, None, 40, 40, device="cpu"
    )
    expected, lse = flex_attention(
        q, k, v, score_mod=lambda s, b, h, q_idx, kv_idx: s - slopes[h] * (q_idx - kv_idx),
        block_mask=mask, return_lse=True,
    )  # fmt: skip
    found = attention_reference(FORMULAS["alibi"].variant, q, k, v, tensors={"slopes": slopes})
    torch.testing.assert_close(found[0].float(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found[1].float(), lse, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("key", ["alibi", "gemma2_local", "prefix_lm"])
def test_gradcheck(key):
    """Both outputs; rows without keys, whose lse is -inf, stay out of the numeric difference."""
    formula = FORMULAS[key]
    q, k, v = tensors(1, 2, 1, 4, 5, 3, 2)
    tables = formula.tables(1, 2, 4, 5)

    def run(q, k, v):
        return attention_reference(
            formula.variant, q, k, v, parameters=formula.parameters, tensors=tables
        )

    assert torch.autograd.gradcheck(run, (q, k, v))


def test_rows_without_keys_pass_no_gradient():
    q, k, v = tensors(1, 2, 1, 7, 4)
    out, lse = attention_reference(FORMULAS["causal"].variant, q, k, v)
    assert (out[:, :, :3] == 0).all()
    assert (lse[:, :, :3] == -math.inf).all()
    assert torch.isfinite(lse[:, :, 3:]).all()
    (out.sum() + (lse * torch.randn_like(lse)).sum()).backward()
    assert (q.grad[:, :, :3] == 0).all()
    assert all(torch.isfinite(x.grad).all() for x in (q, k, v))


def test_sink_belongs_to_the_denominator_once():
    sink = read("sinks", (H,), "float")
    variant = Variant(
        "sink", tensors=(Tensor("sinks", ("heads",), "float32"),), mask=CAUSAL, sink=sink
    )
    q, k, v = tensors(1, 2, 2, 6, 4)
    logits = torch.tensor([0.3, -1.5])
    out, lse = attention_reference(variant, q, k, v, tensors={"sinks": logits})
    plain_out, plain_lse = attention_reference(FORMULAS["causal"].variant, q, k, v)
    expected = torch.logaddexp(plain_lse, logits.double().view(1, 2, 1).expand_as(plain_lse))
    torch.testing.assert_close(lse, expected)
    share = torch.exp(plain_lse - expected)
    torch.testing.assert_close(out, plain_out * share.unsqueeze(-1))
    # Rows 0 and 1 have no key: nothing but the sink is left.
    torch.testing.assert_close(lse[0, :, 0], logits.double())
    assert (out[:, :, :2] == 0).all()


def test_nan_behind_the_mask_reaches_nothing():
    """log(q - kv + 1) is NaN or -inf for the keys that a causal mask removes."""
    distance = make("add", make("sub", Q, KV), const(1))
    masked = Variant("logs", mask=CAUSAL, score=make("sub", SCORE, make("log", distance)))
    q, k, v = tensors(1, 1, 1, 9, 9)
    out, lse = attention_reference(masked, q, k, v)
    (out.sum() + lse.sum()).backward()
    assert all(torch.isfinite(x).all() for x in (out, lse, q.grad, k.grad, v.grad))


def test_infinite_slope_behind_the_mask_reaches_nothing():
    """sqrt(score) has no derivative below 0; a mask on the position hides such keys."""
    variant = Variant("roots", mask=make("lt", KV, const(2)), score=make("sqrt", SCORE))
    q, k, v = tensors(1, 1, 1, 3, 4, 2)
    with torch.no_grad():
        q.copy_(q.abs())
        k.copy_(k.abs())
        k[:, :, 2:] *= -1
    out, lse = attention_reference(variant, q, k, v)
    (out.sum() + lse.sum()).backward()
    assert all(torch.isfinite(x.grad).all() for x in (q, k, v))
    assert (k.grad[:, :, 2:] == 0).all()


def test_lowest_finite_bias_is_still_a_key():
    variant = Variant("low", score=make("add", SCORE, const(-3.4e38)))
    q, k, v = tensors(1, 1, 1, 8, 8)
    out, lse = attention_reference(variant, q, k, v)
    torch.testing.assert_close(out, v.mean(2, keepdim=True).expand_as(out))
    assert torch.isfinite(lse).all()


def test_one_very_negative_score():
    q, k, v = tensors(1, 1, 1, 1, 1, 128)
    with torch.no_grad():
        q.fill_(64.0)
        k.fill_(-64.0)
    out, lse = attention_reference(Variant("full"), q, k, v)
    torch.testing.assert_close(out, v)
    assert lse.item() == pytest.approx(-524288 / math.sqrt(128))


def test_boxes_cover_everything_whatever_their_size(monkeypatch):
    formula = FORMULAS["prefix_lm"]
    q, k, v = tensors(3, 4, 2, 11, 13)
    tables = formula.tables(3, 4, 11, 13)
    whole = attention_reference(formula.variant, q, k, v, tensors=tables)
    for elements in (1, 13 * 5, 13 * 11 * 3, 13 * 11 * 4 * 2):
        monkeypatch.setattr(reference, "CHUNK_ELEMENTS", elements)
        found = attention_reference(formula.variant, q, k, v, tensors=tables)
        agree(found, whole)
        grads = torch.autograd.grad(found[0].sum() + found[1].sum(), (q, k, v))
        agree(grads, torch.autograd.grad(whole[0].sum() + whole[1].sum(), (q, k, v),
                                         retain_graph=True))  # fmt: skip


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ({}, "tensor `prefix` has no default"),
        ({"tensors": {"prefix": torch.zeros(3, dtype=torch.int32)}}, "has 3 elements, not 1"),
        ({"tensors": {"prefix": torch.zeros(1, 1, dtype=torch.int32)}}, "2 dimensions, not 1"),
        ({"tensors": {"prefx": torch.zeros(1)}}, "unknown tensor `prefx`"),
        ({"parameters": {"window": 3}}, "unknown parameter `window`"),
    ],
)
def test_bad_calls(call, words):
    q, k, v = tensors(1, 1, 1, 3, 3)
    with pytest.raises(ValueError, match=words):
        attention_reference(FORMULAS["prefix_lm"].variant, q, k, v, **call)
