"""The small text files of a log directory and of a partition's folder, and the ids in them.

Rule: each file is replaced whole (write aside, sync, rename). A checkpoint is a version line, a count line and that
many lines of words. One thread at a time writes a checkpoint, never with older content than the file has; content that
is known to be on disk is not written again.

The lowest hundred directory ids are reserved: no directory has one of them (KIP-858; Kafka: DirectoryId).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from pykafka_broker.config.properties import format_properties, parse_properties
from pykafka_broker.log.filesystem import FileSystem, read_file, write_file
from pykafka_broker.log.jobs import Errand, Submit
from pykafka_broker.protocol.runtime import parse_uuid_text, uuid_text

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
OFFSET_FILES = (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_START_OFFSETS, CLEANER_OFFSETS)
PARTITION_METADATA = "partition.metadata"
EPOCHS_FILE = "leader-epoch-checkpoint"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"
GAP = ".gap"  # in the folder of a partition: the offset from which on a crash may have taken records
RESTORED = ".restored"  # in a data directory: an earlier state has taken the place of a later one since the last start
MOVED = ".complete"  # in the folder of a moved partition: the copy is whole
METADATA_TOPIC_ID = bytes(15) + b"\x01"  # the same in every cluster
_VERSION = "0"
_FLIPPED = 2  # characters of an id that a flipped byte changes
# Directory ids that name no directory
MIGRATING = bytes(16)  # the directory was chosen before ids were recorded
UNASSIGNED = (1).to_bytes(16, "big")  # no directory was chosen yet
LOST = (2).to_bytes(16, "big")  # the directory is offline
_LAST_RESERVED = (99).to_bytes(16, "big")
_Offsets = Mapping[tuple[str, int], int]


class _Pending(NamedTuple):
    """Content of a checkpoint that is not written yet, and the folders to sync before, on which the content depends."""

    offsets: _Offsets = {}
    folders: frozenset[str] = frozenset()


def read_lines(fs: FileSystem, path: str) -> list[list[str]]:
    """Return the words of each entry. Raises ValueError if the file is not a whole checkpoint."""
    try:
        text = read_file(fs, path).decode("ascii")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is damaged: it is no text") from None
    lines = text.splitlines()
    if not text.endswith("\n"):
        raise ValueError(f"{path} is torn")  # a torn last number would look like another number
    if len(lines) < 2 or lines[0] != _VERSION:
        raise ValueError(f"{path} is not a checkpoint of version {_VERSION}")
    if lines[1] != str(len(lines) - 2):
        raise ValueError(f"{path} says {lines[1]} entries and has {len(lines) - 2}")
    return [line.split() for line in lines[2:]]


def write_lines(fs: FileSystem, path: str, entries: Iterable[Iterable[str]], *, sync: bool = True) -> None:
    rows = [" ".join(entry) for entry in entries]
    text = "\n".join((_VERSION, str(len(rows)), *rows, ""))
    write_file(fs, path, text.encode("ascii"), sync=sync)


def read_offsets(fs: FileSystem, path: str) -> dict[tuple[str, int], int]:
    """Return an offset for each partition; a missing or damaged file counts as empty: the recovery takes longer."""
    try:
        return checked_offsets(fs, path)
    except ValueError:
        return {}


def checked_offsets(fs: FileSystem, path: str) -> dict[tuple[str, int], int]:
    """Return an offset for each partition; none if the file is missing.

    Raises:
        ValueError: the file is damaged; the error names the file.
    """
    try:
        lines = read_lines(fs, path)
    except FileNotFoundError:
        return {}
    try:
        offsets = {(topic, int(partition)): int(offset) for topic, partition, offset in lines}
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    if min(offsets.values(), default=0) < 0:
        raise ValueError(f"{path} is damaged: it has an offset below zero")
    return offsets


def write_offsets(fs: FileSystem, path: str, offsets: Mapping[tuple[str, int], int], *, sync: bool = True) -> None:
    rows = ((topic, str(partition), str(offset)) for (topic, partition), offset in offsets.items())
    write_lines(fs, path, rows, sync=sync)


def same_but_damaged(found: bytes, wanted: bytes) -> bool:
    """Return whether the texts of two ids differ by no more than a flipped byte; drawn ids differ nearly everywhere."""
    pairs = zip(uuid_text(found), uuid_text(wanted), strict=True)
    return sum(one != other for one, other in pairs) <= _FLIPPED


def read_gap(fs: FileSystem, directory: str) -> int | None:
    """Return the offset in the gap file of a folder, None without the file."""
    try:
        return int(read_file(fs, f"{directory}/{GAP}"))
    except (FileNotFoundError, ValueError):
        return None


def write_gap(fs: FileSystem, directory: str, offset: int) -> None:
    """Write down and sync from which offset on a crash may have taken records. The lowest of several gaps counts."""
    known = read_gap(fs, directory)
    write_file(fs, f"{directory}/{GAP}", b"%d" % (offset if known is None else min(offset, known)))


def write_partition_metadata(fs: FileSystem, path: str, topic_id: bytes) -> None:
    """Write a topic id without a sync: the first flush syncs the file, and the metadata log knows the id too."""
    write_file(fs, path, partition_metadata(topic_id), sync=False)


def partition_metadata(topic_id: bytes) -> bytes:
    """Return the content of the file."""
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode("ascii")


def read_partition_metadata(fs: FileSystem, path: str) -> bytes | None:
    """Return the topic id; None if the file is missing or has none."""
    try:
        lines = read_file(fs, path).decode("ascii").splitlines()
        fields = dict(line.split(": ", 1) for line in lines if line)
        return parse_uuid_text(fields["topic_id"])
    except (FileNotFoundError, ValueError, KeyError):
        return None


def read_properties(fs: FileSystem, path: str) -> dict[str, str]:
    """Return the keys and values of a Java properties file of `key=value` lines, without blanks at their ends.

    Raises:
        ValueError: the file has other lines.
    """
    try:
        text = read_file(fs, path).decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("it is no text") from None
    for number, line in enumerate(text.splitlines(), 1):
        if line and not line.startswith("#") and "=" not in line:
            raise ValueError(f"line {number} is no `key=value`")
    return {key: value.rstrip() for key, value in parse_properties(text).items()}


def write_properties(fs: FileSystem, path: str, properties: Mapping[str, str]) -> None:
    text = "#\n" + format_properties(dict(sorted(properties.items())))
    write_file(fs, path, text.encode("ascii"))


def is_reserved(directory_id: bytes) -> bool:
    return directory_id <= _LAST_RESERVED


class CheckpointWriter:
    def __init__(self, fs: FileSystem, submit: Submit, on_error: Callable[[str, OSError], object]) -> None:
        self.fs = fs
        self._submit = submit
        self._on_error = on_error
        self._lock = threading.Lock()
        self._pending: dict[str, _Pending] = {}
        self._known: dict[str, _Offsets] = {}  # by path: the newest content, written or pending
        self._written: dict[str, _Offsets] = {}  # content on disk until the pending content is written

    def note(self, path: str, offsets: _Offsets) -> None:
        """Note the content of the file on disk."""
        self._known[path] = self._written[path] = offsets

    def mentions(self, key: tuple[str, int], paths: Sequence[str]) -> bool:
        """Return whether a file on disk, or about to be written, has an entry of the partition."""
        nothing = _Pending()
        return any(
            key in self._written.get(path, ()) or key in self._pending.get(path, nothing).offsets for path in paths
        )

    def later(self, path: str, offsets: _Offsets, *, folder: str | None = None) -> None:
        """Write new content in a job.

        Args:
            folder: a folder to sync first, since the offsets depend on it; None for no folder.
        """
        if folder is None and self._known.get(path) == offsets:
            return
        unsynced = self._pending.get(path, _Pending()).folders
        self._known[path] = offsets
        self._pending[path] = _Pending(offsets, unsynced if folder is None else unsynced | {folder})
        self._submit(Errand(partial(self._write_pending, path), partial(self._not_written, path)))

    def now(self, path: str, offsets: _Offsets) -> None:
        """Write the file and return when the write is done."""
        self._known.pop(path, None)  # for certain only once it is written
        with self._lock:
            self._write(path, offsets, self._pending.get(path, _Pending()).folders)
            self._pending.pop(path, None)
        self._known[path] = offsets

    def _write_pending(self, path: str) -> None:
        with self._lock:
            pending = self._pending.get(path)
            if pending is None:
                return  # another job has written the newest content
            self._write(path, *pending)
            if self._pending.get(path) is pending:  # otherwise newer content has come meanwhile
                del self._pending[path]

    def _write(self, path: str, offsets: _Offsets, folders: frozenset[str]) -> None:
        for folder in folders:
            with contextlib.suppress(FileNotFoundError):  # the partition was deleted or moved meanwhile
                self.fs.sync_directory(folder)
        write_offsets(self.fs, path, offsets)
        self._written[path] = offsets

    def _not_written(self, path: str, error: OSError) -> None:
        self._known.pop(path, None)  # the next call writes again
        self._on_error(path, error)
