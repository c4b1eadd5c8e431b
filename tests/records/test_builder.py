"""The batch builder: offsets, sizes and refusals. What it writes is compared with Kafka's own in `test_golden.py`."""

from __future__ import annotations

import pytest

from pykafka_broker.records.builder import BatchBuilder, build_batch, build_keyed_batch
from pykafka_broker.records.compression import GZIP
from pykafka_broker.records.header import HEADER_SIZE, read_header
from pykafka_broker.records.record import BatchRecord, iter_records
from tests.records.samples import plain_records


def test_appended_records_follow_each_other() -> None:
    builder = BatchBuilder(base_offset=40)
    sizes = [builder.size]
    for record in (BatchRecord(40, 5, b"a", b"b"), BatchRecord(41, 9, None, None, [("h", None)]), BatchRecord(45, 7)):
        offset = record.offset if record.offset == 45 else None
        builder.append(record.key, record.value, record.timestamp, record.headers, offset)
        sizes.append(builder.size)
    builder.append(b"last", b"", 6)
    assert (builder.count, builder.last_offset_delta, builder.max_timestamp) == (4, 6, 9)
    assert sizes[0] == HEADER_SIZE
    assert sizes == sorted(set(sizes))
    size = builder.size
    batch = builder.build()
    assert len(batch) == size
    assert [(r.offset, r.key) for r in iter_records(batch)] == [(40, b"a"), (41, None), (45, None), (46, b"last")]


def test_records_may_come_in_several_lots() -> None:
    records = plain_records(10)
    builder = BatchBuilder(codec=GZIP)
    builder.extend(records[:4])
    builder.extend(iter(records[4:]))
    assert builder.build() == build_batch(records, codec=GZIP)


@pytest.mark.parametrize("offsets", [(5, 5), (5, 4), (5, 5 + 2**31)])
def test_offsets_must_rise_within_32_bits(offsets: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=f"offset {offsets[1]}"):
        build_batch([BatchRecord(offset) for offset in offsets])
    with pytest.raises(ValueError, match="offset 5"):
        build_batch([BatchRecord(5)], base_offset=6)


def test_records_of_any_size() -> None:
    for size in (0, 1, 2047, 2048, 70_000):
        record = BatchRecord(0, 0, bytes(size), bytes(size), [("k" * size, bytes(size))])
        assert list(iter_records(build_batch([record]))) == [record]


@pytest.mark.parametrize("producer", [(-1, -1), (7, 3)])
@pytest.mark.parametrize("size", [0, 1, 127, 3000, 40_000])
@pytest.mark.parametrize("count", [1, 2, 2100])
def test_a_batch_of_keys_and_values_is_what_the_builder_makes_of_them(
    producer: tuple[int, int], size: int, count: int
) -> None:
    pairs = [(b"k" * (size // 2 + number % 3), None if number % 2 else b"v" * size) for number in range(count)]
    producer_id, producer_epoch = producer
    batch, header = build_keyed_batch(pairs, 1_700_000, producer_id=producer_id, producer_epoch=producer_epoch)
    assert batch == build_batch(
        [BatchRecord(number, 1_700_000, key, value) for number, (key, value) in enumerate(pairs)],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=producer_id >= 0,
    )
    assert repr(header) == repr(read_header(batch))
