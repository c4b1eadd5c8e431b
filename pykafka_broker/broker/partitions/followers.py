"""The followers of a partition, as the leader knows them: their progress, the ISR, and the committed offset.

Rule: a record is committed when every replica that is in sync, is proposed for the ISR, or keeps up has the record
(KIP-966: the maximal ISR), and no record is while fewer are in sync than `min.insync.replicas`. Only the controller
decides about the ISR; until it has answered, the replicas of the ISR and of the proposed ISR are required. A module of
its own: a node alone never imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pykafka_broker.cluster.image import PartitionImage

UNKNOWN_OFFSET = -1
NO_BROKER_EPOCH = -1
_STILL_ASKING_MS = 2_000  # a follower asks at least every `replica.fetch.wait.max.ms`, half a second


class Watch(Protocol):
    """A listener for news of partitions that a follower fetches."""

    @property
    def asked_ms(self) -> int:
        """Return the time of the follower's last fetch of any partition."""

    def asks(self, key: Hashable) -> bool:
        """Return whether the follower still fetches the partition `key`."""

    def note(self, key: Hashable) -> None:
        """Note that the partition `key` may have news."""

    def lose(self, key: Hashable) -> None:
        """Note that another listener is told of the partition `key` from now on."""


# Whether a broker may be in sync: registered with the broker epoch, not fenced, not in a controlled shutdown, and the
# directory of its replica not offline.
MayJoin = Callable[[int, int, bytes], bool]
Isr = tuple[int, ...]


class FollowerProgress:
    """The progress of a follower, as the leader knows it (Kafka: ReplicaState)."""

    __slots__ = (
        "broker_epoch",
        "caught_up_ms",
        "fetched_ms",
        "leader_end_at_fetch",
        "log_end_offset",
        "log_start_offset",
        "watch",
    )

    def __init__(self, caught_up_ms: int = 0) -> None:
        """Begin with a follower unheard of; a follower in sync at the begin of the leader counts as caught up then."""
        self.watch: tuple[Watch, Hashable] | None = None
        self.log_end_offset = self.log_start_offset = UNKNOWN_OFFSET  # before its first fetch
        self.broker_epoch = NO_BROKER_EPOCH
        self.caught_up_ms = caught_up_ms
        self.fetched_ms = 0
        self.leader_end_at_fetch = 0

    def fetched(self, offset: int, leader_end: int, now: int) -> None:
        """Note a fetch from `offset`: the follower has all records below.

        A follower that has now all records that were there at its last fetch was caught up then: a follower that is
        always a fetch behind is not slow.
        """
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now)
        elif offset >= self.leader_end_at_fetch:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.log_end_offset = offset
        self.leader_end_at_fetch = leader_end
        self.fetched_ms = now

    def asked_since(self, since: int) -> bool:
        """Return whether the follower has fetched the partition since `since`, alone or in a fetch session."""
        if self.fetched_ms >= since:
            return True
        return self.watch is not None and self.watch[0].asked_ms >= since and self.watch[0].asks(self.watch[1])

    def tell_to(self, watch: tuple[Watch, Hashable] | None) -> None:
        """Replace the watch. A request of long ago may do so, after its connection: the former watch hears of it."""
        former, self.watch = self.watch, watch
        if former is not None and (watch is None or former[0] is not watch[0]):
            former[0].lose(former[1])

    def tell(self) -> None:
        """Tell the follower's watch of news. A follower without a backlog was caught up as long as it kept asking."""
        if self.watch is not None:
            watch, key = self.watch
            if self.log_end_offset >= self.leader_end_at_fetch:
                self.caught_up_ms = max(self.caught_up_ms, watch.asked_ms)
            watch.note(key)


class Followers:
    """The other replicas of a partition, in one epoch of the leader."""

    __slots__ = (
        "_by_id",
        "_catching_up",
        "_may_join",
        "_node_id",
        "_state",
        "max_lag_ms",
        "proposed_isr",
    )

    def __init__(
        self, node_id: int, state: PartitionImage, log_end_offset: int, now: int, max_lag_ms: int, may_join: MayJoin
    ) -> None:
        self._node_id = node_id
        self._may_join = may_join
        self.max_lag_ms = max_lag_ms
        self.proposed_isr: Isr | None = None  # asked of the controller, which has not answered yet
        self._by_id: dict[int, FollowerProgress] = {}
        self._catching_up: frozenset[int] = frozenset()  # not in sync, but as fast
        self._state = state
        self.follow(state, log_end_offset, now)

    def follow(self, state: PartitionImage, log_end_offset: int, now: int) -> None:
        """Take over the state of the metadata."""
        if state.partition_epoch > self._state.partition_epoch:
            self.proposed_isr = None
        self._state = state
        known = self._by_id
        self._by_id = {
            node_id: known.get(node_id) or FollowerProgress(now if node_id in state.isr else 0)
            for node_id in state.replicas
            if node_id != self._node_id
        }
        self.review(log_end_offset, now)

    def get(self, node_id: int) -> FollowerProgress | None:
        """Return the progress of a follower, None for a node without a replica."""
        return self._by_id.get(node_id)

    def tell(self) -> None:
        """Tell all followers of new records, or of a new high watermark."""
        for each in self._by_id.values():
            each.tell()

    # -- who counts

    @property
    def maximal_isr(self) -> Isr:
        """Return the ISR with the replicas proposed for the ISR."""
        isr, proposed = self._state.isr, self.proposed_isr
        return isr if proposed is None else tuple(dict.fromkeys((*isr, *proposed)))

    def review(self, log_end_offset: int, now: int) -> None:
        """Find the followers that keep up without being in the ISR."""
        since, isr = now - self.max_lag_ms, self._state.isr
        self._catching_up = frozenset(
            node_id
            for node_id, each in self._by_id.items()
            if node_id not in isr
            and each.log_end_offset >= 0
            and (each.log_end_offset == log_end_offset or each.caught_up_ms >= since)
            and self._may_be_in_sync(node_id, each)
        )

    @property
    def leader_alone_counts(self) -> bool:
        """Return whether all records of this node are committed."""
        return self.proposed_isr is None and self._state.isr == (self._node_id,) and not self._catching_up

    def reached(self, own_end: int) -> int:
        """Return the offset that all required replicas have reached, this node `own_end`; -1 before a first fetch."""
        followers = self._by_id
        ends = [followers[each].log_end_offset for each in (*self.maximal_isr, *self._catching_up) if each in followers]
        return min([own_end, *ends])

    def low_watermark(self, own_start: int) -> int | None:
        """Return the lowest log start offset of replicas on live brokers; None before a first fetch of one of them.

        own_start: the log start offset of this node (Kafka: Partition.lowWatermarkIfLeader).
        """
        starts = [
            each.log_start_offset
            for node_id, each in self._by_id.items()
            if self._may_join(node_id, NO_BROKER_EPOCH, self._state.directory_of(node_id))
        ]
        return None if UNKNOWN_OFFSET in starts else min([own_start, *starts])

    def _may_be_in_sync(self, node_id: int, follower: FollowerProgress) -> bool:
        return self._may_join(node_id, follower.broker_epoch, self._state.directory_of(node_id))

    # -- who should be in sync

    def with_newcomer(self, node_id: int, required_end: int) -> Isr | None:
        """Return the ISR with the follower, if it may join: its log reaches `required_end`, its broker is eligible."""
        follower = self._by_id[node_id]
        if (
            self.proposed_isr is None
            and node_id not in self._state.isr
            and follower.log_end_offset >= required_end
            and self._may_be_in_sync(node_id, follower)
        ):
            return (*self._state.isr, node_id)
        return None

    def any_newcomer(self, required_end: int, now: int) -> Isr | None:
        """Return the ISR with a follower that may join now, though not at its last fetch."""
        for node_id, follower in self._by_id.items():
            if follower.log_end_offset >= 0 and follower.asked_since(now - _STILL_ASKING_MS):
                isr = self.with_newcomer(node_id, required_end)
                if isr is not None:
                    return isr
        return None

    def without_laggards(self, now: int, log_end_offset: int) -> Isr | None:
        """Return the ISR without followers that have lagged for `replica.lag.time.max.ms`, None without laggards."""
        if self.proposed_isr is not None:
            return None
        since = now - self.max_lag_ms
        kept = tuple(
            node_id
            for node_id in self._state.isr
            if (follower := self._by_id.get(node_id)) is None
            or follower.log_end_offset == log_end_offset
            or follower.caught_up_ms >= since
        )
        return kept if kept != self._state.isr else None
