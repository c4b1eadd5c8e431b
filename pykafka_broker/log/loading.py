"""The way from a partition's folder to its `PartitionLog`, for a new log, a clean one and one after a crash (Kafka:
LogLoader).

Rule: after a clean shutdown only the end of the last segment is read; everything else is read when it is asked for.

After a crash `FolderRecovery` leaves the folder as a clean shutdown could have left it. What was synced (below the
recovery point) must be whole; if it is not, recovery refuses, since a cut there would lose records that were promised.
A log that is whole but ends before the recovery point is read from its start (`recover_folder`). Beyond the recovery
point the log ends at the first batch that is not whole: the rest was never promised to anybody and is cut off, with the
number of bytes logged. Indexes, transaction index, producer snapshot and leader epochs are rebuilt from the batches.
"""

from __future__ import annotations

import logging
import re
from typing import NamedTuple

from pykafka_broker.clock import Clock
from pykafka_broker.config.topic import TopicConfig
from pykafka_broker.log.checkpoints import (
    EPOCHS_FILE,
    GAP,
    MOVED,
    PARTITION_METADATA,
    read_gap,
    read_partition_metadata,
    write_gap,
    write_partition_metadata,
)
from pykafka_broker.log.filesystem import FileCache
from pykafka_broker.log.index import AbortedTransaction
from pykafka_broker.log.leader_epochs import LeaderEpochs
from pykafka_broker.log.partition_log import LogKeeper, PartitionLog
from pykafka_broker.log.producer_state import (
    QUICKLY_READ_BYTES,
    ProducerState,
    find_aborted,
    forget_snapshots,
    mend_transactions,
    remove_strays,
    replay_in,
    restore_producers,
    snapshot_name,
    snapshot_offsets,
    take_snapshot,
)
from pykafka_broker.log.scan import DamagedLog, ScannedBatch, scan
from pykafka_broker.log.segment import CLEANED, DELETED, MAX_RELATIVE_OFFSET, SWAP, LogSegment, segment_name
from pykafka_broker.log.segments import Segments
from pykafka_broker.protocol.runtime import ZERO_UUID
from pykafka_broker.records.header import NO_PRODUCER_ID

logger = logging.getLogger(__name__)

_LOG_SUFFIX = ".log"
_SEGMENT = re.compile(r"[0-9]{20}\.log")
INDEXES = (".index", ".timeindex", ".txnindex")
_LEFTOVERS = (DELETED, CLEANED, MOVED, ".tmp")


class Offsets(NamedTuple):
    """A partition's entries in the checkpoint files of the log directory."""

    log_start_offset: int = 0
    recovery_point: int = 0
    high_watermark: int | None = None  # with other replicas; None: the log's end


def create_log(
    files: FileCache,
    directory: str,
    topic: str,
    partition: int,
    topic_id: bytes,
    config: TopicConfig,
    clock: Clock,
    keeper: LogKeeper,
    *,
    has_folder: bool = False,
) -> PartitionLog:
    """Make a folder with a new, empty log.

    Args:
        has_folder: whether the folder is there, with nothing but the topic's id; the first batch then makes the files.
    """
    if not has_folder:
        files.fs.make_directory(directory)
        if topic_id != ZERO_UUID:
            write_partition_metadata(files.fs, f"{directory}/{PARTITION_METADATA}", topic_id)
    segment = LogSegment(files, directory, 0, size=0, created_ms=clock.wall, fresh=True)
    log = PartitionLog(
        topic=topic,
        partition=partition,
        topic_id=topic_id,
        config=config,
        segments=Segments(files, directory, [segment]),
        producers=ProducerState(f"{topic}-{partition}"),
        epochs=LeaderEpochs(files.fs, f"{directory}/{EPOCHS_FILE}", []),
        keeper=keeper,
        last_flush_ms=clock.now,
    )
    if config.preallocate and not has_folder:
        segment.preallocate(config.segment_bytes)
    return log


def load_log(
    files: FileCache,
    directory: str,
    topic: str,
    partition: int,
    config: TopicConfig,
    offsets: Offsets,
    clock: Clock,
    keeper: LogKeeper,
) -> PartitionLog:
    """Load a log after a clean shutdown."""
    fs = files.fs
    names = remove_leftovers(files, directory, clock.wall)
    segments = open_segments(files, directory, names, offsets.log_start_offset, clock.wall)
    log_end_offset = segments.active.end_offset()
    if offsets.log_start_offset > log_end_offset:
        begin_anew(segments, offsets.log_start_offset, clock.wall)
        names, log_end_offset = fs.list_directory(directory), offsets.log_start_offset
    log_start_offset = max(offsets.log_start_offset, segments.first.base_offset)
    present, incomplete = {*names}, []
    for segment in segments:
        stem = segment_name(segment.base_offset)
        if segment.size and not {f"{stem}.index", f"{stem}.timeindex"} <= present:
            segment.rebuild_indexes()
            incomplete.append(segment)
    producers = ProducerState(f"{topic}-{partition}")
    remove_strays(segments, names)
    restore_producers(producers, segments, names, log_start_offset, log_end_offset)
    for segment in incomplete:  # where indexes are gone, the transaction index may be too: nothing was aborted then
        segment.transactions.correct(find_aborted(segments, segment))
    mend_transactions(segments, segments.active)  # the next append may write to it
    epochs = LeaderEpochs.load(fs, f"{directory}/{EPOCHS_FILE}")
    if epochs.correct(segments, log_start_offset, log_end_offset):
        epochs.write()
    log = PartitionLog(
        topic=topic,
        partition=partition,
        topic_id=read_partition_metadata(fs, f"{directory}/{PARTITION_METADATA}") or ZERO_UUID,
        config=config,
        segments=segments,
        producers=producers,
        epochs=epochs,
        log_start_offset=log_start_offset,
        log_end_offset=log_end_offset,
        recovery_point=min(offsets.recovery_point, log_end_offset),
        known_high_watermark=offsets.high_watermark,
        gap=read_gap(fs, directory) if GAP in names else None,
        keeper=keeper,
        last_flush_ms=clock.now,
    )
    if log.gap is not None and log.gap >= log_end_offset:
        log.forget_gap()  # the log was cut at the gap, and a crash came before the gap was forgotten
    return log


def begin_anew(segments: Segments, start: int, wall: int) -> None:
    """Replace all segments by an empty segment at `start`, since the rest of the log lies below the start.

    If the log went on below its start, the new records there would be lost at the next load. The producers are
    forgotten: the end of an open transaction may be among the lost records (Kafka: UnifiedLog.truncateFullyAndStartAt).
    """
    logger.warning("%s ends before its log start, and continues at the log start, offset %d", segments.directory, start)
    forget_snapshots(segments)
    for each in segments.begin_anew(start, wall):
        each.remove()
    segments.files.fs.sync_directory(segments.directory)


def open_segments(files: FileCache, directory: str, names: list[str], log_start_offset: int, wall: int) -> Segments:
    """Return all segments in the folder; without any, a new segment at the log start."""
    segments = []
    for base in sorted(int(name[:20]) for name in names if _SEGMENT.fullmatch(name)):
        status = files.fs.stat(f"{directory}/{base:020d}{_LOG_SUFFIX}")
        segments.append(
            LogSegment(files, directory, base, size=status.size, created_ms=status.modified_ms, fresh=False)
        )
    if not segments:
        segments.append(LogSegment(files, directory, log_start_offset, size=0, created_ms=wall, fresh=True))
        segments[0].log.create()
    return Segments(files, directory, segments)


def remove_leftovers(files: FileCache, directory: str, wall: int) -> list[str]:
    """Finish an interrupted deletion, cleaning or checkpoint, and return the names of the files that remain."""
    fs, names = files.fs, []
    for name in fs.list_directory(directory):
        if name.endswith(_LEFTOVERS):
            fs.remove(f"{directory}/{name}")
        else:
            names.append(name)
    if swapping := [name for name in names if name.endswith(SWAP)]:
        names = _finish_swaps(files, directory, names, swapping, wall)
    present = set(names)
    for name in names:
        if name.endswith(INDEXES) and f"{name.partition('.')[0]}{_LOG_SUFFIX}" not in present:
            fs.remove(f"{directory}/{name}")  # otherwise a new segment of that offset would go on with the old index
            present.remove(name)
    return [name for name in names if name in present]


def _finish_swaps(files: FileCache, directory: str, names: list[str], swapping: list[str], wall: int) -> list[str]:
    """Complete an interrupted swap of cleaned segments, and return the names of the files that remain."""
    for name in swapping:
        if name[:20].isdecimal() and name[20:] == _LOG_SUFFIX + SWAP:
            _finish_swap(files, directory, names, int(name[:20]), wall)
    for name in swapping:  # files of swaps that a crash stopped before the log's turn
        if files.fs.exists(f"{directory}/{name}"):
            files.fs.remove(f"{directory}/{name}")
    return files.fs.list_directory(directory)


def _finish_swap(files: FileCache, directory: str, names: list[str], base: int, wall: int) -> None:
    stem = f"{directory}/{segment_name(base)}"
    size = files.fs.stat(stem + _LOG_SUFFIX + SWAP).size
    swap = LogSegment(files, directory, base, size=size, created_ms=wall, fresh=False, suffix=SWAP)
    end = max(swap.end_offset(), base + 1)
    logger.warning("Completing the swap of %s, which goes up to offset %d", swap.log.path, end)
    for name in names:
        if name[:20].isdecimal() and name[20:] in (_LOG_SUFFIX, *INDEXES) and base <= int(name[:20]) < end:
            files.fs.remove(f"{directory}/{name}")
    swap.change_suffix(SWAP, "")
    for file in swap.files():
        file.close()


# -- recovery after a crash


class EndsEarly(DamagedLog):
    """A sound log ends before the recovery point: the rest is lost, or the checkpoint is wrong."""


class Recovered(NamedTuple):
    """The outcome of a recovery.

    gap: the offset at which records are missing before the next segment, the first such place beyond the synced part;
    None without a gap.
    """

    log_end_offset: int
    gap: int | None = None


class FolderRecovery:
    """The recovery of a partition's folder. contiguous: the log is never compacted, so it ends at its first gap."""

    def __init__(
        self,
        files: FileCache,
        directory: str,
        name: str,
        config: TopicConfig,
        offsets: Offsets,
        wall: int,
        *,
        contiguous: bool = False,
    ) -> None:
        self._files = files
        self._directory = directory
        self._config = config
        self._offsets = offsets
        self._wall = wall
        self._contiguous = contiguous
        self._producers = ProducerState(name)
        self._epochs = LeaderEpochs.load(files.fs, f"{directory}/{EPOCHS_FILE}")
        self._epochs_on_disk = list(self._epochs.entries)

    def run(self) -> Recovered:
        """Recover the folder. Raises DamagedLog if the synced part is not whole."""
        fs = self._files.fs
        names = remove_leftovers(self._files, self._directory, self._wall)
        segments = open_segments(self._files, self._directory, names, self._offsets.log_start_offset, self._wall)
        unflushed = segments.starting_from(self._offsets.recovery_point)
        start = unflushed[0].base_offset
        if start == self._offsets.recovery_point > segments.first.base_offset:
            self._mend_rolled(segments[segments.index_of(start) - 1])
        if len(unflushed) == 1 and self._is_whole(unflushed[0], names):
            return Recovered(self._offsets.recovery_point)
        restore_producers(self._producers, segments, names, self._offsets.log_start_offset, start)
        if not self._epochs.entries:
            self._epochs.learn(segment for segment in segments if segment.base_offset < start)
        end, gap = start, None
        for index, segment in enumerate(unflushed):
            if segment.base_offset < end and not segment.size:
                self._drop(segments, [segment])  # the file of a failed roll
                continue
            if segment.base_offset < end:
                raise DamagedLog(segment.log.path, 0, f"it begins before the segment ahead of it ends, at {end}")
            lost_from = max(end, self._offsets.log_start_offset)
            if segment.base_offset > lost_from and gap is None:
                if self._contiguous:
                    self._drop(segments, unflushed[index:])
                    fs.sync_directory(self._directory)
                    break
                # Compaction leaves gaps, and so does a power cut that takes whole batches from the end of the previous
                # segment. Which of them it was is unknown: a follower fetches again from the gap on
                # (`PartitionLog.gap`), and a node without a leader to fetch from keeps the rest.
                gap = lost_from
            end, whole = self._recover_segment(segment)
            take_snapshot(segments, self._producers, end)
            if not whole:
                self._drop(segments, unflushed[index + 1 :])
                # otherwise a power cut brings the cut bytes back, behind batches appended since
                segment.log.handle().sync()
                fs.sync_directory(self._directory)
                break
        if end < self._offsets.recovery_point:
            reason = f"it ends at offset {end}, but had been synced up to {self._offsets.recovery_point}"
            raise EndsEarly(segments.active.log.path, segments.active.size, reason)
        end = self._start_over(segments, end)
        self._finish(segments, end)
        return Recovered(end, gap)

    def _mend_rolled(self, segment: LogSegment) -> None:
        """Mend the files of the segment that ends at the recovery point, after which a new segment was rolled.

        The batches were synced while the segment was active. The work of the roll on the files may be lost: unused
        preallocated room may still be there, and entries of the indexes may be missing.
        """
        handle, path = segment.log.handle(), segment.log.path
        try:
            complete = segment.has_whole_indexes() and segment.time_index.last() == segment.greatest_timestamp()
        except DamagedLog:
            complete = False
        if not complete:
            size, end = segment.size, 0
            try:
                for batch in scan(handle, path, 0, size, verify=False):
                    end = batch.position + batch.header.size
            except DamagedLog as damage:
                if any(handle.read_at(size - damage.position, damage.position)):
                    raise
                end = damage.position
                handle.truncate(end)
            segment.size = end
            segment.rebuild_indexes(self._config.index_interval_bytes)
        segment.close()

    def _is_whole(self, segment: LogSegment, names: list[str]) -> bool:
        """Return whether nothing was written after the last sync; the folder is as after a clean shutdown then."""
        end = self._offsets.recovery_point
        if self._offsets.log_start_offset > end:
            return False
        if not segment.size:
            # Kafka allocates indexes in advance, and a killed Kafka leaves them at full size: a recovery cuts them.
            return end == segment.base_offset == 0 and segment.offset_index.file.size() == 0
        stem = segment_name(segment.base_offset)
        if not {f"{stem}.index", f"{stem}.timeindex"} <= set(names) or not self._epochs.entries:
            return False
        if snapshot_name(end) not in names and not self._needs_no_snapshot(segment, names):
            return False
        try:
            return segment.has_whole_indexes() and segment.end_offset() == end
        except DamagedLog:
            return False

    def _needs_no_snapshot(self, segment: LogSegment, names: list[str]) -> bool:
        """Return whether a log is short, without idempotent producers: closing many logs writes no snapshot then."""
        if segment.base_offset or segment.size > QUICKLY_READ_BYTES or snapshot_offsets(names):
            return False
        try:
            return all(batch.header.producer_id == NO_PRODUCER_ID for batch in segment.scan())
        except DamagedLog:
            return False

    def _recover_segment(self, segment: LogSegment) -> tuple[int, bool]:
        """Return the end offset of the segment, and whether the segment was whole."""
        size = segment.size
        segment.clear_indexes()
        aborted: list[AbortedTransaction] = []
        end, whole = segment.base_offset, True
        try:
            for batch in scan(segment.log.handle(), segment.log.path, 0, size, verify=True):
                header = batch.header
                if header.base_offset < end or header.last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
                    raise DamagedLog(segment.log.path, batch.position, f"offset {header.base_offset} after {end - 1}")
                aborted += self._learn(segment, batch)
                end = header.next_offset
        except DamagedLog as damage:
            if end < self._offsets.recovery_point or damage.old_format:
                raise
            logger.warning("Cut %d bytes at the end of %s: %s", size - segment.size, segment.log.path, damage.reason)
            segment.log.handle().truncate(segment.size)
            whole = False
        segment.transactions.correct(aborted)
        return end, whole

    def _learn(self, segment: LogSegment, batch: ScannedBatch) -> list[AbortedTransaction]:
        """Enter a batch into epochs, indexes and producers; return the transaction that the batch aborts, if any."""
        header = batch.header
        aborted = replay_in(segment, self._producers, batch)
        if header.partition_leader_epoch > self._epochs.latest:
            self._epochs.assign(header.partition_leader_epoch, header.base_offset)
        segment.index(header.size, header.last_offset, header.max_timestamp, self._config.index_interval_bytes)
        return [] if aborted is None else [aborted]

    def _drop(self, segments: Segments, later: list[LogSegment]) -> None:
        for segment in later:
            logger.warning("Removed %s (%d bytes), which came after the cut", segment.log.path, segment.size)
            segment.remove()
        if later:
            segments.replace(later, [])

    def _start_over(self, segments: Segments, end: int) -> int:
        """Return the offset at which the log continues: its end, or the log start if the log ends before.

        The log ends before its start if records were deleted by clients before they were synced. It then begins anew.
        """
        start = self._offsets.log_start_offset
        if end >= start:
            return end
        begin_anew(segments, start, self._wall)
        return start

    def _finish(self, segments: Segments, end: int) -> None:
        self._epochs.truncate_from_end(end)
        self._epochs.correct(segments, max(self._offsets.log_start_offset, segments.first.base_offset), end)
        if self._epochs.entries != self._epochs_on_disk:
            self._epochs.write()
        for segment in segments.starting_from(self._offsets.recovery_point):
            segment.close()


def recover_folder(
    files: FileCache, directory: str, name: str, config: TopicConfig, offsets: Offsets, wall: int
) -> Recovered:
    """Recover a partition written by clients.

    A log that ends before the recovery point is reported, and recovered from its start. A gap is noted in a file of the
    folder, before a sync can raise the recovery point beyond the gap.
    """
    try:
        recovered = FolderRecovery(files, directory, name, config, offsets, wall).run()
    except EndsEarly as early:
        logger.error("%s; it is recovered from its start, and continues where its records end", early)
        from_start = Offsets(offsets.log_start_offset, 0)
        recovered = FolderRecovery(files, directory, name, config, from_start, wall).run()
    if recovered.gap is not None:
        write_gap(files.fs, directory, recovered.gap)
    return recovered
