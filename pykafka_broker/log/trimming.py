"""Taking away from a log's start (retention, DeleteRecords) and from its end (truncation).

Rule: what goes is first taken out of the log, then renamed, and only after `file.delete.delay.ms` removed, so that
readers that have it in hand can finish. The active segment is never deleted; if all that it holds may go, it is rolled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pykafka_broker.log.producer_loading import restore_producers
from pykafka_broker.log.producer_snapshot import forget_snapshot
from pykafka_broker.log.segment import LogSegment

if TYPE_CHECKING:
    from pykafka_broker.log.partition_log import PartitionLog

_UNLIMITED = -1


def raise_log_start(log: PartitionLog, offset: int) -> bool:
    """Move the log's start up to `offset`, never down."""
    if offset <= log.log_start_offset:
        return False
    log.log_start_offset = offset
    if log.epochs.truncate_from_start(offset):
        log.write_epochs()
    return True


def retain(log: PartitionLog, wall: int) -> list[LogSegment]:
    """Delete what retention lets go, oldest first; the deleted segments."""
    deletable = list(_deletable(log, wall))
    older = [segment for segment in deletable if segment is not log.segments.active]
    if older:
        _delete_first(log, older)
    if len(older) < len(deletable):
        log.roll(wall)  # which a full disk may refuse: the others are gone by then
        _delete_first(log, deletable[-1:])
    return deletable


def _delete_first(log: PartitionLog, segments: list[LogSegment]) -> None:
    try:
        delete_segments(log, segments)
    finally:
        raise_log_start(log, log.segments.first.base_offset)


def _deletable(log: PartitionLog, wall: int) -> Iterator[LogSegment]:
    expired = _expired(log, wall)
    for number, segment in enumerate(log.segments):
        upper = log.segments.upper_offset(number, log.log_end_offset)
        is_last = number == len(log.segments) - 1
        if upper > log.high_watermark or (is_last and not segment.size) or not expired(segment, upper, is_last):
            return
        yield segment


def _expired(log: PartitionLog, wall: int) -> Callable[[LogSegment, int, bool], bool]:
    config = log.config
    by_policy = "delete" in config.cleanup_policy
    excess = log.size_bytes - config.retention_bytes if by_policy and config.retention_bytes != _UNLIMITED else -1
    retention_ms = config.retention_ms if by_policy else _UNLIMITED

    def expired(segment: LogSegment, upper: int, is_last: bool) -> bool:
        nonlocal excess
        too_old = 0 <= retention_ms < wall - segment.largest_timestamp
        too_much = excess >= segment.size
        excess -= segment.size  # whatever lets it go; after one that stays nothing is asked
        return too_old or too_much or (upper <= log.log_start_offset and not is_last)

    return expired


def delete_segments(log: PartitionLog, segments: list[LogSegment]) -> None:
    """Take segments out of the log, in this order. Those that the disk refuses to rename stay in it."""
    gone: list[LogSegment] = []
    try:
        for segment in segments:
            segment.mark_deleted()
            gone.append(segment)
            forget_snapshot(log.files.fs, log.directory, segment.base_offset)
    finally:
        if gone:
            log.segments.replace(gone, [])
            log.directory_dirty = True
            log.keeper.segments_deleted(log, gone)


def truncate_to(log: PartitionLog, offset: int) -> None:
    """Forget what lies at or above `offset` (a follower whose history differs). Where `offset` lies within a batch or a
    gap, the log ends with the last batch before that, in memory as on disk, but never below its start.

    Synced before this returns: what is appended next stands where the old batches stood, and after a power cut the log
    must not hold some of these and some of those.
    """
    if offset >= log.log_end_offset:
        return
    cut = log.segments.floor(offset - 1)
    end = min(offset, max(cut.end_offset(cut.position_of(offset)), log.log_start_offset))
    log.truncations += 1
    log.recovery_point = min(log.recovery_point, end)
    log.keeper.truncating(log, end)
    later = [segment for segment in log.segments if segment.base_offset >= offset]
    if len(later) == len(log.segments):
        later.pop(0)
    for segment in reversed(later):  # a crash in between leaves no gap
        delete_segments(log, [segment])
    log.segments.active.truncate_to(offset)
    log.segments.active.log.handle().sync()
    log.log_start_offset, log.log_end_offset = min(log.log_start_offset, offset), end
    if log.epochs.truncate_from_end(log.log_end_offset):
        log.write_epochs()
    _reload_producers(log)
    log.files.fs.sync_directory(log.directory)
    log.advance_high_watermark(min(log.high_watermark, log.log_end_offset))


def _reload_producers(log: PartitionLog) -> None:
    """After the log's end has moved back."""
    fs, directory = log.files.fs, log.directory
    names = fs.list_directory(directory)
    restore_producers(fs, directory, names, log.producers, log.segments, log.log_start_offset, log.log_end_offset)
