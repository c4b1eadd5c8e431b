"""The coordinators on this node, and how their state comes out of their logs.

Rule: a coordinator speaks for a key only where this node leads the key's partition and has read its log to the end: a
shard. Leadership alone begins a load and ends a shard, no question does. A load is read a slice at a time between
requests; meanwhile the answer is COORDINATOR_LOAD_IN_PROGRESS. A shard whose log can't be read is out of service
alone, logs why once, and tries again where time may help. A decision is appended, replayed at once, and told to nobody
before it is committed (`committed`), or not within `offsets.commit.timeout.ms` or its like. An answer that a node must
not give if another node has become the coordinator meanwhile waits for a record that is committed anew (`confirm`).

The same for groups, transactions and shares: the host knows the meaning of a batch.
"""

from __future__ import annotations

import heapq
import itertools
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from pykafka_broker.broker.coordinators.coordinator_log import SenselessRecord, coordinator_error, partition_for
from pykafka_broker.broker.node import ServerNode
from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.broker.waiting.future import DONE, Answer, Future, R, TooLate, all_of, when_committed
from pykafka_broker.cluster.image import MetadataDelta, PartitionImage
from pykafka_broker.coordinators.record import CoordinatorRecord, encode
from pykafka_broker.errors import ApiError
from pykafka_broker.log.partition_log import Origin
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.records.builder import build_keyed_batch
from pykafka_broker.records.errors import CorruptBatch
from pykafka_broker.records.header import NO_PRODUCER_ID

logger = logging.getLogger(__name__)

# How much of the logs is read before the first request may come, and between requests after that.
FIRST_SLICE_BYTES = 1 << 20
SLICE_BYTES = 1 << 18
_RETRY_MS = 1_000
K = TypeVar("K")


Replay = Callable[[CoordinatorRecord, int], object]  # a written record, and its offset


class CommitsOfSlices(Generic[K]):
    """The commits that an answer made in slices rests on.

    A slice takes the commits of the records that it has read or written before it yields. Asked for later, after
    another node has taken the log over without these records, the shards would know of nothing to wait for.

    committed: returns the future of all known records of some keys being committed.
    """

    def __init__(self, committed: Callable[..., Future[None]]) -> None:
        self._committed = committed
        self._keys: list[K] = []  # of this slice
        self._commits: list[Future[None]] = []

    def add(self, *keys: K) -> None:
        """Let the answer tell of keys."""
        self._keys += keys

    def take(self) -> None:
        """Take the commits of the keys of this slice. Raises what `committed` raises."""
        if self._keys:
            keys, self._keys = self._keys, []
            commit = self._committed(*keys)
            if not commit.succeeded:
                self._commits.append(commit)

    def when_committed(self, response: R) -> Answer[R]:
        """Return the response, to be given when all commits are done."""
        self.take()
        return when_committed(response, *self._commits)


class ShardHost(Protocol):
    """The reader and writer of a shard's records."""

    def load(self, index: int, partition: Partition) -> Iterator[int]:
        """Replay batch after batch; yields the size of each."""

    def loaded(self, index: int, epoch: int) -> None:
        """Speak for a shard from now on. A shard without records is not loaded before."""

    def unload(self, indexes: Collection[int]) -> None:
        """Forget shards: another node leads, or the partitions are gone."""


class Shard:
    """A partition of a coordinator's topic, led by the node in `epoch`."""

    def __init__(self, index: int, epoch: int) -> None:
        self.index = index
        self.epoch = epoch
        self.partition: Partition | None = None  # looked up when it is first needed
        self.loading: Iterator[int] | None = None
        self.ready = False
        self.problem: ApiError | None = None
        self.for_good = False  # time does not mend the problem
        self.logged_problem = ""
        self.confirmed = (-1, -1)  # when, and up to where, something was last appended for `confirm`


class _Late(NamedTuple):
    """A wait for a commit with a deadline."""

    at: int
    order: int  # of two with the same deadline the older one comes first
    commit: Future[None]
    answer: Future[None]


class CoordinatorShards:
    """The shards of a coordinator on the node, by partition of the topic (Kafka: CoordinatorRuntime).

    timeout_ms: returns how long an answer that tells of some keys waits for records to be committed.
    """

    def __init__(
        self, node: ServerNode, topic: str, host: ShardHost, timeout_ms: Callable[[Iterable[str]], int] | None = None
    ) -> None:
        self.topic = topic
        self._node = node
        self._host = host
        self._timeout_ms = timeout_ms
        self._expected: list[_Late] = []  # a heap
        self._order = itertools.count()
        self._shards: dict[int, Shard] = {}
        self._loading: list[Shard] = []
        self._retry_at: int | None = None
        self._count = 0

    # -- which

    @property
    def count(self) -> int:
        """The number of partitions of the topic; 0 without the topic."""
        return self._count

    def index_of(self, key: str) -> int:
        """Return the shard of a key; only with a topic."""
        return partition_for(key, self._count)

    def find(self, key: str) -> int:
        """Return the shard of a key. Raises NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS."""
        if self._count:
            index = partition_for(key, self._count)
            shard = self._shards.get(index)
            if shard is not None and shard.ready:
                return index
        raise ApiError(self.refusal(key))

    def commits_at_once(self, key: str, count: int) -> int | None:
        """Return the shard of a key, if it is loaded and its next `count` records are committed with their append; else
        None.
        """
        index = partition_for(key, self._count) if self._count else -1
        shard = self._shards.get(index)
        if shard is None or not shard.ready or shard.partition is None or not shard.partition.is_leader:
            return None
        log = shard.partition.log
        if log.sole_replica and log.log_end_offset + count - log.recovery_point < log.config.flush_messages:
            return index
        return None

    def refusal(self, key: str) -> ErrorCode:
        """Return why the node can't speak for a key; NONE if nothing is wrong."""
        if not self._count:
            return ErrorCode.NOT_COORDINATOR
        shard = self._shards.get(partition_for(key, self._count))
        if shard is not None and shard.ready:
            return ErrorCode.NONE
        if shard is None or shard.problem is not None:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def is_ready(self, index: int) -> bool:
        """Return whether a shard is loaded."""
        shard = self._shards.get(index)
        return shard is not None and shard.ready

    @property
    def loading(self) -> bool:
        return bool(self._loading)

    def ends(self) -> dict[int, int]:
        """Return the log end offsets of the loaded shards, without those whose log was never opened: it is empty."""
        shards = self._shards.values()
        return {each.index: each.partition.log.log_end_offset for each in shards if each.ready and each.partition}

    def partition(self, index: int) -> Partition:
        """Return the partition behind a shard. ApiError in the coordinator's words for a missing partition."""
        shard = self._shards.get(index)
        if shard is not None and shard.partition is not None and shard.partition.is_leader:
            return shard.partition
        try:
            partition = self._node.replicas.leader(self.topic, index)
        except ApiError as error:
            raise coordinator_error(error) from error
        if shard is not None:
            shard.partition = partition
        return partition

    # -- append, and what answers rest on

    def append(
        self,
        index: int,
        records: Sequence[CoordinatorRecord],
        replay: Replay | None = None,
        *,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = -1,
    ) -> None:
        """Append a decision's records as a batch, transactional if a producer is named, and replay them.

        A refusal is told in the coordinator's words, also of a batch above `max.message.bytes`; but tombstones alone
        may become several batches. Batches before a refusal are written and replayed then (Kafka: a result that is not
        atomic).
        """
        wall = self._node.clock.wall
        batch, header = build_keyed_batch(
            map(encode, records), wall, producer_id=producer_id, producer_epoch=producer_epoch
        )
        partition = self.partition(index)
        config = partition.log.config
        try:
            if len(batch) > config.max_message_bytes:
                self._append_divided(index, records, replay)
                return
            wanted = config.min_insync_replicas
            if wanted > 1:
                partition.check_insync(wanted)
            appended = partition.append(batch, wall, header=header, origin=Origin.COORDINATOR)
        except ApiError as error:
            raise coordinator_error(error) from error
        if replay is not None:
            for offset, record in enumerate(records, appended.base_offset):
                replay(record, offset)

    def _append_divided(self, index: int, records: Sequence[CoordinatorRecord], replay: Replay | None) -> None:
        if len(records) == 1 or any(record.value is not None for record in records):
            raise ApiError(ErrorCode.MESSAGE_TOO_LARGE)
        half = len(records) // 2
        self.append(index, records[:half], replay)
        self.append(index, records[half:], replay)

    def committed(self, *keys: str) -> Future[None]:
        """Return the future of all known records of the keys being committed.

        The future fails with `TooLate` after the time-out.
        """
        return self.shards_committed(self._shards_of(keys), keys)

    def when_committed(self, response: R, *keys: str) -> Answer[R]:
        """Return the response, to be given when all known records of the keys are committed: most often now."""
        indexes = self._shards_of(keys)
        return when_committed(response, self.shards_committed(indexes, keys)) if self.uncommitted(indexes) else response

    def _shards_of(self, keys: Collection[str]) -> Collection[int]:
        """Return the shards of keys: of more keys than there are shards, all shards."""
        if len(keys) > self._count:
            return self._shards
        return {partition_for(key, self._count) for key in keys}

    def all_committed(self) -> Future[None]:
        """Return the future of all known records being committed."""
        return self.shards_committed(self._shards)

    def shards_committed(self, indexes: Iterable[int], keys: Iterable[str] = ()) -> Future[None]:
        """Return the future of all known records of the shards being committed.

        keys: the keys in the answer, for the time-out.
        """
        behind = self.uncommitted(indexes)
        if not behind:
            return DONE
        if self._timeout_ms is None:
            return all_of(*(partition.committed(offset) for partition, offset in behind))
        until = self._node.clock.now + self._timeout_ms(keys)
        return all_of(*(self._in_time(partition.committed(offset), until) for partition, offset in behind))

    def _in_time(self, commit: Future[None], until: int) -> Future[None]:
        if commit.done:
            return commit
        answer = commit.then(lambda committed: None)  # may end before the commit
        heapq.heappush(self._expected, _Late(until, next(self._order), commit, answer))
        return answer

    def uncommitted(self, indexes: Iterable[int]) -> tuple[tuple[Partition, int], ...]:
        """Return the partitions of the shards with uncommitted records, with log end offsets."""
        behind = []
        for index in indexes:
            shard = self._shards.get(index)
            if shard is not None and shard.partition is not None:
                log = shard.partition.log
                if log.high_watermark < log.log_end_offset:
                    behind.append((shard.partition, log.log_end_offset))
        return tuple(behind)

    def has_replicas(self, index: int) -> bool:
        """Return whether other nodes have replicas of a shard's log, and so may become the coordinator.

        Raises a refusal in the coordinator's words.
        """
        return len(self.partition(index).state.replicas) > 1

    def confirm(self, index: int, record: CoordinatorRecord) -> None:
        """Have the base of answers committed anew, by a record without effect.

        Only a node that still leads the log can do that. One record is enough for all requests of the same turn.
        Nothing happens where there are no other replicas, nor where there are too few in sync: nobody could be told
        anything then.
        """
        if not self.has_replicas(index):
            return
        shard, log, now = self._shards[index], self.partition(index).log, self._node.clock.now
        if shard.confirmed == (now, log.log_end_offset):
            return
        try:
            self.append(index, [record])
        except ApiError as error:
            if error.code is not ErrorCode.COORDINATOR_NOT_AVAILABLE:
                raise
        shard.confirmed = now, log.log_end_offset

    def _refuse_late(self, now: int) -> None:
        while self._expected and self._expected[0].at <= now:
            late = heapq.heappop(self._expected)
            if not late.answer.done:
                late.commit.cancel()
                late.answer.fail(TooLate(ErrorCode.COORDINATOR_NOT_AVAILABLE))

    # -- leadership

    def start(self) -> None:
        """Begin with the present leaderships."""
        topic = self._node.image.topics.get(self.topic)
        if topic is None:
            return
        self._count = len(topic.partitions)
        self._follow(topic.partitions.values())
        self.read_on(FIRST_SLICE_BYTES)

    def follow(self, delta: MetadataDelta) -> None:
        """Load new leaderships, and forget lost leaderships."""
        if any(topic.name == self.topic for topic in delta.deleted):
            self.drop_all()
        topic = self._node.image.topics.get(self.topic)
        self._count = 0 if topic is None else len(topic.partitions)
        if topic is not None:
            changes = (*delta.new_partitions, *delta.changed_partitions)
            indexes = dict.fromkeys(state.partition for of, state in changes if of.id == topic.id)
            self._follow([topic.partitions[index] for index in indexes])

    def _follow(self, states: Collection[PartitionImage]) -> None:
        """Drop ended leaderships, all at once, since a host looks at each of its keys then; and begin new ones."""
        leads = {state.partition: state.leader_epoch for state in states if state.leader == self._node.id}
        known = [shard for state in states if (shard := self._shards.get(state.partition)) is not None]
        self._drop(*(shard for shard in known if leads.get(shard.index) != shard.epoch))
        for index, epoch in leads.items():
            if index not in self._shards:
                shard = self._shards[index] = Shard(index, epoch)
                if self._node.logs.is_fresh(self.topic, index):
                    self._is_loaded(shard)  # without opening the log: fifty of them are made for the first group
                else:
                    self._begin(shard)

    def _drop(self, *shards: Shard) -> None:
        for shard in shards:
            del self._shards[shard.index]
            if shard in self._loading:
                self._loading.remove(shard)
        if known := {shard.index for shard in shards if shard.ready or shard.loading is not None}:
            self._host.unload(known)

    def drop_all(self) -> None:
        self._drop(*self._shards.values())
        self._count = 0

    # -- load

    def _begin(self, shard: Shard) -> None:
        shard.problem = None
        try:
            partition = self.partition(shard.index)
        except ApiError as error:
            self._fail(shard, error)
            return
        shard.loading = self._host.load(shard.index, partition)
        if partition.log.log_start_offset < partition.log.log_end_offset:
            self._loading.append(shard)
        else:
            self._read(shard, 1)

    def read_on(self, budget: int) -> None:
        """Read another slice of the loading shards, shard after shard."""
        while self._loading and budget > 0:
            budget = self._read(self._loading[0], budget)

    def read_to_end(self, index: int) -> None:
        """Read the rest of a shard now, if the shard is loading."""
        shard = self._shards.get(index)
        if shard is not None and shard.loading is not None:
            self._read(shard, 1 << 62)

    def _read(self, shard: Shard, budget: int) -> int:
        """Read on in a shard; returns the rest of the budget."""
        assert shard.loading is not None
        try:
            for size in shard.loading:
                budget -= size
                if budget <= 0:
                    return 0
            self._is_loaded(shard)
        except ApiError as error:
            self._fail(shard, coordinator_error(error))
        except Exception as error:
            # Records that make no sense, or a defect of ours: the others must not suffer for either.
            logger.debug("while %s-%d was read", self.topic, shard.index, exc_info=True)
            kind = "" if isinstance(error, SenselessRecord | CorruptBatch) else f"{type(error).__name__}: "
            self._fail(shard, ApiError(ErrorCode.NOT_COORDINATOR, f"{kind}{error}"), for_good=True)
        return budget

    def _is_there(self, shard: Shard) -> bool:
        """Return whether a shard still exists: a failing disk ends a leadership in the middle of a load."""
        return self._shards.get(shard.index) is shard

    def _is_loaded(self, shard: Shard) -> None:
        if not self._is_there(shard):
            return
        if shard in self._loading:
            self._loading.remove(shard)
        shard.loading, shard.logged_problem = None, ""
        shard.ready = True
        self._host.loaded(shard.index, shard.epoch)

    def _fail(self, shard: Shard, error: ApiError, *, for_good: bool = False) -> None:
        if not self._is_there(shard):
            return
        if shard.logged_problem != str(error):
            shard.logged_problem = str(error)
            logger.error(
                "%s-%d can't be read, so its coordinator is out of service: %s", self.topic, shard.index, error
            )
        if shard in self._loading:
            self._loading.remove(shard)
        if shard.loading is not None or shard.ready:
            shard.loading, shard.ready = None, False
            self._host.unload({shard.index})
        shard.problem, shard.for_good = error, for_good
        if not for_good:
            self._retry_at = self._node.clock.now + _RETRY_MS

    # -- time

    def next_deadline(self) -> int | None:
        """Return the next deadline; at once while a shard is loading."""
        if self._loading:
            return 0
        expected = self._expected
        while expected and expected[0].answer.done:
            heapq.heappop(expected)
        if not expected:
            return self._retry_at
        return expected[0].at if self._retry_at is None else min(expected[0].at, self._retry_at)

    def on_deadline(self, now: int) -> None:
        self._refuse_late(now)
        if self._retry_at is not None and self._retry_at <= now:
            self._retry_at = None
            for shard in list(self._shards.values()):
                if shard.problem is not None and not shard.for_good and self._is_there(shard):
                    self._begin(shard)
        self.read_on(SLICE_BYTES)
