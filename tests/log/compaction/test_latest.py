"""Marks of records as a plain dictionary gives them, in bounded memory; records as places, the same that the record
reader finds, and damaged ones refused.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from pykafka_broker.log.compaction.filter import empty_batch, rewrite
from pykafka_broker.log.compaction.latest import (
    GONE,
    TOMBSTONE,
    UNKNOWN,
    VALUE,
    LatestRecords,
    iter_spans,
    kept_spans,
    keys_of,
    marked_records,
    records_bytes,
)
from pykafka_broker.records.builder import build_batch
from pykafka_broker.records.compression import GZIP, NONE
from pykafka_broker.records.errors import InvalidRecord
from pykafka_broker.records.header import HEADER_SIZE, check_crc, read_header
from pykafka_broker.records.record import BatchRecord, iter_records

MEMORY_BYTES = 1 << 20


Row = tuple[int, bytes | None, bool]  # offset delta, key, whether there is a value


def learn(latest: LatestRecords, base_offset: int, *rows: Row) -> None:
    """Learn a batch of records."""
    records = [BatchRecord(delta, 0, key, b"v" if has_value else None) for delta, key, has_value in rows]
    data = bytes(build_batch(records, base_offset=0)[HEADER_SIZE:]) if records else b""
    latest.learn(base_offset, b"before" + data + b"behind", len(records), 6, 6 + len(data))


def all_in_a_row(*keys: bytes) -> list[Row]:
    return [(number, key, True) for number, key in enumerate(keys)]


def some_key(number: int) -> bytes:
    """Return a short or a long key."""
    return b"%d" % number * (1 if number % 5 else 70)


@pytest.mark.parametrize("memory_bytes", [MEMORY_BYTES, 12_000], ids=["keys as they are", "then digests"])
@pytest.mark.parametrize("seed", range(20))
def test_marks_are_those_of_a_dictionary(seed: int, memory_bytes: int) -> None:
    draw = Random(seed)
    latest = LatestRecords(memory_bytes, 0, 1 << 40)
    last: dict[bytes, int] = {}
    batches: dict[int, list[Row]] = {}
    offset = 0
    for _ in range(draw.randrange(1, 40)):
        rows: list[Row] = []
        for number in range(draw.randrange(30)):
            key = None if draw.random() < 0.1 else some_key(draw.randrange(200))
            rows.append((number * 3, key, draw.random() < 0.8))
            if key is not None:
                last[key] = offset + number * 3
        batches[offset] = rows
        assert latest.has_room(len(rows))
        learn(latest, offset, *rows)
        offset += 1000 + len(rows) * 3
    assert len(latest) == len(last)
    assert latest.dropped_keyless == sum(key is None for rows in batches.values() for _, key, _ in rows)
    for base, rows in batches.items():
        expected = [
            (VALUE if has_value else TOMBSTONE) if key is not None and last[key] == base + delta else GONE
            for delta, key, has_value in rows
        ]
        assert latest.marks_of(base) == bytes(expected)
    assert all((some_key(number) in latest) == (some_key(number) in last) for number in range(200))
    assert b"x" not in latest


def test_a_batch_that_was_not_learned_has_no_marks() -> None:
    latest = LatestRecords(MEMORY_BYTES, 0, 100)
    for base in (0, 20):
        learn(latest, base, *all_in_a_row(b"%d" % base))
    assert [latest.marks_of(base) for base in (0, 10, 20, 30)] == [b"\1", None, b"\1", None]


def test_records_before_the_first_offset_are_not_looked_at() -> None:
    latest = LatestRecords(MEMORY_BYTES, 12, 100)
    learn(latest, 10, *all_in_a_row(b"a", b"b", b"a", b"c"))
    assert latest.marks_of(10) == bytes([UNKNOWN, UNKNOWN, VALUE, VALUE])
    assert b"a" in latest
    assert b"b" not in latest


def test_keys_have_a_limit() -> None:
    latest = LatestRecords(1000, 0, 1 << 40)  # 750 bytes of slots of 20 bytes, 75 % of which may be taken
    learn(latest, 0, *all_in_a_row(*(b"%d" % number for number in range(20))))
    assert latest.has_room(7)
    assert not latest.has_room(8)


def test_records_and_batches_have_a_limit_too() -> None:
    latest = LatestRecords(1000, 0, 1 << 40)
    for base in range(20):
        assert latest.has_room(1) == (base * 13 + 1 <= 250)
        learn(latest, base, *all_in_a_row(b"the same"))


def test_the_table_is_no_larger_than_the_log_needs() -> None:
    latest = LatestRecords(1 << 40, 1000, 1003)
    learn(latest, 1000, *all_in_a_row(b"a", b"b", b"c"))
    assert len(latest) == 3
    assert b"d" not in latest


def test_the_first_batch_always_has_room() -> None:
    latest = LatestRecords(100, 0, 1 << 40)
    keys = [b"%d" % number for number in range(500)]
    assert latest.has_room(500)
    learn(latest, 0, *all_in_a_row(*keys, *keys[:10]))
    assert len(latest) == 500
    assert latest.marks_of(0) == bytes([GONE] * 10 + [VALUE] * 500)
    assert not latest.has_room(1)


def some_records(seed: int) -> list[BatchRecord]:
    draw = Random(seed)
    records, offset = [], draw.randrange(5)
    for _ in range(draw.randrange(1, 30)):
        size = draw.choice([0, 1, 60, 63, 64, 200, 8191, 8192, 70_000])
        key = None if draw.random() < 0.2 else draw.randbytes(draw.choice([0, 1, 15, 16, 63, 64, 9000]))
        value = None if draw.random() < 0.3 else draw.randbytes(size)
        headers = [("h", b"1"), ("n", None)] if draw.random() < 0.3 else []
        timestamp = 1_000_000 + draw.choice([0, -1, 63, 64, -64, -65, 10_000, -999_999, 1 << 40])
        records.append(BatchRecord(offset, timestamp, key, value, headers))
        offset += draw.choice([1, 1, 1, 63, 64, 8192, 1 << 20])
    return records


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_spans_are_the_records(seed: int, codec: int) -> None:
    records = some_records(seed)
    batch = build_batch(records, base_offset=0, codec=codec)
    header = read_header(batch)
    data = records_bytes(batch, header)
    spans = list(iter_spans(data, header.count))
    assert [(delta, header.base_timestamp + stamp, key, full) for _, _, delta, stamp, key, full in spans] == [
        (record.offset, record.timestamp, record.key, record.value is not None) for record in records
    ]
    keys, known = keys_of(data, header.count, 0, len(data))
    assert keys == [record.key for record in records]
    assert known == bytes(mark_of(record) for record in records)
    assert [start for start, *_ in spans][1:] == [end for _, end, *_ in spans][:-1]
    marks = bytes(number % (1 + seed % 3) == 0 for number in range(len(spans)))
    kept = marked_records(data, marks)
    assert kept == kept_spans(data, spans[:: 1 + seed % 3])
    for horizon in (None, 5_000_000):
        again = rewrite(header, kept, horizon)
        new = read_header(again)
        check_crc(again, new)
        assert (new.base_offset, new.last_offset, new.delete_horizon_ms) == (0, header.last_offset, horizon)
        assert list(iter_records(again)) == records[:: 1 + seed % 3]
        assert new.max_timestamp == max(record.timestamp for record in records[:: 1 + seed % 3])
    empty = read_header(empty_batch(header))
    assert (empty.count, empty.last_offset, empty.max_timestamp) == (0, header.last_offset, header.max_timestamp)


def mark_of(record: BatchRecord) -> int:
    """Return the mark of a record without a later one of its key."""
    return GONE if record.key is None else VALUE if record.value is not None else TOMBSTONE


@pytest.mark.parametrize("seed", range(60))
def test_records_that_are_alike_are_told_from_those_that_are_not(seed: int) -> None:
    draw = Random(seed)
    forms = [
        (draw.choice([None, b"", bytes(3), bytes(64)]), draw.choice([None, b"", bytes(3), bytes(64), bytes(200)]))
        for _ in range(draw.choice([1, 2, 3]))
    ]
    records, stamp = [], 1_000_000
    for number in range(draw.choice([3, 20, 70, 200])):
        key, value = forms[0] if draw.random() < 0.8 else draw.choice(forms)
        key = key and draw.randbytes(len(key))
        headers: list[tuple[str, bytes | None]] = [("h", bytes(draw.randrange(3)))] if draw.random() < 0.05 else []
        records.append(BatchRecord(number, stamp + draw.choice([0, 0, 0, 70]), key, value, headers))
        stamp += draw.choice([0, 1, 50])
    data = bytes(build_batch(records, base_offset=0)[HEADER_SIZE:])
    assert keys_of(data, len(records), 0, len(data)) == (
        [each.key for each in records],
        bytearray(map(mark_of, records)),
    )
    damaged = bytearray(data)
    for _ in range(20):
        damaged[:] = data
        damaged[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        assert _read(lambda data, count: keys_of(data, count, 0, len(data)), bytes(damaged), len(records)) == _read(
            keys_one_by_one, bytes(damaged), len(records)
        )


def keys_one_by_one(data: bytes, count: int) -> tuple[list[bytes | None], bytearray]:
    """Return what `keys_of` does, from spans."""
    spans = list(iter_spans(data, count))
    marks = [GONE if key is None else VALUE if full else TOMBSTONE for *_, key, full in spans]
    return [key for *_, key, _ in spans], bytearray(marks)


def _read(reader: Callable[[bytes, int], object], data: bytes, count: int) -> object:
    """Return the keys, or that the data is refused."""
    try:
        return reader(data, count)
    except InvalidRecord:
        return "refused"


def test_records_of_a_batch_stamped_by_the_broker_keep_its_time() -> None:
    batch = build_batch(some_records(1), base_offset=0, log_append_time=7_000_000)
    header = read_header(batch)
    data = records_bytes(batch, header)
    marks = bytes(number > 0 for number in range(header.count))
    again = rewrite(header, marked_records(data, marks), None)
    assert {record.timestamp for record in iter_records(again)} == {7_000_000}
    rewritten = bytes(again)[HEADER_SIZE:]
    assert {span[3] for span in iter_spans(rewritten, header.count - 1)} == {0}
    assert read_header(again).log_append_time


def test_every_cut_is_refused() -> None:
    batch = build_batch(some_records(3)[:4], base_offset=0)
    header = read_header(batch)
    data = records_bytes(batch, header)
    for length in range(0, len(data), 1 + len(data) // 500):
        with pytest.raises(InvalidRecord):
            list(iter_spans(data[:length], header.count))
        with pytest.raises(InvalidRecord):
            keys_of(data, header.count, 0, length)


def test_a_timestamp_in_more_bytes_than_it_needs_is_written_anew() -> None:
    batch = build_batch([BatchRecord(number, 1000 + number, b"k", b"v") for number in range(3)], base_offset=0)
    header = read_header(batch)
    data = records_bytes(batch, header)
    assert data[9:12] == bytes([data[0], 0, 2])  # length, attributes, timestamp delta
    twisted = data[:9] + bytes([data[9] + 2, 0, 0x82, 0]) + data[12:]  # the same delta in two bytes
    again = rewrite(header, marked_records(twisted, b"\0\1\1"), None)
    assert [(record.offset, record.timestamp) for record in iter_records(again)] == [(1, 1001), (2, 1002)]
    assert bytes(again)[61:] == bytes(build_batch(list(iter_records(batch))[1:], base_offset=0))[61:]


@pytest.mark.parametrize("seed", range(40))
def test_marked_records_are_the_marked_spans(seed: int) -> None:
    draw = Random(seed)
    sizes = draw.choice([[5], [5, 6], [5, 5, 5, 5, 5, 5, 90], [5, 5, 5, 5, 5, 5, 5, 9000]])
    step = draw.choice([0, 1, 1, -1, 40])
    records = [
        BatchRecord(number, 1_000_000 + number // 7 * step, b"key", bytes(draw.choice(sizes)))
        for number in range(draw.choice([1, 9, 600, 1500]))
    ]
    data = bytes(build_batch(records, base_offset=0)[HEADER_SIZE:])
    share = draw.choice([0.1, 0.5, 0.9])
    marks = bytes(draw.random() < share for _ in records)
    spans = [span for span, mark in zip(iter_spans(data, len(records)), marks, strict=True) if mark]
    assert marked_records(b"before" + data, marks, 6) == kept_spans(data, spans)
