"""The v2 header: every field read, every wrong length, magic and checksum refused, patches kept consistent."""

from __future__ import annotations

import struct
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from pykafka_broker.records.errors import CorruptBatch, TruncatedBatch
from pykafka_broker.records.header import (
    HEADER_SIZE,
    BatchHeader,
    check_crc,
    crc32c,
    iter_batches,
    peek,
    read_header,
    set_max_timestamp,
)


def batch(records: int = 3) -> bytearray:
    builder = DefaultRecordBatchBuilder(2, 0, False, 7, 2, 5, 1 << 20)
    for i in range(records):
        builder.append(i, 1000 + i, b"k", b"value %d" % i, [])
    return bytearray(builder.build())


def test_every_field_is_read_where_kafka_puts_it() -> None:
    names = BatchHeader.__slots__
    values = (-(2**40), 49, -1, 2, 0xDEADBEEF, 0x7B, 2**31 - 1, 2**50, 2**51, 2**52, 2**15 - 1, 2**31 - 1, 2**30)
    raw = b"pad" + struct.pack(">qiibIhiqqqhii", *values)
    header = read_header(raw, 3)
    order = [
        *("base_offset", "length", "partition_leader_epoch", "magic", "crc", "attributes", "last_offset_delta"),
        *("base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "count"),
    ]
    assert sorted(order) == sorted(names)
    assert [getattr(header, name) for name in order] == list(values)
    assert (header.size, header.codec, header.timestamp_type) == (HEADER_SIZE, 3, 1)
    assert header.is_transactional
    assert header.is_control
    assert header.log_append_time
    assert header.delete_horizon_ms == 2**50
    assert header.next_offset == header.last_offset + 1 == header.base_offset + 2**31


@pytest.mark.parametrize(
    ("base", "delta", "last"),
    [(-1, 4, -1), (0, 0, 0), (5, 3, 8), (2**31 - 1, 0, 2**31 - 1), (2**31 - 1, 1, 0), (2**31 - 3, 10, 7)],
)
def test_sequence_numbers_wrap_to_zero(base: int, delta: int, last: int) -> None:
    header = read_header(batch())
    header.base_sequence, header.last_offset_delta = base, delta
    assert header.last_sequence == last


def test_a_second_opinion_on_a_whole_batch() -> None:
    raw = batch(4)
    header, theirs = read_header(raw), DefaultRecordBatch(bytes(raw))
    check_crc(raw, header)
    assert (header.base_offset, header.crc, header.attributes) == (theirs.base_offset, theirs.crc, theirs.attributes)
    assert (header.base_timestamp, header.max_timestamp) == (theirs.first_timestamp, theirs.max_timestamp)
    assert (header.last_offset_delta, header.count, header.size) == (3, 4, len(raw))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 5)


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48, 2**31 - 1, 2**31 - 12])
@pytest.mark.parametrize("available", [12, 61, 100])
def test_an_impossible_length_is_corrupt_however_little_is_there(length: int, available: int) -> None:
    raw = batch()
    struct.pack_into(">i", raw, 8, length)
    with pytest.raises(CorruptBatch, match="length") as raised:
        read_header(raw[:available])
    assert raised.type is CorruptBatch


@pytest.mark.parametrize("magic", [0, 1, 3, 127, 255])
@pytest.mark.parametrize("available", [17, 60, 100])
def test_another_magic_is_corrupt(magic: int, available: int) -> None:
    raw = batch()
    raw[16] = magic
    with pytest.raises(CorruptBatch, match="magic") as raised:
        read_header(raw[:available])
    assert raised.type is CorruptBatch


def whole(magic: int, length: int = 14) -> bytes:
    return struct.pack(">qiiB", 0, length, 0, magic) + bytes(max(length - 5, 0))


def test_the_format_of_a_whole_batch_or_message() -> None:
    for magic in (0, 1, 2):
        assert peek(whole(magic)) == magic
        assert peek(b"pad" + whole(magic), 3) == magic
        assert peek(whole(magic)[:-1]) is None
    assert peek(whole(3)[:16]) is None


@pytest.mark.parametrize(("magic", "length"), [(3, 14), (255, 14), (2, 13), (2, 0), (2, -1), (2, 2**31 - 12)])
def test_where_nothing_can_be_told_of_a_batch_it_is_corrupt(magic: int, length: int) -> None:
    with pytest.raises(CorruptBatch):
        peek(whole(magic, 14)[:8] + struct.pack(">iiB", length, 0, magic))


def test_batches_follow_each_other_and_a_cut_tail_is_told_apart() -> None:
    first, second = batch(1), batch(5)
    both = bytes(first + second)
    assert [(h.count, bytes(view)) for h, view in iter_batches(both)] == [(1, first), (5, second)]
    assert list(iter_batches(b"")) == []
    for cut in range(len(first) + 1, len(both)):
        batches = iter_batches(both[:cut])
        assert next(batches)[0].count == 1
        with pytest.raises(TruncatedBatch):
            next(batches)


@given(st.integers(21, len(batch()) - 1), st.integers(1, 255))
def test_any_changed_byte_under_the_crc_is_found(position: int, flip: int) -> None:
    raw = batch()
    raw[position] ^= flip
    with pytest.raises(CorruptBatch, match="crc"):
        check_crc(raw, read_header(raw))


def test_crc_of_a_batch_inside_a_buffer_and_beyond_it() -> None:
    raw = b"x" * 7 + bytes(batch()) + b"y" * 9
    header = read_header(raw, 7)
    check_crc(raw, header, 7)
    check_crc(memoryview(raw), header, 7)
    with pytest.raises(TruncatedBatch):
        check_crc(raw[:-10], header, 7)


def test_the_crc_does_not_cover_offset_and_leader_epoch() -> None:
    raw = bytearray(b"x" * 7) + batch()
    crc = read_header(raw, 7).crc
    raw[7:15], raw[19:23] = (2**40).to_bytes(8, "big"), (12).to_bytes(4, "big")
    header = read_header(raw, 7)
    assert (header.base_offset, header.partition_leader_epoch, header.crc) == (2**40, 12, crc)
    check_crc(raw, header, 7)


def test_log_append_time_is_written_under_a_new_crc_and_taken_back() -> None:
    original = batch()
    raw = bytearray(original)
    set_max_timestamp(raw, 5_000, log_append_time=True)
    header = read_header(raw)
    check_crc(raw, header)
    assert (header.log_append_time, header.max_timestamp, header.base_timestamp) == (True, 5_000, 1_000)
    assert {r.timestamp for r in DefaultRecordBatch(bytes(raw))} == {5_000}
    set_max_timestamp(raw, 1_002, log_append_time=False)
    assert raw == original


def test_a_patch_of_a_batch_that_is_not_all_there_changes_nothing() -> None:
    raw = batch()[:-1]
    before = bytes(raw)
    with pytest.raises(TruncatedBatch):
        set_max_timestamp(raw, 5_000, log_append_time=True)
    assert raw == before


def test_the_extension_is_loaded_without_its_package_and_the_package_still_works_afterwards() -> None:
    code = (
        "import sys; from pykafka_broker.records.header import crc32c; assert 'crc32c' not in sys.modules; "
        "import crc32c as package; print(crc32c(b'123456789'), package.crc32c(b'123456789'))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert found == [str(0xE3069283)] * 2
    assert crc32c(b"") == 0
