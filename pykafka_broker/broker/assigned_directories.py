"""Tells the controller which log directory of this node has which replica (KIP-858), where that is another node.

Rule: one request is under way, with all that is known by then; what the controller does not take is told again. With
one directory it knows by itself, until another disk is in its place. Which directories are offline or cordoned is told
by heartbeats.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from pykafka_broker.broker.observed_metadata import ObservedMetadata
from pykafka_broker.cluster.image import MetadataDelta, PartitionImage, TopicImage
from pykafka_broker.log.checkpoints import is_reserved
from pykafka_broker.peers import LinkError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)
from pykafka_broker.protocol.messages.assign_replicas_to_dirs_response import AssignReplicasToDirsResponse
from pykafka_broker.protocol.runtime import Message

if TYPE_CHECKING:
    from pykafka_broker.broker.node import Node
    from pykafka_broker.log.flush import Waiter
    from pykafka_broker.log.log_directory import LogDirectory, TopicPartition

logger = logging.getLogger(__name__)

_MOST = 2_250  # replicas in a request
_TIMEOUT_MS = 10_000
_RETRY_MS = 500
_GONE = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)
_Replica = tuple[bytes, int]  # topic id and partition


class AssignedDirectories:
    """Of one node. `on_change`: other directories are offline or cordoned than before."""

    def __init__(self, node: Node, metadata: ObservedMetadata) -> None:
        self.on_change: Callable[[], None] = _nobody_cares
        self._node = node
        self._metadata = metadata
        self._wanted: dict[_Replica, bytes] = {}  # directory ids that are to be told
        self._waiters: dict[_Replica, Waiter] = {}
        self._asking = False
        self._started = False
        self._due: int | None = None

    # -- what there is to tell

    def start(self) -> None:
        """The logs are there."""
        self._started = True
        self._node.replicas.on_made = self.tell_place
        for topic in self._node.image.topics.values():
            self._compare((topic, partition) for partition in topic.partitions.values())
        self._soon()

    def follow(self, delta: MetadataDelta) -> None:
        if self._started and self._has_several:
            self._compare(delta.new_partitions)
            self._compare(delta.changed_partitions)
            self._soon()

    def changed(self) -> None:
        self.on_change()

    def tell_place(self, key: TopicPartition) -> None:
        """The log was moved or made, or stays where it is after all."""
        if not self._started:
            return
        topic = self._node.image.topics.get(key[0])
        partition = None if topic is None else topic.partitions.get(key[1])
        if topic is not None and partition is not None:
            self._compare([(topic, partition)])
            self._soon()

    def announce_move(self, key: TopicPartition, target: LogDirectory, waiter: Waiter) -> None:
        """The log is going to `target`; `waiter` hears when the controller knows it, or ENOENT if it is no replica of
        this node any more.
        """
        if not self._started:
            waiter(None)
            return
        topic = self._node.image.topics.get(key[0])
        if topic is None:
            waiter(OSError(errno.ENOENT, "there is no such topic any more"))
            return
        replica = topic.id, key[1]
        self._wanted[replica] = target.id
        self._waiters[replica] = waiter
        self._soon()

    @property
    def _has_several(self) -> bool:
        return len(self._node.logs.partition_directories) > 1

    def _compare(self, partitions: Iterable[tuple[TopicImage, PartitionImage]]) -> None:
        node_id, where, has_several = self._node.id, self._node.logs.directory_of, self._has_several
        for topic, partition in partitions:
            if node_id not in partition.replicas or (topic.id, partition.partition) in self._waiters:
                continue
            told = partition.directory_of(node_id)
            if not has_several and is_reserved(told):
                continue
            directory = where((topic.name, partition.partition))
            if directory is None or not directory.online or told == directory.id:
                self._wanted.pop((topic.id, partition.partition), None)
            else:
                self._wanted[topic.id, partition.partition] = directory.id

    # -- telling

    def next_deadline(self) -> int | None:
        return None if self._asking or not self._wanted else self._due

    def on_deadline(self, now: int) -> None:
        self._due = None
        self._send()

    def _soon(self) -> None:
        """At the next turn, with all that is known by then."""
        if self._wanted and self._due is None:
            self._due = self._node.clock.now

    def _send(self) -> None:
        if self._asking or not self._wanted:
            return
        self._asking = True
        told = dict(list(self._wanted.items())[:_MOST])
        directories: dict[bytes, dict[bytes, list[PartitionData]]] = {}
        for (topic_id, number), directory_id in told.items():
            directories.setdefault(directory_id, {}).setdefault(topic_id, []).append(PartitionData(number))
        request = AssignReplicasToDirsRequest(
            self._node.id,
            self._metadata.broker_epoch,
            [
                DirectoryData(directory_id, [TopicData(topic_id, numbers) for topic_id, numbers in topics.items()])
                for directory_id, topics in directories.items()
            ],
        )
        self._metadata.ask(request, lambda reply: self._answered(told, reply), _TIMEOUT_MS)

    def _answered(self, told: dict[_Replica, bytes], reply: Message | LinkError) -> None:
        self._asking = False
        if isinstance(reply, AssignReplicasToDirsResponse) and not reply.error_code:
            for directory in reply.directories:
                for topic in directory.topics:
                    for partition in topic.partitions:
                        replica = bytes(topic.topic_id), partition.partition_index
                        self._taken(replica, told.get(replica), bytes(directory.id), ErrorCode(partition.error_code))
        else:
            why = reply if isinstance(reply, LinkError) else ErrorCode(reply.error_code).name  # type: ignore[attr-defined]
            logger.warning("the controller was not told the directories of %d replicas: %s", len(told), why)
        if self._wanted:
            self._due = self._node.clock.now + _RETRY_MS

    def _taken(self, replica: _Replica, told: bytes | None, directory_id: bytes, code: ErrorCode) -> None:
        if code is not ErrorCode.NONE and code not in _GONE:
            return
        waiter = self._waiters.pop(replica, None) if told == directory_id else None
        if self._wanted.get(replica) == directory_id:
            del self._wanted[replica]
        if waiter is not None:
            waiter(None if code is ErrorCode.NONE else OSError(errno.ENOENT, code.name))


def _nobody_cares() -> None: ...
