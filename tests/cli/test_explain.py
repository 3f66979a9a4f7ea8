"""`fagen explain`: what it says of a variant, and what of a problem."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fagen.spec.load import find_variant, shipped_names


@pytest.mark.parametrize("name", shipped_names())
def test_explain(fagen, name):
    code, out, err = fagen("explain", name)
    assert code == 0
    # Nothing but what has no effect yet.
    assert all(block.startswith("note: ") for block in err.split("\n\n") if block.strip())
    assert bool(err) == ("tuning:" in find_variant(name).read_text())
    for part in ("Score in base 2", "Derivative", "forward:", "dkdv:", "FLOPs and bytes"):
        assert part in out
    assert ("dq:" in out) != ("d score / d (q.k * scale) = 0.0" in out)
    (data,) = json.loads(fagen("explain", name, "--json")[1])["variants"]
    assert data["name"] == name and data["roles"][0]["segments"] and data["costs"]["square"] > 0


def test_explain_says_what_runs(fagen):
    out = fagen("explain", "sliding_window", "--set", "window=1024")[1]
    for line in (
        "pairs only where    q_lo - window + 1 <= kv_idx < q_hi + 1",
        "once a row of the tile it holds  q_idx - window",
        "post_scale  LOG2E * scale  (positive, checked at the call)",
        "visit without    full_first ... full_stop",
        # 64 heads' rows: 1024 keys each, less in the first 1024 rows.
        "live pairs  234.9 M of 1.1 G (21.9 %)",
    ):
        assert line in out


def test_explain_counts_a_table(fagen, tmp_path):
    doc = np.repeat([[0, 1]], 128, axis=1).reshape(1, 256)
    np.save(tmp_path / "doc.npy", doc.astype(np.int32))
    shape = ("--batch", 1, "--heads", 2, "--q-len", 256)
    at_most = fagen("explain", "document", *shape)[1]
    # What does not read `doc` bounds it: kv_idx <= q_idx.
    assert "65.8 k of 131.1 k (50.2 %), at most: `doc` decides" in at_most
    exact = json.loads(fagen("explain", "document", *shape, "--table", "doc=doc.npy", "--json")[1])
    costs = exact["variants"][0]["costs"]
    assert costs["pairs_are"] == "exact" and costs["pairs"] == 2 * 2 * 128 * 129 // 2


TABLES = """\
name: x
parameters: {w: {type: int, default: 4, min: 1}}
tensors:
  bias: {shape: [heads, width], dtype: bfloat16}
  map: {shape: [w, width], dtype: int32, range: [0, 4]}
  doc: {shape: [batch, kv_len], dtype: int32, nondecreasing: true}
mask: doc[b, q_idx] == doc[b, kv_idx]
score: score + bias[h, map[kv_idx % w, q_idx % width]]
"""
DOC, BIAS, MAP = np.zeros((4, 8), np.int32), np.zeros((2, 3), np.float32), np.ones((4, 3), np.int32)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"doc": DOC, "bias": BIAS, "map": MAP}, ""),
        ({"doc": DOC.astype(np.int64)}, "`doc` must be int32, got int64"),
        ({"doc": DOC[0]}, "`doc` must be [batch, kv_len], got [8]"),
        ({"doc": DOC[:, :7]}, "`doc` must be [batch, kv_len], here [4, 8], got [4, 7]"),
        ({"doc": DOC - np.arange(8, dtype=np.int32)}, "`doc` must not decrease along its last"),
        ({"bias": BIAS.astype(np.float16)}, "`bias` must be float32, got float16"),
        ({"bias": BIAS, "map": MAP[:, :2]}, "`map` must be [w, width], here [4, 3], got [4, 2]"),
        ({"map": MAP[:3]}, "`map` must be [w, width], here [4, 'width'], got [3, 3]"),
        ({"map": 4 * MAP}, "`map` must hold values from 0 to 3, got 4 to 4"),
        ({"doc": b"no array"}, "`doc.npy` is not a .npy file"),
        ({"doc": b""}, "`doc.npy` is not a .npy file"),
        ({"doc": b"\x93NUMPY\x01"}, "`doc.npy` is cut short, or holds no numbers"),
        ({"doc": np.array([None])}, "`doc.npy` is cut short, or holds no numbers"),
    ],
)
def test_a_table_of_explain_must_be_as_a_call_takes_it(fagen, tmp_path, tables, message):
    (tmp_path / "x.yaml").write_text(TABLES)
    for name, table in tables.items():
        if isinstance(table, bytes):
            (tmp_path / f"{name}.npy").write_bytes(table)
        else:
            np.save(tmp_path / f"{name}.npy", table, allow_pickle=True)
    options = [word for name in tables for word in ("--table", f"{name}={name}.npy")]
    code, out, err = fagen("explain", "x.yaml", "--heads", 2, "--q-len", 8, *options)
    if message:
        assert (code, out) == (2, "") and f"error: {message}" in err and "pickle" not in err
    else:
        assert code == 0 and "live pairs  512 of 512 (100.0 %)\n" in out


def test_explain_bounds_its_work(fagen):
    """2**56 pairs: intervals are measured, at most, and no pair is looked at."""
    long = ("--q-len", 2**22, "--kv-len", 2**28, "--heads", 1, "--batch", 1)
    out = fagen("explain", "causal", *long)[1]
    assert "at most" not in out and "live pairs  1.1 P of 1.1 P (99.2 %)" in out
    out = fagen("explain", "mini_causal", *long)[1]
    assert "(100.0 %), at most: so many pairs are not looked at one by one" in out
    (data,) = json.loads(fagen("explain", "mini_causal", *long, "--json")[1])["variants"]
    assert data["costs"]["pairs_are"] == "at most" and "exact" not in data["costs"]
