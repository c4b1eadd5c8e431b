"""AssignReplicasToDirs: a broker says which of its directories has which replica (KIP-858).

Rule: what a broker says of its own replicas is so. A directory that is not among the ones it has registered is offline:
the replica leaves the ISR, and another one leads. That is a second record, since the first says where the replica is.
Who may lead does not follow from where a replica is now: one that was made anew in the place of a lost one is empty.
"""

from __future__ import annotations

from collections.abc import Iterator

from pykafka_broker.cluster.controller import Controller, Decision
from pykafka_broker.cluster.elections import without
from pykafka_broker.cluster.image import PartitionImage, TopicImage, changed_partition
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.cluster.replicas import assignment
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages import assign_replicas_to_dirs_response as answers
from pykafka_broker.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
from pykafka_broker.protocol.messages.assign_replicas_to_dirs_response import AssignReplicasToDirsResponse


def assign_replicas_to_dirs(
    controller: Controller, request: AssignReplicasToDirsRequest
) -> Decision[AssignReplicasToDirsResponse]:
    """Version 0."""
    if not controller.image.is_registered(request.broker_id, request.broker_epoch):
        return Decision([], AssignReplicasToDirsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    told = _Told(controller, request.broker_id)
    response = AssignReplicasToDirsResponse(directories=[])
    for directory in request.directories:
        topics = [
            answers.TopicData(
                topic.topic_id,
                [
                    answers.PartitionData(
                        each.partition_index, told.place(directory.id, topic.topic_id, each.partition_index)
                    )
                    for each in topic.partitions
                ],
            )
            for topic in directory.topics
        ]
        response.directories.append(answers.DirectoryData(directory.id, topics))
    return Decision(told.records, response)


class _Told:
    """What one request tells; of a replica that it names twice the later word holds."""

    def __init__(self, controller: Controller, broker_id: int) -> None:
        self._controller = controller
        self._broker_id = broker_id
        self._changed: dict[tuple[bytes, int], PartitionImage] = {}
        self.records: list[ApiMessageAndVersion] = []

    def place(self, directory: bytes, topic_id: bytes, number: int) -> ErrorCode:
        topic = self._controller.image.topics_by_id.get(topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        partition = self._changed.get((topic_id, number)) or topic.partitions.get(number)
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self._broker_id not in partition.replicas:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if partition.directory_of(self._broker_id) != directory:
            for record in self._changes(topic, partition, directory):
                self.records.append(record)
                partition = changed_partition(partition, record.message)
            self._changed[topic_id, number] = partition
        return ErrorCode.NONE

    def _changes(
        self, topic: TopicImage, partition: PartitionImage, directory: bytes
    ) -> Iterator[ApiMessageAndVersion]:
        record = assignment(self._controller, topic, partition, directory, self._broker_id)
        yield record
        placed = changed_partition(partition, record.message)
        broker = self._controller.image.brokers[self._broker_id]
        if self._broker_id in placed.isr and not broker.has_online(directory):
            left = without(self._controller, topic, placed, self._broker_id)
            if left is not None:
                yield left
