"""Elections of partition leaders: after brokers and directories come and go, at a client's request, and to balance.

Rule: a function about a broker or a directory yields one record for each partition that changes. The image does not
have the broker's own record yet: both belong into the same batch. The topic's config decides whether a replica that was
not in sync may lead.

ElectLeaders (KIP-183, KIP-460): a partition needs a preferred election if its leader is not its first replica, and an
unclean election if it has no leader. The answer to a request for all partitions leaves out those that need none.

Balancing gives leaderships back to first replicas after a broker's return, a limited number at a time, so that one
check does not move a whole cluster. `leader.imbalance.per.broker.percentage` has no effect, as in Kafka since KRaft.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

from pykafka_broker.cluster.controller import Controller, Decision, check_time
from pykafka_broker.cluster.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from pykafka_broker.cluster.partition_change import Acceptable, Election, active, partition_change, topic_config
from pykafka_broker.cluster.records import ApiMessageAndVersion, RecordIterator
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.enums import PartitionKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.elect_leaders_request import ElectLeadersRequest
from pykafka_broker.protocol.messages.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

_KINDS = {0: Election.PREFERRED, 1: Election.UNCLEAN}
_NOT_NEEDED = ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
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
        if broker_id == leaving or broker_id not in partition.replicas:
            return False
        is_up = broker_id == returning or active(image, broker_id)
        return is_up and image.brokers[broker_id].has_online(partition.directory_of(broker_id))

    return acceptable


def election_of(controller: Controller, topic: TopicImage) -> Election:
    unclean = topic_config(controller, topic.name).unclean_leader_election_enable
    return Election.UNCLEAN if unclean else Election.ONLINE


def broker_leaves(controller: Controller, broker_id: int) -> RecordIterator:
    """Change the partitions of a broker which is fenced, unregistered or about to stop."""
    return directories_lost(controller, broker_id, lambda directory: True)


def directories_lost(controller: Controller, broker_id: int, is_lost: Callable[[bytes], bool]) -> RecordIterator:
    """Change the partitions in lost directories of a broker."""

    def concerns(partition: PartitionImage) -> bool:
        return broker_id in partition.isr and is_lost(partition.directory_of(broker_id))

    return _changes(controller, concerns, partial(without, broker_id=broker_id))


def unclean_shutdown(controller: Controller, broker_id: int) -> RecordIterator:
    """Change the partitions of a returning broker which may have lost unsynced records."""
    change = partial(change_of, leaving=broker_id, unclean=(broker_id,))
    return _changes(controller, lambda partition: broker_id in partition.isr or broker_id in partition.elr, change)


def broker_returns(controller: Controller, broker_id: int) -> RecordIterator:
    """Elect the unfenced broker for partitions without a leader."""

    def concerns(partition: PartitionImage) -> bool:
        return partition.leader == NO_LEADER and broker_id in partition.replicas

    return _changes(controller, concerns, partial(change_of, returning=broker_id))


def elect_missing_leaders(controller: Controller) -> RecordIterator:
    """Elect leaders for partitions without a leader, where a replica may lead by now."""
    return _changes(controller, lambda partition: partition.leader == NO_LEADER, change_of)


def in_lost_directories(controller: Controller) -> RecordIterator:
    """Take replicas in directories that the metadata calls lost out of every ISR."""
    brokers = controller.image.brokers
    for topic, partition in _partitions(controller.image):
        isr = [
            broker_id
            for broker_id in partition.isr
            if broker_id not in brokers or brokers[broker_id].has_online(partition.directory_of(broker_id))
        ]
        if len(isr) < len(partition.isr) and (record := change_of(controller, topic, partition, isr=isr)) is not None:
            yield record


def leads_anything(image: MetadataImage, broker_id: int) -> bool:
    return any(partition.leader == broker_id for _, partition in _partitions(image))


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
    change: Callable[[Controller, TopicImage, PartitionImage], ApiMessageAndVersion | None],
) -> RecordIterator:
    for topic, partition in _partitions(controller.image):
        if concerns(partition) and (record := change(controller, topic, partition)) is not None:
            yield record


def _partitions(image: MetadataImage) -> Iterator[tuple[TopicImage, PartitionImage]]:
    for topic in image.topics.values():
        for partition in topic.partitions.values():
            yield topic, partition


# -- ElectLeaders


def elect_leaders(controller: Controller, request: ElectLeadersRequest) -> Decision[ElectLeadersResponse]:
    """Decide on ElectLeaders, all versions; before 1 every election is a preferred election."""
    if request.topic_partitions != []:
        check_time(request.timeout_ms)
    elections = _Elections(controller, request.election_type)
    code = ErrorCode.INVALID_REQUEST if elections.kind is None and request.topic_partitions != [] else ErrorCode.NONE
    results: list[ReplicaElectionResult] = []
    if request.topic_partitions is not None:
        for asked in request.topic_partitions:
            outcomes = [elections.elect(asked.topic, index) for index in asked.partitions]
            results.append(ReplicaElectionResult(asked.topic, outcomes))
    elif elections.kind is not None:
        for topic in controller.image.topics.values():
            outcomes = [elections.elect(topic.name, index) for index in topic.partitions]
            needed = [outcome for outcome in outcomes if outcome.error_code != ErrorCode.ELECTION_NOT_NEEDED]
            results.append(ReplicaElectionResult(topic.name, needed))
    return Decision(elections.records, ElectLeadersResponse(error_code=code, replica_election_results=results))


class _Elections:
    """The elections of a request; kind is None for an unknown kind."""

    def __init__(self, controller: Controller, kind: int) -> None:
        self.kind = _KINDS.get(kind)
        self.records: list[ApiMessageAndVersion] = []
        self._controller = controller
        self._unknown_kind = f"Unknown election type {kind}"
        self._again: dict[PartitionKey, PartitionResult] = {}  # the results of partitions that are named again

    def elect(self, name: str, index: int) -> PartitionResult:
        """Return the result for a partition. A request may name one partition very often: it is looked at once."""
        if (result := self._again.get((name, index))) is not None:
            return result
        try:
            if self.kind is None:
                raise ApiError(ErrorCode.INVALID_REQUEST, self._unknown_kind)
            self._elect(self.kind, name, index)
        except ApiError as error:
            result = self._again[name, index] = PartitionResult(index, error.code, error.message)
            return result
        self._again[name, index] = PartitionResult(index, *_NOT_NEEDED)
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
        if not is_needed:
            raise ApiError(*_NOT_NEEDED)
        record = elected(self._controller, topic, partition, kind)
        if record is None:
            raise ApiError(*_NOT_AVAILABLE[kind])
        self.records.append(record)


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


def balance_leaders(controller: Controller, at_most: int = MAX_ELECTIONS) -> list[ApiMessageAndVersion]:
    """Return due elections of first replicas. `at_most` records say that more elections may be due."""
    preferred = partial(elected, kind=Election.PREFERRED)
    records = _changes(controller, lambda partition: partition.leader != partition.replicas[0], preferred)
    return list(islice(records, at_most))
