"""Opening the directories of `log.dirs` at a start.

Rule: every directory is locked and known before anything in one is changed, and a start that is refused has changed
nothing. A fault of one directory takes that directory offline; a fault of one partition takes that partition out of
service. A fault that may be the operator's mistake (another cluster, another broker, one id twice, no metadata log) and
damaged metadata end the start.

Apart from the manager, its only reader: the steps of a start are read once and in their order.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from pykafka_broker.log.checkpoints import MOVED, PARTITION_METADATA, id_text, read_partition_metadata
from pykafka_broker.log.directory_map import DirectoryMap
from pykafka_broker.log.log_directory import METADATA_TOPIC, LogDirectory, LogDirectoryError, TopicPartition
from pykafka_broker.log.pool import in_threads
from pykafka_broker.log.recovery import FolderRecovery, recover_folder
from pykafka_broker.log.scan import DamagedLog, remedy

if TYPE_CHECKING:
    from pykafka_broker.log.manager import LogManager

logger = logging.getLogger(__name__)


def open_directories(manager: LogManager, with_metadata: bool) -> None:
    """Lock, identify and recover every directory.

    Args:
        with_metadata: whether the metadata log must be there wherever there are partitions.
    """
    # as Kafka's tools name them, wherever the broker was started
    directories = [LogDirectory(manager.fs, os.path.abspath(path)) for path in manager.config.data_dirs]
    wanted = manager.config.metadata_log_dir
    if wanted and os.path.abspath(wanted) not in map(os.path.abspath, manager.config.data_dirs):
        directories.append(LogDirectory(manager.fs, wanted, metadata_only=True))
    manager.directories += directories
    for directory in directories:
        manager.attempt(directory, directory.take)
    _in_each(manager, _learn_cluster_id, _identify, _list)
    if with_metadata:
        manager.directory_of_metadata_log()
    _in_each(manager, _open, _resolve_moves, _recover)


def _in_each(manager: LogManager, *steps: Callable[[LogManager, LogDirectory], None]) -> None:
    """Run one step after the other, each in every directory that is online."""
    for step in steps:
        for directory in manager.online():
            manager.attempt(directory, step, manager, directory)
    if not manager.online():
        reasons = "; ".join(directory.trouble for directory in manager.directories)
        raise LogDirectoryError(f"None of the log directories can be used: {reasons}")


def _learn_cluster_id(manager: LogManager, directory: LogDirectory) -> None:
    manager.cluster_id = manager.cluster_id or directory.read_cluster_id()


def _identify(manager: LogManager, directory: LogDirectory) -> None:
    if manager.metadata_is_elsewhere and not manager.cluster_id:
        raise LogDirectoryError(
            f"{directory.path} is of no cluster yet: `pykafka-broker format -c FILE -t CLUSTER_ID` says of which"
        )
    manager.cluster_id = manager.cluster_id or id_text(manager.new_uuid())
    directory.identify(manager.config.node, manager.cluster_id, manager.new_uuid)
    for other in manager.online():
        if other is not directory and other.id == directory.id:
            raise LogDirectoryError(f"{other.path} and {directory.path} have the same directory.id")


def _list(manager: LogManager, directory: LogDirectory) -> None:
    partitions, deleted = directory.list_folders()
    for name in deleted:
        manager.remove_folder_later(directory.file(name))
    for partition in partitions:
        manager.directory_map.found(partition, directory)


def _open(manager: LogManager, directory: LogDirectory) -> None:
    directory.write_identity()
    directory.read_state()


def _resolve_moves(manager: LogManager, directory: LogDirectory) -> None:
    for name in directory.futures():
        key = _resolve_future(manager.directory_map, directory, name)
        if key is not None:
            manager.directory_map.put(key, directory)


def _resolve_future(directories: DirectoryMap, directory: LogDirectory, name: str) -> TopicPartition | None:
    """Finish or undo a move to another directory that a crash has interrupted; return the partition whose copy has
    taken the original's place, or None.

    A copy whose original is there is removed. A whole copy takes the place of an original that is gone. While the
    original may be in a directory that can't be read, the copy is left alone.
    """
    fs, path = directory.fs, directory.file(name)
    topic, _, partition = name.rpartition(".")[0].rpartition("-")
    if not topic or not partition.isdecimal():
        return None
    if directories.has((topic, int(partition))):
        fs.remove_tree(path)
        return None
    key = topic, int(partition)
    if directories.unseen or not fs.exists(f"{path}/{MOVED}"):
        logger.warning("%s is left alone: it can't be told whether there is a newer %s-%s", path, topic, partition)
        topic_id = read_partition_metadata(fs, f"{path}/{PARTITION_METADATA}")
        if topic_id is not None:
            directories.await_whole(key, topic_id)
        return None
    fs.rename(path, directory.partition_path(key))
    fs.sync_directory(directory.path)
    return key


def _recover(manager: LogManager, directory: LogDirectory) -> None:
    """Recover every partition, several at a time if there are threads. Topics' own settings aren't known yet; of the
    broker's settings only the density of indexes matters here.
    """
    config, files, wall = manager.config.topic_defaults, manager.files, manager.clock.wall

    def recover(partition: TopicPartition) -> None:
        topic, index = partition
        path, offsets = directory.partition_path(partition), directory.offsets(partition)
        try:
            if topic == METADATA_TOPIC:
                FolderRecovery(files, path, f"{topic}-{index}", config, offsets, wall, contiguous=True).run()
            else:
                recover_folder(files, path, f"{topic}-{index}", config, offsets, wall)
        except DamagedLog as damage:
            if topic == METADATA_TOPIC:
                raise LogDirectoryError(f"{damage}; {remedy(directory.path)}") from damage
            directory.whole = False
            manager.out_of_service(partition, damage)

    if not directory.clean:
        partitions = manager.directory_map.in_directory(directory)
        in_threads(manager.thread_pool, manager.config.num_recovery_threads_per_data_dir, recover, partitions)
    directory.ready = True
