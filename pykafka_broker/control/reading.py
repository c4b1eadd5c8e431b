"""Records of partitions and topics, decoded or counted.

Rule: the records are those that a consumer of the isolation level would see: no control records, with read_committed
no records of aborted transactions and none beyond the last stable offset. The log may start within a batch
(DeleteRecords): the batch's records below the log's start are deleted. A `TopicWatch` goes on where it ended the last
time, and counts by the headers of batches where that is possible.

Like Kafka, a broker accepts some batches that no consumer can read. Reading such a batch is CORRUPT_MESSAGE.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.control.control import Control
from pykafka_broker.control.problems import Problem, did_you_mean, problem_of
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.records.control import AbortedBatches
from pykafka_broker.records.errors import CorruptBatch
from pykafka_broker.records.header import BatchHeader, iter_batches
from pykafka_broker.records.record import BatchRecord, iter_records

IsolationLevel = Literal["read_uncommitted", "read_committed"]
Outcome = Literal["committed", "aborted", "open"]
_READ_BYTES = 1 << 20
_ENDS_BYTES = 1 << 12  # of 52 batches that end a transaction


class FoundRecord(NamedTuple):
    """A record, the batch, and the outcome of the transaction (None without a transaction)."""

    record: BatchRecord
    header: BatchHeader
    transaction: Outcome | None = None


def end_of(partition: Partition, isolation_level: IsolationLevel) -> int:
    """Return the offset behind the last record a consumer may see."""
    committed = isolation_level == "read_committed"
    return min(partition.high_watermark, partition.log.last_stable_offset) if committed else partition.high_watermark


def has_records(partition: Partition, offset: int) -> bool:
    """Return whether a consumer may still get a record from an offset on, and not only ends of transactions are left.

    True too where the log can't be read. Little is read: an end of a transaction is a small batch.
    """
    log, end = partition.log, partition.high_watermark
    offset = max(offset, log.log_start_offset)
    try:
        while offset < end:
            found = log.read(offset, _ENDS_BYTES, end, min_one=False)
            if found is None or not all(header.is_control for header, _ in iter_batches(found.records.read())):
                return True
            offset = found.end_offset
    except (ApiError, CorruptBatch, OSError):
        return True
    return False


def records_from(partition: Partition, offset: int, isolation_level: IsolationLevel) -> Iterator[FoundRecord]:
    """Yield the records from an offset on. Raises ApiError where the log or a batch can't be read."""
    for header, batch, transaction in _batches(partition, offset, isolation_level):
        first = max(offset, partition.log.log_start_offset)
        for record in records_of(batch, header):
            if record.offset >= first:
                yield FoundRecord(record, header, transaction)


def batches_from(
    partition: Partition, offset: int, isolation_level: IsolationLevel
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield the batches with records from an offset on; the first may begin before the offset."""
    for header, batch, _ in _batches(partition, offset, isolation_level):
        yield header, batch


def _batches(
    partition: Partition, offset: int, isolation_level: IsolationLevel
) -> Iterator[tuple[BatchHeader, memoryview, Outcome | None]]:
    log, end = partition.log, end_of(partition, isolation_level)
    offset = max(offset, log.log_start_offset)
    aborted = AbortedBatches(log.aborted_transactions(offset, end))
    while offset < end and (found := log.read(offset, _READ_BYTES, end)) is not None:
        for header, batch in iter_batches(found.records.read()):
            if header.is_control:
                aborted.ends(header, batch)
                continue
            outcome = outcome_of(partition, header, aborted)
            if outcome != "aborted" or isolation_level == "read_uncommitted":
                yield header, batch, outcome
        offset = max(found.end_offset, log.log_start_offset)  # records may have been deleted meanwhile


def records_of(batch: memoryview, header: BatchHeader) -> Iterator[BatchRecord]:
    """Yield the records of a batch. Raises ApiError where the batch can't be read."""
    try:
        yield from iter_records(batch, header)
    except CorruptBatch as damage:
        raise unreadable(header, damage) from damage


def unreadable(header: BatchHeader, damage: CorruptBatch) -> ApiError:
    """Return the error for a batch that can't be read."""
    told = f"the {header.count} records from offset {header.base_offset} on can't be read: {damage}"
    return ApiError(ErrorCode.CORRUPT_MESSAGE, told)


def count_from(header: BatchHeader, batch: memoryview, offset: int) -> int:
    """Return how many records of a batch lie at or above `offset`.

    Records are decoded only where the offset lies within the batch. Raises ApiError where they can't be.
    """
    if header.base_offset >= offset:
        return header.count
    return sum(record.offset >= offset for record in records_of(batch, header))


def outcome_of(partition: Partition, header: BatchHeader, aborted: AbortedBatches) -> Outcome | None:
    """Return the outcome of a batch's transaction; None without a transaction."""
    if not header.is_transactional:
        return None
    if not header.is_control and aborted.has(header):
        return "aborted"
    producer = partition.log.producers.entries.get(header.producer_id)
    if producer is None or producer.epoch != header.producer_epoch or header.is_control:
        return "committed"
    return "open" if 0 <= producer.txn_first_offset <= header.base_offset else "committed"


# -- a topic


def no_topic(control: Control, topic: str) -> Problem:
    """Return the problem for an unknown topic, with suggestions of similar names."""
    meant = did_you_mean(topic, control.services.image.topics)
    return Problem(404, f"there is no topic {topic}{meant}", code="UNKNOWN_TOPIC_OR_PARTITION")


def check_led_here(control: Control, topic: str, partition: int) -> None:
    """Raise `Problem` with the leader if another broker of a cluster has the records."""
    leader = control.services.image.topics[topic].partitions[partition].leader
    if leader not in (-1, control.services.node_id):
        led = f"broker {leader} leads {topic}-{partition}: ask broker {leader}, or the cluster"
        raise problem_of(ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, led))


class TopicWatch:
    """The records of a topic from the beginning, or from `offsets` on.

    unread: the partitions whose records could not be looked at the last time, with the reasons: no broker leads them.
    """

    def __init__(
        self, control: Control, topic: str, isolation_level: IsolationLevel, offsets: dict[int, int] | None = None
    ) -> None:
        self._control = control
        self.topic = topic
        self.isolation_level = isolation_level
        self._offsets = {} if offsets is None else dict(offsets)
        self._counted_to: dict[int, int] = {}
        self._looked_to: dict[int, int] = {}
        self._topic_id: bytes | None = None
        self.count = 0
        self.unread: dict[int, str] = {}

    @property
    def exists(self) -> bool:
        return self.topic in self._control.services.image.topics

    def ends(self) -> dict[int, int]:
        """Return the end of each partition for readers of the isolation level.

        Raises `Problem` where another broker has the records.
        """
        image = self._control.services.image.topics.get(self.topic)
        if image is None or image.id != self._topic_id:  # another topic has the name now; counting begins anew
            self._counted_to, self._looked_to, self.count = {}, {}, 0
            if self._topic_id is not None:
                self._offsets = {}  # of the topic before
            self._topic_id = None if image is None else image.id
        ends, self.unread = {}, {}
        for index in () if image is None else sorted(image.partitions):
            check_led_here(self._control, self.topic, index)
            try:
                partition = self._control.services.replicas.leader(self.topic, index)
            except ApiError as error:
                self.unread[index] = error.code.name
                continue
            ends[index] = end_of(partition, self.isolation_level)
            self._go_back(index, ends[index])
        return ends

    def _go_back(self, index: int, end: int) -> None:
        """Count anew where a log has become shorter: a snapshot was restored."""
        if end < self._counted_to.get(index, 0):
            self._counted_to, self.count = {}, 0
        for offsets in (self._looked_to, self._offsets):
            if end < offsets.get(index, 0):
                offsets[index] = end

    def require_all(self) -> None:
        """Raise `Problem` where records of a partition could not be looked at: nothing can be said of them."""
        for index, code in self.unread.items():
            raise problem_of(ApiError(ErrorCode[code], f"the records of {self.topic}-{index} can't be read now"))

    def look(self) -> int:
        """Return the present number of records."""
        for index, end in self.ends().items():
            start = self._counted_to.get(index, self._offsets.get(index, 0))
            if start < end:
                partition = self._control.services.replicas.leader(self.topic, index)
                self.count += sum(
                    count_from(header, batch, max(start, partition.log.log_start_offset))
                    for header, batch in batches_from(partition, start, self.isolation_level)
                )
                self._counted_to[index] = end
        return self.count

    def fresh(self) -> Iterator[tuple[int, FoundRecord]]:
        """Yield records added since the last call of `fresh`, with partitions.

        Ends early where the topic is deleted, or the broker's state is another, while the caller pauses.
        """
        services = self._control.services
        for index, end in self.ends().items():
            start = self._looked_to.get(index, self._offsets.get(index, 0))
            if start < end:
                partition = services.replicas.leader(self.topic, index)
                for found in records_from(partition, start, self.isolation_level):
                    self._looked_to[index] = found.record.offset + 1
                    yield index, found
                    topic = self._control.services.image.topics.get(self.topic)
                    if self._control.services is not services or topic is None or topic.id != self._topic_id:
                        return
                self._looked_to[index] = end

    def records(self) -> Iterator[tuple[int, FoundRecord]]:
        """Yield all records with the partitions, partition by partition.

        Where the topic is deleted while the caller pauses, the partitions that were not read are in `unread`.
        """
        for index in self.ends():
            try:
                topic = self._control.services.image.topics.get(self.topic)
                if topic is None or topic.id != self._topic_id:
                    raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                partition = self._control.services.replicas.leader(self.topic, index)
            except ApiError as error:
                self.unread[index] = error.code.name
                continue
            offset = self._offsets.get(index, 0)
            yield from ((index, each) for each in records_from(partition, offset, self.isolation_level))
