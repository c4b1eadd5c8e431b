"""From a folder to a `PartitionLog`, and the folder of a new one.

Rule: after a clean shutdown only the end of the last segment is read. Everything else a log needs it reads when it is
asked for.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import NamedTuple

from pykafka_broker.clock import Clock
from pykafka_broker.config.topic import TopicConfig
from pykafka_broker.log.checkpoints import (
    GAP,
    MOVED,
    PARTITION_METADATA,
    read_gap,
    read_partition_metadata,
    write_partition_metadata,
)
from pykafka_broker.log.files import FileCache
from pykafka_broker.log.filesystem import FileSystem
from pykafka_broker.log.leader_epochs import FILE_NAME as EPOCHS_FILE
from pykafka_broker.log.leader_epochs import LeaderEpochs
from pykafka_broker.log.partition_log import LogKeeper, PartitionLog
from pykafka_broker.log.producer_loading import rebuild_transactions, remove_strays, restore_producers
from pykafka_broker.log.producer_snapshot import forget_snapshots
from pykafka_broker.log.producer_state import ProducerState
from pykafka_broker.log.scan import scan
from pykafka_broker.log.segment import LogSegment
from pykafka_broker.log.segment_files import CLEANED, DELETED, SWAP, segment_name
from pykafka_broker.log.segments import Segments

logger = logging.getLogger(__name__)

ZERO_ID = bytes(16)
_LOG_SUFFIX = ".log"
_SEGMENT = re.compile(r"[0-9]{20}\.log")
_INDEXES = (".index", ".timeindex", ".txnindex")
_LEFTOVERS = (DELETED, CLEANED, MOVED, ".tmp")


class Offsets(NamedTuple):
    """What the checkpoint files of a log directory say of a partition."""

    log_start_offset: int = 0
    recovery_point: int = 0
    high_watermark: int | None = None  # where other replicas have a say in it: without one it is the log's end


def create_log(
    files: FileCache,
    directory: str,
    topic: str,
    partition: int,
    topic_id: bytes,
    config: TopicConfig,
    clock: Clock,
    keeper: LogKeeper,
) -> PartitionLog:
    """A new, empty log in a folder of its own, which is made."""
    fs = files.fs
    fs.make_directory(directory)
    if topic_id != ZERO_ID:
        write_partition_metadata(fs, f"{directory}/{PARTITION_METADATA}", topic_id)
    log = begin_log(files, directory, topic, partition, topic_id, config, clock, keeper)
    if config.preallocate:
        log.segments.active.preallocate(config.segment_bytes)
    return log


def begin_log(
    files: FileCache,
    directory: str,
    topic: str,
    partition: int,
    topic_id: bytes,
    config: TopicConfig,
    clock: Clock,
    keeper: LogKeeper,
) -> PartitionLog:
    """An empty log in a folder that is there, and in which there is only the topic's id; the files that would be empty
    come with the first batch."""
    segment = LogSegment(files, directory, 0, size=0, created_ms=clock.wall, fresh=True)
    return PartitionLog(
        topic,
        partition,
        topic_id=topic_id,
        directory=directory,
        config=config,
        files=files,
        segments=Segments([segment]),
        producers=ProducerState(f"{topic}-{partition}"),
        epochs=LeaderEpochs(files.fs, f"{directory}/{EPOCHS_FILE}", []),
        log_start_offset=0,
        log_end_offset=0,
        recovery_point=0,
        now=clock.now,
        keeper=keeper,
    )


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
    """A log that was closed cleanly."""
    fs = files.fs
    names = remove_leftovers(files, directory, clock.wall)
    segments = open_segments(files, directory, names, offsets.log_start_offset, clock.wall)
    log_end_offset = segments.active.end_offset()
    if offsets.log_start_offset > log_end_offset:
        begin_anew(files, directory, segments, offsets.log_start_offset, clock.wall)
        names, log_end_offset = fs.list_directory(directory), offsets.log_start_offset
    log_start_offset = max(offsets.log_start_offset, segments.first.base_offset)
    _complete_indexes(segments, set(names))
    producers = ProducerState(f"{topic}-{partition}")
    remove_strays(fs, directory, names, segments)
    restore_producers(fs, directory, names, producers, segments, log_start_offset, log_end_offset)
    if not segments.active.transactions.is_sound():  # it is about to be written to
        rebuild_transactions(fs, directory, segments, segments.active)
    log = PartitionLog(
        topic,
        partition,
        topic_id=read_partition_metadata(fs, f"{directory}/{PARTITION_METADATA}") or ZERO_ID,
        directory=directory,
        config=config,
        files=files,
        segments=segments,
        producers=producers,
        epochs=load_epochs(fs, directory, segments, log_start_offset, log_end_offset),
        log_start_offset=log_start_offset,
        log_end_offset=log_end_offset,
        recovery_point=min(offsets.recovery_point, log_end_offset),
        high_watermark=offsets.high_watermark,
        gap=read_gap(fs, directory) if GAP in names else None,
        now=clock.now,
        keeper=keeper,
    )
    if log.gap is not None and log.gap >= log_end_offset:
        log.forget_gap()  # a crash came when the log was cut there
    return log


def begin_anew(files: FileCache, directory: str, segments: Segments, start: int, wall: int) -> None:
    """Replace all segments by an empty one at `start`: what was left of the log lies below its start, and offsets below
    that, given once more, would be lost at the next load. Nothing is known of the producers then: the end of a
    transaction that is open here may be among what is lost (Kafka: UnifiedLog.truncateFullyAndStartAt).
    """
    logger.warning("%s ends before its start, and goes on there, at %d", directory, start)
    fs = files.fs
    forget_snapshots(fs, directory)
    old = list(segments)
    for each in old:
        each.remove()
    fs.sync_directory(directory)  # or a power cut brings the old segments back, and their producers
    segment = LogSegment(files, directory, start, size=0, created_ms=wall, fresh=True)
    segment.log.create()
    segments.replace(old, [segment])
    fs.sync_directory(directory)


def open_segments(files: FileCache, directory: str, names: list[str], log_start_offset: int, wall: int) -> Segments:
    """Every segment in the folder; a new one if there is none."""
    bases = sorted(int(name[:20]) for name in names if _SEGMENT.fullmatch(name))
    if not bases:
        segment = LogSegment(files, directory, log_start_offset, size=0, created_ms=wall, fresh=True)
        segment.log.create()
        return Segments([segment])
    segments = []
    for base in bases:
        status = files.fs.stat(f"{directory}/{base:020d}{_LOG_SUFFIX}")
        segments.append(
            LogSegment(files, directory, base, size=status.size, created_ms=status.modified_ms, fresh=False)
        )
    return Segments(segments)


def _complete_indexes(segments: Segments, names: set[str]) -> None:
    """Make the index files that are missing."""
    for segment in segments:
        stem = segment_name(segment.base_offset)
        if segment.size and not {f"{stem}.index", f"{stem}.timeindex"} <= names:
            segment.rebuild_indexes()


def remove_leftovers(files: FileCache, directory: str, wall: int) -> list[str]:
    """Finish what an interrupted deletion, cleaning or checkpoint left; the names that are there then."""
    fs, names = files.fs, []
    for name in fs.list_directory(directory):
        if name.endswith(_LEFTOVERS):
            fs.remove(f"{directory}/{name}")
        else:
            names.append(name)
    if any(name.endswith(SWAP) for name in names):
        from pykafka_broker.log.compaction.swap import finish_swaps

        names = finish_swaps(files, directory, names, wall)
    present = set(names)
    for name in names:
        if name.endswith(_INDEXES) and f"{name.partition('.')[0]}{_LOG_SUFFIX}" not in present:
            fs.remove(f"{directory}/{name}")  # or a new segment of that offset would go on with it
            present.remove(name)
    return [name for name in names if name in present]


def load_epochs(
    fs: FileSystem, directory: str, segments: Segments, log_start_offset: int, log_end_offset: int
) -> LeaderEpochs:
    """What the checkpoint says; if it is missing, damaged or not of this log, what the batches say."""
    epochs = LeaderEpochs.load(fs, f"{directory}/{EPOCHS_FILE}")
    if correct_epochs(epochs, segments, log_start_offset, log_end_offset):
        epochs.write(sync=False)
    return epochs


def correct_epochs(epochs: LeaderEpochs, segments: Segments, log_start_offset: int, log_end_offset: int) -> bool:
    """Learn them anew where the log's ends show that they are wrong; whether that was so."""
    if epochs.entries:
        last_epoch = segments.active.last_epoch() if segments.active.size else None
        wrong = not epochs.can_be_of(log_start_offset, log_end_offset, last_epoch)
    else:
        wrong = segments.size_bytes > 0
    if wrong:
        epochs.entries = []
        learn_epochs(epochs, segments)
        if epochs.entries and epochs.entries[0][1] > log_start_offset:  # cleaning took what was before
            epochs.entries[0] = epochs.entries[0][0], log_start_offset
    return wrong


def learn_epochs(epochs: LeaderEpochs, segments: Iterable[LogSegment]) -> None:
    for segment in segments:
        if not segment.size or segment.last_epoch() <= epochs.latest:
            continue  # epochs only rise, so none begins in here
        for batch in scan(segment.log.handle(), segment.log.path, 0, segment.size, verify=False):
            epochs.assign(batch.header.partition_leader_epoch, batch.header.base_offset)
