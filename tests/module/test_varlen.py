"""Packed sequences: each as `attention` of float64 would compute it alone, forward and backward."""

from __future__ import annotations

import itertools

import pytest
import torch
from generated import SHIPPED, TOLERANCE, inputs, module, shipped, tiles, written
from generated import check as check_dense

from fagen.verify.reference import attention_reference

#: (query lengths, key lengths): empty ones at both ends and in the middle, one key, exact tiles.
MIXED = ((0, 33, 1, 0, 70, 16, 17, 0), (5, 33, 9, 0, 61, 16, 48, 7))
QUANTITIES = ("out", "lse", "dq", "dk", "dv")
CAUSAL = "mask: kv_idx <= q_idx"


def ends(lengths):
    return torch.tensor([0, *itertools.accumulate(lengths)], dtype=torch.int32)


def cut(variant, tables, b, rows, columns):
    """The part of each table that sequence b sees, as a batch of one."""
    own = {
        "batch": slice(b, b + 1),
        "q_len": slice(0, rows.stop - rows.start),
        "kv_len": slice(0, columns.stop - columns.start),
        "total_q": rows,
        "total_kv": columns,
    }
    shapes = {t.name: t.shape for t in variant.tensors}
    return {
        name: table[tuple(own.get(size, slice(None)) for size in shapes[name])]
        for name, table in tables.items()
    }


def truth(variant, q, k, v, dout, dlse, spans, tables, parameters):
    """The five quantities in float64, sequence by sequence."""
    q, k, v = (x.detach().double().requires_grad_() for x in (q, k, v))
    outs, lses = [torch.zeros_like(dout[:0]).double()], [dlse[:0].double()]
    for b, (rows, columns) in enumerate(spans):
        out, lse = attention_reference(
            variant,
            *(x.transpose(0, 1)[None] for x in (q[rows], k[columns], v[columns])),
            parameters=parameters,
            tensors=cut(variant, tables, b, rows, columns),
        )
        outs.append(out[0].transpose(0, 1))
        lses.append(lse[0].mT)
    out, lse = torch.cat(outs), torch.cat(lses)
    finite = torch.isfinite(lse)
    loss = (out * dout).sum() + torch.where(finite, lse * dlse, 0.0).sum()
    grads = torch.autograd.grad(loss, (q, k, v), allow_unused=True)
    grads = [torch.zeros_like(x) if g is None else g for g, x in zip(grads, (q, k, v), strict=True)]
    return dict(zip(QUANTITIES, (out.detach(), lse.detach(), *grads), strict=True))


def check(variant, mod, lengths, *, heads=2, kv_heads=1, head_dim=16, head_dim_v=None,
          dtype=torch.float32, tables=None, parameters=None, config=None, slack=0, device="cpu",
          seed=0):  # fmt: skip
    generator = torch.Generator().manual_seed(seed)
    q_ends, k_ends = ends(lengths[0]), ends(lengths[1])
    total_q, total_k = int(q_ends[-1]), int(k_ends[-1])
    width = head_dim_v or head_dim

    def drawn(*shape, kind=dtype):
        return torch.randn(shape, generator=generator).to(device, kind)

    q, k, v = (
        drawn(total_q, heads, head_dim),
        drawn(total_k, kv_heads, head_dim),
        drawn(total_k, kv_heads, width),
    )
    q, k, v = (x.requires_grad_() for x in (q, k, v))
    dout, dlse = drawn(total_q, heads, width), drawn(total_q, heads, kind=torch.float32)
    spans = [
        (slice(a, b), slice(c, d))
        for (a, b), (c, d) in zip(
            itertools.pairwise(q_ends.tolist()), itertools.pairwise(k_ends.tolist()), strict=True
        )
    ]
    tables, parameters = tables or {}, parameters or {}
    out, lse = mod.attention_varlen(
        q, k, v, q_ends.to(device), k_ends.to(device),
        max(lengths[0], default=0) + slack, max(lengths[1], default=0) + slack,
        return_lse=True, config=tiles(mod) if config is None else config, **tables, **parameters,
    )  # fmt: skip
    assert out.shape == dout.shape and lse.shape == dlse.shape
    grads = torch.autograd.grad((out, lse), (q, k, v), (dout, dlse))
    found = dict(zip(QUANTITIES, (out, lse, *grads), strict=True))
    wanted = truth(variant, q, k, v, dout.double(), dlse.double(), spans, tables, parameters)
    for name, value in found.items():
        value, right = value.detach().double(), wanted[name]
        empty = right == -torch.inf
        assert torch.equal(value == -torch.inf, empty), name
        difference = torch.where(empty, 0.0, value - torch.where(empty, 0.0, right))
        size = torch.where(empty, 0.0, right).norm()
        assert difference.norm() <= TOLERANCE[dtype] * (size + 1e-3), name


def given(name, lengths):
    """The tables a shipped variant demands, by its longest sequences."""
    sequences, longest = len(lengths[0]), max(lengths[1])
    if name == "prefix_lm":
        return {"prefix": (torch.arange(sequences) * 7 + 3).to(torch.int32)}
    if name == "document":
        columns = torch.arange(longest) + 5 * torch.arange(sequences)[:, None]
        return {"doc": columns.sqrt().floor().to(torch.int32)}
    return {}


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_variants_on_mixed_lengths(name):
    variant, mod = shipped(name), module(name)
    parameters = {"window": 11} if any(p.name == "window" for p in variant.parameters) else {}
    check(variant, mod, MIXED, tables=given(name, MIXED), parameters=parameters, kv_heads=2)


@pytest.mark.parametrize("block_m, block_n", [(16, 16), (32, 16), (16, 32)])
def test_tiles_of_any_shape(block_m, block_n):
    mod = module("causal")
    check(shipped("causal"), mod, MIXED, config=tiles(mod, block_m, block_n))


@pytest.mark.parametrize(
    "lengths, heads, kv_heads, head_dim",
    [
        (((0, 1, 0, 1), (0, 3, 0, 5)), 9, 3, 64),
        (((0, 0, 0, 1), (0, 0, 0, 1)), 21, 7, 120),
        (((0, 64), (64, 64)), 2, 2, 16),
        (((5, 1, 9), (1, 1, 1)), 2, 1, 16),
        (((40,), (40,)), 2, 1, 16),
        (((3, 2), (0, 0)), 2, 1, 16),
        (((0, 0), (3, 2)), 2, 1, 16),
    ],
)
def test_empty_and_tiny_sequences(lengths, heads, kv_heads, head_dim):
    for name in ("causal", "full"):
        check(
            shipped(name), module(name), lengths,
            heads=heads, kv_heads=kv_heads, head_dim=head_dim,
        )  # fmt: skip


def test_keys_of_a_sequence_without_queries_have_no_gradient():
    mod = module("full")
    q, k, v = (torch.randn(n, 2, 16, requires_grad=True) for n in (64, 128, 128))
    out = mod.attention_varlen(q, k, v, ends((0, 64)), ends((64, 64)), 64, 64, config=tiles(mod))
    out.sum().backward()
    for x in (k, v):
        assert torch.equal(x.grad[:64], torch.zeros(64, 2, 16))


def test_no_sequence_at_all():
    mod = module("causal")
    q, k, v = (torch.randn(0, 2, 16, requires_grad=True) for _ in range(3))
    out = mod.attention_varlen(q, k, v, ends(()), ends(()), 0, 0)
    out.sum().backward()
    assert out.shape == q.grad.shape == (0, 2, 16)


def test_half_precision_heads_in_groups_and_ragged_widths():
    check(
        shipped("alibi"), module("alibi"), MIXED,
        heads=4, kv_heads=2, head_dim=40, head_dim_v=24, dtype=torch.float16,
    )  # fmt: skip


def test_more_sequences_than_one_search_step():
    lengths = tuple((i * 7) % 5 for i in range(300))
    check(shipped("causal"), module("causal"), (lengths, lengths), heads=1)


def test_positions_from_the_start():
    variant, mod = written(f"position: start\n{CAUSAL}")
    check(variant, mod, MIXED)


def test_packed_positions_and_totals():
    variant, mod = written(
        "tensors:\n"
        "  group: {shape: [total_q], dtype: int32}\n"
        "  kind: {shape: [total_kv], dtype: int32}\n"
        "mask: (group[q_token] + kind[kv_token]) % 3 != 0 or q_token == total_q - 1\n"
        "score: score + 0.01 * (q_token - kv_token) + 0.001 * total_kv"
    )
    tables = {
        "group": torch.arange(sum(MIXED[0]), dtype=torch.int32) * 5 % 7,
        "kind": torch.arange(sum(MIXED[1]), dtype=torch.int32) * 3 % 11,
    }
    reference, _ = written(
        "tensors:\n"
        "  group: {shape: [q_len], dtype: int32}\n"
        "  kind: {shape: [kv_len], dtype: int32}\n"
        "  row: {shape: [q_len], dtype: int32}\n"
        "  column: {shape: [kv_len], dtype: int32}\n"
        f"mask: (group[q_row] + kind[kv_idx]) % 3 != 0 or row[q_row] == {sum(MIXED[0]) - 1}\n"
        f"score: score + 0.01 * (row[q_row] - column[kv_idx]) + {0.001 * sum(MIXED[1])}"
    )
    check_against(variant, mod, reference, tables)


def check_against(variant, mod, reference, tables):
    """Held to a variant on local indices whose tables tell each row where it lies."""
    rows = torch.arange(sum(MIXED[0]), dtype=torch.int32)
    columns = torch.arange(sum(MIXED[1]), dtype=torch.int32)
    shapes = {t.name: t.shape for t in variant.tensors}

    class Held:
        tensors = tuple(
            type("Shaped", (), {"name": t.name, "shape": shapes.get(t.name, whole)})()
            for t, whole in (
                *((t, t.shape) for t in variant.tensors),
                *((t, ("total_q",)) for t in reference.tensors if t.name == "row"),
                *((t, ("total_kv",)) for t in reference.tensors if t.name == "column"),
            )
        )

    q, k, v = (torch.randn(n, 2, 16) for n in (sum(MIXED[0]), sum(MIXED[1]), sum(MIXED[1])))
    q_ends, k_ends = ends(MIXED[0]), ends(MIXED[1])
    out = mod.attention_varlen(q, k, v, q_ends, k_ends, 70, 61, config=tiles(mod), **tables)
    for b in range(len(MIXED[0])):
        own_q, own_k = slice(*q_ends[b : b + 2].tolist()), slice(*k_ends[b : b + 2].tolist())
        given = cut(Held, {**tables, "row": rows, "column": columns}, b, own_q, own_k)
        right, _ = attention_reference(
            reference, *(x.transpose(0, 1)[None] for x in (q[own_q], k[own_k], v[own_k])),
            tensors=given,
        )  # fmt: skip
        torch.testing.assert_close(
            out[own_q].double(), right[0].transpose(0, 1), rtol=1e-4, atol=1e-5
        )


def test_packed_positions_in_64_bits_of_a_dense_call():
    variant, mod = written("mask: kv_idx <= q_idx + 31 * q_token and kv_token * 97 >= q_token")
    check_dense(variant, mod, *inputs(2, 2, 1, 35, 50, 16), config=tiles(mod))


def test_tables_are_as_long_as_the_longest_and_cut_to_each():
    variant, mod = written(
        "tensors: {bias: {shape: [batch, kv_len], dtype: float32}}\n"
        "score: score + bias[b, kv_idx]\nmask: bias[b, kv_idx + 3] > -1.5"
    )
    bias = torch.randn(len(MIXED[1]), max(MIXED[1]) + 2, generator=torch.Generator().manual_seed(3))
    check(variant, mod, MIXED, tables={"bias": bias}, slack=2)


def test_default_tables_know_the_longest_sequence():
    variant, mod = written(
        "tensors: {far: {shape: [q_len, heads], dtype: float32, default: q_row * 0.01 + h}}\n"
        "score: score * far[q_row, h]"
    )
    check(variant, mod, MIXED)


def test_a_batch_of_equal_lengths_is_the_dense_call():
    mod = module("sliding_window")
    q, k, v = (torch.randn(3, 2, 50, 16) for _ in range(3))
    out, lse = mod.attention(q, k, v, window=9, return_lse=True, config=tiles(mod))
    packed = [x.transpose(1, 2).reshape(150, 2, 16) for x in (q, k, v)]
    packed_out, packed_lse = mod.attention_varlen(
        *packed, ends((50,) * 3), ends((50,) * 3), 50, 50,
        window=9, return_lse=True, config=tiles(mod),
    )  # fmt: skip
    torch.testing.assert_close(packed_out.view(3, 50, 2, 16).transpose(1, 2), out)
    torch.testing.assert_close(packed_lse.view(3, 50, 2).transpose(1, 2), lse)


def test_strided_inputs():
    """Slices of one projection, and keys whose rows lie apart, NaN between them."""
    mod, lengths = module("causal"), (33, 0, 18)
    qkv = torch.randn(51, 3, 2, 16)
    q, k, v = qkv.unbind(1)
    wide = torch.full((51, 2, 40), torch.nan)
    wide[..., 5:21] = v
    one = mod.attention_varlen(
        q, k, wide[..., 5:21], ends(lengths), ends(lengths), 33, 33, config=tiles(mod)
    )
    other = mod.attention_varlen(
        q.contiguous(), k.contiguous(), v.contiguous(), ends(lengths), ends(lengths), 33, 33,
        config=tiles(mod),
    )  # fmt: skip
    assert torch.equal(one, other)


def test_merge_of_two_sets_of_keys():
    mod = module("full")
    q, k, v = (torch.randn(n, 2, 16) for n in (20, 30, 30))
    call = {"return_lse": True, "config": tiles(mod)}
    whole, _ = mod.attention_varlen(q, k, v, ends((20,)), ends((30,)), 20, 30, **call)
    parts = [
        mod.attention_varlen(q, k[a:b], v[a:b], ends((20,)), ends((b - a,)), 20, b - a, **call)
        for a, b in ((0, 11), (11, 30))
    ]
    torch.testing.assert_close(mod.merge(*parts[0], *parts[1])[0], whole)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"q": torch.randn(1, 4, 2, 16)}, r"q must be \[rows, heads, width\]"),
        ({"cu_seqlens_q": [0, 4]}, "cu_seqlens_q must be a tensor"),
        ({"cu_seqlens_q": torch.tensor([0, 4])}, "cu_seqlens_q must be int32"),
        ({"cu_seqlens_k": ends((2, 2))}, "cu_seqlens_k must have the shape of cu_seqlens_q"),
        ({"cu_seqlens_k": ends((4,))[None]}, "cu_seqlens_k must be contiguous"),
        ({"max_seqlen_q": 4.0}, "max_seqlen_q must be int"),
        ({"max_seqlen_k": -1}, "max_seqlen_k must be from 0"),
    ],
)
def test_bad_input(change, message):
    arguments = {
        **{name: torch.randn(4, 2, 16) for name in ("q", "k", "v")},
        "cu_seqlens_q": ends((4,)), "cu_seqlens_k": ends((4,)),
        "max_seqlen_q": 4, "max_seqlen_k": 4,
    }  # fmt: skip
    with pytest.raises((ValueError, TypeError), match=message):
        module("causal").attention_varlen(**{**arguments, **change})


def test_a_compiled_caller_equals_eager():
    torch.compiler.reset()
    mod = module("causal")
    q, k, v = (torch.randn(51, 2, 16, requires_grad=True) for _ in range(3))
    at = ends((33, 0, 18))

    def call(q, k, v):
        out, lse = mod.attention_varlen(q, k, v, at, at, 33, 33, return_lse=True, config=tiles(mod))
        return out.sin().sum() + lse.sum()

    eager = torch.autograd.grad(call(q, k, v), (q, k, v))
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(torch.autograd.grad(compiled(q, k, v), (q, k, v)), eager)
