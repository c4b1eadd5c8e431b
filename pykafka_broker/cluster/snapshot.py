"""Snapshots of the metadata: files of record batches between a header and a footer, and their keeper (KIP-630).

Rule: a snapshot is written aside and renamed when it is whole, so a snapshot with its final name is complete.
`bootstrap.checkpoint` is a snapshot too, which `kafka-storage format` leaves for the first start. With kraft.version 1
the voters of the quorum stand behind the header (KIP-853).

The keeper writes snapshots and removes old ones. The log is synced before a snapshot of it is written, a snapshot is
whole and synced before the log's start moves up to it, and older records and snapshots are removed last. So wherever a
crash comes, a snapshot and the log after it are there. The newest snapshot always stays. A large snapshot is encoded in
steps, between which the loop runs and the image may change: the snapshot has the image of the first step.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from pykafka_broker.clock import Clock
from pykafka_broker.cluster.records import (
    ApiMessageAndVersion,
    MetadataError,
    decode_versioned,
    encode_record,
)
from pykafka_broker.config.broker import BrokerConfig
from pykafka_broker.log.deletion import Removal, removal_job
from pykafka_broker.log.filesystem import Buffer, FileSystem, read_file, write_file
from pykafka_broker.log.flush import Waiter
from pykafka_broker.log.jobs import Errand, Submit
from pykafka_broker.protocol.stored.kraft_version_record import KRaftVersionRecord
from pykafka_broker.protocol.stored.snapshot_footer_record import SnapshotFooterRecord
from pykafka_broker.protocol.stored.snapshot_header_record import SnapshotHeaderRecord
from pykafka_broker.records.builder import BatchBuilder
from pykafka_broker.records.control import CONTROL_KEY, ControlType
from pykafka_broker.records.errors import CorruptBatch
from pykafka_broker.records.header import HEADER_SIZE, BatchHeader, check_crc, iter_batches, read_header
from pykafka_broker.records.record import BatchRecord, iter_records

if TYPE_CHECKING:
    from pykafka_broker.cluster.metadata_log import MetadataLog

BOOTSTRAP_FILE = "bootstrap.checkpoint"
_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_LEFTOVERS = (".checkpoint.part", ".checkpoint.deleted", ".checkpoint.tmp")
_RECORDS_PER_BATCH = 250


class Voters(NamedTuple):
    """The quorum by the control records: the encoded VotersRecord, none with kraft.version 0."""

    kraft_version: int = 0
    record: bytes | None = None

    def control_records(self) -> list[tuple[ControlType, bytes]]:
        if not self.kraft_version:
            return []
        records = [(ControlType.KRAFT_VERSION, KRaftVersionRecord(0, self.kraft_version).encode(0))]
        if self.record is not None:
            records.append((ControlType.KRAFT_VOTERS, self.record))
        return records


NO_VOTERS = Voters()


class MetadataSnapshot:
    """A snapshot file with the state of the log below `end_offset`."""

    def __init__(self, fs: FileSystem, path: str, end_offset: int, epoch: int, timestamp: int | None = None) -> None:
        self.fs = fs
        self.path = path
        self.end_offset = end_offset
        self.epoch = epoch
        self._timestamp = timestamp

    def batches(self) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Yield every batch, checked."""
        try:
            for header, batch in iter_batches(read_file(self.fs, self.path)):
                check_crc(batch, header)
                yield header, batch
        except CorruptBatch as error:
            raise MetadataError(f"{self.path} is damaged: {error}") from None

    def whole(self) -> list[tuple[BatchHeader, memoryview]]:
        """Return every batch, once none is known to be missing."""
        batches = list(self.batches())
        kinds = [control_type(record) for header, batch in batches[-1:] for record in iter_records(batch, header)]
        if kinds != [ControlType.SNAPSHOT_FOOTER]:
            raise MetadataError(f"{self.path} is damaged: it has no footer")
        return batches

    @property
    def size(self) -> int:
        return self.fs.stat(self.path).size

    @property
    def timestamp(self) -> int:
        """Return the time of the last batch in the snapshot, from the header record; retention goes by this time."""
        if self._timestamp is None:
            self._timestamp = self._read_timestamp()
        return self._timestamp

    def _read_timestamp(self) -> int:
        handle = self.fs.open(self.path, writable=False)
        try:
            header = read_header(handle.read_at(HEADER_SIZE, 0))
            batch = memoryview(handle.read_at(header.size, 0))
            check_crc(batch, header)
            record = next(iter_records(batch, header))
        except CorruptBatch as error:
            raise MetadataError(f"{self.path} is damaged: {error}") from None
        if control_type(record) != ControlType.SNAPSHOT_HEADER:
            raise MetadataError(f"{self.path} is damaged: it has no header")
        return SnapshotHeaderRecord.decode(record.value or b"", 0).last_contained_log_timestamp


def control_type(record: BatchRecord) -> int:
    """Return the type of a control record of the metadata log."""
    if record.key is None or len(record.key) < CONTROL_KEY.size or record.value is None:
        raise MetadataError("a control record without a type")
    kind: int = CONTROL_KEY.unpack_from(record.key)[1]
    return kind


def snapshot_records(fs: FileSystem, path: str) -> Iterator[ApiMessageAndVersion]:
    """Yield the metadata records of a file, with versions."""
    for header, batch in MetadataSnapshot(fs, path, 0, 0).batches():
        if not header.is_control:
            for record in iter_records(batch, header):
                yield decode_versioned(record.value or b"")


def list_snapshots(fs: FileSystem, directory: str) -> list[MetadataSnapshot]:
    """Return the snapshots in the metadata log's folder, oldest first, and remove files of an interrupted writer."""
    found = []
    for name in sorted(fs.list_directory(directory)):
        match = _NAME.fullmatch(name)
        if match is not None:
            found.append(MetadataSnapshot(fs, f"{directory}/{name}", int(match[1]), int(match[2])))
        elif name.endswith(_LEFTOVERS):
            fs.remove(f"{directory}/{name}")
    return found


def snapshot_name(end_offset: int, epoch: int) -> str:
    return f"{end_offset:020d}-{epoch:010d}.checkpoint"


def write_snapshot(fs: FileSystem, path: str, records: Iterable[ApiMessageAndVersion], *, now: int) -> None:
    write_file(fs, path, b"".join(snapshot_pieces(records, now=now)))


def snapshot_pieces(
    records: Iterable[ApiMessageAndVersion],
    *,
    now: int,
    epoch: int = 0,
    last_contained_log_timestamp: int = 0,
    voters: Voters = NO_VOTERS,
) -> Iterator[Buffer]:
    """Yield the file, piece by piece.

    An empty piece after each full batch is the place for a pause: what comes until then takes a few milliseconds.
    """
    header = SnapshotHeaderRecord(0, last_contained_log_timestamp).encode(0)
    first = [(ControlType.SNAPSHOT_HEADER, header), *voters.control_records()]
    yield control_batch(first, now, offset=0, epoch=epoch)
    offset = len(first)
    builder = BatchBuilder(base_offset=offset, partition_leader_epoch=epoch)
    for record in records:
        builder.append(None, encode_record(record), now)
        offset += 1
        if builder.count == _RECORDS_PER_BATCH:
            yield builder.build()
            yield b""
            builder = BatchBuilder(base_offset=offset, partition_leader_epoch=epoch)
    if builder.count:
        yield builder.build()
    footer = SnapshotFooterRecord(0).encode(0)
    yield control_batch([(ControlType.SNAPSHOT_FOOTER, footer)], now, offset=offset, epoch=epoch)


def control_batch(
    records: Iterable[tuple[ControlType, bytes]], now: int, *, offset: int = 0, epoch: int = -1
) -> bytearray:
    builder = BatchBuilder(base_offset=offset, partition_leader_epoch=epoch, control=True)
    for kind, value in records:
        builder.append(CONTROL_KEY.pack(0, kind), value, now)
    return builder.build()


# -- the keeper


logger = logging.getLogger(__name__)

_TRIM_INTERVAL_MS = 60_000  # as Kafka has it, not configurable there either
_UNLIMITED = -1


class _Encoding(NamedTuple):
    snapshot: MetadataSnapshot
    coming: Iterator[Buffer]
    pieces: list[Buffer]


class SnapshotKeeper:
    """Writes and trims the snapshots of a metadata log.

    `records` are those of the image as it is; `flush` syncs the log and calls its waiter. Intervals go by `clock.now`,
    the age of a snapshot by `clock.wall`.
    """

    def __init__(
        self,
        log: MetadataLog,
        fs: FileSystem,
        config: BrokerConfig,
        *,
        submit: Submit,
        flush: Callable[[int, Waiter], None],
        records: Callable[[], Iterable[ApiMessageAndVersion]],
        clock: Clock,
    ) -> None:
        self._log = log
        self._fs = fs
        self._submit = submit
        self._flush = flush
        self._records = records
        self._max_bytes = config.metadata_log_max_record_bytes_between_snapshots
        self._interval_ms = config.metadata_log_max_snapshot_interval_ms  # 0: only the bytes count
        self._retention_bytes = config.metadata_max_retention_bytes
        self._retention_ms = config.metadata_max_retention_ms
        self._clock = clock
        self._last_ms = now = clock.now
        self._trim_due_ms = now + _TRIM_INTERVAL_MS
        self._writing = False
        self._encoding: _Encoding | None = None

    # -- time

    def next_deadline(self) -> int | None:
        if self._encoding is not None:
            return 0
        due = self._trim_due_ms if len(self._log.snapshots) > 1 else None
        if self._interval_ms and self._log.bytes_since_snapshot and not self._writing:
            snapshot_due = self._last_ms + self._interval_ms
            due = snapshot_due if due is None else min(due, snapshot_due)
        return due

    def on_deadline(self, now: int) -> None:
        if self._encoding is not None:
            self._encode_on(self._encoding, now)
        self.on_commit(now)
        if now >= self._trim_due_ms:
            self.trim(now)

    def on_commit(self, now: int) -> None:
        """Begin a snapshot if the log has grown enough."""
        grown = self._log.bytes_since_snapshot
        too_late = bool(self._interval_ms) and grown > 0 and now - self._last_ms >= self._interval_ms
        if grown >= self._max_bytes or too_late:
            self.begin(now)

    # -- writing

    def begin(self, now: int) -> None:
        """Begin a snapshot of the log so far: the next start reads on from the log's present end."""
        if self._writing:
            return
        log = self._log
        end_offset, epoch = log.applied_end, log.applied_epoch
        pieces = snapshot_pieces(
            self._records(),
            now=self._clock.wall,
            epoch=epoch,
            last_contained_log_timestamp=log.last_timestamp,
            voters=log.voters,
        )
        path = f"{log.log.directory}/{snapshot_name(end_offset, epoch)}"
        snapshot = MetadataSnapshot(self._fs, path, end_offset, epoch, log.last_timestamp)
        self._writing = True
        self._last_ms = now
        log.bytes_since_snapshot = 0
        self._encoding = _Encoding(snapshot, pieces, [])
        self._encode_on(self._encoding, now)

    def _encode_on(self, encoding: _Encoding, now: int) -> None:
        """Encode a step; write the snapshot after the last step."""
        for piece in encoding.coming:
            if not piece:
                return
            encoding.pieces.append(piece)
        self._encoding = None
        snapshot, pieces = encoding.snapshot, encoding.pieces

        def write() -> None:
            write_file(self._fs, snapshot.path, b"".join(pieces))

        def synced(error: OSError | None) -> None:
            if error is None:
                self._submit(Errand(write, self.refused, partial(self.written, snapshot, now)))
            else:
                self.refused(error)

        self._flush(now, synced)

    def written(self, snapshot: MetadataSnapshot, now: int) -> None:
        self._writing = False
        newest = self._log.snapshots[-1:]
        if newest and newest[0].end_offset >= snapshot.end_offset:
            # The leader's snapshot has come meanwhile, and the log begins behind this one.
            if newest[0].path != snapshot.path:
                with contextlib.suppress(OSError):  # the next start tries again
                    self._fs.remove(snapshot.path)
            return
        self._log.snapshots.append(snapshot)
        self.trim(now)

    def refused(self, error: OSError) -> None:
        """Take note of a failed write; the next snapshot is tried after as much growth again."""
        self._writing = False
        logger.warning("Could not write a snapshot of the metadata: %s", error)

    # -- trimming

    def trim(self, now: int) -> None:
        """Drop the oldest snapshots beyond retention, and the log up to the oldest remaining snapshot."""
        self._trim_due_ms = now + _TRIM_INTERVAL_MS
        snapshots = self._log.snapshots
        dropped = []
        try:
            while len(snapshots) > 1 and (self._too_much() or self._too_old(snapshots[0])):
                self._drop_below(snapshots[1].end_offset)
                dropped.append(snapshots.pop(0))
        except OSError as error:
            logger.warning("Could not trim the metadata log: %s", error)
        if dropped:
            start = self._log.log.log_start_offset
            logger.info("The metadata log begins at offset %d now, %d snapshots are gone", start, len(dropped))
            removals: list[Removal] = [partial(self._fs.remove, snapshot.path) for snapshot in dropped]
            warn = partial(
                logger.warning, "Could not remove an old snapshot of the metadata, the next start tries again: %s"
            )
            self._submit(removal_job(removals, warn))

    def _too_much(self) -> bool:
        if self._retention_bytes == _UNLIMITED:
            return False
        kept = sum(snapshot.size for snapshot in self._log.snapshots)
        return self._log.log.segments.size_bytes + kept > self._retention_bytes

    def _too_old(self, snapshot: MetadataSnapshot) -> bool:
        if self._retention_ms == _UNLIMITED:
            return False
        try:
            return self._clock.wall - snapshot.timestamp > self._retention_ms
        except MetadataError:
            return True  # damaged, and a newer snapshot exists

    def _drop_below(self, offset: int) -> None:
        from pykafka_broker.log.retention import retain  # no start waits for the import

        log, wall = self._log.log, self._clock.wall
        log.raise_log_start(offset)
        if log.log_start_offset > log.segments.active.base_offset:
            log.roll(wall)  # otherwise the segment keeps outdated records until it is full
        retain(log, wall)
