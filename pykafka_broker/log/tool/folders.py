"""Which partitions a path means: a partition's folder, or a directory of `log.dirs` with all of its partitions."""

from __future__ import annotations

import os
from collections.abc import Iterator

from pykafka_broker.log.checkpoints import LOG_START_OFFSETS, RECOVERY_POINTS, read_offsets
from pykafka_broker.log.filesystem import FileSystem
from pykafka_broker.log.loading import Offsets
from pykafka_broker.log.log_directory import LogDirectory

Row = dict[str, object]


class Folder:
    """One partition's folder, with what the checkpoints beside it say."""

    def __init__(self, fs: FileSystem, path: str) -> None:
        self.fs = fs
        self.path = path
        self.name = os.path.basename(path)
        topic, _, partition = self.name.rpartition("-")
        self.topic = topic
        self.partition = int(partition)
        parent, key = os.path.dirname(path), (topic, self.partition)
        points = read_offsets(fs, f"{parent}/{RECOVERY_POINTS}")
        starts = read_offsets(fs, f"{parent}/{LOG_START_OFFSETS}")
        self.offsets = Offsets(starts.get(key, 0), points.get(key, 0))

    def files(self, suffix: str) -> list[str]:
        """Paths of the files whose name is an offset and this suffix, in order."""
        names = self.fs.list_directory(self.path)
        return sorted(f"{self.path}/{name}" for name in names if name[:20].isdecimal() and name[20:] == suffix)


def partition_folders(fs: FileSystem, path: str) -> Iterator[Folder]:
    path = os.path.abspath(path)
    if is_partition(fs, path):
        yield Folder(fs, path)
        return
    for topic, partition in sorted(LogDirectory(fs, path).list_folders()[0]):
        yield Folder(fs, f"{path}/{topic}-{partition}")


def is_partition(fs: FileSystem, path: str) -> bool:
    topic, _, partition = os.path.basename(path).rpartition("-")
    if not topic or not partition.isdecimal():
        return False
    return any(name.endswith(".log") or name == "partition.metadata" for name in fs.list_directory(path))


def base_of(path: str) -> int:
    return int(os.path.basename(path)[:20])
