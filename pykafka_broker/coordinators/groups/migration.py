"""From the classic protocol to the consumer protocol and back, while members go on (KIP-848).

Rule: a classic group of consumers becomes a consumer group when the first member joins with the new protocol, and turns
back when the last such member has gone; `group.consumer.migration.policy` says which of both may happen. What members
have is kept, and the records of one form make way for those of the other in one batch.
"""

from __future__ import annotations

from typing import Any

from pykafka_broker.coordinators.effects import Effects
from pykafka_broker.coordinators.groups import consumer_stored
from pykafka_broker.coordinators.groups.classic import ClassicRebalance, join_refusal
from pykafka_broker.coordinators.groups.classic_group import (
    STABLE,
    ClassicGroup,
    ClassicMember,
    group_metadata_record,
    group_tombstone,
)
from pykafka_broker.coordinators.groups.consumer import ConsumerProtocol
from pykafka_broker.coordinators.groups.consumer_group import ConsumerGroup, ConsumerMember, Target, topics_read
from pykafka_broker.coordinators.groups.consumer_protocol import (
    read_assignment,
    read_subscription,
    subscription_version,
    write_assignment,
)
from pykafka_broker.coordinators.groups.group import CONSUMER_PROTOCOL_TYPE, GroupTable
from pykafka_broker.coordinators.groups.topics import Topics
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from pykafka_broker.protocol.messages.sync_group_response import SyncGroupResponse
from pykafka_broker.protocol.runtime import DecodeError
from pykafka_broker.protocol.stored.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ClassicProtocol,
)

CUSTOM_ASSIGNOR = (
    "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor "
    "before re-attempting the upgrade."
)


class Migration:
    """Converts groups of a table."""

    def __init__(self, table: GroupTable, rebalance: ClassicRebalance, consumer: ConsumerProtocol) -> None:
        self._table = table
        self._rebalance = rebalance
        self._consumer = consumer
        consumer.downgrade = self.downgrade

    def _allows(self, direction: str) -> bool:
        return self._table.config.group_consumer_migration_policy.upper() in (direction, "BIDIRECTIONAL")

    @property
    def disabled(self) -> bool:
        return self._table.config.group_consumer_migration_policy.upper() == "DISABLED"

    # Up

    def upgrade(self, group: ClassicGroup, effects: Effects[Any], now: int) -> ConsumerGroup:
        """The consumer group that the classic one becomes with these records. Raises GROUP_ID_NOT_FOUND."""
        self._check_upgrade(group)
        try:
            upgraded = self._converted(group)
        except DecodeError:
            raise _can_not_upgrade(group, "the embedded consumer protocol is malformed.") from None
        for member in group.members.values():
            # Whoever waits has to join again, now as a classic member of a consumer group.
            if member.join_token is not None:
                effects.complete(member.join_token, join_refusal(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
            if member.sync_token is not None:
                effects.complete(member.sync_token, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
            self._consumer.keep_alive(upgraded, member.member_id, now, member.session_timeout_ms)
        effects.records.append(group_tombstone(group.group_id))
        effects.records += consumer_stored.group_records(upgraded)
        return upgraded

    def _check_upgrade(self, group: ClassicGroup) -> None:
        if not self._allows("UPGRADE"):
            raise _can_not_upgrade(group, "online upgrade is disabled.")
        if not group.uses_consumer_protocol:
            raise _can_not_upgrade(group, "the group does not use the consumer embedded protocol.")
        if len(group.members) > self._table.config.group_consumer_max_size:
            raise _can_not_upgrade(group, "the group size exceeds the consumer group maximum size.")

    def _converted(self, group: ClassicGroup) -> ConsumerGroup:
        upgraded = ConsumerGroup(group.group_id)
        upgraded.epoch = upgraded.assignment_epoch = group.generation
        for classic in group.members.values():
            target = self._target_of(group, classic)
            subscription = read_subscription(classic.metadata(group.protocol_name))
            member = ConsumerMember(classic.member_id)
            member.instance_id = classic.instance_id
            member.rack_id = subscription.rack_id or None
            member.client_id = classic.client_id
            member.client_host = classic.client_host
            member.rebalance_timeout_ms = classic.rebalance_timeout_ms
            member.topic_names = frozenset(subscription.topics)
            member.classic = ClassicMemberMetadata(
                classic.session_timeout_ms, [ClassicProtocol(name, data) for name, data in classic.protocols]
            )
            member.epoch = member.previous_epoch = group.generation
            member.assigned = {
                topic_id: dict.fromkeys(sorted(partitions), group.generation) for topic_id, partitions in target.items()
            }
            upgraded.targets[member.member_id] = target
            upgraded.set_member(member)
        upgraded.metadata_hash = self._table.hashes.of_group(
            topics_read(self._table.topics, upgraded.members.values(), upgraded.regexes)
        )
        return upgraded

    def _target_of(self, group: ClassicGroup, member: ClassicMember) -> Target:
        if not member.assignment:
            return {}
        assignment = read_assignment(member.assignment)
        if assignment.user_data:
            raise _can_not_upgrade(group, CUSTOM_ASSIGNOR)
        known = self._table.topics.topics
        return {
            known[one.topic].id: frozenset(one.partitions)
            for one in assignment.assigned_partitions
            if one.topic in known and one.partitions
        }

    # Down

    def downgrade(self, group: ConsumerGroup, leaving: list[ConsumerMember], effects: Effects[Any], now: int) -> bool:
        """Turn back if only classic members are left without those that leave."""
        gone = {member.member_id for member in leaving}
        staying = [member for member in group.members.values() if member.member_id not in gone]
        if not staying or not self._may_downgrade(group, staying):
            return False
        self.convert_back(group, staying, effects, now, rebalance=True)
        return True

    def downgrades_with(self, group: ConsumerGroup, replaced: ConsumerMember) -> bool:
        """Whether the group turns back when this static member is replaced by a classic one."""
        staying = [member for member in group.members.values() if member.member_id != replaced.member_id]
        return replaced.classic is None and self._may_downgrade(group, [*staying, replaced], replaced)

    def _may_downgrade(
        self, group: ConsumerGroup, members: list[ConsumerMember], but: ConsumerMember | None = None
    ) -> bool:
        return (
            self._allows("DOWNGRADE")
            and len(members) <= self._table.config.group_max_size
            and all(member.classic is not None for member in members if member is not but)
        )

    def convert_back(
        self, group: ConsumerGroup, staying: list[ConsumerMember], effects: Effects[Any], now: int, *, rebalance: bool
    ) -> ClassicGroup:
        """Put a classic group with these members in the group's place. It counts from now on, since its members and
        deadlines are soft state; its records follow in the same batch."""
        effects.records += consumer_stored.group_tombstones(group)
        back = ClassicGroup(group.group_id, now, STABLE, wall_at=self._table.wall_at)
        back.generation = group.epoch
        back.protocol_type_or_none = CONSUMER_PROTOCOL_TYPE
        for member in staying:
            back.restore(_as_classic(group.group_id, member))
        back.leader = next(iter(back.members), None)
        back.protocol_name = back.select_protocol()
        back.subscribed = back.compute_subscribed()
        for member in staying:
            classic = back.members[member.member_id]
            classic.assignment = classic_share(
                self._table.topics, group.target_of(member), classic.metadata(back.protocol_name)
            )
        for member_id in group.members:
            self._table.timers.cancel_member(group.group_id, group.type_name, member_id)
        effects.records.append(group_metadata_record(back, back.assignments()))
        self._table.groups[group.group_id] = back
        for classic in back.members.values():
            self._rebalance.keep_alive(classic, now)
        if rebalance:
            self._rebalance.prepare(back, effects, now)
        return back


def classic_share(topics: Topics, partitions: Target, metadata: bytes) -> bytes:
    """An assignment in the words of the classic protocol, in the version in which the member subscribed."""
    assigned = [
        TopicPartition(topic.name, sorted(indexes))
        for topic_id, indexes in partitions.items()
        if (topic := topics.topics_by_id.get(topic_id)) is not None
    ]
    return write_assignment(ConsumerProtocolAssignment(assigned), subscription_version(metadata))


def _as_classic(group_id: str, member: ConsumerMember) -> ClassicMember:
    assert member.classic is not None
    return ClassicMember(
        group_id,
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.classic.session_timeout_ms,
        CONSUMER_PROTOCOL_TYPE,
        [(protocol.name, protocol.metadata) for protocol in member.classic.supported_protocols],
    )


def _can_not_upgrade(group: ClassicGroup, reason: str) -> ApiError:
    return ApiError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {group.group_id} to consumer group because {reason}",
    )
