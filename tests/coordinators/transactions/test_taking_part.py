"""AddPartitionsToTxn, AddOffsetsToTxn and the check of a produce request: the members of a transaction."""

from typing import Any

import pytest

from pykafka_broker.coordinators.transactions.transaction import TransactionState
from pykafka_broker.protocol.errors import ErrorCode

A, B = ("a", 0), ("b", 1)
NONE = ErrorCode.NONE


def test_the_first_partition_opens_the_transaction_and_starts_its_clock(driver: Any) -> None:
    driver.init()
    driver.advance(500)
    assert driver.add(1000, 0, [A]) is NONE
    opened = driver.transaction()
    assert (opened.state, opened.start_ms, opened.partitions) == (TransactionState.ONGOING, driver.now, {A})
    driver.advance(500)
    assert driver.add(1000, 0, [B]) is NONE
    grown = driver.transaction()
    assert (grown.start_ms, grown.last_update_ms, grown.partitions) == (opened.start_ms, driver.now, {A, B})


def test_what_is_there_already_writes_nothing(driver: Any) -> None:
    driver.init()
    driver.add(1000, 0, [A, B])
    before = len(driver.log)
    for known in ([B], [A, B]):
        assert driver.add(1000, 0, known) is NONE
    assert len(driver.log) == before


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"name": ""}, ErrorCode.INVALID_REQUEST),
        ({"name": "nobody"}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ({"pid": 999}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ({"epoch": 1}, ErrorCode.PRODUCER_FENCED),
        ({"epoch": -1}, ErrorCode.PRODUCER_FENCED),
    ],
)
def test_refusals(driver: Any, arguments: dict[str, Any], error: ErrorCode) -> None:
    driver.init()
    before = driver.transaction()
    assert driver.add(**({"pid": 1000, "epoch": 0} | arguments)) is error
    assert driver.transaction() == before
    verified = driver.coordinator.verify_partitions(
        arguments.get("name", "t"), arguments.get("pid", 1000), arguments.get("epoch", 0), [A]
    )
    assert verified == {A: error}


def test_nothing_is_added_while_the_outcome_is_being_written(driver: Any) -> None:
    driver.init()
    driver.add(1000, 0, version=0)
    driver.end(1000, 0, version=0)
    assert driver.add(1000, 0, [B], version=0) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert driver.coordinator.verify_partitions("t", 1000, 0, [A]) == {A: ErrorCode.CONCURRENT_TRANSACTIONS}
    driver.write_markers()
    assert driver.add(1000, 0, [B], version=0) is NONE
    assert driver.transaction().partitions == {B}


def test_a_check_tells_what_takes_part(driver: Any) -> None:
    driver.init()
    driver.add(1000, 0, [A])
    before = len(driver.log)
    assert driver.coordinator.verify_partitions("t", 1000, 0, [A, B]) == {A: NONE, B: ErrorCode.TRANSACTION_ABORTABLE}
    assert len(driver.log) == before


def test_a_decision_that_is_not_on_disk_yet_holds_up_the_next(driver: Any) -> None:
    driver.init()
    first = driver.coordinator.add_partitions("t", 1000, 0, frozenset({A}), 2, driver.now)
    assert driver.add(1000, 0, [B]) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert driver.end(1000, 0).error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert driver.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert not driver.coordinator.known_state("t").records
    assert driver.transaction().state is TransactionState.EMPTY
    driver.run(first)
    assert driver.add(1000, 0, [B]) is NONE
    assert driver.transaction().partitions == {A, B}


def test_a_decision_that_could_not_be_written_never_was(driver: Any) -> None:
    driver.init()
    failed = driver.coordinator.add_partitions("t", 1000, 0, frozenset({A}), 2, driver.now)
    driver.coordinator.discard(failed)
    assert driver.transaction().state is TransactionState.EMPTY
    assert driver.add(1000, 0, [B]) is NONE
    assert driver.transaction().partitions == {B}
