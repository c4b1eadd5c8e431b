"""One partition of which this node has a replica.

Rule: what is true of one partition is decided here and nowhere else: who leads it in which epoch, who is in sync, what
is committed, and who waits for that. The log below knows bytes and offsets; it is told where the high watermark is.
No socket and no clock: fetches of followers and the time come in as arguments.

A record is committed when every replica in sync has it (KIP-101), this one included: where `flush.messages` asks for a
sync, it has it after that (`PartitionLog.durable_end`). Of the others `replication/followers.py` knows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pykafka_broker.broker.waiting.future import DONE, Future, failed
from pykafka_broker.cluster.image import PartitionImage
from pykafka_broker.errors import ApiError
from pykafka_broker.log.partition_log import AppendInfo, Origin, PartitionLog
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.records.header import BatchHeader

if TYPE_CHECKING:
    from pykafka_broker.broker.partitions.followers import Followers, Watch

logger = logging.getLogger(__name__)

NO_EPOCH = -1
_MAX_LAG_MS = 30_000


class NotLeader(ApiError):
    """Another node leads the partition, or none does. Clients are told who, where their version has a place for it."""

    def __init__(self, leader: int, leader_epoch: int) -> None:
        super().__init__(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.leader = leader
        self.leader_epoch = leader_epoch


def _everybody(node_id: int, broker_epoch: int, directory_id: bytes) -> bool:
    return True


class _Waiting(NamedTuple):
    offset: int
    durable: bool  # enough if this replica has it
    future: Future[None]


def _end(those: list[_Waiting], error: ApiError | None) -> None:
    for one in those:
        try:
            if error is None:
                one.future.complete(None)
            else:
                one.future.fail(error)
        except Exception:  # a defect of one of them: the others, and whoever moved the partition, go on all the same
            logger.exception("a defect while going on after a wait")


class Replication(Protocol):
    """What a partition with several replicas asks of its node, and tells it."""

    @property
    def max_lag_ms(self) -> int:
        """`replica.lag.time.max.ms`."""

    def may_join(self, node_id: int, broker_epoch: int, directory_id: bytes) -> bool:
        """Whether the replica that broker has in that directory may be in sync, by what the metadata says of it."""

    def wish_isr(self, partition: Partition) -> None:
        """Ask the controller for the ISR that the partition wishes for."""


class Partition:
    """Made by `Replicas` for a partition whose log is loaded. `touch` wakes the requests that watch it."""

    # invariant: high watermark <= durable end of this replica and the log end of every other one in sync
    __slots__ = (
        "_node_id",
        "_replication",
        "_touch",
        "_waiting",
        "epoch_start",
        "followers",
        "is_leader",
        "log",
        "number",
        "state",
        "topic",
    )

    def __init__(
        self,
        log: PartitionLog,
        state: PartitionImage,
        node_id: int,
        touch: Callable[[Partition], None],
        now: int,
        replication: Replication | None = None,
    ) -> None:
        self.topic = log.topic
        self.number = log.partition
        self.log = log
        self.state = state
        self._node_id = node_id
        self._touch = touch
        self._waiting: list[_Waiting] = []
        self._replication = replication
        self.followers: Followers | None = None  # while this node leads and there are other replicas
        self.is_leader = False
        self.epoch_start = 0  # where the log ended when this node began to lead
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
        if self.followers is not None and (not leads or begins):
            self.followers.tell()
            self.followers = None
        if not leads:
            self.log.set_sole_replica(False)
            self._fail(NotLeader(state.leader, state.leader_epoch))
            return
        if begins:
            self.log.begin_leader_epoch(state.leader_epoch)
            self.epoch_start = self.log.log_end_offset
            self.log.forget_gap()  # what is here is the partition now
        if len(state.replicas) > 1:
            self._follow_replicas(now)
        self.advance()

    def _follow_replicas(self, now: int) -> None:
        if self.followers is not None:
            self.followers.follow(self.state, self.log.log_end_offset, now)
            self._wish(self.followers.any_newcomer(self._end_of_newcomers, now))
            return
        from pykafka_broker.broker.partitions.followers import Followers  # no node that is alone needs it

        replication, end = self._replication, self.log.log_end_offset
        max_lag_ms = _MAX_LAG_MS if replication is None else replication.max_lag_ms
        may_join = _everybody if replication is None else replication.may_join
        self.followers = Followers(self._node_id, self.state, end, now, max_lag_ms, may_join)

    def close(self, error: ApiError) -> None:
        """It is not served here any more: whoever waits for it is told why."""
        self.is_leader = False
        self._fail(error)
        self.moved()
        self.followers = None

    def moved(self) -> None:
        """There is something new for those who watch it."""
        self._touch(self)
        if self.followers is not None:
            self.followers.tell()

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
        if not self._is_insync(wanted):
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)

    def _is_insync(self, wanted: int) -> bool:
        return len(self.isr) >= min(wanted, len(self.state.replicas))

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
        if self.followers is not None:
            self.followers.tell()
        return appended

    # -- what is committed

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    @property
    def knows_committed(self) -> bool:
        """Return whether the high watermark has come up to where this leader began. That takes a while where followers
        have to fetch first, or where `flush.messages` asks for a sync of what a crash has left.
        """
        return self.epoch_start <= self.log.high_watermark

    @property
    def _end_of_newcomers(self) -> int:
        """Return the offset that a follower must have reached to join the ISR: all that is committed, and all that was
        there when this leader began.
        """
        return max(self.log.high_watermark, self.epoch_start)

    @property
    def low_watermark(self) -> int:
        """Below it no replica has anything, but for those on dead brokers; -1 as long as that is not known."""
        own_start = self.log.log_start_offset
        low_watermark = own_start if self.followers is None else self.followers.low_watermark(own_start)
        return -1 if low_watermark is None else low_watermark

    def committed(self, offset: int) -> Future[None]:
        """Return the future of all below `offset` being committed. Its error says why that will not be."""
        return self._wait(offset, durable=False)

    def durable(self, offset: int) -> Future[None]:
        """Return the same for what this replica alone has for good, whatever the others have (acks=1)."""
        return self._wait(offset, durable=True)

    def _wait(self, offset: int, *, durable: bool) -> Future[None]:
        future: Future[None] = Future()
        waiting = _Waiting(offset, durable, future)
        if self._is_there(waiting):
            return DONE
        if not self.is_leader:
            return failed(NotLeader(self.state.leader, self.leader_epoch))
        future.on_cancel = partial(self._forget, future)
        self._waiting.append(waiting)
        return future

    def _forget(self, future: Future[None]) -> None:
        self._waiting = [one for one in self._waiting if one.future is not future]

    def _is_there(self, waiting: _Waiting) -> bool:
        reached = self.log.durable_end if waiting.durable else self.log.high_watermark
        return reached >= waiting.offset

    def advance(self) -> None:
        """The end of a replica has moved, or who is in sync: move the high watermark, and tell those who wait for it.
        It never goes back.
        """
        log = self.log
        if self.is_leader:
            followers = self.followers
            enough = followers is None or self._is_insync(log.config.min_insync_replicas)
            log.set_sole_replica(enough and (followers is None or followers.leader_alone_counts))
            reached = log.durable_end if followers is None else followers.reached(log.durable_end)
            if enough and reached > log.high_watermark:
                log.advance_high_watermark(reached)
                if followers is not None:
                    followers.tell()
        if self._waiting:
            ready = [one for one in self._waiting if self._is_there(one)]
            self._waiting = [one for one in self._waiting if not self._is_there(one)]
            _end(ready, None)
        self._touch(self)

    def lost(self, offset: int, error: ApiError) -> None:
        """What lies from `offset` on can't be counted on any more."""
        self._fail(error, beyond=offset)

    def _fail(self, error: ApiError, beyond: int = -1) -> None:
        lost = [one for one in self._waiting if one.offset > beyond]
        self._waiting = [one for one in self._waiting if one.offset <= beyond]
        _end(lost, error)

    # -- followers

    def check_follower(self, node_id: int, broker_epoch: int) -> None:
        """Raises UNKNOWN_LEADER_EPOCH if that is none of the replicas, as Kafka does: it then looks at the metadata
        again; NOT_LEADER_OR_FOLLOWER if its broker has been here with a newer epoch.
        """
        follower = None if self.followers is None else self.followers.get(node_id)
        if follower is None:
            raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)
        if NO_EPOCH != broker_epoch < follower.broker_epoch:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def fetched_by(
        self,
        node_id: int,
        offset: int,
        now: int,
        *,
        broker_epoch: int = NO_EPOCH,
        log_start_offset: int = -1,
        watch: tuple[Watch, Hashable] | None = None,
    ) -> None:
        """A follower asks for what lies from `offset` on, and is to hear of what comes by `watch`. Raises as
        `check_follower`.
        """
        self.check_follower(node_id, broker_epoch)
        followers = self.followers
        follower = None if followers is None else followers.get(node_id)
        assert followers is not None
        assert follower is not None
        follower.broker_epoch = max(broker_epoch, follower.broker_epoch)
        follower.log_start_offset, follower.watch = log_start_offset, watch
        follower.fetched(offset, self.log.log_end_offset, now)
        if node_id not in self.isr:
            followers.review(self.log.log_end_offset, now)
            self._wish(followers.with_newcomer(node_id, self._end_of_newcomers))
        self.advance()

    def review_followers(self, now: int) -> None:
        """What is known of other brokers has changed, or what is committed depends on something else."""
        if self.followers is not None:
            self.followers.review(self.log.log_end_offset, now)
            self._wish(self.followers.any_newcomer(self._end_of_newcomers, now))
            self.advance()

    def review_isr(self, now: int) -> None:
        """Look for followers that have fallen behind; from time to time."""
        if self.followers is not None:
            self._wish(self.followers.without_laggards(now, self.log.log_end_offset))
            self.review_followers(now)

    def isr_refused(self, now: int) -> None:
        """The wish is given up, until something has changed."""
        if self.followers is not None:
            self.followers.wished = None
            self.followers.review(self.log.log_end_offset, now)
            self.advance()

    def _wish(self, isr: tuple[int, ...] | None) -> None:
        if isr is not None and self._replication is not None and self.followers is not None:
            self.followers.wished = isr
            self._replication.wish_isr(self)

    def know_committed(self, leader_high_watermark: int) -> None:
        """The leader has told a follower up to where records are committed."""
        log = self.log
        known = min(leader_high_watermark, log.log_end_offset)
        if known > log.high_watermark:
            log.advance_high_watermark(known)
            self._touch(self)
