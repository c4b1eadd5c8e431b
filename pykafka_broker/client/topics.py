"""Topics: listed, described and changed; replicas moved between brokers, and between the log directories of one.

Rule: a description comes from DescribeTopicPartitions, which tells the eligible leaders (KIP-966), and from Metadata
where a broker does not serve it. A partition whose replicas can't be moved does not stop the others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import KafkaError, check, check_all
from pykafka_broker.client.leaders import partitions_in, values_by_topic
from pykafka_broker.protocol.enums import TopicPartition, by_topic
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
from pykafka_broker.protocol.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from pykafka_broker.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest
from pykafka_broker.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from pykafka_broker.protocol.messages.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from pykafka_broker.protocol.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from pykafka_broker.protocol.messages.list_partition_reassignments_response import OngoingPartitionReassignment
from pykafka_broker.protocol.messages.metadata_response import MetadataResponseTopic
from pykafka_broker.protocol.runtime import ZERO_UUID

# -- topics


PARTITIONS_IN_AN_ANSWER = 2000


class PartitionView(NamedTuple):
    """A partition's leader and replicas; elr and last_known_elr are None if the broker does not tell."""

    partition: int
    leader: int
    replicas: list[int]
    isr: list[int]
    elr: list[int] | None = None
    last_known_elr: list[int] | None = None


class TopicView(NamedTuple):
    """A topic and the topic's partitions in order."""

    name: str
    topic_id: bytes
    is_internal: bool
    partitions: list[PartitionView]


async def list_topics(client: Client) -> list[MetadataResponseTopic]:
    """Return all topics visible to the client, sorted by name."""
    found = await client.metadata(None, call="listTopics")
    return sorted((each for each in found.topics if each.name is not None), key=lambda each: each.name or "")


async def describe_topics(
    client: Client, names: Collection[str], *, limit: int = PARTITIONS_IN_AN_ANSWER, by_id: bool = False
) -> dict[str, TopicView]:
    """Return the existing topics among the names, by name. Raises KafkaError.

    Args:
        limit: the most partitions in one answer.
        by_id: the user named ids: Kafka's client asks for metadata then, which has no eligible leader replicas.
    """
    wanted = sorted(names)
    if not by_id:
        try:
            return await _by_partitions(client, wanted, limit)
        except KafkaError as error:
            if error.code != ErrorCode.UNSUPPORTED_VERSION:
                raise
    return await _by_metadata(client, wanted)


async def _by_partitions(client: Client, names: list[str], limit: int) -> dict[str, TopicView]:
    found: dict[str, TopicView] = {}
    cursor: Cursor | None = None
    while names:
        request = DescribeTopicPartitionsRequest([TopicRequest(each) for each in names], limit, cursor)
        answer = await client.ask(request, call="listNodes")  # the first call of Kafka's client
        for each in answer.topics:
            if each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            check(each.error_code)
            topic = found.setdefault(each.name, TopicView(each.name, each.topic_id, each.is_internal, []))
            topic.partitions.extend(
                PartitionView(
                    part.partition_index,
                    part.leader_id,
                    part.replica_nodes,
                    part.isr_nodes,
                    part.eligible_leader_replicas,
                    part.last_known_elr,
                )
                for part in each.partitions
            )
        if answer.next_cursor is None:
            break
        cursor = Cursor(answer.next_cursor.topic_name, answer.next_cursor.partition_index)
        names = [each for each in names if each >= cursor.topic_name]
    return found


async def _by_metadata(client: Client, names: list[str]) -> dict[str, TopicView]:
    found: dict[str, TopicView] = {}
    for each in (await client.metadata(names, call="describeTopics")).topics if names else []:
        if each.name is None or each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            continue
        check(each.error_code)
        parts = [
            PartitionView(part.partition_index, part.leader_id, part.replica_nodes, part.isr_nodes)
            for part in sorted(each.partitions, key=lambda part: part.partition_index)
        ]
        found[each.name] = TopicView(each.name, each.topic_id or ZERO_UUID, each.is_internal, parts)
    return found


async def list_reassignments(
    client: Client, partitions: dict[str, list[int]] | None = None
) -> dict[TopicPartition, OngoingPartitionReassignment]:
    """Return the reassignments in progress, of the given partitions or, for None, of all. Raises KafkaError."""
    wanted = None
    if partitions is not None:
        wanted = [ListPartitionReassignmentsTopics(name, indexes) for name, indexes in partitions.items()]
    request = ListPartitionReassignmentsRequest(client.request_timeout_ms, wanted)
    answer = await client.ask_controller(request, call="listPartitionReassignments")
    check(answer.error_code, answer.error_message)
    return dict(partitions_in(answer.topics))


async def create_topic(
    client: Client,
    name: str,
    *,
    partitions: int = -1,
    replication_factor: int = -1,
    assignment: Sequence[Sequence[int]] = (),
    configs: dict[str, str] | None = None,
) -> None:
    """Create a topic. Raises KafkaError.

    Args:
        partitions: -1 leaves the number to the broker, and so does -1 for `replication_factor`.
        assignment: the replicas of each partition.
    """
    topic = CreatableTopic(
        name,
        partitions,
        replication_factor,
        [CreatableReplicaAssignment(index, list(replicas)) for index, replicas in enumerate(assignment)],
        [CreatableTopicConfig(key, value) for key, value in (configs or {}).items()],
    )
    request = CreateTopicsRequest([topic], client.request_timeout_ms)
    answer = await client.ask_controller(request, call="createTopics", repeatable=False)
    check_all(answer.topics)


async def create_partitions(
    client: Client, counts: dict[str, int], assignments: dict[str, list[list[int]]] | None = None
) -> None:
    """Raise the number of partitions of topics. Raises KafkaError.

    Args:
        counts: the new number of partitions of each topic.
        assignments: the replicas of the new partitions.
    """
    topics = []
    for name, count in counts.items():
        given = (assignments or {}).get(name)
        partitions = None if given is None else [CreatePartitionsAssignment(each) for each in given]
        topics.append(CreatePartitionsTopic(name, count, partitions))
    request = CreatePartitionsRequest(topics, client.request_timeout_ms)
    answer = await client.ask_controller(request, call="createPartitions", repeatable=False)
    check_all(answer.results)


async def delete_topics(client: Client, names: Collection[str]) -> None:
    """Delete topics. Raises KafkaError with the first error; the other topics are deleted all the same."""
    request = DeleteTopicsRequest(topic_names=list(names), timeout_ms=client.request_timeout_ms)
    answer = await client.ask_controller(request, versions=(0, 5), call="deleteTopics", repeatable=False)
    check_all(answer.responses)


# -- reassignments


class ReplicaDirectories(NamedTuple):
    """The log directory of a replica, and the target of a move; None if missing."""

    current: str | None = None
    future: str | None = None


async def reassign(
    client: Client, wanted: Mapping[TopicPartition, list[int] | None], *, change_of_factor: bool = True
) -> dict[TopicPartition, KafkaError]:
    """Change the replicas of partitions; returns an error for each refused partition. Raises ClientError.

    Args:
        wanted: the new replicas of each partition; None ends its reassignment.
    """
    topics = [
        ReassignableTopic(topic, [ReassignablePartition(*each) for each in of]) for topic, of in values_by_topic(wanted)
    ]
    request = AlterPartitionReassignmentsRequest(client.request_timeout_ms, change_of_factor, topics)
    versions = None if change_of_factor else (1, 1)
    answer = await client.ask_controller(request, call="alterPartitionReassignments", versions=versions)
    check(answer.error_code, answer.error_message)
    return {
        partition: KafkaError(each.error_code, each.error_message)
        for partition, each in partitions_in(answer.responses)
        if each.error_code != ErrorCode.NONE
    }


async def directories_of(client: Client, node: int) -> dict[TopicPartition, ReplicaDirectories]:
    """Return the directories of all replicas of a broker, except on failed disks."""
    answer = await client.ask(DescribeLogDirsRequest(None), node, call="describeLogDirs")
    found: dict[TopicPartition, ReplicaDirectories] = {}
    for directory in answer.results:
        if directory.error_code == ErrorCode.NONE:
            for partition, each in partitions_in(directory.topics):
                field = "future" if each.is_future_key else "current"
                found[partition] = found.get(partition, ReplicaDirectories())._replace(**{field: directory.log_dir})
    return found


async def move_to_directories(
    client: Client, node: int, wanted: Mapping[TopicPartition, str]
) -> dict[TopicPartition, int]:
    """Begin to move replicas of a broker to other directories; returns the error code of each."""
    paths: dict[str, list[TopicPartition]] = {}
    for partition, path in sorted(wanted.items()):
        paths.setdefault(path, []).append(partition)
    directories = [
        AlterReplicaLogDir(path, [AlterReplicaLogDirTopic(*each) for each in by_topic(partitions).items()])
        for path, partitions in paths.items()
    ]
    answer = await client.ask(AlterReplicaLogDirsRequest(directories), node, call="alterReplicaLogDirs")
    return {
        TopicPartition(topic.topic_name, each.partition_index): each.error_code
        for topic in answer.results
        for each in topic.partitions
    }
