"""A table of what is accepted and what it means, in the language's own text."""

from __future__ import annotations

import pytest

from fagen.spec.errors import SpecErrors
from fagen.spec.expr import TRUE
from fagen.spec.load import load_text
from fagen.spec.scale import signs
from fagen.spec.text import to_text
from fagen.spec.variant import SCORE, Parameter, Tensor

PREAMBLE = """\
name: x
parameters:
  window: {type: int, default: 16, min: 1}
  cap: {type: float, default: 2}
  flag: {type: bool, default: true}
  tile: {type: int, default: 128, static: true}
  wide: {type: bool, default: false, static: true}
tensors:
  slopes: {shape: [heads], dtype: float32}
  doc: {shape: [batch, kv_len], dtype: int64}
  row: {shape: [batch, 3], dtype: int32}
  one: {shape: [], dtype: float16}
  grid: {shape: [width, tile], dtype: bool}
let:
  distance: q_idx - kv_idx
  far: abs(distance)
  everything: window + int(cap) + int(flag) + doc[b, 0] + row[b, 0] + int(slopes[h] + one)
  all_of_it: flag and everything > tile and grid[0, 0] or wide
functions:
  causal(q, kv): q >= kv
  local(q_idx, kv_idx): causal(q_idx % window, kv_idx % window)
"""
# Uses every declaration, so that each case may use as few as it likes.
USE = " and (kv_idx >= 0 or all_of_it or everything > 0)"

MASKS = [
    ("0 <= distance < window", "0 <= q_idx - kv_idx and q_idx - kv_idx < window"),
    ("0 < h == 3 != b", "0 < h and h == 3 and 3 != b"),
    ("not q_idx < kv_idx", "not q_idx < kv_idx"),
    ("flag == (h > 1)", "flag == (h > 1)"),
    ("flag & ~grid[h, b]", "flag & ~grid[h, b]"),
    ("h in row[b, :]", "h == row[b, 0] or h == row[b, 1] or h == row[b, 2]"),
    ("h not in row[b, :]", "not (h == row[b, 0] or h == row[b, 1] or h == row[b, 2])"),
    ("any(h == 2 * i for i in range(3))", "h == 0 or h == 2 or h == 4"),
    (
        "all(any(h == i + j for j in range(2)) for i in range(2))",
        "(h == 0 or h == 1) and (h == 1 or h == 2)",
    ),
    ("sum(row[b, i] for i in range(3)) > 0", "row[b, 0] + row[b, 1] + row[b, 2] > 0"),
    ("any(h == i for i in range(0)) or flag", "flag"),
    ("sum(h for i in range(0)) == h", "0 == h"),
    ("h == 7 if wide else b == 7", "b == 7"),
    ("wide and h == 1 or b == 2", "b == 2"),
    ("local(q_idx, kv_idx)", "q_idx % window >= kv_idx % window"),
    ("local(kv_idx, q_idx)", "kv_idx % window >= q_idx % window"),
    ("q_idx // tile == kv_idx // tile", "q_idx // 128 == kv_idx // 128"),
    ("q_idx // (h + 1) == kv_len % q_len", "q_idx // (h + 1) == kv_len % q_len"),
    ("q_idx // max(doc[b, 0], 1) > 0", "q_idx // max(doc[b, 0], 1) > 0"),
    ("q_idx // -2 == -7 // 2", "q_idx // -2 == -4"),
    ("q_idx // width == 0", "q_idx // width == 0"),
    ("(doc[b, kv_idx] >> (h & 0x1F)) & 1 == 1", "doc[b, kv_idx] >> (h & 31) & 1 == 1"),
    ("q_idx > -2147483648", "q_idx > -2147483648"),
    ("h ** 2 > 3 ** 2", "h * h > 9"),
    ("h ** 0 == 1 and h ** 1 == 1", "h == 1"),
    ("min(h, b, 3) == max(1, 2, h)", "min(min(h, b), 3) == max(2, h)"),
    ("1.5 < h", "1.5 < h"),
]


def mask_of(text: str) -> str:
    variant = load_text(f"{PREAMBLE}mask: >-\n  ({text}){USE}\n")
    assert variant.mask.op == "and"
    return to_text(variant.mask.args[0])


@pytest.mark.parametrize(("text", "meaning"), MASKS)
def test_a_mask_means(text: str, meaning: str) -> None:
    expected = load_text(f"{PREAMBLE}mask: >-\n  ({meaning}){USE}\n").mask
    assert mask_of(text) == meaning
    assert load_text(f"{PREAMBLE}mask: >-\n  ({text}){USE}\n").mask is expected


@pytest.mark.parametrize("text", ["yes", "On", "true", "'True'", "True", "h == h or True"])
def test_a_mask_may_be_everything(text: str) -> None:
    assert load_text(f"name: x\nmask: {text}\n").mask is TRUE


SCORES = [
    ("0.5", "0.5"),
    ("1", "1.0"),
    ("-.inf", "-inf"),
    ("-inf", "-inf"),
    (".5", "0.5"),
    ("score", "score"),
    ("score * 2", "score * 2.0"),
    ("q_idx - kv_idx", "float(q_idx - kv_idx)"),
    ("(q_idx - kv_idx) * 0.1", "(q_idx - kv_idx) * 0.1"),
    ("score if h > 2 else 0", "score if h > 2 else 0.0"),
    ("float(h) / 2", "h / 2.0"),
    ("score ** 2", "score ** 2.0"),
    ("h ** 0.5 * score", "h ** 0.5 * score"),
    ("h ** -1 + score", "h ** (-1.0) + score"),
    ("where(h > 2, score, 1)", "score if h > 2 else 1.0"),
    ("min(score, 2, h)", "min(min(score, 2.0), h)"),
    ("clamp(score, -50, 50)", "clamp(score, -50.0, 50.0)"),
    ("exp2(3)", "8.0"),
    ("+score - -score", "score - -score"),
    ("floor(score) + sigmoid(score) + rsqrt(4)", "floor(score) + sigmoid(score) + 0.5"),
    ('"score # no comment"', "score"),
    ("|\n  score *  # base\n    2\n", "score * 2.0"),
]


@pytest.mark.parametrize(("text", "meaning"), SCORES)
def test_a_score_means(text: str, meaning: str) -> None:
    score = load_text(f"name: x\nscore: {text}\n").score
    assert to_text(score) == meaning
    assert score.type == "float"


def test_declarations_become_values() -> None:
    variant = load_text(
        f"{PREAMBLE}mask: kv_idx >= 0{USE}\nscale: cap / head_dim\nposition: start\n"
    )
    assert variant.parameters == (
        Parameter("window", "int", 16, 1),
        Parameter("cap", "float", 2.0),
        Parameter("flag", "bool", True),
    )
    assert isinstance(variant.parameter("cap").default, float)
    shapes = {t.name: t.shape for t in variant.tensors}
    assert shapes == {
        "slopes": ("heads",), "doc": ("batch", "kv_len"), "row": ("batch", 3), "one": (),
        "grid": ("width", 128),
    }  # fmt: skip
    assert variant.position == "start" and to_text(variant.scale) == "cap / head_dim"
    assert variant.score is SCORE


def test_a_static_flag_takes_its_dead_branch_and_arguments_along() -> None:
    text = """\
name: x
parameters:
  local: {type: bool, default: false, static: true}
  window: {type: int, default: 3}
mask: q_idx - kv_idx < window if local else kv_idx <= q_idx
"""
    assert load_text(text).parameters == ()
    assert to_text(load_text(text).mask) == "kv_idx <= q_idx"
    assert load_text(text.replace("false", "true")).parameters == (Parameter("window", "int", 3),)


def test_tensors_keep_their_promises_and_defaults() -> None:
    variant = load_text("""\
name: x
tensors:
  slopes: {shape: [heads], dtype: float32, default: "exp2(-8 * (h + 1) / heads)"}
  start: {shape: [batch, kv_len], dtype: int32, nondecreasing: true, range: [0, 100]}
  ids: {shape: [kv_len], dtype: int32, default: kv_idx // 4}
mask: start[b, q_idx] <= kv_idx and ids[q_idx] == ids[kv_idx]
score: score + slopes[h]
""")
    slopes, start, ids = variant.tensors
    assert to_text(slopes.default) == "exp2(-8 * (h + 1) / heads)"
    assert start == Tensor("start", ("batch", "kv_len"), "int32", None, True, (0, 100))
    assert to_text(ids.default) == "kv_idx // 4"


def test_int_bounds_are_capped_to_positions() -> None:
    text = "name: x\nparameters: {w: {type: int, default: 1, min: -9e9, max: 9}}\nmask: h < w\n"
    text = text.replace("-9e9", "-9000000000")
    assert load_text(text).parameters == (Parameter("w", "int", 1, -(2**28), 9),)


def test_a_child_changes_what_it_names(tmp_path) -> None:
    (tmp_path / "parent.yaml").write_text("""\
name: parent
description: The parent.
parameters:
  window: {type: int, default: 4, min: 1}
  cap: {type: float, default: 2.0}
let: {distance: q_idx - kv_idx}
functions: {"near(d)": d < window}
mask: distance >= 0 and near(distance)
score: score * cap
""")
    child = """\
name: child
extends: parent.yaml
parameters: {window: {default: 9}}
functions: {"near(x)": x <= window}
mask: inherited or kv_idx == 0
"""
    variant = load_text(child, str(tmp_path / "child.yaml"))
    assert variant.name == "child" and variant.description == ""
    assert variant.parameter("window") == Parameter("window", "int", 9, 1)
    expected = "q_idx - kv_idx >= 0 and q_idx - kv_idx <= window or kv_idx == 0"
    assert to_text(variant.mask) == expected
    assert to_text(variant.score) == "score * cap"
    # What only the parent declared goes when the child no longer uses it.
    plain = load_text(
        child + "score: inherited\n".replace("inherited", "score"), str(tmp_path / "c")
    )
    assert [p.name for p in plain.parameters] == ["window"]
    twice = "name: grandchild\nextends: child\nscore: inherited + 1\nmask: not inherited\n"
    (tmp_path / "child.yaml").write_text(child)
    grandchild = load_text(twice, str(tmp_path / "grandchild.yaml"))
    assert to_text(grandchild.mask) == f"not ({expected})"
    assert to_text(grandchild.score) == "score * cap + 1.0"


def test_inherited_of_a_parent_without_mask_is_everything(tmp_path) -> None:
    (tmp_path / "parent.yaml").write_text("name: parent\n")
    text = "name: x\nextends: parent\nmask: inherited and h > 1\nscore: inherited * 2\n"
    variant = load_text(text, str(tmp_path / "child.yaml"))
    assert to_text(variant.mask) == "h > 1"
    assert to_text(variant.score) == "score * 2.0"


def test_numbers_are_pythons_not_yaml_1_1s() -> None:
    text = "name: x\nparameters: {w: {type: float, default: 1e-3, max: 0x10}}\nscore: score * w\n"
    assert load_text(text).parameters == (Parameter("w", "float", 1e-3, None, 16.0),)


def test_equal_files_have_equal_hashes_and_others_do_not() -> None:
    text = "name: x\nmask: kv_idx <= q_idx\nscore: {}\n"
    assert load_text(text.format("score")).hash == load_text("# c\n" + text.format("'score'")).hash
    hashes = {load_text(text.format(s)).hash for s in ("score", "score * 1", "float(h)", "h + 0")}
    assert len(hashes) == 4


SCALES = [
    ("-1", {-1}),
    ("rsqrt(head_dim)", {1}),
    ("64 - head_dim", {1, -1}),
    ("1.0 if head_dim == 96 else 0.0", {1}),
    ("cap / head_dim", {1, -1}),
    ("0.0 if cap == 12345.0 else -1e-40", None),
    ("1.0 if cap == 12345.0 else -1e-40", {1}),
    ("exp(-abs(cap))", {1}),
    ("-exp(cap)", {-1}),
    ("2.0 ** (-100)", {1}),
]


@pytest.mark.parametrize(("text", "expected"), SCALES)
def test_a_scale_may_have_the_signs(text: str, expected: set[int] | None) -> None:
    source = f"name: x\nparameters: {{cap: {{type: float, default: 2}}}}\nscale: {text}\n"
    source += "score: score + cap\n"
    if expected is None:
        with pytest.raises(SpecErrors, match=r"never from 2\*\*-100"):
            load_text(source)
        return
    variant = load_text(source)
    assert signs(variant.scale, variant.parameters) == expected


def test_bounds_of_parameters() -> None:
    assert Parameter("x", "float", 0.0).bounds == (-(2.0**100), 2.0**100)
    assert Parameter("x", "float", 1, 0, 8).bounds == (0.0, 8.0)
    assert Parameter("x", "int", 1, 0, 2**40).bounds == (0, 2**28)
    assert Parameter("x", "bool", True).bounds == (False, True)


def test_infinity_may_be_baked_in() -> None:
    text = "name: x\nparameters: {c: {type: float, default: .inf, static: true}}\nscore: score * c"
    assert to_text(load_text(text).score) == "score * inf"
