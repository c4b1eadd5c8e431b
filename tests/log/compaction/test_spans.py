"""Records as places: the same ones that the record reader finds, and no nonsense believed."""

from __future__ import annotations

from random import Random

import pytest

from pykafka_broker.log.compaction.filter import empty_batch, rewrite
from pykafka_broker.log.compaction.latest import iter_spans, marked_places, records_bytes
from pykafka_broker.records.builder import build_batch
from pykafka_broker.records.compression import GZIP, NONE
from pykafka_broker.records.errors import InvalidRecord
from pykafka_broker.records.header import check_crc, read_header
from pykafka_broker.records.record import Record, iter_records


def some_records(seed: int) -> list[Record]:
    draw = Random(seed)
    records, offset = [], draw.randrange(5)
    for _ in range(draw.randrange(1, 30)):
        size = draw.choice([0, 1, 60, 63, 64, 200, 8191, 8192, 70_000])
        key = None if draw.random() < 0.2 else draw.randbytes(draw.choice([0, 1, 15, 16, 63, 64, 9000]))
        value = None if draw.random() < 0.3 else draw.randbytes(size)
        headers = [("h", b"1"), ("n", None)] if draw.random() < 0.3 else []
        timestamp = 1_000_000 + draw.choice([0, -1, 63, 64, -64, -65, 10_000, -999_999, 1 << 40])
        records.append(Record(offset, timestamp, key, value, headers))
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
    assert [(delta, header.base_timestamp + stamp, key, full) for _, _, _, delta, stamp, key, full in spans] == [
        (record.offset, record.timestamp, record.key, record.value is not None) for record in records
    ]
    assert [start for start, *_ in spans][1:] == [end for _, _, end, *_ in spans][:-1]
    marks = bytes(number % (1 + seed % 3) == 0 for number in range(len(spans)))
    kept = marked_places(data, marks)
    assert kept == [(start, body, end, stamp) for start, body, end, _, stamp, _, _ in spans[:: 1 + seed % 3]]
    for horizon in (None, 5_000_000):
        again = rewrite(header, data, kept, horizon)
        new = read_header(again)
        check_crc(again, new)
        assert (new.base_offset, new.last_offset, new.delete_horizon_ms) == (0, header.last_offset, horizon)
        assert list(iter_records(again)) == records[:: 1 + seed % 3]
        assert new.max_timestamp == max(record.timestamp for record in records[:: 1 + seed % 3])
    empty = read_header(empty_batch(header))
    assert (empty.count, empty.last_offset, empty.max_timestamp) == (0, header.last_offset, header.max_timestamp)


def test_records_of_a_batch_stamped_by_the_broker_keep_its_time() -> None:
    batch = build_batch(some_records(1), base_offset=0, log_append_time=7_000_000)
    header = read_header(batch)
    data = records_bytes(batch, header)
    marks = bytes(number > 0 for number in range(header.count))
    again = rewrite(header, data, marked_places(data, marks), None)
    assert {record.timestamp for record in iter_records(again)} == {7_000_000}
    assert read_header(again).log_append_time


def test_every_cut_is_refused() -> None:
    batch = build_batch(some_records(3)[:4], base_offset=0)
    header = read_header(batch)
    data = records_bytes(batch, header)
    for length in range(0, len(data), 1 + len(data) // 500):
        with pytest.raises(InvalidRecord):
            list(iter_spans(data[:length], header.count))


def test_a_timestamp_in_more_bytes_than_it_needs_is_written_anew() -> None:
    batch = build_batch([Record(number, 1000 + number, b"k", b"v") for number in range(3)], base_offset=0)
    header = read_header(batch)
    data = records_bytes(batch, header)
    assert data[9:12] == bytes([data[0], 0, 2])  # length, attributes, timestamp delta
    twisted = data[:9] + bytes([data[9] + 2, 0, 0x82, 0]) + data[12:]  # the same delta in two bytes
    again = rewrite(header, twisted, marked_places(twisted, b"\0\1\1"), None)
    assert [(record.offset, record.timestamp) for record in iter_records(again)] == [(1, 1001), (2, 1002)]
    assert bytes(again)[61:] == bytes(build_batch(list(iter_records(batch))[1:], base_offset=0))[61:]
