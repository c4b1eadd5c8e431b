"""Groups: listed, described and deleted; committed offsets; share groups (KIP-932) and streams groups (KIP-1071).

Rule: a group is described as one of the consumer protocol (KIP-848) first. If it is none, or the broker does not know
such groups, it is described as a classic one. Requests name topics by name, as brokers before 4.1 need it. An error for
the whole group is raised; an error for one group of several, one topic or one partition is a value of the result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from pykafka_broker.client.cluster import Backoff, BrokerNode, Client, check_topic, first_error
from pykafka_broker.client.errors import ClientError, KafkaError, TimedOut, check, check_all
from pykafka_broker.client.leaders import partitions_in, values_by_topic
from pykafka_broker.protocol.enums import CoordinatorType, TopicPartition, by_topic
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from pykafka_broker.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from pykafka_broker.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from pykafka_broker.protocol.messages.delete_groups_request import DeleteGroupsRequest
from pykafka_broker.protocol.messages.delete_share_group_offsets_request import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from pykafka_broker.protocol.messages.describe_groups_request import DescribeGroupsRequest
from pykafka_broker.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from pykafka_broker.protocol.messages.list_groups_request import ListGroupsRequest
from pykafka_broker.protocol.messages.list_groups_response import ListedGroup, ListGroupsResponse
from pykafka_broker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykafka_broker.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from pykafka_broker.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from pykafka_broker.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from pykafka_broker.protocol.messages.share_group_describe_response import DescribedGroup as DescribedShareGroup
from pykafka_broker.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from pykafka_broker.protocol.messages.streams_group_describe_response import DescribedGroup, Subtopology, TaskIds
from pykafka_broker.protocol.runtime import DecodeError

# -- all groups


async def list_groups(client: Client, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[ListedGroup]:
    """Return the groups with any of the states and any of the types, sorted by id.

    Raises:
        KafkaError: a broker before Kafka 2.6 can't select by state, before 3.8 not by type.
    """
    try:
        await client.refresh(call="listGroups")
    except TimedOut:
        raise TimedOut("Failed to find brokers to send ListGroups") from None
    answers = await asyncio.gather(*(_of_one(client, node, states, types) for node in sorted(client.nodes)))
    found: dict[str, ListedGroup] = {}
    for answer in answers:
        check(answer.error_code)
        for group in answer.groups:
            found.setdefault(group.group_id, group)
    return [found[group_id] for group_id in sorted(found)]


async def _of_one(client: Client, node: int, states: Sequence[str], types: Sequence[str]) -> ListGroupsResponse:
    request = ListGroupsRequest(list(states), list(types))
    found: ListGroupsResponse = await client.while_transient(partial(client.ask, request, node, call="listGroups"))
    return found


# -- descriptions


CALL = "describeConsumerGroups"
CLASSIC, CONSUMER = "Classic", "Consumer"
_NOT_OF_THIS_KIND = {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION}
_CLASSIC_MEMBER = 0  # a member of a consumer group that joined by the classic protocol


class MemberView(NamedTuple):
    """A member of a group of consumers.

    epoch, target: of the consumer protocol. upgraded: None where the broker does not tell.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: list[TopicPartition]
    epoch: int | None = None
    target: list[TopicPartition] | None = None
    upgraded: bool | None = None


class GroupView(NamedTuple):
    """The description of a group of consumers. Epochs belong to the consumer protocol."""

    group_id: str
    state: str
    assignor: str
    coordinator: BrokerNode
    members: list[MemberView]
    epoch: int | None = None
    target_epoch: int | None = None


async def describe_consumer_groups(client: Client, group_ids: Iterable[str]) -> dict[str, GroupView | ClientError]:
    """Describe each of the groups; a group without a description has an error instead."""
    names = list(dict.fromkeys(group_ids))
    return dict(zip(names, await asyncio.gather(*(_described(client, name) for name in names)), strict=True))


async def _described(client: Client, group_id: str) -> GroupView | ClientError:
    try:
        try:
            group = await client.ask_group(group_id, ConsumerGroupDescribeRequest([group_id]), _first_group, call=CALL)
            return _of_consumers(group, await coordinator_of(client, group_id))
        except KafkaError as error:
            if error.code not in _NOT_OF_THIS_KIND:
                raise
        group = await client.ask_group(group_id, DescribeGroupsRequest([group_id]), _first_group, call=CALL)
        return _of_classic(group, await coordinator_of(client, group_id))
    except ClientError as error:
        return error


async def coordinator_of(client: Client, group_id: str) -> BrokerNode:
    return client.nodes[await client.coordinator(CoordinatorType.GROUP, group_id)]


def _first_group(answer: Any) -> Any:
    return answer.groups[0]


def _of_consumers(group: Any, coordinator: BrokerNode) -> GroupView:
    members = [
        MemberView(
            each.member_id,
            each.instance_id,
            each.client_id,
            each.client_host,
            partitions_of(each.assignment),
            each.member_epoch,
            partitions_of(each.target_assignment),
            None if each.member_type < 0 else each.member_type != _CLASSIC_MEMBER,
        )
        for each in group.members
    ]
    epochs = group.group_epoch, group.assignment_epoch
    return GroupView(group.group_id, group.group_state, group.assignor_name, coordinator, members, *epochs)


def _of_classic(group: Any, coordinator: BrokerNode) -> GroupView:
    if group.protocol_type not in ("", "consumer"):
        raise ClientError(f"GroupId {group.group_id} is not a consumer group ({group.protocol_type}).")
    members = [
        MemberView(
            each.member_id, each.group_instance_id, each.client_id, each.client_host, _decoded(each.member_assignment)
        )
        for each in group.members
    ]
    return GroupView(group.group_id, group.group_state, group.protocol_data, coordinator, members)


def partitions_of(assignment: Any) -> list[TopicPartition]:
    """Return the partitions of an assignment in an answer of a newer protocol, sorted."""
    return sorted(
        TopicPartition(topic.topic_name, each) for topic in assignment.topic_partitions for each in topic.partitions
    )


def _decoded(data: bytes) -> list[TopicPartition]:
    """Return the partitions of an assignment in the form of consumers; empty for other forms."""
    if not data:
        return []
    version = min(int.from_bytes(data[:2]), ConsumerProtocolAssignment.MAX_VERSION)
    try:
        assignment, _end = ConsumerProtocolAssignment.read(data, 2, version)
    except DecodeError as error:
        raise ClientError(f"an assignment that is none: {error}") from None
    return sorted(
        TopicPartition(topic.topic, each) for topic in assignment.assigned_partitions for each in topic.partitions
    )


# -- offsets


_BY_NAME = 9  # the last version of OffsetFetch and OffsetCommit with names of topics
_ONE_GROUP = (2, 7)  # from 2 on all topics can be asked for
_ONE_STABLE_GROUP = (7, 7)


class Committed(NamedTuple):
    """A committed offset; leader_epoch is -1 where none was committed."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


async def committed_offsets(
    client: Client,
    group_id: str,
    partitions: Collection[TopicPartition] | None = None,
    *,
    member: tuple[str, int] | None = None,
    lenient: bool = False,
    stable: bool = False,
) -> dict[TopicPartition, Committed]:
    """Return the committed offsets of all or the given partitions of a group. Raises KafkaError and TimedOut.

    Args:
        member: id and epoch of the asking member, in a group of the consumer protocol.
        lenient: partitions with an error are left out.
        stable: wait for open transactions that may change the offsets (KIP-447).
    """
    until, backoff = client.deadline(), Backoff(client)
    while True:
        told = await _offsets_told(client, group_id, partitions, member, stable)
        unstable = any(each.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT for _, each in partitions_in(told.topics))
        if not unstable:
            break
        if client.deadline(0) >= until:
            raise TimedOut(f"Timed out waiting for transactions that may change the offsets of group {group_id}")
        await backoff.pause(until)
    found = {}
    for partition, each in partitions_in(told.topics):
        if not lenient:
            check_topic(partition.topic, each.error_code)
            check(each.error_code)
        if each.committed_offset >= 0:
            found[partition] = Committed(each.committed_offset, each.committed_leader_epoch, each.metadata or "")
    return dict(sorted(found.items()))


async def _offsets_told(
    client: Client,
    group_id: str,
    partitions: Collection[TopicPartition] | None,
    member: tuple[str, int] | None,
    stable: bool,
) -> Any:
    """Return the group in an answer to OffsetFetch."""
    several = one = None
    if partitions is not None:
        topics = by_topic(sorted(partitions)).items()
        several = [OffsetFetchRequestTopics(topic, partition_indexes=of) for topic, of in topics]
        one = [OffsetFetchRequestTopic(topic, of) for topic, of in topics]
    member_id, epoch = member or (None, -1)
    of_group = OffsetFetchRequestGroup(group_id, member_id, epoch, several)
    call = "listConsumerGroupOffsets"
    try:
        request = OffsetFetchRequest(groups=[of_group], require_stable=stable)
        versions = (9 if member else 8, _BY_NAME)
        return await client.ask_group(group_id, request, _first_group, versions=versions, call=call)
    except KafkaError as error:
        if error.code != ErrorCode.UNSUPPORTED_VERSION:
            raise
    for versions in (_ONE_STABLE_GROUP, _ONE_GROUP) if stable else (_ONE_GROUP,):
        request = OffsetFetchRequest(group_id, one, require_stable=versions is _ONE_STABLE_GROUP)
        try:
            return await client.ask_group(group_id, request, versions=versions, call=call)
        except KafkaError as error:
            if error.code != ErrorCode.UNSUPPORTED_VERSION or versions is _ONE_GROUP:
                raise
    raise AssertionError


async def commit_offsets(
    client: Client,
    group_id: str,
    offsets: Mapping[TopicPartition, Committed],
    *,
    member: tuple[int, str, str | None] = (-1, "", None),
    lowest: int = 1,
) -> None:
    """Commit offsets of a group. Raises KafkaError with the first error.

    Args:
        member: generation, id and instance id of the committing member; by default the group has no members.
        lowest: the lowest version of the request.
    """
    topics = by_topic(
        (topic, OffsetCommitRequestPartition(index, offset, committed_leader_epoch=epoch, committed_metadata=metadata))
        for (topic, index), (offset, epoch, metadata) in sorted(offsets.items())
    )
    named = [OffsetCommitRequestTopic(topic, partitions=of) for topic, of in topics.items()]
    request = OffsetCommitRequest(group_id, *member, topics=named)
    versions = (lowest, _BY_NAME)
    await client.ask_group(group_id, request, first_error, versions=versions, call="alterConsumerGroupOffsets")


async def delete_offsets(
    client: Client, group_id: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, KafkaError | None]:
    """Delete committed offsets; returns None or the error for each partition.

    Raises:
        KafkaError: the whole request was refused.
    """
    topics = [
        OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(index) for index in indexes])
        for topic, indexes in by_topic(sorted(partitions)).items()
    ]
    request = OffsetDeleteRequest(group_id, topics)
    answer = await client.ask_group(group_id, request, call="offsetDelete")
    return {
        partition: None if each.error_code == ErrorCode.NONE else KafkaError(each.error_code)
        for partition, each in partitions_in(answer.topics)
    }


async def delete_group(client: Client, group_id: str, *, call: str = "deleteConsumerGroups") -> None:
    """Delete a group of any kind, which has no members. Raises KafkaError."""
    await client.ask_group(group_id, DeleteGroupsRequest([group_id]), lambda answer: answer.results[0], call=call)


# -- share groups


class Start(NamedTuple):
    """The start offset of a share group in a partition; None while unknown."""

    offset: int | None
    leader_epoch: int | None
    lag: int | None


async def describe_share_group(client: Client, group_id: str) -> DescribedShareGroup:
    """Return a share group's description. Raises ClientError."""
    request = ShareGroupDescribeRequest([group_id])
    found: DescribedShareGroup = await client.ask_group(group_id, request, _first_group, call="describeShareGroups")
    return found


async def share_group_starts(client: Client, group_id: str) -> dict[TopicPartition, Start]:
    """Return the start offset of each partition of a share group, sorted. Raises ClientError."""
    request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(group_id, None)])
    group = await client.ask_group(group_id, request, _first_group, call="describeShareGroupOffsets")
    found = {}
    for topic in group.topics:
        for each in topic.partitions:
            check(each.error_code, each.error_message)
            known = each.start_offset >= 0
            found[TopicPartition(topic.topic_name, each.partition_index)] = Start(
                each.start_offset if known else None,
                each.leader_epoch if known else None,
                each.lag if known and each.lag >= 0 else None,
            )
    return dict(sorted(found.items()))


async def alter_share_group_starts(client: Client, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Change the start offsets of a share group without members. Raises ClientError with the first error."""
    topics = [
        AlterShareGroupOffsetsRequestTopic(topic, [AlterShareGroupOffsetsRequestPartition(*each) for each in of])
        for topic, of in values_by_topic(offsets)
    ]
    request = AlterShareGroupOffsetsRequest(group_id, topics)
    answer = await client.ask_group(group_id, request, call="alterShareGroupOffsets")
    for topic in answer.responses:
        check_all(topic.partitions)


async def delete_share_group_starts(
    client: Client, group_id: str, topics: Collection[str]
) -> dict[str, KafkaError | None]:
    """Delete a share group's start offsets by topic; returns None or the error of each topic.

    Raises:
        ClientError: the whole request was refused.
    """
    named = [DeleteShareGroupOffsetsRequestTopic(topic) for topic in topics]
    request = DeleteShareGroupOffsetsRequest(group_id, named)
    answer = await client.ask_group(group_id, request, call="deleteShareGroupOffsets")
    return {
        each.topic_name: None if each.error_code == ErrorCode.NONE else KafkaError(each.error_code, each.error_message)
        for each in answer.responses
    }


# -- streams groups


async def describe_streams_group(client: Client, group_id: str, *, with_topology: bool = False) -> DescribedGroup:
    """Return a streams group's description. Raises ClientError.

    Args:
        with_topology: whether the description of the topology is wanted too, if one is stored (KIP-1331).
    """
    request = StreamsGroupDescribeRequest([group_id], include_topology_description=with_topology)
    versions = (1, 1) if with_topology else None
    found: DescribedGroup = await client.ask_group(
        group_id, request, _first_group, call="describeStreamsGroups", versions=versions
    )
    return found


def _subtopologies(group: DescribedGroup) -> Sequence[Subtopology]:
    return () if group.topology is None else group.topology.subtopologies or ()


def internal_topics(group: DescribedGroup) -> list[str]:
    """Return the changelog and repartition topics of a streams application, sorted."""
    own: set[str] = set()
    for each in _subtopologies(group):
        own.update(topic.name for topic in (*each.repartition_source_topics, *each.state_changelog_topics))
        own.difference_update(each.source_topics)
    return sorted(own)


def active_partitions(group: DescribedGroup) -> list[TopicPartition]:
    """Return the partitions of the members' active tasks, sorted."""
    topics = {
        each.subtopology_id: [*each.source_topics, *(topic.name for topic in each.repartition_source_topics)]
        for each in _subtopologies(group)
    }
    return sorted(
        {
            TopicPartition(topic, partition)
            for member in group.members
            for tasks in member.assignment.active_tasks
            for topic in topics.get(tasks.subtopology_id, ())
            for partition in tasks.partitions
        }
    )


def tasks_of(assignment: Any) -> dict[str, list[TaskIds]]:
    """Return the tasks of an assignment by kind, without empty kinds."""
    found = {
        "ACTIVE": assignment.active_tasks,
        "STANDBY": assignment.standby_tasks,
        "WARMUP": assignment.warmup_tasks,
    }
    return {kind: tasks for kind, tasks in found.items() if tasks}
