"""Records in v2 batches: round trips, a second opinion, and every way in which the bytes can be wrong."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from pykafka_broker.records.builder import build_batch, varint
from pykafka_broker.records.compression import LZ4, ZSTD
from pykafka_broker.records.control import read_end_transaction_marker
from pykafka_broker.records.conversion import from_v2
from pykafka_broker.records.errors import CorruptBatch, InvalidRecord, TruncatedBatch, UnsupportedCompression
from pykafka_broker.records.header import HEADER_SIZE, check_crc, read_header
from pykafka_broker.records.record import BatchRecord, iter_records, read_varint
from pykafka_broker.steps import at_once
from tests.records.samples import INT64, outcome, plain_records, record_lists, with_payload


@given(record_lists(), st.integers(0, ZSTD))
@settings(max_examples=200)
def test_round_trip(records: list[BatchRecord], codec: int) -> None:
    batch = build_batch(records, codec=codec)
    check_crc(batch, read_header(batch))
    assert list(iter_records(batch)) == records
    assert list(iter_records(bytes(batch) + b"the next batch")) == records


@given(record_lists(contiguous=True), st.integers(0, ZSTD))
def test_kafka_python_reads_what_is_built(records: list[BatchRecord], codec: int) -> None:
    theirs = DefaultRecordBatch(bytes(build_batch(records, codec=codec)))
    assert theirs.validate_crc()
    read = [(r.offset, r.key, r.value, r.headers) for r in theirs]
    assert read == [(r.offset, r.key, r.value, r.headers) for r in records]


@given(record_lists(contiguous=True), st.integers(0, ZSTD))
def test_what_kafka_python_builds_is_read(records: list[BatchRecord], codec: int) -> None:
    builder = DefaultRecordBatchBuilder(2, codec, False, -1, -1, -1, 1 << 30)
    first, time = records[0].offset, 1_700_000_000_000
    for record in records:
        builder.append(record.offset - first, time + record.offset, record.key, record.value, record.headers)
    expected = [BatchRecord(r.offset - first, time + r.offset, r.key, r.value, r.headers) for r in records]
    assert list(iter_records(bytes(builder.build()))) == expected


@pytest.mark.parametrize("size", [*range(8_170, 8_200), *range(1_048_560, 1_048_580)])
def test_sizes_around_a_longer_varint(size: int) -> None:
    """The loop takes sizes of two bytes; cut off there, some of three bytes look like a sound record."""
    for record in (
        BatchRecord(0, 0, bytes(size), b""),
        BatchRecord(0, 0, None, bytes(size)),
        BatchRecord(0, 0, b"k", bytes(size - 5)),
    ):
        assert list(iter_records(build_batch([record]))) == [record]


def test_a_header_key_that_is_not_utf8_survives() -> None:
    name = b"\xff\x80ok".decode("utf-8", "surrogateescape")
    batch = build_batch([BatchRecord(0, 0, None, None, [(name, b"v")])])
    assert b"\xff\x80ok" in batch
    assert next(iter_records(batch)).headers == [(name, b"v")]


@pytest.mark.parametrize("codec", range(5))
def test_every_cut_of_a_batch_is_truncated(codec: int) -> None:
    batch = build_batch(plain_records(), codec=codec)
    for cut in range(len(batch)):
        with pytest.raises(TruncatedBatch):
            iter_records(batch[:cut])


@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_cut_of_the_records_is_invalid(count: int) -> None:
    payload = build_batch(plain_records(count))[HEADER_SIZE:]
    for cut in range(len(payload)):
        batch = with_payload(payload[:cut], count)
        assert outcome(partial(iter_records, batch)) is InvalidRecord


@given(st.data())
@settings(max_examples=500)
def test_damaged_records_are_read_or_refused_and_all_paths_agree(data: st.DataObject) -> None:
    """A base timestamp of 2**62 sends every record through the strict reader; the loop must not be more lenient."""
    base = 1 << 62
    records = [BatchRecord(r.offset, r.timestamp - 1_000, r.key, r.value, r.headers) for r in plain_records()]
    payload = build_batch(records)[HEADER_SIZE:]
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(payload) - 1))
        payload[position] = data.draw(st.one_of(st.integers(0, 255), st.sampled_from([0, 1, 3, 127, 128, 255])))
    fast = outcome(lambda: iter_records(with_payload(payload, len(records))))
    strict = outcome(lambda: iter_records(with_payload(payload, len(records), base_timestamp=base)))
    if isinstance(fast, list) and isinstance(strict, list):
        for one, other in zip(fast, strict, strict=True):
            other.timestamp = (other.timestamp - base + (1 << 63)) % (1 << 64) - (1 << 63)
            assert one == other
    else:
        assert fast is strict


@given(st.data())
@settings(max_examples=300)
def test_a_changed_byte_anywhere_is_no_more_than_corrupt(data: st.DataObject) -> None:
    """Whoever doesn't check the CRC still meets no other exception."""
    batch = build_batch(plain_records(), codec=data.draw(st.integers(0, ZSTD)))
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.one_of(st.integers(0, len(batch) - 1), st.integers(0, HEADER_SIZE - 1)))
        batch[position] = data.draw(st.one_of(st.integers(0, 255), st.sampled_from([0, 127, 128, 255])))

    def check() -> list[Any]:
        check_crc(batch, read_header(batch))
        return []

    outcome(lambda: iter_records(batch, max_bytes=1 << 16))
    outcome(check)
    outcome(lambda: [read_end_transaction_marker(batch)])
    try:
        outcome(lambda: [at_once(from_v2(batch, 1, max_bytes=1 << 16))])
    except UnsupportedCompression:
        assert read_header(batch).codec == ZSTD


@given(st.binary(max_size=100), st.integers(0, 8), st.integers(0, 7))
def test_noise_behind_a_sound_header(noise: bytes, count: int, codec: int) -> None:
    batch = with_payload(noise, count)
    batch[22] = codec
    outcome(lambda: iter_records(batch, max_bytes=1 << 16))


def record_bytes(body: bytes) -> bytes:
    return varint(len(body)) + body


@pytest.mark.parametrize(
    ("count", "payload", "message"),
    [
        (2, record_bytes(bytes(6)), "2 records can't stand in 7 bytes"),
        (-1, b"", "-1 records"),
        (1, record_bytes(bytes(6)) * 2, "7 bytes follow the 1 records"),
        (1, record_bytes(bytes(7)), "fields up to byte 7"),
        (1, varint(100) + bytes(6), "a record of 100 bytes with 6 left"),
        (1, varint(-1) + bytes(6), "a record of -1 bytes"),
        (1, varint(-7) + bytes(6), "a record of -7 bytes"),
        (1, varint(-107) + bytes(106), "a record of -107 bytes"),
        (1, record_bytes(b"\0\0\0\x40\0\0"), "cut short at byte 7"),
        (1, record_bytes(b"\0\0\0\0\0\x7e"), "63 headers with 0 bytes left"),
        (1, record_bytes(b"\0\0\0\0\0\x01"), "-1 headers"),
        (1, record_bytes(b"\0\0\0\0\0\x02\x01\x01"), "key is null"),
        (1, record_bytes(b"\0\0\0\0\0\x02\x08\x01"), "a field of 4 bytes with 1 left"),
        (1, record_bytes(b"\0\0" + b"\xff" * 5 + bytes(4)), "more than 32 bits"),
        (1, record_bytes(b"\0" + b"\xff" * 10 + bytes(5)), "more than 64 bits"),
    ],
)
def test_what_can_not_stand_there(count: int, payload: bytes, message: str) -> None:
    with pytest.raises(InvalidRecord, match=message):
        list(iter_records(with_payload(payload, count)))


def test_what_kafka_takes_can_be_read() -> None:
    """Lengths below zero mean null, offset deltas are not looked at, and bits beyond an int are dropped."""
    payload = record_bytes(b"\0\0\x01\x03\x05\0") + record_bytes(b"\0\0" + b"\xfe\xff\xff\xff\x7f" + b"\0\0\0")
    first, second = iter_records(with_payload(payload, 2))
    assert (first.offset, first.key, first.value) == (-1, None, None)
    assert second.offset == 2**31 - 1


def test_offsets_beyond_int64_are_refused() -> None:
    batch = bytearray(build_batch([BatchRecord(0, 0)]))
    batch[0:8] = (2**63 - 1).to_bytes(8, "big")
    with pytest.raises(InvalidRecord, match="leaves no room"):
        iter_records(batch)


def test_growth_is_bounded() -> None:
    batch = build_batch([BatchRecord(0, 0, None, bytes(100_000))], codec=LZ4)
    assert len(list(iter_records(batch, max_bytes=100_100))) == 1
    with pytest.raises(CorruptBatch, match="beyond 1000"):
        iter_records(batch, max_bytes=1_000)


@given(INT64)
def test_varints(value: int) -> None:
    raw = varint(value)
    assert read_varint(b"x" + raw, 1, 64) == (value, 1 + len(raw))
    if -(2**31) <= value < 2**31:
        assert read_varint(raw, 0) == (value, len(raw))
        assert len(raw) <= 5
    elif len(raw) > 5:
        with pytest.raises(InvalidRecord):
            read_varint(raw, 0)


def test_records_compare_by_content() -> None:
    assert BatchRecord(1, 2, b"k", b"v") == BatchRecord(1, 2, b"k", b"v", [])
    assert BatchRecord(1, 2, b"k", b"v") != BatchRecord(1, 2, b"k", None)
    assert BatchRecord() != (0, -1, None, None, [])
    assert repr(BatchRecord(1, 2, b"k")) == "BatchRecord(offset=1, timestamp=2, key=b'k', value=None, headers=[])"
