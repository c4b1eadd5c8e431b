"""A share group (KIP-932): its members, their records in `__consumer_offsets`, and ShareGroupHeartbeat.

Rule: all state is hard state, made of records by replay, but for the partitions that the coordinator is about to
initialize; a request works on a copy of its member. Members share partitions, so nothing has to be given back before
another member gets it. A partition is assigned once it has a state with the share coordinator. `uninitialized` names
the partitions that still need one; the host asks for their states and reports back by `initialized`, and the group's
epoch goes up. Where other nodes may become the coordinator, `initializing` is committed before any state is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from pykafka_broker.coordinators.groups.assignors import MemberSpec, assign_simple
from pykafka_broker.coordinators.groups.epoch_group import (
    FIRST_GROUP_EPOCH,
    JOIN_EPOCH,
    LEAVE_EPOCH,
    EpochGroup,
    EpochGroupMember,
    EpochProtocol,
    EpochReplay,
    GroupRecords,
    Target,
)
from pykafka_broker.coordinators.groups.group import BEHIND_BLANKS, Caller, GroupTable, invalid_request, is_blank
from pykafka_broker.coordinators.groups.java_order import in_hash_order
from pykafka_broker.coordinators.groups.topics import ClusterTopics, existing, java_length
from pykafka_broker.coordinators.record import CoordinatorRecord, CoordinatorResult
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.share_group_describe_response import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from pykafka_broker.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from pykafka_broker.protocol.messages.share_group_heartbeat_response import Assignment as HeartbeatAssignment
from pykafka_broker.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse
from pykafka_broker.protocol.messages.share_group_heartbeat_response import TopicPartitions as HeartbeatPartitions
from pykafka_broker.protocol.stored.share_group_current_member_assignment_value import (
    TopicPartitions as StoredPartitions,
)
from pykafka_broker.protocol.stored.share_group_state_partition_metadata_key import ShareGroupStatePartitionMetadataKey
from pykafka_broker.protocol.stored.share_group_state_partition_metadata_value import (
    ShareGroupStatePartitionMetadataValue,
    TopicInfo,
    TopicPartitionsInfo,
)
from pykafka_broker.protocol.stored.share_group_target_assignment_member_value import TopicPartition as AssignedTopic

V = TypeVar("V")
Topics = dict[bytes, tuple[str, frozenset[int]]]  # topic id -> name and partitions


RECORDS = GroupRecords("ShareGroup")
_STABLE = 0  # the only state of a member


class ShareGroupMember(EpochGroupMember):
    __slots__ = ("topic_names",)
    assigned: Target

    def __init__(self, member_id: str) -> None:
        super().__init__(member_id)
        self.topic_names: frozenset[str] = frozenset()

    def metadata(self) -> tuple[object, ...]:
        return self.rack_id, self.client_id, self.client_host, self.topic_names

    def take_request(self, request: Any, caller: Caller) -> None:
        super().take_request(request, caller)
        if request.subscribed_topic_names is not None:
            self.topic_names = frozenset(request.subscribed_topic_names)

    def stored_assignment(self) -> Iterable[object]:
        topics = [StoredPartitions(topic_id, sorted(partitions)) for topic_id, partitions in self.assigned.items()]
        return _STABLE, topics

    def take_metadata(self, value: Any) -> None:
        super().take_metadata(value)
        self.topic_names = frozenset(value.subscribed_topic_names)

    def take_assignment(self, value: Any) -> None:
        super().take_assignment(value)
        self.assigned = {bytes(topic.topic_id): frozenset(topic.partitions) for topic in value.assigned_partitions}


class ShareGroup(EpochGroup[ShareGroupMember, Target]):
    type_name = "share"
    protocol_type = "share"
    member_type = ShareGroupMember
    records = RECORDS
    goes_when_empty = False  # the group knows the partitions with a state at the share coordinator

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.initialized: Topics = {}  # the partitions with a state at the share coordinator
        self.initializing: Topics = {}  # the partitions for which a state was asked, without an answer yet
        self.deleting: dict[bytes, str] = {}  # topics whose states are being deleted, with their names
        self.has_state_record = False
        self.asked_epoch = 0  # the last group epoch under which a coordinator has initialized partitions
        self.attempts = 0  # unfinished requests for states

    def in_table_order(self, members: Iterable[ShareGroupMember]) -> list[ShareGroupMember]:
        """Return members in the order of Kafka's table of them, which its assignor meets."""
        found = {member.member_id: member for member in members}
        came = dict.fromkeys((*(member_id for member_id in self.members if member_id in found), *found))
        return [found[member_id] for member_id in self._java_table.order(came)]

    # Questions of the table and of the offsets

    @property
    def state_name(self) -> str:
        return "Stable" if self.members else "Empty"

    def read_among(self, topics: frozenset[str]) -> frozenset[str]:
        return topics & _names(self.members.values())

    def reads_any(self, topics: frozenset[str]) -> bool:
        """Return whether a member names a topic of `topics`, which need not exist."""
        return any(not topics.isdisjoint(member.topic_names) for member in self.members.values())

    def expiry_base(self) -> Callable[[int], int] | None:
        """Return None: share groups have no committed offsets to expire."""
        return None

    def check_offset_delete(self) -> None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Allow every fetch: no offsets exist."""

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, epoch: int, version: int, transactional: bool
    ) -> Callable[[bytes, int], ErrorCode] | None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)

    def tombstones(self) -> list[CoordinatorRecord]:
        states = ShareGroupStatePartitionMetadataKey(self.group_id)
        return RECORDS.tombstones(self, [CoordinatorRecord(states, None)] if self.has_state_record else [])

    def stored_target(self, target: Target) -> Iterable[object]:
        yield [AssignedTopic(topic_id, sorted(partitions)) for topic_id, partitions in target.items()]

    def read_target(self, value: Any) -> Target:
        return {bytes(topic.topic_id): frozenset(topic.partitions) for topic in value.topic_partitions}


# ShareGroupDescribe

ASSIGNOR = "simple"


def describe(group: ShareGroup, topics: ClusterTopics) -> DescribedGroup:
    """Return the group with all members, without deleted topics."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=[_describe_member(member, topics) for member in group.members.values()],
    )


def _describe_member(member: ShareGroupMember, topics: ClusterTopics) -> Member:
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


# Records in `__consumer_offsets`, as Kafka 4.4 writes them


def states_record(
    group_id: str, initializing: Topics, initialized: Topics, deleting: Mapping[bytes, str]
) -> CoordinatorRecord:
    """Return the record of the partitions with a state at the share coordinator, or about to get or to lose a state."""
    value = ShareGroupStatePartitionMetadataValue(
        _infos(initializing), _infos(initialized), [TopicInfo(topic_id, name) for topic_id, name in deleting.items()]
    )
    return CoordinatorRecord(ShareGroupStatePartitionMetadataKey(group_id), value)


def _states_result(
    group_id: str, initializing: Topics, initialized: Topics, deleting: Mapping[bytes, str]
) -> CoordinatorResult[None]:
    return CoordinatorResult(records=[states_record(group_id, initializing, initialized, deleting)], key=group_id)


def _but(topics: Mapping[bytes, V], gone: Collection[bytes]) -> dict[bytes, V]:
    return {topic_id: value for topic_id, value in topics.items() if topic_id not in gone}


def _infos(topics: Topics) -> list[TopicPartitionsInfo]:
    return [TopicPartitionsInfo(topic_id, name, sorted(parts)) for topic_id, (name, parts) in topics.items() if parts]


def _read_infos(infos: Iterable[TopicPartitionsInfo]) -> Topics:
    return {bytes(topic.topic_id): (topic.topic_name, frozenset(topic.partitions)) for topic in infos}


def _joined(one: Topics, other: Topics) -> Topics:
    joined = dict(one)
    for topic_id, (name, parts) in other.items():
        joined[topic_id] = (name, joined.get(topic_id, (name, frozenset[int]()))[1] | parts)
    return joined


def _without(topics: Topics, gone: Topics) -> Topics:
    left = {
        topic_id: (name, parts - gone.get(topic_id, (name, frozenset[int]()))[1])
        for topic_id, (name, parts) in topics.items()
    }
    return {topic_id: (name, parts) for topic_id, (name, parts) in left.items() if parts}


def share_replay(table: GroupTable) -> EpochReplay[ShareGroup]:
    """Return the replay of share groups: the types of `EpochReplay`, and the states of partitions."""
    return EpochReplay(table, ShareGroup, ShareGroup, {ShareGroupStatePartitionMetadataKey: _take_initialized})


def _take_initialized(group: ShareGroup, key: ShareGroupStatePartitionMetadataKey, value: Any) -> None:
    """Apply the record of the partitions with a state, about to get a state, or to lose a state."""
    group.has_state_record = value is not None
    group.initializing = {} if value is None else _read_infos(value.initializing_topics)
    group.initialized = {} if value is None else _read_infos(value.initialized_topics)
    group.deleting = {} if value is None else {bytes(each.topic_id): each.topic_name for each in value.deleting_topics}


# Requests and deadlines


_MAX_MEMBER_ID = 36  # Java's characters


def checked_member_id(member_id: str | None) -> str:
    """Return the member id of a request. Raises INVALID_REQUEST for a missing, empty or long one."""
    if not member_id or java_length(member_id) > _MAX_MEMBER_ID:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    return member_id


class ShareMembership(EpochProtocol[ShareGroup]):
    """All requests and deadlines of share groups."""

    def group(self, group_id: str, kind: str = "Group") -> ShareGroup:
        """Return the group. Raises GROUP_ID_NOT_FOUND."""
        return self._table.of_kind(group_id, ShareGroup, kind)

    # Heartbeat

    def heartbeat(
        self, request: ShareGroupHeartbeatRequest, caller: Caller, now: int, *, at_once: bool = False
    ) -> CoordinatorResult[ShareGroupHeartbeatResponse]:
        """Decide a ShareGroupHeartbeat: join with epoch 0, go on, or leave with epoch -1.

        Args:
            at_once: Assign now, even if the last target is young: the last target had nothing to assign yet.
        """
        result: CoordinatorResult[ShareGroupHeartbeatResponse] = CoordinatorResult(key=request.group_id)
        try:
            check_heartbeat(request)
            if request.member_epoch == LEAVE_EPOCH:
                group = self.group(request.group_id)
                self.fence(group, [group.member(request.member_id)], result, now)
                result.reply = ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=LEAVE_EPOCH)
            else:
                self._join_or_stay(request, caller, result, now, at_once)
        except ApiError as error:
            reply = ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
            return CoordinatorResult(reply, key=request.group_id)
        return result

    def _join_or_stay(
        self,
        request: ShareGroupHeartbeatRequest,
        caller: Caller,
        result: CoordinatorResult[Any],
        now: int,
        at_once: bool,
    ) -> None:
        joins = request.member_epoch == JOIN_EPOCH
        if joins and request.group_id not in self._table.groups:
            group = ShareGroup(request.group_id)
        else:
            group = self.group(request.group_id, "Group" if joins else "Share group")
        before = self._member(group, request, joins)
        member = before.copy()
        member.take_request(request, caller)
        if member.metadata() != before.metadata() or member.member_id not in group.members:
            result.records.append(group.member_record(member))
        settings = self._table.group_settings(group.group_id)
        is_due = at_once or group.may_retarget(settings.share_assignment_interval_ms, now)
        self._reconcile(group, before, member, result, now, is_due)
        self._timers.set_session(group, member.member_id, now + settings.share_session_timeout_ms)
        reply = result.reply = ShareGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=settings.share_heartbeat_interval_ms,
        )
        if joins or request.subscribed_topic_names is not None or member.assigned != before.assigned:
            reply.assignment = HeartbeatAssignment(
                [HeartbeatPartitions(topic_id, sorted(parts)) for topic_id, parts in member.assigned.items()]
            )

    def _member(self, group: ShareGroup, request: ShareGroupHeartbeatRequest, joins: bool) -> ShareGroupMember:
        if not joins:
            member = group.member(request.member_id)
            check_epoch(group, member, request.member_epoch)
            return member
        if request.member_id not in group.members:
            group.check_room(self._table.config.group_share_max_size)
        return group.members.get(request.member_id) or ShareGroupMember(request.member_id)

    # Epochs and targets

    def _reconcile(
        self,
        group: ShareGroup,
        before: ShareGroupMember,
        member: ShareGroupMember,
        result: CoordinatorResult[Any],
        now: int,
        is_due: bool,
    ) -> None:
        """Start a group epoch if topics have changed, assign for the epoch, and give the member a share.

        Args:
            is_due: Assign now, if there is a newer epoch.
        """
        members = group.with_change(member)
        epoch, target_epoch = group.epoch, group.assignment_epoch
        bump = member.topic_names != before.topic_names or member.member_id not in group.members
        if epoch == target_epoch:
            bump = bump or self._assignable(group, members) != self._assigned(group)
        if bump or group.metadata_stale:
            new_hash = self._table.read.hash(_names(members))
            if bump or new_hash != group.metadata_hash:
                epoch += 1
                result.records.append(RECORDS.epoch(group.group_id, epoch, new_hash))
            else:
                group.metadata_stale = False  # else stale until the new hash is replayed: the log may refuse the record
        target = group.targets.get(member.member_id, {})
        if epoch > target_epoch and is_due:
            target = self._new_targets(group, members, epoch, result, now)[member.member_id]
            target_epoch = epoch
        if member.epoch != target_epoch or member.member_id not in group.members:
            member.previous_epoch, member.epoch = max(0, member.epoch), target_epoch
            readable = self._table.read.ids(member.topic_names)
            member.assigned = {topic_id: parts for topic_id, parts in target.items() if topic_id in readable}
            result.records.append(group.assignment_record(member))

    def _assignable(self, group: ShareGroup, members: list[ShareGroupMember]) -> Target:
        wanted = self._table.read.ids(_names(members))
        return {topic_id: parts for topic_id, (_, parts) in group.initialized.items() if topic_id in wanted and parts}

    def _assigned(self, group: ShareGroup) -> Target:
        found: dict[bytes, list[frozenset[int]]] = {}
        for target in group.targets.values():
            for topic_id, parts in target.items():
                if parts:
                    found.setdefault(topic_id, []).append(parts)
        return {topic_id: parts[0].union(*parts[1:]) for topic_id, parts in found.items()}

    def _new_targets(
        self, group: ShareGroup, members: list[ShareGroupMember], epoch: int, result: CoordinatorResult[Any], now: int
    ) -> dict[str, Target]:
        specs = {
            member.member_id: MemberSpec(
                None, self._table.read.ids(member.topic_names), group.targets.get(member.member_id, {})
            )
            for member in group.in_table_order(members)
        }
        initialized = {name: (topic_id, parts) for topic_id, (name, parts) in group.initialized.items()}
        wanted = in_hash_order(sorted(existing(self._table.topics, _names(members))))
        assignable = dict(initialized[name] for name in wanted if name in initialized)
        assigned = assign_simple(specs, assignable, len({member.topic_names for member in members}) > 1)
        targets = {
            member_id: {topic_id: frozenset(parts) for topic_id, parts in share.items()}
            for member_id, share in assigned.items()
        }
        result.records += group.target_records(targets, epoch, now)
        return targets

    # States of partitions

    def uninitialized(self, group_id: str) -> Topics:
        """Return the subscribed partitions without a state at the share coordinator."""
        group = self._table.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            return {}
        missing: Topics = {}
        for name in sorted(existing(self._table.topics, _names(group.members.values()))):
            topic = self._table.topics.topics[name]
            if topic.id in group.deleting:
                continue
            _, known = group.initialized.get(topic.id, (name, frozenset[int]()))
            new = frozenset(topic.partitions) - known
            if new:
                missing[topic.id] = (name, new)
        return missing

    def initialize(self, group_id: str, topics: Topics, *, fenced: bool) -> CoordinatorResult[int]:
        """Begin to initialize partitions of a group, known or new. The reply is the state epoch.

        Args:
            fenced: the attempt has an epoch of its own, which the records make that of the group. A request of an
                earlier attempt, or of an earlier coordinator, that arrives late is refused then, and resets nothing
                that members have begun to read.
        """
        group = self._table.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            return CoordinatorResult(FIRST_GROUP_EPOCH, [states_record(group_id, topics, {}, {})], key=group_id)
        result = CoordinatorResult(group.epoch, key=group_id)
        if fenced:
            result.reply = group.asked_epoch = max(group.epoch, group.asked_epoch + 1)
            result.records.append(RECORDS.epoch(group_id, result.reply, group.metadata_hash))
        begun = _joined(group.initializing, topics)
        result.records.append(states_record(group_id, begun, group.initialized, group.deleting))
        return result

    def initialized(self, group_id: str, tried: Topics, done: Topics) -> CoordinatorResult[None]:
        """End an attempt to initialize partitions: those of `done` have a state now, unless the topic is deleted."""
        group = self.group(group_id)
        done = _but(done, done.keys() - self._table.topics.topics_by_id.keys())
        left, known = _without(group.initializing, tried), _joined(group.initialized, done)
        return _states_result(group_id, left, known, _but(group.deleting, done))

    def delete_topics(self, group_id: str, topics: Topics) -> CoordinatorResult[None]:
        """Begin to delete the states of topics: no member is given partitions of the topics until the end."""
        group = self.group(group_id)
        deleting = group.deleting | {topic_id: name for topic_id, (name, _) in topics.items()}
        return _states_result(group_id, group.initializing, _but(group.initialized, topics), deleting)

    def forget_topics(self, group_id: str, gone: Collection[bytes]) -> CoordinatorResult[None]:
        """Note the end of the states of topics."""
        group = self.group(group_id)
        begun, left = _but(group.initializing, gone), _but(group.initialized, gone)
        return _states_result(group_id, begun, left, _but(group.deleting, gone))

    def deleted_topics(self, group: ShareGroup) -> set[bytes]:
        """Return the deleted topics with a state, or about to get or to lose a state."""
        known = self._table.topics.topics_by_id
        return {*group.initializing, *group.initialized, *group.deleting} - known.keys()

    # Leaving and time

    def next_epoch(self, group: ShareGroup, leaving: list[ShareGroupMember]) -> list[CoordinatorRecord]:
        left = [member for member in group.members.values() if member not in leaving]
        return [RECORDS.epoch(group.group_id, group.epoch + 1, self._table.read.hash(_names(left)))]

    def session_ms(self, group: ShareGroup, member: ShareGroupMember) -> int:
        return self._table.group_settings(group.group_id).share_session_timeout_ms

    def on_loaded(self, group: ShareGroup, now: int) -> None:
        """Begin the sessions after a load, and the states of partitions anew.

        The coordinator before may have asked for states under the group's epoch, so the next attempt takes a higher
        epoch. Partitions that were being initialized or deleted are initialized anew.
        """
        group.asked_epoch = group.epoch
        group.initializing, group.deleting = {}, {}
        super().on_loaded(group, now)


def _names(members: Iterable[ShareGroupMember]) -> frozenset[str]:
    """Return the names of all topics to which the members have subscribed."""
    return frozenset[str]().union(*(member.topic_names for member in members))


def check_heartbeat(request: ShareGroupHeartbeatRequest) -> None:
    """Check the request alone, in Kafka's order and words. Raises INVALID_REQUEST."""
    checked_member_id(request.member_id)
    values = (request.member_id, request.group_id, request.rack_id)
    for name, value in zip(("MemberId", "GroupId", "RackId"), values, strict=True):
        if value is not None and value < BEHIND_BLANKS and is_blank(value):
            raise invalid_request(f"{name} can't be empty.")
    if request.member_epoch < LEAVE_EPOCH:
        raise invalid_request("MemberEpoch is invalid.")
    if request.member_epoch == JOIN_EPOCH and not request.subscribed_topic_names:
        raise invalid_request("SubscribedTopicNames must be set in first request.")


def check_epoch(group: ShareGroup, member: ShareGroupMember, epoch: int) -> None:
    """Raise FENCED_MEMBER_EPOCH for a wrong epoch.

    The epoch before the last is fine for a member that has missed an answer.
    """
    if epoch > member.epoch:
        raise group.fenced("greater", epoch, member.epoch)
    if epoch < member.epoch and epoch != member.previous_epoch:
        but = f", and it does not match the previous member epoch ({member.previous_epoch})"
        raise group.fenced("smaller", epoch, member.epoch, but)
