"""Classic members of consumer groups, and the conversion of classic groups to consumer groups and back (KIP-848).

Rule: a classic group of consumers becomes a consumer group when the first member joins with the new protocol, and turns
back when the last such member has gone; `group.consumer.migration.policy` allows both changes, one of them or none.
Members keep their partitions, and one batch replaces the records of the old form by records of the new form. A classic
member of a consumer group never waits: JoinGroup is answered at once with the member's generation, and Heartbeat sends
the member back to JoinGroup when it has partitions to gain or to lose.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from pykafka_broker.coordinators.groups.classic import (
    MEMBER_ID_REQUIRED_FROM,
    ClassicRebalance,
    Join,
    JoinReply,
    refuse_waiting,
)
from pykafka_broker.coordinators.groups.classic_group import (
    STABLE,
    ClassicGroup,
    ClassicGroupMember,
    Protocols,
    group_metadata_record,
    group_tombstone,
)
from pykafka_broker.coordinators.groups.consumer import JOIN, SYNC, Claim, ConsumerMemberChange, ConsumerProtocol
from pykafka_broker.coordinators.groups.consumer_group import (
    UNOWNED,
    ConsumerGroup,
    ConsumerGroupMember,
    MemberState,
    group_records,
)
from pykafka_broker.coordinators.groups.consumer_protocol import (
    read_assignment,
    read_subscription,
    subscription_version,
    write_assignment,
)
from pykafka_broker.coordinators.groups.epoch_group import Target
from pykafka_broker.coordinators.groups.group import CONSUMER_PROTOCOL_TYPE, UNKNOWN_MEMBER, GroupTable, TimerKey
from pykafka_broker.coordinators.groups.topics import ClusterTopics
from pykafka_broker.coordinators.record import CoordinatorResult
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import TopicPartitions
from pykafka_broker.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from pykafka_broker.protocol.messages.consumer_protocol_assignment import TopicPartition as AssignedTopic
from pykafka_broker.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from pykafka_broker.protocol.messages.heartbeat_request import HeartbeatRequest
from pykafka_broker.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from pykafka_broker.protocol.messages.leave_group_response import LeaveGroupResponse, MemberResponse
from pykafka_broker.protocol.messages.sync_group_request import SyncGroupRequest
from pykafka_broker.protocol.messages.sync_group_response import SyncGroupResponse
from pykafka_broker.protocol.runtime import DecodeError
from pykafka_broker.protocol.stored.consumer_group_member_metadata_value import ClassicMemberMetadata, ClassicProtocol

# Conversion of whole groups


CUSTOM_ASSIGNOR = (
    "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor "
    "before re-attempting the upgrade."
)


class Migration:
    """The conversion of groups of a table between the classic and the consumer protocol."""

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

    # From classic to consumer

    def upgrade(self, group: ClassicGroup, result: CoordinatorResult[Any], now: int) -> ConsumerGroup:
        """Return the consumer group for a classic group, and add the records of the change.

        Raises GROUP_ID_NOT_FOUND: The group can't be converted; UNKNOWN_SERVER_ERROR before its first generation.
        """
        self._check_upgrade(group)
        try:
            upgraded = self._converted(group)
        except DecodeError:
            raise _can_not_upgrade(group, "the embedded consumer protocol is malformed.") from None
        for member in group.members.values():
            # Waiting members have to join again, now as classic members of a consumer group.
            refuse_waiting(group, member, result, ErrorCode.REBALANCE_IN_PROGRESS)
            self._table.timers.set_session(upgraded, member.member_id, now + member.session_timeout_ms)
        result.records.append(group_tombstone(group.group_id))
        result.records += group_records(upgraded)
        return upgraded

    def _check_upgrade(self, group: ClassicGroup) -> None:
        if not self._allows("UPGRADE"):
            raise _can_not_upgrade(group, "online upgrade is disabled.")
        if not group.uses_consumer_protocol:
            raise _can_not_upgrade(group, "the group does not use the consumer embedded protocol.")
        if len(group.members) > self._table.config.group_consumer_max_size:
            raise _can_not_upgrade(group, "the group size exceeds the consumer group maximum size.")
        if group.protocol_name is None:  # the first members still wait for others: Kafka fails there
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)

    def _converted(self, group: ClassicGroup) -> ConsumerGroup:
        upgraded = ConsumerGroup(group.group_id)
        upgraded.epoch = upgraded.assignment_epoch = group.generation
        for classic in group.members.values():
            target = self._target_of(group, classic)
            subscription = read_subscription(classic.metadata(group.protocol_name))
            member = ConsumerGroupMember(classic.member_id)
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
        upgraded.metadata_hash = self._table.read.hash(upgraded.names_read((), (), upgraded.regexes))
        return upgraded

    def _target_of(self, group: ClassicGroup, member: ClassicGroupMember) -> Target:
        if not member.assignment:
            return {}
        assignment = read_assignment(member.assignment)
        if assignment.user_data:
            raise _can_not_upgrade(group, CUSTOM_ASSIGNOR)
        known = self._table.topics.topics
        return {
            known[assigned.topic].id: frozenset(assigned.partitions)
            for assigned in assignment.assigned_partitions
            if assigned.topic in known and assigned.partitions
        }

    # From consumer to classic

    def downgrade(
        self, group: ConsumerGroup, leaving: list[ConsumerGroupMember], result: CoordinatorResult[Any], now: int
    ) -> bool:
        """Turn the group back if all members but `leaving` are classic. Returns whether the group was turned back."""
        gone = {member.member_id for member in leaving}
        if len(group.members) - group.classic_count > len(gone):
            return False  # a member of the consumer protocol stays
        staying = [member for member in group.members.values() if member.member_id not in gone]
        if not staying or not self._may_downgrade(staying):
            return False
        self.convert_back(group, staying, result, now, rebalance=True)
        return True

    def downgrades_with(self, group: ConsumerGroup, replaced: ConsumerGroupMember) -> bool:
        """Return whether the group turns back when a classic member replaces the static member `replaced`."""
        staying = [member for member in group.members.values() if member.member_id != replaced.member_id]
        return replaced.classic is None and self._may_downgrade([*staying, replaced], replaced)

    def _may_downgrade(self, members: list[ConsumerGroupMember], replaced: ConsumerGroupMember | None = None) -> bool:
        return (
            self._allows("DOWNGRADE")
            and len(members) <= self._table.config.group_max_size
            and all(member.classic is not None for member in members if member is not replaced)
        )

    def convert_back(
        self,
        group: ConsumerGroup,
        staying: list[ConsumerGroupMember],
        result: CoordinatorResult[Any],
        now: int,
        *,
        rebalance: bool,
    ) -> ClassicGroup:
        """Replace the group by a classic group with the members `staying`.

        The classic group is in force at once, since its members and deadlines are soft state; its records are in the
        same batch. If the log refuses them the consumer group is in force again, and its members have a full session.
        """
        result.records += group.tombstones()
        back = ClassicGroup(group.group_id, now, STABLE, wall_at=self._table.wall_at)
        back.live = True
        back.generation = group.epoch
        back.protocol_type_or_none = CONSUMER_PROTOCOL_TYPE
        for member in staying:
            back.restore(_as_classic(group.group_id, member))
        back.protocol_name = back.select_protocol()
        back.subscribed = back.compute_subscribed()
        for member in staying:
            classic = back.members[member.member_id]
            classic.assignment = classic_share(
                self._table.topics, group.target_of(member), classic.metadata(back.protocol_name)
            )
        for member_id in group.members:
            self._table.timers.cancel_member(group.group_id, group.type_name, member_id)
        result.records.append(group_metadata_record(back, back.assignments()))
        self._table.groups[group.group_id] = back
        result.take_back = partial(self._take_back, group, now)
        for classic in back.members.values():
            self._rebalance.keep_alive(classic, now)
        if rebalance:
            self._rebalance.prepare(back, result, now)
        return back

    def _take_back(self, group: ConsumerGroup, now: int) -> None:
        self._table.put_back(group.group_id, group)
        self._consumer.on_loaded(group, now)


def classic_share(topics: ClusterTopics, partitions: Target, metadata: bytes) -> bytes:
    """Return an assignment in the format of the classic protocol, in the version of the member's subscription.

    A member whose subscription makes no sense gets an empty share: nobody can tell the version that it would read.
    """
    try:
        version = subscription_version(metadata)
    except DecodeError:
        return b""
    assigned = [
        AssignedTopic(topic.name, sorted(indexes))
        for topic_id, indexes in partitions.items()
        if (topic := topics.topics_by_id.get(topic_id)) is not None
    ]
    return write_assignment(ConsumerProtocolAssignment(assigned), version)


def _as_classic(group_id: str, member: ConsumerGroupMember) -> ClassicGroupMember:
    assert member.classic is not None
    return ClassicGroupMember(
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


# Classic members of consumer groups


class ClassicMembers(Migration):
    """JoinGroup, SyncGroup, Heartbeat and LeaveGroup on consumer groups."""

    # JoinGroup

    def join(self, group: ConsumerGroup, join: Join) -> None:
        """Let a classic member join a consumer group; the answer comes at once. Raises ApiError."""
        request = join.request
        if self.disabled or not _supports(group, request.protocol_type, join.protocols):
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        instance_id = request.group_instance_id
        is_new = request.member_id == UNKNOWN_MEMBER
        member_id = self._table.new_id() if is_new else request.member_id
        self._consumer.check_room(group, member_id, instance_id)
        if is_new and instance_id is None and join.caller.version >= MEMBER_ID_REQUIRED_FROM:
            join.refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id)
            return
        try:
            subscription = read_subscription(join.protocols[0][1])
        except DecodeError as error:
            told = f"Malformed embedded consumer protocol: {error}"
            if self._table.config.is_of_4_4:
                raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, told) from None
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, told) from None
        existing = group.static_member(instance_id)
        if instance_id is not None and not is_new:
            group.claimed_member(member_id, instance_id)
        before = self._consumer.find_member(group, Claim(member_id, instance_id, is_classic=True), join.result)
        change = ConsumerMemberChange(self._table, group, before, join.result, join.now, join.caller.may_see)
        _apply_request(change.member, join, subscription)
        change.subscribe()
        member = change.member
        if existing is not None and self.downgrades_with(group, existing):
            # If all members must join again, the member is told its old epoch, else the group's epoch.
            rebalance = group.assignment_epoch < change.group_epoch
            generation = member.epoch if rebalance else group.epoch
            del join.result.records[:]  # no change is recorded: the group's records are all removed
            member.epoch = group.epoch
            staying = group.with_change(member, existing)
            self.convert_back(group, staying, join.result, join.now, rebalance=rebalance)
        else:
            known = self._table.topics.topics
            owned = [
                TopicPartitions(known[owned.topic].id, owned.partitions)
                for owned in subscription.owned_partitions
                if owned.topic in known
            ]
            change.reconcile(change.retarget(), owned)
            generation = member.epoch
            timers = self._table.timers
            timers.cancel(TimerKey(JOIN, group.group_id, member.member_id))
            timers.set(TimerKey(SYNC, group.group_id, member.member_id), join.now + member.rebalance_timeout_ms)
            timers.set_session(group, member.member_id, join.now + request.session_timeout_ms)
        join.result.reply = JoinReply(
            generation_id=generation,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=join.protocols[0][0],
            member_id=member.member_id,
        )

    # SyncGroup

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest, result: CoordinatorResult[Any], now: int) -> None:
        """Answer with the member's share of the coordinator's assignment. Raises ApiError."""
        member = self._classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
        assert member.classic is not None
        protocol = member.classic.supported_protocols[0]
        if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol_name not in (
            None,
            protocol.name,
        ):
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        # A member with partitions to give back has joined already: it must learn its share before it joins again.
        if group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._await_join(group, member, now)
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
        self._table.timers.cancel(TimerKey(SYNC, group.group_id, member.member_id))
        self._table.timers.set_session(group, member.member_id, now + member.classic.session_timeout_ms)
        owned = {topic_id: frozenset(partitions) for topic_id, partitions in member.assigned.items()}
        result.reply = SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=classic_share(self._table.topics, owned, protocol.metadata),
        )

    # Heartbeat

    def heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest, now: int) -> ErrorCode:
        """Keep the member alive. Returns REBALANCE_IN_PROGRESS if a join would change something. Raises ApiError."""
        member = self._classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
        assert member.classic is not None
        self._table.timers.set_session(group, member.member_id, now + member.classic.session_timeout_ms)
        if (
            member.epoch < group.assignment_epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (member.state is MemberState.UNRELEASED_PARTITIONS and not _waits_for_others(group, member))
        ):
            self._await_join(group, member, now)
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def _await_join(self, group: ConsumerGroup, member: ConsumerGroupMember, now: int) -> None:
        """Set the deadline for the member to join again, unless one is set."""
        key = TimerKey(JOIN, group.group_id, member.member_id)
        if key not in self._table.timers:
            self._table.timers.set(key, now + member.rebalance_timeout_ms)

    def _classic_member(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
    ) -> ConsumerGroupMember:
        member = group.claimed_member(member_id, instance_id)
        if member.classic is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
        if generation != member.epoch:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        return member

    # LeaveGroup

    def leave(self, group: ConsumerGroup, request: LeaveGroupRequest, result: CoordinatorResult[Any], now: int) -> None:
        """Check the leaving members separately, and fence all known members in a single change of the group."""
        leaving: dict[str, ConsumerGroupMember] = {}
        replies = []
        for identity in request.members:
            error = ErrorCode.NONE
            try:
                member = self._leaving(group, identity)
                leaving[member.member_id] = member
            except ApiError as refused:
                error = refused.code
            replies.append(MemberResponse(identity.member_id, identity.group_instance_id, error))
        self._consumer.fence(group, list(leaving.values()), result, now)
        result.reply = LeaveGroupResponse(members=replies)

    def _leaving(self, group: ConsumerGroup, identity: MemberIdentity) -> ConsumerGroupMember:
        member_id, instance_id = identity.member_id, identity.group_instance_id
        if not member_id and instance_id is not None:  # an administrator names the instance alone
            member_id = group.static_members.get(instance_id, "")
        return group.claimed_member(member_id, instance_id)


def _supports(group: ConsumerGroup, protocol_type: str, protocols: Protocols) -> bool:
    """Return whether the group may have a classic member with `protocols`: all classic members must share one."""
    if protocol_type != CONSUMER_PROTOCOL_TYPE or not protocols:
        return False
    common = {name for name, _ in protocols}
    for member in group.members.values():
        if member.classic is not None:
            common &= {protocol.name for protocol in member.classic.supported_protocols}
    return bool(common)


def _apply_request(member: ConsumerGroupMember, join: Join, subscription: ConsumerProtocolSubscription) -> None:
    request = join.request
    if request.group_instance_id is not None:
        member.instance_id = request.group_instance_id
    if subscription.rack_id:
        member.rack_id = subscription.rack_id
    if join.rebalance_timeout_ms != -1:
        member.rebalance_timeout_ms = join.rebalance_timeout_ms
    member.topic_names = frozenset(subscription.topics)
    member.topic_regex = ""
    member.client_id = join.caller.client_id
    member.client_host = join.caller.client_host
    member.classic = ClassicMemberMetadata(
        request.session_timeout_ms, [ClassicProtocol(name, metadata) for name, metadata in join.protocols]
    )


def _waits_for_others(group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
    """Return whether a partition of the member's target still belongs to another member."""
    return any(
        partition not in member.assigned.get(topic_id, {}) and group.partition_epoch(topic_id, partition) != UNOWNED
        for topic_id, partitions in group.targets.get(member.member_id, {}).items()
        for partition in partitions
    )
