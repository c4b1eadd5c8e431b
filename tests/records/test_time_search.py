"""What a search by time finds is what reading every record finds."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka_broker.records.builder import build_batch
from pykafka_broker.records.compression import NONE, ZSTD
from pykafka_broker.records.header import read_header
from pykafka_broker.records.record import Record, iter_records
from pykafka_broker.records.time_search import TimeSearch
from pykafka_broker.steps import at_once
from tests.records.samples import record_lists


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
    lambda count, step, value: [Record(i, 1000 + i // step, None, bytes(value)) for i in range(count)],
    st.integers(1, 300),
    st.integers(1, 40),
    st.integers(0, 100),
)


@settings(max_examples=200, deadline=None)
@given(st.one_of(runs, record_lists()), st.sampled_from([NONE, ZSTD]), st.booleans(), st.data())
def test_the_first_record_at_or_after_a_time(
    records: list[Record], codec: int, append_time: bool, data: st.DataObject
) -> None:
    options: dict[str, Any] = {"log_append_time": 1010} if append_time else {}
    batch = build_batch(records, codec=codec, **options)
    timestamp = data.draw(st.sampled_from(records)).timestamp + data.draw(st.integers(-1, 1))
    start = data.draw(st.sampled_from(records)).offset + data.draw(st.integers(-1, 1))
    assert searched(batch, timestamp, start) == read(batch, timestamp, start)


def test_nothing_is_read_after_what_was_found() -> None:
    batch = build_batch([Record(i, i, None, b"v") for i in range(2000)])
    batch[-1] = 0xFF
    assert searched(batch, 1990, 0) == (1990, 1990)
