"""A data directory on which no broker runs: its partitions, its small files, and the files of the metadata log.

Rule: a path means one partition's folder, or a directory of `log.dirs` with all of its partitions. A snapshot of the
metadata counts if it is whole: every batch sound, a header first and a footer last.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from itertools import repeat
from typing import NamedTuple

from pykafka_broker.log.checkpoints import (
    LOCK,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    OFFSET_FILES,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    checked_offsets,
    is_reserved,
    read_offsets,
    read_properties,
)
from pykafka_broker.log.filesystem import FileSystem, read_file
from pykafka_broker.log.index import SparseIndex
from pykafka_broker.log.loading import Offsets
from pykafka_broker.log.log_directory import METADATA_TOPIC, LogDirectory, LogDirectoryError
from pykafka_broker.log.scan import DamagedLog, ScannedBatch, scan
from pykafka_broker.log.tool.decoding import control_type, decode_metadata
from pykafka_broker.protocol.runtime import DecodeError, parse_uuid_text
from pykafka_broker.records.errors import CorruptBatch
from pykafka_broker.records.record import iter_records

Row = dict[str, object]
# Folders out of use, or not yet in use, have a unique id and their state behind the partition's name.
_FOLDER = re.compile(r"(.+)-(\d+)(?:\.[0-9a-f]{32}-(delete|future|stray))?")
QUORUM_STATE = "quorum-state"
_SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
BOOTSTRAP_FILE = "bootstrap.checkpoint"
# An undamaged line; an id has 22 characters.
_PROPERTY = re.compile(r"((?:version|node\.id)(?==\d+$)|(?:cluster|directory)\.id(?==[A-Za-z0-9_-]{22}$))=(.+)")
_REQUIRED = ("version", "cluster.id", "node.id")


class Folder:
    """A partition's folder, with the partition's entries in the checkpoints of the directory."""

    def __init__(self, fs: FileSystem, path: str) -> None:
        self.fs = fs
        self.path = path
        self.name = os.path.basename(path)
        match = _FOLDER.fullmatch(self.name)
        assert match is not None
        self.topic = match[1]
        self.partition = int(match[2])
        self.state: str | None = match[3]  # "delete", "future" or "stray"; None: in use
        self.offsets = Offsets()
        if self.state is None:
            parent, key = os.path.dirname(path), (self.topic, self.partition)
            points = read_offsets(fs, f"{parent}/{RECOVERY_POINTS}")
            starts = read_offsets(fs, f"{parent}/{LOG_START_OFFSETS}")
            self.offsets = Offsets(starts.get(key, 0), points.get(key, 0))

    @property
    def is_metadata(self) -> bool:
        return self.topic == METADATA_TOPIC

    def files(self, suffix: str) -> list[str]:
        """Return the paths of files named by an offset and the suffix, in order."""
        names = self.fs.list_directory(self.path)
        return sorted(f"{self.path}/{name}" for name in names if name[:20].isdecimal() and name[20:] == suffix)


def partition_folders(fs: FileSystem, path: str) -> Iterator[Folder]:
    """Yield the folder at `path`, or every partition's folder in the data directory.

    Raises:
        LogDirectoryError: the path is neither a partition's folder nor a data directory.
    """
    if is_partition(fs, path):
        yield Folder(fs, path)
        return
    partitions = sorted(LogDirectory(fs, path).list_folders()[0])
    if not partitions and not fs.exists(f"{path}/{META_PROPERTIES}"):
        raise LogDirectoryError(f"{path} is no data directory: there is no {META_PROPERTIES} and no partition in it")
    for topic, partition in partitions:
        yield Folder(fs, f"{path}/{topic}-{partition}")


def folders_aside(fs: FileSystem, path: str) -> Iterator[tuple[str, str]]:
    """Yield name and state of the folders out of use in a data directory."""
    for name in sorted(fs.list_directory(path)):
        match = _FOLDER.fullmatch(name)
        if match is not None and match[3] is not None:
            yield name, match[3]


def is_partition(fs: FileSystem, path: str) -> bool:
    if _FOLDER.fullmatch(os.path.basename(path)) is None:
        return False
    names = fs.list_directory(path)
    return not names or any(name.endswith(".log") or name == PARTITION_METADATA for name in names)


def scan_file(fs: FileSystem, path: str, *, verify: bool = True) -> Iterator[ScannedBatch]:
    """Yield every batch of a segment or a snapshot, as `scan` does. Raises DamagedLog."""
    handle = fs.open(path, writable=False)
    return scan(handle, path, 0, handle.size(), verify=verify)


def base_of(path: str) -> int:
    return int(os.path.basename(path)[:20])


# -- files of the metadata log


class SnapshotFile(NamedTuple):
    fs: FileSystem
    path: str
    end_offset: int
    epoch: int

    def batches(self) -> Iterator[ScannedBatch]:
        return scan_file(self.fs, self.path)

    def problem(self) -> str | None:
        """Return the reason for which the snapshot can't be used, or None."""
        kinds = [""]
        try:
            for batch in self.batches():
                records = list(iter_records(batch.data, batch.header))
                kinds += [control_type(record.key) if batch.header.is_control else "" for record in records]
        except DamagedLog as damage:
            return f"byte {damage.position}: {damage.reason}"
        except CorruptBatch as error:
            return str(error)
        if kinds[1:2] != ["SnapshotHeader"]:
            return "it has no header"
        return None if kinds[-1] == "SnapshotFooter" else "it has no footer, its end is missing"


def snapshots(fs: FileSystem, folder: str) -> list[SnapshotFile]:
    """Return the snapshots in a folder, oldest first."""
    found = [match for name in sorted(fs.list_directory(folder)) if (match := _SNAPSHOT.fullmatch(name))]
    return [SnapshotFile(fs, f"{folder}/{match[0]}", int(match[1]), int(match[2])) for match in found]


def lost_beginning(folder: Folder) -> str | None:
    """Return a fault of a metadata log which begins above zero without a snapshot of the records before, or None."""
    logs = folder.files(".log")
    start = max(base_of(logs[0]) if logs else 0, folder.offsets.log_start_offset)
    found = snapshots(folder.fs, folder.path)
    if not start or any(each.end_offset >= start and each.problem() is None for each in found):
        return None
    return f"begins at offset {start} and has no snapshot of what was before"


def quorum_state(fs: FileSystem, folder: str) -> dict[str, object]:
    """Return the content of `quorum-state`.

    Raises:
        ValueError: the file is damaged.
        FileNotFoundError: the file is missing.
    """
    try:
        state = json.loads(read_file(fs, f"{folder}/{QUORUM_STATE}"))
    except ValueError:
        raise ValueError("it is no JSON") from None
    if not isinstance(state, dict) or not isinstance(state.get("leaderEpoch"), int):
        raise ValueError("it names no leader epoch")
    return state


def topic_ids(fs: FileSystem, directory: str) -> dict[str, bytes]:
    """Return the id of each topic, as far as the metadata log in the data directory tells."""
    folder = f"{directory}/{METADATA_TOPIC}-0"
    ids: dict[str, bytes] = {}
    if not fs.exists(folder):
        return ids
    whole = [snapshot for snapshot in snapshots(fs, folder) if snapshot.problem() is None]
    for snapshot in whole[-1:]:
        _learn(snapshot.batches(), ids)
    for name in sorted(fs.list_directory(folder)):
        if name.endswith(".log"):
            _learn(scan_file(fs, f"{folder}/{name}"), ids)
    return ids


def _learn(batches: Iterator[ScannedBatch], ids: dict[str, bytes]) -> None:
    from pykafka_broker.protocol.stored.topic_record import TopicRecord

    try:
        for batch in batches:
            if batch.header.is_control:
                continue
            for record in iter_records(batch.data, batch.header):
                message, _ = decode_metadata(record.value or b"")
                if isinstance(message, TopicRecord):
                    ids[message.name] = bytes(message.topic_id)
    except (DamagedLog, CorruptBatch, DecodeError):
        return  # the ids before the damage are known


# -- files of the directory


def in_use(fs: FileSystem, path: str) -> bool:
    """Return whether a broker, ours or Kafka, has locked the directory."""
    if not fs.exists(f"{path}/{LOCK}"):
        return False
    try:
        fs.lock(f"{path}/{LOCK}").release()
    except BlockingIOError:
        return True
    except OSError:
        return False  # no permission to lock
    return False


def check_directory(fs: FileSystem, path: str) -> Iterator[Row]:
    problem = properties_problem(fs, path)
    if problem is not None:
        yield {"type": "error", "file": META_PROPERTIES, "problem": problem}
    problem = bootstrap_problem(fs, path)
    if problem is not None:
        yield {"type": "error", "file": BOOTSTRAP_FILE, "problem": problem}
    for name, reason in damaged_checkpoints(fs, path):
        yield {"type": "warning", "file": name, "problem": reason}


def properties_problem(fs: FileSystem, path: str) -> str | None:
    try:
        properties = read_properties(fs, f"{path}/{META_PROPERTIES}")
        missing = [key for key in _REQUIRED if key not in properties]
        if missing:
            return f"does not say {', '.join(missing)}"
        known = properties.get("directory.id")
        if known is not None and is_reserved(parse_uuid_text(known)):
            return f"has the directory.id {known}, which is reserved"
    except FileNotFoundError:
        return "is missing: is this a directory of log.dirs?"
    except ValueError as error:
        return f"is damaged: {error}"
    return None


def bootstrap_problem(fs: FileSystem, path: str) -> str | None:
    """Return a fault of `bootstrap.checkpoint`, which `kafka-storage format` leaves for the first start, or None."""
    file = f"{path}/{BOOTSTRAP_FILE}"
    return SnapshotFile(fs, file, 0, 0).problem() if fs.exists(file) else None


def readable_properties(fs: FileSystem, path: str) -> dict[str, str]:
    """Return the readable lines of a damaged `meta.properties`."""
    text = read_file(fs, f"{path}/{META_PROPERTIES}").decode("ascii", "replace")
    found = {match[1]: match[2] for match in map(_PROPERTY.fullmatch, text.splitlines()) if match}
    return found if found.get("version") == "1" else {}


def damaged_checkpoints(fs: FileSystem, path: str) -> Iterator[tuple[str, str]]:
    """Yield name and fault of damaged checkpoints. Without a checkpoint a start has more to read."""
    for name in OFFSET_FILES:
        try:
            checked_offsets(fs, f"{path}/{name}")
        except ValueError as error:
            yield name, str(error)


def used_entries(index: SparseIndex) -> Iterator[tuple[int, ...]]:
    """Yield the entries of an index, without room made in advance: more than one entry of zeros at the end."""
    zeros = 0
    for entry in index.entries():
        if any(entry):
            yield from repeat((0, 0), zeros)
            yield entry
            zeros = 0
        else:
            zeros += 1
    if zeros == 1:
        yield 0, 0
