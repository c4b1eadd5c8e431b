"""The target of a consumer group: who should have which partition.

Rule: it is computed for one group epoch, and only what changes for a member is written.
"""

from __future__ import annotations

from collections.abc import Mapping

from pykafka_broker.coordinators.groups import consumer_stored
from pykafka_broker.coordinators.groups.assignors import ASSIGNORS, GroupSpec, MemberSpec
from pykafka_broker.coordinators.groups.consumer_group import (
    ConsumerGroup,
    ConsumerMember,
    ResolvedRegex,
    Target,
    frozen_target,
    topics_read,
)
from pykafka_broker.coordinators.groups.group import GroupTable
from pykafka_broker.coordinators.groups.topics import topic_ids
from pykafka_broker.coordinators.record import CoordinatorRecord


def next_target(
    table: GroupTable,
    group: ConsumerGroup,
    regexes: Mapping[str, ResolvedRegex],
    members: list[ConsumerMember],
    epoch: int,
    now: int,
    records: list[CoordinatorRecord],
) -> dict[str, Target]:
    """Compute the target of these members for a group epoch; records for what changes are added."""
    topics = table.topics
    name = group.preferred_assignor(members) or table.config.group_consumer_assignors[0]
    before = {member.member_id: group.target_of(member) for member in members}
    specs = {
        member.member_id: MemberSpec(
            member.instance_id, topic_ids(topics, topics_read(topics, [member], regexes)), before[member.member_id]
        )
        for member in members
    }
    wanted = {topic_id for spec in specs.values() for topic_id in spec.topics}
    counts = {topic_id: len(topics.topics_by_id[topic_id].partitions) for topic_id in sorted(wanted)}
    assigned = ASSIGNORS[name](GroupSpec(specs, counts))
    result: dict[str, Target] = {}
    for member in members:
        member_id = member.member_id
        target = result[member_id] = frozen_target(assigned[member_id])
        if target != group.targets.get(member_id):
            records.append(consumer_stored.target(group.group_id, member_id, target))
    records.append(consumer_stored.target_metadata(group.group_id, epoch, now))
    return result
