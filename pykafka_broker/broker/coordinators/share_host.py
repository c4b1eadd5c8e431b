"""The share coordinator's host, and the share partitions of this node.

Rule: what the share coordinator decides is appended to the share partition's log in `__share_group_state`, replayed
into it, and answered when it is committed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from pykafka_broker.broker.coordinators.awaited_topic import AwaitedTopic
from pykafka_broker.broker.coordinators.coordinator_log import read_batches, replay_batch
from pykafka_broker.broker.coordinators.shards import CoordinatorShards
from pykafka_broker.broker.coordinators.share_partitions import NotYet, Refused, SharePartitions, Stored
from pykafka_broker.broker.metadata.topic_creation import create_missing_topics
from pykafka_broker.broker.node import Node
from pykafka_broker.broker.partitions.partition import NO_EPOCH, Partition
from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.broker.waiting.future import Future, all_of
from pykafka_broker.broker.waiting.slices import PARTITIONS_A_SLICE, Steps
from pykafka_broker.cluster.image import MetadataDelta
from pykafka_broker.cluster.topic_names import SHARE_GROUP_STATE
from pykafka_broker.config.group import GroupConfig
from pykafka_broker.coordinators.record import CoordinatorResult, R, decode
from pykafka_broker.coordinators.share.sessions import Member, ShareSession, ShareSessions
from pykafka_broker.coordinators.share.share_group import Topics
from pykafka_broker.coordinators.share.share_partition import Change
from pykafka_broker.coordinators.share.state import UNINITIALIZED, ShareCoordinator, ShareKey, ShareState, StateRun
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.stored_keys import SHARE_RECORDS
from pykafka_broker.records.record import Record

if TYPE_CHECKING:
    from pykafka_broker.broker.coordinators.end_offset_requests import EndOffsetRequests
    from pykafka_broker.broker.coordinators.share_state_requests import Question, StateRequests

log = logging.getLogger(__name__)

_REFUSED_MS = 200
_AT_ONCE = 200  # share partitions that begin
_RUN = ("first_offset", "last_offset", "delivery_state", "delivery_count")
SHARE_VERSION = "share.version"  # the feature


def is_enabled(features: Mapping[str, int]) -> bool:
    """Whether this cluster offers share groups."""
    return features.get(SHARE_VERSION, 0) >= 1


class Summary(NamedTuple):
    """How far a group is in a partition."""

    leader_epoch: int
    start_offset: int
    complete_count: int


class _Told(NamedTuple):
    """A state, as another node has told it."""

    start_offset: int
    runs: list[StateRun]
    state_epoch: int


class _Reading:
    """A state that another node is asked for, for the leader of that epoch. A refusal holds for a while."""

    __slots__ = ("epoch", "question", "refused_until")

    def __init__(self, epoch: int, question: Question) -> None:
        self.epoch = epoch
        self.question = question
        self.refused_until = 1 << 62


def _warn_of_beginning(key: ShareKey, name: str, error: ApiError) -> None:
    log.warning("share group %s can't begin with %s-%d: %s", key.group_id, name, key.partition, error)


class ShareHost:
    """All that this node knows of share groups but their members, who are with the group coordinator. `settings` are
    those of a group.
    """

    def __init__(self, node: Node, settings: Callable[[str], GroupConfig]) -> None:
        self._node = node
        config = node.config
        self.coordinator = ShareCoordinator(self._exists, config.share_coordinator_snapshot_update_records_per_snapshot)
        self.partitions = SharePartitions(node, self, settings)
        self.sessions = ShareSessions(config.group_share_max_share_sessions)
        self.shards = CoordinatorShards(
            node, SHARE_GROUP_STATE, self, timeout_ms=lambda _: node.config.share_coordinator_write_timeout_ms
        )
        self._topic = AwaitedTopic(node, SHARE_GROUP_STATE)
        self._reading: dict[ShareKey, _Reading] = {}
        self._gone: list[int] = []  # connections that have closed
        self._tidy_at: int | None = None
        node.subscribe(self._on_metadata)
        self.shards.start()
        if self.shards.count:
            self._tidy_at = node.clock.now + config.share_coordinator_state_topic_prune_interval_ms

    def _exists(self, topic_id: bytes, partition: int) -> bool:
        topic = self._node.image.topics_by_id.get(topic_id)
        return topic is not None and partition in topic.partitions

    # -- shards

    def load(self, number: int, partition: Partition) -> Iterator[int]:
        """Replay batch after batch; yields the size of each."""
        for header, batch in read_batches(partition.log):
            replay_batch(header, batch, partial(self._replay, written=header.max_timestamp))
            yield header.size

    def _replay(self, record: Record, *, written: int) -> None:
        known_at = min(written, self._node.clock.now)  # the clock may have been set back since
        decoded = decode(record.key or b"", record.value, SHARE_RECORDS)
        if decoded is None:
            return
        key = self.coordinator.replay(decoded, record.offset, known_at)
        if (state := self.coordinator.states.get(key)) is not None:
            state.written = min(state.written, known_at)

    def loaded(self, number: int, epoch: int) -> None:
        """There is nothing more to do: share partitions come up when somebody reads."""

    def unload(self, number: int) -> None:
        """Another node keeps the state of these share partitions."""
        for key in [key for key in self.coordinator.states if self._number_of(key) == number]:
            del self.coordinator.states[key]
            self.partitions.drop(key)

    def _number_of(self, key: ShareKey) -> int:
        return self.shards.number_of(key.coordinator_key())

    def committed(self, keys: Iterable[ShareKey]) -> Future[None]:
        """Return the future of all that is known of these share partitions being committed."""
        made = self._node.metadata.committed()  # their topic may have been made a moment ago
        return all_of(made, self.shards.committed(*(key.coordinator_key() for key in keys)))

    def apply(self, effects: CoordinatorResult[R]) -> R:
        """Append and replay; returns the reply. ApiError if the log refuses."""
        if effects.records:
            now = self._node.clock.now
            appended = self.shards.append(self.shards.number_of(effects.key), effects.records)
            for offset, record in enumerate(effects.records, appended.base_offset):
                self.coordinator.replay(record, offset, now)
            if self._tidy_at is None:
                self._tidy_at = now + self._node.config.share_coordinator_state_topic_prune_interval_ms
        return effects.reply

    def known(self, key: ShareKey) -> ShareCoordinator:
        """The coordinator, which knows all of this share partition; its topic is made if there is none. Raises
        COORDINATOR_NOT_AVAILABLE or NOT_COORDINATOR.
        """
        if not self.shards.count:
            create_missing_topics(self._node, [SHARE_GROUP_STATE])
        if not self.shards.count:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.shards.read_to_end(self._number_of(key))  # those who read can't be told to come again
        self.shards.find(key.coordinator_key())
        return self.coordinator

    # -- states that another node may keep

    @cached_property
    def _requests(self) -> StateRequests:
        from pykafka_broker.broker.coordinators.share_state_requests import (
            StateRequests,  # few have coordinators at other nodes
        )

        return StateRequests(self._node, self.other_coordinator)

    def other_coordinator(self, key: ShareKey) -> int | None:
        """The other node that keeps this state; None if this one does, or nobody."""
        if not self.shards.count:
            return None
        state = self._node.image.partition(SHARE_GROUP_STATE, self._number_of(key))
        return None if state is None or state.leader in (self._node.id, -1) else state.leader

    def _ask(self, kind: str, key: ShareKey, *fields: Any) -> Question:
        from pykafka_broker.broker.coordinators import share_state_requests

        return self._requests.ask(getattr(share_state_requests, kind), key, *fields)

    def read(self, key: ShareKey, leader_epoch: int) -> Stored:
        """The state, for the leader of the partition. Raises `NotYet`."""
        if self.other_coordinator(key) is None:
            self._reading.pop(key, None)
            return self.read_here(key, leader_epoch)
        now, reading = self._node.clock.now, self._reading.get(key)
        if reading is None or reading.epoch != leader_epoch or reading.refused_until <= now:
            reading = self._reading[key] = _Reading(leader_epoch, self._ask("READ", key, leader_epoch))
            reading.question.add_done_callback(lambda _: self._node.purgatory.touch(key))
        if not reading.question.done:
            raise NotYet
        if reading.question.error is not None:
            reading.refused_until = min(reading.refused_until, now + _REFUSED_MS)
            raise reading.question.error
        del self._reading[key]
        answer = reading.question.result()
        runs = [StateRun(*(getattr(batch, field) for field in _RUN)) for batch in answer.state_batches]
        return _Told(answer.start_offset, runs, answer.state_epoch)

    def read_here(self, key: ShareKey, leader_epoch: int) -> ShareState:
        """The state that this node keeps. ApiError if it does not."""
        coordinator = self.known(key)
        anew = self.shards.has_replicas(self._number_of(key))
        return self.apply(coordinator.read(key, leader_epoch, anew=anew))

    def write(self, key: ShareKey, state_epoch: int, leader_epoch: int, change: Change, now: int) -> Future[Any] | None:
        """Keep a change, or have it kept. Raises `Refused`, and what `known` and `apply` raise."""
        start, count, runs = change
        if self.other_coordinator(key) is not None:
            from pykafka_broker.broker.coordinators.share_state_requests import StateBatch

            return self._ask("WRITE", key, state_epoch, leader_epoch, start, count, [StateBatch(*run) for run in runs])
        coordinator = self.known(key)
        try:
            effects = coordinator.write(key, state_epoch, leader_epoch, start, count, runs, now)
        except ApiError as error:
            raise Refused(error.code, error.message) from None
        self.apply(effects)
        return None

    def _topic_made(self) -> Steps[None]:
        """Have the topic of states made if there is none; in a cluster that takes its time."""
        if not self.shards.count:
            create_missing_topics(self._node, [SHARE_GROUP_STATE])
            yield self._topic.wait()

    def begin(self, key: ShareKey, state_epoch: int, start_offset: int) -> Steps[None]:
        """Let a group read a partition from here on, wherever its state is kept."""
        yield from self._topic_made()
        if self.other_coordinator(key) is None:
            self.initialize(key, state_epoch, start_offset)
        else:
            yield self._ask("INITIALIZE", key, state_epoch, start_offset)
            self.partitions.drop(key)

    def forget(self, key: ShareKey) -> Steps[None]:
        """Forget how far a group is, wherever its state is kept."""
        yield from self._topic_made()
        if self.other_coordinator(key) is None:
            self.delete(key)
        else:
            yield self._ask("DELETE", key)
            self.partitions.drop(key)

    def summary(self, key: ShareKey) -> Steps[Summary | None]:
        """How far a group is; None if it has no state there."""
        yield from self._topic_made()
        if self.other_coordinator(key) is None:
            state = self.known(key).summary(key)
            return None if state is None else Summary(state.leader_epoch, state.start_offset, state.complete_count)
        answer = yield self._ask("SUMMARY", key, NO_EPOCH)
        if answer.start_offset == UNINITIALIZED and not answer.state_epoch:
            return None
        return Summary(answer.leader_epoch, answer.start_offset, answer.delivery_complete_count)

    @cached_property
    def _end_offsets(self) -> EndOffsetRequests:
        from pykafka_broker.broker.coordinators.end_offset_requests import EndOffsetRequests

        return EndOffsetRequests(self._node)

    def end_offset(self, topic: str, number: int) -> Steps[int]:
        """Up to where a partition is committed; -1 if its leader is another node and does not say."""
        asked, offset = self._node.id, -1
        while offset < 0:
            state = self._node.image.partition(topic, number)
            if state is None or state.leader in (self._node.id, -1):
                return self._node.replicas.leader(topic, number).high_watermark
            if state.leader == asked:
                break
            asked = state.leader
            offset = yield self._end_offsets.ask(asked, topic, number)
        return offset

    # -- states that this node keeps

    def initialize(self, key: ShareKey, state_epoch: int, start_offset: int) -> None:
        """Let a group read a partition from here on. Whoever reads it finds the new state."""
        self.apply(self.known(key).initialize(key, state_epoch, start_offset, self._node.clock.now))
        self.partitions.drop(key)

    def delete(self, key: ShareKey) -> None:
        """Forget how far a group is."""
        self.apply(self.known(key).delete(key))
        self.partitions.drop(key)

    def initialize_topics(self, group_id: str, state_epoch: int, topics: Topics) -> Steps[Topics]:
        """Initialize partitions that a group begins to read. Returns those for which that is committed; of the others
        the log is told.
        """
        at_once = sum(len(numbers) for _, numbers in topics.values()) <= _AT_ONCE
        begun: list[tuple[ShareKey, str, Question | None]] = []
        for topic_id, (name, numbers) in topics.items():
            for number in sorted(numbers):
                key = ShareKey(group_id, topic_id, number)
                try:
                    begun.append((key, name, self._begin(key, state_epoch)))
                except ApiError as error:
                    _warn_of_beginning(key, name, error)
                if not at_once and not len(begun) % PARTITIONS_A_SLICE:
                    yield None
        done: dict[bytes, tuple[str, set[int]]] = {}
        for number, (key, name, question) in enumerate(begun, 1):
            if not at_once and not number % PARTITIONS_A_SLICE:
                yield None
            try:
                yield self.committed([key]) if question is None else question
                done.setdefault(key.topic_id, (name, set()))[1].add(key.partition)
            except ApiError as error:
                _warn_of_beginning(key, name, error)
        return {topic_id: (name, frozenset(numbers)) for topic_id, (name, numbers) in done.items()}

    def _begin(self, key: ShareKey, state_epoch: int) -> Question | None:
        """Initialize a partition that a group has never read, or return the question that asks another node to."""
        if self.other_coordinator(key) is not None:
            return self._ask("INITIALIZE", key, state_epoch, UNINITIALIZED)
        self.initialize(key, state_epoch, UNINITIALIZED)
        return None

    def forget_topics(self, group_id: str, topics: Topics) -> Steps[list[ShareKey]]:
        """Forget how far a group is with these partitions; returns whose states went."""
        gone = [
            ShareKey(group_id, topic_id, partition)
            for topic_id, (_, partitions) in topics.items()
            for partition in partitions
            if self._exists(topic_id, partition)
        ]
        for key in gone:
            yield from self.forget(key)
        return gone

    # -- sessions

    def close_session(self, member: Member, now: int) -> None:
        """A session ends, and what its member has is free for others. Raises SHARE_SESSION_NOT_FOUND."""
        session = self.sessions.close(member)
        self.partitions.release(session, now)
        self._let_go(member[0])

    def open_session(self, member: Member, connection_id: int) -> ShareSession:
        """Begin a member's session. It reads what its group's states are by now: the group may have been told to begin
        elsewhere since the last of its members was here.
        """
        session = self.sessions.open(member, connection_id)
        self._let_go(member[0])
        return session

    def _let_go(self, group_id: str) -> None:
        """Forget what this node knows of a group's states that other nodes keep, unless a member has records of it:
        nobody tells this node when they change.
        """
        is_read = self.sessions.has_group(group_id)
        for key in [key for key in self._reading if key.group_id == group_id]:
            del self._reading[key]
        for key in self.partitions.of_group(group_id):
            if self.other_coordinator(key) is not None and not (is_read and self.partitions.has_locks(key)):
                self.partitions.drop_once_written(key, lambda: self._let_go(group_id))

    def connection_closed(self, connection: ConnectionContext) -> None:
        """Its sessions end at the next deadline, which is now."""
        if self.sessions.of_connection(connection.id):
            self._gone.append(connection.id)

    # -- metadata

    def _on_metadata(self, delta: MetadataDelta) -> None:
        self.shards.follow(delta)
        self._topic.on_metadata()
        if "_requests" in self.__dict__ and (delta.changed_partitions or delta.deleted):
            self._requests.forget_moved()
            self._reading = {key: reading for key, reading in self._reading.items() if not reading.question.done}
        if "_end_offsets" in self.__dict__ and (delta.changed_partitions or delta.deleted):
            self._end_offsets.forget_moved()
        lost = {(of.id, each.partition) for of, each in delta.changed_partitions if each.leader != self._node.id}
        if lost:
            self.partitions.drop_lost(lost)
        for topic in delta.deleted:
            self.partitions.drop_topic(topic.id)
        if delta.deleted and self.coordinator.states:
            steps = self._forget_deleted({topic.id for topic in delta.deleted})
            self._node.slices.unasked(steps)

    def _forget_deleted(self, topic_ids: set[bytes]) -> Steps[None]:
        """These topics are gone: so is what groups have read of them."""
        keys = [key for key in self.coordinator.states if key.topic_id in topic_ids]
        for number, key in enumerate(keys, 1):
            try:
                self.apply(self.coordinator.forget(key))
            except ApiError as error:  # it stays until the log is pruned
                log.warning("the state of %s is not forgotten: %s", key.coordinator_key(), error)
            if not number % PARTITIONS_A_SLICE:
                yield None

    # -- time

    def next_deadline(self) -> int | None:
        """At once while there is something to release."""
        if self._gone:
            return 0
        again = self._requests.next_deadline() if "_requests" in self.__dict__ else None
        own = (self.shards.next_deadline(), self.partitions.next_deadline(), self._topic.next_deadline())
        return min([due for due in (*own, self._tidy_at, again) if due is not None], default=None)

    def on_deadline(self, now: int) -> None:
        self.shards.on_deadline(now)
        self._topic.on_deadline(now)
        while self._gone:
            for member in self.sessions.of_connection(self._gone.pop()):
                self.close_session(member, now)
        self.partitions.on_deadline(now)
        if "_requests" in self.__dict__:
            self._requests.on_deadline(now)
        if self._tidy_at is not None and self._tidy_at <= now and not self.shards.loading:
            self._tidy(now)

    def _tidy(self, now: int) -> None:
        """Write snapshots of what has been idle, and drop what lies before the oldest snapshot of each log."""
        config = self._node.config
        self._tidy_at = now + config.share_coordinator_state_topic_prune_interval_ms
        cold = now - config.share_coordinator_cold_partition_snapshot_interval_ms
        try:
            for effects in self.coordinator.cold_snapshots(cold, now):
                self.apply(effects)
            for number, needed_from in self._needed_from().items():
                self.shards.partition(number).log.delete_records_before(needed_from)
        except ApiError as error:
            log.warning("%s is not tidied: %s", SHARE_GROUP_STATE, error)

    def _needed_from(self) -> dict[int, int]:
        needed: dict[int, int] = {}
        for key, state in self.coordinator.states.items():
            number = self._number_of(key)
            if self.shards.is_ready(number):
                needed[number] = min(needed.get(number, state.snapshot_log_offset), state.snapshot_log_offset)
        return needed
