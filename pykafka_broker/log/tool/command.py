"""`pykafka-broker log dump|verify|repair DIR`, and the dump: the content of the files, one row for each batch, record,
index entry and checkpoint line.

Rule: the exit code is 0 if all is well or mended, 1 if something is damaged, 2 if the arguments make no sense. A check
and a repair are imported when they run.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from os.path import basename
from typing import NoReturn

from pykafka_broker.log.checkpoints import (
    EPOCHS_FILE,
    META_PROPERTIES,
    OFFSET_FILES,
    PARTITION_METADATA,
    read_lines,
    read_partition_metadata,
    read_properties,
)
from pykafka_broker.log.filesystem import CachedFile, FileCache, FileSystem, OsFileSystem
from pykafka_broker.log.index import OffsetIndex, TimeIndex, TransactionIndex
from pykafka_broker.log.log_directory import LogDirectoryError
from pykafka_broker.log.producer_state import CorruptSnapshot, read_snapshot
from pykafka_broker.log.scan import DamagedLog, ScannedBatch
from pykafka_broker.log.tool.decoding import control_type, decode, text
from pykafka_broker.log.tool.directory import (
    QUORUM_STATE,
    Folder,
    Row,
    base_of,
    folders_aside,
    is_partition,
    partition_folders,
    quorum_state,
    scan_file,
    snapshots,
    used_entries,
)
from pykafka_broker.protocol.runtime import uuid_text
from pykafka_broker.records.compression import CODEC_NAMES
from pykafka_broker.records.control import read_end_transaction_marker
from pykafka_broker.records.errors import CorruptBatch
from pykafka_broker.records.record import BatchRecord, header_name, iter_records

_BAD = frozenset({"error", "damage"})


def run(
    arguments: Sequence[str],
    write: Callable[[str], object],
    now: int,
    *,
    complain: Callable[[str], object] | None = None,
    fs: FileSystem | None = None,
) -> int:
    """Print the result of a command, a line at a time, and return the exit code.

    Args:
        complain: is called with the reason of a refusal; None for `write`.
    """
    complain = complain or write
    options = parser().parse_args(arguments)
    options.dir = os.path.abspath(options.dir)
    if not os.path.isdir(options.dir):
        complain(f"{options.dir} is not a directory")
        return 2
    show = _json if options.json else _text
    status = 0
    try:
        for row in _rows(options, fs or OsFileSystem(), now):
            write(show(row))
            if row["type"] in _BAD:
                status = 1
    except BrokenPipeError:
        raise
    except (LogDirectoryError, OSError) as error:
        complain(str(error))
        return 2
    return status


class _Parser(argparse.ArgumentParser):
    """A parser that tells a mistake in a single line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="pykafka-broker log", description="Look into a data directory, offline.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, what in (
        ("dump", "print every batch, index entry and checkpoint"),
        ("verify", "check that everything is as it should be"),
        ("repair", "cut damaged logs, keep what was cut off, make indexes anew"),
    ):
        command = commands.add_parser(name, help=what)
        command.add_argument("dir", help="a directory of log.dirs, or the folder of one partition")
        command.add_argument("--json", action="store_true", help="one JSON object a line")
        if name == "dump":
            command.add_argument("--records", action="store_true", help="with the records of each batch")
    return parser


def _rows(options: argparse.Namespace, fs: FileSystem, now: int) -> Iterable[Row]:
    if options.command == "dump":
        return dump(fs, options.dir, records=options.records)
    if options.command == "verify":
        from pykafka_broker.log.tool.verify import verify

        return verify(fs, options.dir)
    from pykafka_broker.log.tool.repair import repair

    return repair(fs, options.dir, now)


def _json(row: Row) -> str:
    return json.dumps(row, ensure_ascii=False)


def _text(row: Row) -> str:
    fields = " ".join(f"{key}={_value(value)}" for key, value in row.items() if key not in ("type", "file"))
    return f"{row['file']}: {row['type']} {fields}".rstrip()


def _value(value: object) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | dict | list) else str(value)


# -- dump


def dump(fs: FileSystem, path: str, *, records: bool = False) -> Iterator[Row]:
    """Yield rows for all partitions of a directory, or for a single partition's folder."""
    folders = list(partition_folders(fs, path))
    if not is_partition(fs, path):
        yield from _directory(fs, path)
    for folder in folders:
        yield from dump_partition(folder, records=records)


def _directory(fs: FileSystem, path: str) -> Iterator[Row]:
    names = fs.list_directory(path)
    if META_PROPERTIES in names:
        try:
            properties = read_properties(fs, f"{path}/{META_PROPERTIES}")
            yield {"type": "directory", "file": META_PROPERTIES, **properties}
        except ValueError as error:
            yield _damage(META_PROPERTIES, error)
    for name, state in folders_aside(fs, path):
        yield {"type": "folder", "file": name, "state": state}
    for name in OFFSET_FILES:
        if name not in names:
            continue
        try:
            for topic, partition, offset in read_lines(fs, f"{path}/{name}"):
                yield {
                    "type": "checkpoint",
                    "file": name,
                    "topic": topic,
                    "partition": int(partition),
                    "offset": int(offset),
                }
        except ValueError as error:
            yield _damage(name, error)


def dump_partition(folder: Folder, *, records: bool = False) -> Iterator[Row]:
    fs = folder.fs
    topic_id = read_partition_metadata(fs, f"{folder.path}/{PARTITION_METADATA}")
    yield {"type": "partition", "file": folder.name, "topic_id": uuid_text(topic_id) if topic_id else None}
    if fs.exists(f"{folder.path}/{EPOCHS_FILE}"):
        try:
            for epoch, offset in read_lines(fs, f"{folder.path}/{EPOCHS_FILE}"):
                yield _row("leader epoch", folder, EPOCHS_FILE, epoch=int(epoch), start_offset=int(offset))
        except ValueError as error:
            yield _damage(f"{folder.name}/{EPOCHS_FILE}", error)
    if folder.is_metadata:
        yield from _metadata_files(folder, records)
    for path in folder.files(".log"):
        yield from _segment(folder, path, records)
    yield from _indexes(folder)
    for path in folder.files(".snapshot"):
        yield from _snapshot(folder, path)


def _metadata_files(folder: Folder, records: bool) -> Iterator[Row]:
    try:
        state = quorum_state(folder.fs, folder.path)
        yield _row("quorum state", folder, QUORUM_STATE, **state)
    except FileNotFoundError:
        pass  # the leader epochs are in the log too
    except ValueError as error:
        yield _damage(f"{folder.name}/{QUORUM_STATE}", error)
    for snapshot in snapshots(folder.fs, folder.path):
        name = basename(snapshot.path)
        yield _row("metadata snapshot", folder, name, end_offset=snapshot.end_offset, epoch=snapshot.epoch)
        yield from _segment(folder, snapshot.path, records)


def _segment(folder: Folder, path: str, records: bool) -> Iterator[Row]:
    name = basename(path)
    try:
        for batch in scan_file(folder.fs, path):
            yield _batch(folder, name, batch)
            if records:
                yield from _records(folder, name, batch)
    except (CorruptBatch, DamagedLog) as error:
        yield _damage(f"{folder.name}/{name}", error)


def _batch(folder: Folder, name: str, batch: ScannedBatch) -> Row:
    header = batch.header
    row = _row(
        "batch",
        folder,
        name,
        position=batch.position,
        size=header.size,
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        count=header.count,
        leader_epoch=header.partition_leader_epoch,
        codec=CODEC_NAMES[header.codec] if header.codec < len(CODEC_NAMES) else header.codec,
        timestamp_type="LogAppendTime" if header.log_append_time else "CreateTime",
        max_timestamp=header.max_timestamp,
    )
    if header.has_producer_id:
        row |= {
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "base_sequence": header.base_sequence,
        }
    flags = {"transactional": header.is_transactional, "control": header.is_control}
    row |= {key: value for key, value in flags.items() if value}
    if header.delete_horizon_ms is not None:
        row["delete_horizon_ms"] = header.delete_horizon_ms
    return row


def _records(folder: Folder, name: str, batch: ScannedBatch) -> Iterator[Row]:
    if batch.header.is_control:
        marker = read_end_transaction_marker(batch.data, batch.header)
        if marker is not None:
            kind = "COMMIT" if marker.commit else "ABORT"
            yield _row(
                "marker", folder, name, offset=marker.offset, marker=kind, coordinator_epoch=marker.coordinator_epoch
            )
            return
        for record in iter_records(batch.data, batch.header):
            kind = control_type(record.key)
            yield _row("control", folder, name, offset=record.offset, control=kind, value=text(record.value))
        return
    for record in iter_records(batch.data, batch.header):
        decoded = decode(folder.topic, record.key, record.value)
        yield _row(
            "record",
            folder,
            name,
            offset=record.offset,
            timestamp=record.timestamp,
            **({"key": text(record.key), "value": text(record.value)} if decoded is None else decoded),
            headers=_headers(record),
        )


def _headers(record: BatchRecord) -> dict[str, object]:
    """Return the headers by name; the value of a name that comes again is a list."""
    values: dict[str, list[str | None]] = {}
    for key, value in record.headers:
        values.setdefault(header_name(key), []).append(text(value))
    return {key: each if len(each) > 1 else each[0] for key, each in values.items()}


def _indexes(folder: Folder) -> Iterator[Row]:
    cache = FileCache(folder.fs, writable=False)
    for path in folder.files(".index"):
        for first, second in used_entries(OffsetIndex(CachedFile(cache, path), base_of(path), fresh=False)):
            yield _row("offset index", folder, basename(path), offset=base_of(path) + first, position=second)
    for path in folder.files(".timeindex"):
        for first, second in used_entries(TimeIndex(CachedFile(cache, path), base_of(path), fresh=False)):
            yield _row("time index", folder, basename(path), timestamp=first, offset=base_of(path) + second)
    for path in folder.files(".txnindex"):
        try:
            for entry in TransactionIndex(CachedFile(cache, path), fresh=False).entries:
                yield _row("aborted transaction", folder, basename(path), **entry._asdict())
        except ValueError as error:
            yield _damage(f"{folder.name}/{basename(path)}", error)


def _snapshot(folder: Folder, path: str) -> Iterator[Row]:
    try:
        entries = read_snapshot(folder.fs, path)
    except CorruptSnapshot as error:
        yield _damage(f"{folder.name}/{basename(path)}", error)
        return
    for entry in entries:
        yield _row(
            "producer",
            folder,
            basename(path),
            producer_id=entry.producer_id,
            epoch=entry.epoch,
            last_sequence=entry.last_sequence,
            last_timestamp=entry.last_timestamp,
            coordinator_epoch=entry.coordinator_epoch,
            transaction_first_offset=entry.txn_first_offset,
        )


def _row(kind: str, folder: Folder, name: str, **fields: object) -> Row:
    return {"type": kind, "file": f"{folder.name}/{name}", **fields}


def _damage(file: str, error: Exception) -> Row:
    return {"type": "damage", "file": file, "problem": str(error)}
