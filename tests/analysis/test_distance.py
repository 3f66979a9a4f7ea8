"""What depends on the distance alone is found, however it is written, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest

from fagen.analysis.distance import GAP, TABULATED, by_distance, tabulate
from fagen.analysis.evaluate import evaluate
from fagen.codegen.lower import packed
from fagen.spec.expr import names_in, tensors_in
from fagen.spec.load import find_variant, load_text, load_variant, shipped_names

BUCKET = """
let:
  away: abs(q_idx - kv_idx)
  far: int(log2(max(away, 1) / 8.0) / log2(max(spread / 8.0, 1.01)) * 8)
parameters: {{spread: {{type: float, default: 128.0}}}}
tensors: {{bias: {{shape: [heads, 32], dtype: float32}}}}
score: score + {score}
"""


def score_of(text):
    return packed(load_text(f"name: x\n{text}")).score


@pytest.mark.parametrize(
    "text",
    [
        "q_idx - kv_idx",
        "3 * q_idx - 3 * kv_idx + 7",
        "abs(kv_idx - q_idx) // 5",
        "(q_idx - kv_idx) * (q_idx - kv_idx) % 11",
        "min(q_idx - kv_idx, 4) + (2 if kv_idx > q_idx else 0)",
        "(1 if q_idx >= kv_idx + 3 else 0) + (1 if q_idx + 1 == kv_idx else 0)",
        "int(log2(max(abs(q_idx - kv_idx), 1)))",
    ],
)
def test_distances_in_any_words(text):
    node = score_of(f"score: ({text}) * 1.0")
    entry = by_distance(node)
    assert entry is not None and not names_in(entry) & {"q_idx", "kv_idx"}
    rng = np.random.default_rng(0)
    q, kv = rng.integers(-50, 50, 200), rng.integers(-50, 50, 200)
    found = evaluate(entry, {str(GAP.value): q - kv}, {})
    assert np.array_equal(found, evaluate(node, {"q_idx": q, "kv_idx": kv}, {}))


@pytest.mark.parametrize(
    "text", ["q_idx + kv_idx", "2 * q_idx - kv_idx", "max(q_idx, kv_idx)", "q_idx % 8 - kv_idx % 8",
             "q_idx // 4 - kv_idx // 4", "(q_idx - kv_idx) * q_idx"],
)  # fmt: skip
def test_positions_that_matter(text):
    assert by_distance(score_of(f"score: ({text}) * 1.0")) is None


def test_the_dear_part_moves_and_the_rest_stays():
    text = BUCKET.format(score="bias[h, min(far, 31)] * 0.5 + 0.1 * kv_idx")
    found = tabulate(packed(load_text(f"name: x\n{text}")))
    assert found is not None
    assert tensors_in(found.variant.score) == {TABULATED}
    assert tensors_in(found.entry) == {"bias"}
    assert "spread" in names_in(found.entry)
    assert found.variant.tensors[-1].shape == ("heads", "gaps")


@pytest.mark.parametrize(
    "score",
    [
        "bias[h, far + b]",  # the sequence matters
        "bias[h, min(far, kv_len)]",  # packed sequences have lengths of their own
        "bias[h, min(far, q_row)]",
        "score * bias[h, far]" + " * score",
    ],
)
def test_what_differs_between_sequences_or_pairs_stays(score):
    found = tabulate(packed(load_text(f"name: x\n{BUCKET.format(score=score)}")))
    entry = set() if found is None else names_in(found.entry)
    assert not entry & {"b", "kv_len", "q_len", "q_offset", "score"}


@pytest.mark.parametrize(
    ("shape", "score"),
    [
        ("[kv_len]", "t[far]"),
        ("[heads, kv_len]", "t[h, far]"),
        ("[total_kv]", "t[far]"),
        ("[heads]", "t[h] * sin(0.1 * far) * cos(0.1 * far) * head_dim"),
        ("[heads]", "t[h] * sin(0.1 * far) * cos(0.1 * far) * total_kv"),
    ],
)
def test_tables_of_one_call_stay_where_lengths_are_known(shape, score):
    text = BUCKET.replace("bias: {{shape: [heads, 32]", f"t: {{{{shape: {shape}")
    found = tabulate(packed(load_text(f"name: x\n{text.format(score=score)}")))
    read = set() if found is None else tensors_in(found.entry) | names_in(found.entry)
    assert not read & {"t", "head_dim", "total_kv"} or shape == "[heads]"
    assert found is None or not names_in(found.entry) & {"head_dim", "total_kv"}


def test_of_the_shipped_variants_those_with_buckets_are_tabulated():
    variants = {name: load_variant(find_variant(name)) for name in shipped_names()}
    found = {name for name, variant in variants.items() if tabulate(packed(variant)) is not None}
    assert {"t5_bias", "t5_bias_causal"} <= found
    assert not found & {"alibi", "causal", "relative_bias", "full_bias", "distance_score"}
