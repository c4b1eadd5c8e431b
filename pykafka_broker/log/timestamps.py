"""From a time to an offset (ListOffsets).

Rule: the time index says where to start, the records themselves give the answer: of all records from the log's start
on, in the order of offsets, the first whose timestamp is as great as the one asked for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, NamedTuple

from pykafka_broker.log.index import NO_TIMESTAMP
from pykafka_broker.log.scan import DamagedLog, scan
from pykafka_broker.log.segment import LogSegment

if TYPE_CHECKING:
    from pykafka_broker.log.partition_log import PartitionLog

_ASKED_AT_ONCE = 8


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int


TimeSteps = Generator[None, None, TimestampOffset | None]


def learn_times(log: PartitionLog) -> Iterator[None]:
    """Ask the segments for their greatest timestamps, which they remember, a few of them at each step: after that a
    look-up reads in one of them only.
    """
    asked = 0
    for segment in list(log.segments):
        if segment.knows_times or not log.segments.holds(segment):  # it may have been deleted meanwhile
            continue
        with contextlib.suppress(DamagedLog):  # the look-up says so, if it comes to that
            _ = segment.max_timestamp
        asked += 1
        if asked % _ASKED_AT_ONCE == 0:
            yield
    log.segments.untimed = False


def offset_for_timestamp(log: PartitionLog, timestamp: int) -> TimeSteps:
    """The first record at or after `timestamp`, in steps of about a millisecond."""
    for segment in log.segments.starting_from(log.log_start_offset):
        if segment.size and segment.max_timestamp >= timestamp:
            start = segment.time_start_for(timestamp, log.log_start_offset)
            found = yield from _in_segment(segment, start, timestamp, log.log_start_offset)
            if found is not None:
                return found
    return None


def _in_segment(segment: LogSegment, start: int, timestamp: int, start_offset: int) -> TimeSteps:
    for place in segment.batches(start):
        if place.max_timestamp >= timestamp and place.last_offset >= start_offset:
            for batch in scan(segment.log.handle(), segment.log.path, place.position, place.end, verify=False):
                from pykafka_broker.records.time_search import TimeSearch  # no start waits for it

                found = yield from TimeSearch(batch.data, batch.header, timestamp, start_offset).search()
                if found is not None:
                    return TimestampOffset(*found)
    return None


def segment_starts(log: PartitionLog) -> list[tuple[int, int]]:
    """Base offset of each segment, and when it was last written to."""
    return [(segment.base_offset, segment.modified_ms) for segment in log.segments]


def offset_of_max_timestamp(log: PartitionLog) -> TimeSteps:
    """The first record that has the greatest timestamp in the log (KIP-734), in steps of about a millisecond."""
    best: LogSegment | None = None
    for segment in log.segments.starting_from(log.log_start_offset):
        if segment.size and (best is None or segment.max_timestamp > best.max_timestamp):
            best = segment
    if best is None or best.max_timestamp == NO_TIMESTAMP:
        return None
    return (yield from _in_segment(best, best.position_of(best.max_timestamp_offset), best.max_timestamp, 0))
