"""The share coordinator: the state that it keeps, and the state that its log gives back."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka_broker.coordinators.record import CoordinatorRecord, CoordinatorResult
from pykafka_broker.coordinators.share.state import UNINITIALIZED, RecordState, ShareCoordinator, ShareKey, StateRun
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.runtime import DecodeError
from pykafka_broker.protocol.stored.share_update_key import ShareUpdateKey
from pykafka_broker.protocol.stored_keys import SHARE_RECORDS
from tests.coordinators.stored import reread

KEY = ShareKey("g", b"t" * 16, 0)
DONE = RecordState.ACKNOWLEDGED


class Driver:
    """A share coordinator that appends and replays at once."""

    def __init__(self, updates_per_snapshot: int = 500, is_of_4_4: bool = False) -> None:
        self.coordinator = ShareCoordinator(lambda topic_id, partition: partition < 2, updates_per_snapshot, is_of_4_4)
        self.log: list[CoordinatorRecord] = []
        self.now = 0

    def run(self, effects: CoordinatorResult[Any]) -> None:
        for record in effects.records:
            self.coordinator.replay(record, len(self.log), self.now)
            self.log.append(reread(record, SHARE_RECORDS))

    def write(self, *runs: StateRun, start: int = 0) -> None:
        self.run(self.coordinator.write(KEY, 1, 0, start, 0, runs, self.now))

    def kinds(self) -> list[str]:
        return ["tombstone" if r.value is None else ("snapshot", "update")[r.key.API_KEY] for r in self.log]

    def reloaded(self, first: int = 0) -> Driver:
        """Return a coordinator loaded from the log, with this number of records deleted from it."""
        other = Driver(self.coordinator.updates_per_snapshot)
        for offset, record in enumerate(self.log[first:], first):
            other.coordinator.replay(record, offset, 0)
        return other


def test_what_is_taken_over_is_what_a_restart_reads() -> None:
    driver = Driver(updates_per_snapshot=2)
    driver.run(driver.coordinator.initialize(KEY, 1, 0, 0))
    for offset in range(7):
        driver.write(StateRun(offset * 3, offset * 3 + 1, DONE, 2), start=offset)
        read, taken = driver.reloaded().coordinator.states[KEY], driver.coordinator.states[KEY]
        assert {name: getattr(read, name) for name in read.__slots__} == {
            name: getattr(taken, name) for name in taken.__slots__
        }
    driver.run(driver.coordinator.delete(KEY))
    assert driver.coordinator.states == driver.reloaded().coordinator.states == {}


def test_after_so_many_updates_comes_a_snapshot_that_stands_alone() -> None:
    driver = Driver(updates_per_snapshot=3)
    driver.run(driver.coordinator.initialize(KEY, 1, 0, 5))
    for offset in range(5):
        driver.write(StateRun(offset * 2, offset * 2, DONE, 1))
    assert driver.kinds() == ["snapshot", "update", "update", "update", "snapshot", "update"]
    state = driver.coordinator.states[KEY]
    assert (state.snapshot_epoch, state.snapshot_log_offset, state.created) == (1, 4, 5)
    for first in (0, 4):
        assert driver.reloaded(first).coordinator.states[KEY].runs == state.runs
    assert [run.first for run in state.runs] == [0, 2, 4, 6, 8]


@pytest.mark.parametrize(("is_of_4_4", "start"), [(False, 2), (True, 5)])
def test_a_write_that_lands_late_is_weighed_by_deliveries(is_of_4_4: bool, start: int) -> None:
    """Kafka 4.3.1 and 4.4.0 give the same answers. State epoch and leader epoch are 4.3's only guards, too."""
    driver = Driver(is_of_4_4=is_of_4_4)
    driver.run(driver.coordinator.initialize(KEY, 1, 2, 0))
    first = StateRun(2, 4, RecordState.AVAILABLE, 1)
    driver.write(first, start=2)
    driver.write(StateRun(2, 4, DONE, 2), start=2)
    driver.write(first, start=2)
    assert driver.coordinator.states[KEY].runs == [StateRun(2, 4, DONE, 2)]
    driver.write(StateRun(5, 9, RecordState.AVAILABLE, 1), start=5)
    driver.write(first, start=2)
    state = driver.coordinator.states[KEY]
    assert (state.start_offset, state.runs) == (start, [StateRun(start, 9, RecordState.AVAILABLE, 1)])
    with pytest.raises(ApiError) as refused:
        driver.coordinator.write(KEY, 0, 0, 9, 0, (), 0)
    assert refused.value.code is ErrorCode.FENCED_STATE_EPOCH


def test_an_update_without_its_snapshot_says_nothing() -> None:
    driver = Driver()
    driver.run(driver.coordinator.initialize(KEY, 1, 0, 5))
    driver.write(StateRun(0, 0, DONE, 1))
    assert KEY not in driver.reloaded(1).coordinator.states


def test_idle_partitions_get_a_snapshot_once() -> None:
    driver = Driver()
    driver.run(driver.coordinator.initialize(KEY, 1, 0, 0))
    assert list(driver.coordinator.cold_snapshots(100, 100)) == []
    driver.now = 50
    driver.write(StateRun(0, 0, DONE, 1))
    assert list(driver.coordinator.cold_snapshots(49, 100)) == []
    (effects,) = driver.coordinator.cold_snapshots(50, 100)
    driver.run(effects)
    assert list(driver.coordinator.cold_snapshots(1000, 1000)) == []
    assert driver.reloaded(2).coordinator.states[KEY].runs == [StateRun(0, 0, DONE, 1)]


def test_a_topic_that_goes_takes_its_states_with_it() -> None:
    driver = Driver()
    driver.run(driver.coordinator.initialize(KEY, 1, UNINITIALIZED, 0))
    driver.run(driver.coordinator.initialize(KEY._replace(topic_id=b"u" * 16), 1, 0, 0))
    driver.run(driver.coordinator.forget(KEY))
    driver.run(driver.coordinator.forget(KEY))
    assert list(driver.coordinator.states) == [KEY._replace(topic_id=b"u" * 16)]
    assert list(driver.reloaded().coordinator.states) == [KEY._replace(topic_id=b"u" * 16)]


def test_older_epochs_are_fenced_and_change_nothing() -> None:
    driver = Driver()
    driver.run(driver.coordinator.initialize(KEY, 3, 0, 0))
    driver.run(driver.coordinator.read(KEY, 2))
    for state_epoch, leader_epoch, code in (
        (3, 1, ErrorCode.FENCED_LEADER_EPOCH),
        (2, 2, ErrorCode.FENCED_STATE_EPOCH),
    ):
        with pytest.raises(ApiError) as caught:
            driver.coordinator.write(KEY, state_epoch, leader_epoch, 0, 0, [StateRun(0, 0, DONE, 1)], 0)
        assert caught.value.code is code
    assert driver.coordinator.states[KEY].runs == []


@pytest.mark.parametrize("updates_per_snapshot", [0, 500])
def test_an_older_leader_stays_fenced_after_a_snapshot_and_any_other_read(updates_per_snapshot: int) -> None:
    driver = Driver(updates_per_snapshot)
    driver.run(driver.coordinator.initialize(KEY, 1, 0, 0))
    driver.run(driver.coordinator.read(KEY, 7))
    driver.run(driver.coordinator.read(KEY, -1, anew=True))
    driver.run(driver.coordinator.write(KEY, 1, 7, 0, 0, [StateRun(0, 0, DONE, 1)], 0))
    for coordinator in (driver.coordinator, driver.reloaded().coordinator):
        with pytest.raises(ApiError) as caught:
            coordinator.read(KEY, 6)
        assert caught.value.code is ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.parametrize("updates_per_snapshot", [0, 500])
def test_since_4_4_a_write_takes_no_progress_back(updates_per_snapshot: int) -> None:
    driver = Driver(updates_per_snapshot, is_of_4_4=True)
    driver.run(driver.coordinator.initialize(KEY, 3, 6, 0))
    for start, count, expected in ((6, 4, (6, 4)), (-1, -1, (6, 4)), (5, 9, (6, 4)), (6, -1, (6, 4)), (7, -1, (7, -1))):
        driver.run(driver.coordinator.write(KEY, 3, 0, start, count, [], 0))
        state = driver.reloaded().coordinator.states[KEY]
        assert (state.start_offset, state.complete_count) == expected


@pytest.mark.parametrize(("state_epoch", "leader_epoch", "name"), [(-1, 0, "state"), (3, -1, "leader")])
def test_since_4_4_negative_epochs_are_refused(state_epoch: int, leader_epoch: int, name: str) -> None:
    coordinator = Driver(is_of_4_4=True).coordinator
    with pytest.raises(ApiError, match=f"The {name} epoch cannot be a negative number") as caught:
        coordinator.write(KEY, state_epoch, leader_epoch, 0, 0, [], 0)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    if leader_epoch < 0:
        with pytest.raises(ApiError, match="The leader epoch cannot be a negative number"):
            coordinator.read(KEY, leader_epoch)


def test_a_tombstone_of_an_update_makes_no_sense() -> None:
    with pytest.raises(DecodeError):
        Driver().coordinator.replay(CoordinatorRecord(ShareUpdateKey(*KEY), None), 0, 0)


def test_an_initialization_that_comes_again_begins_anew_as_with_kafka() -> None:
    driver = Driver()
    driver.run(driver.coordinator.initialize(KEY, 1, 0, 0))
    driver.write(StateRun(0, 4, DONE, 1), start=5)
    driver.run(driver.coordinator.initialize(KEY, 1, 0, 0))
    state = driver.coordinator.states[KEY]
    assert (state.start_offset, list(state.runs)) == (0, []), "an equal epoch is not fenced (asked of Kafka 4.4.0)"
    with pytest.raises(ApiError) as caught:
        driver.coordinator.initialize(KEY, 0, 0, 0)
    assert caught.value.code is ErrorCode.FENCED_STATE_EPOCH
