"""Writes of very many runs to one share partition."""

from __future__ import annotations

import pytest

from pykafka_broker.coordinators.effects import KeyValue
from pykafka_broker.coordinators.share.delivery import RecordState, StateRun
from pykafka_broker.coordinators.share.many_runs import KnownRuns, are_many, encode
from pykafka_broker.coordinators.share.state import UNINITIALIZED
from pykafka_broker.steps import at_once
from tests.coordinators.share.test_state import KEY, Driver


def runs(count: int, deliveries: int = 1) -> list[StateRun]:
    return [StateRun(2 * n, 2 * n, RecordState.ACKNOWLEDGED, deliveries) for n in range(count)]


def written(driver: Driver, some: list[StateRun], start: int) -> list[KeyValue]:
    effects = driver.coordinator.write(KEY, 1, 0, start, 0, some, 0)
    driver.run(effects)
    return effects.records


@pytest.mark.parametrize("updates_per_snapshot", [0, 500])
@pytest.mark.parametrize("start", [5, UNINITIALIZED])
def test_what_was_found_out_before_makes_the_same_records_and_the_same_state(
    updates_per_snapshot: int, start: int
) -> None:
    plain, other = Driver(updates_per_snapshot), Driver(updates_per_snapshot)
    for driver in (plain, other):
        driver.run(driver.coordinator.initialize(KEY, 1, 0, 0))
        driver.write(*runs(2000))
    known = KnownRuns(runs(1500, 2))
    at_once(other.coordinator.find_out(KEY, known, start))
    assert written(other, known, start) == written(plain, runs(1500, 2), start)
    assert other.coordinator.states[KEY].runs == plain.coordinator.states[KEY].runs
    assert other.reloaded().coordinator.states[KEY].runs == plain.coordinator.states[KEY].runs
    driver = other.reloaded()
    driver.write(StateRun(1, 1, RecordState.ARCHIVED, 1))


def test_if_another_write_comes_meanwhile_it_is_found_out_anew() -> None:
    plain, other = Driver(), Driver()
    for driver in (plain, other):
        driver.run(driver.coordinator.initialize(KEY, 1, 0, 0))
    known = KnownRuns(runs(2000))
    steps = other.coordinator.find_out(KEY, known, 0)
    for number, _ in enumerate(steps):
        if number == 6:
            other.write(StateRun(7, 7, RecordState.ARCHIVED, 9))
    plain.write(StateRun(7, 7, RecordState.ARCHIVED, 9))
    assert known.base is other.coordinator.states[KEY].runs
    written(plain, runs(2000), 0)
    written(other, known, 0)
    assert other.coordinator.states[KEY].runs == plain.coordinator.states[KEY].runs
    assert StateRun(7, 7, RecordState.ARCHIVED, 9) in other.coordinator.states[KEY].runs


def test_what_lies_over_something_else_by_now_is_laid_over_that() -> None:
    driver = Driver()
    driver.run(driver.coordinator.initialize(KEY, 1, 0, 0))
    known = KnownRuns(runs(2000))
    at_once(driver.coordinator.find_out(KEY, known, 0))
    driver.write(StateRun(7, 7, RecordState.ARCHIVED, 9))
    written(driver, known, 0)
    assert StateRun(7, 7, RecordState.ARCHIVED, 9) in driver.coordinator.states[KEY].runs
    assert len(driver.coordinator.states[KEY].runs) == 2001


def test_bytes_are_found_in_steps_where_there_are_many() -> None:
    assert are_many(runs(1001))
    assert not are_many(runs(1000))
    assert len([*encode(KnownRuns(runs(10_000)))]) > 10
