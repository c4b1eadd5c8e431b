"""Requests about the replicas of a partition: AlterPartition, AlterPartitionReassignments and
ListPartitionReassignments, AssignReplicasToDirs (Kafka: ReplicationControlManager).

AlterPartition (KIP-497, KIP-903). Rule: the controller believes a leader only about what the controller itself has told
the leader. Request, leader and partition epochs must be the present ones, and each wanted member of the ISR must be
registered, in the incarnation that the leader means. A change that ends a reassignment may take the leadership away;
the sender learns that (NEW_LEADER_ELECTED), and has to wait for the record.

Reassignments (KIP-455). Rule: a reassignment stands in the partition itself: `replicas` are the wanted ones and behind
them the ones that go; `adding_replicas` were no replicas when the reassignment began, however often it has been changed
since. So a reassignment can always be called off. `partition_change` ends it.

AssignReplicasToDirs (KIP-858). Rule: a broker is right about its own replicas. A directory that the broker has not
registered is offline: the replica leaves the ISR, and another one leads. A second record says so, since the first says
where the replica is. The directory of a replica does not decide who may lead: a replica that was made anew in the place
of a lost one is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pykafka_broker.cluster.controller import Controller, Decision, check_time
from pykafka_broker.cluster.elections import change_of, election_of, without
from pykafka_broker.cluster.image import MetadataImage, PartitionImage, TopicImage, changed_partition
from pykafka_broker.cluster.partition_change import (
    RECOVERED,
    RECOVERING,
    Election,
    active,
    assignment,
)
from pykafka_broker.cluster.placement import check_assignment
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages import alter_partition_response as answers
from pykafka_broker.protocol.messages import assign_replicas_to_dirs_response as directory_answers
from pykafka_broker.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
)
from pykafka_broker.protocol.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from pykafka_broker.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
)
from pykafka_broker.protocol.messages.alter_partition_response import AlterPartitionResponse
from pykafka_broker.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
from pykafka_broker.protocol.messages.assign_replicas_to_dirs_response import AssignReplicasToDirsResponse
from pykafka_broker.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from pykafka_broker.protocol.messages.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

_EPOCH_UNKNOWN = -1


def alter_partition(controller: Controller, request: AlterPartitionRequest) -> Decision[AlterPartitionResponse]:
    """Decide on AlterPartition v2 and v3; before 3 the members of an ISR have no epochs."""
    if not controller.image.is_registered(request.broker_id, request.broker_epoch):
        return Decision([], AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    records: list[ApiMessageAndVersion] = []
    changed: set[tuple[bytes, int]] = set()
    response = AlterPartitionResponse(topics=[])
    for asked in request.topics:
        topic = controller.image.topics_by_id.get(asked.topic_id)
        answered = answers.TopicData(topic_id=asked.topic_id, partitions=[])
        response.topics.append(answered)
        for wanted in asked.partitions:
            try:
                if (asked.topic_id, wanted.partition_index) in changed:
                    raise ApiError(ErrorCode.INVALID_UPDATE_VERSION)
                record, answer = _altered(controller, request.broker_id, topic, wanted)
                if record is not None:
                    records.append(record)
                    changed.add((asked.topic_id, wanted.partition_index))
            except ApiError as error:
                answer = answers.PartitionData(wanted.partition_index, error.code)
            answered.partitions.append(answer)
    return Decision(records, response)


def _altered(
    controller: Controller, sender: int, topic: TopicImage | None, wanted: PartitionData
) -> tuple[ApiMessageAndVersion | None, answers.PartitionData]:
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
    partition = topic.partitions.get(wanted.partition_index)
    if partition is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    members = wanted.new_isr_with_epochs or [BrokerState(broker, _EPOCH_UNKNOWN) for broker in wanted.new_isr]
    isr = [member.broker_id for member in members]
    _check_epochs(partition, sender, wanted)
    _check_isr(partition, isr, wanted.leader_recovery_state)
    if not all(_eligible(controller, partition, member) for member in members):
        raise ApiError(ErrorCode.INELIGIBLE_REPLICA)
    record = change_of(controller, topic, partition, isr=isr, recovery_state=wanted.leader_recovery_state)
    after = partition if record is None else changed_partition(partition, record.message)
    if after.leader != sender:
        return record, answers.PartitionData(wanted.partition_index, ErrorCode.NEW_LEADER_ELECTED)
    return record, answers.PartitionData(
        wanted.partition_index,
        ErrorCode.NONE,
        after.leader,
        after.leader_epoch,
        list(after.isr),
        after.leader_recovery_state,
        after.partition_epoch,
    )


def _check_epochs(partition: PartitionImage, sender: int, wanted: PartitionData) -> None:
    if wanted.leader_epoch > partition.leader_epoch or wanted.partition_epoch > partition.partition_epoch:
        raise ApiError(ErrorCode.NOT_CONTROLLER)  # the sender knows more than this controller
    if wanted.leader_epoch < partition.leader_epoch:
        raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
    if sender != partition.leader:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    if wanted.partition_epoch < partition.partition_epoch:
        raise ApiError(ErrorCode.INVALID_UPDATE_VERSION)


def _check_isr(partition: PartitionImage, isr: list[int], recovery_state: int) -> None:
    sound = len(set(isr)) == len(isr) and partition.leader in isr and set(isr) <= set(partition.replicas)
    if not sound or recovery_state not in (RECOVERED, RECOVERING):
        raise ApiError(ErrorCode.INVALID_REQUEST)
    if recovery_state == RECOVERING and (partition.leader_recovery_state == RECOVERED or len(isr) > 1):
        raise ApiError(ErrorCode.INVALID_REQUEST)


def _eligible(controller: Controller, partition: PartitionImage, member: BrokerState) -> bool:
    """Return whether the member's broker is active, in the given incarnation, and the replica's directory is online."""
    image = controller.image
    if not active(image, member.broker_id):
        return False
    broker = image.brokers[member.broker_id]
    known = member.broker_epoch in (_EPOCH_UNKNOWN, broker.epoch)
    return known and broker.has_online(partition.directory_of(member.broker_id))


# -- reassignments


def alter_partition_reassignments(
    controller: Controller, request: AlterPartitionReassignmentsRequest
) -> Decision[AlterPartitionReassignmentsResponse]:
    """Decide on AlterPartitionReassignments; version 1 may forbid another number of replicas (KIP-860)."""
    if request.topics:
        check_time(request.timeout_ms)
    records: dict[tuple[str, int], ApiMessageAndVersion | None] = {}  # the last entry for a partition holds
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
    response = AlterPartitionReassignmentsResponse(error_message="")  # to no topics, as by Kafka
    if responses:
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
    check_assignment(controller, wanted.replicas, None)
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
    return change_of(
        controller,
        topic,
        partition,
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
    if not isr and election_of(controller, topic) is not Election.UNCLEAN:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {topic.name}:{partition.partition} because it would require "
            "an unclean leader election.",
        )
    replicas = [broker for broker in partition.replicas if broker in original]
    return change_of(controller, topic, partition, isr=isr, replicas=replicas, adding=[], removing=[])


def is_reassigning(partition: PartitionImage) -> bool:
    return bool(partition.adding_replicas or partition.removing_replicas)


def list_partition_reassignments(
    image: MetadataImage, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Return the ongoing reassignments of the named partitions, or of all."""
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
    for topic, indexes in wanted:
        ongoing = [
            OngoingPartitionReassignment(
                index, list(found.replicas), list(found.adding_replicas), list(found.removing_replicas)
            )
            for index in indexes
            if (found := topic.partitions.get(index)) is not None and is_reassigning(found)
        ]
        if ongoing:
            response.topics.append(OngoingTopicReassignment(topic.name, ongoing))
    return response


# -- AssignReplicasToDirs


def assign_replicas_to_dirs(
    controller: Controller, request: AssignReplicasToDirsRequest
) -> Decision[AssignReplicasToDirsResponse]:
    """Decide on AssignReplicasToDirs v0."""
    if not controller.image.is_registered(request.broker_id, request.broker_epoch):
        return Decision([], AssignReplicasToDirsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    told = _Assignments(controller, request.broker_id)
    response = AssignReplicasToDirsResponse(directories=[])
    for directory in request.directories:
        topics = [
            directory_answers.TopicData(
                topic.topic_id,
                [
                    directory_answers.PartitionData(
                        each.partition_index, told.place(directory.id, topic.topic_id, each.partition_index)
                    )
                    for each in topic.partitions
                ],
            )
            for topic in directory.topics
        ]
        response.directories.append(directory_answers.DirectoryData(directory.id, topics))
    return Decision(told.records, response)


class _Assignments:
    """The assignments of a request; of a replica named twice the later assignment holds."""

    def __init__(self, controller: Controller, broker_id: int) -> None:
        self._controller = controller
        self._broker_id = broker_id
        self._changed: dict[tuple[bytes, int], PartitionImage] = {}
        self.records: list[ApiMessageAndVersion] = []

    def place(self, directory: bytes, topic_id: bytes, index: int) -> ErrorCode:
        topic = self._controller.image.topics_by_id.get(topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        partition = self._changed.get((topic_id, index)) or topic.partitions.get(index)
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self._broker_id not in partition.replicas:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if partition.directory_of(self._broker_id) != directory:
            for record in self._changes(topic, partition, directory):
                self.records.append(record)
                partition = changed_partition(partition, record.message)
            self._changed[topic_id, index] = partition
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
