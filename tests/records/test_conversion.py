"""Conversion at its edges; what Kafka 3.9 makes of sound records is compared in `test_golden.py`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka_broker.records.builder import build_batch
from pykafka_broker.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from pykafka_broker.records.control import build_end_transaction_marker
from pykafka_broker.records.conversion import build_message_set, from_v2, iter_messages, to_v2, with_codec
from pykafka_broker.records.errors import CorruptBatch, InvalidRecord, TruncatedBatch, UnsupportedCompression
from pykafka_broker.records.header import HEADER_SIZE, read_header
from pykafka_broker.records.record import BatchRecord, iter_records
from pykafka_broker.steps import at_once
from tests.records.samples import plain_records, record_lists, with_payload


def content(records: list[BatchRecord]) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.timestamp, record.key, record.value) for record in records]


@given(record_lists(contiguous=True), st.integers(NONE, LZ4))
def test_there_and_back(records: list[BatchRecord], codec: int) -> None:
    message_set = at_once(from_v2(build_batch(records, codec=codec), 1))
    assert [message.offset for message in iter_messages(message_set)] == [record.offset for record in records]
    batch = at_once(to_v2(message_set))
    assert read_header(batch).codec == codec
    assert [r.offset + records[0].offset for r in iter_records(batch)] == [r.offset for r in records]
    assert content(list(iter_records(batch))) == content(records)


def test_offsets_are_counted_anew_on_the_way_up() -> None:
    """Producers of message sets write what they like there, and a wrapper's may be 0."""
    records = [BatchRecord(offset, 5, b"k", b"v") for offset in (7, 7, 0)]
    message_set = at_once(build_message_set(records[:2], 1)) + at_once(build_message_set(records[2:], 1))
    assert [r.offset for r in iter_records(at_once(to_v2(message_set)))] == [0, 1, 2]


def test_an_empty_or_cut_set_is_refused_on_the_way_up() -> None:
    with pytest.raises(InvalidRecord, match="without a message"):
        at_once(to_v2(b""))
    with pytest.raises(TruncatedBatch):
        at_once(to_v2(at_once(build_message_set(plain_records(2), 1))[:-1]))


def test_control_batches_stay_out_on_the_way_down() -> None:
    marker = build_end_transaction_marker(
        commit=True, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=5, offset=3
    )
    batches = bytes(build_batch(plain_records(3)) + marker + build_batch([BatchRecord(4, 9, b"k", b"v")]))
    assert [message.offset for message in iter_messages(at_once(from_v2(batches, 0)))] == [0, 1, 2, 4]
    assert at_once(from_v2(marker, 0)) == b""


def test_a_cut_tail_is_left_out_on_the_way_down() -> None:
    first, second = build_batch(plain_records(3)), build_batch([BatchRecord(3, 9, b"k", b"v")])
    for cut in range(len(second)):
        assert at_once(from_v2(first + second[:cut], 1)) == at_once(from_v2(first, 1))


def test_zstd_ends_the_set_or_is_refused() -> None:
    sound, zstd = build_batch(plain_records(3), codec=GZIP), build_batch([BatchRecord(3)], codec=ZSTD)
    assert at_once(from_v2(sound + zstd + sound, 1)) == at_once(from_v2(sound, 1))
    with pytest.raises(UnsupportedCompression, match="offset 3"):
        at_once(from_v2(zstd + sound, 1))


def test_the_first_offset_counts_where_nothing_is_compressed() -> None:
    records = plain_records(4)
    assert [m.offset for m in iter_messages(at_once(from_v2(build_batch(records), 1, first_offset=2)))] == [2, 3]
    compressed = at_once(from_v2(build_batch(records, codec=SNAPPY), 1, first_offset=2))
    assert [m.offset for m in iter_messages(compressed)] == [0, 1, 2, 3]


def test_records_that_are_numbered_wrong_are_numbered_anew() -> None:
    kinds: list[tuple[int, bytes, bytes | None]] = [(3, b"k", b"v"), (200, b"", b"w" * 300), (70_000, b"l", None)]
    first = len(build_batch([BatchRecord(0, 0, b"", b"")])) - HEADER_SIZE
    batches = [
        build_batch([BatchRecord(0, 0, b"", b""), BatchRecord(offset, 7, key, value)]) for offset, key, value in kinds
    ]
    payload = b"".join(bytes(batch[HEADER_SIZE + first :]) for batch in batches)
    changed = at_once(with_codec(read_header(with_payload(payload, 3)), payload, GZIP, renumber=True))
    assert read_header(changed).codec == GZIP
    found = [(one.offset, one.timestamp, one.key, one.value) for one in iter_records(changed)]
    assert found == [(number, 7, key, value) for number, (_, key, value) in enumerate(kinds)]


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_many_messages_go_up_in_small_steps(codec: int) -> None:
    records = [BatchRecord(i, i, None, b"v") for i in range(20_000)]
    assert sum(1 for _ in to_v2(at_once(build_message_set(records, 1, codec=codec)))) >= 40


def test_a_bomb_goes_up_in_small_steps_to_its_limit() -> None:
    bomb = at_once(build_message_set([BatchRecord(0, 0, None, bytes(8 << 20))], 1, codec=GZIP))
    assert sum(1 for _ in to_v2(bomb)) > 30
    with pytest.raises(CorruptBatch, match="grows beyond"):
        at_once(to_v2(bomb, max_bytes=4 << 20))
