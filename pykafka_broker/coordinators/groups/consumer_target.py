"""The target of a consumer group: who should have which partition.

Rule: it is computed for one group epoch, and only what changes for a member is written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from pykafka_broker.coordinators.effects import KeyValue
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
from pykafka_broker.coordinators.groups.group import GroupTable, Topics


def topic_ids(topics: Topics, names: Iterable[str]) -> frozenset[bytes]:
    """The ids of those that exist."""
    return frozenset(topic.id for name in names if (topic := topics.topics.get(name)) is not None)


def metadata_hash(topics: Topics, names: Iterable[str]) -> int:
    """A number that changes when a subscribed topic comes, goes or grows (KIP-1101). It is only ever compared with
    itself, so it need not be the number that Kafka computes; 0 stands for no topics."""
    digest = hashlib.blake2b(digest_size=8)
    empty = True
    for name in sorted(names):
        topic = topics.topics.get(name)
        if topic is not None:
            empty = False
            digest.update(topic.id + len(topic.partitions).to_bytes(4, "big") + name.encode())
    return 0 if empty else int.from_bytes(digest.digest(), "big", signed=True)


def next_target(
    table: GroupTable,
    group: ConsumerGroup,
    regexes: Mapping[str, ResolvedRegex],
    members: list[ConsumerMember],
    epoch: int,
    now: int,
    records: list[KeyValue],
) -> dict[str, Target]:
    """Compute the target of these members for a group epoch; records for what changes are added."""
    topics = table.topics
    name = group.preferred_assignor(members) or table.config.group_consumer_assignors[0]
    before = {member.member_id: group.target_of(member) for member in members}
    specs = {
        member.member_id: MemberSpec(
            member.instance_id, topic_ids(topics, topics_read(member, regexes)), before[member.member_id]
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
