"""The share coordinator's host, and the share partitions of this node.

Rule: what the share coordinator decides is appended to the share partition's log in `__share_group_state`, replayed
into it, and answered when it is committed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from pykafka_broker.broker.context import ConnectionContext
from pykafka_broker.broker.coordinator_log import read_batches, replay_batch
from pykafka_broker.broker.node import Node
from pykafka_broker.broker.partition import Partition
from pykafka_broker.broker.reply import After
from pykafka_broker.broker.shards import CoordinatorShards
from pykafka_broker.broker.share_partitions import SharePartitions
from pykafka_broker.broker.topic_creation import create_missing_topics
from pykafka_broker.cluster.image import MetadataDelta
from pykafka_broker.cluster.topic_names import SHARE_GROUP_STATE
from pykafka_broker.config.group import GroupConfig
from pykafka_broker.coordinators.effects import Effects, R
from pykafka_broker.coordinators.share.sessions import Member, ShareSessions
from pykafka_broker.coordinators.share.share_group import ShareGroup, Topics
from pykafka_broker.coordinators.share.state import UNINITIALIZED, ShareCoordinator
from pykafka_broker.coordinators.share.state_records import ShareKey
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.records.record import Record

log = logging.getLogger(__name__)

SHARE_VERSION = "share.version"  # the feature


def is_enabled(features: Mapping[str, int]) -> bool:
    """Whether this cluster offers share groups."""
    return features.get(SHARE_VERSION, 0) >= 1


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
        self.shards = CoordinatorShards(node, SHARE_GROUP_STATE, self)
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
        key = self.coordinator.replay(record.key or b"", record.value, record.offset, known_at)
        if key is not None and (state := self.coordinator.states.get(key)) is not None:
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

    def after(self, keys: Iterable[ShareKey]) -> After:
        """What an answer rests on that tells of these share partitions."""
        made = self._node.metadata.after()  # their topic may have been made a moment ago
        return (*made, *self.shards.after(*(key.coordinator_key() for key in keys)))

    def apply(self, effects: Effects[R]) -> R:
        """Append and replay; returns the reply. ApiError if the log refuses."""
        if effects.records:
            now = self._node.clock.now
            appended = self.shards.append(self.shards.number_of(effects.key), effects.records)
            for offset, record in enumerate(effects.records, appended.base_offset):
                self.coordinator.replay(record.key, record.value, offset, now)
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

    # -- states

    def initialize(self, key: ShareKey, state_epoch: int, start_offset: int) -> None:
        """Let a group read a partition from here on. Whoever reads it finds the new state."""
        self.apply(self.known(key).initialize(key, state_epoch, start_offset, self._node.clock.now))
        self.partitions.drop(key)

    def delete(self, key: ShareKey) -> None:
        """Forget how far a group is."""
        self.apply(self.known(key).delete(key))
        self.partitions.drop(key)

    def initialize_topics(self, group_id: str, state_epoch: int, topics: Topics) -> Topics:
        """Initialize partitions that a group begins to read; returns those for which it worked."""
        done: Topics = {}
        for topic_id, (name, numbers) in topics.items():
            worked = set()
            for number in sorted(numbers):
                try:
                    self.initialize(ShareKey(group_id, topic_id, number), state_epoch, UNINITIALIZED)
                    worked.add(number)
                except ApiError as error:
                    log.warning("share group %s can't begin with %s-%d: %s", group_id, name, number, error)
            if worked:
                done[topic_id] = (name, frozenset(worked))
        return done

    def delete_topics(self, group: ShareGroup, topic_ids: Iterable[bytes]) -> list[ShareKey]:
        """Forget how far a group is with these topics; returns whose states went."""
        gone = [
            ShareKey(group.group_id, topic_id, number)
            for topic_id in topic_ids
            for number in group.initialized[topic_id][1]
            if self._exists(topic_id, number)
        ]
        for key in gone:
            self.delete(key)
        return gone

    # -- sessions

    def close_session(self, member: Member, now: int) -> None:
        """A session ends, and what its member has is free for others. Raises SHARE_SESSION_NOT_FOUND."""
        session = self.sessions.close(member)
        self.partitions.release(session, now)

    def connection_closed(self, connection: ConnectionContext) -> None:
        """Its sessions end at the next deadline, which is now."""
        if self.sessions.of_connection(connection.id):
            self._gone.append(connection.id)

    # -- metadata

    def _on_metadata(self, delta: MetadataDelta) -> None:
        self.shards.follow(delta)
        for topic in delta.deleted:
            self.partitions.drop_topic(topic.id)
            for effects in self.coordinator.forget_topic(topic.id):
                try:
                    self.apply(effects)
                except ApiError as error:  # it stays until the log is pruned
                    log.warning("the state of %s is not forgotten: %s", effects.key, error)

    # -- time

    def next_deadline(self) -> int | None:
        """At once while there is something to release."""
        if self._gone:
            return 0
        dues = (self.shards.next_deadline(), self.partitions.next_deadline(), self._tidy_at)
        return min([due for due in dues if due is not None], default=None)

    def on_deadline(self, now: int) -> None:
        self.shards.on_deadline(now)
        while self._gone:
            for member in self.sessions.of_connection(self._gone.pop()):
                self.close_session(member, now)
        self.partitions.on_deadline(now)
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
