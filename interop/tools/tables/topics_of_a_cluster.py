"""kafka-topics --describe with its filters of partitions, where one of three brokers is stopped."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from confluent_kafka.admin import AdminClient

from interop.raw import RawClient
from interop.tools.steps import Step, sorted_lines, steps
from interop.waiting import eventually
from pykafka_broker.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pykafka_broker.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pykafka_broker.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest

BROKERS = 3
STOPPED = 3
_REPLICAS = {
    "whole": [[1, 2], [2, 1]],  # nothing of it is on the broker that stops
    "wide": [[3, 1, 2], [1, 2, 3]],
    "alone": [[3], [1]],
    "just": [[1, 3]],  # with a minimum of one: it has just that
    "below": [[2, 3]],  # with a minimum of two: too few
    "moved": [[1, 2]],  # to the broker that is stopped, for which it waits
    "enough": [[1, 2, 3]],  # one is missing, and the minimum is there
}
_HOMES = sorted(broker for of in _REPLICAS.values() for each in of for broker in each)
_MINIMUM = {"wide": "3", "below": "2", "enough": "2"}


def prepare(bootstrap: str) -> None:
    with RawClient(bootstrap.partition(",")[0]) as client:
        topics = [
            CreatableTopic(
                name,
                -1,
                -1,
                [CreatableReplicaAssignment(index, each) for index, each in enumerate(replicas)],
                [CreatableTopicConfig("min.insync.replicas", _MINIMUM.get(name, "1"))],
            )
            for name, replicas in _REPLICAS.items()
        ]
        made = client.call(CreateTopicsRequest(topics, 20_000), 5)
        assert not any(each.error_code for each in made.topics), made
    eventually(lambda: _in_sync(bootstrap), _HOMES, 20)


def settle(known: Mapping[str, str]) -> None:
    """Every broker that is left knows which one is not."""
    bootstrap = known["bootstrap"]
    for address in bootstrap.split(",")[: STOPPED - 1]:
        eventually(partial(_in_sync, address), [each for each in _HOMES if each != STOPPED], 20)
    with RawClient(bootstrap.partition(",")[0]) as client:
        topic = ReassignableTopic("moved", [ReassignablePartition(0, [1, STOPPED])])
        answer = client.call(AlterPartitionReassignmentsRequest(20_000, topics=[topic]), 0)
        assert answer.responses[0].partitions[0].error_code == 0, answer
        asked = ListPartitionReassignmentsRequest(20_000, None)
        eventually(lambda: [each.name for each in client.call(asked).topics], ["moved"], 20)


def _in_sync(bootstrap: str) -> list[int]:
    """The brokers of all replicas in sync; none while one that is not in sync leads."""
    topics = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=60).topics
    parts = [each for name in _REPLICAS if name in topics for each in topics[name].partitions.values()]
    if any(each.leader not in (-1, *each.isrs) for each in parts):
        return []
    return sorted(replica for each in parts for replica in each.isrs)


def _described(*filters: str) -> list[Step]:
    return [Step("topics", f"--describe {each}".strip(), alike=sorted_lines) for each in filters]


_FILTERS = ("--under-replicated-partitions", "--under-min-isr-partitions", "--at-min-isr-partitions")
STEPS: list[Step] = steps(
    "topics",
    "--list",
    *_described(
        "",
        *_FILTERS,
        "--unavailable-partitions",
        " ".join(_FILTERS),
        "--unavailable-partitions --at-min-isr-partitions",
        *[f"--topic 'wide|below' {each}" for each in _FILTERS],
        "--topic alone --unavailable-partitions",
        "--topic whole --unavailable-partitions",
        "--topic missing --unavailable-partitions",
        "--topics-with-overrides",
        "--topic wide --partition-size-limit-per-response 1",
    ),
    "--create --topic on-all --replica-assignment 1:2:3",
    "--create --topic too-wide --replication-factor 3",
    "--create --topic on-the-stopped --replica-assignment 3",
    *_described("--topic on-all", "--topic on-all --under-replicated-partitions"),
    *_described("--topic moved", *[f"--topic moved {each}" for each in _FILTERS]),
    "--alter --topic whole --partitions 3 --replica-assignment 1:2,2:1,2:3",
    "--delete --topic alone",
    "--list",
)
