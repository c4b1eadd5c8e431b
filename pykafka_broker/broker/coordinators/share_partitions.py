"""The share partitions of this node: made at their first fetch, fed from the partition's log.

Rule: a share partition is made from its state at the share coordinator and writes its changes back there. A share
partition whose write is fenced is dropped and made anew at its next use. Where the coordinator is another node, a fetch
waits for its answer, and a change of a share partition waits for the change before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pykafka_broker.broker.coordinators.coordinator_log import ANOTHER_TIME
from pykafka_broker.broker.node import ServerNode
from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.broker.waiting.future import Future
from pykafka_broker.cluster.features import has_dead_letters
from pykafka_broker.config.group import GroupConfig
from pykafka_broker.config.values import reset_duration_ms
from pykafka_broker.coordinators.share.dead_letters import DeadLetters
from pykafka_broker.coordinators.share.sessions import ShareSession
from pykafka_broker.coordinators.share.share_partition import (
    AckBatch,
    Change,
    LogBatch,
    SharePartition,
    SharePartitionLimits,
    Store,
)
from pykafka_broker.coordinators.share.state import UNINITIALIZED, ShareKey, StateRun
from pykafka_broker.errors import NOT_HOSTED, ApiError
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.records.control import AbortedBatches
from pykafka_broker.records.header import iter_batches
from pykafka_broker.steps import at_once

if TYPE_CHECKING:
    from pykafka_broker.broker.coordinators.dead_letters import DeadLetterWriter
    from pykafka_broker.broker.coordinators.share_host import ShareHost

log = logging.getLogger(__name__)

_RETRY_MS = 1_000
READ_COMMITTED = "read_committed"
EARLIEST = "earliest"


class ReadBatches:
    """The batches of a read, with markers of transactions handed out like records, as Kafka does."""

    __slots__ = ("_data", "_ends", "batches")

    def __init__(self, data: bytes, aborted: AbortedBatches) -> None:
        self._data = memoryview(data)
        self.batches: list[LogBatch] = []
        self._ends: list[int] = []
        for header, batch in iter_batches(data):
            if header.is_control:
                aborted.ends(header, batch)
            has_data = header.is_control or not aborted.has(header)
            self.batches.append(LogBatch(header.base_offset, header.last_offset, has_data))
            self._ends.append(header.size + (self._ends[-1] if self._ends else 0))

    @property
    def size(self) -> int:
        return len(self._data)

    def between(self, first: int, last: int) -> memoryview:
        start, end = 0, 0
        for batch, ends in zip(self.batches, self._ends, strict=True):
            if batch.last < first:
                start = ends
            if batch.first <= last:
                end = ends
        return self._data[start:end]


class StateFenced(ApiError):
    """A change refused by the coordinator: the node does not know the present state."""


class NotYet(ApiError):
    """A state not known yet: another node is asked, and watchers hear of the answer."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


class Stored(Protocol):
    """The state of a share partition at the coordinator."""

    @property
    def start_offset(self) -> int: ...

    @property
    def runs(self) -> Sequence[StateRun]: ...

    @property
    def state_epoch(self) -> int: ...


class Acknowledged(NamedTuple):
    """The outcome of accepted acknowledgements.

    show: makes the acknowledgements visible; where another node keeps the state, once it has them.
    writing: the write to the other node, if any.
    """

    show: Callable[[], None]
    writing: Future[Any] | None

    def refusal(self) -> ApiError | None:
        """Return why the acknowledgements are not kept after all, once known."""
        error = None if self.writing is None else self.writing.error
        assert error is None or isinstance(error, ApiError)
        if error is None or error.code in ANOTHER_TIME:
            return error
        return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, error.message)


class Undecided(Future[None]):
    """A member's acknowledgements that wait for writes before them; done once all of them are decided about."""

    __slots__ = ("keys", "member_id")

    def __init__(self, keys: Collection[ShareKey], member_id: str) -> None:
        super().__init__()
        self.keys = keys
        self.member_id = member_id


class SharePartitions:
    """The share partitions of a node (Kafka: SharePartitionManager)."""

    def __init__(self, node: ServerNode, host: ShareHost, settings: Callable[[str], GroupConfig]) -> None:
        self._node = node
        self._host = host
        self.settings = settings
        self._partitions: dict[ShareKey, SharePartition] = {}
        self._made_in: dict[ShareKey, int] = {}  # the leader epoch of the partition that is read
        self._writing: dict[ShareKey, Future[Any]] = {}  # changes on their way to other nodes
        self._undecided: list[Undecided] = []  # acknowledgements behind such changes
        self._letters: DeadLetterWriter | None = None  # made for the first letter
        self._done_letters: dict[ShareKey, list[DeadLetters]] = {}  # of records that are not archived yet
        self._due: int | None = None  # no lock ends before

    # -- life

    def get(self, key: ShareKey) -> SharePartition:
        """Return a share partition, made anew in each leader epoch. ApiError if the state can't be read.

        Another leader may have changed the state between two epochs of this node.
        """
        partition = self.partition_of(key)
        epoch = partition.leader_epoch
        found = self._partitions.get(key)
        if found is None or self._made_in[key] != epoch:
            state = self._host.read(key, epoch)
            start = state.start_offset
            if start == UNINITIALIZED:
                start = self._first_offset(key.group_id, partition.log)
            found = self._partitions[key] = SharePartition(start, state.runs, state.state_epoch)
            self._made_in[key] = epoch
            found.give_up_again(self.limits(key.group_id))
            self._write_letters(key, found)
        return found

    def _first_offset(self, group_id: str, partition_log: PartitionLog) -> int:
        """Return the first offset for a new group (share.auto.offset.reset)."""
        reset = self.settings(group_id).share_auto_offset_reset
        if reset == EARLIEST:
            return partition_log.log_start_offset
        ago_ms = reset_duration_ms(reset)
        if ago_ms is not None:
            found = at_once(partition_log.offset_for_timestamp(self._node.clock.wall - ago_ms))
            if found is not None:
                return found.offset
        return partition_log.high_watermark

    def drop(self, key: ShareKey) -> None:
        """Drop a share partition after a change of the state elsewhere; waiting reads look again."""
        partition = self._partitions.pop(key, None)
        if partition is not None:
            del self._made_in[key]
            self._node.purgatory.touch(key)

    def drop_once_written(self, key: ShareKey, again: Callable[[], None]) -> None:
        """Drop a share partition, or call `again` after the write under way and the acknowledgements behind it."""
        before = self._writing.get(key) or next((each for each in self._undecided if key in each.keys), None)
        if before is None:
            self.drop(key)
        else:
            before.add_done_callback(lambda _: again())

    def has_locks(self, key: ShareKey) -> bool:
        """Return whether a member has records of a share partition."""
        return self._partitions[key].has_locks

    def of_group(self, group_id: str) -> list[ShareKey]:
        return [key for key in self._partitions if key.group_id == group_id]

    def drop_topic(self, topic_id: bytes) -> None:
        for key in [key for key in self._partitions if key.topic_id == topic_id]:
            self.drop(key)

    def drop_lost(self, lost: Collection[tuple[bytes, int]]) -> None:
        """Drop the share partitions of lost leaderships, by topic id and index."""
        for key in [key for key in self._partitions if (key.topic_id, key.partition) in lost]:
            self.drop(key)
        for key in [key for key in self._done_letters if (key.topic_id, key.partition) in lost]:
            del self._done_letters[key]
        if self._letters is not None:
            self._letters.forget(lost)

    def follow(self) -> None:
        """Look for the leaders of dead-letter topics anew: the metadata has changed."""
        if self._letters is not None:
            self._letters.follow()

    def partition_of(self, key: ShareKey) -> Partition:
        """Return the partition to read. Raises UNKNOWN_TOPIC_ID and the errors of `Replicas.leader`."""
        topic = self._node.image.topics_by_id.get(key.topic_id)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        return self._node.replicas.leader(topic.name, key.partition)

    def log_of(self, key: ShareKey) -> PartitionLog:
        return self.partition_of(key).log

    def limits(self, group_id: str) -> SharePartitionLimits:
        settings = self.settings(group_id)
        return SharePartitionLimits(
            settings.share_record_lock_duration_ms,
            settings.share_delivery_count_limit,
            settings.share_partition_max_record_locks,
            settings.share_renew_acknowledge_enable,
            settings.errors_deadletterqueue_topic_name != "" and has_dead_letters(self._node.image.features),
        )

    # -- reading

    def upper(self, key: ShareKey) -> int:
        """Return the offset below which a group may read."""
        partition_log = self.log_of(key)
        if self.settings(key.group_id).share_isolation_level == READ_COMMITTED:
            return partition_log.last_stable_offset
        return partition_log.high_watermark

    def size(self, key: ShareKey, partition: SharePartition) -> int:
        """Return the number of readable bytes; MORE_THAN_A_SEGMENT at the end of a segment."""
        partition_log, upper, offset = self.log_of(key), self.upper(key), partition.next_fetch_offset
        if not partition_log.log_start_offset <= offset < upper:
            return 0
        return partition_log.bytes_between(offset, upper)

    def read(self, key: ShareKey, partition: SharePartition, max_bytes: int, min_one: bool) -> ReadBatches | None:
        """Return the batches from the next offset on; None without batches. `min_one`: allow a larger first batch."""
        partition_log, upper = self.log_of(key), self.upper(key)
        if partition.next_fetch_offset < partition_log.log_start_offset:
            partition.log_starts_at(partition_log.log_start_offset)
        offset = partition.next_fetch_offset
        if not partition_log.log_start_offset <= offset < upper:
            return None
        found = partition_log.read(offset, max_bytes, upper, min_one=min_one)
        if found is None:
            return None
        is_committed_only = self.settings(key.group_id).share_isolation_level == READ_COMMITTED
        aborted = partition_log.aborted_transactions(offset, found.end_offset) if is_committed_only else ()
        return ReadBatches(partition_log.bytes_of(found.records), AbortedBatches(aborted))

    def acquired(self, partition: SharePartition) -> None:
        """Note new locks."""
        self._await(partition.due)

    # -- acknowledging

    def writing(self, key: ShareKey) -> Future[Any] | None:
        """Return the write that the next acknowledgement has to wait for, if any."""
        return self._writing.get(key)

    def await_decision(self, keys: Collection[ShareKey], member_id: str) -> Undecided:
        """Keep the member's records in the partitions until `decided`.

        Kafka decides about an acknowledgement when the request comes, whatever is being written. So neither the end of
        a lock nor the end of the session frees the records before the decision.
        """
        undecided = Undecided(keys, member_id)
        self._undecided.append(undecided)
        return undecided

    def decided(self, undecided: Undecided) -> None:
        """Let the locks and the session end that have waited for the decision."""
        self._undecided.remove(undecided)
        for key in undecided.keys:
            partition = self._partitions.get(key)
            if partition is not None:
                self._await(partition.due)
        undecided.complete(None)

    def acknowledge(self, key: ShareKey, member_id: str, batches: Sequence[AckBatch], now: int) -> Acknowledged:
        """Acknowledge records of a member.

        Raises ApiError; then nothing has changed. Nobody has records of a partition that nobody has read.
        """
        epoch = self.partition_of(key).leader_epoch
        partition = self._partitions.get(key)
        if partition is None or self._made_in[key] != epoch:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOT_HOSTED)
        settle = partition.acknowledge(
            member_id, batches, self.limits(key.group_id), now, self._store(key, partition, now)
        )
        show = self._showing(key, settle)
        self._await(partition.due)
        return Acknowledged(show, self._once_written(key, partition, show))

    def _showing(self, key: ShareKey, settle: Callable[[], None]) -> Callable[[], None]:
        def show() -> None:
            settle()
            partition = self._partitions.get(key)
            if partition is not None:
                self._write_letters(key, partition)
            self._node.purgatory.touch(key)

        return show

    def release(self, session: ShareSession, now: int) -> None:
        """Free a member's records in the partitions of the session.

        Records of partitions that have left the session stay acquired until their locks end, as with Kafka.
        """
        group_id, member_id = session.member
        keys = [ShareKey(group_id, *each) for each in session.partitions]
        for key, partition in [(key, self._partitions[key]) for key in keys if key in self._partitions]:
            self._release(key, partition, member_id, now)

    def _release(self, key: ShareKey, partition: SharePartition, member_id: str, now: int) -> None:
        def decided(_: Future[None]) -> None:
            if self._partitions.get(key) is partition:
                self._release(key, partition, member_id, self._node.clock.now)

        undecided = next((each for each in self._undecided if each.member_id == member_id and key in each.keys), None)
        if undecided is None:
            self._free(key, partition, partial(partition.release, member_id), now)
        else:
            undecided.add_done_callback(decided)

    def _free(
        self, key: ShareKey, partition: SharePartition, free: Callable[..., Callable[[], None] | None], now: int
    ) -> None:
        """Free records without a waiting request: if the change can't be stored, the locks still end some time."""
        writing = self._writing.get(key)
        if writing is not None:
            writing.add_done_callback(lambda _: self._free_later(key, partition, free))
            return
        try:
            settle = free(self.limits(key.group_id), self._store(key, partition, now))
        except ApiError as error:
            log.warning("share group %s: nothing is released: %s", key.group_id, error)
            self._await(now + _RETRY_MS)
            return
        if settle is not None:
            show = self._showing(key, settle)
            if self._once_written(key, partition, show) is None:
                show()

    def _free_later(
        self, key: ShareKey, partition: SharePartition, free: Callable[..., Callable[[], None] | None]
    ) -> None:
        if self._partitions.get(key) is partition:
            self._free(key, partition, free, self._node.clock.now)

    def _store(self, key: ShareKey, partition: SharePartition, now: int) -> Callable[[Change], None]:
        def store(change: Change) -> None:
            epoch = self.log_of(key).epochs.current
            try:
                writing = self._host.write(key, partition.state_epoch, epoch, change, now)
            except StateFenced as error:
                self.drop(key)
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, error.message) from None
            if writing is not None:
                self._writing[key] = writing

        return store

    def _once_written(self, key: ShareKey, partition: SharePartition, show: Callable[[], None]) -> Future[Any] | None:
        """Show a change after the write at another node; returns None without a write."""
        writing = self._writing.get(key)
        if writing is None:
            return None

        def written(_: Future[Any]) -> None:
            if self._writing.get(key) is writing:
                del self._writing[key]
            if writing.error is None:
                show()
                self._await(partition.due)
            elif isinstance(writing.error, ApiError) and writing.error.code in ANOTHER_TIME:
                self._await(self._node.clock.now + _RETRY_MS)
            elif self._partitions.get(key) is partition:
                self.drop(key)

        writing.add_done_callback(written)
        return writing

    # -- dead letters

    def _write_letters(self, key: ShareKey, partition: SharePartition) -> None:
        """Write letters of the records that were given up, and archive the records of letters done with."""
        letters = partition.take_given_up()
        if not letters:
            return
        done = self._done_letters.get(key, [])
        missing = [left for each in letters for left in each.without(done)]
        if missing:
            if self._letters is None:
                from pykafka_broker.broker.coordinators.dead_letters import DeadLetterWriter  # which few groups need

                self._letters = DeadLetterWriter(self._node, self.settings, self._letters_done)
            self._letters.write(key, missing)
        if done:
            self._archive(key)

    def _letters_done(self, key: ShareKey, letters: DeadLetters) -> None:
        self._done_letters.setdefault(key, []).append(letters)
        self._archive(key)

    def _archive(self, key: ShareKey) -> None:
        """Archive the records of letters done with; the state may have to be read again, or asked for, before."""
        partition, now = self._partitions.get(key), self._node.clock.now
        if partition is None:
            try:
                partition = self.get(key)
            except ApiError as error:
                if error.code in ANOTHER_TIME:
                    self._await(now + _RETRY_MS)
                else:
                    del self._done_letters[key]  # the group or the topic has gone, or the partition has another leader
                return
        self._free(key, partition, partial(self._archiving, key, partition), now)

    def _archiving(
        self, key: ShareKey, partition: SharePartition, limits: SharePartitionLimits, store: Store
    ) -> Callable[[], None]:
        done = self._done_letters.get(key, [])[:]
        settle = partition.archive(done, store)

        def settled() -> None:
            settle()
            left = [each for each in self._done_letters.pop(key, []) if each not in done]
            if left:
                self._done_letters[key] = left

        return settled

    # -- time

    def _await(self, due: int | None) -> None:
        if due is not None and (self._due is None or due < self._due):
            self._due = due

    def next_deadline(self) -> int | None:
        pause = None if self._letters is None else self._letters.next_deadline()
        return self._due if pause is None else pause if self._due is None else min(pause, self._due)

    def on_deadline(self, now: int) -> None:
        """Free records with expired locks, and try again what failed."""
        if self._letters is not None:
            self._letters.on_deadline(now)
        if self._due is None or now < self._due:
            return
        self._due = None
        for key in list(self._done_letters):
            if key not in self._writing:
                self._archive(key)
        for key, partition in list(self._partitions.items()):
            if key in self._writing:
                continue  # when that is over this is looked at again
            if partition.due is not None and partition.due <= now:
                waiting = {each.member_id for each in self._undecided if key in each.keys}
                self._free(key, partition, partial(partition.on_deadline, now, waiting), now)
            if partition.due is not None and partition.due > now:
                self._await(partition.due)
