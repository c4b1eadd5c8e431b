"""Elections of partition leaders: after brokers and directories come and go, at a client's request, and to balance.

Rule: a function about a broker or a directory yields one record for each partition that changes, of an image in which
the broker's own record is not applied yet; both belong into the same batch. Whether a replica that was not in sync may
lead is the topic's config.

ElectLeaders (KIP-183, KIP-460): a preferred election is for a partition that another replica leads than its first, an
unclean one for a partition without a leader; any other partition needs none. A request for all partitions is only
answered with the partitions that needed an election.

Balancing gives leaderships back to first replicas after a broker's return, a limited number at a time, so that one
check does not move a whole cluster. Like Kafka's controller since KRaft, this one does not look at
`leader.imbalance.per.broker.percentage`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pykafka_broker.cluster.controller import Controller, Decision, check_time
from pykafka_broker.cluster.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from pykafka_broker.cluster.partition_change import (
    Acceptable,
    Election,
    active,
    partition_change,
    topic_config,
)
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.elect_leaders_request import ElectLeadersRequest
from pykafka_broker.protocol.messages.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

Records = Iterator[ApiMessageAndVersion]
_KINDS = {0: Election.PREFERRED, 1: Election.UNCLEAN}
_NOT_AVAILABLE = {
    Election.PREFERRED: (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."),
    Election.UNCLEAN: (
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        "Eligible topic partition leaders are not available.",
    ),
}
MAX_ELECTIONS = 1_000  # of one check


def may_lead(image: MetadataImage, partition: PartitionImage, *, leaving: int = -1, returning: int = -1) -> Acceptable:
    """Return a function which tells whether a broker is active and has the partition's directory online.

    `leaving` is taken as gone, `returning` as back.
    """

    def acceptable(broker_id: int) -> bool:
        if broker_id == leaving or not (broker_id == returning or active(image, broker_id)):
            return False
        return broker_id in partition.replicas and image.brokers[broker_id].has_online(
            partition.directory_of(broker_id)
        )

    return acceptable


def election_of(controller: Controller, topic: TopicImage) -> Election:
    unclean = topic_config(controller, topic.name).unclean_leader_election_enable
    return Election.UNCLEAN if unclean else Election.ONLINE


def broker_leaves(controller: Controller, broker_id: int) -> Records:
    """Change the partitions of a broker which is fenced, unregistered or about to stop."""

    def left(topic: TopicImage, partition: PartitionImage) -> ApiMessageAndVersion | None:
        return without(controller, topic, partition, broker_id)

    return _changes(controller, lambda partition: broker_id in partition.isr, left)


def directories_lost(controller: Controller, broker_id: int, is_lost: Callable[[bytes], bool]) -> Records:
    """Change the partitions in lost directories of a broker."""

    def left(topic: TopicImage, partition: PartitionImage) -> ApiMessageAndVersion | None:
        return without(controller, topic, partition, broker_id)

    return _changes(
        controller,
        lambda partition: broker_id in partition.isr and is_lost(partition.directory_of(broker_id)),
        left,
    )


def unclean_shutdown(controller: Controller, broker_id: int) -> Records:
    """Change the partitions of a returning broker which may have lost unsynced records."""

    def forgotten(topic: TopicImage, partition: PartitionImage) -> ApiMessageAndVersion | None:
        return change_of(controller, topic, partition, leaving=broker_id, unclean=(broker_id,))

    return _changes(controller, lambda partition: broker_id in partition.isr or broker_id in partition.elr, forgotten)


def broker_returns(controller: Controller, broker_id: int) -> Records:
    """Elect the unfenced broker for partitions without a leader."""

    def elected(topic: TopicImage, partition: PartitionImage) -> ApiMessageAndVersion | None:
        return change_of(controller, topic, partition, returning=broker_id)

    return _changes(
        controller, lambda partition: partition.leader == NO_LEADER and broker_id in partition.replicas, elected
    )


def leaderless(controller: Controller) -> Records:
    """Elect leaders for partitions without a leader, wherever one may lead by now."""

    def elected(topic: TopicImage, partition: PartitionImage) -> ApiMessageAndVersion | None:
        return change_of(controller, topic, partition)

    return _changes(controller, lambda partition: partition.leader == NO_LEADER, elected)


def in_lost_directories(controller: Controller) -> Records:
    """Change the partitions with replicas in sync in directories that the metadata calls lost."""
    brokers = controller.image.brokers

    def is_lost(partition: PartitionImage, broker_id: int) -> bool:
        broker = brokers.get(broker_id)
        return broker is not None and not broker.has_online(partition.directory_of(broker_id))

    def left(topic: TopicImage, partition: PartitionImage) -> ApiMessageAndVersion | None:
        isr = [broker_id for broker_id in partition.isr if not is_lost(partition, broker_id)]
        return change_of(controller, topic, partition, isr=isr)

    return _changes(
        controller, lambda partition: any(is_lost(partition, broker_id) for broker_id in partition.isr), left
    )


def leads_anything(image: MetadataImage, broker_id: int) -> bool:
    return any(
        partition.leader == broker_id for topic in image.topics.values() for partition in topic.partitions.values()
    )


def change_of(
    controller: Controller,
    topic: TopicImage,
    partition: PartitionImage,
    *,
    leaving: int = -1,
    returning: int = -1,
    **values: Any,
) -> ApiMessageAndVersion | None:
    """Return the record of a change, with a leader by the topic's config and the brokers' states.

    Args:
        leaving: The broker that counts as gone.
        returning: The broker that counts as back.
        values: The arguments of `partition_change`.
    """
    if "election" not in values:
        values["election"] = election_of(controller, topic)
    acceptable = may_lead(controller.image, partition, leaving=leaving, returning=returning)
    return partition_change(controller, topic, partition, acceptable, **values)


def without(
    controller: Controller, topic: TopicImage, partition: PartitionImage, broker_id: int
) -> ApiMessageAndVersion | None:
    isr = [each for each in partition.isr if each != broker_id]
    return change_of(controller, topic, partition, leaving=broker_id, isr=isr)


def _changes(
    controller: Controller,
    concerns: Callable[[PartitionImage], bool],
    change: Callable[[TopicImage, PartitionImage], ApiMessageAndVersion | None],
) -> Records:
    for topic in controller.image.topics.values():
        for partition in topic.partitions.values():
            if concerns(partition):
                record = change(topic, partition)
                if record is not None:
                    yield record


# -- ElectLeaders


def elect_leaders(controller: Controller, request: ElectLeadersRequest) -> Decision[ElectLeadersResponse]:
    """Decide on ElectLeaders, all versions; before 1 every election is a preferred election."""
    if request.topic_partitions != []:
        check_time(request.timeout_ms)
    elections = _Elections(controller, request.election_type)
    response = ElectLeadersResponse(replica_election_results=[])
    if request.topic_partitions is None:
        if elections.kind is None:
            return Decision([], ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST))
        for topic in controller.image.topics.values():
            result = ReplicaElectionResult(topic.name, [])
            response.replica_election_results.append(result)
            for index in topic.partitions:
                elected = elections.elect(topic.name, index)
                if elected.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                    result.partition_result.append(elected)
        return Decision(elections.records, response)
    for asked in request.topic_partitions:
        result = ReplicaElectionResult(asked.topic, [])
        response.replica_election_results.append(result)
        for index in asked.partitions:
            result.partition_result.append(elections.elect(asked.topic, index))
    if elections.kind is None and request.topic_partitions:
        response.error_code = ErrorCode.INVALID_REQUEST
    return Decision(elections.records, response)


class _Elections:
    """The elections of a request; kind is None for an unknown kind."""

    def __init__(self, controller: Controller, kind: int) -> None:
        self.kind = _KINDS.get(kind)
        self.records: list[ApiMessageAndVersion] = []
        self._controller = controller
        self._unknown_kind = f"Unknown election type {kind}"
        self._elected: set[tuple[str, int]] = set()

    def elect(self, name: str, index: int) -> PartitionResult:
        try:
            if self.kind is None:
                raise ApiError(ErrorCode.INVALID_REQUEST, self._unknown_kind)
            self._elect(self.kind, name, index)
        except ApiError as error:
            return PartitionResult(index, error.code, error.message)
        return PartitionResult(index, ErrorCode.NONE, None)

    def _elect(self, kind: Election, name: str, index: int) -> None:
        topic = self._controller.image.topics.get(name)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
        partition = topic.partitions.get(index)
        if partition is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
        if kind is Election.PREFERRED:
            is_needed = partition.leader != partition.replicas[0]
        else:
            is_needed = partition.leader == NO_LEADER
        if not is_needed or (name, index) in self._elected:
            raise ApiError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
        record = elected(self._controller, topic, partition, kind)
        if record is None:
            raise ApiError(*_NOT_AVAILABLE[kind])
        self.records.append(record)
        self._elected.add((name, index))


def elected(
    controller: Controller, topic: TopicImage, partition: PartitionImage, kind: Election
) -> ApiMessageAndVersion | None:
    """Return the record of a successful election of the kind, or None."""
    record = change_of(controller, topic, partition, election=kind)
    if record is None or record.message.leader < 0:
        return None
    if kind is Election.PREFERRED and record.message.leader != partition.replicas[0]:
        return None
    return record


# -- balance


def balancing(controller: Controller, at_most: int = MAX_ELECTIONS) -> list[ApiMessageAndVersion]:
    """Return due elections of first replicas; if as many as `at_most`, more may be due soon."""
    records: list[ApiMessageAndVersion] = []
    for topic in controller.image.topics.values():
        for partition in topic.partitions.values():
            if partition.leader != partition.replicas[0]:
                record = elected(controller, topic, partition, Election.PREFERRED)
                if record is not None:
                    records.append(record)
                    if len(records) == at_most:
                        return records
    return records
