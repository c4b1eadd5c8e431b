"""ElectLeaders: an election that somebody asks for (KIP-183, KIP-460).

Rule: a preferred election is for a partition that another replica leads than its first, an unclean one for a partition
that nobody leads; for any other it is not needed. What is asked for all partitions is only answered where it was
needed.
"""

from __future__ import annotations

from pykafka_broker.cluster.controller import Controller, Decision
from pykafka_broker.cluster.elections import may_lead
from pykafka_broker.cluster.image import NO_LEADER, PartitionImage, TopicImage
from pykafka_broker.cluster.partition_change import Election, partition_change
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.elect_leaders_request import ElectLeadersRequest
from pykafka_broker.protocol.messages.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

_KINDS = {0: Election.PREFERRED, 1: Election.UNCLEAN}
_NOT_AVAILABLE = {
    Election.PREFERRED: (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."),
    Election.UNCLEAN: (
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        "Eligible topic partition leaders are not available.",
    ),
}


def elect_leaders(controller: Controller, request: ElectLeadersRequest) -> Decision[ElectLeadersResponse]:
    """All versions; before 1 every election is a preferred one."""
    elections = _Elections(controller, request.election_type)
    response = ElectLeadersResponse(replica_election_results=[])
    if request.topic_partitions is None:
        if elections.kind is None:
            return Decision([], ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST))
        for topic in controller.image.topics.values():
            result = ReplicaElectionResult(topic.name, [])
            response.replica_election_results.append(result)
            for number in topic.partitions:
                elected = elections.elect(topic.name, number)
                if elected.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                    result.partition_result.append(elected)
        return Decision(elections.records, response)
    for asked in request.topic_partitions:
        result = ReplicaElectionResult(asked.topic, [])
        response.replica_election_results.append(result)
        for number in asked.partitions:
            result.partition_result.append(elections.elect(asked.topic, number))
    if elections.kind is None and request.topic_partitions:
        response.error_code = ErrorCode.INVALID_REQUEST
    return Decision(elections.records, response)


class _Elections:
    """Those of one request: of a kind that is None if there is no such kind."""

    def __init__(self, controller: Controller, kind: int) -> None:
        self.kind = _KINDS.get(kind)
        self.records: list[ApiMessageAndVersion] = []
        self._controller = controller
        self._unknown_kind = f"Unknown election type {kind}"
        self._elected: set[tuple[str, int]] = set()

    def elect(self, name: str, number: int) -> PartitionResult:
        try:
            if self.kind is None:
                raise ApiError(ErrorCode.INVALID_REQUEST, self._unknown_kind)
            self._elect(self.kind, name, number)
        except ApiError as error:
            return PartitionResult(number, error.code, error.message)
        return PartitionResult(number, ErrorCode.NONE, None)

    def _elect(self, kind: Election, name: str, number: int) -> None:
        topic = self._controller.image.topics.get(name)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
        partition = topic.partitions.get(number)
        if partition is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{number}")
        if not _is_needed(kind, partition) or (name, number) in self._elected:
            raise ApiError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
        record = elected(self._controller, topic, partition, kind)
        if record is None:
            raise ApiError(*_NOT_AVAILABLE[kind])
        self.records.append(record)
        self._elected.add((name, number))


def _is_needed(kind: Election, partition: PartitionImage) -> bool:
    if kind is Election.PREFERRED:
        return partition.leader != partition.replicas[0]
    return partition.leader == NO_LEADER


def elected(
    controller: Controller, topic: TopicImage, partition: PartitionImage, kind: Election
) -> ApiMessageAndVersion | None:
    """The record by which the partition gets the leader that such an election is about, or None if it can't."""
    record = partition_change(controller, topic, partition, may_lead(controller.image, partition), election=kind)
    if record is None or record.message.leader < 0:
        return None
    if kind is Election.PREFERRED and record.message.leader != partition.replicas[0]:
        return None
    return record
