"""The state of a consumer group (KIP-848), and its records.

Rule: all state is hard state, made of records by the `set_` and `remove_` methods that replay calls; a request works on
a copy of its member and leaves the group alone. A partition belongs to the member that has it assigned or has not yet
given it back, and `partition_epochs` knows under which member epoch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pykafka_broker.coordinators.groups.epoch_group import (
    EpochReplay,
    GroupRecords,
    ReconciledGroup,
    ReconciledGroupMember,
    ReconciliationState,
    Since,
    Target,
)
from pykafka_broker.coordinators.groups.group import CONSUMER_PROTOCOL_TYPE, Caller, GroupTable
from pykafka_broker.coordinators.groups.java_order import in_hash_order
from pykafka_broker.coordinators.groups.subscriptions import Subscriptions
from pykafka_broker.coordinators.groups.topics import ClusterTopics
from pykafka_broker.coordinators.record import CoordinatorRecord
from pykafka_broker.protocol.messages.consumer_group_describe_response import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from pykafka_broker.protocol.stored.consumer_group_current_member_assignment_value import (
    TopicPartitions as StoredPartitions,
)
from pykafka_broker.protocol.stored.consumer_group_member_metadata_value import ClassicMemberMetadata
from pykafka_broker.protocol.stored.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from pykafka_broker.protocol.stored.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from pykafka_broker.protocol.stored.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from pykafka_broker.protocol.stored.consumer_group_target_assignment_member_value import TopicPartition as AssignedTopic

UNOWNED = -1

Owned = dict[bytes, dict[int, int]]  # topic id -> partition -> the epoch at which the member got it (KIP-1251)


RECORDS = GroupRecords("ConsumerGroup")


class MemberState(ReconciliationState):
    """The progress of a member of a consumer group towards the target."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1  # the member has to give partitions back first
    UNRELEASED_PARTITIONS = 2  # other members have to give partitions back first
    UNKNOWN = 127


class ConsumerGroupMember(ReconciledGroupMember):
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

    @property
    def must_revoke(self) -> bool:
        return self.classic is None and super().must_revoke  # a classic member has a deadline for its JoinGroup

    def metadata(self) -> tuple[object, ...]:
        return (
            self.instance_id,
            self.rack_id,
            self.client_id,
            self.client_host,
            self.topic_names,
            self.topic_regex,
            self.rebalance_timeout_ms,
            self.server_assignor,
            self.classic,
        )

    def take_request(self, request: Any, caller: Caller) -> None:
        super().take_request(request, caller)
        if request.server_assignor is not None:
            self.server_assignor = request.server_assignor
        if request.subscribed_topic_names is not None:
            self.topic_names = frozenset(request.subscribed_topic_names)
        if request.subscribed_topic_regex is not None:
            self.topic_regex = request.subscribed_topic_regex
        self.classic = None

    def take_metadata(self, value: Any) -> None:
        super().take_metadata(value)
        self.topic_names = frozenset(value.subscribed_topic_names)
        self.topic_regex = value.subscribed_topic_regex
        self.server_assignor = value.server_assignor
        # A record of the first releases has no classic metadata, which reads as empty metadata.
        classic = value.classic_member_metadata
        self.classic = classic if classic is not None and classic.supported_protocols else None

    def take_assignment(self, value: Any) -> None:
        super().take_assignment(value)
        self.assigned = _read_owned(value.assigned_partitions, self.epoch)
        self.revoking = _read_owned(value.partitions_pending_revocation, self.epoch)

    def stored_assignment(self) -> Iterable[object]:
        lists = (
            [StoredPartitions(topic_id, list(since), list(since.values())) for topic_id, since in owned.items()]
            for owned in (self.assigned, self.revoking)
        )
        return self.state, *lists

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


class ConsumerGroup(ReconciledGroup[ConsumerGroupMember, Target]):
    """A group of the consumer protocol; some members may still speak the classic protocol."""

    type_name = "consumer"
    protocol_type = CONSUMER_PROTOCOL_TYPE
    member_type = ConsumerGroupMember
    records = RECORDS

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.regexes: dict[str, ResolvedRegex] = {}
        self.subscriptions = Subscriptions()
        self.classic_count = 0  # members that speak the classic protocol
        self.partition_epochs: dict[bytes, dict[int, int]] = {}
        self.has_partition_metadata = False  # a record of Kafka before 4.1, to be removed

    # Questions of the table and of the offsets

    @property
    def state_name(self) -> str:
        return self.progress() if self.members else "Empty"

    def read_among(self, topics: frozenset[str]) -> frozenset[str]:
        return frozenset(filter(self.subscriptions.has_name, topics)).union(
            *(
                topics & resolved.topics
                for pattern, resolved in self.regexes.items()
                if self.subscriptions.has_pattern(pattern)
            )
        )

    def knows_epochs(self, member: ConsumerGroupMember) -> bool:
        return member.classic is None

    def assigned_since(self, member: ConsumerGroupMember) -> Since:
        return member.assigned_since

    def tombstones(self) -> list[CoordinatorRecord]:
        regexes = [regex_record(self.group_id, pattern, None) for pattern in self.regexes]
        return RECORDS.tombstones(self, [*regexes, partition_metadata_tombstone(self.group_id)])

    # Members

    def replaced_by(self, member: ConsumerGroupMember) -> list[ConsumerGroupMember]:
        """Return the members in whose place `member` comes: the one of the same id, and of the same instance id."""
        same_instance = None if member.instance_id is None else self.static_members.get(member.instance_id)
        places = {member.member_id, same_instance} if same_instance else (member.member_id,)
        return [self.members[place] for place in places if place in self.members]

    def names_read(
        self,
        gone: Collection[ConsumerGroupMember],
        come: Collection[ConsumerGroupMember],
        regexes: Mapping[str, ResolvedRegex],
    ) -> frozenset[str]:
        """Return the names of all topics that the group reads after some members have gone and others have come."""
        names = self.subscriptions.names_after(gone, come)
        if not regexes:
            return names
        patterns = self.subscriptions.patterns_after(gone, come)
        behind = [regexes[pattern].topics for pattern in patterns if pattern in regexes]
        return names.union(*behind) if names or len(behind) != 1 else behind[0]

    def reads_any(self, topics: frozenset[str]) -> bool:
        """Return whether a member names a topic of `topics`, which need not exist."""
        return not topics.isdisjoint(self.subscriptions.names_after((), ()))

    def preferred_assignor(self, members: Iterable[ConsumerGroupMember]) -> str | None:
        """Return the assignor with most votes of members, if any; of as many votes the first in Kafka's order."""
        votes: dict[str, int] = {}
        for member in members:
            if member.server_assignor is not None:
                votes[member.server_assignor] = votes.get(member.server_assignor, 0) + 1
        return max(in_hash_order(votes), key=lambda name: votes[name]) if votes else None

    def partition_epoch(self, topic_id: bytes, partition: int) -> int:
        """Return the epoch of the partition's owner, or UNOWNED."""
        return self.partition_epochs.get(topic_id, {}).get(partition, UNOWNED)

    def stored_target(self, target: Target) -> Iterable[object]:
        yield [AssignedTopic(topic_id, sorted(partitions)) for topic_id, partitions in target.items()]

    # Hard state, by replay alone

    def read_target(self, value: Any) -> Target:
        return frozen_target({bytes(topic.topic_id): topic.partitions for topic in value.topic_partitions})

    def set_member(self, member: ConsumerGroupMember) -> None:
        before = self.members.get(member.member_id)
        self.subscriptions.add(member)
        self.classic_count += member.classic is not None
        if before is not None:
            self._release(before)
        super().set_member(member)
        for owned in (member.assigned, member.revoking):
            for topic_id, partitions in owned.items():
                self.partition_epochs.setdefault(topic_id, {}).update(dict.fromkeys(partitions, member.epoch))

    def remove_member(self, member_id: str) -> None:
        member = self.members.get(member_id)
        super().remove_member(member_id)
        if member is not None:
            self._release(member)

    def _release(self, member: ConsumerGroupMember) -> None:
        """Take back what `set_member` has noted of a member."""
        self.subscriptions.remove(member)
        self.classic_count -= member.classic is not None
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


# Records, as Kafka 4.4 writes them


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


def group_records(group: ConsumerGroup) -> list[CoordinatorRecord]:
    """Return all records of a converted group."""
    group_id, members = group.group_id, group.members.values()
    return [
        *map(group.member_record, members),
        RECORDS.epoch(group_id, group.epoch, group.metadata_hash),
        *(group.target_record(member_id, group.targets.get(member_id, {})) for member_id in group.members),
        RECORDS.target_epoch(group_id, group.assignment_epoch, group.assignment_timestamp),
        *map(group.assignment_record, members),
    ]


def _read_owned(topics: Iterable[StoredPartitions], epoch: int) -> Owned:
    """Return the partitions of a record with assignment epochs.

    Records from before 4.3 don't say since when a member has a partition: the member's epoch stands for that.
    """
    owned: Owned = {}
    for topic in topics:
        epochs = topic.assignment_epochs or [epoch] * len(topic.partitions)
        owned[bytes(topic.topic_id)] = dict(zip(topic.partitions, epochs, strict=True))
    return owned


def consumer_replay(table: GroupTable) -> EpochReplay[ConsumerGroup]:
    """Return the replay of consumer groups: the types of `EpochReplay`, and patterns."""
    more: dict[type, Any] = {
        ConsumerGroupPartitionMetadataKey: _partition_metadata,
        ConsumerGroupRegularExpressionKey: _regex,
    }
    return EpochReplay(table, ConsumerGroup, ConsumerGroup, more)


def _partition_metadata(group: ConsumerGroup, key: ConsumerGroupPartitionMetadataKey, value: Any) -> None:
    group.has_partition_metadata = value is not None


def _regex(group: ConsumerGroup, key: ConsumerGroupRegularExpressionKey, value: Any) -> None:
    if value is None:
        group.regexes.pop(key.regular_expression, None)
    else:
        group.regexes[key.regular_expression] = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
