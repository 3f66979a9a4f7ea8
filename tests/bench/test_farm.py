"""Workers that raise, die or hang cost the job they had, and nothing else."""

from __future__ import annotations

import importlib
import time
from pathlib import Path

import pytest

from fagen.bench.farm import farm, one_line


@pytest.fixture
def act(monkeypatch):
    # A spawned worker imports the job's function by name along this process's sys.path.
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    return importlib.import_module("farm_jobs").act


def test_answers_come_in_the_order_of_the_jobs(act):
    answers = farm(act, [("square", n) for n in range(7)], workers=2)
    assert [answer.value for answer in answers] == [0, 1, 4, 9, 16, 25, 36]
    assert all(answer.error is None for answer in answers)


def test_an_error_is_an_answer_in_one_line(act):
    answers = farm(act, [("raise", 5), ("square", 3)], workers=1)
    assert answers[0].error == "ValueError: no 5 second line"
    assert answers[1].value == 9


def test_a_dying_worker_costs_its_own_job(act):
    seen = []
    answers = farm(
        act,
        [("square", 2), ("die", 3), ("square", 4), ("square", 5)],
        workers=1,
        on_answer=lambda index, answer: seen.append(index),
    )
    assert answers[1].error == "worker died with exit code 3"
    assert [answers[i].value for i in (0, 2, 3)] == [4, 16, 25]
    assert seen == [0, 1, 2, 3]


def test_a_lost_context_retires_its_worker(act):
    answers = farm(act, [("pid", 0), ("fatal", 0), ("pid", 0)], workers=1)
    assert "illegal memory access" in answers[1].error
    assert f"process {answers[0].value}" in answers[1].error
    assert answers[2].value not in (None, answers[0].value)


def test_a_hanging_job_ends_with_the_time_and_the_rest_is_not_tried(act):
    start = time.monotonic()
    answers = farm(
        act, [("square", 2), ("sleep", 60), ("square", 3)], workers=1, seconds=4.0, grace=0.5
    )
    assert time.monotonic() - start < 20
    assert answers[0].value == 4
    assert [answer.error for answer in answers[1:]] == ["not tried: out of time"] * 2


def test_no_time_starts_nothing(act):
    assert farm(act, [("square", 2)], workers=1, seconds=-1.0)[0].error == "not tried: out of time"


def test_the_turn_of_a_dead_worker_stops_nobody(act):
    jobs = [("die holding the turn", 1), ("take the turn", 0.2)]
    answers = farm(act, jobs, workers=1)
    assert answers[0].error == "worker died with exit code 1"
    assert answers[1].value == "went on"


def test_no_jobs():
    assert farm(max, [], workers=3) == []


def test_a_long_error_is_cut():
    assert len(one_line(ValueError("x" * 1000), width=40)) == 40
