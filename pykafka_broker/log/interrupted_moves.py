"""Moves of partitions to another directory that a crash came into.

Rule: a copy is removed where its original is there, and takes its place where that is gone and the copy is whole. What
can't be decided is left alone.
"""

from __future__ import annotations

import logging

from pykafka_broker.log.checkpoints import MOVED, PARTITION_METADATA, read_partition_metadata
from pykafka_broker.log.directory_map import DirectoryMap
from pykafka_broker.log.log_directory import LogDirectory, TopicPartition

logger = logging.getLogger(__name__)


def resolve_future(directories: DirectoryMap, directory: LogDirectory, name: str) -> TopicPartition | None:
    """After a crash: a copy whose original is there is removed, and a whole one whose original is gone takes its place.
    Says which partition has. While the original may be in a directory that can't be read, the copy waits."""
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
