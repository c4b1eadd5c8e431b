"""How ConsumerGroupDescribe shows a consumer group. Rule: what a member has to give back is still shown as its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pykafka_broker.coordinators.groups.consumer_group import ConsumerGroup, ConsumerMember
from pykafka_broker.coordinators.groups.topics import Topics
from pykafka_broker.protocol.messages.consumer_group_describe_response import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)

CLASSIC, CONSUMER = 0, 1  # member_type


def describe(group: ConsumerGroup, topics: Topics, default_assignor: str) -> DescribedGroup:
    """The group with its members."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor(group.members.values()) or default_assignor,
        members=[_describe_member(group, member, topics) for member in group.members.values()],
    )


def _describe_member(group: ConsumerGroup, member: ConsumerMember, topics: Topics) -> Member:
    has = {topic_id: set(owned) for topic_id, owned in member.assigned.items()}
    for topic_id, owned in member.revoking.items():
        has.setdefault(topic_id, set()).update(owned)
    return Member(
        member.member_id,
        member.instance_id,
        member.rack_id,
        member.epoch,
        member.client_id,
        member.client_host,
        sorted(member.topic_names),
        member.topic_regex,
        _assignment(has, topics),
        _assignment(group.targets.get(member.member_id, {}), topics),
        CONSUMER if member.classic is None else CLASSIC,
    )


def _assignment(partitions: Mapping[bytes, Iterable[int]], topics: Topics) -> Assignment:
    """Topics that have been deleted are left out."""
    return Assignment(
        [
            TopicPartitions(topic_id, topic.name, sorted(indexes))
            for topic_id, indexes in partitions.items()
            if (topic := topics.topics_by_id.get(topic_id)) is not None
        ]
    )
