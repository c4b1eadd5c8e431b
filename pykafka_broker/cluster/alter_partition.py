"""AlterPartition: the leader of a partition wants another ISR (KIP-497, KIP-903).

Rule: the controller believes a leader only about what the controller itself has told it: request, leader and partition
epochs must be the present ones, and whoever is to be in sync must be there, in the incarnation that the leader means.
A change that ends a reassignment may take the leadership away; the sender is told so (NEW_LEADER_ELECTED), and has to
wait for the record.
"""

from __future__ import annotations

from pykafka_broker.cluster.controller import Controller, Decision
from pykafka_broker.cluster.elections import election_of, may_lead
from pykafka_broker.cluster.image import PartitionImage, TopicImage, changed_partition
from pykafka_broker.cluster.partition_change import RECOVERED, RECOVERING, active, partition_change
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages import alter_partition_response as answers
from pykafka_broker.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
)
from pykafka_broker.protocol.messages.alter_partition_response import AlterPartitionResponse

_EPOCH_UNKNOWN = -1


def alter_partition(controller: Controller, request: AlterPartitionRequest) -> Decision[AlterPartitionResponse]:
    """Versions 2 and 3; before 3 the members of an ISR have no epochs."""
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
    _check_epochs(partition, sender, wanted)
    _check_isr(partition, [member.broker_id for member in members], wanted.leader_recovery_state)
    if not all(_eligible(controller, partition, member) for member in members):
        raise ApiError(ErrorCode.INELIGIBLE_REPLICA)
    record = partition_change(
        controller,
        topic,
        partition,
        may_lead(controller.image, partition),
        election=election_of(controller, topic),
        isr=[member.broker_id for member in members],
        recovery_state=wanted.leader_recovery_state,
    )
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
        raise ApiError(ErrorCode.NOT_CONTROLLER)  # it has heard of more than is known here
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
    """Its broker is there, in that incarnation, and the directory of its replica is not offline."""
    image = controller.image
    if not active(image, member.broker_id):
        return False
    broker = image.brokers[member.broker_id]
    known = member.broker_epoch in (_EPOCH_UNKNOWN, broker.epoch)
    return known and broker.has_online(partition.directory_of(member.broker_id))
