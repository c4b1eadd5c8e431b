"""From a time to a record of one batch.

Rule: as with the check of produced records, a step takes about a millisecond and little memory, however much comes out
of the compressed bytes. What is earlier than the time is passed over many at once.
"""

from __future__ import annotations

from collections.abc import Generator

from pykafka_broker.records.common_form import NEVER
from pykafka_broker.records.crc import Buffer
from pykafka_broker.records.header import BatchHeader
from pykafka_broker.records.validation import Limits, RecordCheck

_NOTHING_ASKED = Limits(0, (1 << 63) - 1, (1 << 63) - 1, append_time=False, key_required=False)
_NO_TIMES = (1, 0)


class TimeSearch(RecordCheck):
    """For the first record, from `start_offset` on, whose timestamp is as great as the one asked for."""

    def __init__(self, batch: Buffer, header: BatchHeader, timestamp: int, start_offset: int) -> None:
        super().__init__(batch, header, _NOTHING_ASKED)
        self._timestamp = timestamp
        self._first_delta = start_offset - header.base_offset
        self._found: tuple[int, int] | None = None
        self._times = _NO_TIMES if header.log_append_time else (NEVER, timestamp - 1 - header.base_timestamp)

    def search(self) -> Generator[None, None, tuple[int, int] | None]:
        """Its timestamp and offset. Raises `InvalidRecord` or `CorruptBatch` where the records can't be read."""
        yield from self._records()
        return self._found

    def _judge(self, timestamp: int, offset_delta: int, has_key: bool) -> None:
        if timestamp >= self._timestamp and offset_delta >= self._first_delta:
            self._found = timestamp, self._header.base_offset + offset_delta
            self._end = 0  # no further
