"""A producer: records go to the partitions that Java's producer chooses, in batches, each once and in order.

Rule: properties, their defaults and their effects are those of Kafka's producer (Kafka docs, "Producer Configs"). The
outcome of a record is told to its `on_delivery`; `send` raises only errors that keep a record from being accepted, and
the first exception that an `on_delivery` has raised, which keeps no other record from its delivery.
Requests of transactions are those of clients before Kafka 4.0, which every broker serves: partitions are added to a
transaction before records are produced to them, and the epoch stays after the end of a transaction.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Self

from pykafka_broker.client.batches import Batches, Delivery, OnDelivery, ProducerBatch, ProducerIdentity, size_of
from pykafka_broker.client.cluster import LEADER_ERRORS, NOBODY, Backoff, Client, Leaders, PartitionError, wait_for
from pykafka_broker.client.errors import ClientError, KafkaError, TimedOut, Unusable, check
from pykafka_broker.client.partitioner import partition_of
from pykafka_broker.client.properties import flag, invalid, nonempty, number
from pykafka_broker.peers import LinkError, Versions
from pykafka_broker.protocol.enums import CoordinatorType, TopicPartition, by_topic
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from pykafka_broker.protocol.messages.end_txn_request import EndTxnRequest
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.produce_response import PartitionProduceResponse
from pykafka_broker.records.compression import CODEC_NAMES, codec_by_name
from pykafka_broker.records.header import HEADER_SIZE, NO_SEQUENCE
from pykafka_broker.records.record import BatchRecord, Headers

logger = logging.getLogger(__name__)

# -- settings


_ALL = -1
_LEVELS = {"gzip": (1, 9), "lz4": (1, 17), "zstd": (-131_072, 22)}  # the least and the greatest
_GZIPS_OWN_DEFAULT = ("gzip", -1)
_IDEMPOTENT = "the idempotent producer."


class ProducerSettings:
    def __init__(self, properties: Mapping[str, str]) -> None:
        self.acks = _acks(properties.get("acks", "all"))
        self.transactional_id = nonempty(properties, "transactional.id")
        self.idempotent = _idempotent(properties, self.acks)
        self.batch_size = number(properties, "batch.size", 16_384, least=0)
        self.linger_ms = number(properties, "linger.ms", 5, least=0)
        self.buffer_memory = number(properties, "buffer.memory", 33_554_432, least=0)
        self.max_block_ms = number(properties, "max.block.ms", 60_000, least=0)
        self.max_request_size = number(properties, "max.request.size", 1_048_576, least=0)
        self.max_in_flight = number(properties, "max.in.flight.requests.per.connection", 5, least=1)
        self.request_timeout_ms = number(properties, "request.timeout.ms", 30_000, least=0)
        self.delivery_timeout_ms = _delivery_timeout_ms(properties, self.linger_ms + self.request_timeout_ms)
        self.retries = number(properties, "retries", 2**31 - 1, least=0)
        self.ignore_keys = flag(properties, "partitioner.ignore.keys", False)
        self.codec = _codec(properties.get("compression.type", "none"))
        levels = {codec: _level(properties, codec) for codec in _LEVELS}
        self.level = levels.get(CODEC_NAMES[self.codec])

    def why_too_large(self, size: int) -> str:
        """Return why a record of the size is too large, in Java's words; empty for a good size."""
        if size > self.max_request_size:
            what = f"{self.max_request_size}, which is the value of the max.request.size configuration."
        elif size > self.buffer_memory:
            what = "the total memory buffer you have configured with the buffer.memory configuration."
        else:
            return ""
        return f"The message is {size} bytes when serialized which is larger than {what}"


def _level(properties: Mapping[str, str], codec: str) -> int | None:
    """Return the level of a codec, None where none is set. Raises Unusable."""
    name, (least, most) = f"compression.{codec}.level", _LEVELS[codec]
    if name not in properties:
        return None
    found = number(properties, name, 0)
    if least <= found <= most or (codec, found) == _GZIPS_OWN_DEFAULT:
        return found
    if codec == "gzip":
        wrong = f"between {least} and {most} or equal to -1"
    else:
        wrong = f"at least {least}" if found < least else f"no more than {most}"
    raise invalid(name, found, f"Value must be {wrong}")


def _acks(text: str) -> int:
    if text not in ("all", "-1", "0", "1"):
        raise invalid("acks", text, "String must be one of: all, -1, 0, 1")
    return _ALL if text == "all" else int(text)


def _idempotent(properties: Mapping[str, str], acks: int) -> bool:
    """Return whether the producer is idempotent: by default, unless another property forbids idempotence."""
    wanted = flag(properties, "enable.idempotence", True)
    asked = "enable.idempotence" in properties or "transactional.id" in properties
    if "transactional.id" in properties and not wanted:
        raise Unusable("Cannot set a transactional.id without also enabling idempotence.")
    if wanted and acks != _ALL:
        if asked:
            raise Unusable(
                f"Must set acks to all in order to use {_IDEMPOTENT} Otherwise we cannot guarantee idempotence."
            )
        return False
    if wanted and number(properties, "max.in.flight.requests.per.connection", 5) > 5:
        raise Unusable(f"Must set max.in.flight.requests.per.connection to at most 5 to use {_IDEMPOTENT}")
    return wanted and (asked or number(properties, "retries", 1) != 0)


def _delivery_timeout_ms(properties: Mapping[str, str], least: int) -> int:
    found = number(properties, "delivery.timeout.ms", max(120_000, least), least=0)
    if found < least:
        raise Unusable("delivery.timeout.ms should be equal to or larger than linger.ms + request.timeout.ms")
    return found


def _codec(name: str) -> int:
    try:
        return codec_by_name(name)
    except ValueError:
        raise invalid("compression.type", name, "String must be one of: none, gzip, snappy, lz4, zstd") from None


# -- producer id


_TRANSACTION_TIMEOUT_MS = 60_000
_PASSING = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class ProducerId:
    """Id, epoch and transaction of a producer; transactional_id is None outside transactions."""

    def __init__(self, client: Client, transactional_id: str | None) -> None:
        self.identity = ProducerIdentity(transactional_id=transactional_id)
        self.added: set[TopicPartition] = set()  # of the transaction
        self._client = client
        self._id = transactional_id or ""
        self._timeout_ms = number(client.properties, "transaction.timeout.ms", _TRANSACTION_TIMEOUT_MS)

    async def begin(self) -> None:
        """Get an id, or the next epoch of a transactional id. Raises KafkaError and TimedOut."""
        if self.identity.transactional_id is None:
            request = InitProducerIdRequest(None, self._timeout_ms)
            asked = partial(self._client.ask, request, versions=(0, 4))  # any node, which may just have started
            answer = await self._client.while_transient(asked)
            check(answer.error_code)
        else:
            request = InitProducerIdRequest(self._id, self._timeout_ms, *self.identity[:2])  # not fenced meanwhile
            answer = await self._ask(request, (0 if self.identity.epoch < 0 else 3, 4))
        self.identity = ProducerIdentity(answer.producer_id, answer.producer_epoch, self.identity.transactional_id)

    async def add(self, partitions: Iterable[TopicPartition]) -> None:
        wanted = set(partitions)
        topics = [AddPartitionsToTxnTopic(*each) for each in by_topic(sorted(wanted)).items()]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=self.identity.producer_id,
            v3_and_below_producer_epoch=self.identity.epoch,
            v3_and_below_topics=topics,
        )

        def first_refusal(answer: Any) -> PartitionError:
            results = (each for topic in answer.results_by_topic_v3_and_below for each in topic.results_by_partition)
            return PartitionError(next(filter(None, (each.partition_error_code for each in results)), 0))

        await self._ask(request, (0, 3), first_refusal)
        self.added.update(wanted)

    async def commit(self) -> None:
        """Commit the transaction, unless nothing was added to the transaction."""
        await self._end(committed=True)

    async def abort(self) -> None:
        """Abort the transaction, if any. One that was committed, although no answer came, has ended already."""
        try:
            await self._end(committed=False)
        except KafkaError as error:
            if error.code != ErrorCode.INVALID_TXN_STATE:
                raise
            self.added.clear()

    async def _end(self, *, committed: bool) -> None:
        if self.added:
            request = EndTxnRequest(self._id, self.identity.producer_id, self.identity.epoch, committed)
            await self._ask(request, (0, 4))
        self.added.clear()

    async def _ask(self, request: Any, versions: Versions, part: Callable[[Any], Any] = lambda answer: answer) -> Any:
        return await self._client.ask_coordinator(
            CoordinatorType.TRANSACTION, self._id, request, part, passing=_PASSING, versions=versions
        )


# -- the producer


_VERSIONS = (3, 11)  # batches of format v2, topics by their names, transactions as before Kafka 4.0
_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
_LOOK_EVERY_MS = 1_000  # how often the sender looks for records whose time is over
_SENT = PartitionProduceResponse(base_offset=-1)
_ABORT_S = 5  # the most that the end waits for the abort of an open transaction
_CLOSED = "Cannot perform operation after producer has been closed"
_FORGOTTEN = PartitionProduceResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)


class Producer:
    """A producer: `async with Producer(client) as producer`; the end of the block waits for all deliveries.

    After an error the end does not wait, and records on their way fail; an open transaction is aborted.

    Args:
        client: brings its properties.
        properties: win over the properties of the client.
    """

    def __init__(self, client: Client, properties: Mapping[str, str] | None = None) -> None:
        self.settings = settings = ProducerSettings({**client.properties, **(properties or {})})
        self._largest = min(settings.max_request_size, settings.buffer_memory) - HEADER_SIZE  # a record's limit
        self._client = client
        self._clock = client.clock
        self._leaders = Leaders(client, create=True)
        self._batches = Batches(settings.batch_size, settings.linger_ms, settings.codec, settings.level)
        self._id = ProducerId(client, settings.transactional_id)
        self._in_flight: dict[int, int] = {}  # requests, by node
        self._tasks: set[asyncio.Task[None]] = set()
        self._refreshing: asyncio.Task[None] | None = None
        self._backoff = Backoff(client)  # between looks for leaders
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._settled = asyncio.Event()
        self._hurrying = 0
        self._sender: asyncio.Task[None] | None = None
        self._has_id = not settings.idempotent
        self._aborted: ClientError | None = None  # of the transaction
        self._broken: BaseException | None = None  # the end of the producer, or a fault of ours: nobody is to wait
        self._sticky: dict[str, tuple[int, int]] = {}  # by topic: the current partition, and the bytes left for it

    async def __aenter__(self) -> Self:
        if self.settings.transactional_id is not None:
            await self._id.begin()
            self._has_id = True
        self._sender = asyncio.create_task(self._run())
        self._sender.add_done_callback(self._ended)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._sender is None:
            return  # closed before
        try:
            if kind is None:
                await self.flush()
        finally:
            tasks = self._end(ClientError("The producer was closed before the record was delivered"))
            self._sender, self._broken = None, ClientError(_CLOSED)
            await asyncio.gather(*tasks, return_exceptions=True)
            if self._batches.fault is not None and type(self._batches.fault) is not kind:  # else it is raised already
                logger.error("an on_delivery raised an exception", exc_info=self._batches.fault)
            with suppress(ClientError, TimeoutError):  # the coordinator aborts the transaction later
                async with asyncio.timeout(_ABORT_S):
                    await self._id.abort()

    # -- records

    async def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> None:
        """Accept a record, after a wait while the buffer is full. Raises ClientError if the record is refused."""
        self._raise()
        leaders = self._leaders.known(topic)
        if leaders is None:
            leaders = await self._leaders.of(topic, self.settings.max_block_ms)
        size = size_of(key, value, headers)
        if size > self._largest:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, self.settings.why_too_large(size + HEADER_SIZE))
        if self._batches.bytes + size > self.settings.buffer_memory:
            await self._wait_for_room(size)
        if partition is None:
            partition = self._partition(topic, key, leaders, size)
        elif not 0 <= partition < len(leaders):
            await self._wait_for_partition(topic, partition)
        if self._broken is not None:
            raise self._broken  # the producer was closed during a wait
        now = self._clock.tick()
        record = BatchRecord(0, self._clock.wall if timestamp is None else timestamp, key, value, headers or [])
        if self._batches.append(TopicPartition(topic, partition), record, size, on_delivery, now):
            self._wake.set()
            await asyncio.sleep(0)

    async def deliver(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        headers: Headers | None = None,
        partition: int | None = None,
    ) -> Delivery:
        """Send a single record without lingering and wait for the delivery. Raises ClientError."""
        found: asyncio.Future[Delivery] = asyncio.get_running_loop().create_future()

        def report(delivery: Delivery) -> None:
            if not found.done():  # the waiting task may have been cancelled
                found.set_result(delivery)

        self._hurrying += 1
        try:
            await self.send(topic, value, key, headers=headers, partition=partition, on_delivery=report)
            self._wake.set()  # the record may have joined a batch that lingers
            delivery = await found
        finally:
            self._hurrying -= 1
        if delivery.error is not None:
            raise delivery.error
        return delivery

    async def flush(self) -> None:
        """Wait until every record has been delivered or has failed."""
        self._hurrying += 1
        try:
            while self._batches.count and self._broken is None:
                self._settled.clear()
                self._wake.set()
                await self._settled.wait()
        finally:
            self._hurrying -= 1
        self._raise()

    def _raise(self) -> None:
        """Raise the first exception of an `on_delivery`, once, or the reason why the producer has ended."""
        if self._batches.fault is not None:
            fault, self._batches.fault = self._batches.fault, None
            raise fault
        if self._broken is not None:
            raise self._broken

    def _partition(self, topic: str, key: bytes | None, leaders: list[int], size: int) -> int:
        """Choose a partition by the key; without a key, by turns of a batch's bytes (KIP-794)."""
        if key is not None and not self.settings.ignore_keys:
            return partition_of(key, len(leaders))
        partition, left = self._sticky.get(topic, (0, 0))
        if left <= 0 or partition >= len(leaders):
            led = [each for each, leader in enumerate(leaders) if leader != NOBODY]
            partition, left = random.choice(led or range(len(leaders))), self.settings.batch_size
        self._sticky[topic] = partition, left - size
        return partition

    async def _wait_for_room(self, size: int) -> None:
        until = self._client.deadline(self.settings.max_block_ms)
        while self._batches.bytes + size > self.settings.buffer_memory:
            self._room.clear()
            self._wake.set()
            if not await wait_for(self._room, until - self._client.deadline(0)):
                within = f"within the configured max blocking time {self.settings.max_block_ms} ms."
                raise TimedOut(f"Failed to allocate {size} bytes {within}")

    async def _wait_for_partition(self, topic: str, partition: int) -> None:
        """Look up the topic until the partition exists, for `max.block.ms`. Raises ClientError."""
        if partition < 0:
            raise Unusable(f"Invalid partition: {partition}. Partition number should always be non-negative or null.")
        until, backoff = self._client.deadline(self.settings.max_block_ms), Backoff(self._client)
        while partition >= (count := len(self._leaders.known(topic) or ())):
            if (left := until - self._client.deadline(0)) <= 0:
                which = f"Partition {partition} of topic {topic} with partition count {count}"
                raise TimedOut(f"{which} is not present in metadata after {self.settings.max_block_ms} ms.")
            with suppress(TimedOut):
                await self._leaders.ask([topic], left)
            if partition >= len(self._leaders.known(topic) or ()):
                await backoff.pause(until)

    # -- transactions

    async def begin_transaction(self) -> None:
        """Begin a transaction; one that has failed is aborted first. Raises ClientError."""
        if self._aborted is not None:
            await self.flush()
            await self._id.abort()
            await self._id.begin()  # a failed batch has left a gap in the sequence numbers
            for queue in self._batches.queues.values():
                queue.renumber()
            self._aborted = None

    async def commit_transaction(self) -> None:
        """Commit. Raises ClientError if a record could not be delivered, or the transaction not be committed."""
        await self.flush()
        if self._aborted is None:
            try:
                await self._id.commit()
            except ClientError as error:
                self._aborted = error
        if self._aborted is not None:
            raise self._aborted

    # -- the sender

    async def _run(self) -> None:
        while True:
            wait_ms = await self._step()
            if not self._wake.is_set():
                await wait_for(self._wake, wait_ms)
            self._wake.clear()

    async def _step(self) -> int:
        """Send all due batches; returns the milliseconds until the next batch is due."""
        now = self._client.deadline(0)
        self._expire(now)
        if not self._batches.count:
            return _LOOK_EVERY_MS
        try:
            renumbered = [queue for queue in self._batches.queues.values() if queue.wants_id]
            if renumbered or not self._has_id:
                await self._id.begin()
                self._has_id = True
                for queue in renumbered:
                    queue.renumber()
            await self._join_transaction()
        except ClientError as error:
            self._fail_all(error)
            return 0
        self._refresh()
        while sendable := self._sendable(now):
            for node, batches in sendable.items():
                self._start(node, batches)
        due = self._batches.next_time(now)  # of the others, an answer that they wait for wakes the sender
        return _LOOK_EVERY_MS if due is None else min(_LOOK_EVERY_MS, due - now)

    def _sendable(self, now: int) -> dict[int, list[ProducerBatch]]:
        """Return the due batches by node, at most a single batch of each partition."""
        settings, hurry = self.settings, self._hurrying > 0 or self._batches.bytes * 2 > self.settings.buffer_memory
        found: dict[int, list[ProducerBatch]] = {}
        sizes: dict[int, int] = {}
        for target, queue in self._batches.queues.items():
            if not queue.sendable(now, settings.linger_ms, hurry, settings.max_in_flight):
                continue
            node = self._leaders.leader(target)
            size = sizes.get(node, 0) + queue.waiting[0].size
            crowded = self._in_flight.get(node, 0) >= settings.max_in_flight
            if node == NOBODY or crowded or (node in found and size > settings.max_request_size):
                continue
            sizes[node] = size
            found.setdefault(node, []).append(self._batches.take(queue))
        return found

    def _start(self, node: int, batches: list[ProducerBatch]) -> None:
        self._in_flight[node] = self._in_flight.get(node, 0) + 1
        task = asyncio.create_task(self._deliver(node, batches, self._id.identity))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            self._broken = fault
            self._end(ClientError(f"The producer has failed: {fault!r}"))
        self._wake.set()

    def _end(self, error: ClientError) -> list[asyncio.Task[None]]:
        """Cancel and return all tasks, and tell the error to each record and to whoever waits."""
        tasks = [task for task in (self._sender, self._refreshing, *self._tasks) if task is not None]
        for task in tasks:
            task.cancel()
        self._batches.close(error)
        self._settled.set()
        self._room.set()
        return tasks

    async def _deliver(self, node: int, batches: list[ProducerBatch], identity: ProducerIdentity) -> None:
        settings = self.settings
        encoded = [(batch.target, self._batches.encode(batch, identity)) for batch in batches]
        topics = by_topic((topic, PartitionProduceData(index, records)) for (topic, index), records in encoded)
        data = [TopicProduceData(name, partition_data=each) for name, each in topics.items()]
        request = ProduceRequest(identity.transactional_id, settings.acks, settings.request_timeout_ms, data)
        silent, wait_ms = settings.acks == 0, settings.request_timeout_ms
        try:
            answer = await self._client.ask_once(
                request, node, versions=_VERSIONS, timeout_ms=wait_ms, unanswered=silent
            )
        except LinkError as error:
            for batch in batches:
                self._answered(batch, PartitionProduceResponse(error_code=ErrorCode.NETWORK_EXCEPTION), str(error))
        except ClientError as error:
            for batch in batches:
                self._batches.remove_in_flight(batch)
                self._fail(batch, error)
        else:
            found = {(topic.name, each.index): each for topic in answer.responses for each in topic.partition_responses}
            for batch in batches:
                self._answered(batch, found.get(batch.target, _SENT if silent else _FORGOTTEN))
        finally:
            self._in_flight[node] -= 1
            self._wake.set()
            self._room.set()
            self._settled.set()

    def _answered(self, batch: ProducerBatch, answer: PartitionProduceResponse, why: str | None = None) -> None:
        """Handle a broker's answer for a batch. why: the reason of a missing answer."""
        code, queue = answer.error_code, self._batches.queues[batch.target]
        first = queue.in_flight[0] is batch
        self._batches.remove_in_flight(batch)
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._batches.finish(batch, answer.base_offset if code == ErrorCode.NONE else -1, answer.log_append_time_ms)
            return
        now = self._client.deadline(0)
        if code in _TOO_LARGE and len(batch.records) > 1:
            self._batches.split_batch(batch, now)
            return
        overtaken = code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and (queue.recovering or queue.gap or not first)
        overtaken = overtaken and self._aborted is None  # else nothing fills the gap
        if overtaken and queue.gap:
            batch.sequence = NO_SEQUENCE  # not in the log
            queue.requeue(batch, now)
            return
        if (ErrorCode(code).retriable and batch.attempts <= self.settings.retries) or overtaken:
            if code in LEADER_ERRORS or why is not None:
                self._leaders.forget(batch.target.topic)
            queue.requeue(batch, now + self._client.pause_ms(batch.attempts))
            return
        self._fail(batch, KafkaError(code, answer.error_message or why))

    def _fail(self, batch: ProducerBatch, error: ClientError) -> None:
        """Report an error to the records of a batch, which are not in the log as far as known."""
        if self.settings.transactional_id is not None:
            self._aborted = error
        elif batch.sequence != NO_SEQUENCE:
            self._batches.queues[batch.target].gap = True
        self._batches.finish(batch, -1, error=error)

    def _fail_all(self, error: ClientError, topic: str | None = None) -> None:
        """Fail all waiting batches, or those of a topic."""
        for batch in self._batches.pop_all(topic):
            self._fail(batch, error)
        self._settled.set()
        self._room.set()

    def _expire(self, now: int) -> None:
        wait_ms = self.settings.delivery_timeout_ms
        for batch in self._batches.pop_expired(now - wait_ms):
            of = f"{len(batch.records)} record(s) for {batch.target}:{wait_ms} ms has passed since batch creation"
            self._fail(batch, TimedOut(f"Expiring {of}"))
            self._settled.set()
            self._room.set()

    async def _join_transaction(self) -> None:
        """Add the partitions with waiting records, also those that get their first record during a wait."""
        if self.settings.transactional_id is not None:
            while new := {target for target, queue in self._batches.queues.items() if queue.waiting} - self._id.added:
                await self._id.add(new)

    def _refresh(self) -> None:
        """Look up missing and outdated leaders, in a separate task."""
        topics = self._outdated()
        if topics and self._refreshing is None:
            self._refreshing = asyncio.create_task(self._look(topics))
            self._refreshing.add_done_callback(self._ended)

    def _outdated(self) -> set[str]:
        """Return the topics whose leaders are to be looked up.

        Topics without waiting records are left alone: a look-up would make a deleted topic again.
        """
        waited_for = list(self._batches.waited_for())
        stale = self._leaders.stale(target.topic for target in waited_for)
        return stale | {target.topic for target in waited_for if self._leaders.leader(target) == NOBODY}

    async def _look(self, topics: Iterable[str]) -> None:
        try:
            try:
                refused = await self._leaders.look_up(topics, self.settings.request_timeout_ms)
            except TimedOut:
                refused = {}
            except ClientError as error:
                refused = {}
                self._fail_all(error)
            for topic, refusal in refused.items():
                self._fail_all(refusal, topic)
            if self._outdated():
                await self._backoff.pause()
            else:
                self._backoff.reset()
        finally:
            self._refreshing = None
            self._wake.set()
