"""The group coordinator: every request on groups and offsets, by the kind of group that it meets.

Rule: a call decides and returns `Effects`; `replay` is how its records, and at load those of the log, become state. One
coordinator holds the groups of all logs of `__consumer_offsets` that this node leads; the host knows which those are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pykafka_broker.config import BrokerConfig
from pykafka_broker.coordinators.effects import Effects, Token
from pykafka_broker.coordinators.groups import classic_group, consumer_group
from pykafka_broker.coordinators.groups.classic import ClassicProtocol
from pykafka_broker.coordinators.groups.classic_group import ClassicGroup
from pykafka_broker.coordinators.groups.consumer import ConsumerProtocol
from pykafka_broker.coordinators.groups.consumer_classic import ClassicMembers, Migration
from pykafka_broker.coordinators.groups.consumer_group import ConsumerGroup
from pykafka_broker.coordinators.groups.epoch_group import EpochGroup
from pykafka_broker.coordinators.groups.group import (
    DISCONNECTED,
    Caller,
    DisconnectedMembers,
    Group,
    GroupTable,
    TimerKey,
    WallAt,
    unchanged,
)
from pykafka_broker.coordinators.groups.member_requests import ClassicRequests, ConsumerRequests
from pykafka_broker.coordinators.groups.offsets import NO_PRODUCER_ID, OffsetRequests, OffsetStore
from pykafka_broker.coordinators.groups.records import GroupReplay, group_tombstones
from pykafka_broker.coordinators.groups.topics import Topics
from pykafka_broker.coordinators.record import CoordinatorRecord
from pykafka_broker.coordinators.share import share_group
from pykafka_broker.coordinators.share.share_group import ShareGroup, ShareMembership
from pykafka_broker.coordinators.streams import group as streams_group
from pykafka_broker.coordinators.streams.group import StreamsGroup
from pykafka_broker.coordinators.streams.protocol import StreamsEffects, StreamsProtocol
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
from pykafka_broker.protocol.messages.leave_group_response import LeaveGroupResponse
from pykafka_broker.protocol.messages.offset_commit_request import OffsetCommitRequest
from pykafka_broker.protocol.messages.offset_commit_response import OffsetCommitResponse
from pykafka_broker.protocol.messages.offset_delete_request import OffsetDeleteRequest
from pykafka_broker.protocol.messages.offset_delete_response import OffsetDeleteResponse
from pykafka_broker.protocol.messages.offset_fetch_request import OffsetFetchRequestGroup
from pykafka_broker.protocol.messages.offset_fetch_response import OffsetFetchResponseGroup
from pykafka_broker.protocol.messages.share_group_describe_response import DescribedGroup as DescribedShareGroup
from pykafka_broker.protocol.messages.streams_group_describe_response import DescribedGroup as DescribedStreamsGroup
from pykafka_broker.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from pykafka_broker.protocol.messages.sync_group_request import SyncGroupRequest
from pykafka_broker.protocol.messages.sync_group_response import SyncGroupResponse
from pykafka_broker.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from pykafka_broker.protocol.messages.txn_offset_commit_response import TxnOffsetCommitResponse

OFFSET_EXPIRY = TimerKey("offset-expiry", "")  # the round over all groups
EXPIRE = "expire"  # one group's turn in it
RETRY_MS = 500  # after this time, what a deadline has led to is tried again if the log has refused it


class GroupCoordinator:
    """Sans-IO: no clock, no log, no random numbers of its own."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: Topics,
        new_id: Callable[[], str],
        group_config: Callable[[str], Mapping[str, str]] = lambda group_id: {},
        disconnected_member_ms: int | None = None,
        wall_at: WallAt = unchanged,
    ) -> None:
        """`wall_at` is for what is stored and compared after a restart: when offsets were committed, and since when a
        group is empty."""
        self.table = GroupTable(config, topics, new_id, group_config, wall_at)
        self.disconnected = DisconnectedMembers(self.table, disconnected_member_ms)
        self.offsets = OffsetStore()
        self._classic = ClassicProtocol(self.table)
        self._consumer = ConsumerProtocol(self.table)
        self.streams = StreamsProtocol(self.table)
        self.share = ShareMembership(self.table)
        migration = Migration(self.table, self._classic.rebalance, self._consumer)
        members = ClassicMembers(self.table, self._consumer, migration)
        self._classic_requests = ClassicRequests(self.table, self._classic, members)
        self._consumer_requests = ConsumerRequests(self.table, self._consumer, migration)
        self._offset_requests = OffsetRequests(self.table, self.offsets, self._classic.keep_alive)
        self._replay = GroupReplay(self.table, self.offsets, self._classic)

    @property
    def groups(self) -> Mapping[str, Group]:
        """All groups of this node, by id."""
        return self.table.groups

    # Members

    def join(
        self, request: JoinGroupRequest, caller: Caller, token: Token, now: int
    ) -> Effects[JoinGroupResponse | None]:
        """JoinGroup. Without a reply the request waits under `token`."""
        return self._classic_requests.join(request, caller, token, now)

    def sync(self, request: SyncGroupRequest, token: Token, now: int) -> Effects[SyncGroupResponse | None]:
        """SyncGroup. Without a reply the request waits under `token`."""
        return self._classic_requests.sync(request, token, now)

    def heartbeat(self, request: HeartbeatRequest, now: int) -> ErrorCode:
        """Heartbeat; it never writes and never waits."""
        return self._classic_requests.heartbeat(request, now)

    def leave(self, request: LeaveGroupRequest, now: int) -> Effects[LeaveGroupResponse]:
        """LeaveGroup, in the form of version 3 and newer: a list of members."""
        return self._classic_requests.leave(request, now)

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller, now: int
    ) -> Effects[ConsumerGroupHeartbeatResponse]:
        """ConsumerGroupHeartbeat: join with epoch 0, go on, or leave with epoch -1 or -2."""
        return self._consumer_requests.heartbeat(request, caller, now)

    def streams_heartbeat(self, request: StreamsGroupHeartbeatRequest, caller: Caller, now: int) -> StreamsEffects:
        """StreamsGroupHeartbeat: join with epoch 0, go on, or leave with epoch -1."""
        return self.streams.heartbeat(request, caller, now)

    # Offsets

    def commit_offsets(self, request: OffsetCommitRequest, version: int, now: int) -> Effects[OffsetCommitResponse]:
        """OffsetCommit in that version."""
        return self._offset_requests.commit(request, version, now)

    def txn_commit_offsets(
        self, request: TxnOffsetCommitRequest, caller: Caller, now: int
    ) -> Effects[TxnOffsetCommitResponse]:
        """TxnOffsetCommit; the host appends the records under the producer's id and epoch."""
        return self._offset_requests.txn_commit(request, caller, now)

    def fetch_offsets(
        self, request: OffsetFetchRequestGroup, require_stable: bool, version: int
    ) -> OffsetFetchResponseGroup:
        """OffsetFetch for one group."""
        return self._offset_requests.fetch(request, require_stable, version)

    def delete_offsets(self, request: OffsetDeleteRequest) -> Effects[OffsetDeleteResponse]:
        """OffsetDelete."""
        if not request.group_id:
            return Effects(OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        return self._offset_requests.delete(request)

    # Groups as a whole

    def describe_classic(self, group_id: str) -> DescribedGroup:
        """One group of a DescribeGroups request. Raises GROUP_ID_NOT_FOUND also for a group of another kind."""
        group = self.table.existing(group_id)
        if not isinstance(group, ClassicGroup):
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a classic group.")
        return classic_group.describe(group)

    def describe_consumer(self, group_id: str) -> DescribedConsumerGroup:
        """One group of a ConsumerGroupDescribe request. Raises GROUP_ID_NOT_FOUND also for a group of another kind."""
        group = self.table.existing(group_id)
        if not isinstance(group, ConsumerGroup):
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        default = self.table.config.group_consumer_assignors[0]
        return consumer_group.describe(group, self.table.topics, default)

    def describe_share(self, group_id: str) -> DescribedShareGroup:
        """One group of a ShareGroupDescribe request. Raises GROUP_ID_NOT_FOUND also for a group of another kind."""
        return share_group.describe(self.share.group(group_id), self.table.topics)

    def describe_streams(self, group_id: str) -> DescribedStreamsGroup:
        """One group of a StreamsGroupDescribe request. Raises GROUP_ID_NOT_FOUND also for a group of another kind."""
        return streams_group.describe(self.streams.existing(group_id))

    def delete_group(self, group_id: str) -> Effects[ErrorCode]:
        """One group of a DeleteGroups request; the reply is an ErrorCode."""
        effects = Effects(ErrorCode.NONE, key=group_id)
        try:
            self.table.existing(group_id).check_delete()
        except ApiError as error:
            effects.reply = error.code
            return effects
        effects.records += self._offset_requests.all_tombstones(group_id)
        effects.records += group_tombstones(self.groups[group_id])
        return effects

    # Hard state

    def replay(
        self, record: CoordinatorRecord, now: int, log_offset: int = -1, producer_id: int = NO_PRODUCER_ID
    ) -> None:
        """Apply one record of `__consumer_offsets`, right after its append and at a load alike."""
        self._replay.replay(record, now, log_offset, producer_id)

    def replay_end_txn(self, producer_id: int, committed: bool, owns: Callable[[str], bool] | None = None) -> None:
        """A transaction marker stands in a log; `owns` says which groups are that log's."""
        groups = None if owns is None else frozenset(group_id for group_id in self.offsets.groups if owns(group_id))
        self.offsets.replay_end_txn(producer_id, committed, groups)

    def on_loaded(self, group_ids: Iterable[str], now: int) -> list[Effects[None]]:
        """The log of these groups has been read to its end: their sessions begin."""
        if OFFSET_EXPIRY not in self.table.timers:
            self.table.timers.set(OFFSET_EXPIRY, now + self.table.config.offsets_retention_check_interval_ms)
        done: list[Effects[None]] = []
        for group_id in group_ids:
            group, effects = self.groups[group_id], Effects[None](key=group_id)
            if isinstance(group, ClassicGroup):
                self._classic.on_loaded(group, effects, now)
            elif isinstance(group, ConsumerGroup):
                self._consumer.on_loaded(group, now)
            elif isinstance(group, StreamsGroup):
                self.streams.on_loaded(group, now)
            elif isinstance(group, ShareGroup):
                self.share.on_loaded(group, now)
            done.append(effects)
        return [effects for effects in done if effects.records or effects.completions]

    def unload(self, group_ids: Iterable[str]) -> list[Effects[None]]:
        """Another node leads the log of these groups now: whoever waits is sent there."""
        done: list[Effects[None]] = []
        for group_id in group_ids:
            effects = Effects[None](key=group_id)
            group = self.groups[group_id]
            if isinstance(group, ClassicGroup):
                self._classic.send_away(group, effects)
            self.table.remove(group_id)
            self.offsets.forget_group(group_id)
            done.append(effects)
        return done

    # Time

    def next_deadline(self) -> int | None:
        """When `on_deadline` has something to do."""
        return self.table.timers.next_deadline()

    def on_deadline(self, now: int) -> Effects[None]:
        """Do what is due for one group. To be called again, with the records replayed, while `next_deadline` is due."""
        effects: Effects[None] = Effects()
        key = self.table.timers.pop(now)
        if key is None:
            return effects
        effects.key = key.group_id
        group = self.groups.get(key.group_id)
        if key == OFFSET_EXPIRY:
            self._start_expiry(now)
        elif key.kind == EXPIRE:
            self._expire_offsets(key.group_id, effects, now)
        elif key.kind == DISCONNECTED:
            self.disconnected.on_deadline(key, now)
        elif isinstance(group, ClassicGroup):
            self._classic.rebalance.on_timer(key, group, effects, now)
        elif isinstance(group, ConsumerGroup):
            self._consumer.on_timer(key, group, effects, now)
        elif isinstance(group, StreamsGroup):
            self.streams.on_timer(key, group, effects, now)
        elif isinstance(group, ShareGroup):
            self.share.on_timer(key, group, effects)
        if key.member_id and effects.records and isinstance(group, EpochGroup) and self.groups[key.group_id] is group:
            self.table.timers.set(key, now + RETRY_MS)  # until the record that takes the member out is there
        return effects

    def _start_expiry(self, now: int) -> None:
        self.table.timers.set(OFFSET_EXPIRY, now + self.table.config.offsets_retention_check_interval_ms)
        for group_id in self.groups:
            self.table.timers.set(TimerKey(EXPIRE, group_id), now)

    def _expire_offsets(self, group_id: str, effects: Effects[Any], now: int) -> None:
        group = self.groups.get(group_id)
        if group is None:
            return
        effects.records, nothing_left = self._offset_requests.expired(group_id, now)
        if nothing_left and group.is_empty and group.goes_when_empty:
            effects.records += group_tombstones(group)

    # Topics

    def on_topics_changed(self, names: Iterable[str], created: bool, version: int) -> None:
        """Topics have come, gone or grown: at their next heartbeat, groups that read them get another target."""
        self.table.metadata_version = version
        if created:
            self.table.newest_topic_version = version
        changed = frozenset(names)
        for group in self.groups.values():
            if isinstance(group, StreamsGroup | ShareGroup):
                group.metadata_stale |= group.reads_any(changed)
            elif isinstance(group, ConsumerGroup) and (group.regexes or group.reads_any(changed)):
                group.metadata_stale = True

    def on_topics_deleted(self, names: Iterable[str]) -> list[Effects[None]]:
        """What groups know of topics that are gone goes too: offsets, and where share groups have a state."""
        topics = frozenset(names)
        done: list[Effects[None]] = [
            Effects(records=self._offset_requests.topic_tombstones(group_id, topics), key=group_id)
            for group_id in self.offsets.groups
        ]
        for group in self.groups.values():
            if isinstance(group, ShareGroup) and (gone := self.share.deleted_topics(group)):
                done.append(self.share.forget_topics(group.group_id, gone))
        return [effects for effects in done if effects.records]
