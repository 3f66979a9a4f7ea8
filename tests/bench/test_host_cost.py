"""The parts of a call are found by recording it, and the module is left as it was."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from fagen.bench.host_cost import microseconds, parts_of_call, recorded_ops


@torch.library.custom_op("fagen_bench_test::double", mutates_args=())
def double(x: torch.Tensor, times: int) -> torch.Tensor:
    return x * (2 * times)


@pytest.fixture
def module():
    made = SimpleNamespace(double=double, other=3)
    made.attention = lambda x: made.double(x, times=2)
    return made


def test_an_op_is_recorded_with_its_arguments_and_put_back(module):
    x = torch.ones(3)
    with recorded_ops(module) as calls:
        assert torch.equal(module.attention(x), 4 * x)
        assert module.double._name == "double"
    assert [(op, args, kwargs) for op, args, kwargs in calls] == [(double, (x,), {"times": 2})]
    assert module.double is double and module.other == 3


def test_an_op_is_put_back_after_an_error(module):
    with pytest.raises(KeyError), recorded_ops(module):
        raise KeyError
    assert module.double is double


def test_the_parts_of_a_call_add_up(module):
    x = torch.ones(3)
    parts = parts_of_call(module, lambda: module.attention(x))
    assert set(parts) == {"attention", "checks and defaults", "op dispatch", "launcher"}
    inside = parts["checks and defaults"] + parts["op dispatch"] + parts["launcher"]
    assert inside == pytest.approx(parts["attention"])
    assert parts["launcher"] > 0


def test_a_module_without_ops_still_has_its_whole():
    module = SimpleNamespace(attention=lambda: None)
    assert set(parts_of_call(module, module.attention)) == {"attention"}


def test_microseconds_are_of_one_call():
    calls = []
    took = microseconds(lambda: calls.append(1), calls=10, batches=3)
    assert len(calls) == 20 + 30
    assert 0 < took < 1000
