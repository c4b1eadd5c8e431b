"""Replication as one node does it: it follows some partitions, and leads the followers of others.

Rule: this is where the parts meet; what they do is theirs. Partitions come and go as `Replicas` says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.broker.replication.fetchers import Fetchers
from pykafka_broker.broker.replication.isr_changes import IsrChanges
from pykafka_broker.broker.replication.throttles import Throttle
from pykafka_broker.broker.waiting.future import Future
from pykafka_broker.cluster.features import METADATA_VERSION
from pykafka_broker.cluster.image import MetadataDelta
from pykafka_broker.config import BrokerConfig
from pykafka_broker.config.problems import RACK_AWARE
from pykafka_broker.peers import LinkBroken, LinkError, OnReply
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.security.quotas.rate import Windows

if TYPE_CHECKING:
    from pykafka_broker.broker.node import Node

_UNKNOWN_EPOCH = -1
# From which metadata.version on followers fetch with which version (KIP-903, 966, 853, 1166).
_FETCH_VERSIONS = ((27, 18), (21, 17), (19, 16), (10, 15), (9, 14), (0, 13))


class NodeReplication:
    """What the partitions with several replicas of one node need."""

    def __init__(self, node: Node) -> None:
        self.id = node.id
        self.clock = node.clock
        self._node = node
        self.fetchers = Fetchers(self, node.neighbours)
        self.isr_changes = IsrChanges(self, self._ask)
        windows = Windows(
            node.config.replication_quota_window_num, 1000 * node.config.replication_quota_window_size_seconds
        )
        self.leader_throttle = Throttle(
            node.id,
            windows,
            lambda partition: partition.log.config.leader_replication_throttled_replicas,
            lambda: self.config.leader_replication_throttled_rate,
        )
        self.follower_throttle = Throttle(
            node.id,
            windows,
            lambda partition: partition.log.config.follower_replication_throttled_replicas,
            lambda: self.config.follower_replication_throttled_rate,
        )
        self._review_due = node.clock.now + self._review_interval_ms
        node.subscribe(self.follow)

    # -- what the node is

    @property
    def config(self) -> BrokerConfig:
        return self._node.config

    @property
    def broker_epoch(self) -> int:
        """With which this node is registered."""
        return self._node.broker_epoch

    def epoch_of(self, broker_id: int) -> int:
        """With which a broker is registered; -1 if it is not."""
        broker = self._node.image.brokers.get(broker_id)
        return _UNKNOWN_EPOCH if broker is None else broker.epoch

    @property
    def fetch_version(self) -> int:
        level = self._node.image.features.get(METADATA_VERSION, 0)
        return next(version for least, version in _FETCH_VERSIONS if level >= least)

    # -- for partitions that are led here

    @property
    def selects_by_rack(self) -> bool:
        """Whether clients are sent to a replica in their rack."""
        return self.config.replica_selector_class == RACK_AWARE

    @property
    def max_lag_ms(self) -> int:
        return self.config.replica_lag_time_max_ms

    def may_join(self, broker_id: int, broker_epoch: int, directory_id: bytes) -> bool:
        """Whether the replica that broker has in that directory may be in sync, by what the metadata says of it."""
        broker = self._node.image.brokers.get(broker_id)
        return (
            broker is not None
            and not broker.fenced
            and not broker.in_controlled_shutdown
            and broker_epoch in (_UNKNOWN_EPOCH, broker.epoch)
            and broker.has_online(directory_id)
        )

    def wish_isr(self, partition: Partition) -> None:
        """Ask the controller for the ISR that the partition wishes for."""
        self.isr_changes.wish(partition)

    def _ask(self, request: Message, on_reply: OnReply, timeout_ms: int) -> None:
        """Ask the controller; `on_reply` is called when the records of the answer are committed."""
        metadata = self._node.metadata

        def replied(reply: Message | LinkError) -> None:
            def committed(future: Future[None]) -> None:
                on_reply(LinkBroken(str(future.error)) if future.error is not None else reply)

            metadata.committed().add_done_callback(committed)

        metadata.ask(request, replied, timeout_ms)

    # -- what `Replicas` tells

    def changed(self, partition: Partition) -> None:
        """It is here from now on, or the metadata says something else of it."""
        if partition.is_leader:
            self.fetchers.let_go((partition.topic, partition.number))
        else:
            self.fetchers.follow(partition)

    def gone(self, key: tuple[str, int]) -> None:
        """It is not here any more."""
        self.fetchers.let_go(key)

    def synced(self, partition: Partition) -> None:
        """What it has is there for good now."""
        self.fetchers.synced((partition.topic, partition.number))

    def follow(self, delta: MetadataDelta) -> None:
        """Other brokers come and go, and settings change that say what is committed."""
        for broker_id in delta.brokers:
            self.fetchers.broker_changed(broker_id)
        if delta.brokers or any(
            kind in (ConfigResourceType.TOPIC, ConfigResourceType.BROKER) for kind, _ in delta.configs
        ):
            for partition in self._node.replicas.hosted():
                partition.review_followers(self.clock.now)

    # -- time

    @property
    def _review_interval_ms(self) -> int:
        return max(1, self.config.replica_lag_time_max_ms // 2)

    def next_deadline(self) -> int | None:
        due, fetching, asking = self._review_due, self.fetchers.next_deadline(), self.isr_changes.due
        if fetching is not None and fetching < due:
            due = fetching
        return asking if asking is not None and asking < due else due

    def on_deadline(self, now: int) -> None:
        if self._review_due <= now:
            self._review_due = now + self._review_interval_ms
            self._review(now)
        if self.isr_changes.due is not None and self.isr_changes.due <= now:
            self.isr_changes.go_on(now)
        self.fetchers.on_deadline(now)

    def _review(self, now: int) -> None:
        """Whoever has fallen behind is to leave the ISR; a wish that nobody has heard is told again."""
        for partition in self._node.replicas.hosted():
            partition.review_isr(now)
            followers = partition.followers
            if followers is not None and followers.wished is not None and not self.isr_changes.is_asked(partition):
                self.isr_changes.wish(partition)
