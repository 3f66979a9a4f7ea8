"""The parts of a call are found by recording it, and the module is left as it was."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import triton
from triton.runtime.jit import JITFunction

from fagen.bench.host_cost import microseconds, parts_of_call, recorded_launches, recorded_ops


def launch(x: torch.Tensor, times: int) -> torch.Tensor:
    return x * (2 * times)


library = torch.library.Library("fagen_bench_test", "DEF")
library.define("double(Tensor x, int times) -> Tensor")
library.impl("double", launch, "CompositeExplicitAutograd")
double = torch.ops.fagen_bench_test.double.default


@pytest.fixture
def module():
    made = SimpleNamespace(double=double, launch_forward=launch, other=3)
    made.attention = lambda x: made.double(x, times=2)
    return made


def test_an_op_is_recorded_with_its_arguments_and_put_back(module):
    x = torch.ones(3)
    with recorded_ops(module) as calls:
        assert torch.equal(module.attention(x), 4 * x)
        assert module.double._opname == "double"
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


@triton.jit
def nothing(x):
    pass


@pytest.fixture
def launched(monkeypatch):
    """What reaches Triton's launch, which does nothing here: there is no GPU."""
    seen = []

    def run(self, *args, grid, warmup, **kwargs):
        seen.append((self, args, grid, kwargs))

    monkeypatch.setattr(JITFunction, "run", run)
    return seen


def test_a_launch_is_recorded_and_can_be_replayed(launched):
    stub = JITFunction.run
    with recorded_launches() as launches:
        nothing[(3,)](7, num_warps=4)
    assert JITFunction.run is stub
    assert [name for name, _ in launches] == ["nothing"]
    launches[0][1]()
    assert launched == [(nothing, (7,), (3,), {"num_warps": 4})] * 2


def test_launches_are_parts_of_the_call(module, launched):
    def attention():
        nothing[(1,)](7)
        return module.attention(torch.ones(3))

    parts = parts_of_call(module, attention)
    assert parts["launch nothing"] > 0
    assert parts["launcher"] == pytest.approx(
        parts["attention"]
        - parts["checks and defaults"]
        - parts["op dispatch"]
        - parts["launch nothing"]
    )
