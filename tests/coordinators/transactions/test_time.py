"""Effects of time alone: transactions are aborted, transactional ids are forgotten."""

from typing import Any

import pytest

from pykafka_broker.coordinators.transactions import coordinator
from pykafka_broker.coordinators.transactions.coordinator import ProducerReply, TransactionSettings
from pykafka_broker.coordinators.transactions.transaction import TransactionState
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode

SECOND, HOUR, DAY = 1_000, 3_600_000, 86_400_000


@pytest.mark.parametrize("version", [0, 2])
def test_a_transaction_is_aborted_once_it_is_older_than_its_timeout(make_driver: Any, version: int) -> None:
    driver = make_driver(TransactionSettings(transaction_version=version))
    driver.init(timeout_ms=60 * SECOND)
    driver.add(1000, 0, version=version)
    driver.advance(60 * SECOND)
    assert driver.transaction().state is TransactionState.ONGOING
    assert driver.coordinator.next_deadline() == driver.now + 1
    driver.advance(1)
    assert driver.transaction().state is TransactionState.PREPARE_ABORT
    assert driver.transaction().producer_epoch == 1
    (markers,) = driver.write_markers()
    assert (markers.producer_epoch, markers.commit) == (1, False)
    assert driver.add(1000, 0, [("b", 0)], version=version) is ErrorCode.PRODUCER_FENCED


def test_an_abort_that_could_not_be_written_is_tried_again(driver: Any) -> None:
    driver.init(timeout_ms=20 * SECOND)
    driver.add(1000, 0)
    driver.now += 21 * SECOND
    failed = driver.coordinator.on_deadline(driver.now)
    assert len(failed.records) == 1
    driver.coordinator.discard(failed)
    assert driver.transaction().state is TransactionState.ONGOING
    assert driver.coordinator.next_deadline() == driver.now + 10 * SECOND
    driver.advance(10 * SECOND)
    assert driver.transaction().state is TransactionState.PREPARE_ABORT


def test_the_clock_of_a_transaction_starts_with_its_first_partition(driver: Any) -> None:
    driver.init(timeout_ms=60 * SECOND)
    driver.advance(59 * SECOND)
    driver.add(1000, 0)
    driver.advance(59 * SECOND)
    driver.add(1000, 0, [("b", 0)])
    driver.advance(2 * SECOND)
    assert driver.transaction().state is TransactionState.PREPARE_ABORT


def test_timeouts_are_looked_at_every_ten_seconds(driver: Any) -> None:
    driver.init(timeout_ms=1)
    driver.add(1000, 0)
    driver.advance(9_999)
    assert driver.transaction().state is TransactionState.ONGOING
    driver.advance(1)
    assert driver.transaction().state is TransactionState.PREPARE_ABORT


def test_only_those_that_are_due_are_aborted(driver: Any) -> None:
    for name, timeout_ms in [("short", 20 * SECOND), ("long", 50 * SECOND)]:
        pid = driver.init(name, timeout_ms).producer_id
        driver.add(pid, 0, name=name)
    driver.advance(21 * SECOND)
    assert driver.transaction("short").state is TransactionState.PREPARE_ABORT
    assert driver.transaction("long").state is TransactionState.ONGOING
    assert driver.coordinator.next_deadline() == driver.now + 29 * SECOND + 1
    driver.advance(30 * SECOND)
    assert driver.transaction("long").state is TransactionState.PREPARE_ABORT


def test_a_timed_out_producer_may_go_on_under_kip_360(driver: Any) -> None:
    driver.init(timeout_ms=SECOND)
    driver.add(1000, 0)
    driver.advance(11 * SECOND)
    driver.write_markers()
    assert driver.end(1000, 0).error is ErrorCode.INVALID_TXN_STATE
    assert driver.init(expected=(1000, 0)) == ProducerReply(ErrorCode.NONE, 1000, 1)


def test_a_timeout_survives_a_restart(driver: Any) -> None:
    driver.init(timeout_ms=60 * SECOND)
    driver.add(1000, 0)
    driver.restart()
    driver.advance(60 * SECOND + 1)
    assert driver.transaction().state is TransactionState.PREPARE_ABORT


def test_a_broker_without_transactions_has_no_timer(driver: Any) -> None:
    assert driver.coordinator.next_deadline() is None


def test_an_unused_transactional_id_is_forgotten_after_seven_days(driver: Any) -> None:
    driver.init()
    start = driver.now
    while driver.now - start < 7 * DAY - HOUR:
        driver.advance(HOUR)
    assert "t" in driver.coordinator.transactions
    driver.advance(HOUR)
    assert driver.coordinator.transactions == {}
    assert driver.log[-1].value is None
    driver.restart()
    assert driver.coordinator.transactions == {}
    assert driver.init() == ProducerReply(ErrorCode.NONE, 1001, 0)


def test_unused_transactional_ids_are_looked_for_every_hour(driver: Any) -> None:
    driver.init()
    for _ in range(3):
        driver.advance(HOUR)
        assert driver.coordinator.next_deadline() == driver.now + HOUR


def test_a_transaction_from_the_future_is_dated_back_when_it_is_loaded(driver: Any) -> None:
    """A system clock that was ahead and is set back must not keep a transaction open until its time comes again."""
    driver.init(timeout_ms=60 * SECOND)
    driver.add(1000, 0)
    written = driver.transaction()
    driver.now += 5 * SECOND
    driver.restart()
    driver.coordinator.on_loaded(driver.now)
    assert driver.transaction() == written, "it is of the past"
    driver.now -= DAY
    driver.restart()
    driver.coordinator.on_loaded(driver.now)
    assert (driver.transaction().start_ms, driver.transaction().last_update_ms) == (driver.now, driver.now)
    driver.advance(60 * SECOND + 1)
    assert driver.transaction().state is TransactionState.PREPARE_ABORT


def test_an_open_transaction_is_not_forgotten(make_driver: Any) -> None:
    driver = make_driver(TransactionSettings(transactional_id_expiration_ms=1, max_timeout_ms=2**30))
    driver.init(timeout_ms=2**30)
    driver.init("idle")
    driver.add(1000, 0)
    driver.advance(HOUR)
    assert list(driver.coordinator.transactions) == ["t"]


def test_one_that_needs_a_producer_id_which_there_is_not_keeps_nobody_from_being_aborted(driver: Any) -> None:
    """The ids come from a controller, which may be away."""
    for name in ("a", "b", "c"):
        driver.init(name, timeout_ms=1)
    exhausted = driver.transaction("b")._replace(producer_epoch=32766)
    driver.coordinator._take_over("b", exhausted)
    for name, producer_id, epoch in (("a", 1000, 0), ("b", 1001, 32766), ("c", 1002, 0)):
        assert driver.add(producer_id, epoch, name=name) is ErrorCode.NONE
    have, ids = False, driver.coordinator._new_producer_id

    def new_producer_id() -> int:
        if not have:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return int(ids())

    driver.coordinator._new_producer_id = new_producer_id
    driver.advance(20 * SECOND)
    states = [driver.transaction(name).state for name in ("a", "b", "c")]
    assert states == [TransactionState.PREPARE_ABORT, TransactionState.ONGOING, TransactionState.PREPARE_ABORT]
    have = True
    driver.advance(10 * SECOND)
    assert driver.transaction("b").state is TransactionState.PREPARE_ABORT


@pytest.mark.parametrize(("most", "waited"), [("_ABORTED_AT_ONCE", 21 * SECOND), ("_FORGOTTEN_AT_ONCE", 8 * DAY)])
def test_of_very_many_that_are_due_together_some_have_their_turn(
    driver: Any, monkeypatch: pytest.MonkeyPatch, most: str, waited: int
) -> None:
    monkeypatch.setattr(coordinator, most, 3)
    for number in range(7):
        name = f"t{number}"
        producer_id = driver.init(name, 20 * SECOND).producer_id
        if most == "_ABORTED_AT_ONCE":
            driver.add(producer_id, 0, name=name)
    left = []
    driver.now += waited
    while (due := driver.coordinator.next_deadline()) is not None and due <= driver.now:
        driver.advance(0)
        left.append(sum(not each.state.preparing for each in driver.coordinator.transactions.values()))
    assert left == [4, 1, 0]


def test_one_that_has_ended_since_the_check_is_left_alone(driver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "_ABORTED_AT_ONCE", 1)
    ids = {name: driver.init(name, 20 * SECOND).producer_id for name in ("a", "b")}
    for name, producer_id in ids.items():
        driver.add(producer_id, 0, name=name)
    driver.advance(21 * SECOND)
    driver.end(ids["b"], 0, name="b")
    assert driver.transaction("b").state is TransactionState.PREPARE_COMMIT
    driver.advance(0)
    assert driver.transaction("b").state is TransactionState.PREPARE_COMMIT


def test_the_next_transaction_of_one_that_has_ended_since_the_check_is_left_alone(
    driver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator, "_ABORTED_AT_ONCE", 1)
    for name in ("a", "b"):
        driver.add(driver.init(name, 20 * SECOND).producer_id, 0, name=name)
    driver.advance(21 * SECOND)
    driver.end(1001, 0, name="b")
    driver.write_markers()
    driver.add(1001, 1, name="b")
    driver.advance(0)
    assert driver.transaction("b").state is TransactionState.ONGOING


def test_what_is_decided_and_not_written_yet_is_neither_aborted_nor_forgotten(driver: Any) -> None:
    driver.init("a", 20 * SECOND)
    driver.add(1000, 0, name="a")
    driver.init("b")
    driver.now += 8 * DAY
    driver.coordinator.end_transaction("a", 1000, 0, True, 2, driver.now)
    driver.coordinator.add_partitions("b", 1001, 0, frozenset({("t", 0)}), 2, driver.now)
    assert not driver.coordinator.on_deadline(driver.now).records
