"""Control records that are not what they should be; sound ones are compared with Kafka's in `test_golden.py`."""

from __future__ import annotations

import struct

import pytest

from pykafka_broker.log.index import AbortedTransaction
from pykafka_broker.records.builder import build_batch
from pykafka_broker.records.control import (
    ABORT,
    AbortedBatches,
    build_control_batch,
    build_end_transaction_marker,
    read_control_type,
    read_end_transaction_marker,
)
from pykafka_broker.records.errors import InvalidRecord
from pykafka_broker.records.header import read_header
from pykafka_broker.records.record import BatchRecord


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\0"])
def test_a_key_that_names_no_type(key: bytes | None) -> None:
    with pytest.raises(InvalidRecord, match="key of"):
        read_control_type(BatchRecord(0, 0, key))


def test_types_and_versions_to_come() -> None:
    assert read_control_type(BatchRecord(0, 0, struct.pack(">hh", 0, 99))) == 99
    assert read_control_type(BatchRecord(0, 0, struct.pack(">hh", 4, ABORT) + b"more")) == ABORT
    assert read_end_transaction_marker(build_control_batch(99, b"", offset=0, timestamp=0)) is None


@pytest.mark.parametrize("value", [b"", b"\0\0\0\0\0", b"\xff\xff\0\0\0\0"])
def test_a_marker_that_says_nothing(value: bytes) -> None:
    with pytest.raises(InvalidRecord, match="value of"):
        read_end_transaction_marker(build_control_batch(ABORT, value, offset=0, timestamp=0))


def test_a_later_version_of_a_marker_is_read_as_far_as_it_is_known() -> None:
    value = struct.pack(">hi", 1, 12) + b"more"
    marker = read_end_transaction_marker(build_control_batch(ABORT, value, offset=5, timestamp=6))
    assert marker is not None
    assert (marker.offset, marker.timestamp, marker.coordinator_epoch, marker.commit) == (5, 6, 12, False)


def test_batches_without_a_marker() -> None:
    assert read_end_transaction_marker(build_batch([BatchRecord(0, 0, b"\0\0\0\0", b"\0\0\0\0\0\0")])) is None
    assert read_end_transaction_marker(build_batch([], base_offset=0, control=True)) is None


def test_batches_are_aborted_from_the_first_one_of_a_transaction_to_its_marker() -> None:
    aborted = AbortedBatches([AbortedTransaction(7, 4, 5, 0), AbortedTransaction(7, 0, 2, 0)])

    def is_aborted(offset: int, producer_id: int = 7, transactional: bool = True) -> bool:
        record = BatchRecord(offset, 0, None, b"")
        batch = build_batch([record], base_offset=offset, producer_id=producer_id, transactional=transactional)
        return aborted.has(read_header(batch))

    def end(offset: int, producer_id: int = 7) -> None:
        marker = build_end_transaction_marker(
            commit=False, coordinator_epoch=0, timestamp=0, offset=offset, producer_id=producer_id
        )
        aborted.ends(read_header(marker), memoryview(marker))

    assert [is_aborted(0), is_aborted(0, 8), is_aborted(0, transactional=False)] == [True, False, False]
    end(1, producer_id=8)
    assert is_aborted(1)
    end(2)
    assert [is_aborted(3), is_aborted(4)] == [False, True]
