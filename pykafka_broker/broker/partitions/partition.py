"""A partition of which this node has a replica (Kafka: Partition).

Rule: the facts of a partition are decided here and nowhere else: leader, leader epoch, ISR, high watermark, and the
requests that wait for the high watermark. The log below knows bytes and offsets, and is told the high watermark. No
socket and no clock: fetches of followers and the time come in as arguments.

A record is committed when every replica that is in sync, is proposed for the ISR, or keeps up has the record (KIP-966:
the maximal ISR), this replica included: where `flush.messages` asks for a sync, after the sync
(`PartitionLog.durable_end`). No record is committed while fewer replicas than `min.insync.replicas` are in sync. Only
the controller decides about the ISR; until it has answered, the replicas of the ISR and of the proposed ISR are
required.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pykafka_broker.broker.waiting.future import DONE, Future, failed
from pykafka_broker.cluster.image import PartitionImage
from pykafka_broker.errors import ApiError
from pykafka_broker.log.partition_log import AppendInfo, Origin, PartitionLog
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.records.header import BatchHeader

if TYPE_CHECKING:
    from pykafka_broker.broker.partitions.fetch_session import Key, SessionWatch

# -- the followers, as the leader knows them


UNKNOWN_OFFSET = -1
NO_EPOCH = -1  # of a leader or of a broker
_FETCH_WAIT_MS = 500  # `replica.fetch.wait.max.ms`: a follower asks at least so often
_STILL_ASKING_MS = 2_000  # beyond that wait

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
        "has_all",
        "leader_end_at_fetch",
        "log_end_offset",
        "log_start_offset",
        "watch",
    )

    def __init__(self, caught_up_ms: int = 0) -> None:
        """Begin before the first fetch. caught_up_ms: when the leader began, for a follower in sync at that time."""
        self.watch: tuple[SessionWatch, Key] | None = None
        self.log_end_offset = self.log_start_offset = UNKNOWN_OFFSET  # before its first fetch
        self.broker_epoch = NO_EPOCH
        self.caught_up_ms = caught_up_ms
        self.fetched_ms = 0
        self.leader_end_at_fetch = 0
        self.has_all = False  # the leader has appended nothing since a fetch from its log's end

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
        self.has_all = offset >= leader_end
        self.fetched_ms = now

    def asked_since(self, since: int) -> bool:
        """Return whether the follower has fetched the partition since `since`, alone or in a fetch session."""
        if self.fetched_ms >= since:
            return True
        return self.watch is not None and self.watch[0].asked_ms >= since and self.watch[0].asks(self.watch[1])

    def tell_to(self, watch: tuple[SessionWatch, Key] | None) -> None:
        """Replace the watch, and tell the former watch: a late request of an older session may take the partition."""
        former, self.watch = self.watch, watch
        if former is not None and (watch is None or former[0] is not watch[0]):
            former[0].lose(former[1])

    def tell(self, leader_end: int) -> None:
        """Tell the follower's watch of news. A follower that had all until now was caught up as long as it kept asking.

        From then on it has a backlog until its next fetch of the partition. Its fetches of others say nothing about
        that: the partition may be out of service there.
        """
        if self.watch is not None:
            watch, key = self.watch
            if self.has_all:
                self.caught_up_ms = max(self.caught_up_ms, watch.asked_ms)
                self.has_all = self.log_end_offset >= leader_end
            watch.note(key)


class Followers:
    """The other replicas of a partition, in one epoch of the leader."""

    __slots__ = (
        "_by_id",
        "_catching_up",
        "_may_join",
        "_node_id",
        "_state",
        "fetch_wait_ms",
        "max_lag_ms",
        "proposed_isr",
    )

    def __init__(
        self, node_id: int, state: PartitionImage, log_end_offset: int, now: int, max_lag_ms: int, may_join: MayJoin
    ) -> None:
        self._node_id = node_id
        self._may_join = may_join
        self.max_lag_ms = max_lag_ms
        self.fetch_wait_ms = _FETCH_WAIT_MS
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

    def tell(self, log_end_offset: int) -> None:
        """Tell all followers of new records, or of a new high watermark."""
        for each in self._by_id.values():
            each.tell(log_end_offset)

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
            if self._may_join(node_id, NO_EPOCH, self._state.directory_of(node_id))
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
        since = now - self.fetch_wait_ms - _STILL_ASKING_MS
        for node_id, follower in self._by_id.items():
            if follower.log_end_offset >= 0 and follower.asked_since(since):
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


# -- the partition


_MAX_LAG_MS = 30_000


class NotLeader(ApiError):
    """A partition led by another node or by none, asked for in an older epoch, or by a node that may not follow.

    Clients are told the leader where their version has a field.
    """

    def __init__(self, leader: int, leader_epoch: int, code: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> None:
        super().__init__(code)
        self.leader = leader
        self.leader_epoch = leader_epoch


class _Waiting(NamedTuple):
    offset: int
    durable: bool  # enough if this replica has the records for good
    future: Future[None]


class Replication(Protocol):
    """The node's part in a partition with several replicas."""

    @property
    def max_lag_ms(self) -> int:
        """Return `replica.lag.time.max.ms`."""

    @property
    def fetch_wait_ms(self) -> int:
        """Return `replica.fetch.wait.max.ms`: brokers have the same as a rule."""

    def may_join(self, node_id: int, broker_epoch: int, directory_id: bytes) -> bool:
        """Return whether the metadata allows the broker's replica in the directory to be in sync."""

    def submit_isr(self, partition: Partition) -> None:
        """Ask the controller for the proposed ISR."""


class Partition:
    """A partition with a loaded log, made by `Replicas`. touch: wakes the requests that watch the partition."""

    # invariant: high watermark <= durable end of this replica and the log end of every other one in sync
    __slots__ = (
        "_node_id",
        "_replication",
        "_touch",
        "_waiting",
        "epoch_start",
        "followers",
        "index",
        "is_leader",
        "log",
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
        self.index = log.partition
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
        return f"Partition({self.topic}-{self.index}, leader {self.state.leader}, epoch {self.leader_epoch})"

    # -- role

    @property
    def leader_epoch(self) -> int:
        return self.state.leader_epoch

    @property
    def isr(self) -> tuple[int, ...]:
        return self.state.isr

    def update(self, state: PartitionImage, now: int) -> None:
        """Take over the state of the metadata.

        An older state is passed over: a change may arrive after a later change has been seen in the image.
        """
        if state.partition_epoch < self.state.partition_epoch:
            return
        leads = state.leader == self._node_id
        begins = leads and not (self.is_leader and state.leader_epoch == self.leader_epoch)
        self.state = state
        self.is_leader = leads
        if self.followers is not None and (not leads or begins):
            self.followers.tell(self.log.log_end_offset)
            self.followers = None
        if not leads:
            self.log.set_sole_replica(False)
            self.fail(NotLeader(state.leader, state.leader_epoch))
            return
        if begins:
            self.log.epochs.lead(state.leader_epoch)
            self.epoch_start = self.log.log_end_offset
            self.log.forget_gap()  # the leader's log is the partition
        if len(state.replicas) > 1:
            self._follow_replicas(now)
        self.advance()

    def _follow_replicas(self, now: int) -> None:
        if self.followers is not None:
            self.followers.follow(self.state, self.log.log_end_offset, now)
            self._propose(self.followers.any_newcomer(self._end_of_newcomers, now))
            return
        replication, end = self._replication, self.log.log_end_offset
        max_lag_ms = _MAX_LAG_MS if replication is None else replication.max_lag_ms
        may_join = replication.may_join if replication is not None else lambda node_id, broker_epoch, directory_id: True
        self.followers = Followers(self._node_id, self.state, end, now, max_lag_ms, may_join)
        if replication is not None:
            self.followers.fetch_wait_ms = replication.fetch_wait_ms

    def close(self, error: ApiError) -> None:
        """End the service of the partition, with an error for the waiting requests."""
        self.is_leader = False
        self.fail(error)
        self.moved()
        self.followers = None

    def moved(self) -> None:
        """Wake the requests and followers that watch the partition."""
        self._touch(self)
        if self.followers is not None:
            self.followers.tell(self.log.log_end_offset)

    def check_epoch(self, epoch: int) -> None:
        """Check a client's leader epoch (KIP-320).

        Raises FENCED_LEADER_EPOCH for an older epoch, UNKNOWN_LEADER_EPOCH for a newer one.
        """
        if epoch == NO_EPOCH or epoch == self.leader_epoch:
            return
        if epoch < self.leader_epoch:
            raise NotLeader(self.state.leader, self.leader_epoch, ErrorCode.FENCED_LEADER_EPOCH)
        raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    # -- appending

    def check_insync(self, wanted: int) -> None:
        """Check `min.insync.replicas` for acks=all; the number of replicas is the most (KIP-966).

        Raises NOT_ENOUGH_REPLICAS.
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
        if log.high_watermark > appended.last_offset or not log.sole_replica:  # else a sync is to commit the batch
            self._touch(self)
        if self.followers is not None:
            self.followers.tell(log.log_end_offset)
        return appended

    # -- what is committed

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    @property
    def knows_committed(self) -> bool:
        """Return whether the high watermark has reached the begin of this leader's epoch.

        The high watermark is behind while followers have yet to fetch, or while the records left by a crash are synced
        for `flush.messages`.
        """
        return self.epoch_start <= self.log.high_watermark

    @property
    def _end_of_newcomers(self) -> int:
        """Return the offset that a follower must reach to join the ISR: all committed records and the epoch's begin."""
        return max(self.log.high_watermark, self.epoch_start)

    @property
    def low_watermark(self) -> int:
        """Return the lowest log start offset of replicas on live brokers; -1 while unknown."""
        own_start = self.log.log_start_offset
        low_watermark = own_start if self.followers is None else self.followers.low_watermark(own_start)
        return -1 if low_watermark is None else low_watermark

    def committed(self, offset: int) -> Future[None]:
        """Return the future of all records below `offset` being committed; its error says why they never will be."""
        return self._wait(offset, durable=False)

    def durable(self, offset: int) -> Future[None]:
        """Return the future of all records below `offset` being durable on this replica (acks=1)."""
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
        self._waiting = [each for each in self._waiting if each.future is not future]

    def _is_there(self, waiting: _Waiting) -> bool:
        reached = self.log.durable_end if waiting.durable else self.log.high_watermark
        return reached >= waiting.offset

    def advance(self) -> None:
        """Move the high watermark, after a replica's end or the ISR has changed, and complete the waits below.

        The high watermark never goes back.
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
                    followers.tell(log.log_end_offset)
        if ready := [each for each in self._waiting if self._is_there(each)]:
            self._waiting = [each for each in self._waiting if not self._is_there(each)]
            for each in ready:
                each.future.complete(None)
        self._touch(self)

    def fail(self, error: ApiError, offset: int = 0) -> None:
        """Fail the waits for records from `offset` on."""
        if not self._waiting:
            return
        lost = [each for each in self._waiting if each.offset > offset]
        self._waiting = [each for each in self._waiting if each.offset <= offset]
        for each in lost:
            each.future.fail(error)

    # -- followers

    def check_follower(self, node_id: int, broker_epoch: int, *, names_epoch: bool = True) -> FollowerProgress:
        """Check that the node has a replica, and that its broker epoch is the newest known.

        Raises UNKNOWN_LEADER_EPOCH for a node without a replica, as Kafka does: the node then looks at the metadata
        again; NOT_LEADER_OR_FOLLOWER for an older broker epoch, and for a node without a replica that does not name
        the leader epoch which it knows (`names_epoch`).
        """
        follower = None if self.followers is None else self.followers.get(node_id)
        if follower is None:
            if names_epoch:
                raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)
            raise NotLeader(self.state.leader, self.leader_epoch)
        if NO_EPOCH != broker_epoch < follower.broker_epoch:
            raise NotLeader(self.state.leader, self.leader_epoch)
        return follower

    def fetched_by(
        self,
        node_id: int,
        offset: int,
        now: int,
        *,
        broker_epoch: int = NO_EPOCH,
        log_start_offset: int = -1,
        watch: tuple[SessionWatch, Key] | None = None,
    ) -> None:
        """Note a follower's fetch from `offset`; `watch` tells the follower of news. Raises as `check_follower`."""
        follower = self.check_follower(node_id, broker_epoch)
        followers = self.followers
        assert followers is not None
        follower.broker_epoch = max(broker_epoch, follower.broker_epoch)
        follower.log_start_offset = log_start_offset
        follower.tell_to(watch)
        follower.fetched(offset, self.log.log_end_offset, now)
        if node_id not in self.isr:
            followers.review(self.log.log_end_offset, now)
            self._propose(followers.with_newcomer(node_id, self._end_of_newcomers))
        self.advance()

    def review_followers(self, now: int) -> None:
        """Look at ISR and high watermark again, after a change of other brokers or of `min.insync.replicas`."""
        if self.followers is not None:
            self.followers.review(self.log.log_end_offset, now)
            self._propose(self.followers.any_newcomer(self._end_of_newcomers, now))
            self.advance()

    def review_isr(self, now: int) -> None:
        """Propose an ISR without followers that have fallen behind; called from time to time."""
        if self.followers is not None:
            self._propose(self.followers.without_laggards(now, self.log.log_end_offset))
            self.review_followers(now)

    def isr_refused(self, now: int) -> None:
        """Give up the proposed ISR, which the controller has refused, until a change."""
        if self.followers is not None:
            self.followers.proposed_isr = None
            self.followers.review(self.log.log_end_offset, now)
            self.advance()

    def _propose(self, isr: tuple[int, ...] | None) -> None:
        if isr is not None and self._replication is not None and self.followers is not None:
            self.followers.proposed_isr = isr
            self._replication.submit_isr(self)

    def know_committed(self, leader_high_watermark: int) -> None:
        """Take over the leader's high watermark, as a follower."""
        log = self.log
        known = min(leader_high_watermark, log.log_end_offset)
        if known > log.high_watermark:
            log.advance_high_watermark(known)
            self._touch(self)
