"""The share coordinator's host, and the share partitions of this node.

Rule: what the share coordinator decides is appended to the share partition's log in `__share_group_state`, replayed
into it, and answered when it is committed. A start reads the logs a slice at a time beside the requests; a request that
needs one before has it read to its end.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pykafka_broker.broker.coordinator_log import (
    append_records,
    coordinator_log,
    hold_answer,
    partition_for,
    read_batches,
    read_slice,
)
from pykafka_broker.broker.share_partitions import SharePartitions
from pykafka_broker.cluster.topic_names import SHARE_GROUP_STATE
from pykafka_broker.coordinators.effects import Effects
from pykafka_broker.coordinators.share.sessions import Member, ShareSessions
from pykafka_broker.coordinators.share.share_group import ShareGroup, Topics
from pykafka_broker.coordinators.share.state import UNINITIALIZED, ShareCoordinator
from pykafka_broker.coordinators.share.state_records import ShareKey
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.records.record import iter_records

if TYPE_CHECKING:
    from pykafka_broker.broker.broker import Broker
    from pykafka_broker.broker.context import ConnectionContext
    from pykafka_broker.cluster.image import MetadataDelta

log = logging.getLogger(__name__)

FEATURE = "share.version"
SLICE_BYTES = 1 << 19


def is_enabled(broker: Broker) -> bool:
    """Whether this cluster offers share groups."""
    return bool(broker.image.features.get(FEATURE, 0) >= 1)


class ShareHost:
    """All that this node knows of share groups but their members, who are with the group coordinator."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        config = broker.config
        self.coordinator = ShareCoordinator(self._exists, config.share_coordinator_snapshot_update_records_per_snapshot)
        self.partitions = SharePartitions(broker, self)
        self.sessions = ShareSessions(config.group_share_max_share_sessions)
        self._ready: set[int] = set()
        self._loading: dict[int, Iterator[int]] = {}
        self._gone: list[int] = []  # connections that have closed
        self._tidy_at: int | None = None
        broker.metadata.subscribe(self._on_metadata)

    def _exists(self, topic_id: bytes, partition: int) -> bool:
        topic = self._broker.image.topics_by_id.get(topic_id)
        return topic is not None and partition in topic.partitions

    # -- logs

    @property
    def _log_count(self) -> int:
        topic = self._broker.image.topics.get(SHARE_GROUP_STATE)
        return 0 if topic is None else len(topic.partitions)

    def _log_of(self, key: str, now: int) -> int:
        """The partition of `__share_group_state` that holds a share partition; it is there and read afterwards."""
        if not self._log_count:
            self._broker.metadata.create_missing_topics([SHARE_GROUP_STATE], now)
        if not self._log_count:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        number = partition_for(key, self._log_count)
        if number not in self._ready:
            self._begin(number, now)
            for _ in self._loading.pop(number):
                pass
        return number

    def start(self, now: int) -> None:
        """Begin to read what is there."""
        for number in range(self._log_count):
            self._begin(number, now)
        self._tidy_at = now + self._broker.config.share_coordinator_state_topic_prune_interval_ms

    def _begin(self, number: int, now: int) -> None:
        if number not in self._loading:
            self._loading[number] = self._load(number, now)

    def _load(self, number: int, now: int) -> Iterator[int]:
        for header, batch in read_batches(coordinator_log(self._broker, SHARE_GROUP_STATE, number)):
            for record in iter_records(batch, header):
                if record.key is not None:
                    self.coordinator.replay(record.key, record.value, record.offset, header.max_timestamp)
            yield header.size
        self._ready.add(number)

    def apply(self, effects: Effects, now: int) -> Any:
        """Append and replay; returns the reply. ApiError if the log refuses."""
        if effects.records:
            number = self._log_of(effects.key, now)
            appended = append_records(self._broker, SHARE_GROUP_STATE, number, effects.records, now)
            for offset, record in enumerate(effects.records, appended.base_offset):
                self.coordinator.replay(record.key, record.value, offset, now)
            if self._tidy_at is None:
                self._tidy_at = now + self._broker.config.share_coordinator_state_topic_prune_interval_ms
        return effects.reply

    def loaded(self, key: ShareKey, now: int) -> ShareCoordinator:
        """The coordinator, once it knows all of this share partition."""
        number = self._log_of(key.coordinator_key(), now)
        hold_answer(self._broker, self._broker.partition_log(SHARE_GROUP_STATE, number), now)
        return self.coordinator

    # -- states

    def initialize(self, key: ShareKey, state_epoch: int, start_offset: int, now: int) -> None:
        """Let a group read a partition from here on. Whoever reads it finds the new state."""
        self.apply(self.loaded(key, now).initialize(key, state_epoch, start_offset, now), now)
        self.partitions.drop(key)

    def delete(self, key: ShareKey, now: int) -> None:
        """Forget how far a group is."""
        self.apply(self.loaded(key, now).delete(key), now)
        self.partitions.drop(key)

    def initialize_topics(self, group_id: str, state_epoch: int, topics: Topics, now: int) -> Topics:
        """Initialize partitions that a group begins to read; returns those for which it worked."""
        done: Topics = {}
        for topic_id, (name, numbers) in topics.items():
            worked = set()
            for number in sorted(numbers):
                try:
                    self.initialize(ShareKey(group_id, topic_id, number), state_epoch, UNINITIALIZED, now)
                    worked.add(number)
                except ApiError as error:
                    log.warning("share group %s can't begin with %s-%d: %s", group_id, name, number, error)
            if worked:
                done[topic_id] = (name, frozenset(worked))
        return done

    def delete_topics(self, group: ShareGroup, topic_ids: Iterable[bytes], now: int) -> None:
        """Forget how far a group is with these topics."""
        for topic_id in topic_ids:
            for number in group.initialized[topic_id][1]:
                if self._exists(topic_id, number):
                    self.delete(ShareKey(group.group_id, topic_id, number), now)

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

    def _on_metadata(self, delta: MetadataDelta, now: int) -> None:
        for topic in delta.deleted:
            if topic.name == SHARE_GROUP_STATE:
                self._ready.clear()
                self._loading.clear()
                self.coordinator.states.clear()
                self.partitions.clear()
                continue
            self.partitions.drop_topic(topic.id)
            for effects in self.coordinator.forget_topic(topic.id):
                self.apply(effects, now)

    # -- time

    def next_deadline(self) -> int | None:
        """At once while there is something to read or to release."""
        if self._loading or self._gone:
            return 0
        due = self.partitions.next_deadline()
        if self._tidy_at is not None and (due is None or self._tidy_at < due):
            due = self._tidy_at
        return due

    def on_deadline(self, now: int) -> None:
        read_slice(self._loading, SLICE_BYTES)
        while self._gone:
            for member in self.sessions.of_connection(self._gone.pop()):
                self.close_session(member, now)
        self.partitions.on_deadline(now)
        if self._tidy_at is not None and self._tidy_at <= now and not self._loading:
            self._tidy(now)

    def _tidy(self, now: int) -> None:
        """Write snapshots of what has been idle, and drop what lies before the oldest snapshot of each log."""
        config = self._broker.config
        self._tidy_at = now + config.share_coordinator_state_topic_prune_interval_ms
        cold = now - config.share_coordinator_cold_partition_snapshot_interval_ms
        try:
            for effects in self.coordinator.cold_snapshots(cold, now):
                self.apply(effects, now)
            for number, needed_from in self._needed_from().items():
                self._broker.partition_log(SHARE_GROUP_STATE, number).delete_records_before(needed_from)
        except ApiError as error:
            log.warning("%s is not tidied: %s", SHARE_GROUP_STATE, error)

    def _needed_from(self) -> dict[int, int]:
        count = self._log_count
        needed: dict[int, int] = {}
        for key, state in self.coordinator.states.items():
            number = partition_for(key.coordinator_key(), count)
            if number in self._ready:
                needed[number] = min(needed.get(number, state.snapshot_log_offset), state.snapshot_log_offset)
        return needed
