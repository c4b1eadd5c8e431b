"""Which partitions a path means: a partition's folder, or a directory of `log.dirs` with all of its partitions."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from pykafka_broker.log.checkpoints import LOG_START_OFFSETS, META_PROPERTIES, RECOVERY_POINTS, read_offsets
from pykafka_broker.log.filesystem import FileSystem
from pykafka_broker.log.loading import Offsets
from pykafka_broker.log.log_directory import METADATA_TOPIC, LogDirectory, LogDirectoryError

Row = dict[str, object]

# Folders that are out of use, or not yet in use, have a unique word and what they are behind the partition's name.
_FOLDER = re.compile(r"(.+)-(\d+)(?:\.[0-9a-f]{32}-(delete|future|stray))?")


class Folder:
    """One partition's folder, with what the checkpoints beside it say."""

    def __init__(self, fs: FileSystem, path: str) -> None:
        self.fs = fs
        self.path = path
        self.name = os.path.basename(path)
        match = _FOLDER.fullmatch(self.name)
        assert match is not None
        self.topic = match[1]
        self.partition = int(match[2])
        self.state: str | None = match[3]  # "delete", "future", "stray", or in use
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
        """Paths of the files whose name is an offset and this suffix, in order."""
        names = self.fs.list_directory(self.path)
        return sorted(f"{self.path}/{name}" for name in names if name[:20].isdecimal() and name[20:] == suffix)


def partition_folders(fs: FileSystem, path: str) -> Iterator[Folder]:
    """`LogDirectoryError` if the path is neither a partition's folder nor a data directory."""
    if is_partition(fs, path):
        yield Folder(fs, path)
        return
    partitions = sorted(LogDirectory(fs, path).list_folders()[0])
    if not partitions and not fs.exists(f"{path}/{META_PROPERTIES}"):
        raise LogDirectoryError(f"{path} is no data directory: there is no {META_PROPERTIES} and no partition in it")
    for topic, partition in partitions:
        yield Folder(fs, f"{path}/{topic}-{partition}")


def folders_aside(fs: FileSystem, path: str) -> Iterator[tuple[str, str]]:
    """Name and state of the folders in a data directory that are not in use."""
    for name in sorted(fs.list_directory(path)):
        match = _FOLDER.fullmatch(name)
        if match is not None and match[3] is not None:
            yield name, match[3]


def is_partition(fs: FileSystem, path: str) -> bool:
    if _FOLDER.fullmatch(os.path.basename(path)) is None:
        return False
    names = fs.list_directory(path)
    return not names or any(name.endswith(".log") or name == "partition.metadata" for name in names)


def base_of(path: str) -> int:
    return int(os.path.basename(path)[:20])
