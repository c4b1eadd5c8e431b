"""Making a damaged data directory one that a broker starts on.

Rule: nothing is thrown away. A log is cut at the first batch that is damaged; what is cut off, and the segments after
it, stay beside it in files that end in `.damaged`. Indexes, snapshots and leader epochs are made anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from pykafka_broker.config.broker import BrokerConfig
from pykafka_broker.log.checkpoints import (
    META_PROPERTIES,
    METADATA_TOPIC_ID,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    read_offsets,
    read_partition_metadata,
    write_offsets,
    write_partition_metadata,
)
from pykafka_broker.log.files import CachedFile, FileCache
from pykafka_broker.log.filesystem import FileSystem
from pykafka_broker.log.loading import Offsets
from pykafka_broker.log.log_directory import LogDirectory
from pykafka_broker.log.recovery import FolderRecovery
from pykafka_broker.log.scan import DamagedLog, scan
from pykafka_broker.log.tool.abort_markers import AbortMarkers
from pykafka_broker.log.tool.directory import damaged_checkpoints, properties_problem
from pykafka_broker.log.tool.folders import Folder, Row, base_of, is_partition, partition_folders
from pykafka_broker.log.tool.metadata import lost_beginning, snapshots, topic_ids
from pykafka_broker.log.transaction_index import CorruptTransactionIndex, TransactionIndex

DAMAGED = ".damaged"
_PIECE_BYTES = 1 << 20


def repair(fs: FileSystem, path: str, now: int) -> Iterator[Row]:
    """One row for each partition; `LogDirectoryError` if a broker runs on the directory."""
    path = os.path.abspath(path)
    folders = list(partition_folders(fs, path))
    directory = LogDirectory(fs, os.path.dirname(path) if is_partition(fs, path) else path)
    directory.take()
    try:
        if directory.path == path:
            yield from _repair_directory(fs, path)
        ids = topic_ids(fs, directory.path)
        for folder in folders:
            yield repair_partition(folder, now, ids)
    finally:
        directory.release()


def _repair_directory(fs: FileSystem, path: str) -> Iterator[Row]:
    problem = properties_problem(fs, path)
    if problem is not None:
        yield {"type": "error", "file": META_PROPERTIES, "problem": f"{problem} (write it anew by hand)"}
    for name, _ in list(damaged_checkpoints(fs, path)):
        fs.rename(f"{path}/{name}", f"{path}/{name}{DAMAGED}")
        yield {"type": "repaired", "file": name, "put_aside": [f"{name}{DAMAGED}"]}


def repair_partition(folder: Folder, now: int, ids: Mapping[str, bytes]) -> Row:
    """`ids` are those of the topics, for a folder that does not know its own."""
    fs = folder.fs
    damages, wrong = _examine(folder)
    old = next((damage for damage in damages.values() if damage is not None and damage.old_format), None)
    if old is not None:
        return {"type": "error", "file": folder.name, "problem": f"left as it is: {old}"}
    kept = [*_put_aside(fs, damages), *_put_snapshots_aside(folder), *_name_again(folder, ids)]
    for suffix in (".index", ".timeindex", ".txnindex", ".snapshot"):
        for file in folder.files(suffix):
            fs.remove(file)
    offsets = Offsets(folder.offsets.log_start_offset, 0)
    config = BrokerConfig({}).topic_defaults
    recovered = FolderRecovery(FileCache(fs), folder.path, folder.name, config, offsets, now).run()
    _lower_recovery_point(folder, recovered.log_end_offset)
    lost = lost_beginning(folder) if folder.is_metadata else None
    if lost is not None:
        return {"type": "error", "file": folder.name, "problem": lost, "put_aside": kept}
    return {
        "type": "repaired" if kept or wrong else "whole",
        "file": folder.name,
        "log_end_offset": recovered.log_end_offset,
        "put_aside": kept,
        "corrected": wrong,
    }


def _put_aside(fs: FileSystem, damages: Mapping[str, DamagedLog | None]) -> Iterator[str]:
    """Keep what is about to be cut off."""
    damaged = False
    for path, damage in damages.items():
        name = f"{path}{DAMAGED}"
        if damaged:
            fs.rename(path, name)
            yield os.path.basename(name)
        elif damage is not None:
            damaged = True
            _split(fs, path, damage.position, name)
            yield os.path.basename(name)


def _split(fs: FileSystem, path: str, position: int, name: str) -> None:
    """Move what lies from `position` on to another file."""
    source, target = fs.open(path), fs.open(name, create=True)
    target.truncate(0)
    written = 0
    while data := source.read_at(_PIECE_BYTES, position + written):
        target.write_at(data, written)
        written += len(data)
    target.sync()
    source.truncate(position)


def _put_snapshots_aside(folder: Folder) -> Iterator[str]:
    """Of the metadata log: with a damaged one a broker reads the one before, or the log from its beginning."""
    if folder.is_metadata:
        for snapshot in snapshots(folder.fs, folder.path):
            if snapshot.problem() is not None:
                folder.fs.rename(snapshot.path, f"{snapshot.path}{DAMAGED}")
                yield os.path.basename(snapshot.path) + DAMAGED


def _name_again(folder: Folder, ids: Mapping[str, bytes]) -> Iterator[str]:
    path = f"{folder.path}/{PARTITION_METADATA}"
    if read_partition_metadata(folder.fs, path) is not None:
        return
    if folder.fs.exists(path):
        folder.fs.rename(path, f"{path}{DAMAGED}")
        yield PARTITION_METADATA + DAMAGED
    topic_id = METADATA_TOPIC_ID if folder.is_metadata else ids.get(folder.topic)
    if topic_id is not None:
        write_partition_metadata(folder.fs, path, topic_id)


def _examine(folder: Folder) -> tuple[dict[str, DamagedLog | None], list[str]]:
    """The damage of each segment, and the transaction indexes that would show readers what was aborted, or hide what
    was committed: no broker notices that."""
    markers, damages, wrong = AbortMarkers(), {}, []
    for path in folder.files(".log"):
        markers.begin_segment()
        damages[path] = _damage(folder, path, markers)
        if damages[path] is not None:
            markers.lost_track()
        elif not _is_right(folder, f"{path[: -len('.log')]}.txnindex", markers):
            wrong.append(f"{os.path.basename(path)[:20]}.txnindex")
    return damages, wrong


def _is_right(folder: Folder, path: str, markers: AbortMarkers) -> bool:
    try:
        return markers.problem(TransactionIndex(CachedFile(FileCache(folder.fs), path), fresh=False).entries) is None
    except CorruptTransactionIndex:
        return False


def _damage(folder: Folder, path: str, markers: AbortMarkers) -> DamagedLog | None:
    handle = folder.fs.open(path)
    end = base_of(path)
    try:
        for batch in scan(handle, path, 0, handle.size(), verify=True):
            if batch.header.base_offset < end:
                return DamagedLog(path, batch.position, f"offset {batch.header.base_offset} after {end - 1}")
            markers.learn(batch)
            end = batch.header.next_offset
    except DamagedLog as damage:
        return damage
    return None


def _lower_recovery_point(folder: Folder, end: int) -> None:
    """So that a broker doesn't refuse a log that ends before what had been synced."""
    path = f"{os.path.dirname(folder.path)}/{RECOVERY_POINTS}"
    points = read_offsets(folder.fs, path)
    key = folder.topic, folder.partition
    if points.get(key, 0) > end:
        points[key] = end
        write_offsets(folder.fs, path, points)
