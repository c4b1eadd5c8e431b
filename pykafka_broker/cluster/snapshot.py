"""Snapshots of the metadata: files of record batches between a header and a footer (KIP-630).

Rule: a snapshot is written aside and renamed when it is whole, so one that has its name is complete.
`bootstrap.checkpoint` is a snapshot too: what `kafka-storage format` leaves for the first start.
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
from pykafka_broker.log.filesystem import FileSystem, read_file, write_file
from pykafka_broker.protocol.stored.snapshot_footer_record import SnapshotFooterRecord
from pykafka_broker.protocol.stored.snapshot_header_record import SnapshotHeaderRecord
from pykafka_broker.records.builder import BatchBuilder
from pykafka_broker.records.errors import CorruptBatch
from pykafka_broker.records.header import BatchHeader, check_crc, iter_batches
from pykafka_broker.records.record import iter_records

BOOTSTRAP_FILE = "bootstrap.checkpoint"
_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_CONTROL_KEY = struct.Struct(">hh")
_RECORDS_PER_BATCH = 5_000


class ControlType(IntEnum):
    """Types of control records in the metadata log and its snapshots."""

    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class Snapshot(NamedTuple):
    """A snapshot file: it holds what the log says below `end_offset`."""

    fs: FileSystem
    path: str
    end_offset: int
    epoch: int

    def batches(self) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Every batch, checked."""
        try:
            for header, batch in iter_batches(read_file(self.fs, self.path)):
                check_crc(batch, header)
                yield header, batch
        except CorruptBatch as error:
            raise MetadataError(f"{self.path} is damaged: {error}") from None


def snapshot_records(fs: FileSystem, path: str) -> Iterator[ApiMessageAndVersion]:
    """The metadata records in one file, with the versions in which they stand there."""
    for header, batch in Snapshot(fs, path, 0, 0).batches():
        if not header.is_control:
            for record in iter_records(batch, header):
                yield decode_versioned(record.value or b"")


def latest_snapshot(fs: FileSystem, directory: str) -> Snapshot | None:
    """The newest snapshot in the metadata log's folder."""
    found = [match for name in fs.list_directory(directory) if (match := _NAME.fullmatch(name))]
    newest = max(found, key=lambda match: match[0], default=None)
    if newest is None:
        return None
    return Snapshot(fs, f"{directory}/{newest[0]}", int(newest[1]), int(newest[2]))


def remove_older_snapshots(fs: FileSystem, directory: str, end_offset: int) -> None:
    for name in fs.list_directory(directory):
        match = _NAME.fullmatch(name)
        if match is not None and int(match[1]) < end_offset:
            fs.remove(f"{directory}/{name}")


def snapshot_name(end_offset: int, epoch: int) -> str:
    return f"{end_offset:020d}-{epoch:010d}.checkpoint"


def write_snapshot(
    fs: FileSystem,
    path: str,
    records: Iterable[ApiMessageAndVersion],
    *,
    now: int,
    epoch: int = 0,
    last_contained_log_timestamp: int = 0,
) -> None:
    header = SnapshotHeaderRecord(0, last_contained_log_timestamp)
    pieces = [_control_batch(0, epoch, ControlType.SNAPSHOT_HEADER, header.encode(0), now)]
    offset = 1
    builder = BatchBuilder(base_offset=offset, partition_leader_epoch=epoch)
    for record in records:
        builder.append(None, encode_record(record), now)
        offset += 1
        if builder.count == _RECORDS_PER_BATCH:
            pieces.append(builder.build())
            builder = BatchBuilder(base_offset=offset, partition_leader_epoch=epoch)
    if builder.count:
        pieces.append(builder.build())
    footer = SnapshotFooterRecord(0)
    pieces.append(_control_batch(offset, epoch, ControlType.SNAPSHOT_FOOTER, footer.encode(0), now))
    write_file(fs, path, b"".join(pieces))


def _control_batch(offset: int, epoch: int, kind: ControlType, value: bytes, now: int) -> bytearray:
    builder = BatchBuilder(base_offset=offset, partition_leader_epoch=epoch, control=True)
    builder.append(_CONTROL_KEY.pack(0, kind), value, now)
    return builder.build()
