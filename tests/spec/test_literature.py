"""Variants of the literature and of models: each is a short file that loads as it stands."""

from __future__ import annotations

import pytest

from fagen.spec.load import load_text
from fagen.spec.text import to_text

MASKS = {
    "causal_start": "mask: kv_idx <= q_idx\nposition: start",
    "two_sided_window": """\
parameters:
  left: {type: int, default: 128, min: 0}
  right: {type: int, default: 128, min: 0}
mask: q_idx - left <= kv_idx <= q_idx + right""",
    "dilated": """\
parameters:
  w: {type: int, default: 256, min: 0}
  dilation: {type: int, default: 4, min: 1}
let:
  far: abs(q_idx - kv_idx)
mask: far <= w and far % dilation == 0""",
    "global_and_window": """\
parameters:
  w: {type: int, default: 256, min: 0}
tensors:
  landmark: {shape: [kv_len], dtype: bool}
mask: abs(q_idx - kv_idx) <= w or landmark[q_idx] or landmark[kv_idx]""",
    "document_full": """\
tensors:
  doc: {shape: [batch, kv_len], dtype: int32, nondecreasing: true}
mask: doc[b, q_idx] == doc[b, kv_idx]""",
    "packed_causal": """\
tensors:
  doc_start: {shape: [kv_len], dtype: int32, nondecreasing: true}
mask: doc_start[q_idx] <= kv_idx <= q_idx""",
    "document_of_windows": """\
parameters:
  window: {type: int, default: 64, min: 1}
tensors:
  doc: {shape: [kv_len], dtype: int32, nondecreasing: true}
  start: {shape: [documents], dtype: int32}
functions:
  inner(q, kv): 0 <= q - kv < window
  local(i): i - start[doc[i]]
mask: doc[q_idx] == doc[kv_idx] and inner(local(q_idx), local(kv_idx))""",
    "shared_prefix": """\
tensors:
  doc: {shape: [kv_len], dtype: int32, nondecreasing: true}
mask: kv_idx <= q_idx and (doc[kv_idx] == 0 or doc[kv_idx] == doc[q_idx])""",
    "chunked": """\
parameters:
  c: {type: int, default: 8192, min: 1}
mask: q_idx // c == kv_idx // c""",
    "chunked_causal": """\
parameters:
  chunk: {type: int, default: 8192, static: true}
mask: kv_idx <= q_idx and q_idx // chunk == kv_idx // chunk""",
    "mini_causal": "mask: q_idx % 128 >= kv_idx % 128",
    "tree_causal": """\
tensors:
  prefix: {shape: [batch], dtype: int32}
  ancestor: {shape: [q_len, q_len], dtype: bool}
mask: kv_idx < prefix[b] or ancestor[q_row, kv_idx - prefix[b]]""",
    "natten_2d": """\
parameters:
  W: {type: int, default: 64, min: 1}
  H: {type: int, default: 64, min: 1}
  K: {type: int, default: 7, static: true}
functions:
  center(x, n): clamp(x, K // 2, n - 1 - K // 2)
  near(x, y, n): abs(center(x, n) - y) <= K // 2
mask: near(q_idx % W, kv_idx % W, W) and near(q_idx // W, kv_idx // W, H)""",
    "sliding_tiles_3d": """\
parameters:
  X: {type: int, default: 32, min: 1}
  Y: {type: int, default: 32, min: 1}
  T: {type: int, default: 8, static: true}
functions:
  near(p, q): abs(p // T - q // T) <= 1
let:
  plane: max(X * Y, 1)
mask: >-
  near(q_idx % X, kv_idx % X)
  and near(q_idx // X % Y, kv_idx // X % Y)
  and near(q_idx // plane, kv_idx // plane)""",
    "block_map": """\
parameters:
  T: {type: int, default: 128, static: true}
tensors:
  live: {shape: [batch, heads, q_blocks, kv_blocks], dtype: bool}
mask: live[b, h, q_idx // T, kv_idx // T]""",
    "bit_packed": """\
tensors:
  words: {shape: [batch, q_len, n_words], dtype: int32}
mask: (words[b, q_row, kv_idx >> 5] >> (kv_idx & 31)) & 1 == 1""",
    "key_padding": """\
tensors:
  valid: {shape: [batch], dtype: int32}
mask: kv_idx < valid[b]""",
    "selected_blocks": """\
tensors:
  chosen: {shape: [batch, q_len, 8], dtype: int32}
mask: kv_idx // 64 in chosen[b, q_row, :] and kv_idx <= q_idx""",
}

SCORES = {
    "alibi_symmetric": """\
tensors:
  slope: {shape: [heads], dtype: float32}
score: score - slope[h] * abs(q_idx - kv_idx)""",
    "t5_bidirectional": """\
parameters:
  buckets: {type: int, default: 32, static: true}
  max_distance: {type: int, default: 128, static: true}
tensors:
  table: {shape: [heads, buckets], dtype: float32}
let:
  half: buckets // 2
  exact: half // 2
  away: abs(kv_idx - q_idx)
  far: log(max(away, 1) / exact) / log(max_distance / exact)
  large: min(exact + int(far * (half - exact)), half - 1)
  bucket: (half if kv_idx > q_idx else 0) + (away if away < exact else large)
score: score + table[h, bucket]
scale: 1""",
    "t5_causal": """\
tensors:
  table: {shape: [heads, 32], dtype: float32}
let:
  back: max(q_idx - kv_idx, 0)
  large: 16 + int(log(max(back, 1) / 16) / log(128 / 16) * 16)
score: score + table[h, back if back < 16 else min(large, 31)]
mask: kv_idx <= q_idx
scale: 1""",
    "relative_bias": """\
tensors:
  table: {shape: [heads, 255], dtype: float32}
score: score + table[h, clamp(q_idx - kv_idx, -127, 127) + 127]""",
    "swin_2d": """\
parameters:
  W: {type: int, default: 7, static: true}
tensors:
  table: {shape: [169, heads], dtype: float32}
let:
  dy: q_idx // W - kv_idx // W + W - 1
  dx: q_idx % W - kv_idx % W + W - 1
score: score + table[dy * (2 * W - 1) + dx, h]""",
    "full_bias": """\
tensors:
  bias: {shape: [batch, heads, q_len, kv_len], dtype: bfloat16}
score: score + bias[b, h, q_row, kv_idx]""",
    "double": "score: score * 2",
    "square": "score: score * score",
    "temperature": """\
tensors:
  temperature: {shape: [heads], dtype: float32}
score: score * temperature[h]""",
    "two_tables": """\
tensors:
  head: {shape: [heads], dtype: float32}
  pos: {shape: [q_len], dtype: float32}
score: score + head[h] + pos[q_row]""",
    "graphormer": """\
tensors:
  table: {shape: [heads, 64], dtype: float32}
  dist: {shape: [batch, q_len, kv_len], dtype: int32}
score: score + table[h, dist[b, q_row, kv_idx]]""",
    "ignores_score": "score: (q_idx - kv_idx) * 0.1",
}

MODELS = {
    "gpt_oss": """\
parameters:
  window: {type: int, default: 128, min: 1}
tensors:
  sinks: {shape: [heads], dtype: float32}
mask: 0 <= q_idx - kv_idx < window
softmax:
  sink: sinks[h]""",
    "softmax_plus_one": "softmax: {sink: 0}",
    "gemma2_27b": """\
extends: gemma2_local
scale: 1 / sqrt(144)""",
    "modern_bert": """\
parameters:
  half: {type: int, default: 64, min: 0}
mask: abs(q_idx - kv_idx) <= half""",
    "llama4_chunks": """\
parameters:
  chunk: {type: int, default: 8192, min: 1}
mask: kv_idx <= q_idx and q_idx // chunk == kv_idx // chunk""",
}


@pytest.mark.parametrize("name", [*MASKS, *SCORES, *MODELS])
def test_it_loads(name: str) -> None:
    text = f"name: {name}\n{ {**MASKS, **SCORES, **MODELS}[name] }\n"
    variant = load_text(text, f"{name}.yaml")
    assert variant.mask.type == "bool" and variant.score.type == "float"
    assert variant.scale.type == "float"


def loaded(name: str):
    return load_text(f"name: {name}\n{ {**MASKS, **SCORES, **MODELS}[name] }\n")


def test_functions_apply_a_mask_to_local_indices() -> None:
    variant = loaded("document_of_windows")
    q, kv = "q_idx - start[doc[q_idx]]", "kv_idx - start[doc[kv_idx]]"
    assert to_text(variant.mask) == (
        f"doc[q_idx] == doc[kv_idx] and (0 <= {q} - ({kv}) and {q} - ({kv}) < window)"
    )


def test_constants_of_a_formula_are_computed() -> None:
    assert "table[(q_idx // 7 - kv_idx // 7 + 7 - 1) * 13 + " in to_text(loaded("swin_2d").score)
    assert to_text(loaded("gemma2_27b").scale) == repr(1 / 12)
    assert to_text(loaded("softmax_plus_one").sink) == "0.0"


def test_a_row_test_reads_each_entry_once() -> None:
    text = to_text(loaded("selected_blocks").mask)
    assert text.startswith("(kv_idx // 64 == chosen[b, q_row, 0] or ")
    assert text.count("chosen[") == 8
