"""EndTxn in both protocols: outcome, retry, fencing, and the epoch of the next transaction."""

from typing import Any

import pytest

from pykafka_broker.coordinators.transactions.coordinator import ProducerReply
from pykafka_broker.coordinators.transactions.transaction import TransactionState
from pykafka_broker.protocol.errors import ErrorCode

A, B = ("a", 0), ("b", 1)
NONE = ErrorCode.NONE
LAST = 32766


def open_transaction(driver: Any, version: int = 2, epoch: int | None = None) -> None:
    driver.init()
    if epoch is not None:
        driver.coordinator.transactions["t"] = driver.transaction()._replace(producer_epoch=epoch)
    assert driver.add(1000, epoch or 0, [A, B], version=version) is NONE


class TestClassic:
    @pytest.mark.parametrize("commit", [True, False])
    def test_the_outcome_is_on_disk_before_its_markers(self, driver: Any, commit: bool) -> None:
        open_transaction(driver, 0)
        assert driver.end(1000, 0, commit, version=0).error is NONE
        assert driver.transaction().state.title == ("PrepareCommit" if commit else "PrepareAbort")
        (markers,) = driver.write_markers()
        assert markers == ("t", 1000, 0, commit, {A, B}, 7, 0)
        over = driver.transaction()
        assert over.state.title == ("CompleteCommit" if commit else "CompleteAbort")
        assert (over.partitions, over.producer_epoch) == (frozenset(), 0)
        assert over.start_ms == driver.now, "the start stays for DescribeTransactions"

    def test_a_retry_is_told_to_wait_and_then_that_it_is_done(self, driver: Any) -> None:
        open_transaction(driver, 0)
        driver.end(1000, 0, version=0)
        assert driver.end(1000, 0, version=0).error is ErrorCode.CONCURRENT_TRANSACTIONS
        driver.write_markers()
        before = len(driver.log)
        assert driver.end(1000, 0, version=0).error is NONE
        assert len(driver.log) == before

    def test_the_other_outcome_is_refused_once_the_first_is_in_all_partitions(self, driver: Any) -> None:
        open_transaction(driver, 0)
        driver.end(1000, 0, True, version=0)
        assert driver.end(1000, 0, False, version=0).error is ErrorCode.CONCURRENT_TRANSACTIONS
        driver.write_markers()
        assert driver.end(1000, 0, False, version=0).error is ErrorCode.INVALID_TXN_STATE

    @pytest.mark.parametrize("commit", [True, False])
    def test_there_is_nothing_to_end_before_the_first_partition(self, driver: Any, commit: bool) -> None:
        driver.init()
        assert driver.end(1000, 0, commit, version=0).error is ErrorCode.INVALID_TXN_STATE


class TestBumping:
    @pytest.mark.parametrize("commit", [True, False])
    def test_markers_and_answer_carry_the_bumped_epoch(self, driver: Any, commit: bool) -> None:
        open_transaction(driver)
        assert driver.end(1000, 0, commit) == ProducerReply(NONE, 1000, 1)
        (markers,) = driver.write_markers()
        assert markers == ("t", 1000, 1, commit, {A, B}, 7, 2)
        assert driver.transaction().producer_epoch == 1

    @pytest.mark.parametrize("commit", [True, False])
    def test_a_retry_gets_the_same_answer_also_after_a_restart(self, driver: Any, commit: bool) -> None:
        open_transaction(driver)
        first = driver.end(1000, 0, commit)
        assert driver.end(1000, 0, commit).error is ErrorCode.CONCURRENT_TRANSACTIONS
        driver.write_markers()
        before = len(driver.log)
        assert driver.end(1000, 0, commit) == first
        driver.restart()
        assert driver.end(1000, 0, commit) == first
        assert len(driver.log) == before

    def test_a_retry_with_the_other_outcome_is_refused_too(self, driver: Any) -> None:
        open_transaction(driver)
        driver.end(1000, 0, True)
        assert driver.end(1000, 0, False).error is ErrorCode.CONCURRENT_TRANSACTIONS
        driver.write_markers()
        assert driver.end(1000, 0, False).error is ErrorCode.INVALID_TXN_STATE

    @pytest.mark.parametrize("commit", [True, False])
    def test_who_aborts_the_next_one_before_the_last_is_over_is_not_fenced(self, driver: Any, commit: bool) -> None:
        open_transaction(driver)
        driver.end(1000, 0, commit)
        assert driver.end(1000, 1, False).error is ErrorCode.CONCURRENT_TRANSACTIONS
        driver.restart()
        assert driver.end(1000, 1, False).error is ErrorCode.CONCURRENT_TRANSACTIONS
        driver.write_markers()
        assert driver.end(1000, 1, False) == ProducerReply(NONE, 1000, 2)

    def test_the_next_transaction_runs_under_the_new_epoch(self, driver: Any) -> None:
        open_transaction(driver)
        driver.end(1000, 0)
        driver.write_markers()
        assert driver.add(1000, 0) is ErrorCode.PRODUCER_FENCED
        assert driver.add(1000, 1) is NONE
        assert driver.end(1000, 0).error is ErrorCode.PRODUCER_FENCED
        assert driver.end(1000, 1) == ProducerReply(NONE, 1000, 2)

    @pytest.mark.parametrize("before", ["init", "commit", "abort"])
    def test_a_transaction_without_partitions_can_be_aborted_but_not_committed(self, driver: Any, before: str) -> None:
        epoch = 0
        if before == "init":
            driver.init()
        else:
            open_transaction(driver)
            driver.end(1000, 0, before == "commit")
            driver.write_markers()
            epoch = 1
        assert driver.end(1000, epoch, True).error is ErrorCode.INVALID_TXN_STATE
        assert driver.end(1000, epoch, False) == ProducerReply(NONE, 1000, epoch + 1)
        (markers,) = driver.write_markers()
        assert markers.partitions == frozenset()
        assert driver.transaction().start_ms == driver.now
        assert driver.end(1000, epoch, False) == ProducerReply(NONE, 1000, epoch + 1)

    def test_an_overflow_ends_in_a_new_producer_id(self, driver: Any) -> None:
        open_transaction(driver, epoch=LAST)
        assert driver.end(1000, LAST) == ProducerReply(NONE, 1001, 0)
        assert driver.transaction().producer_id == 1000
        (markers,) = driver.write_markers()
        assert (markers.producer_id, markers.producer_epoch) == (1000, 32767)
        over = driver.transaction()
        assert (over.producer_id, over.producer_epoch, over.previous_producer_id) == (1001, 0, 1000)
        assert over.next_producer_id == -1
        assert driver.end(1000, LAST) == ProducerReply(NONE, 1001, 0), "a retry under the old id"
        driver.restart()
        assert driver.end(1000, LAST) == ProducerReply(NONE, 1001, 0)
        assert driver.end(1000, LAST, False).error is ErrorCode.INVALID_TXN_STATE
        assert driver.add(1001, 0) is NONE


@pytest.mark.parametrize(("version", "fenced"), [(0, True), (2, False)])
def test_while_markers_are_written_only_a_classic_end_looks_at_who_asks(
    driver: Any, version: int, fenced: bool
) -> None:
    open_transaction(driver, version)
    driver.end(1000, 0, version=version)
    wait = ErrorCode.CONCURRENT_TRANSACTIONS
    assert driver.end(1000, 5, version=version).error is (ErrorCode.PRODUCER_FENCED if fenced else wait)
    assert driver.end(999, 0, version=version).error is (ErrorCode.INVALID_PRODUCER_ID_MAPPING if fenced else wait)
    assert driver.add(999, 5, version=version) is wait
    assert driver.init(expected=(999, 5)).error is wait


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"name": ""}, ErrorCode.INVALID_REQUEST),
        ({"name": "nobody"}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ({"pid": 999}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ({"epoch": 5}, ErrorCode.PRODUCER_FENCED),
        ({"epoch": -1}, ErrorCode.PRODUCER_FENCED),
    ],
)
def test_refusals_change_nothing(driver: Any, version: int, arguments: dict[str, Any], error: ErrorCode) -> None:
    open_transaction(driver, version)
    before = driver.transaction()
    assert driver.end(**({"pid": 1000, "epoch": 0, "version": version} | arguments)).error is error
    assert driver.transaction() == before


def test_a_classic_producer_and_a_new_one_take_turns(driver: Any) -> None:
    open_transaction(driver, 0)
    driver.end(1000, 0, version=0)
    driver.write_markers()
    assert driver.init() == ProducerReply(NONE, 1000, 1)
    driver.add(1000, 1)
    assert driver.end(1000, 1) == ProducerReply(NONE, 1000, 2)
    driver.write_markers()
    assert driver.init() == ProducerReply(NONE, 1000, 3)
    driver.add(1000, 3, version=0)
    assert driver.end(1000, 3, version=0).error is NONE
    driver.write_markers()
    assert driver.transaction().client_version == 0


def test_what_one_transaction_needs_is_found_without_a_look_at_the_others(driver: Any) -> None:
    open_transaction(driver)
    driver.end(1000, 0)
    coordinator = driver.coordinator
    assert [each.transactional_id for each in coordinator.markers_due()] == ["t"]
    assert [each.transactional_id for each in coordinator.markers_due(["none", "t"])] == ["t"]
    assert list(coordinator.markers_due(["none"])) == []


def test_a_restart_between_outcome_and_markers_resumes(driver: Any) -> None:
    open_transaction(driver)
    driver.end(1000, 0)
    driver.restart()
    assert driver.transaction().state is TransactionState.PREPARE_COMMIT
    (markers,) = driver.write_markers()
    assert markers == ("t", 1000, 1, True, {A, B}, 7, 2)
    driver.restart()
    assert driver.transaction().state is TransactionState.COMPLETE_COMMIT
    assert list(driver.coordinator.markers_due()) == []
