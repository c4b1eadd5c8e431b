"""How DescribeGroups shows a classic group. Rule: metadata is shown of a stable group only, since before that there is
no protocol that all members have agreed on."""

from __future__ import annotations

from pykafka_broker.coordinators.groups.classic_group import STABLE, ClassicGroup, ClassicMember
from pykafka_broker.protocol.messages.describe_groups_response import DescribedGroup, DescribedGroupMember


def describe(group: ClassicGroup) -> DescribedGroup:
    """The group with its members."""
    stable = group.state is STABLE
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        protocol_type=group.protocol_type,
        protocol_data=(group.protocol_name or "") if stable else "",
        members=[_describe_member(group, member, stable) for member in group.members.values()],
    )


def _describe_member(group: ClassicGroup, member: ClassicMember, stable: bool) -> DescribedGroupMember:
    return DescribedGroupMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.metadata(group.protocol_name) if stable else b"",
        member.assignment,
    )
