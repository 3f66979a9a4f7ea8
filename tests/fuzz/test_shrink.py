"""Shrinking keeps what fails and drops the rest, whatever is wrong."""

from fagen.spec.errors import SpecErrors
from fagen.verify.cases import Case
from fagen.verify.fuzz.campaign import draw_trial
from fagen.verify.fuzz.draft import Draft
from fagen.verify.fuzz.outcomes import Outcome, Trial
from fagen.verify.fuzz.shrink import shrink
from fagen.verify.fuzz.smaller import expressions

WRONG = Outcome("wrong", "call", "out: differs")


def failing_where(condition, folder):
    """A run that accepts only legal drafts and fails where the condition holds."""

    def run(trial):
        try:
            variant = trial.draft.load(folder)
        except SpecErrors:
            return Outcome("refused", "spec")
        return WRONG if condition(variant, trial.case) else Outcome("ok")

    return run


def small(mapping, condition, folder, case=None):
    trial = Trial(Draft((("drawn", mapping),)), case or Case("fuzz", q_len=70, kv_len=80), 1)
    return shrink(trial, WRONG, failing_where(condition, folder), seconds=60.0)


def test_one_operation_is_left_of_many(tmp_path):
    mapping = {
        "name": "drawn",
        "parameters": {"cap": {"type": "float", "default": 2.0, "min": 0.5}},
        "tensors": {"bias": {"shape": ["heads", "kv_len"], "dtype": "float16"}},
        "let": {"far": "q_idx - kv_idx", "soft": "cap * tanh(score / cap)"},
        "functions": {"past(q, kv)": "kv <= q"},
        "mask": "past(q_idx, kv_idx) and any(far != i for i in range(3))",
        "score": "soft + bias[h, kv_idx] * (2.0 if far > 3 else sigmoid(score))",
        "softmax": {"sink": "1.0"},
    }
    found = small(mapping, lambda v, c: "sigmoid" in v.canonical(), tmp_path)
    ((_, left),) = found.draft.files
    assert left == {"name": "drawn", "score": left["score"]}
    assert left["score"] in ("sigmoid(score)", "sigmoid(0)", "sigmoid(q_idx)")
    assert (found.case.q_len, found.case.kv_len, found.case.heads) == (1, 1, 1)


def test_what_the_failure_needs_stays(tmp_path):
    mapping = {
        "name": "drawn",
        "tensors": {"doc": {"shape": ["kv_len"], "dtype": "uint8", "range": [0, 9]}},
        "mask": "kv_idx <= q_idx or doc[kv_idx] == doc[q_idx] and kv_idx % 3 != 0",
    }
    case = Case("fuzz", heads=4, kv_heads=2, q_len=70, kv_len=80, dtype="float16", loss="sum")
    found = small(
        mapping, lambda v, c: "uint8" in v.canonical() and c.q_len > 20 and c.loss == "sum",
        tmp_path, case,
    )  # fmt: skip
    ((_, left),) = found.draft.files
    assert left["tensors"] == {"doc": {"shape": ["kv_len"], "dtype": "uint8"}}
    assert len(left["mask"]) <= len("kv_idx == doc[q_idx]")
    assert found.case.q_len == 21 and found.case.kv_len == 1 and found.case.loss == "sum"
    assert (found.case.heads, found.case.dtype) == (1, "float32")


def test_a_child_and_its_parent_become_one_file(tmp_path):
    parent = {"name": "parent", "score": "tanh(score)", "mask": "kv_idx <= q_idx"}
    child = {"name": "drawn", "extends": "parent", "score": "inherited * 2.0 + kv_idx"}
    trial = Trial(Draft((("parent", parent), ("drawn", child))), Case("fuzz"), 1)
    run = failing_where(lambda v, c: "tanh" in v.canonical(), tmp_path)
    found = shrink(trial, WRONG, run, seconds=60.0)
    ((_, left),) = found.draft.files
    assert set(left) == {"name", "score"} and "tanh" in left["score"] and len(left["score"]) < 15


def test_another_failure_is_not_taken_for_the_same(tmp_path):
    crashed = Outcome("crashed", "render", "KeyError: 'a'")
    trial = draw_trial(3, "cpu")
    text = trial.draft.texts()

    def run(candidate):
        same = candidate.draft.texts() == text
        return crashed if same else Outcome("crashed", "render", "IndexError: b")

    assert shrink(trial, crashed, run, seconds=5.0).draft == trial.draft


def test_every_expression_of_a_draft_is_found():
    mapping = {
        "name": "x", "mask": "a", "score": "b", "scale": "c", "softmax": {"sink": "d"},
        "let": {"l": "e"}, "functions": {"f(x)": "g"},
        "tensors": {"t": {"shape": [], "dtype": "bool", "default": "h"}},
    }  # fmt: skip
    assert [text for _, text in expressions(mapping)] == list("abcdegh")
