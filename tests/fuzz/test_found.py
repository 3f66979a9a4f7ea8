"""What campaigns have found, as small as it became, held against float64 since."""

import pytest

from fagen.verify.cases import Case
from fagen.verify.fuzz.draft import Draft
from fagen.verify.fuzz.outcomes import Trial

TILES = tuple((role, 16, 16) for role in ("forward", "dkdv", "dq", "prep"))
PLAIN = Case("fuzz", heads=2, kv_heads=1, q_len=35, kv_len=40, tiles=TILES)


def table(shape, dtype, **more):
    return {"shape": shape, "dtype": dtype, **more}


FOUND = {
    "the key/value head in a walk": {"mask": "0 < q_idx or kv_h == 4"},
    "a comparison of two scalars": {
        "tensors": {"bias": table(["q_len", "heads"], "float32")},
        "mask": "(1 != bias[batch, h]) | (kv_idx >= h)",
    },
    "a number known at compile time as an index": {
        "tensors": {"part": table([2, 32, "batch", "total_kv"], "int32")},
        "mask": "kv_idx <= part[1, head_dim, 0, kv_token] or kv_idx < 3",
    },
    "arithmetic on nothing but head_dim": {
        "mask": "not (head_dim < 8) and head_dim // -3 + kv_idx % head_dim < q_idx + 99"
                " or ~(head_dim == 3)",
        "score": "score * float(head_dim - 3) * 0.1 + exp2(-head_dim / 16) * kv_idx * 0.01"
                 " + abs(-head_dim) * 0.001 * kv_idx + (0.5 if head_dim > 8 else -1.0) * h"
                 " + (head_dim >> 1 ^ 3 | ~head_dim) * kv_idx * 0.001"
                 " + max(head_dim, 4) ** 2 * 0.0001 * kv_idx + int(head_dim * 0.3)",
    },
    "tables without axes": {
        "tensors": {
            "part": table([], "int8"), "seen": table([], "bool"), "bias": table([], "float16"),
            "slot": table([], "uint8", range=[0, 6]), "n": table([], "int32", default="kv_len"),
            "rows": table(["kv_len", 6], "float32"),
        },
        "mask": "q_idx - kv_idx != part or seen or kv_idx * 9 < n",
        "score": "score * bias + rows[kv_idx, slot]",
    },
    "a float parameter made an int": {
        "parameters": {"post": {"type": "float", "default": 2.5}},
        "mask": "abs(q_idx - kv_idx) <= int(post) or q_idx > post",
    },
    "narrow ints beyond their range": {
        "tensors": {"doc": table(["kv_len"], "uint8", range=[0, 200]),
                    "left": table(["q_len"], "int8", range=[-100, 100])},
        "mask": "(doc[kv_idx] - 100) * 7 <= left[q_row] * 5",
        "score": "score + 0.01 * (doc[kv_idx] * 3 - left[kv_idx] * 2)",
    },
    "bools and narrow ints as indices": {
        "tensors": {"at": table(["kv_len"], "int16"), "seen": table(["heads", 3], "bool"),
                    "bias": table([4, "kv_heads"], "float32")},
        "mask": "not seen[h, kv_idx] or kv_idx > q_idx - 9",
        "score": "score + bias[at[kv_idx], int(seen[h, 1])]",
    },
    "a cap that is never left": {"score": "tanh(score + -3.0)"},
    "a sigmoid near one": {"score": "2.0 * sigmoid(score + 6.0)"},
}  # fmt: skip


def outcome_of(worker, mapping, case, seed):
    return worker.run(Trial(Draft((("drawn", {"name": "drawn", **mapping}),)), case, seed))


@pytest.mark.parametrize("what", FOUND)
def test_found(worker, what):
    for seed in (1, 2):
        outcome = outcome_of(worker, FOUND[what], PLAIN, seed)
        assert (outcome.verdict, outcome.message) == ("ok", "")


@pytest.mark.parametrize(
    ("mapping", "case"),
    [
        ({"score": "tanh(score + -3.0)"}, {"q_len": 1, "kv_len": 1}),
        ({"score": "1.0"}, {"q_len": 10, "kv_len": 47, "loss": "sum"}),
        ({}, {"q_len": 74, "kv_len": 74, "loss": "sum", "dtype": "float16"}),
        ({"mask": "kv_idx < 5"}, {"q_len": 60, "loss": "sum", "dtype": "float16"}),
    ],
    ids=["one saturated pair", "equal weights", "equal columns", "few heavy columns"],
)
def test_found_in_the_budget(worker, mapping, case):
    """Where all roundings fall alike they add up, and that is no fault of a kernel."""
    fields = {**vars(PLAIN), "heads": 1, **case}
    for seed in range(3):
        outcome = outcome_of(worker, mapping, Case(**fields), seed)
        assert (outcome.verdict, outcome.message) == ("ok", "")
