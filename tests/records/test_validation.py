"""Faults found in a producer's records (test_produced_like_kafka has Kafka's verdicts), and a search by time that finds
the record that reading every record finds.
"""

from __future__ import annotations

import gc
import gzip
import tracemalloc
import weakref
from contextlib import suppress
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka_broker.records import validation
from pykafka_broker.records.builder import build_batch
from pykafka_broker.records.common_form import Passed, RecordLimits, sound_at_once
from pykafka_broker.records.compression import GZIP, LZ4, NONE, ZSTD, compress
from pykafka_broker.records.errors import CorruptBatch, InvalidRecord
from pykafka_broker.records.header import HEADER_SIZE, read_header, write_crc
from pykafka_broker.records.record import BatchRecord, iter_records
from pykafka_broker.records.validation import WITHOUT_KEY, RecordCheck, TimeSearch
from pykafka_broker.steps import at_once
from tests.records.samples import common_shapes, plain_records, record_lists, with_payload

ANY_TIME = RecordLimits(0, (1 << 63) - 1, (1 << 63) - 1, append_time=False, key_required=False)
KEYED = ANY_TIME._replace(key_required=True)


def check(batch: bytearray, limits: RecordLimits = ANY_TIME, *, in_full: bool = False) -> RecordCheck:
    made = RecordCheck(batch, read_header(batch), limits, in_full=in_full)
    for _ in made.steps(1 << 20):
        pass
    return made


def found(batch: bytearray, limits: RecordLimits) -> Any:
    """Check a batch; return the class of its error, or the comparable parts of the result."""
    try:
        made = check(batch, limits)
    except (InvalidRecord, CorruptBatch) as error:
        return type(error)
    return made.max_timestamp, made.refused, made.misnumbered


def test_the_greatest_time_and_records_without_a_key() -> None:
    times = [50, 70, 70, 20, 60]
    records = [BatchRecord(i, time, None if i in (1, 4) else b"k", b"v") for i, time in enumerate(times)]
    for codec in range(5):
        assert check(build_batch(records, codec=codec)).max_timestamp == 70
        refused = check(build_batch(records, codec=codec), KEYED).refused
        assert [(one.batch_index, one.reason) for one in refused] == [(1, WITHOUT_KEY), (4, WITHOUT_KEY)]


def test_damage_is_refused() -> None:
    payload = build_batch(plain_records())[HEADER_SIZE:]
    for cut in range(len(payload)):
        with pytest.raises(InvalidRecord):
            check(with_payload(payload[:cut], 5))


@pytest.mark.whole
@settings(max_examples=300, deadline=None)
@given(st.lists(common_shapes, min_size=1, max_size=4), st.sampled_from([NONE, LZ4, ZSTD]), st.data())
def test_many_at_once_are_judged_as_one_by_one(parts: list[Any], codec: int, data: st.DataObject) -> None:
    """Runs of one shape, a few bytes of which are changed."""
    records: list[BatchRecord] = []
    for count, last, size, key, headers in parts:
        for number in range(count):
            time = 1_000_000 + last * number // count
            records.append(BatchRecord(len(records), time, key, bytes(size), [("h", b"v")] * headers))
    payload = build_batch(records)[HEADER_SIZE:]
    for _ in range(data.draw(st.integers(0, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    sample = with_payload(payload, len(records))
    batch = sample if codec == NONE else with_payload(compress(codec, payload), len(records))
    batch[22] = codec
    write_crc(batch)
    limits = data.draw(st.sampled_from([ANY_TIME, KEYED, RecordLimits(1_000_000, 50, 9000, False, False)]))
    quick = found(batch, limits)
    at_once = sound_at_once(batch, read_header(batch), limits) if codec == NONE else None
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(validation, "pass_common", one_by_one)
        assert found(batch, limits) == quick
    if at_once is not None:
        assert quick[:2] == (at_once, [])


def test_a_wrong_number_among_many_is_seen_where_the_codec_changes() -> None:
    records = [BatchRecord(i, 0, None, b"v") for i in range(50)]
    payload = build_batch(records)[HEADER_SIZE:]
    payload[len(payload) // 50 * 30 + 3] = 0
    sample = with_payload(payload, 50)
    assert check(sample, in_full=True).misnumbered
    assert not check(build_batch(records), in_full=True).misnumbered


def one_by_one(data: bytes, position: int, index: int, end: int, *rest: Any, **flags: bool) -> Passed:
    return position, index, rest[1], rest[2]


@pytest.mark.parametrize("codec", [GZIP, ZSTD])
def test_a_bomb_is_worked_off_in_small_steps_and_in_little_memory(codec: int) -> None:
    size = 64 << 20
    bomb = build_batch([BatchRecord(0, 0, None, bytes(size))])[HEADER_SIZE:]
    packed = gzip.compress(bomb) if codec == GZIP else zstandard.compress(bomb)
    batch = with_payload(packed, 1)
    batch[22] = codec
    del bomb
    tracemalloc.start()
    made = RecordCheck(batch, read_header(batch), ANY_TIME)
    steps = sum(1 for _ in made.steps())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert steps > size // (1 << 20)
    assert peak < 4 << 20


def test_a_record_of_many_headers_takes_many_steps() -> None:
    record = BatchRecord(0, 0, None, b"v", [("h", b"")] * 50_000)
    made = RecordCheck(batch := build_batch([record]), read_header(batch), ANY_TIME)
    assert sum(1 for _ in made.steps()) > 100


def test_what_changes_its_codec_is_bounded() -> None:
    batch = build_batch([BatchRecord(0, 0, None, bytes(2 << 20))], codec=ZSTD)
    with pytest.raises(CorruptBatch, match="grow beyond"):
        check(batch, in_full=True)


def test_what_is_damaged_leaves_nothing_to_the_garbage_collector() -> None:
    batch = build_batch([BatchRecord(0, 0, None, bytes(2 << 20))], codec=ZSTD)
    made = RecordCheck(batch, read_header(batch), ANY_TIME, in_full=True)
    gone = weakref.ref(made)
    gc.collect()
    gc.disable()
    try:
        with suppress(CorruptBatch):
            at_once(made.steps(1 << 20))
        del made
        assert gone() is None
    finally:
        gc.enable()


def searched(batch: bytearray, timestamp: int, start_offset: int) -> tuple[int, int] | None:
    return at_once(TimeSearch(batch, read_header(batch), timestamp, start_offset).search())


def read(batch: bytearray, timestamp: int, start_offset: int) -> tuple[int, int] | None:
    return next(
        (
            (record.timestamp, record.offset)
            for record in iter_records(batch)
            if record.timestamp >= timestamp and record.offset >= start_offset
        ),
        None,
    )


runs = st.builds(
    lambda count, step, value: [BatchRecord(i, 1000 + i // step, None, bytes(value)) for i in range(count)],
    st.integers(1, 300),
    st.integers(1, 40),
    st.integers(0, 100),
)


@settings(max_examples=200, deadline=None)
@given(st.one_of(runs, record_lists()), st.sampled_from([NONE, ZSTD]), st.booleans(), st.data())
def test_the_first_record_at_or_after_a_time(
    records: list[BatchRecord], codec: int, append_time: bool, data: st.DataObject
) -> None:
    options: dict[str, Any] = {"log_append_time": 1010} if append_time else {}
    batch = build_batch(records, codec=codec, **options)
    timestamp = data.draw(st.sampled_from(records)).timestamp + data.draw(st.integers(-1, 1))
    start = data.draw(st.sampled_from(records)).offset + data.draw(st.integers(-1, 1))
    assert searched(batch, timestamp, start) == read(batch, timestamp, start)


def test_nothing_is_read_after_what_was_found() -> None:
    batch = build_batch([BatchRecord(i, i, None, b"v") for i in range(2000)])
    batch[-1] = 0xFF
    assert searched(batch, 1990, 0) == (1990, 1990)


@pytest.mark.parametrize("codec", range(5))
def test_a_record_of_a_compressed_batch_has_the_size_that_is_allowed(codec: int) -> None:
    records = [BatchRecord(index, 50, None, b"x" * size) for index, size in enumerate((10, 200, 10))]
    batch = build_batch(records, codec=codec)
    assert check(batch, ANY_TIME._replace(max_record_bytes=207)).max_timestamp == 50
    too_low = ANY_TIME._replace(max_record_bytes=206)
    if codec == NONE:
        assert check(batch, too_low).max_timestamp == 50
        return
    with pytest.raises(InvalidRecord, match="record 1 has 207 bytes, more than"):
        check(batch, too_low)
    with pytest.raises(InvalidRecord, match="record 1 has 207 bytes, more than"):
        check(batch, too_low, in_full=True)
