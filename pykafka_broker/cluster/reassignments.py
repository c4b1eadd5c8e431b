"""Other brokers for a partition (KIP-455): begun, changed, called off, listed.

Rule: a reassignment is in the partition itself: `replicas` are the wanted ones and behind them those that go, and what
is in `adding_replicas` was not there when it began, however often it has been changed since. So it can always be called
off. `partition_change` ends it.
"""

from __future__ import annotations

from collections.abc import Iterable

from pykafka_broker.cluster.controller import Controller, Decision
from pykafka_broker.cluster.elections import election_of, may_lead
from pykafka_broker.cluster.image import MetadataImage, PartitionImage, TopicImage
from pykafka_broker.cluster.partition_change import Election, partition_change
from pykafka_broker.cluster.placement import check_assignment
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
)
from pykafka_broker.protocol.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from pykafka_broker.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from pykafka_broker.protocol.messages.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def alter_partition_reassignments(
    controller: Controller, request: AlterPartitionReassignmentsRequest
) -> Decision[AlterPartitionReassignmentsResponse]:
    """Version 1 may forbid another number of replicas (KIP-860)."""
    records: dict[tuple[str, int], ApiMessageAndVersion | None] = {}  # the last word on a partition holds
    responses = []
    for topic in request.topics:
        answered = []
        for wanted in topic.partitions:
            code, message = ErrorCode.NONE, None
            try:
                records[topic.name, wanted.partition_index] = _reassigned(
                    controller, topic.name, wanted, request.allow_replication_factor_change
                )
            except ApiError as error:
                code, message = error.code, error.message
            answered.append(ReassignablePartitionResponse(wanted.partition_index, code, message))
        responses.append(ReassignableTopicResponse(topic.name, answered))
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=responses,
    )
    return Decision([record for record in records.values() if record is not None], response)


def _reassigned(
    controller: Controller, name: str, wanted: ReassignablePartition, may_change_number: bool
) -> ApiMessageAndVersion | None:
    topic = controller.image.topics.get(name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    partition = topic.partitions.get(wanted.partition_index)
    if partition is None:
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{wanted.partition_index}."
        )
    if wanted.replicas is None:
        return _called_off(controller, topic, partition)
    check_assignment(controller.image, wanted.replicas, None)
    before = len(partition.replicas) - len(partition.adding_replicas)
    if not may_change_number and len(wanted.replicas) != before:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {before} to {len(wanted.replicas)}",
        )
    return _begun(controller, topic, partition, wanted.replicas)


def _begun(
    controller: Controller, topic: TopicImage, partition: PartitionImage, target: list[int]
) -> ApiMessageAndVersion | None:
    going = sorted(set(partition.replicas) - set(target))
    return partition_change(
        controller,
        topic,
        partition,
        may_lead(controller.image, partition),
        election=election_of(controller, topic),
        replicas=[*target, *going],
        adding=sorted({*partition.adding_replicas, *target} - _original(partition)),
        removing=going,
    )


def _original(partition: PartitionImage) -> set[int]:
    return set(partition.replicas) - set(partition.adding_replicas)


def _called_off(controller: Controller, topic: TopicImage, partition: PartitionImage) -> ApiMessageAndVersion | None:
    if not is_reassigning(partition):
        raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    original = _original(partition)
    isr = [broker for broker in partition.isr if broker in original]
    election = election_of(controller, topic)
    if not isr and election is not Election.UNCLEAN:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {topic.name}:{partition.partition} because it would require "
            "an unclean leader election.",
        )
    return partition_change(
        controller,
        topic,
        partition,
        may_lead(controller.image, partition),
        election=election,
        isr=isr,
        replicas=[broker for broker in partition.replicas if broker in original],
        adding=[],
        removing=[],
    )


def is_reassigning(partition: PartitionImage) -> bool:
    return bool(partition.adding_replicas or partition.removing_replicas)


def list_partition_reassignments(
    image: MetadataImage, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Those of the named partitions, or all."""
    wanted: Iterable[tuple[TopicImage, Iterable[int]]]
    if request.topics is None:
        wanted = ((topic, topic.partitions) for topic in image.topics.values())
    else:
        wanted = (
            (image.topics[topic.name], topic.partition_indexes)
            for topic in request.topics
            if topic.name in image.topics
        )
    response = ListPartitionReassignmentsResponse(error_message=None, topics=[])
    for topic, numbers in wanted:
        ongoing = [
            OngoingPartitionReassignment(
                number, list(found.replicas), list(found.adding_replicas), list(found.removing_replicas)
            )
            for number in numbers
            if (found := topic.partitions.get(number)) is not None and is_reassigning(found)
        ]
        if ongoing:
            response.topics.append(OngoingTopicReassignment(topic.name, ongoing))
    return response
