"""The log of one partition: append, read, cut (Kafka: UnifiedLog).

Rule: only the methods here change the log's fields. An append checks everything first, then writes once, then changes
the offsets; a write that fails changes nothing. Leader and follower append through the same `_write`. Readers never see
past the offset they name, which the caller takes from `high_watermark` or `last_stable_offset`. Where `flush.messages`
asks for a sync the high watermark waits for the sync, so that no reader sees records that a power cut could take back.

`Segments` has the files: here is everything that goes with a change of them, producers and their snapshots, leader
epochs, offsets. The log does its own work and asks nobody: what concerns its directory, threads or other logs, its
`LogKeeper` is told. Files of segments that leave the log are removed only after `file.delete.delay.ms`, so that readers
can finish. `Unsynced` knows what a sync has to bring to disk, `retain` what the settings delete.
"""

from __future__ import annotations

import contextlib
import logging
import os
import struct
from collections.abc import Iterator
from dataclasses import InitVar, dataclass, field
from enum import IntEnum
from typing import Protocol

from pykafka_broker.config.topic import TopicConfig
from pykafka_broker.errors import ApiError
from pykafka_broker.log.checkpoints import EPOCHS_FILE, GAP, PARTITION_METADATA, write_partition_metadata
from pykafka_broker.log.filesystem import Buffer, FileSlice, sync_file
from pykafka_broker.log.index import AbortedTransaction
from pykafka_broker.log.leader_epochs import LeaderEpochs
from pykafka_broker.log.producer_state import (
    ProducerState,
    forget_snapshot,
    forget_snapshots,
    mend_transactions,
    restore_producers,
    take_snapshot,
)
from pykafka_broker.log.scan import DamagedLog, help_for
from pykafka_broker.log.segment import LogSegment
from pykafka_broker.log.segments import LogRead, Segments, TimeSteps
from pykafka_broker.log.unsynced import Unsynced
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.records.control import EndTransactionMarker, read_end_transaction_marker
from pykafka_broker.records.errors import CorruptBatch, InvalidRecord
from pykafka_broker.records.header import HEADER_SIZE, BatchHeader, read_header, sound_batch_at

logger = logging.getLogger(__name__)

_ANY_EPOCH = 0x7FFFFFFF
_PATCH = struct.Struct(">qii").pack_into  # base offset, length and leader epoch, which the CRC does not cover


class Origin(IntEnum):
    """The appender of a batch (Kafka: AppendOrigin): clients' sequences are checked, followers' offsets stay."""

    CLIENT = 0
    COORDINATOR = 1
    RAFT_LEADER = 2
    REPLICATION = 3


@dataclass(slots=True, eq=False)
class AppendInfo:
    """Offsets and timestamp of an appended batch; for a duplicate, of the repeated batch (Kafka: LogAppendInfo)."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    log_start_offset: int
    duplicate: bool = False


class LogKeeper(Protocol):
    """Owner of a directory's logs: hears of events concerning the directory, other threads or other logs."""

    def storage_failed(self, log: PartitionLog, error: OSError) -> None:
        """Handle a read or a write refused by the disk."""

    def damaged_log(self, log: PartitionLog, damage: DamagedLog) -> None:
        """Take the damaged log out of service: a change may be half done, or another replica can replace it."""

    def can_spare(self, log: PartitionLog) -> bool:
        """Return whether another replica in sync takes the place of a log that is out of service."""

    def rolled(self, log: PartitionLog) -> None:
        """Sync a segment which has just been completed."""

    def must_sync(self, log: PartitionLog) -> None:
        """Sync the log: more is unsynced than `flush.messages` allows, and the high watermark waits for the sync."""

    def synced(self, log: PartitionLog) -> None:
        """Note more durable records in the log."""

    def sync_failed(self, log: PartitionLog, error: OSError) -> None:
        """Handle a sync refused by the disk: the log's unsynced records may be lost."""

    def truncating(self, log: PartitionLog, offset: int) -> None:
        """Prepare for a log ending at `offset`. If `offset` is the `recovery_point` now, write the recovery point to
        disk, and if the log is clean beyond `offset`, how far it is clean. Raises OSError: the log must not be cut.
        """

    def segment_deleted(self, log: PartitionLog, segment: LogSegment) -> None:
        """Remove the files of a segment later, which are renamed already."""


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class PartitionLog:
    """The log of a partition (Kafka: UnifiedLog), made by `loading.create_log` and `loading.load_log`.

    Always log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset, and recovery_point <=
    log_end_offset.

    Attributes:
        high_watermark: records below it are committed (Kafka docs: "replication").
        recovery_point: records below it are synced.
        sole_replica: whether a record is committed as soon as it is durable here; otherwise the partition advances the
            high watermark.
        truncations: how often the log's end has moved back; syncs and copies compare it.
        interrupted_cut: the offset of a cut that the disk has stopped halfway; None for none. The log still shows its
            old end, `finish_cut` comes before everything else, and no sync moves the recovery point.
        gap: the offset from which a crash may have taken records, but not those behind them; None for none.
        last_flush_ms: steady time of the last sync.
    """

    topic: str
    partition: int
    topic_id: bytes
    config: TopicConfig
    segments: Segments
    producers: ProducerState
    epochs: LeaderEpochs
    keeper: LogKeeper
    last_flush_ms: int
    # The checkpointed one of a partition with several replicas; None with a single replica, whose durable records are
    # committed.
    known_high_watermark: InitVar[int | None] = None
    log_start_offset: int = 0
    log_end_offset: int = 0
    recovery_point: int = 0
    gap: int | None = None
    high_watermark: int = field(init=False)
    sole_replica: bool = field(init=False, default=True)
    truncations: int = field(init=False, default=0)
    interrupted_cut: int | None = field(init=False, default=None)
    unsynced: Unsynced = field(init=False, default_factory=Unsynced)
    _reported: set[str] = field(init=False, default_factory=set)  # damage that was logged already

    def __post_init__(self, known_high_watermark: int | None) -> None:
        end = self.log_end_offset
        known = end if known_high_watermark is None else min(known_high_watermark, end)
        self.high_watermark = max(self.log_start_offset, min(known, self.durable_end))
        self.producers.on_high_watermark(self.high_watermark)

    def __repr__(self) -> str:
        return f"PartitionLog({self.topic}-{self.partition}, {self.log_start_offset}..{self.log_end_offset})"

    @property
    def directory(self) -> str:
        """Return the path of the log's folder."""
        return self.segments.directory

    @property
    def overdue(self) -> bool:
        """Return whether more records are unsynced than `flush.messages` allows."""
        return self.log_end_offset - self.recovery_point >= self.config.flush_messages

    @property
    def durable_end(self) -> int:
        """Return the end of the durable records: the log's end, or the recovery point while a sync is asked for."""
        return self.recovery_point if self.overdue else self.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """Return the offset below which no transaction is undecided (KIP-98)."""
        unstable = self.producers.first_unstable_offset
        if unstable is None or unstable >= self.high_watermark:
            return self.high_watermark
        return unstable if unstable > self.log_start_offset else self.log_start_offset

    # -- append

    def append(
        self,
        batch: bytearray | memoryview,
        now: int,
        *,
        header: BatchHeader | None = None,
        leader_epoch: int | None = None,
        origin: Origin = Origin.CLIENT,
        verified: bool = True,
        transaction_version: int = 0,
    ) -> AppendInfo:
        """Append a v2 batch with checked size, CRC and timestamps. Base offset and leader epoch are written into the
        batch, unless it comes from a leader (`Origin.REPLICATION`).

        Args:
            now: wall clock in ms, by which new segments are begun.
            verified: False if the transaction coordinator was not asked whether this partition is part of the
                producer's transaction; the batch is then refused unless a transaction is open here (KIP-890).
            transaction_version: concerns markers only.

        Raises:
            ApiError: the answer for the producer. Nothing was appended.
        """
        if header is None:
            header = read_header(batch)
        if origin is Origin.REPLICATION:
            base_offset, leader_epoch = header.base_offset, header.partition_leader_epoch
            if base_offset < self.log_end_offset:
                message = f"offset {base_offset} comes after {self.log_end_offset - 1} in {self}"
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, message)
        else:
            base_offset = self.log_end_offset
            if leader_epoch is None:
                leader_epoch = self.epochs.current
            _PATCH(batch, 0, base_offset, header.length, leader_epoch)
        marker = None
        if header.producer_id >= 0:
            if header.is_control:
                marker = read_end_transaction_marker(batch)
                if marker is not None and origin is not Origin.REPLICATION:
                    self.producers.check_marker(marker, transaction_version)
            elif origin is not Origin.REPLICATION:
                is_client = origin is Origin.CLIENT
                duplicate = self.producers.check(header, base_offset, check_sequence=is_client, verified=verified)
                if duplicate is not None:
                    first = duplicate.first_offset
                    return AppendInfo(first, duplicate.last_offset, duplicate.timestamp, self.log_start_offset, True)
        self._write(batch, header, base_offset, leader_epoch, marker, now)
        last_offset = base_offset + header.last_offset_delta
        return AppendInfo(base_offset, last_offset, header.max_timestamp, self.log_start_offset)

    def append_fetched(self, data: Buffer, now: int, leader_start: int = 0, leader_epoch: int = _ANY_EPOCH) -> None:
        """Append a leader's whole batches, with the same offsets, leader epochs and bytes. Only headers and CRCs are
        looked at. A batch that is cut short at the end of `data` is left for the next fetch.

        Batches of a newer epoch than the leader's are left as well: another leader has replaced it while the answer
        was on its way out of the log's file, and the batches at these positions are of another history (KAFKA-18723).

        Args:
            now: wall clock in ms.
            leader_start: where the leader's log starts; 0 if nobody said so.
            leader_epoch: the epoch of the leader that was asked.

        Raises:
            CorruptBatch: a batch is damaged or does not follow the log's end. The batches before are appended.
            ApiError: the disk refused a write. The batches before are appended.
        """
        view, at = memoryview(data), 0
        if len(view) >= HEADER_SIZE:
            first = read_header(view)
            if first.partition_leader_epoch > leader_epoch:
                return
            if first.base_offset < self.log_end_offset:
                self._step_back(view, now, leader_start)
        while (header := sound_batch_at(view, at, self.log_end_offset)) is not None:
            if header.partition_leader_epoch > leader_epoch:
                return
            if header.is_control and header.has_producer_id:
                self.append(view[at : at + header.size], now, header=header, origin=Origin.REPLICATION)
                at += header.size
            else:
                epoch = header.partition_leader_epoch
                at += self._write(view[at:], header, header.base_offset, epoch, None, now, is_run=True)

    def _step_back(self, view: memoryview, now: int, leader_start: int) -> None:
        """Move the log's end back to the base offset of the first batch, if the batch lies around that end.

        The leader's log begins within such a batch after DeleteRecords, and a follower that was told to begin at the
        leader's start has nothing stored from the base offset on (Kafka: UnexpectedAppendOffsetException). A log that
        lies below the leader's start as a whole is of another history, and ends at that start by chance.
        """
        header = sound_batch_at(view, 0, 0)
        if header is None or header.last_offset < self.log_end_offset:
            return
        try:
            filled = [segment for segment in self.segments if segment.size]
            is_free = not filled or header.base_offset >= filled[-1].end_offset()
            if is_free or self.log_end_offset <= leader_start:
                self.truncate_or_restart(header.base_offset, now)
        except OSError as error:
            raise self.storage_error(error) from error

    def _write(
        self,
        data: bytearray | memoryview,
        first: BatchHeader,
        base_offset: int,
        leader_epoch: int,
        marker: EndTransactionMarker | None,
        now: int,
        *,
        is_run: bool = False,
    ) -> int:
        """Write checked batches at the log's end, for every append of a leader or a follower.

        Args:
            data: one batch; of a run, at least its first batch whole.
            first: the header of the first batch; `base_offset` and `leader_epoch` replace its own.
            marker: the decoded batch, if it ends a transaction.
            is_run: whether batches that follow in `data` go into the same write, as many as the segment has room for.

        Returns:
            The size of what was written.

        Raises:
            ApiError: the disk refused, or the segment is damaged. Nothing was appended.
        """
        size, last_offset, timestamp = first.size, base_offset + first.last_offset_delta, first.max_timestamp
        headers: list[BatchHeader] | None = None  # of a run
        try:
            segment = self.segments.active
            if segment.base_offset > base_offset:
                segment = self._unroll()
            if segment.must_roll(self.config, size, timestamp, last_offset, now):
                if size > self.config.segment_bytes:
                    raise ApiError(
                        ErrorCode.RECORD_LIST_TOO_LARGE,
                        f"Message batch size is {size} bytes in append to partition {self.topic}-{self.partition}, "
                        f"which exceeds the maximum configured segment size of {self.config.segment_bytes}.",
                    )
                segment = self.roll(now, base_offset)
            if leader_epoch > self.epochs.latest:
                self.epochs.begin(leader_epoch, base_offset)
            if is_run:
                headers, size = segment.run_in(data, first, self.config)
                last_offset = headers[-1].last_offset
                segment.append_run(data[:size], headers, self.config)
            elif marker is None:
                segment.append(data, last_offset, timestamp, self.config)
            else:
                aborted = self.producers.aborted_by(marker)
                segment.append_marker(data, last_offset, timestamp, aborted, self.config)
            segment.written_ms = now
        except (OSError, DamagedLog) as error:
            raise self._storage_or_damage(error) from error
        if marker is not None:
            self.producers.apply_marker(marker)
        elif headers is not None:
            for header in headers:
                if header.producer_id >= 0:
                    self.producers.apply(header, header.base_offset)
        elif first.producer_id >= 0 and not first.is_control:  # a cleaning leaves a control batch without its marker
            self.producers.apply(first, base_offset)
        self.log_end_offset = end = last_offset + 1
        if end - self.recovery_point >= self.config.flush_messages:
            self.keeper.must_sync(self)
        elif self.sole_replica:
            self.advance_high_watermark(end)
        return size

    def roll(self, now: int, next_offset: int = 0) -> LogSegment:
        """Start a new segment at the log's end or at `next_offset`, the greater of the two; an empty active segment
        stays.

        Args:
            now: wall clock in ms.

        Raises:
            OSError: the active segment stays as it was.
        """
        base_offset = max(self.log_end_offset, next_offset)
        active = self.segments.active
        if active.size or active.base_offset < base_offset:
            take_snapshot(self.segments, self.producers, base_offset)
            self.segments.roll(base_offset, now, self.config)
            self.unsynced.segment_completed(active)
            self.keeper.rolled(self)
        return self.segments.active

    def _unroll(self) -> LogSegment:
        """Remove the active segment, whose first batch could not be written behind a gap; return the segment before.

        Another leader may have records in the gap: behind a greater base offset they would be lost with a recovery.

        Raises:
            OSError: the segment stays.
        """
        assert not self.segments.active.size
        before = self.segments[-2]
        for file in before.files():
            file.own()  # complete until now, so that an image may have links to the files
        mend_transactions(self.segments, before)  # no append has read the index either
        self._delete(self.segments.active)
        active = self.segments.active
        self.producers.snapshot_offset = min(self.producers.snapshot_offset, active.base_offset)
        return active

    def forget_gap(self) -> None:
        """Forget the gap of a crash: the records are fetched again, or the log stays unchanged."""
        if self.gap is not None:
            self.gap = None
            with contextlib.suppress(OSError):  # a gap that comes back is fetched once more
                self.segments.files.fs.remove(f"{self.directory}/{GAP}")

    def set_sole_replica(self, is_sole: bool) -> None:
        """Commit records as soon as durable, or leave the high watermark to the partition."""
        self.sole_replica = is_sole

    def advance_high_watermark(self, offset: int) -> None:
        """Set the high watermark, which lies between the log's ends."""
        assert self.log_start_offset <= offset <= self.log_end_offset
        self.high_watermark = offset
        if self.producers.ended:
            self.producers.on_high_watermark(offset)

    def storage_error(self, error: OSError) -> ApiError:
        """Tell the keeper of the disk's failure, and return the answer for the request."""
        self.keeper.storage_failed(self, error)
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic}-{self.partition}: {error}")

    # -- read

    def read(self, offset: int, max_bytes: int, upper_offset: int, *, min_one: bool = True) -> LogRead | None:
        """Return whole batches of a segment, from the batch with `offset` on, with all offsets below `upper_offset`;
        None for no batch.

        Args:
            min_one: whether the first batch comes whole even if it is larger than `max_bytes` (KIP-74).

        Raises:
            ApiError: OFFSET_OUT_OF_RANGE, or KAFKA_STORAGE_ERROR where the disk fails or the log is damaged.
        """
        if offset >= self.log_end_offset or offset < self.log_start_offset:
            if offset == self.log_end_offset:
                return None
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Received request for offset {offset} for partition {self.topic}-{self.partition}, "
                f"but we only have log segments upto {self.log_end_offset}.",
            )
        if offset >= upper_offset:
            return None
        try:
            return self.segments.read(offset, max_bytes, upper_offset, self.log_end_offset, min_one)
        except (OSError, DamagedLog) as error:
            raise self._storage_or_damage(error) from error

    def bytes_of(self, records: FileSlice) -> bytes:
        """Return the records that a read has found. Raises ApiError: the disk failed."""
        try:
            return records.read()
        except OSError as error:
            raise self.storage_error(error) from error

    def bytes_between(self, offset: int, upper_offset: int) -> int:
        """Return the size of the batches from the batch with `offset` on, below `upper_offset`.

        MORE_THAN_A_SEGMENT where they do not end in the segment in which they begin. Raises as `read`.
        """
        try:
            return self.segments.bytes_between(offset, upper_offset, self.log_end_offset)
        except (OSError, DamagedLog) as error:
            raise self._storage_or_damage(error) from error

    def aborted_transactions(self, first_offset: int, upper_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with records in [first_offset, upper_offset) (KIP-98)."""
        found: list[AbortedTransaction] = []
        try:
            for segment in self.segments.starting_from(first_offset):
                mend_transactions(self.segments, segment)
                here, complete = segment.transactions.collect(first_offset, upper_offset)
                found += here
                if complete:
                    break
        except (OSError, DamagedLog) as error:
            raise self._storage_or_damage(error) from error
        return found

    def _storage_or_damage(self, error: OSError | DamagedLog) -> ApiError:
        """Return the answer for a request stopped by a failed disk or by damage."""
        if isinstance(error, OSError):
            return self.storage_error(error)
        self.met_damage(error)
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))

    def met_damage(self, damage: DamagedLog) -> None:
        """Report damage.

        A damaged log that another replica can replace goes out of service. Otherwise damage is logged once, and the
        rest of the log is still served. Messages of old formats are the same in every replica. While a cut is
        interrupted, the log shows batches that are cut off already.
        """
        if not damage.old_format and self.interrupted_cut is None and self.keeper.can_spare(self):
            self.keeper.damaged_log(self, damage)
        elif str(damage) not in self._reported:
            self._reported.add(str(damage))
            logger.error("%s%s", damage, help_for(damage, os.path.dirname(self.directory)))

    def learn_times(self) -> Iterator[None]:
        """Read the greatest timestamps of segments, in steps, ahead of look-ups by time. Raises ApiError as `read`."""
        try:
            yield from self.segments.learn_times()
        except (OSError, DamagedLog) as error:
            raise self._storage_or_damage(error) from error

    def offset_for_timestamp(self, timestamp: int | None) -> TimeSteps:
        """Find the first record at or after `timestamp`, or with None the one with the greatest timestamp (KIP-734), in
        steps of about a millisecond.

        Raises:
            ApiError: records on the way can't be read, or are larger than `max.decompressed.message.bytes`.
        """
        where = self.log_start_offset, self.config.max_decompressed_message_bytes
        truncations = self.truncations
        try:
            if timestamp is None:
                return (yield from self.segments.offset_of_max_timestamp(*where))
            return (yield from self.segments.offset_for_timestamp(timestamp, *where))
        except FileNotFoundError as error:  # the segment was deleted between two steps
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        except (OSError, DamagedLog) as error:
            if isinstance(error, DamagedLog) and truncations != self.truncations:  # cut between two steps
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER) from error
            raise self._storage_or_damage(error) from error
        except InvalidRecord as refusal:
            raise ApiError(ErrorCode.INVALID_RECORD, str(refusal)) from refusal
        except CorruptBatch as damage:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(damage)) from damage

    def segment_starts(self) -> list[tuple[int, int]]:
        """Return the base offset of each segment, and the time of the last write in ms of the wall clock.

        Raises:
            ApiError: a segment's time can't be read.
        """
        try:
            return [(segment.base_offset, segment.modified_ms) for segment in self.segments]
        except (OSError, DamagedLog) as error:
            raise self._storage_or_damage(error) from error

    # -- cut, from the start (retention, DeleteRecords)

    def delete_records_before(self, offset: int) -> None:
        """Move the log's start (DeleteRecords, KIP-107); `retain` deletes files later.

        Raises:
            ApiError: OFFSET_OUT_OF_RANGE, or KAFKA_STORAGE_ERROR if the start of the leader epochs can't be written.
        """
        if offset > self.high_watermark:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is above the high watermark {self.high_watermark}")
        try:
            self.raise_log_start(offset)
        except OSError as error:
            raise self.storage_error(error) from error

    def raise_log_start(self, offset: int) -> None:
        """Move the log's start up to `offset`, never down.

        Raises:
            OSError: the leader epochs can't be written. The start has moved.
        """
        if offset <= self.log_start_offset:
            return
        self.log_start_offset = offset
        if self.epochs.truncate_from_start(offset):
            self.epochs.write()

    def delete_oldest(self, segments: list[LogSegment]) -> None:
        """Delete the oldest segments, and move the log's start up to what is left.

        Raises:
            OSError: the caller calls `storage_error`. Segments deleted before stay deleted.
        """
        try:
            for segment in segments:
                self._delete(segment)
        finally:
            self.raise_log_start(self.segments.first.base_offset)

    def _delete(self, segment: LogSegment, kept_snapshot: int | None = None) -> None:
        """Take a segment out of the log. The segment stays if the disk refuses to rename its files.

        Args:
            kept_snapshot: the offset of a producer snapshot to keep; the one of the segment's base offset goes.
        """
        self.segments.delete(segment)
        self.segment_deleted(segment)
        if segment.base_offset != kept_snapshot:
            forget_snapshot(self.segments, segment.base_offset)

    def segment_deleted(self, segment: LogSegment) -> None:
        """Have the renamed files of a segment outside the log removed later."""
        self.unsynced.folder_changed()
        self.keeper.segment_deleted(self, segment)

    # -- cut, from the end (another leader's history)

    def truncate_to(self, offset: int) -> None:
        """Forget records at and above `offset` (a follower with another history). Where `offset` lies within a batch or
        a gap, the log ends with the last batch before, in memory as on disk, but never below its start.

        The log is synced before this returns: what is appended next stands where the old batches stood, and after a
        power cut the log must not hold a mix of both. An epoch that begins at the log's end has no record, since the
        first append failed, and is forgotten wherever the log would be cut.

        Raises:
            OSError: the caller calls `storage_error`, and repeats the call before the log is used again.
        """
        if offset >= self.log_end_offset:
            if self.epochs.truncate_from_end(self.log_end_offset):
                self.epochs.write()
            return
        cut, *later = self.segments.starting_from(offset - 1)
        mend_transactions(self.segments, cut)
        end = min(offset, max(cut.end_offset(cut.position_of(offset)), self.log_start_offset))
        self.truncations += 1
        self.recovery_point = min(self.recovery_point, end)
        self.keeper.truncating(self, end)
        self.interrupted_cut = offset
        for segment in reversed(later):  # a crash in between leaves no gap
            # What Kafka's cleaner took of the producers below the new end is known to the snapshot there alone.
            self._delete(segment, kept_snapshot=end)
        cut.truncate_to(offset)
        sync_file(cut.log.handle())
        fs, names = self.segments.files.fs, self.segments.files.fs.list_directory(self.directory)
        restore_producers(self.producers, self.segments, names, self.log_start_offset, end)
        fs.sync_directory(self.directory)
        # Until here the log has its old end, so that a repeated call does everything again.
        self.log_start_offset, self.log_end_offset = min(self.log_start_offset, offset), end
        self.interrupted_cut = None
        self.advance_high_watermark(min(self.high_watermark, end))
        if self.epochs.truncate_from_end(end):
            self.epochs.write()

    def finish_cut(self, now: int) -> None:
        """Finish a cut that the disk has interrupted, if any. Raises OSError: the log must not be used."""
        cut = self.interrupted_cut
        if cut is not None:
            self.truncate_or_restart(cut, now) if cut < self.log_end_offset else self._begin_anew(cut, now)
            if self.overdue:
                self.keeper.must_sync(self)

    def truncate_or_restart(self, offset: int, now: int) -> None:
        """Forget records at and above `offset`. A log without readable records begins anew at the log start, or at
        `offset` if below (Kafka: UnifiedLog.truncateTo, truncateFullyAndStartAt).

        Raises:
            OSError: the caller calls `storage_error`, and repeats the call before the log is used again.
        """
        if offset < self.log_start_offset:
            self._begin_anew(offset, now)
            return
        self.truncate_to(offset)
        if self.segments.active.end_offset() < self.log_start_offset:
            self._begin_anew(self.log_end_offset, now)

    def restart_at(self, offset: int, now: int) -> None:
        """Forget all records and begin at `offset`, at or beyond the log's end: the leader has nothing below.

        Wherever a crash comes, no old segment and no old snapshot is there beside the new segment: a transaction that
        was open in them would count as open for ever, since its end is not in the log. The recovery point goes back to
        0 first, and stays there until a sync: a log that ends below that point after a crash would count as one that
        has lost what was synced.

        Raises:
            OSError: the caller calls `storage_error`. The call may be repeated.
        """
        if offset < self.log_end_offset:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is below the end of {self}")
        self._begin_anew(offset, now)

    def _begin_anew(self, offset: int, now: int) -> None:
        self.truncations += 1
        synced, self.recovery_point = self.recovery_point, 0
        if synced:
            try:
                self.keeper.truncating(self, 0)
            except OSError:
                self.recovery_point = synced  # as the disk still has it, and the next call has to try again
                raise
        self.interrupted_cut = offset
        forget_snapshots(self.segments)
        # The start moves up before a segment goes: if the disk fails in between, the log starts in a segment it has.
        self.log_start_offset = max(self.log_start_offset, min(self.segments.active.base_offset, self.log_end_offset))
        self.advance_high_watermark(max(self.high_watermark, self.log_start_offset))
        for segment in self.segments.begin_anew(offset, now):
            self.segment_deleted(segment)
        self.producers.clear(offset)
        self.epochs.clear()
        self.log_end_offset = self.log_start_offset = offset
        self.interrupted_cut = None
        self.advance_high_watermark(offset)
        self.epochs.write()
        self.forget_gap()

    # -- sync (called by `flush`)

    def reconfigure(self, config: TopicConfig) -> None:
        """Go by new settings from now on. `flush.messages` may ask for a sync now, or no longer wait for a sync."""
        old, was_overdue = self.config, self.overdue
        self.config = config
        if old.flush_messages == config.flush_messages:
            return
        if self.overdue:
            self.keeper.must_sync(self)
        elif was_overdue:
            self.keeper.synced(self)

    @property
    def is_unsynced(self) -> bool:
        """Return whether the log needs a sync to be as a clean shutdown leaves a log."""
        return (
            self.recovery_point < self.log_end_offset
            or not self.segments.active.is_complete
            or self.unsynced.has_segments
        )

    def synced_to(self, offset: int, now: int) -> None:
        """Let records below `offset` be read, which are durable from now on. While a cut is interrupted, the files may
        end below the log's end, and the recovery point stays: a log that ends below it after a crash counts as damaged.

        Args:
            now: steady time in ms.
        """
        if self.interrupted_cut is None:
            self.recovery_point = max(self.recovery_point, min(offset, self.log_end_offset))
        self.last_flush_ms = now
        if self.sole_replica and self.durable_end > self.high_watermark:
            self.advance_high_watermark(self.durable_end)
        self.keeper.synced(self)

    # -- folder and end of life

    def assign_topic_id(self, topic_id: bytes) -> None:
        """Write `partition.metadata`, which is missing in logs older than topic ids, or damaged.

        Raises:
            OSError: the log keeps the id it had.
        """
        write_partition_metadata(self.segments.files.fs, f"{self.directory}/{PARTITION_METADATA}", topic_id)
        self.topic_id = topic_id
        self.unsynced.folder_changed()  # a running sync may have synced the old file already

    def folder_renamed(self, directory: str) -> None:
        """Go by the folder's new name. Readers keep the open files."""
        self.epochs.rename(f"{directory}/{EPOCHS_FILE}")
        self.segments.move_to(directory)

    def continue_in(self, directory: str, now: int) -> None:
        """Use the synced copy in another folder as the log from now on. Readers keep the old files.

        Args:
            now: steady time in ms.
        """
        self.epochs.rename(f"{directory}/{EPOCHS_FILE}")
        self.segments = self.segments.copied_to(directory)
        self.unsynced = Unsynced()
        self.synced_to(self.log_end_offset, now)

    def seal(self) -> None:
        """Complete the index files and the producer snapshot."""
        take_snapshot(self.segments, self.producers, self.log_end_offset)
        self.segments.active.seal()
        self.unsynced.folder_changed()

    def close(self) -> None:
        """Leave the files as after a clean shutdown, synced or not."""
        self.seal()
        for segment in self.segments:
            segment.close()
