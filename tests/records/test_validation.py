"""What is asked of a producer's records, and the quick look for keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka_broker.records.builder import build_batch, varint
from pykafka_broker.records.errors import CorruptBatch, InvalidRecord, TruncatedBatch
from pykafka_broker.records.header import HEADER_SIZE
from pykafka_broker.records.record import Record
from pykafka_broker.records.validation import RecordsInfo, has_null_key, validate_records
from tests.records.samples import outcome, plain_records, record_lists, with_payload


def test_what_is_found_out_about_sound_records() -> None:
    times = [50, 70, 70, 20, 60]
    records = [Record(10 + i, time, None if i in (1, 4) else b"k", b"v") for i, time in enumerate(times)]
    for codec in range(5):
        assert validate_records(build_batch(records, codec=codec)) == RecordsInfo(20, 70, 11, [1, 4])
    with pytest.raises(InvalidRecord, match=r"\[1, 4\]"):
        validate_records(build_batch(records), key_required=True)
    assert validate_records(build_batch(records[:1]), key_required=True).null_keys == []


def test_offsets_must_follow_each_other_and_end_where_the_header_says() -> None:
    with pytest.raises(InvalidRecord, match="offset delta 3 of record 1"):
        validate_records(with_payload(build_batch([Record(0), Record(3)])[HEADER_SIZE:], 2))
    with pytest.raises(InvalidRecord, match="last offset delta of 5"):
        validate_records(build_batch([Record(0), Record(1)], last_offset_delta=5))
    with pytest.raises(InvalidRecord, match="0 records"):
        validate_records(build_batch([], base_offset=0, last_offset_delta=-1))


def test_damage_is_refused() -> None:
    payload = build_batch(plain_records())[HEADER_SIZE:]
    for cut in range(len(payload)):
        with pytest.raises(InvalidRecord):
            validate_records(with_payload(payload[:cut], 5))
    with pytest.raises(TruncatedBatch):
        validate_records(build_batch(plain_records())[:-1])


@given(record_lists(), st.integers(0, 4))
def test_the_quick_look_sees_what_reading_sees(records: list[Record], codec: int) -> None:
    assert has_null_key(build_batch(records, codec=codec)) == any(record.key is None for record in records)


@given(st.binary(max_size=80), st.integers(0, 8))
def test_the_quick_look_at_noise(noise: bytes, count: int) -> None:
    batch = with_payload(noise, count)
    outcome(lambda: [has_null_key(batch)])


def test_a_quick_look_is_never_long() -> None:
    """Varints that go on over all following records would be walked once for each of them."""
    count = 20_000
    with pytest.raises(CorruptBatch, match="a varint of more than"):
        has_null_key(with_payload((varint(6) + b"\x80" * 6) * count, count))
