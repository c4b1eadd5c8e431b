"""The group coordinator: every request on groups and offsets, by the kind of group that it meets.

Rule: a call decides and returns `Effects`; `replay` is how its records, and at load those of the log, become state. One
coordinator holds the groups of all logs of `__consumer_offsets` that this node leads; the host knows which those are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pykafka_broker.config import BrokerConfig
from pykafka_broker.coordinators.effects import Effects, KeyValue, Token
from pykafka_broker.coordinators.groups import classic_listing, consumer_listing, consumer_stored, stored
from pykafka_broker.coordinators.groups.classic import ClassicProtocol
from pykafka_broker.coordinators.groups.classic_group import ClassicGroup
from pykafka_broker.coordinators.groups.classic_join import Join, refusal
from pykafka_broker.coordinators.groups.consumer import ConsumerProtocol
from pykafka_broker.coordinators.groups.consumer_classic import ClassicMembers
from pykafka_broker.coordinators.groups.consumer_group import ConsumerGroup
from pykafka_broker.coordinators.groups.consumer_replay import consumer_replay
from pykafka_broker.coordinators.groups.epoch_group import JOIN_EPOCH
from pykafka_broker.coordinators.groups.group import Caller, Group, GroupTable, Topics
from pykafka_broker.coordinators.groups.migration import Migration
from pykafka_broker.coordinators.groups.offset_requests import OffsetRequests
from pykafka_broker.coordinators.groups.offsets import NO_PRODUCER_ID, OffsetStore
from pykafka_broker.coordinators.groups.timers import TimerKey
from pykafka_broker.coordinators.share import group_records as share_records
from pykafka_broker.coordinators.share import listing as share_listing
from pykafka_broker.coordinators.share.group_records import share_replay
from pykafka_broker.coordinators.share.membership import ShareMembership
from pykafka_broker.coordinators.share.share_group import ShareGroup
from pykafka_broker.coordinators.streams import listing as streams_listing
from pykafka_broker.coordinators.streams import stored as streams_stored
from pykafka_broker.coordinators.streams.group import StreamsGroup
from pykafka_broker.coordinators.streams.protocol import StreamsEffects, StreamsProtocol
from pykafka_broker.coordinators.streams.replay import streams_replay
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.consumer_group_describe_response import DescribedGroup as DescribedConsumerGroup
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from pykafka_broker.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from pykafka_broker.protocol.messages.describe_groups_response import DescribedGroup
from pykafka_broker.protocol.messages.heartbeat_request import HeartbeatRequest
from pykafka_broker.protocol.messages.join_group_request import JoinGroupRequest
from pykafka_broker.protocol.messages.leave_group_request import LeaveGroupRequest
from pykafka_broker.protocol.messages.leave_group_response import LeaveGroupResponse, MemberResponse
from pykafka_broker.protocol.messages.offset_commit_request import OffsetCommitRequest
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
from pykafka_broker.protocol.runtime import Buffer
from pykafka_broker.protocol.stored.group_metadata_key import GroupMetadataKey
from pykafka_broker.protocol.stored.legacy_offset_commit_key import LegacyOffsetCommitKey
from pykafka_broker.protocol.stored.offset_commit_key import OffsetCommitKey

OFFSET_EXPIRY = TimerKey("offset-expiry", "")  # the round over all groups
EXPIRE = "expire"  # one group's turn in it


class GroupCoordinator:
    """Sans-IO: no clock, no log, no random numbers of its own."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: Topics,
        new_id: Callable[[], str],
        group_config: Callable[[str], Mapping[str, str]] = lambda group_id: {},
    ) -> None:
        self.table = GroupTable(config, topics, new_id, group_config)
        self.offsets = OffsetStore()
        self._classic = ClassicProtocol(self.table)
        self._consumer = ConsumerProtocol(self.table)
        self._migration = Migration(self.table, self._classic.rebalance, self._consumer)
        self._classic_members = ClassicMembers(self.table, self._consumer, self._migration)
        self._consumer_replay = consumer_replay(self.table)
        self.share = ShareMembership(self.table)
        self._share_replay = share_replay(self.table)
        self._streams = StreamsProtocol(self.table)
        self._streams_replay = streams_replay(self.table)
        self._offset_requests = OffsetRequests(self.table, self.offsets, self._keep_alive)

    @property
    def groups(self) -> Mapping[str, Group]:
        """All groups of this node, by id."""
        return self.table.groups

    # The classic protocol

    def join(self, request: JoinGroupRequest, caller: Caller, token: Token, now: int) -> Effects:
        """JoinGroup. Without a reply the request waits under `token`."""
        effects = Effects(key=request.group_id)
        join = Join(caller, request, token, now, effects)
        try:
            self._check_join(request)
            group = self.groups.get(request.group_id)
            if isinstance(group, ConsumerGroup) and not group.is_empty:
                self._classic_members.join(group, join)
            elif group is None or isinstance(group, ClassicGroup):
                self._classic.join(group, join)
            elif isinstance(group, ConsumerGroup | StreamsGroup) and group.is_empty:
                effects.records += _group_tombstones(group)
                self._classic.join(None, join)
            else:
                raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        except ApiError as error:
            return Effects(refusal(error.code, request.member_id), key=request.group_id)
        return _own_reply(effects, token)

    def _check_join(self, request: JoinGroupRequest) -> None:
        config = self.table.config
        if not request.group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        if not (
            config.group_min_session_timeout_ms <= request.session_timeout_ms <= config.group_max_session_timeout_ms
        ):
            raise ApiError(ErrorCode.INVALID_SESSION_TIMEOUT)

    def sync(self, request: SyncGroupRequest, token: Token, now: int) -> Effects:
        """SyncGroup. Without a reply the request waits under `token`."""
        effects = Effects(key=request.group_id)
        group = self.groups.get(request.group_id)
        try:
            if not request.group_id:
                raise ApiError(ErrorCode.INVALID_GROUP_ID)
            if isinstance(group, ClassicGroup):
                self._classic.sync(group, request, token, effects, now)
            elif isinstance(group, ConsumerGroup):
                self._classic_members.sync(group, request, effects, now)
            else:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        except ApiError as error:
            return Effects(SyncGroupResponse(error_code=error.code), key=request.group_id)
        return _own_reply(effects, token)

    def heartbeat(self, request: HeartbeatRequest, now: int) -> ErrorCode:
        """Heartbeat; it never writes and never waits."""
        group = self.table.groups.get(request.group_id)
        if isinstance(group, ClassicGroup):
            return self._classic.heartbeat(group, request, now)
        if isinstance(group, ConsumerGroup):
            try:
                return self._classic_members.heartbeat(group, request, now)
            except ApiError as error:
                return error.code
        return ErrorCode.UNKNOWN_MEMBER_ID if request.group_id else ErrorCode.INVALID_GROUP_ID

    def leave(self, request: LeaveGroupRequest, now: int) -> Effects:
        """LeaveGroup, in the form of version 3 and newer: a list of members."""
        effects = Effects(key=request.group_id)
        group = self.groups.get(request.group_id)
        if not request.group_id:
            effects.reply = LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        elif isinstance(group, ClassicGroup):
            self._classic.leave(group, request, effects, now)
        elif isinstance(group, ConsumerGroup):
            self._classic_members.leave(group, request, effects, now)
        else:
            unknown = [
                MemberResponse(one.member_id, one.group_instance_id, ErrorCode.UNKNOWN_MEMBER_ID)
                for one in request.members
            ]
            effects.reply = LeaveGroupResponse(members=unknown)
        return effects

    def _keep_alive(self, group: ClassicGroup, member_id: str, now: int) -> None:
        member = group.members.get(member_id)
        if member is not None:
            self._classic.rebalance.keep_alive(member, now)

    # The consumer protocol

    def consumer_heartbeat(self, request: ConsumerGroupHeartbeatRequest, caller: Caller, now: int) -> Effects:
        """ConsumerGroupHeartbeat: join with epoch 0, go on, or leave with epoch -1 or -2."""
        effects = Effects(key=request.group_id)
        try:
            self._consumer.check(request, caller)
            group = self.groups.get(request.group_id)
            if request.member_epoch < JOIN_EPOCH:
                if not isinstance(group, ConsumerGroup):
                    raise self._no_consumer_group(request.group_id, "Group")
                self._consumer.leave(group, request, effects, now)
            else:
                joins = request.member_epoch == JOIN_EPOCH
                consumer_group = self._consumer_group(request.group_id, group, joins, effects, now)
                self._consumer.heartbeat(consumer_group, request, caller, effects, now)
        except ApiError as error:
            reply = ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
            return Effects(reply, key=request.group_id)
        return effects

    def _consumer_group(
        self, group_id: str, group: Group | None, joins: bool, effects: Effects, now: int
    ) -> ConsumerGroup:
        """The group, or what it will be once somebody has joined."""
        if isinstance(group, ConsumerGroup):
            return group
        if not joins or not (group is None or isinstance(group, ClassicGroup)):
            raise self._no_consumer_group(group_id, "Consumer group")
        if isinstance(group, ClassicGroup):
            if not group.is_empty:
                return self._migration.upgrade(group, effects, now)
            effects.records.append(stored.group_metadata_tombstone(group_id))
        return ConsumerGroup(group_id)

    def _no_consumer_group(self, group_id: str, what: str) -> ApiError:
        if group_id in self.groups:
            return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"{what} {group_id} not found.")

    # The streams protocol

    def streams_heartbeat(self, request: StreamsGroupHeartbeatRequest, caller: Caller, now: int) -> StreamsEffects:
        """StreamsGroupHeartbeat: join with epoch 0, go on, or leave with epoch -1."""
        return self._streams.heartbeat(request, caller, now)

    # Offsets

    def commit_offsets(self, request: OffsetCommitRequest, caller: Caller, now: int) -> Effects:
        """OffsetCommit."""
        return self._offset_requests.commit(request, caller, now)

    def txn_commit_offsets(self, request: TxnOffsetCommitRequest, caller: Caller, now: int) -> Effects:
        """TxnOffsetCommit; the host appends the records under the producer's id and epoch."""
        return self._offset_requests.txn_commit(request, caller, now)

    def fetch_offsets(
        self, request: OffsetFetchRequestGroup, require_stable: bool, version: int
    ) -> OffsetFetchResponseGroup:
        """OffsetFetch for one group."""
        return self._offset_requests.fetch(request, require_stable, version)

    def delete_offsets(self, request: OffsetDeleteRequest) -> Effects:
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
        return classic_listing.describe(group)

    def describe_consumer(self, group_id: str) -> DescribedConsumerGroup:
        """One group of a ConsumerGroupDescribe request. Raises GROUP_ID_NOT_FOUND also for a group of another kind."""
        group = self.table.existing(group_id)
        if not isinstance(group, ConsumerGroup):
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        default = self.table.config.group_consumer_assignors[0]
        return consumer_listing.describe(group, self.table.topics, default)

    def describe_share(self, group_id: str) -> DescribedShareGroup:
        """One group of a ShareGroupDescribe request. Raises GROUP_ID_NOT_FOUND also for a group of another kind."""
        return share_listing.describe(self.share.group(group_id), self.table.topics)

    def describe_streams(self, group_id: str) -> DescribedStreamsGroup:
        """One group of a StreamsGroupDescribe request. Raises GROUP_ID_NOT_FOUND also for a group of another kind."""
        return streams_listing.describe(self._streams.existing(group_id))

    def delete_group(self, group_id: str) -> Effects:
        """One group of a DeleteGroups request; the reply is an ErrorCode."""
        effects = Effects(ErrorCode.NONE, key=group_id)
        try:
            self.table.existing(group_id).check_delete()
        except ApiError as error:
            effects.reply = error.code
            return effects
        effects.records += self._offset_requests.all_tombstones(group_id)
        effects.records += _group_tombstones(self.groups[group_id])
        return effects

    # Hard state

    def replay(
        self,
        key: Buffer,
        value: Buffer | None,
        now: int,
        log_offset: int = -1,
        producer_id: int = NO_PRODUCER_ID,
    ) -> None:
        """Take over one record, live or at load. `producer_id` is set for a record of a transaction."""
        messages = stored.read_record(key, value)
        if messages is None:
            return
        key_message, value_message = messages
        if isinstance(key_message, OffsetCommitKey | LegacyOffsetCommitKey):
            if value_message is not None and key_message.group not in self.groups:
                # Committing is enough to be a group, a simple one.
                self.table.groups[key_message.group] = ClassicGroup(key_message.group, now)
            self.offsets.replay(
                key_message.group, key_message.topic, key_message.partition, value_message, log_offset, producer_id
            )
        elif isinstance(key_message, GroupMetadataKey):
            self._classic.replay(key_message.group, value_message, now)
        elif self._consumer_replay.takes(key_message):
            self._consumer_replay.replay(key_message, value_message)
        elif self._streams_replay.takes(key_message):
            self._streams_replay.replay(key_message, value_message)
        elif self._share_replay.takes(key_message):
            self._share_replay.replay(key_message, value_message)

    def replay_end_txn(self, producer_id: int, committed: bool, owns: Callable[[str], bool] | None = None) -> None:
        """A transaction marker stands in a log; `owns` says which groups are that log's."""
        groups = None if owns is None else frozenset(group_id for group_id in self.offsets.groups if owns(group_id))
        self.offsets.replay_end_txn(producer_id, committed, groups)

    def on_loaded(self, group_ids: Iterable[str], now: int) -> list[Effects]:
        """The log of these groups has been read to its end: their sessions begin."""
        if OFFSET_EXPIRY not in self.table.timers:
            self.table.timers.set(OFFSET_EXPIRY, now + self.table.config.offsets_retention_check_interval_ms)
        done = []
        for group_id in group_ids:
            group, effects = self.groups[group_id], Effects(key=group_id)
            if isinstance(group, ClassicGroup):
                self._classic.on_loaded(group, effects, now)
            elif isinstance(group, ConsumerGroup):
                self._consumer.on_loaded(group, now)
            elif isinstance(group, StreamsGroup):
                self._streams.on_loaded(group, now)
            elif isinstance(group, ShareGroup):
                self.share.on_loaded(group, now)
            done.append(effects)
        return [effects for effects in done if effects.records or effects.completions]

    def unload(self, group_ids: Iterable[str]) -> list[Effects]:
        """Another node leads the log of these groups now: whoever waits is sent there."""
        done = []
        for group_id in group_ids:
            effects = Effects(key=group_id)
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

    def on_deadline(self, now: int) -> Effects:
        """Do what is due for one group. To be called again, with the records replayed, while `next_deadline` is due."""
        effects = Effects()
        key = self.table.timers.pop(now)
        if key is None:
            return effects
        effects.key = key.group_id
        group = self.groups.get(key.group_id)
        if key == OFFSET_EXPIRY:
            self._start_expiry(now)
        elif key.kind == EXPIRE:
            self._expire_offsets(key.group_id, effects, now)
        elif isinstance(group, ClassicGroup):
            self._classic.rebalance.on_timer(key, group, effects, now)
        elif isinstance(group, ConsumerGroup):
            self._consumer.on_timer(key, group, effects, now)
        elif isinstance(group, StreamsGroup):
            self._streams.on_timer(key, group, effects, now)
        elif isinstance(group, ShareGroup):
            self.share.on_timer(key, group, effects)
        return effects

    def _start_expiry(self, now: int) -> None:
        self.table.timers.set(OFFSET_EXPIRY, now + self.table.config.offsets_retention_check_interval_ms)
        for group_id in self.groups:
            self.table.timers.set(TimerKey(EXPIRE, group_id), now)

    def _expire_offsets(self, group_id: str, effects: Effects, now: int) -> None:
        group = self.groups.get(group_id)
        if group is None:
            return
        effects.records, nothing_left = self._offset_requests.expired(group_id, now)
        if nothing_left and group.is_empty:
            effects.records += _group_tombstones(group)

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

    def on_topics_deleted(self, names: Iterable[str]) -> list[Effects]:
        """Offsets of topics that are gone go too."""
        topics = frozenset(names)
        done = []
        for group_id in self.offsets.groups:
            records = self._offset_requests.topic_tombstones(group_id, topics)
            if records:
                done.append(Effects(records=records, key=group_id))
        return done


def _group_tombstones(group: Group) -> list[KeyValue]:
    """All records of a group but its offsets."""
    if isinstance(group, StreamsGroup):
        return streams_stored.group_tombstones(group)
    if isinstance(group, ConsumerGroup):
        return consumer_stored.group_tombstones(group)
    if isinstance(group, ShareGroup):
        return share_records.group_tombstones(group)
    return [stored.group_metadata_tombstone(group.group_id)]


def _own_reply(effects: Effects, token: Token) -> Effects:
    """If the request that has just come in was answered by what it set off, that is its reply."""
    for index, (waiting, reply) in enumerate(effects.completions):
        if waiting is token:
            del effects.completions[index]
            effects.reply = reply
            break
    return effects
