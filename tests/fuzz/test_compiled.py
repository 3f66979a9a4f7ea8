"""Kernels of a draft are compiled without a GPU, and what the compiler refuses is an outcome."""

import pytest

from fagen.device.outcome import Result
from fagen.verify.cases import Case
from fagen.verify.fuzz import compiled
from fagen.verify.fuzz.draft import Draft
from fagen.verify.fuzz.outcomes import Trial

TRIAL = Trial(Draft((("drawn", {"name": "drawn", "mask": "kv_idx <= q_idx"}),)), Case("fuzz"), 1)


@pytest.mark.slow
def test_a_legal_draft_compiles():
    outcome = compiled.compile_trial(TRIAL, "sm_90")
    assert (outcome.verdict, outcome.message) == ("ok", "")


def test_what_the_compiler_says_is_kept(monkeypatch):
    said = Result("compile_failed", "at 3:4:\n  for tile in x:\nAssertionError('int64')\n")
    monkeypatch.setattr(
        compiled, "compile_builds", lambda v, k, m, builds, **o: [said] * len(builds)
    )
    outcome = compiled.compile_trial(TRIAL, "sm_90")
    assert outcome.is_fault and outcome.stage == "compile"
    assert outcome.message.startswith("AssertionError('int64') (forward, sm_90)\nat 3:4:")


def test_a_config_that_does_not_fit_is_no_fault(monkeypatch):
    large = Result("too_much_shared", "needs more")
    monkeypatch.setattr(
        compiled, "compile_builds", lambda v, k, m, builds, **o: [large] * len(builds)
    )
    assert compiled.compile_trial(TRIAL, "sm_90").verdict == "ok"
