"""How ShareGroupDescribe shows a share group. Rule: topics that have been deleted are left out."""

from __future__ import annotations

from pykafka_broker.coordinators.groups.topics import Topics
from pykafka_broker.coordinators.share.share_group import ShareGroup, ShareMember
from pykafka_broker.protocol.messages.share_group_describe_response import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)

ASSIGNOR = "simple"


def describe(group: ShareGroup, topics: Topics) -> DescribedGroup:
    """The group with its members."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=[_describe_member(member, topics) for member in group.members.values()],
    )


def _describe_member(member: ShareMember, topics: Topics) -> Member:
    assigned = [
        TopicPartitions(topic_id, topic.name, sorted(partitions))
        for topic_id, partitions in member.assigned.items()
        if (topic := topics.topics_by_id.get(topic_id)) is not None
    ]
    return Member(
        member.member_id,
        member.rack_id,
        member.epoch,
        member.client_id,
        member.client_host,
        sorted(member.topic_names),
        Assignment(assigned),
    )
