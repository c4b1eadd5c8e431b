"""Producer snapshots (`<offset>.snapshot`): the state of all producers as of that offset, so that start-up need not
read the log.

Rule: a snapshot whose CRC or length is wrong is thrown away, never believed; an older one and the batches after it
give the same state. Format: int16 version 1, uint32 CRC-32C of the rest, int32 count, then 42 bytes for each
producer.
"""

from __future__ import annotations

import contextlib
import re
import struct

from pykafka_broker.log.filesystem import FileSystem, read_file, write_file
from pykafka_broker.log.producer_state import BatchMetadata, ProducerEntry, ProducerState
from pykafka_broker.records.crc import crc32c
from pykafka_broker.records.header import NO_SEQUENCE

SUFFIX = ".snapshot"
_HEADER = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_END = 6
_VERSION = 1
_NAME = re.compile(r"[0-9]{20}\.snapshot")


class CorruptSnapshot(ValueError):
    """This file does not hold the state it should."""


def snapshot_name(offset: int) -> str:
    return f"{offset:020d}{SUFFIX}"


def encode(state: ProducerState) -> bytes:
    body = bytearray()
    for _, entry in sorted(state.entries.items()):
        last = entry.batches[-1] if entry.batches else BatchMetadata(NO_SEQUENCE, -1, 0, entry.last_timestamp)
        body += _ENTRY.pack(
            entry.producer_id,
            entry.epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.txn_first_offset,
        )
    count = struct.pack(">i", len(state.entries))
    return _HEADER.pack(_VERSION, crc32c(count + body), len(state.entries)) + bytes(body)


def decode(data: bytes) -> list[ProducerEntry]:
    if len(data) < _HEADER.size:
        raise CorruptSnapshot(f"{len(data)} bytes are no snapshot")
    version, crc, count = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise CorruptSnapshot(f"unknown version {version}")
    if crc32c(data[_CRC_END:]) != crc:
        raise CorruptSnapshot("the CRC does not match")
    if count * _ENTRY.size != len(data) - _HEADER.size:
        raise CorruptSnapshot(f"{count} producers in {len(data)} bytes")
    return [_entry(*row) for row in _ENTRY.iter_unpack(data[_HEADER.size :])]


def _entry(
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    txn_first_offset: int,
) -> ProducerEntry:
    entry = ProducerEntry(producer_id, epoch)
    if last_offset >= 0:
        entry.batches.append(BatchMetadata(last_sequence, last_offset, offset_delta, timestamp))
    entry.last_timestamp = timestamp
    entry.coordinator_epoch = coordinator_epoch
    entry.txn_first_offset = txn_first_offset
    return entry


def write_snapshot(fs: FileSystem, path: str, state: ProducerState, *, sync: bool = True) -> None:
    write_file(fs, path, encode(state), sync=sync)


def take_snapshot(fs: FileSystem, directory: str, producers: ProducerState, offset: int) -> None:
    """Write the state as of `offset`, which is where the log in that folder ends."""
    if offset > producers.snapshot_offset:
        write_snapshot(fs, f"{directory}/{snapshot_name(offset)}", producers, sync=False)
        producers.snapshot_offset = offset


def snapshot_offsets(names: list[str]) -> list[int]:
    """Return the offsets of the snapshots among these file names, in order."""
    return sorted(int(name[:20]) for name in names if _NAME.fullmatch(name))


def forget_snapshots(fs: FileSystem, directory: str) -> None:
    """Remove every snapshot in a folder: nothing is known of the producers any more."""
    for offset in snapshot_offsets(fs.list_directory(directory)):
        forget_snapshot(fs, directory, offset)


def forget_snapshot(fs: FileSystem, directory: str, offset: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        fs.remove(f"{directory}/{snapshot_name(offset)}")


def read_snapshot(fs: FileSystem, path: str) -> list[ProducerEntry]:
    return decode(read_file(fs, path))
