"""What the cases cover and whether the inputs drawn for them are what they claim."""

import math

import pytest
import torch
from formulas import FORMULAS

from fagen.spec.expr import name
from fagen.spec.variant import Parameter, Tensor, Variant
from fagen.verify.cases import Case, cases_for, splits
from fagen.verify.inputs import draw
from fagen.verify.tables import FREE_LENGTH, draw_tables, parameter_values

FULL = cases_for(FORMULAS["gemma2_local"].variant, "cpu", "full")
CUDA = cases_for(FORMULAS["gemma2_local"].variant, "cuda", "full")


def test_names_are_unique():
    for cases in (FULL, CUDA):
        assert len({c.name for c in cases}) == len(cases)


def test_quick_is_part_of_full():
    quick = cases_for(FORMULAS["causal"].variant, "cpu", "quick")
    assert 15 <= len(quick) < len(FULL)
    assert set(quick) < set(cases_for(FORMULAS["causal"].variant, "cpu", "full"))


def test_the_interpreter_never_sees_bfloat16():
    assert {c.dtype for c in FULL} == {"float16", "float32"}
    assert {c.dtype for c in CUDA} == {"float16", "float32", "bfloat16"}


def test_tiles_are_uneven_and_small():
    for case in FULL:
        for _, block_m, block_n in case.tiles or ():
            assert {block_m, block_n} == {16, 32}


def test_the_plain_cases_have_three_tiles_of_every_axis():
    for case in (c for c in FULL if c.name in ("plain", "half precision", "default tables")):
        for _, block_m, block_n in case.tiles:
            assert case.q_len > 2 * block_m and case.kv_len > 2 * block_n
            assert case.q_len % block_m and case.kv_len % block_n


def test_the_walk_of_shapes_leaves_none_out():
    walk = cases_for(FORMULAS["causal"].variant, "cuda", "shapes")
    assert len({c.name for c in walk}) == len(walk)
    lengths = {(c.q_len, c.kv_len) for c in walk}
    assert lengths >= {
        (1, 1), (64, 128), (239, 1), (799, 3), (113, 203), (113, 211), (128, 217), (108, 256),
        (256, 113), (384, 256), (640, 128), (1023, 1024), (1024, 1023), (4224, 4224), (128, 8192),
        (0, 128), (128, 0),
    }  # fmt: skip
    dims = {(c.head_dim, c.head_dim_v) for c in walk}
    equal = {16, 32, 40, 64, 72, 80, 96, 112, 120, 128, 160, 192, 224, 256}
    assert dims == {(d, d) for d in equal} | {(192, 128), (64, 128), (128, 64)}
    groups = {(1, 1), (8, 8), (8, 2), (9, 3), (21, 7), (32, 8), (64, 8), (8, 1)}
    assert {(c.heads, c.kv_heads) for c in walk} == groups
    assert any(c.batch == 0 for c in walk)
    assert {c.dtype for c in walk} == {"float16", "bfloat16"}
    short = cases_for(FORMULAS["causal"].variant, "cpu", "shapes")
    assert {c.dtype for c in short} == {"float16"} and 20 < len(short) < len(walk)


@pytest.mark.parametrize(
    "wanted",
    [
        lambda c: c.batch == 0,
        lambda c: c.q_len == 0,
        lambda c: c.kv_len == 0,
        lambda c: c.q_len == c.kv_len == 1,
        lambda c: c.q_len > c.kv_len > 0,
        lambda c: 0 < c.q_len < c.kv_len,
        lambda c: 1 < c.kv_heads < c.heads,
        lambda c: c.head_dim in (40, 64, 80, 96) and c.head_dim_v != c.head_dim,
        lambda c: c.layout == "bshd",
        lambda c: c.layout == "k_expanded",
        lambda c: c.layout == "nan_padded" and c.dtype == "float16",
        lambda c: c.magnitude == 100.0,
        lambda c: c.offsets[0] is not None and c.offsets[1] > 0,
        lambda c: c.offsets[0] is not None and c.offsets[0] < 0,
        lambda c: c.loss == "lse",
        lambda c: c.loss == "sum",
        lambda c: c.scale is not None,
        lambda c: c.check == "deterministic",
    ],
)
def test_even_the_quick_level_has(wanted):
    assert any(wanted(c) for c in cases_for(FORMULAS["causal"].variant, "cpu", "quick"))


@pytest.mark.parametrize("case", FULL, ids=lambda c: c.name)
def test_given_is_exact_rounded(case):
    inputs = draw(FORMULAS["gemma2_local"].variant, case, "cpu", 5)
    dtype = getattr(torch, case.dtype)
    shapes = [tuple(x.shape) for x in inputs.given]
    assert shapes[0] == (case.batch, case.heads, case.q_len, case.head_dim)
    assert shapes[2] == (case.batch, case.kv_heads, case.kv_len, case.head_dim_v)
    for exact, given in zip(inputs.exact[:4], inputs.given[:4], strict=True):
        assert given.dtype == dtype
        assert torch.equal(given, exact.to(dtype))
        assert given.stride(-1) == 1 or given.shape[-1] == 1 or case.loss == "sum"
    if case.magnitude is not None:
        q, k = inputs.exact[:2]
        products = q @ k.repeat_interleave(case.heads // case.kv_heads, 1).mT
        top = float((products * inputs.setting.scale).abs().max())
        assert top == pytest.approx(case.magnitude, rel=1e-3)


def laid_out(layout):
    case = Case("x", batch=2, heads=4, kv_heads=2, q_len=7, kv_len=9, layout=layout)
    return draw(FORMULAS["causal"].variant, case, "cpu", 3).given


def test_padding_surrounds_every_row_with_nan():
    for x in laid_out("nan_padded")[:4]:
        start = x.storage_offset()
        whole = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())
        assert math.isnan(whole[start - 1])
        assert x.stride(2) > x.shape[3]
        after = x.as_strided((*x.shape[:2], 5, x.stride(2)), x.stride(),
                             start + x.shape[2] * x.stride(2))  # fmt: skip
        assert torch.isnan(after).all()
        between = x.as_strided((*x.shape[:3], 1), x.stride(), start + x.shape[3])
        assert torch.isnan(between).all()


def test_layouts():
    assert not laid_out("bshd")[0].is_contiguous()
    assert laid_out("bshd")[0].transpose(1, 2).is_contiguous()
    assert laid_out("k_expanded")[1].stride(1) == 0
    assert laid_out("k_sliced")[1].stride(1) == (9 + 128) * 16
    assert laid_out("v_rows")[2].stride(2) == 32
    assert laid_out("odd_stride")[0].stride(2) == 19
    case = Case("x", loss="sum")
    assert set(draw(FORMULAS["causal"].variant, case, "cpu", 3).given[3].stride()) == {0}


def test_a_seed_repeats_its_inputs_and_another_does_not():
    variant = FORMULAS["document"].variant
    one, same, other = (draw(variant, Case("x"), "cpu", seed) for seed in (1, 1, 2))
    assert torch.equal(one.exact[0], same.exact[0])
    assert torch.equal(one.keywords["doc"], same.keywords["doc"])
    assert not torch.equal(one.exact[0], other.exact[0])


def test_parameters_bite_within_the_lengths_and_keep_their_bounds():
    variant = Variant(
        "v",
        parameters=(
            Parameter("window", "int", 4096, minimum=1),
            Parameter("chunk", "int", 8, minimum=4, maximum=20),
            Parameter("cap", "float", 50.0, minimum=2.0),
            Parameter("flag", "bool", False),
        ),
    )
    values = {
        choice: parameter_values(variant, Case("x", kv_len=83, parameters=choice))
        for choice in ("default", "smallest", "one", "five", "half")
    }
    assert values["default"] == {}
    assert values["smallest"] == {"window": 1, "chunk": 4, "cap": 2.0, "flag": True}
    assert values["one"] == {"window": 1, "chunk": 4, "cap": 2.5}
    assert values["five"] == {"window": 5, "chunk": 5, "cap": 10.0}
    assert values["half"] == {"window": 41, "chunk": 20, "cap": 25.0, "flag": True}


TABLES = Variant(
    "tables",
    parameters=(Parameter("buckets", "int", 12),),
    tensors=(
        Tensor("doc", ("batch", "kv_len"), "int32", nondecreasing=True),
        Tensor("few", ("batch", "q_len"), "int64", nondecreasing=True, value_range=(3, 5)),
        Tensor("prefix", ("batch",), "int32"),
        Tensor("code", ("heads", "n_codes"), "int32", value_range=(-2, 6)),
        Tensor("live", ("q_len", "kv_len"), "bool"),
        Tensor("bias", ("heads", "buckets"), "float16"),
        Tensor("slopes", ("heads", 2), "float32", default=name("h")),
    ),
)


@pytest.mark.parametrize("kind", ["drawn", "starts", "extreme", "default"])
def test_tables_keep_their_promises(kind):
    case = Case("x", batch=3, q_len=70, kv_len=83, tables=kind)
    drawn = draw_tables(TABLES, case, {}, torch.Generator().manual_seed(4))
    assert ("slopes" in drawn) == (kind != "default")
    for tensor in TABLES.tensors:
        if tensor.name in drawn:
            assert drawn[tensor.name].dtype == getattr(torch, tensor.dtype)
    assert drawn["code"].shape == (2, FREE_LENGTH) and drawn["bias"].shape == (2, 12)
    for key in ("doc", "few"):
        assert (drawn[key].diff(dim=-1) >= 0).all()
    assert len(drawn["doc"].unique()) > 3
    assert drawn["few"].min() >= 3 and drawn["few"].max() <= 4
    assert drawn["code"].min() >= -2 and drawn["code"].max() <= 5
    assert drawn["prefix"].min() >= 0 and drawn["prefix"].max() <= 83
    if kind == "starts":
        assert (drawn["doc"] <= torch.arange(83)).all()


def test_padded_tables_are_surrounded():
    case = Case("x", tables="nan_padded", heads=2)
    drawn = draw(TABLES, case, "cpu", 4).keywords
    assert drawn["bias"].shape == (2, 12)
    beyond = drawn["bias"].as_strided((2, 3), drawn["bias"].stride(), 12)
    assert torch.isnan(beyond).all()
    assert drawn["doc"].as_strided((1,), (1,), 83).item() == 1_000_003


def test_only_variants_that_split_are_split():
    assert {key for key, f in FORMULAS.items() if splits(f.variant)} == set(FORMULAS) - {"document"}
    sink = Variant("sink", sink=FORMULAS["softcap"].variant.score)
    assert not splits(sink)
    assert not splits(Variant("ends", score=name("kv_len")))
