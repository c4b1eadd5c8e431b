"""The repair of a damaged data directory, so that a broker starts on it.

Rule: nothing is thrown away. A log is cut at the first damaged batch; the rest of the segment, and the segments after
it, stay beside the log in files that end in `.damaged`. Indexes, snapshots and leader epochs are rebuilt.

Only the command reads this module, when it is asked for a repair.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple

from pykafka_broker.config.broker import BrokerConfig
from pykafka_broker.log.checkpoints import (
    LOG_START_OFFSETS,
    META_PROPERTIES,
    METADATA_TOPIC_ID,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    read_offsets,
    read_partition_metadata,
    same_but_damaged,
    write_offsets,
    write_partition_metadata,
    write_properties,
)
from pykafka_broker.log.filesystem import CachedFile, FileCache, FileSystem, copy_from
from pykafka_broker.log.index import CorruptTransactionIndex, TransactionIndex
from pykafka_broker.log.loading import INDEXES, FolderRecovery, Offsets
from pykafka_broker.log.log_directory import LogDirectory
from pykafka_broker.log.scan import DamagedLog
from pykafka_broker.log.segment import MAX_RELATIVE_OFFSET
from pykafka_broker.log.tool.abort_markers import AbortMarkers
from pykafka_broker.log.tool.decoding import is_kept_for, unreadable_records, write_readable
from pykafka_broker.log.tool.directory import (
    BOOTSTRAP_FILE,
    QUORUM_STATE,
    Folder,
    Row,
    base_of,
    bootstrap_problem,
    damaged_checkpoints,
    is_partition,
    lost_beginning,
    partition_folders,
    properties_problem,
    quorum_state,
    readable_properties,
    scan_file,
    snapshots,
    topic_ids,
)

DAMAGED = ".damaged"


def repair(fs: FileSystem, path: str, now: int) -> Iterator[Row]:
    """Repair a directory or a partition's folder, and yield a row for each partition.

    Raises:
        LogDirectoryError: a broker runs on the directory.
    """
    path = os.path.abspath(path)
    folders = list(partition_folders(fs, path))
    directory = LogDirectory(fs, os.path.dirname(path) if is_partition(fs, path) else path)
    directory.acquire()
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
    if problem is not None and not fs.exists(f"{path}/{META_PROPERTIES}"):
        yield {"type": "error", "file": META_PROPERTIES, "problem": f"{problem} A start makes a cluster.id of its own"}
    elif problem is not None:
        yield _repair_properties(fs, path, problem)
    if bootstrap_problem(fs, path) is not None:
        yield {"type": "repaired", "file": BOOTSTRAP_FILE, "put_aside": [_move_aside(fs, f"{path}/{BOOTSTRAP_FILE}")]}
    for name, _ in list(damaged_checkpoints(fs, path)):
        yield {"type": "repaired", "file": name, "put_aside": [_move_aside(fs, f"{path}/{name}")]}


def _repair_properties(fs: FileSystem, path: str, problem: str) -> Row:
    """Keep the readable lines; a start completes the file."""
    found = readable_properties(fs, path)
    aside = _move_aside(fs, f"{path}/{META_PROPERTIES}")
    if found:
        write_properties(fs, f"{path}/{META_PROPERTIES}", found)
    lost = [key for key in ("cluster.id", "directory.id") if key not in found]
    if lost:
        problem += f"; a start makes a new {' and '.join(lost)}, unless the old one is written into it by hand"
    return {"type": "repaired", "file": META_PROPERTIES, "put_aside": [aside], "problem": problem}


def repair_partition(folder: Folder, now: int, ids: Mapping[str, bytes]) -> Row:
    """Repair a partition's folder. ids: the ids of the topics, for a folder without its own."""
    fs = folder.fs
    cut = _begin_at_snapshot(folder) if folder.is_metadata else []
    found = _examine(folder)
    damages, wrong = found.damages, found.wrong
    old = next((damage for damage in damages.values() if damage is not None and damage.old_format), None)
    if old is not None:
        return {"type": "error", "file": folder.name, "problem": f"left as it is: {old}"}
    kept = cut + [_move_aside(fs, path) for path in found.doubled]
    kept += [*_put_aside(fs, damages), *_put_metadata_aside(folder), *_name_again(folder, ids)]
    kept += _remove_unreadable(folder)
    end = max(found.end, _end_of_snapshots(folder))
    if end > found.end:  # the snapshot goes further than the rest of the log, which begins anew behind it
        kept += [_move_aside(fs, path) for path in folder.files(".log")]
        damages = {}
    for suffix in INDEXES:
        for file in folder.files(suffix):
            fs.remove(file)
    problems, start = _lower_checkpoints(folder, end), folder.offsets.log_start_offset
    if folder.is_metadata:
        start = end if not damages else min(start, end)
    elif not damages:
        start = folder.offsets.recovery_point  # no offset is given twice
    elif start > end:
        start = 0
    for file in folder.files(".snapshot"):
        if base_of(file) > end:
            fs.remove(file)
    config = BrokerConfig({}).topic_defaults
    recovered = FolderRecovery(FileCache(fs), folder.path, folder.name, config, Offsets(start, 0), now).run()
    lost = lost_beginning(folder) if folder.is_metadata else None
    if lost is not None:
        return {"type": "error", "file": folder.name, "problem": lost, "put_aside": kept}
    row: Row = {
        "type": "repaired" if kept or wrong or problems else "whole",
        "file": folder.name,
        "log_end_offset": recovered.log_end_offset,
        "put_aside": kept,
        "corrected": wrong,
    }
    return row | {"problem": ", ".join(problems)} if problems else row


def _put_aside(fs: FileSystem, damages: Mapping[str, DamagedLog | None]) -> Iterator[str]:
    """Keep the records which are about to be cut off."""
    damaged = False
    for path, damage in damages.items():
        if damaged:
            yield _move_aside(fs, path)
        elif damage is not None:
            damaged = True
            yield _split(fs, path, damage.position)


def _move_aside(fs: FileSystem, path: str) -> str:
    name = _free_name(fs, path)
    fs.rename(path, name)
    return os.path.basename(name)


def _free_name(fs: FileSystem, path: str) -> str:
    """Return an unused name; files put aside by an earlier repair stay."""
    name, number = f"{path}{DAMAGED}", 1
    while fs.exists(name):
        number += 1
        name = f"{path}.{number}{DAMAGED}"
    return name


def _split(fs: FileSystem, path: str, position: int) -> str:
    """Move the bytes from `position` on to another file."""
    name = _free_name(fs, path)
    source, target = fs.open(path), fs.open(name, create=True)
    copy_from(source, position, target)
    fs.sync_directory(os.path.dirname(path))
    source.truncate(position)
    return os.path.basename(name)


def _put_metadata_aside(folder: Folder) -> Iterator[str]:
    """Put aside damaged snapshots and a damaged `quorum-state` of the metadata log.

    With a damaged snapshot a broker reads the one before, or the log from its beginning; without `quorum-state` it
    takes the epoch from the log.
    """
    if not folder.is_metadata:
        return
    for snapshot in snapshots(folder.fs, folder.path):
        if snapshot.problem() is not None:
            yield _move_aside(folder.fs, snapshot.path)
    try:
        quorum_state(folder.fs, folder.path)
    except FileNotFoundError:
        return
    except ValueError:
        yield _move_aside(folder.fs, f"{folder.path}/{QUORUM_STATE}")


def _begin_at_snapshot(folder: Folder) -> list[str]:
    """Put aside damaged segments below the newest snapshot: the metadata log then begins at the snapshot's end."""
    fs, start = folder.fs, _end_of_snapshots(folder)
    older = [path for path in folder.files(".log") if base_of(path) < start]
    if not older or all(_examine(folder).damages[path] is None for path in older):
        return []
    try:
        batches = scan_file(fs, older[-1], verify=False)
        position = next((batch.position for batch in batches if batch.header.base_offset == start), None)
    except DamagedLog:
        return []
    if position is None:
        return []
    target = f"{folder.path}/{start:020d}.log"
    with _written_aside(fs, target) as copy:
        copy_from(fs.open(older[-1], writable=False), position, fs.open(copy, create=True))
        return [_move_aside(fs, path) for path in older]


@contextmanager
def _written_aside(fs: FileSystem, path: str) -> Iterator[str]:
    """Yield the name under which to write a segment.

    The segment gets its own name at the end: a repair that is interrupted leaves no part of a segment that would be
    taken for the whole.
    """
    copy = f"{path}.tmp"
    with suppress(FileNotFoundError):
        fs.remove(copy)
    yield copy
    fs.rename(copy, path)


def _end_of_snapshots(folder: Folder) -> int:
    """Return the offset up to which whole snapshots hold the metadata."""
    found = snapshots(folder.fs, folder.path) if folder.is_metadata else []
    return max((each.end_offset for each in found if each.problem() is None), default=0)


def _remove_unreadable(folder: Folder) -> Iterator[str]:
    """Take the unreadable records out of a coordinator's log."""
    if not is_kept_for(folder.topic) or folder.is_metadata:
        return
    for path in folder.files(".log"):
        batches = scan_file(folder.fs, path, verify=False)
        if any(True for batch in batches for _ in unreadable_records(folder.topic, batch)):
            with _written_aside(folder.fs, path) as copy:
                write_readable(folder.fs, folder.topic, path, copy)
                aside = _move_aside(folder.fs, path)
            yield aside


def _name_again(folder: Folder, ids: Mapping[str, bytes]) -> Iterator[str]:
    path = f"{folder.path}/{PARTITION_METADATA}"
    topic_id = METADATA_TOPIC_ID if folder.is_metadata else ids.get(folder.topic)
    found = read_partition_metadata(folder.fs, path)
    if found is not None and (
        topic_id in (None, found) or not (folder.is_metadata or same_but_damaged(found, topic_id or b""))
    ):
        return
    if folder.fs.exists(path):
        yield _move_aside(folder.fs, path)
    if topic_id is not None:
        write_partition_metadata(folder.fs, path, topic_id)


class _Examined(NamedTuple):
    damages: dict[str, DamagedLog | None]  # by path of the segment
    doubled: list[str]  # segments that begin before the one ahead of them ends
    wrong: list[str]  # transaction indexes that show readers what was aborted, or hide what was committed
    end: int  # of the sound part


def _examine(folder: Folder) -> _Examined:
    markers, damages = AbortMarkers(), dict[str, DamagedLog | None]()
    doubled, wrong = list[str](), list[str]()
    end, sound = 0, True
    for path in folder.files(".log"):
        if base_of(path) < end:
            doubled.append(path)
            continue
        markers.begin_segment()
        damages[path], segment_end = _damage(folder, path, markers, after=end if damages else None)
        end = segment_end if sound else end
        if damages[path] is not None:
            sound = False
            markers.lost_track()
        elif not _is_right(folder, f"{path[: -len('.log')]}.txnindex", markers):
            wrong.append(f"{os.path.basename(path)[:20]}.txnindex")
    return _Examined(damages, doubled, wrong, end)


def _is_right(folder: Folder, path: str, markers: AbortMarkers) -> bool:
    try:
        return markers.problem(TransactionIndex(CachedFile(FileCache(folder.fs), path), fresh=False).entries) is None
    except CorruptTransactionIndex:
        return False


def _damage(folder: Folder, path: str, markers: AbortMarkers, *, after: int | None) -> tuple[DamagedLog | None, int]:
    """Return a segment's first damage, or None, and the offset up to which the segment is sound.

    The metadata log ends where anything is missing `after` the segment before, or makes no sense: what comes later
    rests on it.
    """
    end = base_of(path)
    if folder.is_metadata and after is not None and end > after:
        return DamagedLog(path, 0, f"the records from offset {after} on are missing"), after
    try:
        for batch in scan_file(folder.fs, path):
            if batch.header.last_offset - base_of(path) > MAX_RELATIVE_OFFSET:
                return DamagedLog(path, batch.position, f"offset {batch.header.base_offset} is out of reach"), end
            if batch.header.base_offset < end:
                return DamagedLog(path, batch.position, f"offset {batch.header.base_offset} after {end - 1}"), end
            if folder.is_metadata:
                for offset, reason in unreadable_records(folder.topic, batch):
                    return DamagedLog(path, batch.position, f"the record at offset {offset}: {reason}"), end
            markers.learn(batch)
            end = batch.header.next_offset
    except DamagedLog as damage:
        return damage, end
    return None, end


def _lower_checkpoints(folder: Folder, end: int) -> list[str]:
    """Lower checkpoints beyond the log's end, and return the old entries in words.

    A broker would refuse a log that ends before its recovery point, and hide a log that ends before its start.
    """
    problems = []
    key = folder.topic, folder.partition
    for name, what in ((RECOVERY_POINTS, "had been synced up to"), (LOG_START_OFFSETS, "its checkpointed start was")):
        path = f"{os.path.dirname(folder.path)}/{name}"
        offsets = read_offsets(folder.fs, path)
        if offsets.get(key, 0) > end:
            problems.append(f"it ended at {end}, but {what} {offsets[key]}")
            offsets[key] = end if name == RECOVERY_POINTS else 0
            write_offsets(folder.fs, path, offsets)
    return problems
