"""Logs that a broker finds at its start and that are not its own, where other nodes keep the metadata.

Rule: a log belongs here if the metadata names its topic by the id that stands in its folder, and this node among the
replicas. All others are what was deleted, or given to others, while the broker or one of its disks was away: they are
put aside under a name that ends in `-stray`, and never served. A folder of an earlier topic is no rival of a log.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pykafka_broker.cluster.topic_names import CLUSTER_METADATA
from pykafka_broker.log.checkpoints import PARTITION_METADATA, read_partition_metadata, same_but_damaged

if TYPE_CHECKING:
    from pykafka_broker.broker.node import Node
    from pykafka_broker.log.log_directory import LogDirectory, TopicPartition

logger = logging.getLogger(__name__)


def put_strays_aside(node: Node) -> None:
    """Put the logs that are not this node's aside. Called before any log of clients' is used."""
    strays: dict[LogDirectory, list[TopicPartition]] = {}
    for key, directory in node.logs.copies():
        if key[0] == CLUSTER_METADATA or not directory.online:
            continue
        try:
            is_own = _is_own(node, key, directory)
        except OSError as error:
            node.logs.directory_failed(directory, error)
        else:
            if not is_own:
                strays.setdefault(directory, []).append(key)
    for directory, keys in strays.items():
        try:
            node.logs.drop_checkpoints(directory, *keys)
        except OSError as error:
            node.logs.directory_failed(directory, error)
        for key in keys:
            if directory.online:
                node.logs.quarantine(key, directory)


def _is_own(node: Node, key: TopicPartition, directory: LogDirectory) -> bool:
    partition = node.image.partition(*key)
    if partition is None or node.id not in partition.replicas:
        return False
    path = f"{directory.partition_path(key)}/{PARTITION_METADATA}"
    known, wanted = read_partition_metadata(directory.fs, path), node.image.topic_id(key[0])
    return known is None or wanted is None or same_but_damaged(known, wanted)
