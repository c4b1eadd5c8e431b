"""Finding batches in a log.

Rule: a read gives whole batches of one segment, by their place in the file. It never looks at records.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pykafka_broker.log.files import FileSlice
from pykafka_broker.log.producer_loading import rebuild_transactions
from pykafka_broker.log.transaction_index import AbortedTransaction, CorruptTransactionIndex

if TYPE_CHECKING:
    from pykafka_broker.log.partition_log import PartitionLog


logger = logging.getLogger(__name__)

MORE_THAN_A_SEGMENT = 1 << 62  # bytes; the rest is not counted


class LogRead:
    """What a read found: whole batches, at least one."""

    __slots__ = ("_end_offset", "records")

    def __init__(self, records: FileSlice, end_offset: int) -> None:
        self.records = records
        self._end_offset = end_offset

    def end_offset(self) -> int:
        """The offset to read from next."""
        return self._end_offset


def read(log: PartitionLog, offset: int, max_bytes: int, upper_offset: int, min_one: bool) -> LogRead | None:
    """As `PartitionLog.read`, for an offset that is in the log."""
    segments = log.segments
    number = segments.number_of(offset)
    while (found := segments.with_end(number, log.log_end_offset)) is not None:
        segment, segment_end = found
        inside = upper_offset < segment_end
        end = segment.position_of(upper_offset) if inside else segment.size
        records, next_offset = segment.read(offset, max_bytes, end, min_one=min_one)
        if next_offset is None:
            next_offset = upper_offset if inside else segment_end
            segment.remember(next_offset, end)
        if len(records):
            return LogRead(records, next_offset)
        if inside or next_offset < segment_end:
            return None
        number += 1  # compaction took what there was of this segment from `offset` on
    return None


def bytes_between(log: PartitionLog, offset: int, upper_offset: int) -> int:
    """Do the same as `PartitionLog.bytes_between` for an offset that is in the log."""
    segments = log.segments
    number = max(0, segments.number_of(offset))
    while (found := segments.with_end(number, log.log_end_offset)) is not None:
        segment, segment_end = found
        start = segment.position_of(offset)
        if upper_offset <= segment_end:
            end = segment.position_of(upper_offset) if upper_offset < segment_end else segment.size
            return max(0, end - start)
        if start < segment.size:
            return MORE_THAN_A_SEGMENT
        number += 1  # compaction took what there was of this segment from `offset` on
    return 0


def aborted_transactions(log: PartitionLog, first_offset: int, upper_offset: int) -> list[AbortedTransaction]:
    """Those that have records in [first_offset, upper_offset)."""
    found: list[AbortedTransaction] = []
    for segment in log.segments.starting_from(first_offset):
        try:
            here, complete = segment.transactions.collect(first_offset, upper_offset)
        except CorruptTransactionIndex as error:
            logger.warning("Rebuilding a transaction index: %s", error)
            rebuild_transactions(log.files.fs, log.directory, log.segments, segment)
            here, complete = segment.transactions.collect(first_offset, upper_offset)
        found += here
        if complete:
            break
    return found
