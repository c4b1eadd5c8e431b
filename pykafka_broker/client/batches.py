"""Records on their way to brokers, in batches for each partition.

Rule: it knows no broker and no clock. Records of a partition leave in the order in which they came: several batches of
one may be on their way, but after one was refused the next leaves only when nothing of that partition is in flight, so
that the sequence numbers that a broker sees never have a gap.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from pykafka_broker.client.cluster import NOBODY
from pykafka_broker.client.errors import ClientError
from pykafka_broker.protocol.enums import TopicPartition
from pykafka_broker.records.builder import build_batch
from pykafka_broker.records.header import HEADER_SIZE, NO_PRODUCER_ID, NO_SEQUENCE
from pykafka_broker.records.record import Headers, Record

_SEQUENCES = 1 << 31
_OF_A_RECORD = 21  # bytes beside key, value and headers, at most
_SMALLEST_RATIO = 0.05


class Delivery(NamedTuple):
    """What became of a record; `error` is None if it is in the log, and `offset` -1 where that is not known."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    error: ClientError | None = None


OnDelivery = Callable[[Delivery], object]


class Identity(NamedTuple):
    """Who a producer is to the brokers."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = -1
    transactional_id: str | None = None


class Batch:
    """Records of one partition. `number` tells its place among those of the partition; `room` above it is free."""

    __slots__ = (
        "attempts",
        "created",
        "deliveries",
        "number",
        "records",
        "room",
        "sealed",
        "sequence",
        "size",
        "target",
    )

    def __init__(self, target: TopicPartition, number: float, now: int, room: float = 1.0) -> None:
        self.target = target
        self.number = number
        self.room = room
        self.created = now
        self.records: list[Record] = []
        self.deliveries: list[OnDelivery | None] = []
        self.size = HEADER_SIZE
        self.sealed = False  # takes no more records
        self.sequence = NO_SEQUENCE
        self.attempts = 0

    def tell(self, base_offset: int, append_time: int, error: ClientError | None = None) -> None:
        """Everybody who wants to know."""
        topic, partition = self.target
        for record, on_delivery in zip(self.records, self.deliveries, strict=True):
            if on_delivery is not None:
                offset = -1 if base_offset < 0 else base_offset + record.offset
                at = record.timestamp if append_time < 0 else append_time
                on_delivery(Delivery(topic, partition, offset, at, error))

    def split(self) -> tuple[Batch, Batch]:
        """The same records in two, for a broker that finds one batch too large."""
        half, room = len(self.records) // 2, self.room / 2
        first = Batch(self.target, self.number, self.created, room)
        second = Batch(self.target, self.number + room, self.created, room)
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
    """The batches of one partition."""

    def __init__(self, target: TopicPartition) -> None:
        self.target = target
        self.waiting: deque[Batch] = deque()
        self.in_flight: list[Batch] = []
        self.next_sequence = 0
        self.recovering = False  # one was refused, and none has been taken since
        self.not_before = 0

    def sendable(self, now: int, linger_ms: int, hurry: bool, most: int) -> bool:
        """Whether the first one may leave."""
        if not self.waiting or len(self.in_flight) >= (1 if self.recovering else most) or now < self.not_before:
            return False
        head = self.waiting[0]
        return hurry or head.sealed or head.attempts > 0 or head.created + linger_ms <= now

    def again(self, batch: Batch, not_before: int) -> None:
        """A batch that was refused takes its old place."""
        self.recovering = True
        self.not_before = not_before
        later = [each for each in self.waiting if each.number > batch.number]
        for _ in later:
            self.waiting.pop()
        batch.sealed = True
        self.waiting.append(batch)
        self.waiting.extend(later)


class Batches:
    """All of them.

    batch_size: bytes after which a batch is closed, counted after compression as that turned out lately.
    """

    def __init__(self, batch_size: int, linger_ms: int, codec: int, level: int | None) -> None:
        self.linger_ms = linger_ms
        self.bytes = 0  # of what is waiting and in flight
        self.count = 0  # batches waiting and in flight
        self.queues: dict[TopicPartition, Queue] = {}
        self._batch_size = batch_size
        self._codec = codec
        self._level = level
        self._ratio = 1.0
        self._begun = 0

    def append(
        self, target: TopicPartition, record: Record, size: int, on_delivery: OnDelivery | None, now: int
    ) -> bool:
        """Take a record of that size; whether a batch was begun for it."""
        queue = self.queues.get(target)
        if queue is None:
            queue = self.queues[target] = Queue(target)
        batch = queue.waiting[-1] if queue.waiting else None
        begun = batch is None or batch.sealed or (batch.size + size) * self._ratio > self._batch_size
        if begun:
            if batch is not None:
                batch.sealed = True
            self._begun += 1
            batch = Batch(target, self._begun, now)
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

    def take(self, queue: Queue) -> Batch:
        """The first one of a queue leaves."""
        batch = queue.waiting.popleft()
        batch.sealed = True
        batch.attempts += 1
        queue.in_flight.append(batch)
        return batch

    def encode(self, batch: Batch, identity: Identity) -> bytearray:
        """As it is sent; it gets the next sequence numbers unless it has its own already."""
        if identity.producer_id != NO_PRODUCER_ID and batch.sequence == NO_SEQUENCE:
            queue = self.queues[batch.target]
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

    def landed(self, batch: Batch) -> None:
        """It is no more in flight, whatever became of it."""
        self.queues[batch.target].in_flight.remove(batch)

    def done(self, batch: Batch, base_offset: int, append_time: int = -1, error: ClientError | None = None) -> None:
        """Its way ends here."""
        self.bytes -= batch.size - HEADER_SIZE
        self.count -= 1
        if error is None:
            self.queues[batch.target].recovering = False
        batch.tell(base_offset, append_time, error)

    def halve(self, batch: Batch, now: int) -> None:
        """It was too large."""
        first, second = batch.split()
        self.bytes += first.size + second.size - batch.size - HEADER_SIZE
        self.count += 1
        queue = self.queues[batch.target]
        queue.again(second, now)
        queue.again(first, now)

    def renumber(self) -> None:
        """For a producer that has got another id: nothing is in flight, and all sequences begin anew."""
        for queue in self.queues.values():
            queue.next_sequence = 0
            for batch in queue.waiting:
                batch.sequence = NO_SEQUENCE

    def late(self, before: int) -> Iterator[Batch]:
        """Take out what was begun before that time and is still waiting."""
        for queue in self.queues.values():
            while queue.waiting and queue.waiting[0].created <= before:
                yield queue.waiting.popleft()

    def drop(self) -> Iterator[Batch]:
        """Take out all that is waiting."""
        for queue in self.queues.values():
            while queue.waiting:
                yield queue.waiting.popleft()

    def next_time(self) -> int | None:
        """When the first of those that wait is due."""
        return min(
            (
                max(queue.not_before, queue.waiting[0].created + self.linger_ms)
                for queue in self.queues.values()
                if queue.waiting
            ),
            default=None,
        )

    def leaderless(self, leader: Callable[[TopicPartition], int]) -> set[str]:
        """Topics with records for a partition that nobody leads."""
        return {target.topic for target, queue in self.queues.items() if queue.waiting and leader(target) == NOBODY}


def size_of(key: bytes | None, value: bytes | None, headers: Headers | None) -> int:
    """Bytes of a record, at most."""
    size = _OF_A_RECORD + len(key or b"") + len(value or b"")
    if headers:
        size += sum(10 + len(name.encode("utf-8", "surrogateescape")) + len(each or b"") for name, each in headers)
    return size
