"""Making a damaged data directory one that a broker starts on.

Rule: nothing is thrown away. A log is cut at the first batch that is damaged; what is cut off, and the segments after
it, stay beside it in files that end in `.damaged`. Indexes, snapshots and leader epochs are made anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from pykafka_broker.config.broker import BrokerConfig
from pykafka_broker.log.checkpoints import RECOVERY_POINTS, read_offsets, write_offsets
from pykafka_broker.log.files import FileCache
from pykafka_broker.log.filesystem import FileSystem
from pykafka_broker.log.loading import Offsets
from pykafka_broker.log.log_directory import LogDirectory
from pykafka_broker.log.recovery import FolderRecovery
from pykafka_broker.log.scan import DamagedLog, scan
from pykafka_broker.log.tool.folders import Folder, Row, base_of, is_partition, partition_folders

DAMAGED = ".damaged"
_PIECE_BYTES = 1 << 20


def repair(fs: FileSystem, path: str, now: int) -> Iterator[Row]:
    """One row for each partition; `LogDirectoryError` if a broker runs on the directory."""
    path = os.path.abspath(path)
    directory = LogDirectory(fs, os.path.dirname(path) if is_partition(fs, path) else path)
    directory.take()
    try:
        for folder in partition_folders(fs, path):
            yield repair_partition(folder, now)
    finally:
        directory.release()


def repair_partition(folder: Folder, now: int) -> Row:
    fs = folder.fs
    kept = list(_put_aside(folder))
    for suffix in (".index", ".timeindex", ".txnindex", ".snapshot"):
        for file in folder.files(suffix):
            fs.remove(file)
    offsets = Offsets(folder.offsets.log_start_offset, 0)
    config = BrokerConfig({}).topic_defaults
    recovered = FolderRecovery(FileCache(fs), folder.path, folder.name, config, offsets, now).run()
    _lower_recovery_point(folder, recovered.log_end_offset)
    return {
        "type": "repaired" if kept else "whole",
        "file": folder.name,
        "log_end_offset": recovered.log_end_offset,
        "put_aside": kept,
    }


def _put_aside(folder: Folder) -> Iterator[str]:
    """Keep what is about to be cut off."""
    fs = folder.fs
    damaged = False
    for path in folder.files(".log"):
        name = f"{path}{DAMAGED}"
        if damaged:
            fs.rename(path, name)
            yield os.path.basename(name)
            continue
        position = _damage_at(folder, path)
        if position is not None:
            damaged = True
            _split(fs, path, position, name)
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


def _damage_at(folder: Folder, path: str) -> int | None:
    handle = folder.fs.open(path)
    end = base_of(path)
    try:
        for batch in scan(handle, path, 0, handle.size(), verify=True):
            if batch.header.base_offset < end:
                return batch.position
            end = batch.header.next_offset
    except DamagedLog as damage:
        return damage.position
    return None


def _lower_recovery_point(folder: Folder, end: int) -> None:
    """So that a broker doesn't refuse a log that ends before what had been synced."""
    path = f"{os.path.dirname(folder.path)}/{RECOVERY_POINTS}"
    points = read_offsets(folder.fs, path)
    key = folder.topic, folder.partition
    if points.get(key, 0) > end:
        points[key] = end
        write_offsets(folder.fs, path, points)
