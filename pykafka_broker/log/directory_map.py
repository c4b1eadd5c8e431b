"""The log directories of a broker: how they are opened, which partition is in which, and which takes a new partition.

Rule: a log is made only where there can be none already. A directory that could not be read may hold any partition. So
a partition that may be in it is not made anew elsewhere, and is out of service until the directory is back. A partition
that is in two directories belongs to the one that the metadata names (KIP-858). The copy in the other directory is put
aside and kept.

At a start every directory is locked and read before anything in one is changed, and a start that is refused has changed
nothing. A fault of one directory takes that directory offline; a fault of one partition takes that partition out of
service. A fault that may be the operator's mistake (another cluster, another broker, one id twice, no metadata log) and
damaged metadata end the start.

Only the manager reads this module: which directory has which partition is a concept of its own, and the manager is
long.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Collection

from pykafka_broker.config.broker import BrokerConfig
from pykafka_broker.errors import ApiError
from pykafka_broker.log.checkpoints import (
    LOST,
    MOVED,
    PARTITION_METADATA,
    UNASSIGNED,
    is_reserved,
    read_partition_metadata,
)
from pykafka_broker.log.filesystem import FileSystem
from pykafka_broker.log.log_directory import (
    METADATA_TOPIC,
    STRAY_SUFFIX,
    LogDirectory,
    LogDirectoryError,
    aside_name,
)
from pykafka_broker.protocol.enums import PartitionKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.runtime import uuid_text

logger = logging.getLogger(__name__)

_METADATA = METADATA_TOPIC, 0


class DirectoryMap:
    def __init__(
        self,
        directories: list[LogDirectory],
        cordoned: Callable[[], Collection[str]],
        directory_failed: Callable[[LogDirectory, OSError], object],
    ) -> None:
        """Make an empty map.

        Args:
            directories: the broker's log directories; the list may grow.
            cordoned: returns the paths of directories that take new partitions only when they are named (KIP-1066).
            directory_failed: is called with a directory that refused to put a copy aside.
        """
        self.directories = directories
        self._cordoned = cordoned
        self._directory_failed = directory_failed
        self.where: dict[PartitionKey, LogDirectory] = {}
        # Out of service: there are copies in these directories, and which of them is the log is unknown.
        self.ambiguous: dict[PartitionKey, list[LogDirectory]] = {}
        # Out of service, with the topic's id: there is an unfinished copy without an original. Where another replica
        # has every record, the entry goes, the log is made anew, and the next start removes the copy.
        self.awaited: dict[PartitionKey, bytes] = {}
        self.wanted: dict[PartitionKey, LogDirectory] = {}  # named by an operator for logs that are still to be made
        self._counts: Counter[str] = Counter()  # number of partitions by the directory's path

    def put(self, partition: PartitionKey, directory: LogDirectory) -> None:
        """Note the directory which has the log from now on."""
        self.remove(partition)
        self.wanted.pop(partition, None)
        self.where[partition] = directory
        self._counts[directory.path] += 1

    def remove(self, partition: PartitionKey) -> LogDirectory | None:
        """Forget a log, and return the directory which had the log."""
        self.awaited.pop(partition, None)
        directory = self.where.pop(partition, None)
        if directory is not None:
            self._counts[directory.path] -= 1
        return directory

    def remove_everywhere(self, partition: PartitionKey) -> list[LogDirectory]:
        """Forget a deleted partition, and return every directory with a folder of the partition, ambiguous or not."""
        self.wanted.pop(partition, None)
        held, directory = self.ambiguous.pop(partition, []), self.remove(partition)
        return held if directory is None else [*held, directory]

    def forget_copy(self, partition: PartitionKey, directory: LogDirectory) -> None:
        """Forget the folder in `directory`, which is not the partition's log; a single other copy becomes the log."""
        others = [each for each in self.ambiguous.pop(partition, []) if each is not directory]
        if len(others) > 1:
            self.ambiguous[partition] = others
        elif others:
            self.put(partition, others[0])
        else:
            self.remove(partition)

    def has(self, partition: PartitionKey) -> bool:
        """Return whether a directory has a folder of the partition."""
        return partition in self.where or partition in self.ambiguous

    def add(self, partition: PartitionKey, directory: LogDirectory) -> None:
        """Note a folder of the partition. Two folders are ambiguous until `resolve_ambiguous`."""
        held = self.ambiguous.get(partition)
        if held is not None:
            held.append(directory)
            return
        other = self.where.get(partition)
        if other is None:
            self.put(partition, directory)
        else:
            self.remove(partition)
            self.ambiguous[partition] = [other, directory]

    def in_directory(self, directory: LogDirectory) -> list[PartitionKey]:
        """Return all partitions with a folder in `directory`, ambiguous or not."""
        inside = [partition for partition, where in self.where.items() if where is directory]
        return inside + [partition for partition, held in self.ambiguous.items() if directory in held]

    @property
    def unreadable(self) -> list[LogDirectory]:
        """Return the unread directories, in which any partition may be."""
        return [directory for directory in self.directories if not directory.listed]

    def is_gone(self, directory_id: bytes) -> bool:
        """Return whether a directory with the id existed and can't be any of the broker's directories; LOST is none."""
        if self.unreadable or (is_reserved(directory_id) and directory_id != LOST):
            return False
        return all(each.id != directory_id for each in self.directories)

    def holder(self, partition: PartitionKey, assigned: bytes) -> bytes:
        """Return the id of the directory with the log.

        Args:
            assigned: the directory id in the metadata.

        Returns:
            LOST if the directory is offline or unknown, UNASSIGNED if there is no log and it can be made.
        """
        directory = self.where.get(partition)
        if directory is not None:
            return directory.id if directory.online else LOST
        if partition in self.ambiguous or partition in self.awaited or assigned == LOST:
            return LOST
        if not is_reserved(assigned) and not any(each.id == assigned for each in self.directories if each.online):
            return LOST
        return UNASSIGNED

    def resolve_ambiguous(
        self,
        new_uuid: Callable[[], bytes],
        assigned: Callable[[PartitionKey], bytes | None],
        topic_id: Callable[[str], bytes | None],
    ) -> None:
        """Decide by the directory ids in the metadata which of several copies is the log."""
        self.awaited = {key: known for key, known in self.awaited.items() if topic_id(key[0]) == known}
        for partition, held in list(self.ambiguous.items()):
            wanted = assigned(partition)
            chosen = next((directory for directory in held if directory.id == wanted), None)
            if chosen is not None:
                self._prefer(partition, chosen, held, new_uuid)
            elif partition != _METADATA:
                places = " and ".join(directory.path for directory in held)
                logger.error(
                    "%s-%d is in %s, and the metadata names none of them. It is out of service until there is only one",
                    *partition,
                    places,
                )
        if self.unreadable:
            self._withhold_ambiguous(assigned)

    def _prefer(
        self, partition: PartitionKey, chosen: LogDirectory, held: list[LogDirectory], new_uuid: Callable[[], bytes]
    ) -> None:
        del self.ambiguous[partition]
        self.put(partition, chosen)
        for directory in held:
            if directory is chosen or not directory.online:
                continue
            try:
                aside = quarantine(partition, directory, new_uuid)
            except OSError as error:  # the next start tries again
                self._directory_failed(directory, error)
            else:
                logger.warning("%s-%d is in %s; put aside in %s: %s", *partition, chosen.path, directory.path, aside)

    def _withhold_ambiguous(self, assigned: Callable[[PartitionKey], bytes | None]) -> None:
        """Withhold logs which the metadata places in an offline directory, where a better copy may be."""
        online = {directory.id for directory in self.directories if directory.online}
        for partition, directory in list(self.where.items()):
            wanted = assigned(partition)
            if wanted is not None and not is_reserved(wanted) and wanted not in online and directory.online:
                self.remove(partition)
                self.ambiguous[partition] = [directory]
                logger.error(
                    "%s-%d is in %s, but the metadata names another directory; it is out of service",
                    *partition,
                    directory.path,
                )

    def choose(self, partition: PartitionKey, assigned: bytes, *, new: bool) -> LogDirectory:
        """Return the directory for a new log: the assigned directory, else the wanted one, else the one with the fewest
        partitions.

        Cordoned directories are passed over (KIP-1066).

        Args:
            new: False for a log that may have been made before. It may be in any directory, since a crash may have come
                before the metadata learned of a move.

        Raises:
            ApiError: KAFKA_STORAGE_ERROR, the log can't be made for now.
        """
        if not new and self.unreadable:
            paths = ", ".join(directory.path for directory in self.unreadable)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"The log may be in {paths}, which can't be read")
        if partition in self.awaited:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "There is only an unfinished copy of the log")
        online = [directory for directory in self.directories if directory.online]
        for directory in online:
            if directory.id == assigned and partition not in self.ambiguous:
                return directory
        if not online or not is_reserved(assigned) or assigned == LOST or partition in self.ambiguous:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "The log directory of the partition is not online")
        online = [directory for directory in online if not directory.metadata_only]
        if not online:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "None of the log directories is online")
        # All are cordoned, but the assignment was made by hand or before: Kafka uses the first directory too.
        takers = [directory for directory in online if not self.is_cordoned(directory)] or online[:1]
        wanted = self.wanted.get(partition)
        return wanted if wanted in takers else min(takers, key=lambda directory: self._counts[directory.path])

    def is_cordoned(self, directory: LogDirectory) -> bool:
        return directory.path in self._cordoned()

    def of_metadata_log(self, wanted: str, *, may_begin_anew: bool = False) -> LogDirectory:
        """Return the directory of `__cluster_metadata-0`: where the log is found, or else `wanted`.

        Args:
            may_begin_anew: whether other nodes keep the metadata log too, so that a new copy may be fetched from them.

        Raises:
            LogDirectoryError: a new log might begin a second history.
        """
        held = self.ambiguous.get(_METADATA)
        if held is not None:
            places = " and in ".join(directory.path for directory in held)
            raise LogDirectoryError(f"The metadata log {METADATA_TOPIC}-0 is in {places}: remove the older one")
        directory = self.where.get(_METADATA)
        if directory is None:
            path = os.path.abspath(wanted)
            directory = next(each for each in self.directories if os.path.abspath(each.path) == path)
            if self.unreadable and not may_begin_anew:
                reasons = "; ".join(each.trouble for each in self.unreadable)
                raise LogDirectoryError(f"There is no metadata log. It may be in what can't be read: {reasons}")
            if (self.where or self.ambiguous) and not may_begin_anew:
                of_zookeeper = next((each.path for each in self.directories if each.is_of_zookeeper), None)
                if of_zookeeper is not None:
                    raise LogDirectoryError(
                        f"{of_zookeeper} was written by a Kafka with ZooKeeper, which kept its metadata there: "
                        "Kafka 3.9 migrates such data to KRaft, and pykafka-broker mirror copies topics"
                    )
                raise LogDirectoryError(
                    f"There are partitions, but no metadata log {METADATA_TOPIC}-0 that says what they are: "
                    "is a directory missing from log.dirs, or not mounted?"
                )
        if not directory.online:
            raise LogDirectoryError(f"The metadata log can't be read: {directory.trouble}")
        return directory


def quarantine(partition: PartitionKey, directory: LogDirectory, new_uuid: Callable[[], bytes]) -> str:
    """Keep a folder other than the partition's log under a new name, and return the name.

    Raises:
        OSError: the disk refused.
    """
    aside = aside_name(partition, new_uuid(), STRAY_SUFFIX)
    directory.fs.rename(directory.partition_path(partition), directory.file(aside))
    directory.fs.sync_directory(directory.path)
    directory.forget(partition)
    return aside


# -- start


class DirectoryOpener:
    """The opening of the directories of `log.dirs` at a start, step by step.

    cluster_id: the cluster of the directories, known after `open`.
    """

    def __init__(
        self,
        directory_map: DirectoryMap,
        config: BrokerConfig,
        new_uuid: Callable[[], bytes],
        attempt: Callable[..., None],
        cluster_id: str,
        *,
        may_found_cluster: bool,
    ) -> None:
        """Make the opener of the directories of `config`.

        Args:
            attempt: calls its second argument with the rest, and takes its first argument, a directory, offline if the
                disk fails.
            cluster_id: the cluster that the directories must belong to; empty for the one that they name, or a new one.
            may_found_cluster: whether directories without a cluster may begin a new one.
        """
        self.cluster_id = cluster_id
        self._map = directory_map
        self._config = config
        self._new_uuid = new_uuid
        self._attempt = attempt
        self._may_found_cluster = may_found_cluster
        self._deleted: list[str] = []

    def open(self, fs: FileSystem) -> list[str]:
        """Lock, identify and list every directory, and return the folders to remove."""
        # absolute, as Kafka's tools name them
        directories = [LogDirectory(fs, os.path.abspath(path)) for path in self._config.data_dirs]
        wanted = self._config.metadata_log_dir
        if wanted and os.path.abspath(wanted) not in map(os.path.abspath, self._config.data_dirs):
            directories.append(LogDirectory(fs, wanted, metadata_only=True))
        self._map.directories += directories
        for directory in directories:
            self._attempt(directory, directory.acquire)
        self._in_each(self._learn_cluster_id, self._identify, self._list)
        return self._deleted

    def recover(self, recover: Callable[[LogDirectory], None]) -> None:
        """Finish interrupted moves, and call `recover` for every directory."""
        self._in_each(self._read, self._resolve_moves, recover)

    def _online(self) -> list[LogDirectory]:
        return [directory for directory in self._map.directories if directory.online]

    def _in_each(self, *steps: Callable[[LogDirectory], None]) -> None:
        """Run the steps in turn, each in every online directory."""
        for step in steps:
            for directory in self._online():
                self._attempt(directory, step, directory)
        if not self._online():
            reasons = "; ".join(directory.trouble for directory in self._map.directories)
            raise LogDirectoryError(f"None of the log directories can be used: {reasons}")

    def _learn_cluster_id(self, directory: LogDirectory) -> None:
        self.cluster_id = self.cluster_id or directory.read_cluster_id()

    def _identify(self, directory: LogDirectory) -> None:
        if not self.cluster_id and not self._may_found_cluster:
            raise LogDirectoryError(
                f"{directory.path} is of no cluster yet: `pykafka-broker format -c FILE -t CLUSTER_ID` says of which"
            )
        self.cluster_id = self.cluster_id or uuid_text(self._new_uuid())
        directory.identify(self._config.node, self.cluster_id, self._new_uuid)
        for other in self._online():
            if other is not directory and other.id == directory.id:
                raise LogDirectoryError(f"{other.path} and {directory.path} have the same directory.id")

    def _list(self, directory: LogDirectory) -> None:
        partitions, deleted = directory.list_folders()
        self._deleted += map(directory.file, deleted)
        for partition in partitions:
            self._map.add(partition, directory)

    def _read(self, directory: LogDirectory) -> None:
        directory.write_identity()
        directory.read_state()

    def _resolve_moves(self, directory: LogDirectory) -> None:
        for name in directory.futures():
            key = _resolve_future(self._map, directory, name)
            if key is not None:
                self._map.put(key, directory)


def _resolve_future(directories: DirectoryMap, directory: LogDirectory, name: str) -> PartitionKey | None:
    """Finish or undo a move between directories after a crash, and return the partition if the copy is the log now.

    A copy whose original is there is removed. A whole copy takes the place of a missing original. While the original
    may be in a directory that can't be read, the copy is left alone.
    """
    fs, path = directory.fs, directory.file(name)
    topic, _, partition = name.rpartition(".")[0].rpartition("-")
    if not topic or not partition.isdecimal():
        return None
    if directories.has((topic, int(partition))):
        fs.remove_tree(path)
        return None
    key = topic, int(partition)
    if directories.unreadable or not fs.exists(f"{path}/{MOVED}"):
        logger.warning("%s is left alone: there may be a newer %s-%s elsewhere", path, topic, partition)
        topic_id = read_partition_metadata(fs, f"{path}/{PARTITION_METADATA}")
        if topic_id is not None:
            directories.awaited[key] = topic_id
        return None
    fs.rename(path, directory.partition_path(key))
    fs.sync_directory(directory.path)
    return key
