"""Records of `__transaction_state`. The bytes are those that Apache Kafka 4.4.0 wrote."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka_broker.coordinators.record import decode, encode
from pykafka_broker.coordinators.transactions.transaction import (
    NO_PRODUCER_EPOCH,
    TransactionMetadata,
    TransactionState,
    read_transaction,
    transaction_record,
)
from pykafka_broker.protocol.stored_keys import TRANSACTION_RECORDS
from tests.coordinators.stored import reread

GOLDEN = [
    (
        "epochs-run-out-a9c48e-u",
        "0001000000000000000400000000ea600000000001a21ef31f53ffffffffffffffff0100080000000000000003",
        TransactionMetadata(
            *(4, 0, 60_000, TransactionState.EMPTY, 1795815579475),
            previous_producer_id=3,
        ),
    ),
    (
        "both-protocols-take-turns-0c26de-t",
        "0001000000000000000f00010000ea600401000001a21ef37855000001a21ef37851020008000000000000000f02020002",
        TransactionMetadata(
            *(15, 1, 60_000, TransactionState.COMPLETE_COMMIT, 1795815602261),
            start_ms=1795815602257,
            previous_producer_id=15,
            client_version=2,
        ),
    ),
    (
        "both-protocols-take-turns-0c26de-t",
        (
            "0001000000000000000f00010000ea60020223626f74682d70726f746f636f6c732d74616b652d7475726e732d3063323664652d61"
            "020000000000000001a21ef37859000001a21ef37857010008000000000000000f"
        ),
        TransactionMetadata(
            *(15, 1, 60_000, TransactionState.PREPARE_COMMIT, 1795815602265),
            frozenset({("both-protocols-take-turns-0c26de-a", 0)}),
            start_ms=1795815602263,
            previous_producer_id=15,
        ),
    ),
    (
        "epochs-run-out-a9c48e-v",
        (
            "000100000000000000057fff0000ea6002021865706f6368732d72756e2d6f75742d6139633438652d61020000000000000001a21e"
            "f343ff000001a21ef3437203000800000000000000050108000000000000000602020002"
        ),
        TransactionMetadata(
            *(5, 32767, 60_000, TransactionState.PREPARE_COMMIT, 1795815588863),
            frozenset({("epochs-run-out-a9c48e-a", 0)}),
            start_ms=1795815588722,
            previous_producer_id=5,
            next_producer_id=6,
            client_version=2,
        ),
    ),
    (
        "before-kip-890-95d52d-u",
        "0000000000000000000b0000000000c800ffffffff000001a21ef36dbfffffffffffffffff",
        TransactionMetadata(
            *(11, 0, 200, TransactionState.EMPTY, 1795815599551),
        ),
    ),
    (
        "before-kip-890-95d52d-u",
        (
            "0000000000000000000b0001000000c8030000000100176265666f72652d6b69702d3839302d3935643532642d6100000001000000"
            "01000001a21ef37037000001a21ef36dc0"
        ),
        TransactionMetadata(
            *(11, 1, 200, TransactionState.PREPARE_ABORT, 1795815600183),
            frozenset({("before-kip-890-95d52d-a", 1)}),
            start_ms=1795815599552,
        ),
    ),
]

ids = st.integers(-1, 2**63 - 1)
epochs = st.integers(-1, 32767)
times = st.integers(-1, 2**48)
partitions = st.frozensets(st.tuples(st.text(max_size=8), st.integers(0, 2**31 - 1)), max_size=6)
transactions = st.builds(
    TransactionMetadata,
    producer_id=ids,
    producer_epoch=epochs,
    timeout_ms=st.integers(0, 2**31 - 1),
    state=st.sampled_from([state for state in TransactionState if state is not TransactionState.EMPTY]),
    last_update_ms=times,
    partitions=partitions,
    start_ms=times,
    previous_producer_id=ids,
    next_producer_id=ids,
    client_version=st.sampled_from([0, 1, 2]),
    last_producer_epoch=epochs,
)


def remembered(transaction: TransactionMetadata, version: int) -> TransactionMetadata:
    """Return a transaction as a load reads it from the log."""
    return read_transaction(reread(transaction_record("t", transaction, version), TRANSACTION_RECORDS).value)


@pytest.mark.parametrize(("transactional_id", "value", "transaction"), GOLDEN)
def test_records_that_a_real_broker_wrote(transactional_id: str, value: str, transaction: TransactionMetadata) -> None:
    raw = bytes.fromhex(value)
    key = b"\0\0" + len(transactional_id).to_bytes(2, "big") + transactional_id.encode()
    assert encode(transaction_record(transactional_id, transaction, raw[1])) == (key, raw)
    found = decode(key, raw, TRANSACTION_RECORDS)
    assert found is not None
    assert (found.key.transactional_id, read_transaction(found.value)) == (transactional_id, transaction)


@given(st.text(max_size=40))
def test_keys_come_back(transactional_id: str) -> None:
    tombstone = transaction_record(transactional_id, None, 1)
    assert reread(tombstone, TRANSACTION_RECORDS).key.transactional_id == transactional_id


@given(transactions)
def test_values_come_back_but_for_the_last_epoch(transaction: TransactionMetadata) -> None:
    known = transaction._replace(last_producer_epoch=NO_PRODUCER_EPOCH)
    assert remembered(transaction, 1) == known
    assert remembered(transaction, 0) == known._replace(previous_producer_id=-1, next_producer_id=-1, client_version=0)


def test_the_state_empty_has_no_list_of_partitions() -> None:
    empty = TransactionMetadata(1, 0, 60_000, TransactionState.EMPTY, 5)
    assert remembered(empty, 1) == empty
    assert transaction_record("t", empty, 0).value.transaction_partitions is None
