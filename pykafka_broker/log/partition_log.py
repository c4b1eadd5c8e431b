"""The log of one partition.

Rule: an append checks everything first, then writes once, then changes what is known. If the write fails nothing has
happened. Readers never see past the offset they name, which the caller takes from `high_watermark` or
`last_stable_offset`. Where `flush.messages` asks for a sync the high watermark waits for it, so that nobody sees what a
power cut could take back.
"""

from __future__ import annotations

import contextlib
import logging
import os
import struct
from enum import IntEnum

from pykafka_broker.config.topic import TopicConfig
from pykafka_broker.errors import ApiError
from pykafka_broker.log import reading, timestamps, trimming
from pykafka_broker.log.files import FileCache
from pykafka_broker.log.leader_epochs import LeaderEpochs
from pykafka_broker.log.log_keeper import LogKeeper
from pykafka_broker.log.producer_snapshot import take_snapshot
from pykafka_broker.log.producer_state import BatchMetadata, ProducerState
from pykafka_broker.log.reading import LogRead
from pykafka_broker.log.rolling import must_roll
from pykafka_broker.log.scan import DamagedLog, remedy
from pykafka_broker.log.segment import LogSegment
from pykafka_broker.log.segments import Segments
from pykafka_broker.log.timestamps import TimeSteps
from pykafka_broker.log.transaction_index import AbortedTransaction
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.records.control import EndTransactionMarker, read_end_transaction_marker
from pykafka_broker.records.header import BatchHeader, read_header

logger = logging.getLogger(__name__)

_PATCH = struct.Struct(">qii").pack_into  # base offset, length and leader epoch, which the CRC does not cover


class Origin(IntEnum):
    """Who appends: only clients are held to their sequence numbers, only a follower's batches keep their offsets."""

    CLIENT = 0
    COORDINATOR = 1
    RAFT_LEADER = 2
    REPLICATION = 3


class AppendInfo:
    """What has become of a batch; of a duplicate, where the batch stands that it repeats."""

    __slots__ = ("base_offset", "duplicate", "last_offset", "log_start_offset", "max_timestamp")

    def __init__(
        self, base_offset: int, last_offset: int, max_timestamp: int, log_start_offset: int, duplicate: bool = False
    ) -> None:
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.max_timestamp = max_timestamp
        self.log_start_offset = log_start_offset
        self.duplicate = duplicate


class PartitionLog:
    """One partition's log; `loading.create_log` and `loading.load_log` make them."""

    # invariant: log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset, and recovery_point <=
    # log_end_offset
    __slots__ = (
        "_told",
        "config",
        "directory",
        "directory_dirty",
        "epochs",
        "files",
        "gap",
        "high_watermark",
        "keeper",
        "last_flush_ms",
        "leader_epoch",
        "log_end_offset",
        "log_start_offset",
        "partition",
        "producers",
        "recovery_point",
        "segments",
        "sole_replica",
        "topic",
        "topic_id",
        "truncations",
        "unsynced_segments",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        *,
        topic_id: bytes,
        directory: str,
        config: TopicConfig,
        files: FileCache,
        segments: Segments,
        producers: ProducerState,
        epochs: LeaderEpochs,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        now: int,
        keeper: LogKeeper,
        high_watermark: int | None = None,
    ) -> None:
        """`high_watermark`: what was known of it, where it is not for this replica alone to say."""
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.directory = directory
        self.config = config
        self.files = files
        self.segments = segments
        self.producers = producers
        self.epochs = epochs
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.recovery_point = recovery_point  # what lies below is synced
        known = log_end_offset if high_watermark is None else min(high_watermark, log_end_offset)
        self.high_watermark = max(log_start_offset, min(known, self.durable_end))
        producers.on_high_watermark(self.high_watermark)
        self.gap: int | None = None  # a crash may have taken records from here on, but not those behind them
        self.unsynced_segments: list[LogSegment] = []  # complete, but their indexes are not on disk for certain
        self.truncations = 0
        self._told: set[str] = set()  # damage that requests have come upon
        self.sole_replica = True  # then what is durable is committed; else the partition moves the high watermark
        self.last_flush_ms = now
        self.directory_dirty = True  # files came, went or were replaced since the folder was synced
        self.leader_epoch = max(0, epochs.latest)
        self.keeper = keeper

    def __repr__(self) -> str:
        return f"PartitionLog({self.topic}-{self.partition}, {self.log_start_offset}..{self.log_end_offset})"

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    @property
    def overdue(self) -> bool:
        """Whether more is unsynced than `flush.messages` allows."""
        return self.log_end_offset - self.recovery_point >= self.config.flush_messages

    @property
    def durable_end(self) -> int:
        """Up to here this replica has the records for good: to its end, or to what is synced if `flush.messages` asks
        for more than that.
        """
        return self.recovery_point if self.overdue else self.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """Below it no transaction is undecided (KIP-98)."""
        unstable = self.producers.first_unstable_offset
        if unstable is None or unstable >= self.high_watermark:
            return self.high_watermark
        return unstable if unstable > self.log_start_offset else self.log_start_offset

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
        """Append one v2 batch whose size, CRC and timestamps the caller has checked; base offset and leader epoch are
        written into it. `now` is what the wall clock shows: new segments are begun by it.

        `verified` False: the transaction coordinator was not asked whether this partition is part of the producer's
        transaction, so the batch is only taken if one is open here (KIP-890). `transaction_version` concerns markers
        only. Raises what the producer is to be told, an `ApiError`; nothing has happened then.
        """
        if header is None:
            header = read_header(batch)
        if origin is Origin.REPLICATION:
            base_offset, leader_epoch = self._check_replicated(header), header.partition_leader_epoch
        else:
            base_offset = self.log_end_offset
            if leader_epoch is None:
                leader_epoch = self.leader_epoch
            _PATCH(batch, 0, base_offset, header.length, leader_epoch)
        marker = None
        if header.producer_id >= 0:
            if header.is_control:
                marker = read_end_transaction_marker(batch)
                if marker is not None and origin is not Origin.REPLICATION:
                    self.producers.check_marker(marker, transaction_version)
            elif origin is not Origin.REPLICATION:
                duplicate = self._check_producer(header, base_offset, origin, verified)
                if duplicate is not None:
                    first = duplicate.first_offset
                    return AppendInfo(first, duplicate.last_offset, duplicate.timestamp, self.log_start_offset, True)
        return self._write(batch, header, base_offset, leader_epoch, marker, now)

    def _check_replicated(self, header: BatchHeader) -> int:
        if header.base_offset < self.log_end_offset:
            raise ApiError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"offset {header.base_offset} comes after {self.log_end_offset - 1} in {self}",
            )
        return header.base_offset

    def _check_producer(
        self, header: BatchHeader, base_offset: int, origin: Origin, verified: bool
    ) -> BatchMetadata | None:
        if origin is Origin.CLIENT:
            duplicate = self.producers.find_duplicate(header)
            if duplicate is not None:
                return duplicate
        if not verified and header.is_transactional and not self.has_open_transaction(header):
            raise ApiError(ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction")
        self.producers.check(header, base_offset, check_sequence=origin is Origin.CLIENT)
        return None

    def _write(
        self,
        batch: bytearray | memoryview,
        header: BatchHeader,
        base_offset: int,
        leader_epoch: int,
        marker: EndTransactionMarker | None,
        now: int,
    ) -> AppendInfo:
        last_offset = base_offset + header.last_offset_delta
        timestamp = header.max_timestamp
        try:
            segment = self.segments.active
            if must_roll(self, segment, len(batch), timestamp, last_offset, now):
                segment = self.roll(now, base_offset)
            if leader_epoch > self.epochs.latest:
                self.assign_epoch(leader_epoch, base_offset)
            if marker is None:
                segment.append(batch, last_offset, timestamp, self.config)
            else:
                self._append_marker(segment, batch, marker)
            segment.written_ms = now
        except OSError as error:
            raise self.storage_error(error) from error
        if marker is not None:
            self.producers.apply_marker(marker)
        elif header.producer_id >= 0:
            self.producers.apply(header, base_offset)
        self.log_end_offset = end = last_offset + 1
        if end - self.recovery_point >= self.config.flush_messages:
            self.keeper.must_sync(self)
        elif self.sole_replica:
            self.advance_high_watermark(end)
        return AppendInfo(base_offset, last_offset, timestamp, self.log_start_offset)

    def _append_marker(self, segment: LogSegment, batch: bytearray | memoryview, marker: EndTransactionMarker) -> None:
        """The aborted transaction is indexed first, since its marker must not be in the log without that."""
        aborted = self.producers.aborted_by(marker)
        try:
            if aborted is not None:
                segment.transactions.append(aborted)
            segment.append(batch, marker.offset, marker.timestamp, self.config)
        except OSError:
            with contextlib.suppress(OSError):
                segment.transactions.truncate_to(marker.offset)
            raise

    def roll(self, now: int, next_offset: int = 0) -> LogSegment:
        """Start a new segment at the log's end, or at `next_offset` if that lies beyond; an empty one is used as it
        is. `now` is what the wall clock shows. Raises OSError; nothing has happened then.
        """
        active = self.segments.active
        base_offset = max(self.log_end_offset, next_offset)
        if not active.size and active.base_offset == base_offset:
            return active
        active.seal()
        self._take_snapshot(base_offset)
        segment = LogSegment(self.files, self.directory, base_offset, size=0, created_ms=now, fresh=True)
        segment.log.create()  # from here on nothing may fail: an append that fits would go to the old segment after all
        if self.config.preallocate:
            with contextlib.suppress(OSError):
                segment.preallocate(self.config.segment_bytes)
        self.directory_dirty = True
        self.unsynced_segments.append(active)
        self.segments.add(segment)
        self.keeper.rolled(self)
        return segment

    def assign_epoch(self, leader_epoch: int, start_offset: int) -> None:
        before = list(self.epochs.entries)
        if self.epochs.assign(leader_epoch, start_offset):
            try:
                self.write_epochs()
            except OSError:
                self.epochs.entries = before
                raise

    def write_epochs(self) -> None:
        self.epochs.write(sync=False)
        self.directory_dirty = True

    def advance_high_watermark(self, offset: int) -> None:
        assert self.log_start_offset <= offset <= self.log_end_offset
        self.high_watermark = offset
        if self.producers.ended:
            self.producers.on_high_watermark(offset)

    def synced_to(self, offset: int, now: int) -> None:
        """What lies below outlives a power cut from now on, so it may be read. `now` is the steady time."""
        self.recovery_point = max(self.recovery_point, min(offset, self.log_end_offset))
        self.last_flush_ms = now
        if self.sole_replica and self.durable_end > self.high_watermark:
            self.advance_high_watermark(self.durable_end)
        self.keeper.synced(self)

    def storage_error(self, error: OSError) -> ApiError:
        """What a request is told when the disk failed it."""
        self.keeper.storage_failed(self, error)
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic}-{self.partition}: {error}")

    def read(self, offset: int, max_bytes: int, upper_offset: int, *, min_one: bool = True) -> LogRead | None:
        """Whole batches of one segment, from the one that holds `offset` on, all of whose offsets are below
        `upper_offset`; None if there are none to give.

        With `min_one` the first batch comes whole even if it is larger than `max_bytes` (KIP-74). Raises
        OFFSET_OUT_OF_RANGE, or KAFKA_STORAGE_ERROR where the disk fails or the log is damaged.
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
            return reading.read(self, offset, max_bytes, upper_offset, min_one)
        except OSError as error:
            raise self.storage_error(error) from error
        except DamagedLog as damage:
            raise self.unreadable(damage) from damage

    def bytes_between(self, offset: int, upper_offset: int) -> int:
        """Return the size of the batches from the one that holds `offset` on, below `upper_offset`;
        MORE_THAN_A_SEGMENT where they do not end in the segment in which they begin. Raises as `read`.
        """
        try:
            return reading.bytes_between(self, offset, upper_offset)
        except OSError as error:
            raise self.storage_error(error) from error
        except DamagedLog as damage:
            raise self.unreadable(damage) from damage

    def aborted_transactions(self, first_offset: int, upper_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions that have records in [first_offset, upper_offset) (KIP-98)."""
        try:
            return reading.aborted_transactions(self, first_offset, upper_offset)
        except OSError as error:
            raise self.storage_error(error) from error
        except DamagedLog as damage:
            raise self.unreadable(damage) from damage

    def unreadable(self, damage: DamagedLog) -> ApiError:
        """What a request is told that came upon damage; the rest of the log is served on. The log hears of it once."""
        if str(damage) not in self._told:
            self._told.add(str(damage))
            logger.error("%s; %s", damage, remedy(os.path.dirname(self.directory)))
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(damage))

    def has_open_transaction(self, header: BatchHeader) -> bool:
        """Whether this batch continues a transaction of its producer; if not, the coordinator must vouch for it."""
        return self.producers.has_open_transaction(header.producer_id, header.producer_epoch)

    def leader_epoch_end(self, epoch: int) -> tuple[int, int]:
        """The largest epoch at or below `epoch` and its end offset; (-1, -1) if that is unknown (KIP-101, KIP-279)."""
        if self.leader_epoch > self.epochs.latest:  # it begins with the leadership, not with a record
            if epoch == self.leader_epoch or (-1 != epoch < self.leader_epoch and not self.epochs.entries):
                return epoch, self.log_end_offset
            if self.epochs.latest < epoch < self.leader_epoch:
                return self.epochs.latest, self.log_end_offset
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of the batch that holds `offset`, -1 if there was none."""
        return self.epochs.epoch_at(offset)

    def offset_for_timestamp(self, timestamp: int) -> TimeSteps:
        """The first record at or after `timestamp`, in steps of about a millisecond."""
        try:
            return (yield from timestamps.offset_for_timestamp(self, timestamp))
        except DamagedLog as damage:
            raise self.unreadable(damage) from damage

    def offset_of_max_timestamp(self) -> TimeSteps:
        """The record with the greatest timestamp (KIP-734), in steps of about a millisecond."""
        try:
            return (yield from timestamps.offset_of_max_timestamp(self))
        except DamagedLog as damage:
            raise self.unreadable(damage) from damage

    def delete_records_before(self, offset: int) -> None:
        """Move the log's start (DeleteRecords, KIP-107); files go when `retain` comes by. Raises OFFSET_OUT_OF_RANGE,
        or KAFKA_STORAGE_ERROR if the start of the leader epochs can't be written."""
        if offset > self.high_watermark:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is above the high watermark {self.high_watermark}")
        try:
            trimming.raise_log_start(self, offset)
        except OSError as error:
            raise self.storage_error(error) from error

    def retain(self, now: int) -> None:
        """Delete the segments that retention by time, size or log start offset lets go. `now` is what the wall clock
        shows. Raises OSError, with which the caller goes to `storage_error`; what is gone by then is gone."""
        trimming.retain(self, now)

    def truncate_to(self, offset: int) -> None:
        """Forget what lies at or above `offset`. Raises OSError, with which the caller goes to `storage_error`; the log
        must not be used again then, only loaded anew."""
        trimming.truncate_to(self, offset)

    def seal(self) -> None:
        """Complete the files that say what is in the log."""
        self._take_snapshot(self.log_end_offset)
        self.segments.active.seal()
        self.directory_dirty = True

    def _take_snapshot(self, offset: int) -> None:
        take_snapshot(self.files.fs, self.directory, self.producers, offset)

    def close(self) -> None:
        """Leave the files as a clean shutdown leaves them, synced or not."""
        self.seal()
        for segment in self.segments:
            segment.close()
