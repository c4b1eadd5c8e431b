"""What groups of consumers are: their state and their members.

Rule: a group is asked for as one of the consumer protocol (KIP-848) first and, where it is none or the broker does not
know such groups, as a classic one; what comes of a group is its own, so an error is a value.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, NamedTuple

from pykafka_broker.client.cluster import Client, Node
from pykafka_broker.client.errors import ClientError, Refused
from pykafka_broker.client.leaders import Place
from pykafka_broker.protocol.enums import CoordinatorType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from pykafka_broker.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from pykafka_broker.protocol.messages.describe_groups_request import DescribeGroupsRequest
from pykafka_broker.protocol.runtime import DecodeError

CALL = "describeConsumerGroups"
CLASSIC, CONSUMER = "Classic", "Consumer"
_NOT_OF_THIS_KIND = {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION}
_CLASSIC_MEMBER = 0  # of a consumer group, which it joined by the classic protocol


class MemberView(NamedTuple):
    """`epoch` and `target` are of the consumer protocol; `upgraded` is None where the broker does not tell it."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: list[Place]
    epoch: int | None = None
    target: list[Place] | None = None
    upgraded: bool | None = None


class GroupView(NamedTuple):
    """Epochs are of the consumer protocol."""

    group_id: str
    kind: str
    state: str
    assignor: str
    coordinator: Node
    members: list[MemberView]
    epoch: int | None = None
    target_epoch: int | None = None


async def describe_consumer_groups(client: Client, group_ids: Iterable[str]) -> dict[str, GroupView | ClientError]:
    """Each of these groups, or why there is no description of it."""
    names = list(dict.fromkeys(group_ids))
    return dict(zip(names, await asyncio.gather(*(_described(client, name) for name in names)), strict=True))


async def _described(client: Client, group_id: str) -> GroupView | ClientError:
    try:
        try:
            group = await ask_about_group(client, group_id, ConsumerGroupDescribeRequest([group_id]), f"{CALL}")
            return _of_consumers(group, await coordinator_of(client, group_id))
        except Refused as error:
            if error.code not in _NOT_OF_THIS_KIND:
                raise
        group = await ask_about_group(client, group_id, DescribeGroupsRequest([group_id]), CALL)
        return _of_classic(group, await coordinator_of(client, group_id))
    except ClientError as error:
        return error


async def coordinator_of(client: Client, group_id: str) -> Node:
    """The broker that coordinates the group."""
    return client.nodes[await client.coordinator(CoordinatorType.GROUP, group_id)]


async def ask_about_group(client: Client, group_id: str, request: Any, call: str) -> Any:
    """What its coordinator says of this one group. Raises Refused."""
    answer = await client.ask_coordinator(
        CoordinatorType.GROUP, group_id, request, lambda answer: int(answer.groups[0].error_code), call=call
    )
    group = answer.groups[0]
    if group.error_code != ErrorCode.NONE:
        raise Refused(group.error_code, getattr(group, "error_message", None))
    return group


def _of_consumers(group: Any, coordinator: Node) -> GroupView:
    members = [
        MemberView(
            each.member_id,
            each.instance_id,
            each.client_id,
            each.client_host,
            places_of(each.assignment),
            each.member_epoch,
            places_of(each.target_assignment),
            None if each.member_type < 0 else each.member_type != _CLASSIC_MEMBER,
        )
        for each in group.members
    ]
    epochs = group.group_epoch, group.assignment_epoch
    return GroupView(group.group_id, CONSUMER, group.group_state, group.assignor_name, coordinator, members, *epochs)


def _of_classic(group: Any, coordinator: Node) -> GroupView:
    if group.protocol_type not in ("", "consumer"):
        raise ClientError(f"GroupId {group.group_id} is not a consumer group ({group.protocol_type}).")
    members = [
        MemberView(
            each.member_id, each.group_instance_id, each.client_id, each.client_host, _decoded(each.member_assignment)
        )
        for each in group.members
    ]
    return GroupView(group.group_id, CLASSIC, group.group_state, group.protocol_data, coordinator, members)


def places_of(assignment: Any) -> list[Place]:
    """Of an assignment in the answers of newer protocols, in order."""
    return sorted((topic.topic_name, each) for topic in assignment.topic_partitions for each in topic.partitions)


def _decoded(data: bytes) -> list[Place]:
    """What an assignor has written, where it is what consumers understand."""
    if not data:
        return []
    version = min(int.from_bytes(data[:2]), ConsumerProtocolAssignment.MAX_VERSION)
    try:
        assignment, _end = ConsumerProtocolAssignment.read(data, 2, version)
    except DecodeError as error:
        raise ClientError(f"an assignment that is none: {error}") from None
    return sorted((topic.topic, each) for topic in assignment.assigned_partitions for each in topic.partitions)
