"""What is kept on disk is the trial itself."""

import json

import pytest

from fagen.verify.fuzz.campaign import draw_trial
from fagen.verify.fuzz.outcomes import Outcome, Trial
from fagen.verify.fuzz.record import load, save


@pytest.mark.parametrize("seed", range(40))
def test_a_kept_trial_is_the_same(seed, tmp_path):
    trial = draw_trial(seed, "cpu")
    path = save(tmp_path, trial, Outcome("wrong", "call", "out: differs"), drawn_from=seed)
    kept = load(path)
    assert kept == trial
    assert json.loads(path.read_text())["message"] == "out: differs"


@pytest.mark.parametrize("seed", range(10))
def test_a_trial_survives_json(seed):
    trial = draw_trial(seed, "cuda")
    assert Trial.from_json(json.loads(json.dumps(trial.to_json()))) == trial


def test_an_edited_file_is_what_is_repeated(tmp_path):
    path = save(tmp_path, draw_trial(1, "cpu"), Outcome("ok"))
    (tmp_path / "drawn.yaml").write_text("name: drawn\nmask: kv_idx > 3\n")
    assert load(path).draft.files[-1][1] == {"name": "drawn", "mask": "kv_idx > 3"}


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"files": ["nothing.yaml"]}'])
def test_what_is_no_record_is_refused(content, tmp_path):
    path = tmp_path / "drawn.json"
    path.write_text(content)
    with pytest.raises((OSError, ValueError, KeyError, TypeError)):
        load(path)
