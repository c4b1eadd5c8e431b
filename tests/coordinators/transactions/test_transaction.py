"""Records of `__transaction_state`. The bytes are those that Apache Kafka 4.3.1 wrote."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka_broker.coordinators.transactions import Transaction, TransactionState
from pykafka_broker.coordinators.transactions.transaction import (
    NO_PRODUCER_EPOCH,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    record,
    tombstone,
)

ids = st.integers(-1, 2**63 - 1)
epochs = st.integers(-1, 32767)
times = st.integers(-1, 2**48)
partitions = st.frozensets(st.tuples(st.text(max_size=8), st.integers(0, 2**31 - 1)), max_size=6)
transactions = st.builds(
    Transaction,
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


@given(st.text(max_size=40))
def test_keys_come_back(transactional_id: str) -> None:
    assert decode_key(encode_key(transactional_id)) == transactional_id


@pytest.mark.parametrize("key", [b"", b"\x00", b"\x00\x01\x00\x01x", b"\xff\xff"])
def test_a_key_of_another_type_is_not_ours(key: bytes) -> None:
    assert decode_key(key) is None


@given(transactions)
def test_values_come_back_but_for_the_last_epoch(transaction: Transaction) -> None:
    remembered = transaction._replace(last_producer_epoch=NO_PRODUCER_EPOCH)
    assert decode_value(encode_value(transaction, 1)) == remembered
    assert decode_value(encode_value(transaction, 0)) == remembered._replace(
        previous_producer_id=-1, next_producer_id=-1, client_version=0
    )


def test_the_state_empty_has_no_list_of_partitions() -> None:
    empty = Transaction(1, 0, 60_000, TransactionState.EMPTY, 5)
    assert decode_value(encode_value(empty, 1)) == empty
    assert encode_value(empty, 0).count(b"\xff\xff\xff\xff") >= 1


def test_a_tombstone_has_the_key_of_its_records() -> None:
    transaction = Transaction(1, 0, 60_000, TransactionState.EMPTY, 5)
    assert tombstone("t").key == record("t", transaction, 1).key
    assert tombstone("t").value is None
