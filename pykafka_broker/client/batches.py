"""Records on their way to brokers, in batches for each partition.

Rule: no broker and no clock is known here. Records of a partition leave in the order in which they came. Several
batches of a partition may be in flight, but after one was refused, the next leaves only when no other batch of the
partition is in flight: so the sequence numbers that a broker sees have no gap. The same goes for the first batch of a
producer id, since a broker takes any number from a producer that it does not know. A batch that fails leaves a gap. The
batches that had left with it are sent until each one was accepted, or was refused for the gap and so is not in the log;
then the partition continues with a new producer id. Other partitions keep the old id: of a batch whose answer was lost
a broker knows the old sequence number only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from pykafka_broker.client.errors import ClientError
from pykafka_broker.protocol.enums import TopicPartition
from pykafka_broker.records.builder import build_batch
from pykafka_broker.records.header import HEADER_SIZE, NO_PRODUCER_ID, NO_SEQUENCE
from pykafka_broker.records.record import BatchRecord, Headers

_SEQUENCES = 1 << 31
_OF_A_RECORD = 21  # bytes beside key, value and headers, at most
_SMALLEST_RATIO = 0.05


class Delivery(NamedTuple):
    """The outcome of a record. error: None if the record is in the log. offset: -1 where the broker told none."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    error: ClientError | None = None


OnDelivery = Callable[[Delivery], object]


class ProducerIdentity(NamedTuple):
    """The id, epoch and transactional id of a producer."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = -1
    transactional_id: str | None = None


@dataclass(eq=False, slots=True)
class ProducerBatch:
    """A batch of a partition's records.

    `number` tells the batch's place among the batches of the partition, `room` how far the numbers above it are free.
    """

    target: TopicPartition
    number: float
    created: int
    room: float = 1.0
    records: list[BatchRecord] = field(default_factory=list)
    deliveries: list[OnDelivery | None] = field(default_factory=list)
    size: int = HEADER_SIZE
    sealed: bool = False  # takes no more records
    sequence: int = NO_SEQUENCE
    attempts: int = 0

    def report(self, base_offset: int, append_time: int, error: ClientError | None = None) -> Exception | None:
        """Call the `on_delivery` of each record; returns the first exception that one of them raises."""
        topic, partition = self.target
        fault: Exception | None = None
        for record, on_delivery in zip(self.records, self.deliveries, strict=True):
            if on_delivery is not None:
                offset = -1 if base_offset < 0 else base_offset + record.offset
                at = record.timestamp if append_time < 0 else append_time
                try:
                    on_delivery(Delivery(topic, partition, offset, at, error))
                except Exception as raised:  # the other records are still to be told
                    fault = fault or raised
        return fault

    def split(self) -> tuple[ProducerBatch, ProducerBatch]:
        """Split the records into two batches, after a broker found the batch too large."""
        half, room = len(self.records) // 2, self.room / 2
        first = ProducerBatch(self.target, self.number, self.created, room)
        second = ProducerBatch(self.target, self.number + room, self.created, room)
        for batch, part in ((first, slice(half)), (second, slice(half, None))):
            batch.records, batch.deliveries = self.records[part], self.deliveries[part]
            for delta, record in enumerate(batch.records):
                record.offset = delta
            batch.size = self.size // 2
            batch.sealed = True
            batch.attempts = self.attempts
        if self.sequence != NO_SEQUENCE:
            first.sequence, second.sequence = self.sequence, (self.sequence + half) % _SEQUENCES
        return first, second


class Queue:
    """The batches of a partition, in order.

    `identity` is the producer of the sequence numbers, None before the first one. `gap` tells whether a batch with
    sequence numbers has failed, so that the next batches need another producer id.
    """

    def __init__(self, target: TopicPartition) -> None:
        self.target = target
        self.waiting: deque[ProducerBatch] = deque()
        self.in_flight: list[ProducerBatch] = []
        self.identity: ProducerIdentity | None = None
        self.next_sequence = 0
        self.gap = False
        self.recovering = True  # no batch was accepted since the first one left, or since one was refused
        self.not_before = 0

    def due(self, linger_ms: int) -> int:
        """Return the time from which the first batch may leave."""
        head = self.waiting[0]
        return self.not_before if head.sealed else max(self.not_before, head.created + linger_ms)

    def sendable(self, now: int, linger_ms: int, hurry: bool, most: int) -> bool:
        """Return whether the first batch may leave now."""
        if not self.waiting or len(self.in_flight) >= (1 if self.recovering else most) or self._lacks_id():
            return False
        return (self.not_before if hurry else self.due(linger_ms)) <= now

    def _lacks_id(self) -> bool:
        return self.gap and bool(self.waiting) and self.waiting[0].sequence == NO_SEQUENCE

    @property
    def wants_id(self) -> bool:
        """Return whether the next batch needs another producer id, and no batch with the old id is in flight."""
        return self._lacks_id() and not self.in_flight

    def renumber(self) -> None:
        """Restart the sequence numbers, with the next producer id."""
        self.identity, self.next_sequence, self.gap, self.recovering = None, 0, False, True
        for batch in self.waiting:
            batch.sequence = NO_SEQUENCE

    def requeue(self, batch: ProducerBatch, not_before: int) -> None:
        """Put a refused batch back at the old place."""
        self.recovering = True
        self.not_before = not_before
        later = [each for each in self.waiting if each.number > batch.number]
        for _ in later:
            self.waiting.pop()
        batch.sealed = True
        self.waiting.append(batch)
        self.waiting.extend(later)


class Batches:
    """The batches of all partitions.

    Args:
        batch_size: bytes after which a batch is closed, counted after compression at the ratio of recent batches.
    """

    def __init__(self, batch_size: int, linger_ms: int, codec: int, level: int | None) -> None:
        self.linger_ms = linger_ms
        self.bytes = 0  # waiting and in flight
        self.count = 0  # batches waiting and in flight
        self.queues: dict[TopicPartition, Queue] = {}
        self.fault: Exception | None = None  # the first exception of an `on_delivery`, until it is raised
        self._batch_size = batch_size
        self._codec = codec
        self._level = level
        self._ratio = 1.0
        self._begun = 0

    def append(
        self, target: TopicPartition, record: BatchRecord, size: int, on_delivery: OnDelivery | None, now: int
    ) -> bool:
        """Add a record to the batch of a partition. Returns whether a new batch was begun."""
        queue = self.queues.get(target)
        if queue is None:
            queue = self.queues[target] = Queue(target)
        batch = queue.waiting[-1] if queue.waiting else None
        begun = batch is None or batch.sealed or (batch.size + size) * self._ratio > self._batch_size
        if begun:
            if batch is not None:
                batch.sealed = True
            self._begun += 1
            batch = ProducerBatch(target, self._begun, now)
            queue.waiting.append(batch)
            self.count += 1
        assert batch is not None
        record.offset = len(batch.records)
        batch.records.append(record)
        batch.deliveries.append(on_delivery)
        batch.size += size
        self.bytes += size
        return begun

    # -- on their way

    def take(self, queue: Queue) -> ProducerBatch:
        """Take the first batch of a queue, which is in flight from now on."""
        batch = queue.waiting.popleft()
        batch.sealed = True
        batch.attempts += 1
        queue.in_flight.append(batch)
        return batch

    def encode(self, batch: ProducerBatch, identity: ProducerIdentity) -> bytearray:
        """Encode a batch, with the next sequence numbers of the partition if the batch has none.

        Args:
            identity: the producer, for a partition that has no sequence numbers of another one.
        """
        queue = self.queues[batch.target]
        if queue.identity is None:
            queue.identity = identity
        identity = queue.identity
        if identity.producer_id != NO_PRODUCER_ID and batch.sequence == NO_SEQUENCE:
            batch.sequence = queue.next_sequence
            queue.next_sequence = (queue.next_sequence + len(batch.records)) % _SEQUENCES
        encoded = build_batch(
            batch.records,
            base_offset=0,
            codec=self._codec,
            level=self._level,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            base_sequence=batch.sequence,
            transactional=identity.transactional_id is not None,
        )
        if self._codec:
            found = len(encoded) / batch.size
            self._ratio = min(1.0, max(_SMALLEST_RATIO, found, self._ratio * 0.95))
        return encoded

    def remove_in_flight(self, batch: ProducerBatch) -> None:
        """Remove a batch from the batches in flight, whatever the outcome."""
        self.queues[batch.target].in_flight.remove(batch)

    def finish(
        self, batch: ProducerBatch, base_offset: int, append_time: int = -1, error: ClientError | None = None
    ) -> None:
        """End a batch: free the bytes and call the `on_delivery` of each record."""
        self.bytes -= batch.size - HEADER_SIZE
        self.count -= 1
        if error is None:
            self.queues[batch.target].recovering = False
        fault = batch.report(base_offset, append_time, error)
        self.fault = self.fault or fault

    def close(self, error: ClientError) -> None:
        """End all batches, waiting and in flight, with an error."""
        sent = [batch for queue in self.queues.values() for batch in queue.in_flight]
        for batch in (*sent, *self.pop_all()):
            self.finish(batch, -1, error=error)
        self.queues.clear()

    def split_batch(self, batch: ProducerBatch, now: int) -> None:
        """Split a batch after a broker found the batch too large, and queue both halves in the same place."""
        first, second = batch.split()
        self.bytes += first.size + second.size - batch.size - HEADER_SIZE
        self.count += 1
        queue = self.queues[batch.target]
        queue.requeue(second, now)
        queue.requeue(first, now)

    def pop_expired(self, before: int) -> Iterator[ProducerBatch]:
        """Take out each waiting batch begun before the given time."""
        for queue in self.queues.values():
            while queue.waiting and queue.waiting[0].created <= before:
                yield queue.waiting.popleft()

    def pop_all(self, topic: str | None = None) -> Iterator[ProducerBatch]:
        """Take out all waiting batches, or those of a topic."""
        for target, queue in self.queues.items():
            while queue.waiting and topic in (None, target.topic):
                yield queue.waiting.popleft()

    def next_time(self, now: int) -> int | None:
        """Return the next time at which a waiting batch becomes due, None if no batch does."""
        times = (queue.due(self.linger_ms) for queue in self.queues.values() if queue.waiting)
        return min((each for each in times if each > now), default=None)

    def waited_for(self) -> Iterator[TopicPartition]:
        """Yield the partitions with waiting records."""
        return (target for target, queue in self.queues.items() if queue.waiting)


def size_of(key: bytes | None, value: bytes | None, headers: Headers | None) -> int:
    """Return an upper bound of a record's size in bytes."""
    size = _OF_A_RECORD + len(key or b"") + len(value or b"")
    if headers:
        size += sum(10 + len(name.encode("utf-8", "surrogateescape")) + len(each or b"") for name, each in headers)
    return size
