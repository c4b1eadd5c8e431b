"""The group coordinator: every request on groups and offsets, by the kind of group that the request meets.

Rule: a call decides and returns a `CoordinatorResult`. `replay` applies the records of a result, and at a load the
records of the log. One coordinator holds the groups of all logs of `__consumer_offsets` that this node leads; the host
knows which logs those are. An empty group of another kind makes way for a new group. Classic requests go to classic
groups, and to consumer groups that classic members may join (KIP-848). A ConsumerGroupHeartbeat converts a classic
group with members if the migration policy allows it; a group of any other kind counts as missing. The one reader is the
host in `broker/`, another layer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Any

from pykafka_broker.config import BrokerConfig
from pykafka_broker.coordinators.groups import classic_group, consumer_group
from pykafka_broker.coordinators.groups.classic import ClassicProtocol, Join, join_refusal
from pykafka_broker.coordinators.groups.classic_group import ClassicGroup, group_tombstone
from pykafka_broker.coordinators.groups.consumer import ConsumerProtocol, check_heartbeat
from pykafka_broker.coordinators.groups.consumer_classic import ClassicMembers
from pykafka_broker.coordinators.groups.consumer_group import ConsumerGroup, consumer_replay
from pykafka_broker.coordinators.groups.epoch_group import JOIN_EPOCH, EpochGroup, EpochProtocol
from pykafka_broker.coordinators.groups.group import (
    UNKNOWN_MEMBER,
    AnyGroup,
    Caller,
    GroupTable,
    TimerKey,
    WallAt,
    unchanged,
)
from pykafka_broker.coordinators.groups.offsets import LAST_OFFSET, NO_PRODUCER_ID, OffsetRequests, OffsetStore
from pykafka_broker.coordinators.groups.topics import ClusterTopics
from pykafka_broker.coordinators.record import CoordinatorRecord, CoordinatorResult, R, Token
from pykafka_broker.coordinators.share import share_group
from pykafka_broker.coordinators.share.share_group import ShareGroup, ShareMembership, share_replay
from pykafka_broker.coordinators.streams import group as streams_group
from pykafka_broker.coordinators.streams.group import StreamsGroup, streams_replay
from pykafka_broker.coordinators.streams.protocol import StreamsProtocol
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.consumer_group_describe_response import DescribedGroup as DescribedConsumerGroup
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from pykafka_broker.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from pykafka_broker.protocol.messages.describe_groups_response import DescribedGroup
from pykafka_broker.protocol.messages.heartbeat_request import HeartbeatRequest
from pykafka_broker.protocol.messages.join_group_request import JoinGroupRequest
from pykafka_broker.protocol.messages.join_group_response import JoinGroupResponse
from pykafka_broker.protocol.messages.leave_group_request import LeaveGroupRequest
from pykafka_broker.protocol.messages.leave_group_response import LeaveGroupResponse, MemberResponse
from pykafka_broker.protocol.messages.share_group_describe_response import DescribedGroup as DescribedShareGroup
from pykafka_broker.protocol.messages.streams_group_describe_response import DescribedGroup as DescribedStreamsGroup
from pykafka_broker.protocol.messages.sync_group_request import SyncGroupRequest
from pykafka_broker.protocol.messages.sync_group_response import SyncGroupResponse
from pykafka_broker.protocol.stored.group_metadata_key import GroupMetadataKey
from pykafka_broker.protocol.stored.legacy_offset_commit_key import LegacyOffsetCommitKey
from pykafka_broker.protocol.stored.offset_commit_key import OffsetCommitKey

OFFSET_EXPIRY = TimerKey("offset-expiry", "")  # the round over all groups
_OFFSET_KEYS = (OffsetCommitKey, LegacyOffsetCommitKey)
EXPIRE = "expire"  # a group's turn in the round
RETRY_MS = 500  # until a deadline is carried out again if the log has refused the records


DISCONNECTED = "disconnected"


class DisconnectedMembers:
    """The last connection of each member, and the deadlines of members with a closed connection.

    On brokers for tests a member that does not come back on another connection within `patience_ms` is removed as if
    its session had ended. Without a patience a session lasts as long as its timeout says, as in Kafka. A static member
    (KIP-345) is left alone: its return is expected within its session timeout.
    """

    def __init__(self, table: GroupTable, patience_ms: int | None) -> None:
        self._table = table
        self._patience_ms = patience_ms
        self._connection_of: dict[TimerKey, int] = {}
        self._members_of: defaultdict[int, set[TimerKey]] = defaultdict(set)

    def note_contact(self, connection_id: int, group_id: str, member_id: str) -> None:
        """Note the connection of a member after an answered request. Unknown members are not kept."""
        if self._patience_ms is None:
            return
        key = TimerKey(DISCONNECTED, group_id, member_id)
        before = self._connection_of.get(key)
        if before == connection_id or not self._is_waited_for(key):
            return
        if before is not None:
            self._members_of[before].discard(key)
        self._connection_of[key] = connection_id
        self._members_of[connection_id].add(key)
        self._table.timers.cancel(key)

    def on_connection_closed(self, connection_id: int, now: int) -> None:
        """Give the members of a closed connection `patience_ms` to come back on another connection."""
        if self._patience_ms is None:
            return
        for key in self._members_of.pop(connection_id, ()):
            del self._connection_of[key]
            self._table.timers.set(key, now + self._patience_ms)

    def on_loaded(self, group: AnyGroup, now: int) -> None:
        """Give the members of a loaded group `patience_ms` to come back.

        The group was read from the log of another broker, whose connections this broker has taken over.
        """
        if self._patience_ms is None:
            return
        for member_id in group.members:
            self._table.timers.set(TimerKey(DISCONNECTED, group.group_id, member_id), now + self._patience_ms)

    def on_deadline(self, key: TimerKey, now: int) -> None:
        """End the session of a member after the patience.

        A member that waits for a rebalance stays until the rebalance is done, so the deadline is set again.
        """
        group = self._table.groups.get(key.group_id)
        if group is None or self._patience_ms is None or not self._is_waited_for(key):
            return
        self._table.timers.set_session(group, key.member_id, now)
        self._table.timers.set(key, now + self._patience_ms)

    def _is_waited_for(self, key: TimerKey) -> bool:
        group = self._table.groups.get(key.group_id)
        return group is not None and group.has_dynamic_member(key.member_id)


class GroupCoordinator:
    """All groups and offsets of a node, sans-IO: without clock, log or random numbers. (Kafka: GroupMetadataManager)"""

    def __init__(
        self,
        config: BrokerConfig,
        topics: ClusterTopics,
        new_id: Callable[[], str],
        group_config: Callable[[str], Mapping[str, str]] = lambda group_id: {},
        disconnected_member_ms: int | None = None,
        wall_at: WallAt = unchanged,
    ) -> None:
        """Begin without groups.

        Args:
            new_id: Returns a random UUID as text.
            group_config: Returns the overrides of a group's configs.
            disconnected_member_ms: How long a member with a closed connection stays; None: as long as its session.
            wall_at: From a time of the steady clock to the wall clock's, for times that are stored and compared after a
                restart: of commits, and since when a group is empty.
        """
        self.table = GroupTable(config, topics, new_id, group_config, wall_at)
        self.disconnected = DisconnectedMembers(self.table, disconnected_member_ms)
        self.offsets = OffsetStore()
        self._classic = ClassicProtocol(self.table)
        self._consumer = ConsumerProtocol(self.table)
        self.streams = StreamsProtocol(self.table)
        self.share = ShareMembership(self.table)
        self._protocols: dict[type[Any], EpochProtocol[Any]] = {
            ConsumerGroup: self._consumer,
            StreamsGroup: self.streams,
            ShareGroup: self.share,
        }
        self._classic_members = ClassicMembers(self.table, self._classic, self._consumer)
        self.offset_requests = OffsetRequests(self.table, self.offsets, self._classic.note_commit)
        self._replays = (consumer_replay(self.table), streams_replay(self.table), share_replay(self.table))

    @property
    def groups(self) -> Mapping[str, AnyGroup]:
        return self.table.groups

    # Members

    def join(
        self, request: JoinGroupRequest, caller: Caller, token: Token, now: int
    ) -> CoordinatorResult[JoinGroupResponse | None]:
        """Decide a JoinGroup. Without a reply the request waits under `token`."""
        result: CoordinatorResult[JoinGroupResponse | None] = CoordinatorResult(key=request.group_id)
        join = Join(caller, request, token, now, result)
        group = self.table.groups.get(request.group_id)
        try:
            self._check_join(request)
            if isinstance(group, ConsumerGroup) and not group.is_empty:
                self._classic_members.join(group, join)
            elif isinstance(group, ClassicGroup):
                self._classic.join(group, join)
            elif group is None or (isinstance(group, ConsumerGroup | StreamsGroup) and group.is_empty):
                if group is not None and request.member_id == UNKNOWN_MEMBER:  # any other member is refused
                    result.records += group.tombstones()
                result.take_back = partial(self.table.put_back, request.group_id, group)
                self._classic.join(None, join)
            else:
                raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        except ApiError as error:
            # As in Kafka, the refusal by a group of another protocol does not repeat the member's id.
            is_classic = isinstance(group, ClassicGroup | None) or error.code is ErrorCode.INVALID_SESSION_TIMEOUT
            member_id = request.member_id if is_classic else UNKNOWN_MEMBER
            return CoordinatorResult(join_refusal(error.code, member_id), key=request.group_id)
        return _own_reply(result, token)

    def _check_join(self, request: JoinGroupRequest) -> None:
        config = self.table.config
        if not request.group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        if not (
            config.group_min_session_timeout_ms <= request.session_timeout_ms <= config.group_max_session_timeout_ms
        ):
            raise ApiError(ErrorCode.INVALID_SESSION_TIMEOUT)

    def sync(self, request: SyncGroupRequest, token: Token, now: int) -> CoordinatorResult[SyncGroupResponse | None]:
        """Decide a SyncGroup. Without a reply the request waits under `token`."""
        result: CoordinatorResult[SyncGroupResponse | None] = CoordinatorResult(key=request.group_id)
        group = self.table.groups.get(request.group_id)
        try:
            if not request.group_id:
                raise ApiError(ErrorCode.INVALID_GROUP_ID)
            if isinstance(group, ClassicGroup):
                self._classic.sync(group, request, token, result, now)
            elif isinstance(group, ConsumerGroup):
                self._classic_members.sync(group, request, result, now)
            else:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        except ApiError as error:
            return CoordinatorResult(SyncGroupResponse(error_code=error.code), key=request.group_id)
        return _own_reply(result, token)

    def heartbeat(self, request: HeartbeatRequest, now: int) -> ErrorCode:
        """Decide a Heartbeat, without records and without waiting."""
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        group = self.table.groups.get(request.group_id)
        try:
            if isinstance(group, ClassicGroup):
                return self._classic.heartbeat(group, request, now)
            if isinstance(group, ConsumerGroup):
                return self._classic_members.heartbeat(group, request, now)
        except ApiError as error:
            return error.code
        return ErrorCode.UNKNOWN_MEMBER_ID

    def leave(self, request: LeaveGroupRequest, now: int) -> CoordinatorResult[LeaveGroupResponse]:
        """Decide a LeaveGroup in the form of version 3 and newer: a list of members."""
        result: CoordinatorResult[LeaveGroupResponse] = CoordinatorResult(key=request.group_id)
        group = self.table.groups.get(request.group_id)
        if not request.group_id:
            result.reply = LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        elif isinstance(group, ClassicGroup):
            self._classic.leave(group, request, result, now)
        elif isinstance(group, ConsumerGroup):
            self._classic_members.leave(group, request, result, now)
        else:
            unknown = [
                MemberResponse(identity.member_id, identity.group_instance_id, ErrorCode.UNKNOWN_MEMBER_ID)
                for identity in request.members
            ]
            result.reply = LeaveGroupResponse(members=unknown)
        return result

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller, now: int
    ) -> CoordinatorResult[ConsumerGroupHeartbeatResponse]:
        """Decide a ConsumerGroupHeartbeat: join with epoch 0, go on, or leave with epoch -1 or -2."""
        result: CoordinatorResult[ConsumerGroupHeartbeatResponse] = CoordinatorResult(key=request.group_id)
        try:
            check_heartbeat(request, caller.version, self.table)
            group = self.table.groups.get(request.group_id)
            if request.member_epoch < JOIN_EPOCH:
                self._consumer.leave(self.table.of_kind(request.group_id, ConsumerGroup), request, result, now)
            else:
                if not isinstance(group, ConsumerGroup):
                    joins = request.member_epoch == JOIN_EPOCH
                    group = self._new_consumer_group(request.group_id, group, joins, result, now)
                self._consumer.heartbeat(group, request, caller, result, now)
        except ApiError as error:
            result.reply = ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
            result.records.clear()  # what is left sends the waiting members of a classic group back to JoinGroup
        return result

    def _new_consumer_group(
        self, group_id: str, group: AnyGroup | None, joins: bool, result: CoordinatorResult[Any], now: int
    ) -> ConsumerGroup:
        """Return a new group for a first member, or the converted group of classic members."""
        if not joins or not (group is None or isinstance(group, ClassicGroup)):
            return self.table.of_kind(group_id, ConsumerGroup, "Consumer group")
        if isinstance(group, ClassicGroup):
            if not group.is_empty:
                return self._classic_members.upgrade(group, result, now)
            result.records.append(group_tombstone(group_id))
        return ConsumerGroup(group_id)

    # Groups as a whole

    def describe_classic(self, group_id: str) -> DescribedGroup:
        """Describe a classic group. Raises GROUP_ID_NOT_FOUND also for a group of another kind."""
        return classic_group.describe(self.table.of_kind(group_id, ClassicGroup))

    def describe_consumer(self, group_id: str) -> DescribedConsumerGroup:
        """Describe a consumer group. Raises GROUP_ID_NOT_FOUND also for a group of another kind."""
        group, default = self.table.of_kind(group_id, ConsumerGroup), self.table.consumer_assignors[0]
        return consumer_group.describe(group, self.table.topics, default)

    def describe_share(self, group_id: str) -> DescribedShareGroup:
        """Describe a share group. Raises GROUP_ID_NOT_FOUND also for a group of another kind."""
        return share_group.describe(self.share.group(group_id), self.table.topics)

    def describe_streams(self, group_id: str) -> DescribedStreamsGroup:
        """Describe a streams group. Raises GROUP_ID_NOT_FOUND also for a group of another kind."""
        return streams_group.describe(self.table.of_kind(group_id, StreamsGroup))

    def delete_group(self, group_id: str) -> CoordinatorResult[ErrorCode]:
        """Delete a group with all offsets; the reply is an ErrorCode."""
        result = CoordinatorResult(ErrorCode.NONE, key=group_id)
        try:
            self.table.existing(group_id).check_delete()
        except ApiError as error:
            result.reply = error.code
            return result
        result.records += self.offset_requests.tombstones(group_id)
        result.records += self.groups[group_id].tombstones()
        return result

    # Hard state

    def replay(
        self, record: CoordinatorRecord, now: int, log_offset: int = -1, producer_id: int = NO_PRODUCER_ID
    ) -> None:
        """Apply a record of `__consumer_offsets`, right after the append and at a load alike.

        Args:
            log_offset: The record's offset in its log.
            producer_id: The producer of the transaction that the record belongs to.
        """
        key, value, _ = record
        if isinstance(key, _OFFSET_KEYS):
            if value is not None and key.group not in self.table.groups:
                # A commit is enough to make a simple group.
                self.table.groups[key.group] = ClassicGroup(key.group, now, wall_at=self.table.wall_at)
            self.offsets.replay(key.group, key.topic, key.partition, value, log_offset, producer_id)
        elif isinstance(key, GroupMetadataKey):
            self._classic.replay(key.group, value, now)
        else:
            for kind in self._replays:
                if kind.takes(key):
                    kind.replay(key, value)

    def on_loaded(self, group_ids: Iterable[str], now: int) -> list[CoordinatorResult[None]]:
        """Begin the sessions of loaded groups."""
        if OFFSET_EXPIRY not in self.table.timers:
            self.table.timers.set(OFFSET_EXPIRY, now + self.table.config.offsets_retention_check_interval_ms)
        done: list[CoordinatorResult[None]] = []
        for group_id in group_ids:
            group, result = self.groups[group_id], CoordinatorResult[None](key=group_id)
            if isinstance(group, ClassicGroup):
                self._classic.on_loaded(group, result, now)
            else:
                self._protocols[type(group)].on_loaded(group, now)
            done.append(result)
        return [result for result in done if result.records or result.completions]

    def unload(self, group_ids: Iterable[str]) -> list[CoordinatorResult[None]]:
        """Forget groups of a log with another leader, and send waiting requests to the new coordinator."""
        done: list[CoordinatorResult[None]] = []
        for group_id in group_ids:
            result = CoordinatorResult[None](key=group_id)
            group = self.groups[group_id]
            if isinstance(group, ClassicGroup):
                self._classic.reject_waiting(group, result)
            self.table.remove(group_id)
            self.offsets.forget_group(group_id)
            done.append(result)
        return done

    # Time

    def next_deadline(self) -> int | None:
        return self.table.timers.next_deadline()

    def on_deadline(self, now: int) -> CoordinatorResult[None]:
        """Carry out the next deadline, of a single group.

        The host calls again, with the records replayed, while `next_deadline` is due.
        """
        result: CoordinatorResult[None] = CoordinatorResult()
        key = self.table.timers.pop(now)
        if key is None:
            return result
        result.key = key.group_id
        group = self.groups.get(key.group_id)
        if key == OFFSET_EXPIRY:
            self.table.timers.set(OFFSET_EXPIRY, now + self.table.config.offsets_retention_check_interval_ms)
            for group_id in self.groups:
                self.table.timers.set(TimerKey(EXPIRE, group_id), now)
        elif key.kind == EXPIRE and group is not None:
            result.records, nothing_left = self.offset_requests.expired(key.group_id, now)
            if nothing_left and group.is_empty and group.goes_when_empty:
                result.records += group.tombstones()
        elif key.kind == DISCONNECTED:
            self.disconnected.on_deadline(key, now)
        elif isinstance(group, ClassicGroup):
            self._classic.on_timer(key, group, result, now)
        elif isinstance(group, EpochGroup):
            self._protocols[type(group)].on_timer(key, group, result, now)
            if key.member_id and result.records and self.groups[key.group_id] is group:
                self.table.timers.set(key, now + RETRY_MS)  # until the record that takes the member out is there
        return result

    # Topics

    def on_topics_changed(self, names: Iterable[str], created: bool, version: int) -> None:
        """Note created, deleted, grown or moved topics: at the next heartbeat the groups get another target.

        A topic moves to other racks with the replicas.
        """
        changed = frozenset(names)
        self.table.metadata_version = version
        self.table.read.forget(changed)
        if created:
            self.table.newest_topic_version = version
        for group in self.groups.values():
            if isinstance(group, StreamsGroup | ShareGroup):
                group.metadata_stale |= group.reads_any(changed)
            elif isinstance(group, ConsumerGroup) and (group.regexes or group.reads_any(changed)):
                group.metadata_stale = True

    def on_topics_deleted(
        self, names: Iterable[str], end_of: Callable[[str], int] = lambda group_id: LAST_OFFSET
    ) -> Iterator[CoordinatorResult[None]]:
        """Remove deleted topics from groups: the states of share groups, and committed offsets, group after group.

        A topic may be made anew, and a group may change, before the last group had its turn.

        Args:
            end_of: returns the end that a group's log had when the topics were deleted.
        """
        topics = frozenset(names)
        of_share_groups = (
            self.share.forget_topics(group_id, gone)
            for group_id in list(self.groups)
            if isinstance(group := self.groups.get(group_id), ShareGroup) and (gone := self.share.deleted_topics(group))
        )
        of_offsets: Iterator[CoordinatorResult[None]] = (
            CoordinatorResult(records=self.offset_requests.tombstones(group_id, topics, end_of(group_id)), key=group_id)
            for group_id in list(self.offsets.groups)
        )
        return chain(of_share_groups, of_offsets)


def _own_reply(result: CoordinatorResult[R | None], token: Token) -> CoordinatorResult[R | None]:
    """Take the reply for `token` out of the completions: the request has completed itself."""
    for index, (waiting, reply) in enumerate(result.completions):
        if waiting is token:
            del result.completions[index]
            result.reply = reply
            break
    return result
