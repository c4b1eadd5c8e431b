"""Decisions of a controller of Kafka 4.4.0, made here again (`recorder/` asks it).

Each step is decided on the metadata that Kafka had at that moment, and compared with its answer and its records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, repeat
from typing import Any

import pytest

from pykafka_broker.cluster.controller import Controller, Decision
from pykafka_broker.cluster.elections import balance_leaders, elect_leaders
from pykafka_broker.cluster.feature_updates import update_features
from pykafka_broker.cluster.heartbeats import Sessions, broker_heartbeat, fence_records
from pykafka_broker.cluster.image import MetadataDelta, MetadataImage
from pykafka_broker.cluster.metadata_log import Replay
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.cluster.registration import allocate_producer_ids, register_broker, unregister_broker
from pykafka_broker.cluster.replication_control import (
    alter_partition,
    alter_partition_reassignments,
    assign_replicas_to_dirs,
    list_partition_reassignments,
)
from pykafka_broker.cluster.topics import create_partitions, create_topics
from pykafka_broker.config import BrokerConfig
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from pykafka_broker.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from pykafka_broker.protocol.messages.create_partitions_request import CreatePartitionsRequest
from pykafka_broker.protocol.messages.create_topics_request import CreateTopicsRequest
from pykafka_broker.protocol.messages.create_topics_response import CreateTopicsResponse
from pykafka_broker.protocol.messages.elect_leaders_response import ReplicaElectionResult
from pykafka_broker.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from pykafka_broker.protocol.messages.list_partition_reassignments_response import OngoingTopicReassignment
from pykafka_broker.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from pykafka_broker.protocol.runtime import Fields
from pykafka_broker.protocol.stored.broker_registration_change_record import BrokerRegistrationChangeRecord
from pykafka_broker.protocol.stored.partition_change_record import PartitionChangeRecord
from tests.cluster.recorded import Step, steps

SECTIONS = list(dict.fromkeys(step.section for step in steps()))

# Where it is done otherwise, and why.
_STUCK = "in Kafka a reassignment that was changed never ends"
OTHERWISE = {
    ("directories", "lose 3"): "Kafka lets a broker lead that has said that it has no directory left",
    ("features", "ELR on"): "Kafka keeps who was eligible before, whatever was committed meanwhile",
    ("reassignments", "all that are wanted now"): _STUCK,
    ("reassignments", "and the one that is not"): _STUCK,
    ("reassignments", "changed back"): _STUCK,
    ("reassignments", "changed to the one that is in sync"): _STUCK,
    ("reassignments", "expire 2"): _STUCK,
    ("reassignments", "expire 1"): _STUCK,
    ("reassignments", "cancel sorry, nobody left"): "Kafka puts a broker that is gone into the ISR",
}


def of_create_topics(controller: Controller, request: Any) -> Any:
    return create_topics(controller, request, 0)


def of_create_partitions(controller: Controller, request: Any) -> Any:
    return create_partitions(controller, request)


def of_elect_leaders(controller: Controller, request: Any) -> Any:
    return elect_leaders(controller, request)


def of_update_features(controller: Controller, request: Any) -> Any:
    return update_features(controller, request, 2)


def of_list_reassignments(controller: Controller, request: Any) -> Any:
    return Decision([], list_partition_reassignments(controller.image, request))


DECISIONS: dict[ApiKey, Callable[[Controller, Any], Any]] = {
    ApiKey.ALTER_PARTITION: alter_partition,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: assign_replicas_to_dirs,
    ApiKey.ALLOCATE_PRODUCER_IDS: allocate_producer_ids,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: alter_partition_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: of_list_reassignments,
    ApiKey.ELECT_LEADERS: of_elect_leaders,
    ApiKey.UPDATE_FEATURES: of_update_features,
    ApiKey.CREATE_TOPICS: of_create_topics,
    ApiKey.CREATE_PARTITIONS: of_create_partitions,
}


_ALL_SEEN = 1 << 40  # an offset of the metadata


class Replayed:
    """The metadata as Kafka's controller had it before a step, and the decisions that are made on it here."""

    def __init__(self) -> None:
        self.image = MetadataImage()
        self._static = BrokerConfig({"node.id": "100"})
        self._replay = Replay(self.image, MetadataDelta())

    def apply(self, records: Iterable[ApiMessageAndVersion]) -> None:
        for record in records:
            self._replay.record(record.message)

    def controller(self, topic_ids: Iterable[bytes] = ()) -> Controller:
        config = self._static.with_dynamic(self.image.config(ConfigResourceType.BROKER, ""), {})
        return Controller(self.image, config, 100, chain(topic_ids, repeat(bytes(16))).__next__)

    def without_strangers(self, step: Step) -> Step:
        """Take eligible brokers that are no replicas out of a step: Kafka keeps them, though they can't be elected."""
        for record in step.records:
            change = record.message
            if isinstance(change, PartitionChangeRecord) and change.eligible_leader_replicas is not None:
                partition = self.image.topics_by_id[change.topic_id].partitions[change.partition_id]
                replicas = change.replicas or partition.replicas
                elr = [broker for broker in change.eligible_leader_replicas if broker in replicas]
                change.eligible_leader_replicas = None if tuple(elr) == partition.elr else elr
        return step

    def decision(self, step: Step) -> Any:
        assert step.request is not None
        decide = DECISIONS.get(ApiKey(step.request.API_KEY))
        if decide is None:
            return self.members(step)
        ids = [each.topic_id for each in getattr(step.answer, "topics", ()) if step.what.startswith("create")]
        return decide(self.controller(ids), step.request)

    def members(self, step: Step) -> Any:
        """Decide on a broker's registration, heartbeat or unregistration."""
        controller, request = self.controller(), step.request
        sessions = Sessions(1000, controller.node_id)
        if isinstance(request, UnregisterBrokerRequest):
            return unregister_broker(controller, request)
        if isinstance(request, BrokerHeartbeatRequest):
            for broker in self.image.brokers.values():
                sessions.contact(broker.id, broker.epoch, _ALL_SEEN, 0)
            return broker_heartbeat(controller, sessions, request, next_offset=0, now=0)
        assert isinstance(request, BrokerRegistrationRequest)
        next_offset = step.answer.broker_epoch + 1 - len(step.records)
        return register_broker(
            controller, sessions, request, cluster_id=request.cluster_id, next_offset=next_offset, now=0
        )

    def fencings(self, step: Step) -> Iterator[ApiMessageAndVersion]:
        """Yield the records that fence the brokers whose sessions ended in the step."""
        for record in step.records:
            if isinstance(record.message, BrokerRegistrationChangeRecord):
                yield from fence_records(self.controller(), self.image.brokers[record.message.broker_id])


def plain(value: Any) -> Any:
    """Return a value that compares and prints well; lists in the order of Kafka's hash tables are sorted."""
    if isinstance(value, Fields):
        return {name: plain(getattr(value, name)) for name in value.__match_args__ if name != "configs"}
    if isinstance(value, list):
        items = [plain(item) for item in value]
        return sorted(items, key=str) if isinstance(value[0] if value else None, NAMED) else items
    return value


NAMED = (ReplicaElectionResult, OngoingTopicReassignment)


def written(records: Iterable[ApiMessageAndVersion]) -> list[Any]:
    """Return records in a comparable form, those of one partition in their order."""
    lines = [(record.message.API_KEY, record.version, plain(record.message)) for record in records]
    return sorted(lines, key=lambda line: (line[0], line[2].get("topic_id", b""), line[2].get("partition_id", 0)))


def placed_by_chance(step: Step) -> bool:
    topics = getattr(step.request, "topics", ())
    return isinstance(step.request, CreateTopicsRequest | CreatePartitionsRequest) and not any(
        topic.assignments for topic in topics
    )


@pytest.mark.parametrize("section", SECTIONS)
def test_decided_as_by_kafka(section: str) -> None:
    replayed = Replayed()
    for recorded in (step for step in steps() if step.section == section):
        step = replayed.without_strangers(recorded)
        ours, theirs = decided(replayed, step)
        if (section, step.what) in OTHERWISE:
            assert ours != theirs, f"{step.what}: it is as with Kafka now"
        else:
            assert ours == theirs, step.what
        replayed.apply(step.records)


def decided(replayed: Replayed, step: Step) -> tuple[Any, Any]:
    """Return the decision made here and Kafka's decision, as far as the two can be compared."""
    if step.what == "wait":
        return written(balance_leaders(replayed.controller())), written(step.records)
    if step.request is None:
        return written(replayed.fencings(step)), written(step.records if step.what.startswith("expire") else [])
    if isinstance(step.request, IncrementalAlterConfigsRequest):
        return None, None  # what is decided about them is compared elsewhere
    try:
        decision = replayed.decision(step)
    except ApiError as error:
        return [error.code, error.message], [step.answer.error_code, step.answer.error_message]
    if placed_by_chance(step):
        ours, theirs = (
            [(each.error_code, each.error_message) for each in results(answer)]
            for answer in (decision.reply, step.answer)
        )
        return (ours, len(decision.records)), (theirs, len(step.records))
    return (plain(decision.reply), written(decision.records)), (plain(step.answer), written(step.records))


def results(answer: Any) -> Any:
    return answer.topics if isinstance(answer, CreateTopicsResponse) else answer.results


def test_what_is_done_otherwise_was_asked() -> None:
    assert {(step.section, step.what) for step in steps()} >= OTHERWISE.keys()
