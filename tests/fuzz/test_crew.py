"""A trial that dies or hangs is an outcome, and the next one runs."""

import pytest

from fagen.device.pool import NoWorker
from fagen.verify.cases import Case
from fagen.verify.fuzz.crew import Worker
from fagen.verify.fuzz.draft import Draft
from fagen.verify.fuzz.outcomes import Trial


def trial(seed):
    return Trial(Draft((("drawn", {"name": "drawn"}),)), Case("fuzz"), seed)


@pytest.fixture
def stub(runnable_folder):
    with Worker("cpu", limit=20.0, module="stub") as worker:
        yield worker


def test_a_process_serves_many_trials(stub):
    outcomes = [stub.run(trial(0)) for _ in range(3)]
    assert [o.verdict for o in outcomes] == ["ok"] * 3
    assert outcomes[0].features == ("ran",) and stub.trials == 3


def test_one_that_dies_costs_its_trial(stub):
    outcome = stub.run(trial(1))
    assert outcome.verdict == "crashed" and outcome.is_fault
    assert "exit 9" in outcome.message and "last words" in outcome.message
    assert stub.run(trial(0)).verdict == "ok"


def test_one_that_hangs_is_ended(stub):
    stub.run(trial(0))
    stub.limit = 0.5
    outcome = stub.run(trial(2))
    assert outcome.verdict == "timed_out" and "0.5 seconds" in outcome.message
    stub.limit = 20.0
    assert stub.run(trial(0)).verdict == "ok"


def test_one_that_cannot_start_says_why():
    with Worker("cpu", module="no_such_module") as worker, pytest.raises(NoWorker) as error:
        worker.run(trial(0))
    assert "no_such_module" in str(error.value)


def test_nothing_is_left_running(stub):
    stub.run(trial(0))
    process = stub.process
    stub.close()
    assert process.poll() is not None
