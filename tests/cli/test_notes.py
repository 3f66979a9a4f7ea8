"""Keys that have no effect yet are said to have none."""

from __future__ import annotations

import json

import pytest

NO_EFFECT = """\
name: x
partition: fa3
passes: [forward, decode]
tuning: {problems: [{batch: 1, heads: 1, q_len: 1, head_dim: 64}]}
"""


@pytest.mark.parametrize(
    "arguments", [["build", "x.yaml"], ["build", "x.yaml", "--check"], ["explain", "x.yaml"]],
    ids=" ".join,
)  # fmt: skip
def test_what_has_no_effect_is_said(fagen, quick, tmp_path, arguments):
    (tmp_path / "x.yaml").write_text(NO_EFFECT)
    _, out, err = fagen(*arguments)
    for line, word in (
        (2, "`partition: fa3`"), (3, "`passes`"), (4, "`tuning`"),
    ):  # fmt: skip
        assert f"note: {word} has no effect yet: " in err and f"x.yaml:{line}:1" in err
        assert word not in out
    data = json.loads(fagen(*arguments, "--json")[1])
    (entry,) = data.get("modules") or data["variants"]
    assert [note.split("`")[1] for note in entry["notes"]] == [
        "partition: fa3", "passes", "tuning",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["partition: fa2", "passes: [backward, forward]", ""])
def test_what_is_as_asked_needs_no_note(fagen, quick, tmp_path, text):
    (tmp_path / "x.yaml").write_text(f"name: x\n{text}\n")
    _, _, err = fagen("build", "x.yaml")
    assert "note" not in err
    (module,) = json.loads(fagen("build", "x.yaml", "--json")[1])["modules"]
    assert module["notes"] == []
