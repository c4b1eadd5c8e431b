"""What a follower does to its log: it takes over batches as its leader has them, or begins anew where the leader does.

Rule: a batch that is taken over keeps its offset, its leader epoch and every byte. Many are written at once, and looked
at by their headers and CRCs alone. A batch that is cut short at the end of what came is left for the next time.
"""

from __future__ import annotations

from pykafka_broker.errors import ApiError
from pykafka_broker.log.filesystem import Buffer
from pykafka_broker.log.partition_log import Origin, PartitionLog
from pykafka_broker.log.producer_snapshot import forget_snapshots
from pykafka_broker.log.rolling import must_roll
from pykafka_broker.log.segment import LogSegment
from pykafka_broker.log.trimming import delete_segments
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.records.errors import CorruptBatch
from pykafka_broker.records.header import HEADER_SIZE, BatchHeader, check_crc, read_header


def append_fetched(log: PartitionLog, data: Buffer, wall: int) -> None:
    """Append whole batches. `wall` is what the wall clock shows. Raises `CorruptBatch` for one that is damaged or does
    not follow what is here, or what the disk says as an `ApiError`; what stands before that has been appended.
    """
    view, at = memoryview(data), 0
    if len(view) >= HEADER_SIZE and read_header(view).base_offset < log.log_end_offset:
        _step_back(log, view, wall)
    while (header := _batch_at(view, at, log.log_end_offset)) is not None:
        if _is_marker(header):
            log.append(view[at : at + header.size], wall, header=header, origin=Origin.REPLICATION)
            at += header.size
        else:
            at = _append_run(log, view, at, header, wall)


def _step_back(log: PartitionLog, view: memoryview, wall: int) -> None:
    """Let the log end where the first batch begins, if nothing is stored from there on. The leader's log begins within
    that batch (DeleteRecords), and this one ended there too (Kafka: UnexpectedAppendOffsetException).
    """
    header = _batch_at(view, 0, 0)
    if header is None or header.last_offset < log.log_end_offset:
        return
    try:
        if header.base_offset >= _stored_end(log):
            cut_to(log, header.base_offset, wall)
    except OSError as error:
        raise log.storage_error(error) from error


def _stored_end(log: PartitionLog) -> int:
    """Return the offset after the last batch that is stored, 0 if there is none."""
    filled = [segment for segment in log.segments if segment.size]
    return filled[-1].end_offset() if filled else 0


def _batch_at(view: memoryview, at: int, next_offset: int) -> BatchHeader | None:
    """The sound batch that begins there; None if it is not there as a whole."""
    left = len(view) - at
    if left < HEADER_SIZE:
        return None
    header = read_header(view, at)
    if header.size > left:
        return None
    check_crc(view, header, at)
    if header.base_offset < next_offset or header.last_offset_delta < 0:
        raise CorruptBatch(f"a batch from {header.base_offset} to {header.last_offset} where {next_offset} is expected")
    return header


def _is_marker(header: BatchHeader) -> bool:
    return header.is_control and header.producer_id >= 0


def _append_run(log: PartitionLog, view: memoryview, at: int, first: BatchHeader, wall: int) -> int:
    """Append that batch, and as many of those after it as go with it into one write; where the next one begins."""
    try:
        segment = log.segments.active
        if must_roll(log, segment, first.size, first.max_timestamp, first.last_offset, wall):
            segment = log.roll(wall, first.base_offset)
        if first.partition_leader_epoch > log.epochs.latest:
            log.assign_epoch(first.partition_leader_epoch, first.base_offset)
        headers, stop = _run_from(log, view, at, first, segment)
        segment.append_run(view[at:stop], headers, log.config)
        segment.written_ms = wall
    except OSError as error:
        raise log.storage_error(error) from error
    for header in headers:
        if header.producer_id >= 0:
            log.producers.apply(header, header.base_offset)
    log.log_end_offset = headers[-1].next_offset
    if log.overdue:
        log.keeper.must_sync(log)
    return stop


def _run_from(
    log: PartitionLog, view: memoryview, at: int, first: BatchHeader, segment: LogSegment
) -> tuple[list[BatchHeader], int]:
    """The batches of one epoch that the segment has room for, and where they end."""
    headers, stop = [first], at + first.size
    room = at + log.config.segment_bytes - segment.size
    while stop < len(view):
        try:
            header = _batch_at(view, stop, headers[-1].next_offset)
        except CorruptBatch:
            break  # it is found again when it has its turn
        if (
            header is None
            or _is_marker(header)
            or header.partition_leader_epoch != first.partition_leader_epoch
            or stop + header.size > room
            or not segment.fits(header.last_offset)
        ):
            break
        headers.append(header)
        stop += header.size
    return headers, stop


def cut_to(log: PartitionLog, offset: int, wall: int) -> None:
    """Forget what lies at or above `offset`. Where nothing that may be read is left, the log begins anew: at its start,
    or at `offset` if that lies below (Kafka: UnifiedLog.truncateTo, truncateFullyAndStartAt).

    Raises:
        OSError: the caller goes to `storage_error` with it. The log must not be used again then, only loaded anew.
    """
    is_below_start = offset < log.log_start_offset
    log.truncate_to(offset)
    if is_below_start or log.segments.active.end_offset() < log.log_start_offset:
        restart_at(log, log.log_end_offset, wall)


def restart_at(log: PartitionLog, offset: int, wall: int) -> None:
    """Forget all that is here: the leader has nothing below `offset`, which lies at or beyond the end of this log.
    Raises OSError, with which the caller goes to `storage_error`; then it can be done again.

    Wherever a crash comes, no old segment and no old snapshot is there beside the new segment: a transaction that was
    open in them would be taken for open ever after, since its end is not in the log. The recovery point goes back to 0
    first: a log that ends below that point after a crash would be taken for one that has lost what was synced.
    """
    if offset < log.log_end_offset:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is below the end of {log}")
    log.truncations += 1
    log.gap = None
    fs, last = log.files.fs, log.segments.active
    if log.recovery_point > 0:
        log.recovery_point = 0
        log.keeper.truncating(log, 0)
    forget_snapshots(fs, log.directory)
    delete_segments(log, [segment for segment in log.segments if segment is not last])
    last.mark_deleted()
    fs.sync_directory(log.directory)
    segment = LogSegment(log.files, log.directory, offset, size=0, created_ms=wall, fresh=True)
    segment.log.create()
    log.segments.replace([last], [segment])
    log.directory_dirty = True
    log.keeper.segments_deleted(log, [last])
    log.producers.clear(offset)
    log.epochs.entries = []
    log.write_epochs()
    log.log_end_offset = log.log_start_offset = log.recovery_point = offset
    log.advance_high_watermark(offset)
