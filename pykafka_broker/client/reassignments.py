"""Replicas moved between brokers, and between the log directories of one.

Rule: what a partition refuses is its own; the others move all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import Refused, check
from pykafka_broker.client.leaders import Place
from pykafka_broker.client.offsets import by_topic
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pykafka_broker.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from pykafka_broker.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest


class Directories(NamedTuple):
    """Where a replica is, and where it moves to; None where it isn't or doesn't."""

    current: str | None = None
    future: str | None = None


async def reassign(
    client: Client, wanted: Mapping[Place, list[int] | None], *, change_of_factor: bool = True
) -> dict[Place, Refused]:
    """Give each partition these replicas, or, for None, end its reassignment; those that refuse. Raises ClientError."""
    topics = [
        ReassignableTopic(topic, [ReassignablePartition(index, wanted[topic, index]) for index in indexes])
        for topic, indexes in by_topic(wanted)
    ]
    request = AlterPartitionReassignmentsRequest(client.request_timeout_ms, change_of_factor, topics)
    versions = None if change_of_factor else (1, 1)
    answer = await client.ask_controller(request, call="alterPartitionReassignments", versions=versions)
    check(answer.error_code, answer.error_message)
    return {
        (topic.name, each.partition_index): Refused(each.error_code, each.error_message)
        for topic in answer.responses
        for each in topic.partitions
        if each.error_code != ErrorCode.NONE
    }


async def directories_of(client: Client, node: int) -> dict[Place, Directories]:
    """Of all replicas of a broker, as far as its disks are there."""
    answer = await client.ask(DescribeLogDirsRequest(None), node, call="describeLogDirs")
    found: dict[Place, Directories] = {}
    for directory in answer.results:
        if directory.error_code == ErrorCode.NONE:
            for topic in directory.topics:
                for each in topic.partitions:
                    place = topic.name, each.partition_index
                    field = "future" if each.is_future_key else "current"
                    found[place] = found.get(place, Directories())._replace(**{field: directory.log_dir})
    return found


async def move_to_directories(client: Client, node: int, wanted: Mapping[Place, str]) -> dict[Place, int]:
    """Begin to move replicas of that broker; the error code of each."""
    paths: dict[str, list[Place]] = {}
    for place, path in wanted.items():
        paths.setdefault(path, []).append(place)
    directories = [
        AlterReplicaLogDir(path, [AlterReplicaLogDirTopic(topic, indexes) for topic, indexes in by_topic(places)])
        for path, places in paths.items()
    ]
    answer = await client.ask(AlterReplicaLogDirsRequest(directories), node, call="alterReplicaLogDirs")
    return {
        (topic.topic_name, each.partition_index): each.error_code
        for topic in answer.results
        for each in topic.partitions
    }
