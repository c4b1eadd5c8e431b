"""Groups: listed, described and deleted; committed offsets; share groups (KIP-932) and streams groups (KIP-1071).

Rule: a group is described as one of the consumer protocol (KIP-848) first. If it is none, or the broker does not know
such groups, it is described as a classic one. Requests name topics by name, as brokers before 4.1 need it. An error for
the whole group is raised; an error for one group of several, one topic or one partition is a value of the result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pykafka_broker.client.cluster import BrokerNode, Client
from pykafka_broker.client.errors import ClientError, KafkaError, TimedOut, check
from pykafka_broker.client.leaders import by_topic
from pykafka_broker.protocol.enums import CoordinatorType, TopicPartition
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
from pykafka_broker.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from pykafka_broker.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
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
    async def once() -> ListGroupsResponse:
        answer: ListGroupsResponse = await client.ask(
            ListGroupsRequest(list(states), list(types)), node, call="listGroups"
        )
        return answer

    found: ListGroupsResponse = await client.while_transient(once, lambda answer: int(answer.error_code))
    return found


# -- descriptions


CALL = "describeConsumerGroups"
CLASSIC, CONSUMER = "Classic", "Consumer"
_NOT_OF_THIS_KIND = {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION}
_CLASSIC_MEMBER = 0  # a member of a consumer group that joined by the classic protocol


class MemberView(NamedTuple):
    """A member of a group. epoch, target: of the consumer protocol. upgraded: None where the broker does not tell."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: list[TopicPartition]
    epoch: int | None = None
    target: list[TopicPartition] | None = None
    upgraded: bool | None = None


class GroupView(NamedTuple):
    """A group's description. Epochs belong to the consumer protocol."""

    group_id: str
    kind: str
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
            group = await ask_about_group(client, group_id, ConsumerGroupDescribeRequest([group_id]), f"{CALL}")
            return _of_consumers(group, await coordinator_of(client, group_id))
        except KafkaError as error:
            if error.code not in _NOT_OF_THIS_KIND:
                raise
        group = await ask_about_group(client, group_id, DescribeGroupsRequest([group_id]), CALL)
        return _of_classic(group, await coordinator_of(client, group_id))
    except ClientError as error:
        return error


async def coordinator_of(client: Client, group_id: str) -> BrokerNode:
    """Return the coordinator of the group."""
    return client.nodes[await client.coordinator(CoordinatorType.GROUP, group_id)]


async def ask_about_group(client: Client, group_id: str, request: Any, call: str) -> Any:
    """Ask a group's coordinator about the group and return the group's entry. Raises KafkaError."""
    answer = await client.ask_coordinator(
        CoordinatorType.GROUP, group_id, request, lambda answer: int(answer.groups[0].error_code), call=call
    )
    group = answer.groups[0]
    if group.error_code != ErrorCode.NONE:
        raise KafkaError(group.error_code, getattr(group, "error_message", None))
    return group


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
    return GroupView(group.group_id, CONSUMER, group.group_state, group.assignor_name, coordinator, members, *epochs)


def _of_classic(group: Any, coordinator: BrokerNode) -> GroupView:
    if group.protocol_type not in ("", "consumer"):
        raise ClientError(f"GroupId {group.group_id} is not a consumer group ({group.protocol_type}).")
    members = [
        MemberView(
            each.member_id, each.group_instance_id, each.client_id, each.client_host, _decoded(each.member_assignment)
        )
        for each in group.members
    ]
    return GroupView(group.group_id, CLASSIC, group.group_state, group.protocol_data, coordinator, members)


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


_SEVERAL_GROUPS = (8, 9)  # versions of OffsetFetch; from 10 on topics are named by id
_ONE_GROUP = (2, 7)  # from 2 on all topics can be asked for


class Committed(NamedTuple):
    """A committed offset; leader_epoch is -1 where none was committed."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


async def committed_offsets(client: Client, group_id: str) -> dict[TopicPartition, Committed]:
    """Return all committed offsets of the group by partition. Raises KafkaError."""
    several = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id, topics=None)])
    try:
        answer = await _fetch(client, group_id, several, _SEVERAL_GROUPS)
        told = answer.groups[0]
    except KafkaError as error:
        if error.code != ErrorCode.UNSUPPORTED_VERSION:
            raise
        told = await _fetch(client, group_id, OffsetFetchRequest(group_id, topics=None), _ONE_GROUP)
    found = {}
    for topic in told.topics:
        for each in topic.partitions:
            check(each.error_code)
            if each.committed_offset >= 0:
                committed = Committed(each.committed_offset, each.committed_leader_epoch, each.metadata or "")
                found[TopicPartition(topic.name, each.partition_index)] = committed
    return dict(sorted(found.items()))


async def _fetch(client: Client, group_id: str, request: OffsetFetchRequest, versions: tuple[int, int]) -> Any:
    def code_of(answer: Any) -> int:
        return int(answer.groups[0].error_code if answer.groups else answer.error_code)

    call = "listConsumerGroupOffsets"
    answer = await client.ask_coordinator(
        CoordinatorType.GROUP, group_id, request, code_of, versions=versions, call=call
    )
    check(code_of(answer))
    return answer


async def commit_offsets(client: Client, group_id: str, offsets: Mapping[TopicPartition, Committed]) -> None:
    """Commit offsets for a group without members. Raises KafkaError with the first error."""
    topics = [
        OffsetCommitRequestTopic(
            topic,
            partitions=[_to_commit(index, offsets[TopicPartition(topic, index)]) for index in indexes],
        )
        for topic, indexes in by_topic(offsets)
    ]
    request = OffsetCommitRequest(group_id, topics=topics)
    call = "alterConsumerGroupOffsets"
    answer = await client.ask_coordinator(
        CoordinatorType.GROUP, group_id, request, _first_error, versions=(1, 9), call=call
    )
    check(_first_error(answer))


def _to_commit(index: int, committed: Committed) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        index,
        committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        committed_metadata=committed.metadata,
    )


def _first_error(answer: Any) -> int:
    codes = (each.error_code for topic in answer.topics for each in topic.partitions)
    return next((code for code in codes if code != ErrorCode.NONE), ErrorCode.NONE)


async def delete_offsets(
    client: Client, group_id: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, KafkaError | None]:
    """Delete committed offsets; returns None or the error for each partition.

    Raises:
        KafkaError: the whole request was refused.
    """
    topics = [
        OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(index) for index in indexes])
        for topic, indexes in by_topic(partitions)
    ]
    request = OffsetDeleteRequest(group_id, topics)
    answer = await client.ask_coordinator(
        CoordinatorType.GROUP, group_id, request, lambda answer: int(answer.error_code), call="offsetDelete"
    )
    check(answer.error_code)
    return {
        TopicPartition(topic.name, each.partition_index): None
        if each.error_code == ErrorCode.NONE
        else KafkaError(each.error_code)
        for topic in answer.topics
        for each in topic.partitions
    }


async def delete_group(client: Client, group_id: str, *, call: str = "deleteConsumerGroups") -> None:
    """Delete a group of any kind, which has no members. Raises KafkaError."""
    answer = await client.ask_coordinator(
        CoordinatorType.GROUP,
        group_id,
        DeleteGroupsRequest([group_id]),
        lambda answer: int(answer.results[0].error_code),
        call=call,
    )
    check(answer.results[0].error_code)


# -- share groups


SHARE = "Share"


class Start(NamedTuple):
    """The start offset of a share group in a partition; None while unknown."""

    offset: int | None
    leader_epoch: int | None
    lag: int | None


async def describe_share_group(client: Client, group_id: str) -> GroupView:
    """Return a share group's description. Raises ClientError."""
    group = await ask_about_group(client, group_id, ShareGroupDescribeRequest([group_id]), "describeShareGroups")
    members = [
        MemberView(
            each.member_id, None, each.client_id, each.client_host, partitions_of(each.assignment), each.member_epoch
        )
        for each in group.members
    ]
    coordinator = await coordinator_of(client, group_id)
    epochs = group.group_epoch, group.assignment_epoch
    return GroupView(group_id, SHARE, group.group_state, group.assignor_name, coordinator, members, *epochs)


async def share_group_starts(client: Client, group_id: str) -> dict[TopicPartition, Start]:
    """Return the start offset of each partition of a share group, sorted. Raises ClientError."""
    request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(group_id, None)])
    answer = await client.ask_coordinator(
        CoordinatorType.GROUP,
        group_id,
        request,
        lambda each: int(each.groups[0].error_code),
        call="describeShareGroupOffsets",
    )
    group = answer.groups[0]
    check(group.error_code, group.error_message)
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
        AlterShareGroupOffsetsRequestTopic(
            topic,
            [AlterShareGroupOffsetsRequestPartition(index, offsets[TopicPartition(topic, index)]) for index in indexes],
        )
        for topic, indexes in by_topic(offsets)
    ]
    answer = await _ask(client, AlterShareGroupOffsetsRequest(group_id, topics), "alterShareGroupOffsets")
    check(answer.error_code, answer.error_message)
    for topic in answer.responses:
        for each in topic.partitions:
            check(each.error_code, each.error_message)


async def delete_share_group_starts(
    client: Client, group_id: str, topics: Collection[str]
) -> dict[str, KafkaError | None]:
    """Delete a share group's start offsets by topic; returns None or the error of each topic.

    Raises:
        ClientError: the whole request was refused.
    """
    named = [DeleteShareGroupOffsetsRequestTopic(topic) for topic in topics]
    answer = await _ask(client, DeleteShareGroupOffsetsRequest(group_id, named), "deleteShareGroupOffsets")
    check(answer.error_code, answer.error_message)
    return {
        each.topic_name: None if each.error_code == ErrorCode.NONE else KafkaError(each.error_code, each.error_message)
        for each in answer.responses
    }


async def _ask(client: Client, request: Any, call: str) -> Any:
    return await client.ask_coordinator(
        CoordinatorType.GROUP, request.group_id, request, lambda each: int(each.error_code), call=call
    )


# -- streams groups


async def describe_streams_group(client: Client, group_id: str) -> DescribedGroup:
    """Return a streams group's description. Raises ClientError."""
    found: DescribedGroup = await ask_about_group(
        client, group_id, StreamsGroupDescribeRequest([group_id]), "describeStreamsGroups"
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
