"""How transactions whose outcome is known come to their end.

Rule: the outcome is committed first; then each partition that takes part gets its marker from whoever leads it now, and
when these are committed the end is recorded. Each step waits for the one before it, or a power cut could leave a
transaction committed in one partition and not in another. What can't be done now is tried again, with leaders looked up
anew, until this node is not the coordinator any more. A producer that was fenced in a partition behind the
coordinator's back leaves its transaction undecided there, as with Kafka, until the next load.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import cached_property, partial
from typing import TYPE_CHECKING

from pykafka_broker.broker.coordinators.shards import CoordinatorShards
from pykafka_broker.broker.coordinators.transaction_markers import OffsetsDecided, write_marker
from pykafka_broker.broker.node import Node
from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.broker.waiting.future import DONE, Future, all_of
from pykafka_broker.coordinators.transactions.coordinator import Markers, TransactionCoordinator
from pykafka_broker.coordinators.transactions.transaction import TopicPartition
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from pykafka_broker.broker.coordinators.marker_sender import MarkerSender, Order

log = logging.getLogger(__name__)

MARKER_RETRY_MS = 1_000
ELSEWHERE_RETRY_MS = 100  # leaders change within seconds, and others than them know it first
_FENCED = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    }
)


class Ending:
    """One transaction on its way from its outcome to its end."""

    __slots__ = ("busy", "coordinator", "done", "given_up", "markers", "number", "orders", "refused", "told", "written")

    def __init__(self, number: int, coordinator: TransactionCoordinator, markers: Markers) -> None:
        self.number = number  # of the shard
        self.coordinator = coordinator
        self.markers = markers
        self.done: set[TopicPartition] = set()  # they have their marker, or need none
        self.written: tuple[tuple[Partition, int], ...] = ()  # markers in partitions led here, and their ends
        self.orders: list[Order] = []  # to other brokers
        self.refused: dict[TopicPartition, str] = {}  # at this try
        self.told = ""  # of that, to the log
        self.busy = False  # one step waits for the one before it
        self.given_up = False  # fenced behind the coordinator's back

    @property
    def name(self) -> str:
        return self.markers.transactional_id


RecordEnd = Callable[[Ending], None]  # raises ApiError


class TransactionEnds:
    """Those of all shards on this node. `record_end` commits the end of one; `wake` asks for `go_on` at that time."""

    def __init__(
        self,
        node: Node,
        shards: CoordinatorShards,
        offsets_decided: OffsetsDecided,
        record_end: RecordEnd,
        wake: Callable[[int], None],
    ) -> None:
        self._node = node
        self._shards = shards
        self._offsets_decided = offsets_decided
        self._record_end = record_end
        self._wake = wake
        self._endings: dict[str, Ending] = {}

    @cached_property
    def _elsewhere(self) -> MarkerSender:
        from pykafka_broker.broker.coordinators.marker_sender import MarkerSender  # few have partitions on other nodes

        return MarkerSender(self._node)

    def __len__(self) -> int:
        return len(self._endings)

    def done(self, transactional_id: str) -> frozenset[TopicPartition]:
        """The partitions that need no marker any more."""
        ending = self._endings.get(transactional_id)
        return frozenset() if ending is None else frozenset(ending.done)

    def is_elsewhere(self, transactional_id: str) -> bool:
        """Whether its end waits for other brokers."""
        ending = self._endings.get(transactional_id)
        return ending is not None and bool(ending.orders)

    def committed(self, transactional_id: str) -> Future[None]:
        """Return the future of the markers that no other replica has to have and that this node still syncs. One that
        other brokers have to fetch is not waited for, as in Kafka: they may be dead.
        """
        ending = self._endings.get(transactional_id)
        if ending is None:
            return DONE
        own = [each for each in ending.written if each[0].followers is None]
        return all_of(*(partition.committed(offset) for partition, offset in own))

    def forget(self, transactional_ids: Iterable[str]) -> None:
        """Another node is the coordinator of these, and does it all again."""
        for name in transactional_ids:
            ending = self._endings.pop(name, None)
            for order in () if ending is None else ending.orders:
                order.drop()

    def follow(self) -> None:
        """Leaders may have changed: go to the new ones now."""
        if self._endings:
            if any(ending.orders for ending in self._endings.values()):
                self._elsewhere.forget_moved()
            self._wake(self._node.clock.now)

    def go_on(self, number: int, coordinator: TransactionCoordinator) -> None:
        """End what can be ended now."""
        for markers in coordinator.markers_due():
            name = markers.transactional_id
            ending = self._endings.get(name)
            if ending is None:
                ending = self._endings[name] = Ending(number, coordinator, markers)
            if not ending.given_up and not ending.busy:
                ending.busy = True
                self._when_committed(ending, self._shards.uncommitted([number]), self._write)

    # -- one after the other

    def _when_committed(
        self, ending: Ending, written: Iterable[tuple[Partition, int]], then: Callable[[Ending], None]
    ) -> None:
        """Go on when all of this is committed, at once if it is; else try again later."""
        commits = all_of(*(partition.committed(offset) for partition, offset in written))
        commits.add_done_callback(partial(self._committed, ending, then))

    def _committed(self, ending: Ending, then: Callable[[Ending], None], commits: Future[None]) -> None:
        if self._endings.get(ending.name) is not ending:
            return  # unloaded
        if commits.error is None:
            then(ending)
            return
        log.warning("the end of transaction %s can't be committed: %s", ending.name, commits.error)
        ending.done.clear()  # which of the markers are lost is not known
        ending.written = ()
        self._again(ending, MARKER_RETRY_MS)

    def _again(self, ending: Ending, delay_ms: int) -> None:
        ending.busy = False
        self._wake(self._node.clock.now + delay_ms)

    def _write(self, ending: Ending) -> None:
        """Write what is missing, or have it written. A partition that can't be written to does not keep the others
        undecided.
        """
        ending.refused = {}
        away: dict[int, list[TopicPartition]] = {}
        for each in sorted(ending.markers.partitions - ending.done):
            leader = self._other_leader(each)
            if leader is None:
                self._write_here(ending, each)
            else:
                away.setdefault(leader, []).append(each)
        answered = partial(self._answered, ending)
        ending.orders = [self._elsewhere.order(ending.markers, some, answered) for some in away.values()]
        for broker_id, order in list(zip(away, ending.orders, strict=True)):
            self._elsewhere.send(broker_id, order)
        if not away:
            self._all_tried(ending)

    def _other_leader(self, partition: TopicPartition) -> int | None:
        """The other node that leads it; None if none does."""
        state = self._node.image.partition(*partition)
        return None if state is None or state.leader in (self._node.id, -1) else state.leader

    def _write_here(self, ending: Ending, partition: TopicPartition) -> None:
        try:
            where = write_marker(self._node, *partition, ending.markers, self._offsets_decided)
            ending.written = (*ending.written, where)
            ending.done.add(partition)
        except ApiError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # deleted since: no marker is needed
                ending.done.add(partition)
            else:
                self._refuse(ending, partition, error)

    def _answered(self, ending: Ending, partition: TopicPartition, code: ErrorCode) -> None:
        """By its leader at another node, which has its marker for good. If there is no such partition the leader may
        not have heard of it yet: if it is deleted, this node hears of that too.
        """
        if code is ErrorCode.NONE:
            ending.done.add(partition)
        else:
            self._refuse(ending, partition, ApiError(code))
        if not any(order.partitions for order in ending.orders):
            self._all_tried(ending)

    def _refuse(self, ending: Ending, partition: TopicPartition, error: ApiError) -> None:
        if error.code in _FENCED:
            log.warning("transaction %s stays undecided in %s-%d: %s", ending.name, *partition, error)
            ending.given_up = True
        else:
            ending.refused[partition] = str(error)

    def _all_tried(self, ending: Ending) -> None:
        if ending.given_up:
            ending.busy = False
        elif ending.refused:
            self._tell(ending)
            self._again(ending, ELSEWHERE_RETRY_MS if ending.orders else MARKER_RETRY_MS)
        else:
            self._when_committed(ending, ending.written, self._record)

    def _tell(self, ending: Ending) -> None:
        (topic, number), why = next(iter(ending.refused.items()))
        text = f"{len(ending.refused)} partitions, as {topic}-{number}: {why}"
        if text != ending.told:
            ending.told = text
            log.warning("no marker of %s in %s", ending.name, text)

    def _record(self, ending: Ending) -> None:
        del self._endings[ending.name]
        try:
            self._record_end(ending)
        except ApiError as error:
            log.warning("the end of transaction %s can't be recorded: %s", ending.name, error)
            self._wake(self._node.clock.now + MARKER_RETRY_MS)
