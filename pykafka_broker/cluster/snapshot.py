"""Snapshots of the metadata: files of record batches between a header and a footer (KIP-630).

Rule: a snapshot is written aside and renamed when it is whole, so a snapshot with its final name is complete.
`bootstrap.checkpoint` is a snapshot too, which `kafka-storage format` leaves for the first start. With kraft.version 1
the voters of the quorum stand behind the header (KIP-853).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import NamedTuple

from pykafka_broker.cluster.records import (
    ApiMessageAndVersion,
    MetadataError,
    decode_versioned,
    encode_record,
)
from pykafka_broker.log.filesystem import Buffer, FileSystem, read_file, write_file
from pykafka_broker.protocol.stored.kraft_version_record import KRaftVersionRecord
from pykafka_broker.protocol.stored.snapshot_footer_record import SnapshotFooterRecord
from pykafka_broker.protocol.stored.snapshot_header_record import SnapshotHeaderRecord
from pykafka_broker.records.builder import BatchBuilder
from pykafka_broker.records.errors import CorruptBatch
from pykafka_broker.records.header import HEADER_SIZE, BatchHeader, check_crc, iter_batches, read_header
from pykafka_broker.records.record import BatchRecord, iter_records

BOOTSTRAP_FILE = "bootstrap.checkpoint"
CONTROL_KEY = struct.Struct(">hh")
_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_LEFTOVERS = (".checkpoint.part", ".checkpoint.deleted", ".checkpoint.tmp")
_RECORDS_PER_BATCH = 250


class ControlType(IntEnum):
    """Types of control records in the metadata log and in snapshots."""

    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


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
        """Return the time of the last batch covered by the snapshot, by the header record; retention goes by the
        time.
        """
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
    write_file(fs, path, encode_snapshot(records, now=now))


def encode_snapshot(records: Iterable[ApiMessageAndVersion], *, now: int) -> bytes:
    return b"".join(snapshot_pieces(records, now=now))


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
