"""Replication as one node does it: what followers need here, and what leaders ask of the controller (KIP-497).

Rule: partitions come and go as `Replicas` says. A leader never changes an ISR itself. The changes that partitions want
are gathered, one request is under way at a time, and a partition counts the larger of both ISRs until an answer or the
metadata says which one holds. A change that the controller may have made without this node hearing of it is not taken
back before the metadata tells. Only a leader sends clients to another replica (KIP-392), and only with Kafka's own
rack-aware class in `replica.selector.class`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, cast

from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.broker.replication.fetcher import ReplicaFetcherManager
from pykafka_broker.broker.replication.throttles import Throttle
from pykafka_broker.broker.waiting.future import DONE, Future, Steps
from pykafka_broker.cluster.features import METADATA_VERSION
from pykafka_broker.cluster.image import MetadataDelta
from pykafka_broker.config import BrokerConfig
from pykafka_broker.config.problems import RACK_AWARE
from pykafka_broker.peers import Ask, LinkBroken, LinkError, OnReply, deliver
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from pykafka_broker.protocol.messages.alter_partition_response import AlterPartitionResponse
from pykafka_broker.protocol.messages.alter_partition_response import PartitionData as Answer
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.security.quotas.rate import Windows
from pykafka_broker.steps import Pace

if TYPE_CHECKING:
    from pykafka_broker.broker.node import ServerNode
    from pykafka_broker.cluster.image import MetadataImage

logger = logging.getLogger(__name__)

_RETRY_MS = 50  # after nobody was there to ask, for as long as that is waited for
_TIMEOUT_MS = 30_000
_PARTITIONS_PER_REQUEST = 1_000  # the controller takes 50 ms for so many
_RECOVERED = 0
_REFUSED = (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED)  # for certain: nothing has changed

NO_REPLICA = -1


class _Asked(NamedTuple):
    """A requested ISR, the partition epoch of the request, and how many replicas were in sync then."""

    partition: Partition
    isr: tuple[int, ...]
    epoch: int
    in_sync: int


class AlterPartitionManager:
    """The ISR changes of a node (Kafka: AlterPartitionManager). ask: brings a request to the controller."""

    def __init__(self, node: NodeReplication, ask: Ask) -> None:
        self.due: int | None = None
        self.expanded = self.shrunk = 0  # ISRs that have changed at a wish of this node
        self._node = node
        self._ask = ask
        self._submitted: dict[tuple[bytes, int], Partition] = {}
        self._asked: dict[tuple[bytes, int], _Asked] | None = None  # while there is no answer

    def submit(self, partition: Partition) -> None:
        """Request the ISR wanted by a partition, as soon as possible."""
        self._submitted[partition.log.topic_id, partition.index] = partition
        if self.due is None and self._asked is None:
            self.due = self._node.clock.now

    def is_pending(self, partition: Partition) -> bool:
        """Return whether the ISR wanted by a partition is in a request, or will be in the next."""
        key = partition.log.topic_id, partition.index
        return key in self._submitted or (self._asked is not None and key in self._asked)

    def send(self) -> None:
        """Send a request with the gathered changes, as many as the controller should decide on in one turn."""
        self.due = None
        if self._asked is not None:
            return
        keys = list(islice(self._submitted, _PARTITIONS_PER_REQUEST))
        submitted = {key: self._submitted.pop(key) for key in keys}
        asked = {
            key: _Asked(each, isr, each.state.partition_epoch, len(each.isr))
            for key, each in submitted.items()
            if each.followers is not None and (isr := each.followers.proposed_isr)
        }
        if asked:
            self._asked = asked
            self._ask(self._request(asked), self._answered, _TIMEOUT_MS)
        elif self._submitted:
            self.due = self._node.clock.now

    def _request(self, asked: dict[tuple[bytes, int], _Asked]) -> AlterPartitionRequest:
        topics: dict[bytes, list[PartitionData]] = {}
        for (topic_id, index), (partition, isr, epoch, _) in asked.items():
            members = [BrokerState(each, self._epoch_in(partition, each)) for each in isr]
            topics.setdefault(topic_id, []).append(
                PartitionData(index, partition.leader_epoch, [], members, _RECOVERED, epoch)
            )
        data = [TopicData(topic_id=topic_id, partitions=some) for topic_id, some in topics.items()]
        return AlterPartitionRequest(self._node.id, self._node.broker_epoch, data)

    def _epoch_in(self, partition: Partition, broker_id: int) -> int:
        """Return the epoch of a broker's fetches, else the epoch of the broker's registration."""
        if broker_id == self._node.id:
            return self._node.broker_epoch
        follower = None if partition.followers is None else partition.followers.get(broker_id)
        known = -1 if follower is None else follower.broker_epoch
        return known if known >= 0 else self._node.epoch_of(broker_id)

    # -- the answer

    def _answered(self, reply: Message | LinkError) -> None:
        asked, self._asked = self._asked or {}, None
        now = self._node.clock.now
        failure = str(reply) if isinstance(reply, LinkError) else None
        response = cast(AlterPartitionResponse, reply)
        if failure is None and response.error_code:
            failure = ErrorCode(response.error_code).name
        if failure is not None:
            logger.debug("the controller did not hear of %d ISRs: %s", len(asked), failure)
            for key, proposal in asked.items():
                self._submitted.setdefault(key, proposal.partition)
            self.due = now + _RETRY_MS
            return
        for topic in response.topics:
            for answer in topic.partitions:
                answered = asked.pop((topic.topic_id, answer.partition_index), None)
                if answered is not None:
                    self._apply(answered, answer, now)
        for key, proposal in asked.items():  # the controller said nothing of them
            self._submitted.setdefault(key, proposal.partition)
        if self._submitted:
            self.due = now

    def _apply(self, asked: _Asked, answer: Answer, now: int) -> None:
        partition, isr, epoch, in_sync = asked
        if answer.error_code:
            self._not_done(partition, isr, epoch, ErrorCode(answer.error_code), now)
            return
        if answer.partition_epoch == epoch:
            self._withdraw(partition, epoch, now)  # it was so already
            return
        self.expanded += len(isr) > in_sync
        self.shrunk += len(isr) < in_sync
        is_led = partition.is_leader and answer.leader_epoch == partition.leader_epoch  # it may be closed by now
        if is_led and answer.partition_epoch > partition.state.partition_epoch:
            state = partition.state.copy()
            state.isr = tuple(answer.isr)
            state.partition_epoch, state.leader_recovery_state = answer.partition_epoch, answer.leader_recovery_state
            partition.update(state, now)

    def _not_done(self, partition: Partition, isr: tuple[int, ...], epoch: int, code: ErrorCode, now: int) -> None:
        """Withdraw an ISR refused for certain; the metadata tells what has become of any other ISR.

        Partitions are looked at from time to time (`Partition.review_isr`).
        """
        if code is ErrorCode.NEW_LEADER_ELECTED:  # it was granted, and a reassignment has ended with it
            logger.debug("%s-%d has got the ISR %s and another leader", partition.topic, partition.index, list(isr))
        else:
            logger.info("%s-%d did not get the ISR %s: %s", partition.topic, partition.index, list(isr), code.name)
        if code in _REFUSED:
            self._withdraw(partition, epoch, now)

    @staticmethod
    def _withdraw(partition: Partition, epoch: int, now: int) -> None:
        if partition.state.partition_epoch == epoch:
            partition.isr_refused(now)


_UNKNOWN_EPOCH = -1
_ITEMS_OF_A_REVIEW = 5  # the review of a partition takes as long as so many items of `Pace`
Review = Callable[[Partition, int], None]
# From which metadata.version on followers fetch with which version (KIP-903, 966, 853, 1166).
_FETCH_VERSIONS = ((27, 18), (21, 17), (19, 16), (10, 15), (9, 14), (0, 13))


class NodeReplication:
    """The replication of a node: fetchers, ISR changes and throttles."""

    def __init__(self, node: ServerNode) -> None:
        self.id = node.id
        self.clock = node.clock
        self._node = node
        self.fetchers = ReplicaFetcherManager(self, node.broker_channels)
        self.isr_changes = AlterPartitionManager(self, self._ask_controller)
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
        self._regular_review: Future[None] = DONE
        node.subscribe(self.follow)

    # -- what the node is

    @property
    def config(self) -> BrokerConfig:
        return self._node.config

    @property
    def broker_epoch(self) -> int:
        return self._node.broker_epoch

    def epoch_of(self, broker_id: int) -> int:
        """Return the epoch of a broker's registration; -1 if the broker is not registered."""
        broker = self._node.image.brokers.get(broker_id)
        return _UNKNOWN_EPOCH if broker is None else broker.epoch

    @property
    def fetch_version(self) -> int:
        level = self._node.image.features.get(METADATA_VERSION, 0)
        return next(version for least, version in _FETCH_VERSIONS if level >= least)

    # -- for partitions that are led here

    @property
    def selects_by_rack(self) -> bool:
        """Whether clients are sent to a replica of the same rack."""
        return self.config.replica_selector_class == RACK_AWARE

    @property
    def max_lag_ms(self) -> int:
        return self.config.replica_lag_time_max_ms

    @property
    def fetch_wait_ms(self) -> int:
        return self.config.replica_fetch_wait_max_ms

    def may_join(self, broker_id: int, broker_epoch: int, directory_id: bytes) -> bool:
        """Return whether a broker's replica in a directory may be in sync, going by the metadata."""
        broker = self._node.image.brokers.get(broker_id)
        return (
            broker is not None
            and not broker.fenced
            and not broker.in_controlled_shutdown
            and broker_epoch in (_UNKNOWN_EPOCH, broker.epoch)
            and broker.has_online(directory_id)
        )

    def submit_isr(self, partition: Partition) -> None:
        """Request the ISR wanted by a partition."""
        self.isr_changes.submit(partition)

    def _ask_controller(self, request: Message, on_reply: OnReply, timeout_ms: int) -> None:
        """Ask the controller; `on_reply` is called when the records of the answer are committed."""
        metadata = self._node.metadata

        def replied(reply: Message | LinkError) -> None:
            def committed(future: Future[None]) -> None:
                deliver(on_reply, LinkBroken(str(future.error)) if future.error is not None else reply)

            metadata.committed().add_done_callback(committed)

        metadata.ask(request, replied, timeout_ms)

    # -- what `Replicas` tells

    def changed(self, partition: Partition) -> None:
        """Follow a new partition, or new metadata of a partition."""
        if partition.is_leader:
            self.fetchers.unfollow((partition.topic, partition.index))
        else:
            self.fetchers.follow(partition)

    def gone(self, key: tuple[str, int]) -> None:
        """Stop following a partition without a replica on the node."""
        self.fetchers.unfollow(key)

    def synced(self, partition: Partition) -> None:
        self.fetchers.synced((partition.topic, partition.index))

    def follow(self, delta: MetadataDelta) -> None:
        """React to changes of brokers, and of settings for fetchers and for what is committed."""
        for broker_id in delta.brokers:
            self.fetchers.broker_changed(broker_id)
        of_brokers = any(kind == ConfigResourceType.BROKER for kind, _ in delta.configs)
        topics = {name for kind, name in delta.configs if kind == ConfigResourceType.TOPIC}
        if of_brokers:
            self.fetchers.spread()
        if of_brokers or delta.brokers:
            self._begin_review(self._node.replicas.hosted(), Partition.review_followers)
        elif topics:
            concerned = [each for each in self._node.replicas.hosted() if each.topic in topics]
            self._begin_review(concerned, Partition.review_followers)

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
            if self._regular_review.done:
                self._regular_review = self._begin_review(self._node.replicas.hosted(), self._review)
        if self.isr_changes.due is not None and self.isr_changes.due <= now:
            self.isr_changes.send()
        self.fetchers.on_deadline(now)

    def _begin_review(self, partitions: list[Partition], review: Review) -> Future[None]:
        """Review partitions, in slices where there are very many; return the future of the end."""
        return self._node.slices.unasked(self._reviewed(partitions, review))

    def _reviewed(self, partitions: list[Partition], review: Review) -> Steps[None]:
        pace = Pace()
        for partition in partitions:
            review(partition, self.clock.now)
            if pace.due(_ITEMS_OF_A_REVIEW):
                yield None

    def _review(self, partition: Partition, now: int) -> None:
        """Request a smaller ISR without lagging replicas, and repeat a lost request."""
        partition.review_isr(now)
        followers = partition.followers
        if followers is not None and followers.proposed_isr is not None and not self.isr_changes.is_pending(partition):
            self.isr_changes.submit(partition)


def closest_replica(partition: Partition, offset: int, rack: str, image: MetadataImage) -> int:
    """Return the replica in sync with most records in a rack; -1 if the client is to stay with the leader.

    A replica out of sync may fall behind for ever, and its clients with it (KAFKA-14372).
    """
    followers, leader = partition.followers, partition.state.leader
    if followers is None or _rack(image, leader) == rack:
        return NO_REPLICA
    best, most = NO_REPLICA, offset - 1
    for node_id in partition.isr:
        known = followers.get(node_id)
        if (
            known is not None
            and known.log_end_offset > most
            and known.log_start_offset <= offset
            and _rack(image, node_id) == rack
        ):
            best, most = node_id, known.log_end_offset
    return best


def _rack(image: MetadataImage, node_id: int) -> str | None:
    broker = image.brokers.get(node_id)
    return None if broker is None or broker.fenced else broker.rack
