"""InitProducerId: the producer id and epoch that a producer gets, and the producers that are fenced."""

from typing import Any

import pytest

from pykafka_broker.coordinators.transactions.coordinator import ProducerReply, TransactionSettings
from pykafka_broker.coordinators.transactions.transaction import TransactionState
from pykafka_broker.protocol.errors import ErrorCode

NONE = ErrorCode.NONE
EXHAUSTED = 32766


def age(driver: Any, epoch: int, name: str = "t") -> None:
    """Let the transactional id be at this epoch, as after many takeovers."""
    driver.coordinator.transactions[name] = driver.transaction(name)._replace(producer_epoch=epoch)


def test_a_new_transactional_id_starts_at_epoch_0(driver: Any) -> None:
    assert driver.init() == ProducerReply(NONE, 1000, 0)
    assert driver.transaction().state is TransactionState.EMPTY
    assert driver.init("other") == ProducerReply(NONE, 1001, 0)


def test_each_takeover_bumps_the_epoch(driver: Any) -> None:
    assert [driver.init().producer_epoch for _ in range(3)] == [0, 1, 2]
    assert driver.transaction().producer_id == 1000


def test_a_takeover_brings_its_own_timeout(driver: Any) -> None:
    driver.init(timeout_ms=5_000)
    driver.init(timeout_ms=7_000)
    assert driver.transaction().timeout_ms == 7_000


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"name": ""}, ErrorCode.INVALID_REQUEST),
        ({"timeout_ms": 0}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"timeout_ms": -1}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"timeout_ms": 900_001}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"two_phase": True}, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ({"keep_prepared": True}, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_refusals_leave_nothing_behind(driver: Any, arguments: dict[str, Any], error: ErrorCode) -> None:
    assert driver.init(**arguments) == ProducerReply(error)
    assert driver.coordinator.transactions == {}
    assert driver.log == []


def test_the_longest_timeout_is_allowed(driver: Any) -> None:
    assert driver.init(timeout_ms=900_000).error is NONE


def test_two_phase_commit_has_no_timeout(make_driver: Any) -> None:
    driver = make_driver(TransactionSettings(two_phase_commit=True))
    assert driver.init(timeout_ms=0, two_phase=True).error is NONE
    driver.add(1000, 0)
    driver.advance(10 * 900_000)
    assert driver.transaction().state is TransactionState.ONGOING


class TestGoingOn:
    """KIP-360: a producer that met an error asks to go on with its id and epoch."""

    def test_the_current_epoch_is_bumped(self, driver: Any) -> None:
        driver.init()
        assert driver.init(expected=(1000, 0)) == ProducerReply(NONE, 1000, 1)

    def test_a_retry_gets_the_same_answer(self, driver: Any) -> None:
        driver.init()
        first = driver.init(expected=(1000, 0))
        assert driver.init(expected=(1000, 0)) == first
        assert driver.transaction().producer_epoch == 1

    def test_a_retry_after_a_restart_is_fenced_because_the_last_epoch_is_not_in_the_log(self, driver: Any) -> None:
        driver.init()
        driver.init(expected=(1000, 0))
        driver.restart()
        assert driver.init(expected=(1000, 0)) == ProducerReply(ErrorCode.PRODUCER_FENCED)

    def test_after_a_takeover_the_old_producer_is_fenced(self, driver: Any) -> None:
        driver.init()
        driver.init()
        assert driver.init(expected=(1000, 0)) == ProducerReply(ErrorCode.PRODUCER_FENCED)

    def test_another_producer_id_is_fenced(self, driver: Any) -> None:
        driver.init()
        assert driver.init(expected=(999, 0)) == ProducerReply(ErrorCode.PRODUCER_FENCED)
        assert driver.transaction().producer_epoch == 0

    def test_an_epoch_from_the_future_is_fenced(self, driver: Any) -> None:
        driver.init()
        assert driver.init(expected=(1000, 5)) == ProducerReply(ErrorCode.PRODUCER_FENCED)

    def test_a_forgotten_transactional_id_gets_a_new_producer_id(self, driver: Any) -> None:
        assert driver.init(expected=(77, 5)) == ProducerReply(NONE, 1000, 0)


class TestExhaustion:
    """Epochs end at 32766; then a new producer id begins."""

    def test_a_takeover_gets_a_new_producer_id(self, driver: Any) -> None:
        driver.init()
        age(driver, EXHAUSTED)
        assert driver.init() == ProducerReply(NONE, 1001, 0)
        assert driver.transaction().previous_producer_id == 1000

    def test_the_last_step_before_it_is_handed_out(self, driver: Any) -> None:
        driver.init()
        age(driver, EXHAUSTED - 1)
        assert driver.init() == ProducerReply(NONE, 1000, EXHAUSTED)

    def test_going_on_with_it_is_a_new_producer_id_and_its_retry_bumps(self, driver: Any) -> None:
        driver.init()
        age(driver, EXHAUSTED)
        assert driver.init(expected=(1000, EXHAUSTED)) == ProducerReply(NONE, 1001, 0)
        # The retry comes with the previous id; the remembered last epoch makes it the same answer.
        assert driver.init(expected=(1000, EXHAUSTED)) == ProducerReply(NONE, 1001, 0)

    def test_a_previous_producer_id_is_known_only_when_it_was_exhausted(self, driver: Any) -> None:
        driver.init()
        age(driver, EXHAUSTED)
        driver.init(expected=(1000, EXHAUSTED))
        for epoch in (0, 3):  # 0 is the epoch of the new producer id
            assert driver.init(expected=(1000, epoch)) == ProducerReply(ErrorCode.PRODUCER_FENCED)
        assert driver.init(expected=(999, EXHAUSTED)) == ProducerReply(ErrorCode.PRODUCER_FENCED)


class TestOpenTransaction:
    """A takeover aborts what is open, and tells the new producer to come back."""

    def test_it_is_aborted_under_a_bumped_epoch(self, driver: Any) -> None:
        driver.init()
        driver.add(1000, 0)
        assert driver.init() == ProducerReply(ErrorCode.CONCURRENT_TRANSACTIONS)
        assert driver.transaction().state is TransactionState.PREPARE_ABORT
        assert driver.init() == ProducerReply(ErrorCode.CONCURRENT_TRANSACTIONS)
        (markers,) = driver.write_markers()
        assert (markers.producer_id, markers.producer_epoch, markers.commit) == (1000, 1, False)
        assert driver.init() == ProducerReply(NONE, 1000, 2)

    def test_the_old_producer_is_told_to_wait_and_then_that_it_is_fenced(self, driver: Any) -> None:
        driver.init()
        driver.add(1000, 0)
        driver.init()
        assert driver.add(1000, 0) is ErrorCode.CONCURRENT_TRANSACTIONS
        driver.write_markers()
        assert driver.add(1000, 0) is ErrorCode.PRODUCER_FENCED
        driver.init()
        assert driver.end(1000, 0).error is ErrorCode.PRODUCER_FENCED

    def test_in_the_classic_protocol_too(self, make_driver: Any) -> None:
        driver = make_driver(TransactionSettings(transaction_version=0))
        driver.init()
        driver.add(1000, 0, version=0)
        assert driver.init() == ProducerReply(ErrorCode.CONCURRENT_TRANSACTIONS)
        assert driver.transaction().producer_epoch == 1
        driver.write_markers()
        assert driver.init() == ProducerReply(NONE, 1000, 2)

    @pytest.mark.parametrize("version", [0, 2])
    def test_with_the_last_epoch_in_use(self, make_driver: Any, version: int) -> None:
        driver = make_driver(TransactionSettings(transaction_version=version))
        driver.init()
        age(driver, EXHAUSTED)
        driver.add(1000, EXHAUSTED, version=version)
        assert driver.init() == ProducerReply(ErrorCode.CONCURRENT_TRANSACTIONS)
        (markers,) = driver.write_markers()
        assert (markers.producer_id, markers.producer_epoch) == (1000, 32767)
        again = driver.init()
        assert again.error is NONE
        assert again.producer_id == 1001

    def test_a_stranger_is_fenced_and_aborts_nothing(self, driver: Any) -> None:
        driver.init()
        driver.add(1000, 0)
        assert driver.init(expected=(999, 0)) == ProducerReply(ErrorCode.PRODUCER_FENCED)
        assert driver.transaction().state is TransactionState.ONGOING
