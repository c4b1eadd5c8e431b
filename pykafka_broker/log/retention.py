"""The deletion of the segments that a log no longer needs (Kafka: UnifiedLog.deleteOldSegments).

Rule: which segments expire is a decision from the log's settings, offsets and timestamps, which changes nothing.
Segments expire from the oldest on, and a segment that stays keeps all later ones.
"""

from __future__ import annotations

import logging

from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.log.segment import LogSegment

logger = logging.getLogger(__name__)

_UNLIMITED = -1


def expired_segments(log: PartitionLog, now: int) -> dict[LogSegment, str]:
    """Return the expired segments, oldest first, each with the reason. Nothing above the high watermark expires.

    Args:
        now: wall clock in ms.
    """
    config, segments = log.config, log.segments
    by_policy = "delete" in config.cleanup_policy
    retention_ms = config.retention_ms if by_policy else _UNLIMITED
    is_limited = by_policy and config.retention_bytes != _UNLIMITED
    excess = segments.size_bytes - config.retention_bytes if is_limited else -1
    expired: dict[LogSegment, str] = {}
    for index, segment in enumerate(segments):
        upper, is_last = segments.upper_offset(index, log.log_end_offset), segment is segments.active
        if upper > log.high_watermark or (is_last and not segment.size):
            break
        if 0 <= retention_ms < now - segment.largest_timestamp:
            expired[segment] = f"retention.ms is {retention_ms}"
        elif excess >= segment.size:
            expired[segment] = f"retention.bytes is {config.retention_bytes}"
        elif upper <= log.log_start_offset and not is_last:
            expired[segment] = "they are below the log's start"
        else:
            break
        excess -= segment.size
    return expired


def retain(log: PartitionLog, now: int, most: int | None = None) -> int:
    """Delete segments beyond retention by time, size or log start offset, oldest first. The active segment is never
    deleted: if retention keeps nothing of it, it is rolled first.

    Args:
        now: wall clock in ms.
        most: how many segments may be deleted; None for all. Each takes a fifth of a millisecond.

    Returns:
        The number of deleted segments.

    Raises:
        OSError: the caller calls `storage_error`. Segments deleted before stay deleted.
    """
    reasons, active = expired_segments(log, now), log.segments.active
    expired = list(reasons)[:most]
    older = [segment for segment in expired if segment is not active]
    _delete(log, older, reasons)
    if len(older) < len(expired):
        log.roll(now)  # a full disk may refuse; the older segments are gone by then
        _delete(log, [active], reasons)
    return len(expired)


def _delete(log: PartitionLog, segments: list[LogSegment], reasons: dict[LogSegment, str]) -> None:
    try:
        log.delete_oldest(segments)
    finally:
        begin = log.segments.first.base_offset
        by = ", ".join(sorted({reasons[segment] for segment in segments if segment.base_offset < begin}))
        if by:
            logger.info("%s-%d: the records before offset %d are deleted: %s", log.topic, log.partition, begin, by)
