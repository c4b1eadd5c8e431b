"""One partition of which this node has a replica.

Rule: what is true of one partition is decided here and nowhere else: who leads it in which epoch, who is in sync, what
is committed, and who waits for that. The log below knows bytes and offsets; it is told where the high watermark is.
No socket and no clock: fetches of followers and the time come in as arguments.

A record is committed when every replica in sync has it (KIP-101), this one included: where `flush.messages` asks for a
sync, it has it after that (`PartitionLog.durable_end`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from pykafka_broker.broker.reply import Waiter
from pykafka_broker.cluster.image import PartitionImage
from pykafka_broker.errors import ApiError
from pykafka_broker.log.partition_log import AppendInfo, Origin, PartitionLog
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.records.header import BatchHeader

logger = logging.getLogger(__name__)

NO_EPOCH = -1


class NotLeader(ApiError):
    """Another node leads the partition, or none does. Clients are told who, where their version has a place for it."""

    def __init__(self, leader: int, leader_epoch: int) -> None:
        super().__init__(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.leader = leader
        self.leader_epoch = leader_epoch


class _Waiting(NamedTuple):
    offset: int
    durable: bool  # enough if this replica has it
    waiter: Waiter


def _tell(those: list[_Waiting], error: ApiError | None) -> None:
    for one in those:
        try:
            one.waiter(error)
        except Exception:  # a defect of one of them: the others, and whoever moved the partition, go on all the same
            logger.exception("a defect while going on after a wait")


class FollowerProgress:
    """What the leader knows of one follower: how far it is, and when it last had all that there was."""

    __slots__ = ("caught_up_ms", "fetched_ms", "leader_end_at_fetch", "log_end_offset")

    def __init__(self, now: int) -> None:
        self.log_end_offset = -1  # not known before its first fetch
        self.caught_up_ms = now
        self.fetched_ms = now
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


class Partition:
    """Made by `Replicas` for a partition whose log is loaded. `touch` wakes the requests that watch it."""

    # invariant: high watermark <= durable end of this replica and the log end of every other one in sync
    __slots__ = ("_followers", "_node_id", "_touch", "_waiting", "is_leader", "log", "number", "state", "topic")

    def __init__(
        self, log: PartitionLog, state: PartitionImage, node_id: int, touch: Callable[[Partition], None], now: int
    ) -> None:
        self.topic = log.topic
        self.number = log.partition
        self.log = log
        self.state = state
        self._node_id = node_id
        self._touch = touch
        self._waiting: list[_Waiting] = []
        self._followers: dict[int, FollowerProgress] = {}
        self.is_leader = False
        self.update(state, now)

    def __repr__(self) -> str:
        return f"Partition({self.topic}-{self.number}, leader {self.state.leader}, epoch {self.leader_epoch})"

    # -- role

    @property
    def leader_epoch(self) -> int:
        return self.state.leader_epoch

    @property
    def isr(self) -> tuple[int, ...]:
        """The replicas in sync, by node id."""
        return self.state.isr

    def update(self, state: PartitionImage, now: int) -> None:
        """Take over what the metadata says now. What is older than that is passed over: a change may be heard of after
        a later one has been seen in the image.
        """
        if state.partition_epoch < self.state.partition_epoch:
            return
        leads = state.leader == self._node_id
        begins = leads and not (self.is_leader and state.leader_epoch == self.leader_epoch)
        self.state = state
        self.is_leader = leads
        self.log.sole_replica = leads and state.isr == (self._node_id,)
        if not leads:
            self._fail(NotLeader(state.leader, state.leader_epoch))
            return
        if begins:
            self.log.leader_epoch = state.leader_epoch
            self._followers = {}
        others = [node_id for node_id in state.replicas if node_id != self._node_id]
        self._followers = {node_id: self._followers.get(node_id) or FollowerProgress(now) for node_id in others}
        self.advance()

    def close(self, error: ApiError) -> None:
        """It is not served here any more: whoever waits for it is told why."""
        self.is_leader = False
        self._fail(error)
        self._touch(self)

    def check_epoch(self, epoch: int) -> None:
        """KIP-320. Raises FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH if a client's idea of the leader is older or
        newer than ours.
        """
        if epoch == NO_EPOCH or epoch == self.leader_epoch:
            return
        older = epoch < self.leader_epoch
        raise ApiError(ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH)

    # -- appending

    def check_insync(self, wanted: int) -> None:
        """`min.insync.replicas`, for acks=all; never more than the partition has replicas (KIP-966). Raises
        NOT_ENOUGH_REPLICAS.
        """
        if len(self.isr) < min(wanted, len(self.state.replicas)):
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)

    def append(
        self,
        batch: bytearray | memoryview,
        now: int,
        *,
        header: BatchHeader | None = None,
        origin: Origin = Origin.CLIENT,
        verified: bool = True,
        transaction_version: int = 0,
    ) -> AppendInfo:
        """Append as the leader; see `PartitionLog.append`."""
        log = self.log
        appended = log.append(
            batch, now, header=header, origin=origin, verified=verified, transaction_version=transaction_version
        )
        if log.high_watermark > appended.last_offset:
            self._touch(self)
        elif not log.sole_replica:
            self.advance()
        return appended

    # -- what is committed

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    def is_committed(self, offset: int) -> bool:
        return self.log.high_watermark >= offset

    def when_committed(self, offset: int, waiter: Waiter) -> None:
        """`waiter` hears when all below `offset` is committed, maybe at once; or why it will not be."""
        self._wait(_Waiting(offset, False, waiter))

    def when_durable(self, offset: int, waiter: Waiter) -> None:
        """The same for what this replica alone has for good, whatever the others have (acks=1)."""
        self._wait(_Waiting(offset, True, waiter))

    def forget(self, waiter: Waiter) -> None:
        """It has waited long enough: it hears nothing any more."""
        self._waiting = [one for one in self._waiting if one.waiter is not waiter]

    def _wait(self, waiting: _Waiting) -> None:
        if self._is_there(waiting):
            waiting.waiter(None)
        elif not self.is_leader:
            waiting.waiter(NotLeader(self.state.leader, self.leader_epoch))
        else:
            self._waiting.append(waiting)

    def _is_there(self, waiting: _Waiting) -> bool:
        reached = self.log.durable_end if waiting.durable else self.log.high_watermark
        return reached >= waiting.offset

    def advance(self) -> None:
        """The end of a replica has moved, or who is in sync: move the high watermark, and tell those who wait for it.
        It never goes back.
        """
        log = self.log
        if self.is_leader:
            ends = [self._followers[each].log_end_offset for each in self.isr if each in self._followers]
            reached = min([log.durable_end, *ends])
            if reached > log.high_watermark:
                log.advance_high_watermark(reached)
        if self._waiting:
            ready = [one for one in self._waiting if self._is_there(one)]
            self._waiting = [one for one in self._waiting if not self._is_there(one)]
            _tell(ready, None)
        self._touch(self)

    def lost(self, offset: int, error: ApiError) -> None:
        """What lies from `offset` on can't be counted on any more."""
        self._fail(error, beyond=offset)

    def _fail(self, error: ApiError, beyond: int = -1) -> None:
        failed = [one for one in self._waiting if one.offset > beyond]
        self._waiting = [one for one in self._waiting if one.offset <= beyond]
        _tell(failed, error)

    # -- followers

    def fetched_by(self, node_id: int, offset: int, now: int) -> None:
        """A follower asks for what lies from `offset` on. Raises UNKNOWN_LEADER_EPOCH if it is none of the replicas,
        as Kafka does: the follower then looks at the metadata again.
        """
        follower = self._followers.get(node_id)
        if follower is None:
            raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)
        follower.fetched(offset, self.log.log_end_offset, now)
        self.advance()

    def wanted_isr(self, now: int, max_lag_ms: int) -> tuple[int, ...]:
        """Who should be in sync: this node, whoever of the others has had all that there was within `max_lag_ms`
        (`replica.lag.time.max.ms`), and whoever has caught up with the high watermark and is not in sync yet. To be
        asked of the controller if it differs from `isr`.
        """
        return tuple(
            node_id
            for node_id in self.state.replicas
            if node_id == self._node_id or self._belongs(node_id, self._followers[node_id], now - max_lag_ms)
        )

    def _belongs(self, node_id: int, follower: FollowerProgress, caught_up_since: int) -> bool:
        if node_id in self.isr:
            return follower.log_end_offset == self.log.log_end_offset or follower.caught_up_ms >= caught_up_since
        return follower.log_end_offset >= self.log.high_watermark
