"""A comparison of floats that hangs on a rounding is told from one that does not."""

import pytest

from fagen.spec.load import load_text
from fagen.verify.cases import Case
from fagen.verify.fuzz.settled import is_settled
from fagen.verify.inputs import draw

CASE = Case("fuzz", heads=1, q_len=20, kv_len=30)


@pytest.mark.parametrize(
    ("text", "settled"),
    [
        ("mask: kv_idx <= q_idx", True),
        ("mask: kv_idx * 0.5 <= q_idx", True),
        ("mask: kv_idx % 3 / 3.0 * 3.0 < 1.0", False),
        ("score: score if q_idx * 0.1 >= kv_idx * 0.3 else 0.0", False),
        ("score: floor(score * 0.0 + 0.5)", True),
        ("score: floor(sqrt(4.0 + score * 0.0))", False),
        ("score: 1.0 * int(tanh(score))", True),
        ("score: max(score, 0.0)", True),
        ("softmax: {sink: floor(log2(8.0 + h))}", False),
    ],
)
def test_decisions(text, settled):
    variant = load_text(f"name: x\n{text}\n")
    assert is_settled(draw(variant, CASE, "cpu", 3), CASE) is settled
