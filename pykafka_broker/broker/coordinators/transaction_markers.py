"""The markers that end transactions, from the outcome to the recorded end.

Rule: the outcome is committed first; then each partition that takes part gets its marker from its present leader, and
when the markers are committed the end is recorded. Each step waits for the one before it, or a power cut could leave a
transaction committed in one partition and not in another. Markers that can't be written now are tried again, with
leaders looked up anew, until this node is not the coordinator any more. A producer that was fenced in a partition
behind the coordinator's back leaves its transaction undecided there, as with Kafka, until the next load.

A marker is an append like any other, under the producer's id and the epoch that the coordinator names; the partition
refuses a marker of an older epoch or of a coordinator that has been replaced. A marker in `__consumer_offsets` decides
the offsets that its producer has pending there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial

from pykafka_broker.broker.channels import RequestBatcher
from pykafka_broker.broker.coordinators.shards import CoordinatorShards
from pykafka_broker.broker.node import ServerNode
from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.broker.waiting.future import DONE, PARTITIONS_A_SLICE, Future, Steps, all_of
from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS
from pykafka_broker.coordinators.transactions.coordinator import Markers, TransactionCoordinator
from pykafka_broker.errors import ApiError
from pykafka_broker.log.partition_log import Origin
from pykafka_broker.peers import LinkError
from pykafka_broker.protocol.enums import PartitionKey, by_topic
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from pykafka_broker.protocol.messages.write_txn_markers_response import WritableTxnMarkerResult, WriteTxnMarkersResponse
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.records.control import build_end_transaction_marker
from pykafka_broker.records.header import set_max_timestamp

_MOST_PARTITIONS = 10_000  # in a request, unless one transaction has more
OffsetsDecided = Callable[[int, int, bool], None]  # partition of `__consumer_offsets`, producer id, committed


def write_marker(
    node: ServerNode, topic: str, index: int, markers: Markers, offsets_decided: OffsetsDecided
) -> tuple[Partition, Future[None]]:
    """Append a marker; returns the partition and the future of the marker being committed.

    The wait begins with the append: after a change of leaders the same offset may hold another record, and the
    marker be cut off. Raises ApiError if the partition refuses.
    """
    partition, wall = node.replicas.leader(topic, index), node.clock.wall
    batch = build_end_transaction_marker(
        commit=markers.commit,
        producer_id=markers.producer_id,
        producer_epoch=markers.producer_epoch,
        coordinator_epoch=markers.coordinator_epoch,
        timestamp=wall,
    )
    if partition.log.config.message_timestamp_type == "LogAppendTime":
        set_max_timestamp(batch, wall, log_append_time=True)
    appended = partition.append(batch, wall, origin=Origin.COORDINATOR, transaction_version=markers.transaction_version)
    if topic == CONSUMER_OFFSETS:
        offsets_decided(index, markers.producer_id, markers.commit)
    return partition, partition.committed(appended.last_offset + 1)


Answered = Callable[[PartitionKey, ErrorCode], None]


class MarkerRequest:
    """The partitions of a transaction that another broker leads and has to mark."""

    __slots__ = ("answered", "markers", "partitions")

    def __init__(self, markers: Markers, partitions: Iterable[PartitionKey], answered: Answered) -> None:
        self.markers = markers
        self.partitions = set(partitions)  # not answered yet
        self.answered = answered

    def answer(self, partition: PartitionKey, code: ErrorCode) -> None:
        if partition in self.partitions:
            self.partitions.discard(partition)
            self.answered(partition, code)

    def fail(self, code: ErrorCode) -> None:
        for each in sorted(self.partitions):
            self.answer(each, code)


class MarkerSender(RequestBatcher[MarkerRequest]):
    """The markers of the node's coordinators for other brokers."""

    client_id = "broker-%d-txn-marker-sender"

    def _end_moved(self, broker_id: int, wanted: MarkerRequest) -> bool:
        moved = [each for each in sorted(wanted.partitions) if not self._leads(broker_id, each)]
        for each in moved:
            wanted.answer(each, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return bool(moved)

    def drop(self, requests: Iterable[MarkerRequest]) -> None:
        """Send none of the requests any more."""
        dropped = {*requests}
        for request in dropped:
            request.partitions.clear()
        self._choose_anew({broker_id for broker_id, request in self._unanswered() if request in dropped})

    def _choose(self, waiting: list[MarkerRequest]) -> tuple[list[MarkerRequest], list[MarkerRequest]]:
        """Choose one request for each producer, since an answer names the producer alone; and not too many together.

        A broker that was away for a while is sent thousands, and no broker takes a request of very many elements.
        """
        requests: dict[int, MarkerRequest] = {}
        later, size = [], 0
        for at, request in enumerate(waiting):
            count = len(request.partitions)
            if requests and size + count > _MOST_PARTITIONS:
                later += waiting[at:]
                break
            if count and requests.setdefault(request.markers.producer_id, request) is not request:
                later.append(request)
            else:
                size += count
        return list(requests.values()), later

    def _request(self, wanted: list[MarkerRequest]) -> Message:
        return WriteTxnMarkersRequest([_marker(request) for request in wanted])

    def _complete(self, wanted: list[MarkerRequest], answer: Message | LinkError) -> None:
        if isinstance(answer, WriteTxnMarkersResponse):
            results = {result.producer_id: result for result in answer.markers}
            for request in wanted:
                result = results.get(request.markers.producer_id)
                if result is not None:
                    _answer_with(request, result)
        for request in wanted:  # partitions without a result
            request.fail(ErrorCode.NETWORK_EXCEPTION)


def _answer_with(request: MarkerRequest, result: WritableTxnMarkerResult) -> None:
    for topic in result.topics:
        for partition in topic.partitions:
            request.answer((topic.name, partition.partition_index), ErrorCode(partition.error_code))


def _marker(request: MarkerRequest) -> WritableTxnMarker:
    markers = request.markers
    return WritableTxnMarker(
        markers.producer_id,
        markers.producer_epoch,
        markers.commit,
        [WritableTxnMarkerTopic(*topic) for topic in by_topic(sorted(request.partitions)).items()],
        markers.coordinator_epoch,
        markers.transaction_version,
    )


log = logging.getLogger(__name__)

MARKER_RETRY_MS = 1_000
ELSEWHERE_RETRY_MS = 100  # a partition may have a new leader that this node does not know yet
_FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})


class PendingCompletion:
    """A transaction whose outcome is decided and whose end is not recorded yet."""

    def __init__(self, index: int, coordinator: TransactionCoordinator, markers: Markers) -> None:
        self.index = index  # the partition of the coordinator's log
        self.coordinator = coordinator
        self.markers = markers
        self.done: set[PartitionKey] = set()  # partitions that have their marker, or need none
        self.written: list[tuple[Partition, Future[None]]] = []  # markers in partitions led here, and commits
        self.writing = DONE  # the work on the markers of this try, which goes on in slices
        self.requests: list[MarkerRequest] = []  # to other brokers
        self.refused: dict[PartitionKey, str] = {}  # the reasons at this try
        self.logged_refusals = ""  # as last logged, so that each text is logged once
        self.busy = False  # a step is under way
        self.given_up = False  # fenced behind the coordinator's back

    @property
    def name(self) -> str:
        return self.markers.transactional_id

    def forget_lost(self) -> None:
        """Have the markers whose commits have failed written again."""
        lost = {(partition.topic, partition.index) for partition, commit in self.written if commit.error is not None}
        self.done -= lost
        self.written = [each for each in self.written if each[1].error is None]

    def synced_here(self) -> Future[None]:
        """Return a future that is done when the markers in partitions with a single replica are committed."""
        return all_of(*(commit for partition, commit in self.written if partition.followers is None))


Step = Callable[[PendingCompletion], None]  # raises ApiError


class TransactionMarkerManager:
    """The ends of transactions on the node (Kafka: TransactionMarkerChannelManager).

    record_end: commits the end of a transaction.
    wake: asks for a call of `write_due` at a time.
    """

    def __init__(
        self,
        node: ServerNode,
        shards: CoordinatorShards,
        offsets_decided: OffsetsDecided,
        record_end: Step,
        wake: Callable[[int], None],
    ) -> None:
        self._node = node
        self._shards = shards
        self._offsets_decided = offsets_decided
        self._record_end = record_end
        self._wake = wake
        self._endings: dict[str, PendingCompletion] = {}
        self._elsewhere = MarkerSender(node)

    def done(self, transactional_id: str) -> frozenset[PartitionKey]:
        """Return the partitions of a transaction that have their marker, or need none."""
        ending = self._endings.get(transactional_id)
        return frozenset() if ending is None else frozenset(ending.done)

    def is_elsewhere(self, transactional_id: str) -> bool:
        """Return whether the end of a transaction waits for other brokers."""
        ending = self._endings.get(transactional_id)
        return ending is not None and bool(ending.requests)

    def committed(self, transactional_id: str) -> Future[None]:
        """Return a future that is done when the markers in partitions with a single replica, here, are synced.

        Markers that other brokers have to fetch are not waited for, as in Kafka: the brokers may be dead.
        """
        ending = self._endings.get(transactional_id)
        if ending is None:
            return DONE
        if not ending.writing.done:
            return ending.writing.then(lambda _: ending.synced_here())
        return ending.synced_here()

    def forget(self, transactional_ids: Iterable[str]) -> None:
        """Forget the ends of transactions that have a new coordinator: it begins again with their markers."""
        for name in transactional_ids:
            ending = self._endings.pop(name, None)
            if ending is not None and ending.requests:
                self._elsewhere.drop(ending.requests)

    def follow(self) -> None:
        """Send markers to new leaders now."""
        if self._endings:
            if any(ending.requests for ending in self._endings.values()):
                self._elsewhere.forget_moved()
            self._wake(self._node.clock.now)

    def write_due(self, index: int, coordinator: TransactionCoordinator, among: Iterable[str] | None = None) -> None:
        """Write the markers that are due, of all transactions or of those with the ids in `among`."""
        for markers in coordinator.markers_due(among):
            name = markers.transactional_id
            ending = self._endings.get(name)
            if ending is None:
                ending = self._endings[name] = PendingCompletion(index, coordinator, markers)
            if not ending.given_up and not ending.busy:
                ending.busy = True
                uncommitted = self._shards.uncommitted([index])
                outcome = all_of(*(partition.committed(end) for partition, end in uncommitted))
                self._when_committed(ending, outcome, self._write)

    # -- the steps of an end, one after the other

    def _when_committed(self, ending: PendingCompletion, commits: Future[None], then: Step) -> None:
        """Call `then` once `commits` is done, which may be now. After a failed commit the end is tried again later."""
        commits.add_done_callback(partial(self._on_committed, ending, then))

    def _on_committed(self, ending: PendingCompletion, then: Step, commits: Future[None]) -> None:
        if self._endings.get(ending.name) is not ending:
            return  # forgotten: another node is the coordinator
        if commits.error is None:
            then(ending)
            return
        log.warning("the end of transaction %s can't be committed: %s", ending.name, commits.error)
        ending.forget_lost()
        self._retry_later(ending, MARKER_RETRY_MS)

    def _retry_later(self, ending: PendingCompletion, delay_ms: int) -> None:
        ending.busy = False
        self._wake(self._node.clock.now + delay_ms)

    def _write(self, ending: PendingCompletion) -> None:
        """Write or send the missing markers. A partition that refuses does not delay the others."""
        ending.writing = self._node.slices.unasked(self._written(ending))

    def _written(self, ending: PendingCompletion) -> Steps[None]:
        """Do the same in slices: the first marker of a partition may make the files of its log."""
        ending.refused = {}
        elsewhere: list[PartitionKey] = []
        for count, each in enumerate(sorted(ending.markers.partitions - ending.done), 1):
            if not count % PARTITIONS_A_SLICE:
                yield None
                if self._endings.get(ending.name) is not ending:
                    return  # forgotten: another node is the coordinator
            if self._node.other_leader(*each) is None:
                self._write_here(ending, each)
            else:
                elsewhere.append(each)
        away: dict[int, list[PartitionKey]] = {}
        for each in elsewhere:  # a new leader in between is heard of here alone: `follow` knows what is sent
            leader = self._node.other_leader(*each)
            if leader is None:
                self._write_here(ending, each)
            else:
                away.setdefault(leader, []).append(each)
        answered = partial(self._answered, ending)
        ending.requests = [MarkerRequest(ending.markers, some, answered) for some in away.values()]
        for broker_id, request in list(zip(away, ending.requests, strict=True)):
            self._elsewhere.send(broker_id, request)
        if not away:
            self._all_answered(ending)

    def _write_here(self, ending: PendingCompletion, partition: PartitionKey) -> None:
        try:
            where, commit = write_marker(self._node, *partition, ending.markers, self._offsets_decided)
            commit.on_cancel = None  # a client may wait for it and go (`committed`), and the end still counts on it
            ending.written.append((where, commit))
            ending.done.add(partition)
        except ApiError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # deleted meanwhile: no marker is needed
                ending.done.add(partition)
            else:
                self._refuse(ending, partition, error)

    def _answered(self, ending: PendingCompletion, partition: PartitionKey, code: ErrorCode) -> None:
        """Note the answer of the leader at another node. Without an error the leader has synced the marker.

        UNKNOWN_TOPIC_OR_PARTITION counts as a refusal like any other: the leader may not have heard of the partition
        yet. If the partition is deleted, this node hears so from the metadata, and needs no marker then.
        """
        if code is ErrorCode.NONE:
            ending.done.add(partition)
        else:
            self._refuse(ending, partition, ApiError(code))
        if not any(request.partitions for request in ending.requests):
            self._all_answered(ending)

    def _refuse(self, ending: PendingCompletion, partition: PartitionKey, error: ApiError) -> None:
        if error.code in _FENCED:
            log.warning("transaction %s stays undecided in %s-%d: %s", ending.name, *partition, error)
            ending.given_up = True
        else:
            ending.refused[partition] = str(error)

    def _all_answered(self, ending: PendingCompletion) -> None:
        if ending.given_up:
            ending.busy = False
        elif ending.refused:
            self._log_refusals(ending)
            self._retry_later(ending, ELSEWHERE_RETRY_MS if ending.requests else MARKER_RETRY_MS)
        else:
            self._when_committed(ending, all_of(*(commit for _, commit in ending.written)), self._record)

    def _log_refusals(self, ending: PendingCompletion) -> None:
        (topic, index), why = next(iter(ending.refused.items()))
        text = f"{len(ending.refused)} partitions, as {topic}-{index}: {why}"
        if text != ending.logged_refusals:
            ending.logged_refusals = text
            log.warning("no marker of %s in %s", ending.name, text)

    def _record(self, ending: PendingCompletion) -> None:
        """Record the end; after a refusal of the log the record alone is tried again."""
        del self._endings[ending.name]
        try:
            self._record_end(ending)
        except ApiError as error:
            log.warning("the end of transaction %s can't be recorded: %s", ending.name, error)
            self._endings[ending.name] = ending
            self._retry_later(ending, MARKER_RETRY_MS)
