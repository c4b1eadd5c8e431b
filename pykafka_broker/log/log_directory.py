"""A directory of `log.dirs` (Kafka: LogDir in LogManager).

Rule: a directory belongs to one broker at a time (`.lock`), knows its own id and its cluster's (`meta.properties`), and
fails alone: once the disk has failed a directory, it is offline until the broker starts again, and the others serve on.

At a shutdown the clean marker is written last of all, after every log in the directory is synced and its checkpoints
are written. A partition that could not be recovered keeps the marker away, so that the next start recovers the
partition again.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
from collections.abc import Callable

from pykafka_broker.log import checkpoints
from pykafka_broker.log.checkpoints import is_reserved
from pykafka_broker.log.filesystem import FileLock, FileSystem, read_file, write_file
from pykafka_broker.log.flush import close_log
from pykafka_broker.log.jobs import ThreadPool, in_threads
from pykafka_broker.log.loading import Offsets
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.log.producer_state import QUICKLY_READ_BYTES
from pykafka_broker.log.scan import remedy
from pykafka_broker.protocol.enums import PartitionKey
from pykafka_broker.protocol.runtime import parse_uuid_text, uuid_text

logger = logging.getLogger(__name__)

DELETE_SUFFIX = "-delete"
FUTURE_SUFFIX = "-future"
STRAY_SUFFIX = "-stray"
METADATA_TOPIC = "__cluster_metadata"
NO_EPOCH = -1
_MAX_NAME = 255
_NODE_KEYS = {"0": "broker.id", "1": "node.id"}  # by the version of meta.properties: 0 is for brokers with ZooKeeper
_DELETED = re.compile(r"(.+)-(\d+)\.[0-9a-f]{32}-delete", re.ASCII)
_INDEX = re.compile(r"0|[1-9][0-9]*")
_CLOSING_THREADS = 16  # a disk syncs many files in little more time than one
_SEALING_THREADS = 2  # making files is the processor's work
# logs; fewer are synced file by file, since other programs may have written much to the disk
_SYNCED_TOGETHER_FROM = 100


class LogDirectoryError(Exception):
    """A directory can't be used, for a reason which the operator must know."""


class LogDirectory:
    """A directory of logs: its lock, identity and checkpoints, and whether it is online."""

    def __init__(self, fs: FileSystem, path: str, *, metadata_only: bool = False) -> None:
        self.fs = fs
        self.path = path
        self.metadata_only = metadata_only  # `metadata.log.dir`, if not among `log.dirs`
        self.offset_files = [f"{path}/{name}" for name in checkpoints.OFFSET_FILES]
        self.id = b""
        self.cluster_id = ""
        self.error: Exception | None = None  # the reason for being offline, None: online
        self.listed = False  # whether the folders in the directory were read
        self._deleted: set[PartitionKey] = set()  # partitions deleted before the start, by their folders
        self.clean = False  # whether the last broker shut down cleanly
        self.clean_epoch = NO_EPOCH  # the broker epoch of the last broker, if it shut down cleanly
        self.broker_epoch = NO_EPOCH  # of this broker
        self.whole = True  # whether every partition in it could be recovered
        self.recovered: set[PartitionKey] = set()  # partitions with unsynced records that a crash has left
        self.ready = False  # whether the recovery is over; until then neither checkpoints nor the marker are written
        self.recovery_points: dict[PartitionKey, int] = {}
        self.log_start_offsets: dict[PartitionKey, int] = {}
        self.high_watermarks: dict[PartitionKey, int] = {}
        self.cleaner_offsets: dict[PartitionKey, int] = {}
        self.checkpointed = {  # by name of the file
            checkpoints.RECOVERY_POINTS: self.recovery_points,
            checkpoints.HIGH_WATERMARKS: self.high_watermarks,
            checkpoints.LOG_START_OFFSETS: self.log_start_offsets,
            checkpoints.CLEANER_OFFSETS: self.cleaner_offsets,
        }
        self._is_empty = False  # nothing but the lock was there when its identity was first looked for
        self._identity: tuple[dict[str, str], dict[str, str]] = {}, {}  # `meta.properties` as found, and as wanted
        self._lock: FileLock | None = None

    def __repr__(self) -> str:
        return f"LogDirectory({self.path}{', offline' if self.error else ''})"

    @property
    def online(self) -> bool:
        return self.error is None

    @property
    def trouble(self) -> str:
        """Return the path, and the reason for being offline, in words."""
        error = self.error
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        return f"{self.path}: {reason}"

    def file(self, name: str) -> str:
        return f"{self.path}/{name}"

    def acquire(self) -> None:
        """Lock the directory. Raises LogDirectoryError if another broker has it."""
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
        """Check `meta.properties`; `write_identity` writes missing keys later.

        Raises:
            LogDirectoryError: the file is of another cluster, another node or another version.
        """
        path = self.file(checkpoints.META_PROPERTIES)
        properties = self._properties()
        version = properties.get("version", "none" if properties else "1")
        node_key = _NODE_KEYS.get(version)
        if node_key is None:
            raise LogDirectoryError(f"{path} is of version {version}, and only {' and '.join(_NODE_KEYS)} are known")
        self.cluster_id = properties.get("cluster.id", cluster_id)
        if cluster_id and self.cluster_id != cluster_id:
            raise LogDirectoryError(
                f"{path} is of cluster {self.cluster_id}, not of {cluster_id}: "
                f"start with CLUSTER_ID={self.cluster_id}, or with an empty directory for {cluster_id}"
            )
        found_node = properties.get(node_key, str(node_id))
        if found_node != str(node_id):
            raise LogDirectoryError(f"{path} is of node {found_node}, but node.id is {node_id}")
        self.id = _directory_id(path, properties.get("directory.id"), new_uuid)
        wanted = {
            "cluster.id": self.cluster_id,
            "directory.id": uuid_text(self.id),
            node_key: str(node_id),
            "version": version,
        }
        self._identity = properties, wanted

    @property
    def is_of_zookeeper(self) -> bool:
        """Return whether a Kafka with ZooKeeper wrote the directory, whose metadata are not on its disks."""
        return self._identity[0].get("version") == "0"

    def write_identity(self) -> None:
        found, wanted = self._identity
        if found != wanted:
            path = self.file(checkpoints.META_PROPERTIES)
            if self._read_properties() != found:
                raise LogDirectoryError(f"{path} has just been written: log.dirs name one directory twice")
            checkpoints.write_properties(self.fs, path, wanted)

    def read_cluster_id(self) -> str:
        """Return the cluster id in an existing `meta.properties`, or nothing."""
        return self._properties().get("cluster.id", "")

    def _properties(self) -> dict[str, str]:
        return {} if self._is_empty else self._read_properties()

    def _read_properties(self) -> dict[str, str]:
        path = self.file(checkpoints.META_PROPERTIES)
        try:
            return checkpoints.read_properties(self.fs, path)
        except FileNotFoundError:
            self._is_empty = self.fs.list_directory(self.path) == [checkpoints.LOCK]
            return {}
        except ValueError as error:
            raise LogDirectoryError(f"{path} is damaged: {error}; {remedy(self.path)}") from None

    def read_state(self) -> None:
        """Read the checkpoints, and remove the marker of the clean shutdown, since a later crash must show."""
        if self._is_empty:
            return
        marker = self.file(checkpoints.CLEAN_SHUTDOWN)
        self.clean = self.fs.exists(marker)
        if self.clean:
            self.clean_epoch = _epoch_in(read_file(self.fs, marker))
            self.fs.remove(marker)
            self.fs.sync_directory(self.path)  # otherwise a power cut brings the marker back
        for name, offsets in self.checkpointed.items():
            offsets.update(self._offsets_in(name))

    def _offsets_in(self, name: str) -> dict[PartitionKey, int]:
        """Return the offsets in a checkpoint; a damaged file is logged and counts as empty: recovery takes longer."""
        try:
            return checkpoints.checked_offsets(self.fs, self.file(name))
        except ValueError as error:
            logger.warning("%s; the file is ignored and rewritten", error)
            return {}

    def forget(self, partition: PartitionKey) -> None:
        """Forget the offsets of a partition, which has left the directory."""
        for offsets in self.checkpointed.values():
            offsets.pop(partition, None)

    def forget_deleted(self) -> None:
        """Forget the offsets of partitions deleted before the start, which older checkpoints may still have."""
        while self._deleted:
            self.forget(self._deleted.pop())

    def offsets(self, partition: PartitionKey) -> Offsets:
        return Offsets(self.log_start_offsets.get(partition, 0), self.recovery_points.get(partition, 0))

    def partition_path(self, partition: PartitionKey) -> str:
        return self.file(f"{partition[0]}-{partition[1]}")

    def size_of(self, partition: PartitionKey) -> int:
        """Return the bytes in the segments of a partition."""
        path = self.partition_path(partition)
        try:
            names = self.fs.list_directory(path)
            return sum(self.fs.stat(f"{path}/{name}").size for name in names if name.endswith(".log"))
        except FileNotFoundError:
            return 0  # the folder was taken away; a load of the log reports that

    def futures(self) -> list[str]:
        """Return the folders of unfinished moves into the directory."""
        return [name for name in self.fs.list_folders(self.path) if name.endswith(FUTURE_SUFFIX)]

    def list_folders(self) -> tuple[list[PartitionKey], list[str]]:
        """Return the partitions in the directory, and the folders waiting to be removed; other names are not ours."""
        partitions, deleted = [], []
        for name in () if self._is_empty else self.fs.list_folders(self.path):
            if gone := _DELETED.fullmatch(name):
                deleted.append(name)
                self._deleted.add((gone[1], int(gone[2])))
                continue
            topic, _, index = name.rpartition("-")
            if topic and _INDEX.fullmatch(index):
                partitions.append((topic, int(index)))
        self.listed = True
        self._deleted.difference_update(partitions)
        return partitions, deleted

    def release(self) -> None:
        if self._lock is not None:
            with contextlib.suppress(OSError):
                self._lock.release()
            self._lock = None


def write_clean_marker(fs: FileSystem, path: str, broker_epoch: int = NO_EPOCH, *, sync: bool = True) -> None:
    """Mark a directory as shut down cleanly by a broker with the epoch."""
    marker = b'{"version":0,"brokerEpoch":%d}' % broker_epoch
    write_file(fs, f"{path}/{checkpoints.CLEAN_SHUTDOWN}", marker, sync=sync)


def _epoch_in(marker: bytes) -> int:
    """Return the broker epoch in a clean marker; markers of earlier Kafkas have none."""
    try:
        epoch = json.loads(marker)["brokerEpoch"]
    except (ValueError, LookupError, TypeError):
        return NO_EPOCH
    return epoch if isinstance(epoch, int) else NO_EPOCH


def _directory_id(path: str, known: str | None, new_uuid: Callable[[], bytes]) -> bytes:
    """Return the id in `meta.properties`, or a new id outside the reserved range (KIP-858)."""
    if known:
        try:
            found = parse_uuid_text(known)
        except ValueError as error:
            reason = f"{path} is damaged: directory.id: {error}"
            raise LogDirectoryError(f"{reason}; {remedy(os.path.dirname(path))}") from None
        if is_reserved(found):
            raise LogDirectoryError(f"{path} has the directory.id {known}, which is reserved")
        return found
    while is_reserved(made := new_uuid()):
        pass
    return made


def future_name(partition: PartitionKey, uuid: bytes) -> str:
    """Return the name for the folder of a log that is being moved into its directory."""
    return f"{partition[0]}-{partition[1]}.{uuid.hex()}{FUTURE_SUFFIX}"


def may_move(partition: PartitionKey) -> bool:
    """Return whether the topic's name leaves room in a file name for the folder of a move (KAFKA-4893)."""
    return len(future_name(partition, bytes(16))) <= _MAX_NAME


def aside_name(partition: PartitionKey, uuid: bytes, suffix: str = DELETE_SUFFIX) -> str:
    """Return the name for a folder to be removed, or with `STRAY_SUFFIX` to be kept for the operator.

    The topic's name is cut to the length of a file name.
    """
    ending = f"-{partition[1]}.{uuid.hex()}{suffix}"
    return partition[0][: _MAX_NAME - len(ending)] + ending


# -- clean shutdown


def close_directory(
    directory: LogDirectory,
    logs: list[PartitionLog],
    thread_pool: ThreadPool | None,
    write_checkpoints: Callable[[LogDirectory], None],
    now: int,
) -> None:
    """Close the loaded logs of a directory, to which nothing is written any more.

    Raises:
        OSError: a sync or a write failed. The directory has no marker then, and its next start recovers it.
    """
    _sync_together(directory, [log for log in logs if log.is_unsynced], thread_pool, now)
    in_threads(thread_pool, _CLOSING_THREADS, lambda log: close_log(log, now), logs)
    if directory.online:
        write_checkpoints(directory)
        if directory.whole:
            write_clean_marker(directory.fs, directory.path, directory.broker_epoch)


def _sync_together(directory: LogDirectory, logs: list[PartitionLog], thread_pool: ThreadPool | None, now: int) -> None:
    """Sync many logs with a single call, where the system can, instead of half a dozen files of each."""
    if len(logs) < _SYNCED_TOGETHER_FROM:
        return
    fs = directory.fs
    in_threads(thread_pool, _SEALING_THREADS, _seal_one_of_many, logs)
    if fs.sync_all(directory.path):
        device = fs.stat(directory.path).device
        for log in logs:
            if fs.stat(log.directory).device == device:  # another disk may be mounted there
                log.unsynced.clear(log)
                log.synced_to(log.log_end_offset, now)


def _seal_one_of_many(log: PartitionLog) -> None:
    """Seal a log, without a snapshot if the log has few records and no producers.

    Making the file would be most of the work, and there may be tens of thousands of logs. Without a snapshot the log is
    read when it is opened next; Kafka takes it that there were no producers, which is right.
    """
    producers = log.producers
    if not (producers.entries or producers.snapshot_offset) and log.segments.size_bytes <= QUICKLY_READ_BYTES:
        producers.snapshot_offset = log.log_end_offset
    log.seal()
