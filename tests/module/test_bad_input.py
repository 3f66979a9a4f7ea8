"""Every wrong argument is refused before a launch, by its name, what it was, what it must be."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from generated import module, tables, tiles, written

WINDOW = module("sliding_window")
CONFIG = WINDOW.Config


@pytest.fixture(autouse=True)
def no_launch(monkeypatch):
    """Any launch fails the test."""

    class Forbidden:
        def __getitem__(self, grid):
            raise AssertionError("a kernel was launched")

    names = ("sliding_window", "prefix_lm", "document", "alibi", "softcap")
    for mod in map(module, names):
        monkeypatch.setattr(mod, "forward_kernel", Forbidden())


def some(*shape, dtype=torch.float32, device="cpu"):
    return torch.zeros(shape, dtype=dtype, device=device)


Q, K, V = some(2, 4, 10, 16), some(2, 2, 12, 16), some(2, 2, 12, 24)

MATRICES = {
    "no tensor": (dict(q=[1.0]), TypeError, r"q must be a tensor, got list"),
    "None": (dict(v=None), TypeError, r"v must be a tensor, got NoneType"),
    "rank of q": (
        dict(q=Q[0]), ValueError,
        r"q must be \[batch, heads, length, width\], got \[4, 10, 16\]"),
    "rank of k": (dict(k=K[None]), ValueError, r"k must be \[batch, .* got \[1, 2, 2, 12, 16\]"),
    "rank of v": (dict(v=some(3)), ValueError, r"v must be \[batch, .* got \[3\]"),
    "float64": (
        dict(q=Q.double(), k=K.double(), v=V.double()), TypeError,
        r"q must be float16, bfloat16 or float32, got torch.float64"),
    "ints": (dict(q=Q.int()), TypeError, r"q must be float16, .* got torch.int32"),
    "mixed dtypes": (
        dict(k=K.half()), TypeError,
        r"k must have the dtype of q, torch.float32, got torch.float16"),
    "mixed devices": (
        dict(v=V.to("meta")), ValueError, r"v must be on the device of q, cpu, got meta"),
    "sparse": (
        dict(k=K.to_sparse()), TypeError,
        r"k must have the layout torch.strided, got torch.sparse_coo"),
    "jagged": (
        dict(q=torch.nested.nested_tensor([Q[0], Q[1]], layout=torch.jagged)), TypeError,
        r"q must have the layout torch.strided, got torch.jagged"),
    "query elsewhere": (
        dict(q=Q.to("meta")), ValueError, r"k must be on the device of q, meta, got cpu"),
    "no columns": (
        dict(q=some(2, 4, 10, 0), k=some(2, 2, 12, 0)), ValueError,
        r"q must have heads and columns"),
    "no heads": (dict(k=some(2, 0, 12, 16)), ValueError, r"k must have heads and columns"),
    "heads not divisible": (
        dict(q=some(2, 5, 10, 16)), ValueError,
        r"heads of q, 5, must be a multiple of those of k, 2"),
    "fewer heads than k": (
        dict(q=some(2, 1, 10, 16)), ValueError, r"heads of q, 1, must be a multiple"),
    "last dimension strided": (
        dict(v=some(2, 2, 12, 48)[..., ::2]), ValueError,
        r"v must be contiguous in its last dimension: use \.contiguous\(\)"),
    "transposed": (
        dict(q=some(2, 4, 16, 10).mT), ValueError, r"q must be contiguous in its last"),
    "rows too far apart": (
        dict(k=torch.empty(12 * (2**23 + 8), dtype=torch.float32, device="meta").as_strided(
            (2, 2, 12, 16), (0, 0, 2**23 + 8, 1)), q=Q.to("meta")), ValueError,
        r"k must have rows at most 2\*\*23 elements apart, got 8388616"),
    "too many rows": (
        dict(k=some(1, 1, 1, 16, device="meta").expand(2, 2, 2**28 + 1, 16), q=Q.to("meta")),
        ValueError, r"k must have at most 2\*\*28 rows, got 268435457"),
    "batch of k": (
        dict(k=some(3, 2, 12, 16)), ValueError,
        r"k must be \[2, kv_heads, kv_len, 16\] for q \[2, 4, 10, 16\], got \[3, 2, 12, 16\]"),
    "width of k": (dict(k=some(2, 2, 12, 32)), ValueError, r"k must be .* got \[2, 2, 12, 32\]"),
    "length of v": (
        dict(v=some(2, 2, 13, 24)), ValueError,
        r"v must begin as k, \[2, 2, 12\], got \[2, 2, 13, 24\]"),
    "heads of v": (dict(v=some(2, 1, 12, 24)), ValueError, r"v must begin as k"),
}  # fmt: skip

OPTIONS = {
    "window too small": (dict(window=0), ValueError, r"window must be from 1 to 268435456, got 0"),
    "window too large": (dict(window=2**28 + 1), ValueError, r"window must be .* got 268435457"),
    "window a float": (dict(window=4.0), TypeError, r"window must be int, got 4\.0"),
    "window a bool": (dict(window=True), TypeError, r"window must be int, got True"),
    "window None": (dict(window=None), TypeError, r"window must be int, got None"),
    "window of numpy": (dict(window=np.int64(4)), TypeError, r"window must be int, got .*4"),
    "window a tensor": (
        dict(window=torch.tensor(4)), TypeError, r"window must be int, got tensor\(4\)"),
    "scale zero": (dict(scale=0), ValueError, r"scale must be positive, .*, got 0"),
    "scale negative": (
        dict(scale=-0.5), ValueError, r"scale must be positive, .*, got -0.5; .* negate q"),
    "scale NaN": (dict(scale=math.nan), ValueError, r"scale must be .* got nan"),
    "scale infinite": (dict(scale=math.inf), ValueError, r"scale must be .* got inf"),
    "scale vanishing in float32": (dict(scale=1e-46), ValueError, r"scale must be .* got 1e-46"),
    "scale a string": (dict(scale="1"), TypeError, r"scale must be a number, got '1'"),
    "scale a bool": (dict(scale=True), TypeError, r"scale must be a number, got True"),
    "scale a tensor": (
        dict(scale=torch.tensor(0.5)), TypeError, r"scale must be a number, got tensor\(0.5"),
    "q_offset a float": (dict(q_offset=1.0), TypeError, r"q_offset must be int, got 1\.0"),
    "kv_offset a bool": (dict(kv_offset=False), TypeError, r"kv_offset must be int, got False"),
    "kv_offset None": (dict(kv_offset=None), TypeError, r"kv_offset must be int, got None"),
    "q_offset far": (
        dict(q_offset=-(2**28) - 1), ValueError, r"q_offset must be from .* got -268435457"),
    "partition": (
        dict(partition="fa3"), ValueError,
        r"""partition must be None, "auto" or "fa2", got 'fa3'"""),
    "partition of another kind": (dict(partition=[]), ValueError, r"partition must be .* got \[\]"),
    "deterministic": (
        dict(deterministic="yes"), ValueError,
        r"deterministic must be None or a bool, got 'yes'"),
    "config a Config": (
        dict(config=CONFIG(16, 16, 4, 1)), TypeError,
        r"config must be a dict from roles to Configs, got Config"),
    "config a list": (dict(config=[]), TypeError, r"config must be a dict .* got list"),
    "config for no role": (
        dict(config={"backward": CONFIG(16, 16, 4, 1)}), ValueError,
        r"config must have keys of \['forward', .*\], got 'backward'"),
    "config a tuple": (
        dict(config={"dq": (16, 16, 4, 1)}), TypeError,
        r"config\['dq'\] must be a Config, got \(16, 16, 4, 1\)"),
    "block of no power": (
        dict(config={"forward": CONFIG(48, 16, 4, 1)}), ValueError,
        r"config\['forward'\]\.BLOCK_M must be a power of two from 16 to 1024, got 48"),
    "block too small": (
        dict(config={"dkdv": CONFIG(16, 8, 4, 1)}), ValueError,
        r"config\['dkdv'\]\.BLOCK_N must be a power of two from 16 to 1024, got 8"),
    "block zero": (
        dict(config={"forward": CONFIG(0, 16, 4, 1)}), ValueError, r"BLOCK_M must be .* got 0"),
    "block a float": (
        dict(config={"prep": CONFIG(64.0, 64, 4, 1)}), ValueError, r"BLOCK_M must .* got 64\.0"),
    "three warps": (
        dict(config={"dq": CONFIG(16, 16, 3, 1)}), ValueError,
        r"num_warps must be a power of two from 1 to 1024, got 3"),
    "no stages": (
        dict(config={"dq": CONFIG(16, 16, 4, 0)}), ValueError,
        r"num_stages must be an int from 1 to 1024, got 0"),
    "an unknown keyword": (dict(windows=4), TypeError, r"unexpected keyword argument 'windows'"),
}  # fmt: skip


@pytest.mark.parametrize("name", MATRICES)
def test_matrices(name):
    changed, error, message = MATRICES[name]
    with pytest.raises(error, match=message):
        WINDOW.attention(**{"q": Q, "k": K, "v": V, **changed})


@pytest.mark.parametrize("name", OPTIONS)
def test_options(name):
    changed, error, message = OPTIONS[name]
    with pytest.raises(error, match=message):
        WINDOW.attention(Q, K, V, **changed)


DOC = tables("document", 2, 12)["doc"]
TABLES = {
    "missing": ("document", {}, TypeError, r"missing .* keyword-only argument: 'doc'"),
    "sparse": (
        "document", dict(doc=DOC.to_sparse()), TypeError,
        r"doc must have the layout torch.strided, got torch.sparse_coo"),
    "None": ("document", dict(doc=None), TypeError, r"doc must be a tensor .* got NoneType"),
    "a list": (
        "document", dict(doc=[[0]]), TypeError,
        r"doc must be a tensor \[batch, kv_len\], got list"),
    "rank": (
        "document", dict(doc=DOC[0]), ValueError, r"doc must be \[batch, kv_len\], got \[12\]"),
    "no axis": ("prefix_lm", dict(prefix=torch.tensor(3, dtype=torch.int32)), ValueError,
                r"prefix must be \[batch\], got \[\]"),
    "longer than the keys": (
        "document", dict(doc=torch.zeros(2, 13, dtype=torch.int32)), ValueError,
        r"doc must be \[batch, kv_len\], here \[2, 12\], got \[2, 13\]"),
    "shorter than the keys": (
        "document", dict(doc=DOC[:, :-1]), ValueError, r"here \[2, 12\], got \[2, 11\]"),
    "batch": ("prefix_lm", dict(prefix=DOC[0, :3]), ValueError, r"here \[2\], got \[3\]"),
    "dtype": (
        "document", dict(doc=DOC.long()), TypeError, r"doc must be torch.int32, got torch.int64"),
    "device": (
        "document", dict(doc=DOC.to("meta")), ValueError,
        r"doc must be on the device of q, cpu, got meta"),
    "trained": (
        "alibi", dict(slopes=torch.ones(4, requires_grad=True)), ValueError,
        r"slopes gets no gradient from this module: pass slopes\.detach\(\)"),
    "default table's dtype": (
        "alibi", dict(slopes=torch.ones(4).half()), TypeError, r"slopes must be torch.float32"),
    "cap below its least": ("softcap", dict(cap=0.0), ValueError, r"cap must be from 0\.001 to"),
    "cap NaN": ("softcap", dict(cap=math.nan), ValueError, r"cap must be from .* got nan"),
    "cap infinite": ("softcap", dict(cap=math.inf), ValueError, r"cap must be from .* got inf"),
    "cap a bool": ("softcap", dict(cap=True), TypeError, r"cap must be float, got True"),
    "cap a string": ("softcap", dict(cap="50"), TypeError, r"cap must be float, got '50'"),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_tables_and_parameters(name):
    variant, given, error, message = TABLES[name]
    with pytest.raises(error, match=message):
        module(variant).attention(Q, K, V, **given)


def test_lengths_that_tables_share():
    _, mod = written(
        "parameters: {width: {type: int, default: 3, min: 1}}\n"
        "tensors:\n"
        "  start: {shape: [documents], dtype: int32}\n"
        "  stop: {shape: [documents], dtype: int32}\n"
        "  bias: {shape: [heads, width], dtype: float32}\n"
        "mask: kv_idx >= start[q_idx % documents] and kv_idx < stop[q_idx % documents]\n"
        "score: score + bias[h, kv_idx % width]"
    )
    start, bias = torch.zeros(5, dtype=torch.int32), torch.zeros(4, 3)
    with pytest.raises(ValueError, match=r"stop must be \[documents\], here \[5\], got \[4\]"):
        mod.attention(Q, K, V, start=start, stop=start[:4], bias=bias)
    with pytest.raises(ValueError, match=r"bias must be \[heads, width\], here \[4, 2\]"):
        mod.attention(Q, K, V, start=start, stop=start, bias=bias, width=2)
    with pytest.raises(ValueError, match=r"start must be \[documents\], got \[\]"):
        mod.attention(Q, K, V, start=start[0], stop=start, bias=bias)
    with pytest.raises(TypeError, match=r"bias must be a tensor \[heads, width\], got int"):
        mod.attention(Q, K, V, start=start, stop=start, bias=0)


def test_merge_refuses_states_of_different_shapes():
    out, lse = some(2, 4, 10, 16), some(2, 4, 10)
    with pytest.raises(ValueError, match=r"lse_b must have shape \[2, 4, 10\], got \[2, 4, 9\]"):
        WINDOW.merge(out, lse, out, lse[..., :9])
    with pytest.raises(ValueError, match="out_b must have shape"):
        WINDOW.merge(out, lse, out[..., :8], lse)


class TestWhatIsAccepted:
    """Next to what is refused; here kernels do run."""

    @pytest.fixture(autouse=True)
    def no_launch(self):
        return None

    def test_an_int_for_a_float(self):
        mod = module("softcap")
        q, k, v = (torch.randn(1, 1, 8, 16) for _ in range(3))
        found = mod.attention(q, k, v, cap=2, scale=1, config=tiles(mod))
        torch.testing.assert_close(found, mod.reference(q, k, v, cap=2.0, scale=1.0))

    def test_numpy_floats(self):
        mod = module("softcap")
        q, k, v = (torch.randn(1, 1, 8, 16) for _ in range(3))
        found = mod.attention(q, k, v, cap=np.float64(2), scale=np.float64(0.5))
        torch.testing.assert_close(found, mod.reference(q, k, v, cap=2.0, scale=0.5))

    def test_any_stride_of_a_last_dimension_of_one(self):
        q, k = (torch.randn(1, 1, 8, 16) for _ in range(2))
        v = torch.randn(1, 1, 8, 5)[..., 2:3]
        torch.testing.assert_close(WINDOW.attention(q, k, v), WINDOW.reference(q, k, v))

    def test_strided_tables(self):
        mod = module("alibi")
        q, k, v = (torch.randn(1, 4, 8, 16) for _ in range(3))
        slopes = torch.randn(4, 3)[:, 1]
        found = mod.attention(q, k, v, slopes=slopes)
        torch.testing.assert_close(found, mod.reference(q, k, v, slopes=slopes))

    def test_a_negative_scale_where_the_score_allows_it(self):
        mod = module("softcap")
        q, k, v = (torch.randn(1, 1, 20, 16) for _ in range(3))
        found = mod.attention(q, k, v, scale=-0.5, cap=1.0)
        torch.testing.assert_close(found, mod.reference(q, k, v, scale=-0.5, cap=1.0))
