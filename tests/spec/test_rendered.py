"""What a person sees: errors exactly as they are printed, and all of a file together."""

from __future__ import annotations

import pytest

from fagen.spec.errors import Diagnostic, SpecErrors
from fagen.spec.load import load_text


def rendered(text: str) -> str:
    with pytest.raises(SpecErrors) as caught:
        load_text(text, "variants/mine.yaml")
    return str(caught.value)


CASES = [
    (
        """\
name: sliding_window
parameters:
  window: {type: int, default: 4096, min: 1}
mask: q_idx - kv_ix < window
""",
        """\
error: unknown name `kv_ix` in `mask`
  variants/mine.yaml:4:15
    mask: q_idx - kv_ix < window
                  ^^^^^
hint: did you mean `kv_idx`?""",
    ),
    (
        """\
name: x
parameters:
  window: {type: int, default: 4, mim: 1}
maks: True
mask: 0 <= distance < window
let:
  distance: q_idx - kv_id
score: |
  score +
    # a comment may say anything: \N{LATIN SMALL LETTER E WITH ACUTE} ( [
    foo(q_idx, 1.5e99)
""",
        """\
error: unknown key `mim` in `parameters.window`
  variants/mine.yaml:3:35
      window: {type: int, default: 4, mim: 1}
                                      ^^^
hint: did you mean `min`?

error: unknown key `maks`
  variants/mine.yaml:4:1
    maks: True
    ^^^^
hint: did you mean `mask`?

error: unknown name `kv_id` in `distance`
  variants/mine.yaml:7:21
      distance: q_idx - kv_id
                        ^^^^^
hint: did you mean `kv_idx`?

error: unknown function `foo` in `score`
  variants/mine.yaml:11:5
        foo(q_idx, 1.5e99)
        ^^^
hint: did you mean `floor`?

error: floats are float32; this one does not fit
  variants/mine.yaml:11:16
        foo(q_idx, 1.5e99)
                   ^^^^^^
hint: write `inf`""",
    ),
    (
        """\
name: x
let: {soft: score * 2}
mask: soft > 0 and kv_idx
""",
        """\
error: `soft` depends on `score`, which may not occur in `mask`
  variants/mine.yaml:3:7
    mask: soft > 0 and kv_idx
          ^^^^
hint: a mask says which keys count, whatever they score

error: `and` needs bools, not an int
  variants/mine.yaml:3:20
    mask: soft > 0 and kv_idx
                       ^^^^^^""",
    ),
    (
        "name: x\nmask: a: b\n",
        """\
error: invalid YAML: mapping values are not allowed here
  variants/mine.yaml:2:8
    mask: a: b
           ^
hint: put quotes around an expression that contains `: `""",
    ),
    (
        "name: x\nmask: kv_idx <= q_idx\nname: y\n",
        """\
error: key `name` occurs twice
  variants/mine.yaml:3:1
    name: y
    ^^^^
hint: the first one is on line 1; keep one of them""",
    ),
    (
        "mask: kv_idx <= q_idx\n",
        """\
error: the variant has no `name`
  variants/mine.yaml
hint: add `name: ...`""",
    ),
    (
        "",
        """\
error: the file is empty
  variants/mine.yaml
hint: `fagen new NAME` writes a file to start from""",
    ),
    (
        """\
name: x
tensors:
  slopes: {shape: [heads], dtype: float32}
  bias: {shape: [heads, q_len], dtype: float32}
score: score - slopes[h, q_idx]
""",
        """\
error: tensor `bias` is never used
  variants/mine.yaml:4:3
      bias: {shape: [heads, q_len], dtype: float32}
      ^^^^
hint: remove it, or use it in an expression

error: `slopes` [heads] has 1 axis but is read with 2 indices
  variants/mine.yaml:5:16
    score: score - slopes[h, q_idx]
                   ^^^^^^^^^^^^^^^^""",
    ),
    (
        "name: x\nscore: \"it \\u2264 'x'\"\n",
        """\
error: `\N{LESS-THAN OR EQUAL TO}` is not part of the language
  variants/mine.yaml:2:12
    score: "it \\u2264 'x'"
               ^
hint: write `<=`""",
    ),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_errors_are_printed_exactly_so(text: str, expected: str) -> None:
    assert rendered(text) == expected


def test_the_errors_of_a_parent_carry_its_own_path(tmp_path) -> None:
    (tmp_path / "parent.yaml").write_text("name: parent\nmask: kv_id <= q_idx\n")
    child = tmp_path / "child.yaml"
    with pytest.raises(SpecErrors) as caught:
        load_text("name: child\nextends: parent\nscore: scor\n", str(child))
    places = [(d.path, d.line, d.column) for d in caught.value.diagnostics]
    assert places == [(str(child), 3, 8), (str(tmp_path / "parent.yaml"), 2, 7)]


def test_a_caret_stands_under_wide_characters_and_long_lines() -> None:
    wide = Diagnostic("m", "p", 1, 3, 2, "\u6f22\u5b57ab c")
    assert str(wide).splitlines()[-1] == "    " + " " * 4 + "^^"
    long = Diagnostic("m", "p", 1, 301, 3, "x" * 300 + "abc" + "y" * 300)
    line, caret = str(long).splitlines()[2:4]
    assert line.startswith("    ...x") and line.endswith("y...")
    assert line[caret.index("^") : caret.rindex("^") + 1] == "abc"
    assert len(line) < 120


def test_unprintable_characters_never_reach_the_terminal() -> None:
    shown = str(Diagnostic("a\x1b[31m", "p\n", 1, 2, 1, "\tx\x07\ud800"))
    assert "\x1b" not in shown and "\x07" not in shown and "\ud800" not in shown
    assert shown.count("\n") == 3
