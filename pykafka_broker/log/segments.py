"""The segments of one partition in their folder, in order of their base offsets (Kafka: LocalLog, LogSegments).

Rule: there is always at least one segment, and only the last one, `active`, is written to. What is here knows segments
and files alone: producers, leader epochs and the log's offsets are the business of `PartitionLog`. A segment leaves the
log with a rename of its files; the caller has the files removed later, when readers have finished.

A read returns whole batches of one segment by their position in the file, and never looks at records. A look-up by time
starts where the time index says; the records give the answer: the first one, in the order of offsets, whose timestamp
is at least the given one.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Generator, Iterator
from typing import NamedTuple

from pykafka_broker.config.topic import TopicConfig
from pykafka_broker.log.filesystem import FileCache, FileSlice
from pykafka_broker.log.index import NO_TIMESTAMP
from pykafka_broker.log.scan import scan
from pykafka_broker.log.segment import LogSegment

MORE_THAN_A_SEGMENT = 1 << 62  # bytes; the rest is not counted
_MANY = 16
_ASKED_AT_ONCE = 8  # segments


class LogRead:
    """Whole batches found by a read, never none, and the offset to read from next (Kafka: FetchDataInfo)."""

    __slots__ = ("end_offset", "records")

    def __init__(self, records: FileSlice, end_offset: int) -> None:
        self.records = records
        self.end_offset = end_offset


class TimestampOffset(NamedTuple):
    """The timestamp of a record in ms and the record's offset."""

    timestamp: int
    offset: int


TimeSteps = Generator[None, None, TimestampOffset | None]


class Segments:
    """A partition's segments, begun, deleted and replaced together, and found by offset or by time."""

    __slots__ = ("_all", "_bases", "_sealed_bytes", "active", "directory", "files", "untimed")

    def __init__(self, files: FileCache, directory: str, segments: list[LogSegment]) -> None:
        self.files = files
        self.directory = directory
        self._set(segments)

    def _set(self, segments: list[LogSegment]) -> None:
        self._all = segments
        self._bases = [segment.base_offset for segment in segments]
        self._sealed_bytes = sum(segment.size for segment in segments[:-1])
        self.active = segments[-1]
        # Whether a look-up by time may take long: many segments have not read their timestamps yet.
        self.untimed = len(segments) > _MANY

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self._all)

    def __getitem__(self, index: int) -> LogSegment:
        return self._all[index]

    @property
    def first(self) -> LogSegment:
        return self._all[0]

    @property
    def size_bytes(self) -> int:
        """Return the size of all segments in bytes, indexes left out."""
        return self._sealed_bytes + self.active.size

    def index_of(self, offset: int) -> int:
        """Return the index of the segment around `offset`; -1 before the first."""
        return bisect_right(self._bases, offset) - 1

    def floor(self, offset: int) -> LogSegment:
        """Return the segment around `offset`, or the first segment for a lower offset."""
        return self._all[max(0, bisect_right(self._bases, offset) - 1)]

    def starting_from(self, offset: int) -> list[LogSegment]:
        """Return the segment around `offset` and all later segments."""
        return self._all[max(0, self.index_of(offset)) :]

    def holds(self, segment: LogSegment) -> bool:
        """Return whether the segment is in the list."""
        return self.floor(segment.base_offset) is segment

    def after(self, segment: LogSegment) -> LogSegment:
        """Return the following segment."""
        return self._all[self.index_of(segment.base_offset) + 1]

    def upper_offset(self, index: int, log_end_offset: int) -> int:
        """Return the end of the range of the segment with the index."""
        return self._bases[index + 1] if index + 1 < len(self._bases) else log_end_offset

    # -- change

    def roll(self, base_offset: int, now: int, config: TopicConfig) -> None:
        """Complete the active segment, and begin another one at `base_offset`.

        Args:
            now: wall clock in ms.

        Raises:
            OSError: the active segment stays as it was.
        """
        self.active.seal()
        segment = self._begin(base_offset, now)  # from here on nothing may fail: the old segment would be written to
        if config.preallocate:
            with contextlib.suppress(OSError):
                segment.preallocate(config.segment_bytes)
        self._sealed_bytes += self.active.size
        self._all.append(segment)
        self._bases.append(base_offset)
        self.active = segment

    def _begin(self, base_offset: int, now: int) -> LogSegment:
        segment = LogSegment(self.files, self.directory, base_offset, size=0, created_ms=now, fresh=True)
        segment.log.create()
        return segment

    def delete(self, segment: LogSegment) -> None:
        """Take a segment out and rename its files; another segment must be left. Raises OSError: it stays."""
        segment.mark_deleted()
        index = self.index_of(segment.base_offset)
        self._all = self._all[:index] + self._all[index + 1 :]  # a walk over the old list goes on
        del self._bases[index]
        self.active = self._all[-1]
        self._sealed_bytes -= self.active.size if index == len(self._all) else segment.size

    def begin_anew(self, base_offset: int, now: int) -> list[LogSegment]:
        """Put an empty segment in the place of all, and return the old segments, with renamed files.

        Raises:
            OSError: all are still here, some under their new names perhaps. The call may be repeated.
        """
        old = self._all
        for segment in old:
            segment.mark_deleted()
        self.files.fs.sync_directory(self.directory)  # otherwise a power cut brings them back, beside the new one
        self._set([self._begin(base_offset, now)])
        return old

    def replace(self, old: list[LogSegment], new: list[LogSegment]) -> None:
        """Put `new` in the place of `old`; at least a single segment must be left."""
        gone = set(map(id, old))
        kept = [segment for segment in self._all if id(segment) not in gone]
        self._set(sorted(kept + new, key=lambda segment: segment.base_offset))

    def move_to(self, directory: str) -> None:
        """Go by the folder's new name. Readers keep the open files."""
        self.directory = directory
        for segment in self._all:
            segment.move_to(directory)

    def copied_to(self, directory: str) -> Segments:
        """Return the copies of the segments in another folder."""
        return Segments(self.files, directory, [segment.copied_to(self.files, directory) for segment in self._all])

    # -- read

    def tail(self, size: int) -> FileSlice | None:
        """Return the last bytes of the active segment; None where there are fewer."""
        segment = self.active
        return FileSlice(segment.log, segment.size - size, size) if segment.size >= size else None

    def read(
        self, offset: int, max_bytes: int, upper_offset: int, log_end_offset: int, min_one: bool
    ) -> LogRead | None:
        """Return the result of `PartitionLog.read` for an offset in the log."""
        index = self.index_of(offset)
        while index < len(self._all):
            segment, segment_end = self._all[index], self.upper_offset(index, log_end_offset)
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
            index += 1  # compaction has removed this segment's records from `offset` on
        return None

    def bytes_between(self, offset: int, upper_offset: int, log_end_offset: int) -> int:
        """Return the result of `PartitionLog.bytes_between` for an offset in the log."""
        index = max(0, self.index_of(offset))
        while index < len(self._all):
            segment, segment_end = self._all[index], self.upper_offset(index, log_end_offset)
            start = segment.position_of(offset)
            if upper_offset <= segment_end:
                end = segment.position_of(upper_offset) if upper_offset < segment_end else segment.size
                return max(0, end - start)
            if start < segment.size:
                return MORE_THAN_A_SEGMENT
            index += 1  # compaction has removed this segment's records from `offset` on
        return 0

    # -- find by time (ListOffsets)

    def learn_times(self) -> Iterator[None]:
        """Let the segments read their greatest timestamps, a few at each step, for look-ups by time.

        The segments remember the timestamps: a look-up after that reads in one segment only. Raises DamagedLog, once
        for each damaged segment.
        """
        asked = 0
        for segment in list(self._all):
            if segment.knows_times or not self.holds(segment):  # may have been deleted meanwhile
                continue
            _ = segment.max_timestamp
            asked += 1
            if asked % _ASKED_AT_ONCE == 0:
                yield
        self.untimed = False

    def offset_for_timestamp(self, timestamp: int, log_start_offset: int, max_record_bytes: int) -> TimeSteps:
        """Find the first record at or after `timestamp`, in steps of about a millisecond.

        Args:
            timestamp: in ms.
            log_start_offset: records before it do not count.
            max_record_bytes: size of a decompressed record, above which the look-up fails.

        Raises:
            InvalidRecord, CorruptBatch: the records can't be read.
        """
        for segment in self.starting_from(log_start_offset):
            if segment.size and segment.max_timestamp >= timestamp:
                start = segment.time_start_for(timestamp, log_start_offset)
                found = yield from _find_in(segment, start, timestamp, log_start_offset, max_record_bytes)
                if found is not None:
                    return found
        return None

    def offset_of_max_timestamp(self, log_start_offset: int, max_record_bytes: int) -> TimeSteps:
        """Find the first record with the greatest timestamp (KIP-734); otherwise as `offset_for_timestamp`."""
        best: LogSegment | None = None
        for segment in self.starting_from(log_start_offset):
            if segment.size and (best is None or segment.max_timestamp > best.max_timestamp):
                best = segment
        if best is None or best.max_timestamp == NO_TIMESTAMP:
            return None
        start = best.position_of(best.max_timestamp_offset)
        return (yield from _find_in(best, start, best.max_timestamp, 0, max_record_bytes))


def _find_in(segment: LogSegment, start: int, timestamp: int, start_offset: int, max_record_bytes: int) -> TimeSteps:
    for near in segment.batches(start):
        if near.max_timestamp >= timestamp and near.last_offset >= start_offset:
            for batch in scan(segment.log.handle(), segment.log.path, near.position, near.end, verify=False):
                from pykafka_broker.records.validation import TimeSearch  # for look-ups only

                search = TimeSearch(batch.data, batch.header, timestamp, start_offset, max_record_bytes)
                found = yield from search.search()
                if found is not None:
                    return TimestampOffset(*found)
    return None
