"""The content of the files, one row for each batch, record, index entry and checkpoint line.

Only the command reads this module, when it is asked for a dump.
"""

from __future__ import annotations

from collections.abc import Iterator

from pykafka_broker.log.checkpoints import (
    EPOCHS_FILE,
    META_PROPERTIES,
    OFFSET_FILES,
    id_text,
    read_lines,
    read_partition_metadata,
    read_properties,
)
from pykafka_broker.log.filesystem import CachedFile, FileCache, FileSystem
from pykafka_broker.log.index import OffsetIndex, TimeIndex, TransactionIndex
from pykafka_broker.log.producer_state import CorruptSnapshot, read_snapshot
from pykafka_broker.log.scan import DamagedLog, ScannedBatch, scan
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
    snapshots,
)
from pykafka_broker.records.control import read_end_transaction_marker
from pykafka_broker.records.errors import CorruptBatch
from pykafka_broker.records.record import iter_records

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


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
    topic_id = read_partition_metadata(fs, f"{folder.path}/partition.metadata")
    yield {"type": "partition", "file": folder.name, "topic_id": id_text(topic_id) if topic_id else None}
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
        name = _name(snapshot.path)
        yield _row("metadata snapshot", folder, name, end_offset=snapshot.end_offset, epoch=snapshot.epoch)
        yield from _segment(folder, snapshot.path, records)


def _segment(folder: Folder, path: str, records: bool) -> Iterator[Row]:
    name = _name(path)
    handle = folder.fs.open(path, writable=False)
    try:
        for batch in scan(handle, path, 0, handle.size(), verify=True):
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
        codec=_CODECS[header.codec] if header.codec < len(_CODECS) else header.codec,
        timestamp_type="LogAppendTime" if header.log_append_time else "CreateTime",
        max_timestamp=header.max_timestamp,
    )
    if header.has_producer_id:
        row |= {
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "base_sequence": header.base_sequence,
        }
    row |= {
        key: value
        for key, value in (("transactional", header.is_transactional), ("control", header.is_control))
        if value
    }
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
            headers={key: text(value) for key, value in record.headers},
        )


def _indexes(folder: Folder) -> Iterator[Row]:
    cache = FileCache(folder.fs)
    for path in folder.files(".index"):
        base = base_of(path)
        for first, second in OffsetIndex(CachedFile(cache, path), base, fresh=False).entries():
            yield _row("offset index", folder, _name(path), offset=base + first, position=second)
    for path in folder.files(".timeindex"):
        base = base_of(path)
        for first, second in TimeIndex(CachedFile(cache, path), base, fresh=False).entries():
            yield _row("time index", folder, _name(path), timestamp=first, offset=base + second)
    for path in folder.files(".txnindex"):
        try:
            for entry in TransactionIndex(CachedFile(cache, path), fresh=False).entries:
                yield _row("aborted transaction", folder, _name(path), **entry._asdict())
        except ValueError as error:
            yield _damage(f"{folder.name}/{_name(path)}", error)


def _snapshot(folder: Folder, path: str) -> Iterator[Row]:
    try:
        entries = read_snapshot(folder.fs, path)
    except CorruptSnapshot as error:
        yield _damage(f"{folder.name}/{_name(path)}", error)
        return
    for entry in entries:
        yield _row(
            "producer",
            folder,
            _name(path),
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


def _name(path: str) -> str:
    return path.rpartition("/")[2]
