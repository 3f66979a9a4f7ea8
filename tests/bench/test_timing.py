"""The race: interleaved, shuffled, and robust against a contestant that fails."""

from __future__ import annotations

import time

import pytest

from fagen.bench.timing import milliseconds, race


def recorder(order, name):
    return lambda: order.append(name)


def run_and_count(action):
    action()
    return 1.0


def test_every_round_runs_everybody_once_in_a_new_order():
    order: list[str] = []
    names = "abcdef"
    contestants = {name: recorder(order, name) for name in names}
    times, errors = race(contestants, rounds=4, seed=0, measure=run_and_count)
    assert errors == {}
    assert {name: len(found) for name, found in times.items()} == dict.fromkeys(names, 4)
    rounds = [tuple(order[i : i + 6]) for i in range(0, 24, 6)]
    assert all(sorted(one) == list(names) for one in rounds)
    assert len(set(rounds)) > 1


def test_the_order_follows_the_seed():
    def order_of(seed):
        order: list[str] = []
        contestants = {name: recorder(order, name) for name in "abcdef"}
        race(contestants, rounds=3, seed=seed, measure=run_and_count)
        return order

    assert order_of(1) == order_of(1) != order_of(2)


def test_a_contestant_that_fails_late_leaves_with_its_times():
    calls = []

    def failing():
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("out of memory")

    contestants = {"fails": failing, "stays": lambda: None}
    times, errors = race(contestants, rounds=3, seed=0, measure=run_and_count)
    assert errors == {"fails": "RuntimeError: out of memory"}
    assert times == {"stays": [1.0, 1.0, 1.0]}
    assert len(calls) == 2


def test_the_clock_measures_milliseconds():
    assert 2.0 <= milliseconds(lambda: time.sleep(0.002), repeat=20.0) < 40.0
    assert milliseconds(lambda: None, repeat=1.0) == pytest.approx(0.0, abs=0.5)
