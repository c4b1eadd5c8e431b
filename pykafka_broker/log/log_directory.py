"""One of the directories in `log.dirs`.

Rule: it belongs to one broker at a time (`.lock`), knows its own id and its cluster's (`meta.properties`), and stands
or falls alone: once the disk has failed it, it is offline until the broker starts again, and the others serve on.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

from pykafka_broker.log import checkpoints
from pykafka_broker.log.checkpoints import id_bytes, id_text
from pykafka_broker.log.filesystem import FileLock, FileSystem, write_file
from pykafka_broker.log.loading import Offsets

DELETE_SUFFIX = "-delete"
FUTURE_SUFFIX = "-future"
METADATA_TOPIC = "__cluster_metadata"
_MAX_NAME = 255

TopicPartition = tuple[str, int]


class LogDirectoryError(Exception):
    """This directory can't be used, and the operator must know why."""


class LogDirectory:
    def __init__(self, fs: FileSystem, path: str) -> None:
        self.fs = fs
        self.path = path
        self.id = b""
        self.cluster_id = ""
        self.error: Exception | None = None  # set: offline
        self.clean = False  # whether the last broker here shut down cleanly
        self.recovery_points: dict[TopicPartition, int] = {}
        self.log_start_offsets: dict[TopicPartition, int] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.cleaner_offsets: dict[TopicPartition, int] = {}
        self._lock: FileLock | None = None

    def __repr__(self) -> str:
        return f"LogDirectory({self.path}{', offline' if self.error else ''})"

    @property
    def online(self) -> bool:
        return self.error is None

    def file(self, name: str) -> str:
        return f"{self.path}/{name}"

    def take(self) -> None:
        """Lock the directory; `LogDirectoryError` if another broker has it."""
        if not self.fs.exists(self.path):
            self.fs.make_directory(self.path)
            self.fs.sync_directory(os.path.dirname(self.path) or ".")
        try:
            self._lock = self.fs.lock(self.file(checkpoints.LOCK))
        except BlockingIOError:
            raise LogDirectoryError(
                f"Failed to acquire lock on file {checkpoints.LOCK} in {self.path}. "
                "A broker in another process or thread is using this directory."
            ) from None

    def identify(self, node_id: int, cluster_id: str, new_uuid: Callable[[], bytes]) -> None:
        """Check `meta.properties`, or write it if the directory is new."""
        path = self.file(checkpoints.META_PROPERTIES)
        try:
            properties = checkpoints.read_properties(self.fs, path)
        except FileNotFoundError:
            properties = {}
        self.cluster_id = properties.get("cluster.id", cluster_id)
        if cluster_id and self.cluster_id != cluster_id:
            raise LogDirectoryError(f"{path} is of cluster {self.cluster_id}, not of {cluster_id}")
        found_node = properties.get("node.id", str(node_id))
        if found_node != str(node_id):
            raise LogDirectoryError(f"{path} is of node {found_node}, but node.id is {node_id}")
        known_id = properties.get("directory.id")
        self.id = id_bytes(known_id) if known_id else new_uuid()
        wanted = {
            "cluster.id": self.cluster_id,
            "directory.id": id_text(self.id),
            "node.id": str(node_id),
            "version": "1",
        }
        if properties != wanted:
            checkpoints.write_properties(self.fs, path, wanted)

    def read_cluster_id(self) -> str:
        """What an existing `meta.properties` says, or nothing."""
        try:
            return checkpoints.read_properties(self.fs, self.file(checkpoints.META_PROPERTIES)).get("cluster.id", "")
        except FileNotFoundError:
            return ""

    def read_state(self) -> None:
        """Read the checkpoints, and take away the marker of the clean shutdown, so that a crash from now on shows."""
        marker = self.file(checkpoints.CLEAN_SHUTDOWN)
        self.clean = self.fs.exists(marker)
        if self.clean:
            self.fs.remove(marker)
            self.fs.sync_directory(self.path)  # or a power cut brings it back
        self.recovery_points = checkpoints.read_offsets(self.fs, self.file(checkpoints.RECOVERY_POINTS))
        self.log_start_offsets = checkpoints.read_offsets(self.fs, self.file(checkpoints.LOG_START_OFFSETS))
        self.high_watermarks = checkpoints.read_offsets(self.fs, self.file(checkpoints.HIGH_WATERMARKS))
        self.cleaner_offsets = checkpoints.read_offsets(self.fs, self.file(checkpoints.CLEANER_OFFSETS))

    def checkpointed(self) -> list[tuple[str, dict[TopicPartition, int]]]:
        """The offsets kept for each partition, by the name of the file that they are written to."""
        return [
            (checkpoints.RECOVERY_POINTS, self.recovery_points),
            (checkpoints.HIGH_WATERMARKS, self.high_watermarks),
            (checkpoints.LOG_START_OFFSETS, self.log_start_offsets),
            (checkpoints.CLEANER_OFFSETS, self.cleaner_offsets),
        ]

    def forget(self, partition: TopicPartition) -> None:
        """The partition is here no more."""
        for _, offsets in self.checkpointed():
            offsets.pop(partition, None)

    def offsets(self, partition: TopicPartition) -> Offsets:
        return Offsets(self.log_start_offsets.get(partition, 0), self.recovery_points.get(partition, 0))

    def partition_path(self, partition: TopicPartition) -> str:
        return self.file(f"{partition[0]}-{partition[1]}")

    def futures(self) -> list[str]:
        """Folders of partitions that were being moved here."""
        return [name for name in self.fs.list_directory(self.path) if name.endswith(FUTURE_SUFFIX)]

    def list_folders(self) -> tuple[list[TopicPartition], list[str]]:
        """The partitions here, and the folders that wait to be removed."""
        partitions, deleted = [], []
        for name in self.fs.list_directory(self.path):
            if name.endswith(DELETE_SUFFIX):
                deleted.append(name)
                continue
            topic, _, number = name.rpartition("-")
            if topic and number.isdecimal():
                partitions.append((topic, int(number)))
        return partitions, deleted

    def write_clean_marker(self) -> None:
        write_file(self.fs, self.file(checkpoints.CLEAN_SHUTDOWN), b'{"version":0,"brokerEpoch":-1}')

    def release(self) -> None:
        if self._lock is not None:
            with contextlib.suppress(OSError):
                self._lock.release()
            self._lock = None


def deleted_name(partition: TopicPartition, uuid: bytes) -> str:
    """The name of a folder that is to be removed; the topic's is cut where the file system has no room for it."""
    suffix = f"-{partition[1]}.{uuid.hex()}{DELETE_SUFFIX}"
    return partition[0][: _MAX_NAME - len(suffix)] + suffix
