"""Message formats v0 and v1: round trips, a second opinion, nesting, and every way in which the bytes can be wrong."""

from __future__ import annotations

import struct
import zlib
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from pykafka_broker.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress
from pykafka_broker.records.conversion import build_message_set, iter_entries, iter_messages, messages_and_pauses
from pykafka_broker.records.errors import CorruptBatch, InvalidRecord, TruncatedBatch, UnsupportedCompression
from pykafka_broker.records.record import BatchRecord, Headers
from pykafka_broker.steps import at_once
from tests.records.samples import outcome, plain_records, record_lists

LEGACY = st.tuples(st.integers(0, 1), st.integers(NONE, LZ4))
NO_HEADERS: st.SearchStrategy[Headers] = st.just([])


def as_seen(records: list[BatchRecord], magic: int) -> list[BatchRecord]:
    return [BatchRecord(r.offset, r.timestamp if magic else -1, r.key, r.value) for r in records]


@given(record_lists(headers=NO_HEADERS), LEGACY)
@settings(max_examples=200)
def test_round_trip(records: list[BatchRecord], form: tuple[int, int]) -> None:
    magic, codec = form
    raw = at_once(build_message_set(records, magic, codec=codec))
    assert list(iter_messages(raw)) == as_seen(records, magic)
    assert list(iter_messages(memoryview(raw + raw))) == as_seen(records, magic) * 2
    assert [entry.codec for entry in iter_entries(raw)] == ([codec] if codec else [NONE] * len(records))


@pytest.mark.parametrize(
    ("magic", "codec"), [(m, c) for m in (0, 1) for c in (NONE, GZIP, SNAPPY, LZ4) if m or c != LZ4]
)
def test_a_second_opinion_both_ways(magic: int, codec: int) -> None:
    """Not for lz4 in v0: kafka-python wants another library for its checksum."""
    records = as_seen(plain_records(20), magic)
    theirs = MemoryRecords(at_once(build_message_set(records, magic, codec=codec)))
    read = [record for batch in iter(theirs.next_batch, None) for record in batch]
    assert [(r.offset, r.key, r.value) for r in read] == [(r.offset, r.key, r.value) for r in records]
    if magic:
        assert [r.timestamp for r in read] == [r.timestamp for r in records]
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    for record in records:
        builder.append(record.offset, record.timestamp, record.key, record.value)
    messages = list(iter_messages(bytes(builder.build())))
    if magic and codec:  # its wrapper is at offset 0, as a producer's may be
        assert [m.offset for m in messages] == list(range(-19, 1))
        messages = [BatchRecord(m.offset + 19, m.timestamp, m.key, m.value) for m in messages]
    assert messages == records


def test_nothing_makes_nothing() -> None:
    assert at_once(build_message_set([], 1, codec=GZIP)) == b""
    assert list(iter_messages(b"")) == []


def message(body: bytes, offset: int = 0) -> bytes:
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def wrapper(inner: bytes, *, magic: int = 0, codec: int = GZIP) -> bytes:
    value = compress(codec, inner)
    return message(bytes([magic, codec]) + bytes(8 * magic) + struct.pack(">ii", -1, len(value)) + value, 7)


def test_every_cut_is_truncated() -> None:
    raw = at_once(build_message_set(plain_records(3), 1))
    ends = [entry.offset for entry in iter_entries(raw)]
    assert ends == [0, 1, 2]
    whole = {0}
    for count in (1, 2, 3):
        whole.add(len(at_once(build_message_set(plain_records(count), 1))))
    for cut in range(len(raw)):
        if cut in whole:
            list(iter_entries(raw[:cut]))
        else:
            with pytest.raises(TruncatedBatch):
                list(iter_entries(raw[:cut]))


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4])
def test_every_changed_byte_under_the_crc_is_corrupt(magic: int, codec: int) -> None:
    raw = bytearray(at_once(build_message_set(plain_records(1), magic, codec=codec)))
    for position in range(8, len(raw)):
        raw[position] ^= 0x55
        with pytest.raises(CorruptBatch):
            list(iter_messages(raw))
        raw[position] ^= 0x55


@pytest.mark.parametrize(
    ("raw", "message_text", "kind"),
    [
        (struct.pack(">qi", 0, -1) + bytes(40), "message size -1", CorruptBatch),
        (struct.pack(">qi", 0, 13) + bytes(40), "message size 13", CorruptBatch),
        (message(b"\x02\0" + bytes(8)), "magic 2", CorruptBatch),
        (message(b"\x01\0" + bytes(8)), "message size 14", CorruptBatch),
        (message(b"\0\0" + struct.pack(">ii", -2, -1)), "a field of -2 bytes", InvalidRecord),
        (message(b"\0\0" + struct.pack(">ii", 5, -1)), "a field of 5 bytes with 4 left", InvalidRecord),
        (message(b"\0\0" + struct.pack(">i", 2) + bytes(4)), "value is missing", InvalidRecord),
        (message(b"\0\0" + struct.pack(">ii", -1, -1) + b"x"), "1 bytes follow the value", InvalidRecord),
        (message(b"\0\x01" + struct.pack(">ii", -1, -1)), "has no value", InvalidRecord),
        (message(b"\0\x04" + struct.pack(">ii", -1, -1)), "zstd in a message of format v0", UnsupportedCompression),
        (message(b"\0\x05" + struct.pack(">ii", -1, 0)), "codec 5", CorruptBatch),
        (message(b"\0\x01" + struct.pack(">ii", -1, 0)), "gzip", CorruptBatch),
        (wrapper(b""), "is empty", InvalidRecord),
        (wrapper(b"short"), "5 bytes", CorruptBatch),
        (
            wrapper(at_once(build_message_set(plain_records(2), 1))),
            "format v1 and codec 0 in a wrapper of format v0",
            InvalidRecord,
        ),
        (wrapper(wrapper(b"")), "format v0 and codec 1 in a wrapper of format v0", InvalidRecord),
    ],
)
def test_what_can_not_stand_there(raw: bytes, message_text: str, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=message_text) as raised:
        list(iter_messages(raw))
    assert raised.type in (kind, TruncatedBatch)


def test_growth_is_bounded_over_all_wrappers() -> None:
    raw = b"".join(at_once(build_message_set([BatchRecord(i, 0, None, bytes(5_000))], 1, codec=GZIP)) for i in range(4))
    assert sum(message is not None for message in messages_and_pauses(raw, 20_200)) == 4
    with pytest.raises(CorruptBatch, match="grows beyond"):
        list(messages_and_pauses(raw, 20_000))


def test_zstd_is_not_written() -> None:
    with pytest.raises(UnsupportedCompression):
        at_once(build_message_set(plain_records(1), 1, codec=ZSTD))


@given(st.binary(max_size=80), st.integers(0, 1), st.integers(0, 7))
@settings(max_examples=300)
def test_noise_under_a_right_crc(noise: bytes, magic: int, attributes: int) -> None:
    for raw in (
        noise,
        message(bytes([magic, attributes]) + noise),
        wrapper(message(bytes([magic, 0]) + noise), magic=magic),
    ):
        try:
            outcome(partial(messages_and_pauses, raw, 1 << 16))
        except UnsupportedCompression:
            assert attributes == ZSTD
