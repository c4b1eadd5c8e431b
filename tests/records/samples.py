"""Records for the tests in this folder, drawn or made."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from hypothesis import strategies as st

from pykafka_broker.records.builder import build_batch
from pykafka_broker.records.errors import CorruptBatch
from pykafka_broker.records.header import HEADER, HEADER_SIZE, write_crc
from pykafka_broker.records.record import BatchRecord

INT64 = st.integers(-(2**63), 2**63 - 1)
TIMES = st.one_of(st.integers(1_700_000_000_000, 1_700_000_100_000), st.integers(-1, 3), INT64)
SIZED_BYTES = st.one_of(
    st.binary(max_size=20), st.integers(60, 70).map(bytes), st.sampled_from([8191, 8192, 20_000]).map(bytes)
)
NULLABLE_BYTES = st.one_of(st.none(), SIZED_BYTES)
HEADERS = st.lists(st.tuples(st.text(max_size=5), NULLABLE_BYTES), max_size=3)


@st.composite
def record_lists(
    draw: st.DrawFn, *, headers: st.SearchStrategy[Any] = HEADERS, contiguous: bool = False
) -> list[BatchRecord]:
    offset = draw(st.integers(0, 2**40))
    gap = st.just(1) if contiguous else st.one_of(st.just(1), st.integers(1, 10_000))
    records = []
    for _ in range(draw(st.integers(1, 8))):
        records.append(BatchRecord(offset, draw(TIMES), draw(NULLABLE_BYTES), draw(NULLABLE_BYTES), draw(headers)))
        offset += draw(gap)
    return records


def plain_records(count: int = 5) -> list[BatchRecord]:
    """Return records of the common form and of others: long, null, empty, with headers."""
    kinds: list[dict[str, Any]] = [
        {"key": b"key", "value": b"value"},
        {"key": None, "value": b"v" * 200, "headers": [("name", b"value"), ("other", None)]},
        {"key": b"k" * 70, "value": None},
        {"key": b"", "value": b""},
    ]
    return [BatchRecord(i, 1_000 + 50 * i, **kinds[i % len(kinds)]) for i in range(count)]


def with_payload(payload: bytes | bytearray, count: int, **fields: int) -> bytearray:
    """Return a batch whose header fits the payload behind it, whatever that is."""
    batch = build_batch([BatchRecord(0, fields.get("base_timestamp", 0))])[:HEADER_SIZE] + payload
    values = list(HEADER.unpack_from(batch))
    values[1], values[6], values[12] = len(batch) - 12, count - 1, count
    HEADER.pack_into(batch, 0, *values)
    write_crc(batch)
    return batch


def outcome(read: Callable[[], Iterable[Any]]) -> list[Any] | type[CorruptBatch]:
    """Return the list that `read` gives, or the class of its CorruptBatch error; other errors are raised."""
    try:
        return list(read())
    except CorruptBatch as error:
        return type(error)


common_shapes = st.tuples(
    st.integers(1, 90),  # records
    st.integers(-70, 20_000),  # time delta of the last
    st.sampled_from([0, 1, 5, 62, 63, 64, 200, 9000]),  # bytes of a value
    st.sampled_from([None, b"", b"k", b"k" * 63, b"k" * 64]),
    st.sampled_from([0, 1, 2]),  # headers
)
