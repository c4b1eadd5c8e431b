"""The state of a consumer group (KIP-848), and its records.

Rule: all state is hard state, made of records by the `set_` and `remove_` methods that replay calls; a request works on
a copy of its member and leaves the group alone. A partition belongs to the member that has it assigned or has not yet
given it back, and `partition_epochs` knows under which member epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

from pykafka_broker.coordinators.groups.epoch_group import (
    FIRST_GROUP_EPOCH,
    EpochReplay,
    GroupRecordRules,
    KeyTypes,
    ReconciledGroup,
    ReconciledGroupMember,
    Since,
    no_more_fields,
)
from pykafka_broker.coordinators.groups.group import CONSUMER_PROTOCOL_TYPE, GroupTable, hash_order
from pykafka_broker.coordinators.groups.topics import ClusterTopics, existing
from pykafka_broker.coordinators.record import CoordinatorRecord
from pykafka_broker.protocol.messages.consumer_group_describe_response import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from pykafka_broker.protocol.stored.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from pykafka_broker.protocol.stored.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
)
from pykafka_broker.protocol.stored.consumer_group_current_member_assignment_value import (
    TopicPartitions as StoredPartitions,
)
from pykafka_broker.protocol.stored.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from pykafka_broker.protocol.stored.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
)
from pykafka_broker.protocol.stored.consumer_group_metadata_key import ConsumerGroupMetadataKey
from pykafka_broker.protocol.stored.consumer_group_metadata_value import ConsumerGroupMetadataValue
from pykafka_broker.protocol.stored.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from pykafka_broker.protocol.stored.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from pykafka_broker.protocol.stored.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from pykafka_broker.protocol.stored.consumer_group_target_assignment_member_key import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from pykafka_broker.protocol.stored.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from pykafka_broker.protocol.stored.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from pykafka_broker.protocol.stored.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)

UNOWNED = -1

Target = dict[bytes, frozenset[int]]  # topic id -> partitions
Owned = dict[bytes, dict[int, int]]  # topic id -> partition -> the epoch at which the member got it (KIP-1251)


class MemberState(IntEnum):
    """The progress of a member towards the target."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1  # the member has to give partitions back first
    UNRELEASED_PARTITIONS = 2  # other members have to give partitions back first
    UNKNOWN = 127  # written by a release that knows more states


class ConsumerGroupMember(ReconciledGroupMember):
    """A member of a consumer group."""

    __slots__ = ("classic", "server_assignor", "topic_names", "topic_regex")
    STABLE = MemberState.STABLE
    UNREVOKED = MemberState.UNREVOKED_PARTITIONS
    state: MemberState
    assigned: Owned
    revoking: Owned

    def __init__(self, member_id: str) -> None:
        super().__init__(member_id)
        self.server_assignor: str | None = None
        self.topic_names: frozenset[str] = frozenset()
        self.topic_regex: str | None = ""
        self.classic: ClassicMemberMetadata | None = None  # set while the member speaks the classic protocol

    def metadata(self) -> tuple[object, ...]:
        return (
            self.instance_id,
            self.rack_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.server_assignor,
            self.topic_names,
            self.topic_regex,
            None
            if self.classic is None
            else (
                self.classic.session_timeout_ms,
                [(protocol.name, protocol.metadata) for protocol in self.classic.supported_protocols],
            ),
        )

    def assigned_since(self, topic_id: bytes, partition: int) -> int | None:
        """Return the epoch since which the partition is the member's, also while revoked; None for others."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.revoking.get(topic_id, {}).get(partition) if epoch is None else epoch


class ResolvedRegex:
    """The topics of a pattern, as of a version of the metadata."""

    __slots__ = ("resolved_at", "topics", "version")

    def __init__(self, topics: frozenset[str], version: int, resolved_at: int) -> None:
        self.topics = topics
        self.version = version
        self.resolved_at = resolved_at


def topics_read(
    topics: ClusterTopics, members: Iterable[ConsumerGroupMember], regexes: Mapping[str, ResolvedRegex]
) -> set[str]:
    """Return the existing topics of members' subscriptions; a pattern stands for the topics of the last resolution."""
    found: set[str] = set()
    for member in members:
        found.update(existing(topics, member.topic_names))
        resolved = regexes.get(member.topic_regex) if member.topic_regex else None
        if resolved is not None:
            found.update(existing(topics, resolved.topics))
    return found


class ConsumerGroup(ReconciledGroup[ConsumerGroupMember, Target]):
    """A group of the consumer protocol; some members may still speak the classic protocol."""

    type_name = "consumer"
    protocol_type = CONSUMER_PROTOCOL_TYPE

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id, FIRST_GROUP_EPOCH)
        self.static_members: dict[str, str] = {}  # instance id -> member id
        self.regexes: dict[str, ResolvedRegex] = {}
        self.partition_epochs: dict[bytes, dict[int, int]] = {}
        self.has_partition_metadata = False  # a record of Kafka before 4.1, to be removed

    # Questions of the table and of the offsets

    @property
    def state_name(self) -> str:
        return self.progress() if self.members else "Empty"

    def is_subscribed_to(self, topic: str) -> bool:
        return any(
            topic in member.topic_names or self._stands_for(member.topic_regex, topic)
            for member in self.members.values()
        )

    def _stands_for(self, pattern: str | None, topic: str) -> bool:
        resolved = self.regexes.get(pattern) if pattern else None
        return resolved is not None and topic in resolved.topics

    def knows_epochs(self, member: ConsumerGroupMember) -> bool:
        return member.classic is None

    def assigned_since(self, member: ConsumerGroupMember) -> Since:
        return member.assigned_since

    def tombstones(self) -> list[CoordinatorRecord]:
        group_id = self.group_id
        return [
            *(
                CoordinatorRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), None)
                for member_id in self.members
            ),
            *(
                CoordinatorRecord(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), None)
                for member_id in self.members
            ),
            CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id), None),
            *(
                CoordinatorRecord(ConsumerGroupMemberMetadataKey(group_id, member_id), None)
                for member_id in self.members
            ),
            *(regex_record(group_id, pattern, None) for pattern in self.regexes),
            partition_metadata_tombstone(group_id),
            CoordinatorRecord(ConsumerGroupMetadataKey(group_id), None),
        ]

    # Members

    def static_member(self, instance_id: str) -> ConsumerGroupMember | None:
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member: ConsumerGroupMember) -> Target:
        """Return the member's target; a returning static member takes over the predecessor's target."""
        member_id = member.member_id
        if member_id not in self.targets and member.instance_id is not None:
            member_id = self.static_members.get(member.instance_id, member_id)
        return self.targets.get(member_id, {})

    def with_change(
        self, before: ConsumerGroupMember | None, after: ConsumerGroupMember | None
    ) -> list[ConsumerGroupMember]:
        """Return the members after `before` has become `after`."""
        gone = {member.member_id for member in (before, after) if member is not None}
        members = [member for member in self.members.values() if member.member_id not in gone]
        if after is not None:
            members.append(after)
        return members

    def reads_any(self, topics: frozenset[str]) -> bool:
        """Whether a member names a topic of `topics`, which need not exist."""
        return any(not topics.isdisjoint(member.topic_names) for member in self.members.values())

    def preferred_assignor(self, members: Iterable[ConsumerGroupMember]) -> str | None:
        """Return the assignor with most votes of members, if any; of as many votes the first in Kafka's order."""
        votes: dict[str, int] = {}
        for member in members:
            if member.server_assignor is not None:
                votes[member.server_assignor] = votes.get(member.server_assignor, 0) + 1
        return max(hash_order(list(votes)), key=lambda name: votes[name]) if votes else None

    def partition_epoch(self, topic_id: bytes, partition: int) -> int:
        """Return the epoch of the partition's owner, or UNOWNED."""
        return self.partition_epochs.get(topic_id, {}).get(partition, UNOWNED)

    # Hard state, by replay alone

    def set_member(self, member: ConsumerGroupMember) -> None:
        before = self.members.get(member.member_id)
        if before is not None:
            self._release(before)
        super().set_member(member)
        for owned in (member.assigned, member.revoking):
            for topic_id, partitions in owned.items():
                self.partition_epochs.setdefault(topic_id, {}).update(dict.fromkeys(partitions, member.epoch))
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._release(member)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]

    def _release(self, member: ConsumerGroupMember) -> None:
        for owned in (member.assigned, member.revoking):
            for topic_id, partitions in owned.items():
                epochs = self.partition_epochs.get(topic_id)
                if epochs is None:
                    continue
                for partition in partitions:
                    if epochs.get(partition) == member.epoch:
                        del epochs[partition]
                if not epochs:
                    del self.partition_epochs[topic_id]


def frozen_target(partitions: Mapping[bytes, Iterable[int]]) -> Target:
    """Return a target without empty topics."""
    return {topic_id: frozenset(indexes) for topic_id, indexes in partitions.items() if indexes}


# ConsumerGroupDescribe

CLASSIC, CONSUMER = 0, 1  # member_type


def describe(group: ConsumerGroup, topics: ClusterTopics, default_assignor: str) -> DescribedGroup:
    """Return the group with all members. Partitions to be given back are still shown as the member's."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor(group.members.values()) or default_assignor,
        members=[_describe_member(group, member, topics) for member in group.members.values()],
    )


def _describe_member(group: ConsumerGroup, member: ConsumerGroupMember, topics: ClusterTopics) -> Member:
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


def _assignment(partitions: Mapping[bytes, Iterable[int]], topics: ClusterTopics) -> Assignment:
    """Return an assignment without deleted topics."""
    return Assignment(
        [
            TopicPartitions(topic_id, topic.name, sorted(indexes))
            for topic_id, indexes in partitions.items()
            if (topic := topics.topics_by_id.get(topic_id)) is not None
        ]
    )


# Records, as Kafka 4.3 writes them


KNOWN_STATES = frozenset(MemberState)


def member_record(group_id: str, member: ConsumerGroupMember) -> CoordinatorRecord:
    value = ConsumerGroupMemberMetadataValue(
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        sorted(member.topic_names),
        member.topic_regex,
        member.rebalance_timeout_ms,
        member.server_assignor,
        member.classic,
    )
    key = ConsumerGroupMemberMetadataKey(group_id, member.member_id)
    return CoordinatorRecord(key, value)


def assignment_record(group_id: str, member: ConsumerGroupMember) -> CoordinatorRecord:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member.epoch,
        member.previous_epoch,
        member.state,
        _partition_lists(member.assigned),
        _partition_lists(member.revoking),
    )
    return CoordinatorRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id, member.member_id), value)


def _partition_lists(owned: Owned) -> list[StoredPartitions]:
    return [
        StoredPartitions(topic_id, list(partitions), list(partitions.values()))
        for topic_id, partitions in owned.items()
    ]


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    return CoordinatorRecord(ConsumerGroupMetadataKey(group_id), ConsumerGroupMetadataValue(epoch, metadata_hash))


def target_record(group_id: str, member_id: str, assignment: Target) -> CoordinatorRecord:
    value = ConsumerGroupTargetAssignmentMemberValue(
        [TopicPartition(topic_id, sorted(partitions)) for topic_id, partitions in assignment.items()]
    )
    return CoordinatorRecord(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), value)


def target_epoch_record(group_id: str, epoch: int, timestamp: int) -> CoordinatorRecord:
    value = ConsumerGroupTargetAssignmentMetadataValue(epoch, timestamp)
    return CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id), value)


def regex_record(group_id: str, pattern: str, resolved: ResolvedRegex | None) -> CoordinatorRecord:
    """Return the record of a pattern's topics, or the tombstone."""
    key = ConsumerGroupRegularExpressionKey(group_id, pattern)
    if resolved is None:
        return CoordinatorRecord(key, None)
    value = ConsumerGroupRegularExpressionValue(sorted(resolved.topics), resolved.version, resolved.resolved_at)
    return CoordinatorRecord(key, value)


def partition_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    """Return the tombstone for a record of releases before 4.1."""
    return CoordinatorRecord(ConsumerGroupPartitionMetadataKey(group_id), None)


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """Return the tombstones of all records of a member."""
    return [
        CoordinatorRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), None),
        CoordinatorRecord(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), None),
        CoordinatorRecord(ConsumerGroupMemberMetadataKey(group_id, member_id), None),
    ]


def group_records(group: ConsumerGroup) -> list[CoordinatorRecord]:
    """Return all records of a converted group."""
    group_id = group.group_id
    return [
        *(member_record(group_id, member) for member in group.members.values()),
        epoch_record(group_id, group.epoch, group.metadata_hash),
        *(target_record(group_id, member_id, group.targets.get(member_id, {})) for member_id in group.members),
        target_epoch_record(group_id, group.assignment_epoch, group.assignment_timestamp),
        *(assignment_record(group_id, member) for member in group.members.values()),
    ]


def _take_member_metadata(member: ConsumerGroupMember, value: ConsumerGroupMemberMetadataValue) -> None:
    member.instance_id = value.instance_id
    member.rack_id = value.rack_id
    member.client_id = value.client_id
    member.client_host = value.client_host
    member.topic_names = frozenset(value.subscribed_topic_names)
    member.topic_regex = value.subscribed_topic_regex
    member.rebalance_timeout_ms = value.rebalance_timeout_ms
    member.server_assignor = value.server_assignor
    # A record of the first releases has no classic metadata, which reads as empty metadata.
    classic = value.classic_member_metadata
    member.classic = classic if classic is not None and classic.supported_protocols else None


def _take_current_assignment(member: ConsumerGroupMember, value: ConsumerGroupCurrentMemberAssignmentValue) -> None:
    member.epoch = value.member_epoch
    member.previous_epoch = value.previous_member_epoch
    member.state = MemberState(value.state) if value.state in KNOWN_STATES else MemberState.UNKNOWN
    member.assigned = _read_owned(value.assigned_partitions, value.member_epoch)
    member.revoking = _read_owned(value.partitions_pending_revocation, value.member_epoch)


def _read_owned(topics: Iterable[StoredPartitions], epoch: int) -> Owned:
    """Return the partitions of a record with assignment epochs.

    Records from before 4.3 don't say since when a member has a partition: the member's epoch stands for that.
    """
    owned: Owned = {}
    for topic in topics:
        epochs = topic.assignment_epochs or [epoch] * len(topic.partitions)
        owned[bytes(topic.topic_id)] = dict(zip(topic.partitions, epochs, strict=True))
    return owned


def _read_target(value: ConsumerGroupTargetAssignmentMemberValue) -> Target:
    partitions: Mapping[bytes, list[int]] = {
        bytes(topic.topic_id): topic.partitions for topic in value.topic_partitions
    }
    return frozen_target(partitions)


KIND = GroupRecordRules(
    ConsumerGroup,
    ConsumerGroup,
    ConsumerGroupMember,
    no_more_fields,
    _take_member_metadata,
    _take_current_assignment,
    _read_target,
)
KEYS = KeyTypes(
    ConsumerGroupMetadataKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupCurrentMemberAssignmentKey,
)


def consumer_replay(table: GroupTable) -> EpochReplay[ConsumerGroup]:
    """Return the replay of consumer groups: the types of `EpochReplay`, and patterns."""
    return EpochReplay(
        table,
        KIND,
        KEYS,
        {ConsumerGroupPartitionMetadataKey: _partition_metadata, ConsumerGroupRegularExpressionKey: _regex},
    )


def _partition_metadata(group: ConsumerGroup, key: ConsumerGroupPartitionMetadataKey, value: Any) -> None:
    group.has_partition_metadata = value is not None


def _regex(group: ConsumerGroup, key: ConsumerGroupRegularExpressionKey, value: Any) -> None:
    if value is None:
        group.regexes.pop(key.regular_expression, None)
    else:
        group.regexes[key.regular_expression] = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
