"""From a time to an offset (ListOffsets).

Rule: the time index says where to start, the records themselves give the answer: of all records from the log's start
on, in the order of offsets, the first whose timestamp is as great as the one asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pykafka_broker.log.index import NO_TIMESTAMP
from pykafka_broker.log.scan import scan
from pykafka_broker.log.segment import LogSegment
from pykafka_broker.records.record import iter_records

if TYPE_CHECKING:
    from pykafka_broker.log.partition_log import PartitionLog


# The time index leads to within a few batches, and what lies further is rarely in the CPU's cache.
_PIECE_BYTES = 16 << 10


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int


def offset_for_timestamp(log: PartitionLog, timestamp: int) -> TimestampOffset | None:
    """The first record at or after `timestamp`."""
    for segment in log.segments.starting_from(log.log_start_offset):
        if segment.size and segment.max_timestamp >= timestamp:
            found = _in_segment(segment, timestamp, log.log_start_offset)
            if found is not None:
                return found
    return None


def _in_segment(segment: LogSegment, timestamp: int, start_offset: int) -> TimestampOffset | None:
    position = segment.time_start_for(timestamp, start_offset)
    batches = scan(
        segment.log.handle(), segment.log.path, position, segment.size, verify=False, piece_bytes=_PIECE_BYTES
    )
    for batch in batches:
        if batch.header.max_timestamp >= timestamp and batch.header.last_offset >= start_offset:
            for record in iter_records(batch.data, batch.header):
                if record.timestamp >= timestamp and record.offset >= start_offset:
                    return TimestampOffset(record.timestamp, record.offset)
    return None


def offset_of_max_timestamp(log: PartitionLog) -> TimestampOffset | None:
    """The first record that has the greatest timestamp in the log (KIP-734)."""
    best: LogSegment | None = None
    for segment in log.segments.starting_from(log.log_start_offset):
        if segment.size and (best is None or segment.max_timestamp > best.max_timestamp):
            best = segment
    if best is None or best.max_timestamp == NO_TIMESTAMP:
        return None
    position = best.position_of(best.max_timestamp_offset)
    batches = scan(best.log.handle(), best.log.path, position, best.size, verify=False, piece_bytes=_PIECE_BYTES)
    for batch in batches:
        if batch.header.max_timestamp == best.max_timestamp:
            for record in iter_records(batch.data, batch.header):
                if record.timestamp == best.max_timestamp:
                    return TimestampOffset(record.timestamp, record.offset)
    return None
