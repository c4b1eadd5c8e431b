"""Share groups (KIP-932): their description, and the offsets at which they begin.

Rule: what is refused for all of a group is raised; of one topic or partition it is a value.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import Refused, check
from pykafka_broker.client.group_description import GroupView, MemberView, ask_about_group, coordinator_of, places_of
from pykafka_broker.client.leaders import Place
from pykafka_broker.client.offsets import by_topic
from pykafka_broker.protocol.enums import CoordinatorType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from pykafka_broker.protocol.messages.delete_share_group_offsets_request import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from pykafka_broker.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from pykafka_broker.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest

SHARE = "Share"
_CALL = "describeShareGroups"


class Start(NamedTuple):
    """Where a group begins in a partition; None is not known yet."""

    offset: int | None
    leader_epoch: int | None
    lag: int | None


async def describe_share_group(client: Client, group_id: str) -> GroupView:
    """Raises ClientError."""
    group = await ask_about_group(client, group_id, ShareGroupDescribeRequest([group_id]), _CALL)
    members = [
        MemberView(
            each.member_id, None, each.client_id, each.client_host, places_of(each.assignment), each.member_epoch
        )
        for each in group.members
    ]
    coordinator = await coordinator_of(client, group_id)
    epochs = group.group_epoch, group.assignment_epoch
    return GroupView(group_id, SHARE, group.group_state, group.assignor_name, coordinator, members, *epochs)


async def share_group_starts(client: Client, group_id: str) -> dict[Place, Start]:
    """Of all partitions that the group knows, in order. Raises ClientError."""
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
            found[topic.topic_name, each.partition_index] = Start(
                each.start_offset if known else None,
                each.leader_epoch if known else None,
                each.lag if known and each.lag >= 0 else None,
            )
    return dict(sorted(found.items()))


async def alter_share_group_starts(client: Client, group_id: str, offsets: Mapping[Place, int]) -> None:
    """For a group that has no members. Raises ClientError with the first error."""
    topics = [
        AlterShareGroupOffsetsRequestTopic(
            topic, [AlterShareGroupOffsetsRequestPartition(index, offsets[topic, index]) for index in indexes]
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
) -> dict[str, Refused | None]:
    """By topic, None where it is done. Raises ClientError if nothing was done for any."""
    named = [DeleteShareGroupOffsetsRequestTopic(topic) for topic in topics]
    answer = await _ask(client, DeleteShareGroupOffsetsRequest(group_id, named), "deleteShareGroupOffsets")
    check(answer.error_code, answer.error_message)
    return {
        each.topic_name: None if each.error_code == ErrorCode.NONE else Refused(each.error_code, each.error_message)
        for each in answer.responses
    }


async def _ask(client: Client, request: Any, call: str) -> Any:
    return await client.ask_coordinator(
        CoordinatorType.GROUP, request.group_id, request, lambda each: int(each.error_code), call=call
    )
