"""What the leader of a partition knows of its followers: how far they are, who is in sync, and what that commits.

Rule: a record is committed when every replica has it that is in sync, is asked to be, or keeps up (KIP-966: the maximal
ISR), and nothing is while fewer are in sync than `min.insync.replicas`. Who is in sync only the controller says; until
it has answered, whoever is in its ISR or in the one that is wished counts as required.
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
    """Who is to hear that there may be something new for a follower."""

    @property
    def asked_ms(self) -> int:
        """When the follower asked last, be it about other partitions."""

    def asks(self, key: Hashable) -> bool:
        """Whether it still asks about the partition that it calls `key`."""

    def note(self, key: Hashable) -> None:
        """There may be something new in that one."""


# Whether a broker may be in sync: it is registered with that epoch, not fenced, not about to leave, and the directory
# of its replica is not offline.
MayJoin = Callable[[int, int, bytes], bool]
Isr = tuple[int, ...]


class FollowerProgress:
    """What the leader knows of one follower: how far it is, and when it last had all that there was."""

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
        """One that is in sync when the leader begins counts as caught up then."""
        self.watch: tuple[Watch, Hashable] | None = None
        self.log_end_offset = self.log_start_offset = UNKNOWN_OFFSET  # before its first fetch
        self.broker_epoch = NO_BROKER_EPOCH
        self.caught_up_ms = caught_up_ms
        self.fetched_ms = 0
        self.leader_end_at_fetch = 0

    def fetched(self, offset: int, leader_end: int, now: int) -> None:
        """It asks for `offset`, so it has all below. A follower that now has what was there at its last fetch was
        caught up then: one that is always a fetch behind is not slow.
        """
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now)
        elif offset >= self.leader_end_at_fetch:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.log_end_offset = offset
        self.leader_end_at_fetch = leader_end
        self.fetched_ms = now

    def asked_since(self, since: int) -> bool:
        """Whether it has asked for this partition since then, or for others that it asks for together with it."""
        if self.fetched_ms >= since:
            return True
        return self.watch is not None and self.watch[0].asked_ms >= since and self.watch[0].asks(self.watch[1])

    def tell(self) -> None:
        """There may be something new for it. One that had all has had it for as long as it kept asking."""
        if self.watch is not None:
            watch, key = self.watch
            if self.log_end_offset >= self.leader_end_at_fetch:
                self.caught_up_ms = max(self.caught_up_ms, watch.asked_ms)
            watch.note(key)


class Followers:
    """The other replicas of a partition, in one epoch of its leader."""

    __slots__ = (
        "_by_id",
        "_catching_up",
        "_may_join",
        "_node_id",
        "_state",
        "max_lag_ms",
        "wished",
    )

    def __init__(
        self, node_id: int, state: PartitionImage, log_end_offset: int, now: int, max_lag_ms: int, may_join: MayJoin
    ) -> None:
        self._node_id = node_id
        self._may_join = may_join
        self.max_lag_ms = max_lag_ms
        self.wished: Isr | None = None  # asked of the controller, which has not answered yet
        self._by_id: dict[int, FollowerProgress] = {}
        self._catching_up: frozenset[int] = frozenset()  # not in sync, but as fast
        self._state = state
        self.follow(state, log_end_offset, now)

    def follow(self, state: PartitionImage, log_end_offset: int, now: int) -> None:
        """What the metadata says now."""
        if state.partition_epoch > self._state.partition_epoch:
            self.wished = None
        self._state = state
        known = self._by_id
        self._by_id = {
            node_id: known.get(node_id) or FollowerProgress(now if node_id in state.isr else 0)
            for node_id in state.replicas
            if node_id != self._node_id
        }
        self.review(log_end_offset, now)

    def get(self, node_id: int) -> FollowerProgress | None:
        """What is known of one; None if it is no replica."""
        return self._by_id.get(node_id)

    def tell(self) -> None:
        """There is something new: records, or more of them are committed."""
        for each in self._by_id.values():
            each.tell()

    # -- who counts

    @property
    def maximal_isr(self) -> Isr:
        """Whoever is in sync, or asked to be."""
        isr, wished = self._state.isr, self.wished
        return isr if wished is None else tuple(dict.fromkeys((*isr, *wished)))

    def review(self, log_end_offset: int, now: int) -> None:
        """Look who keeps up without being in sync."""
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
        """Whether what this node has is committed."""
        return self.wished is None and self._state.isr == (self._node_id,) and not self._catching_up

    def reached(self, own_end: int) -> int:
        """Up to where all that count have the records, this node up to `own_end`. -1 if one of them is not heard of."""
        followers = self._by_id
        ends = [followers[each].log_end_offset for each in (*self.maximal_isr, *self._catching_up) if each in followers]
        return min([own_end, *ends])

    def low_watermark(self, own_start: int) -> int | None:
        """Return the offset below which no replica has anything whose broker is alive, this node's replica from
        `own_start` on; None as long as one of them has not told (Kafka: Partition.lowWatermarkIfLeader).
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
        """Return the ISR with this follower, if it may join: its log reaches `required_end`, and its broker is as the
        metadata knows it.
        """
        follower = self._by_id[node_id]
        if (
            self.wished is None
            and node_id not in self._state.isr
            and follower.log_end_offset >= required_end
            and self._may_be_in_sync(node_id, follower)
        ):
            return (*self._state.isr, node_id)
        return None

    def any_newcomer(self, required_end: int, now: int) -> Isr | None:
        """Return the ISR with a follower that may join now, though it could not when it fetched."""
        for node_id, follower in self._by_id.items():
            if follower.log_end_offset >= 0 and follower.asked_since(now - _STILL_ASKING_MS):
                isr = self.with_newcomer(node_id, required_end)
                if isr is not None:
                    return isr
        return None

    def without_laggards(self, now: int, log_end_offset: int) -> Isr | None:
        """The ISR without those that have not had all there was for `replica.lag.time.max.ms`, if there are any."""
        if self.wished is not None:
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
