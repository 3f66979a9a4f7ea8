"""A fault planted in a rendered module does not pass the fuzzer's check."""

from dataclasses import replace

import pytest
from planted import Altered

from fagen.verify.cases import Case
from fagen.verify.fuzz.crew import Worker
from fagen.verify.fuzz.draft import Draft
from fagen.verify.fuzz.outcomes import FAULTS

#: With a band, a remainder, guarded reads below and above, a cap, a row term and a sink.
RICH = {
    "name": "planted",
    "parameters": {
        "window": {"type": "int", "default": 20, "min": 1},
        "cap": {"type": "float", "default": 2.0, "min": 0.1},
    },
    "tensors": {
        "doc": {"shape": ["kv_len"], "dtype": "int32"},
        "bias": {"shape": ["heads", "kv_len"], "dtype": "float32"},
        "lift": {"shape": ["q_len"], "dtype": "float32"},
    },
    "mask": "0 <= q_idx - kv_idx < window and (q_idx - 3 * kv_idx) % 5 != doc[q_idx + 2]",
    "score": "cap * tanh(score / cap) + bias[h, kv_idx - 1] + lift[q_row]",
    "softmax": {"sink": "0.5 * h"},
}
#: Full tiles, and dkdv tiles that need no mask.
PLAIN = {"name": "planted", "mask": "kv_idx <= q_idx + 20"}
FOUR = tuple((role, 16, 16) for role in ("forward", "dkdv", "dq", "prep"))
CASE = Case("fuzz", heads=2, kv_heads=1, q_len=50, kv_len=45, tiles=FOUR, tables="nan_padded")

FAULTY = {
    "a bound off by one": (RICH, r"kv_idx <= q_idx\b", "kv_idx < q_idx"),
    "a window one key longer": (RICH, r"kv_idx > difference", "kv_idx >= difference"),
    "a guard below dropped": (RICH, r"\(difference >= 0\) & (\(difference < kv_len\))", r"\1"),
    "a guard above dropped": (RICH, r"(\(total >= 0\)) & \(total < kv_len\)", r"\1"),
    "a remainder as in C": (RICH, r"return tl\.where\(\(remainder != 0\).*", "return remainder"),
    "a row term forgotten in lse": (RICH, r"\n    lse \+= row_term", ""),
    "a sink forgotten": (RICH, r" \+ tl\.exp2\(sink_2 - shift\)", ""),
    "a constant with three digits": (RICH, r"1\.4426950408889634 \* cap", "1.443 * cap"),
    "a slope without its square": (RICH, r"1\.0 - tanh_2 \* tanh_2", "1.0 - tanh_2"),
    "no gradient of lse": (RICH, r"delta -= tl\.load", "delta -= 0 * tl.load"),
    "a tile too few": (PLAIN, r"\bstop = tl\.maximum\((.*), (\w+)\)",
                       r"stop = tl.maximum(\1 - 1, \2)"),
    "a key past the end": (PLAIN, r"kv_column < kv_len", "kv_column <= kv_len"),
    "heads of another group": (PLAIN, r"kv_h = h // \(heads // kv_heads\)", "kv_h = h % kv_heads"),
    "full tiles that are not": (PLAIN, r"full_stop = tl\.maximum\(", "full_stop = 1 + tl.maximum("),
    "a maximum not carried over": (RICH, r"running_sum \* correction \+", "running_sum +"),
    "dk without the scale": (PLAIN, r"dk = scale_tile\(dk, scale\)", "dk = scale_tile(dk, 1.0)"),
    "dv of rounded weights": (PLAIN, r"dv = accumulate\(dv, p, dout\)",
                              "dv = accumulate(dv, p.to(tl.float16).to(tl.float32), dout)"),
    "a dense function with another mask": (PLAIN, r"(score = torch\.where\(kv_idx) <=", r"\1 <"),
}  # fmt: skip


@pytest.fixture(scope="module")
def planting(runnable_folder):
    with Worker("cpu", module="planted") as worker:
        yield worker


def trial(mapping, *edits):
    case = CASE if mapping is RICH else replace(CASE, heads=4, kv_heads=2)
    return Altered(Draft((("planted", mapping),)), case, 5, edits=edits)


@pytest.mark.parametrize("mapping", [RICH, PLAIN], ids=["rich", "plain"])
def test_without_a_fault_both_pass(planting, mapping):
    outcome = planting.run(trial(mapping))
    assert (outcome.verdict, outcome.message) == ("ok", "")


@pytest.mark.parametrize("fault", FAULTY)
def test_a_planted_fault_is_seen(planting, fault):
    mapping, pattern, replacement = FAULTY[fault]
    outcome = planting.run(trial(mapping, (pattern, replacement)))
    assert outcome.verdict in FAULTS, fault
    assert "nothing to plant" not in outcome.message, outcome.message
