"""A consumer of assigned partitions: records in order, from a chosen position.

Rule: properties, their defaults and their effects are those of Kafka's consumer (Kafka docs, "Consumer Configs"). Each
broker has at most one fetch in flight, for all of its partitions, and none while records of one of them wait to be
read: a fetch of the idle partitions alone would keep the busy one waiting. Answers that come after a `seek`, or for
partitions that are no longer assigned, are dropped. Control batches and records of aborted
transactions become batches without records, so that positions pass over them. A partition is read at its leader, or at
the replica in the consumer's rack that the leader names (KIP-392).

A fetch tells the leader epoch of the last record that was read. A leader whose log has other records there answers with
the offset from which on they differ (KIP-320, KIP-595), and the consumer goes on at that offset. A topic that was
deleted and created again has another id (KIP-516): the position is reset. With `auto.offset.reset` of `none`, both are
errors. Nodes before Kafka 2.7 are told no epochs. Group membership is in `membership`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import dropwhile, islice
from typing import Any, NamedTuple, Self

from pykafka_broker.client.cluster import LEADER_ERRORS, NOBODY, Backoff, Client, Leaders, check_topic, wait_for
from pykafka_broker.client.errors import ClientError, KafkaError, LogTruncated, TimedOut
from pykafka_broker.client.leaders import ListedOffset, listed_offsets, offsets_request, versions_of
from pykafka_broker.client.properties import flag, invalid, number
from pykafka_broker.config.values import reset_duration_ms
from pykafka_broker.peers import LinkError
from pykafka_broker.protocol.enums import EARLIEST, LATEST, IsolationLevel, TopicPartition, by_topic
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from pykafka_broker.protocol.messages.fetch_response import FetchResponse, PartitionData
from pykafka_broker.protocol.runtime import ZERO_UUID
from pykafka_broker.records.control import AbortedBatches
from pykafka_broker.records.conversion import iter_messages
from pykafka_broker.records.errors import CorruptBatch, TruncatedBatch
from pykafka_broker.records.header import BatchHeader, check_crc, peek, read_header, require_whole
from pykafka_broker.records.record import BatchRecord, iter_records

logger = logging.getLogger(__name__)

# -- settings


class ConsumerSettings:
    def __init__(self, properties: Mapping[str, str]) -> None:
        self.isolation_level = _isolation(properties.get("isolation.level", "read_uncommitted"))
        self.reset_time = _reset(properties.get("auto.offset.reset", "latest"))
        self.fetch_min_bytes = number(properties, "fetch.min.bytes", 1, least=0)
        self.fetch_max_bytes = number(properties, "fetch.max.bytes", 52_428_800, least=0)
        self.fetch_max_wait_ms = number(properties, "fetch.max.wait.ms", 500, least=0)
        self.max_partition_fetch_bytes = number(properties, "max.partition.fetch.bytes", 1_048_576, least=0)
        self.max_poll_records = number(properties, "max.poll.records", 500, least=1)
        self.check_crcs = flag(properties, "check.crcs", True)
        self.rack = properties.get("client.rack", "")


def _isolation(name: str) -> int:
    if name.lower() not in ("read_committed", "read_uncommitted"):
        raise invalid("isolation.level", name, "String must be one of: read_committed, read_uncommitted")
    return IsolationLevel.READ_COMMITTED if name.lower() == "read_committed" else IsolationLevel.READ_UNCOMMITTED


def _reset(name: str) -> Callable[[int], int | None]:
    """Return the function from the wall time to the time to start at, for a partition without a position.

    The function returns None where `auto.offset.reset` is `none`.
    """
    fixed = {"earliest": EARLIEST, "latest": LATEST, "none": None}
    if name.lower() in fixed:
        found = fixed[name.lower()]
        return lambda _: found
    if (ago_ms := reset_duration_ms(name.lower())) is None:
        must = "must be either 'earliest', 'latest', 'none' or of the format 'by_duration:<PnDTnHnMn.nS.>'."
        why = f"Invalid value `{name}` for configuration auto.offset.reset. The value {must}"
        raise invalid("auto.offset.reset", name, why)
    return lambda wall: wall - ago_ms


# -- batches of an answer


class FetchedBatch(NamedTuple):
    """A batch of a partition's records. header: None for messages of an old format. skipped: no user sees them."""

    partition: TopicPartition
    data: memoryview
    header: BatchHeader | None
    skipped: bool
    next_offset: int
    damage: CorruptBatch | None = None

    @property
    def leader_epoch(self) -> int:
        return -1 if self.header is None else self.header.partition_leader_epoch

    @property
    def timestamp_type(self) -> int:
        return 0 if self.header is None else self.header.timestamp_type

    def records(self, offset: int) -> Iterator[BatchRecord]:
        """Yield the records from the offset on. Raises ClientError where the records are damaged."""
        try:
            if self.damage is not None:
                raise self.damage
            if self.skipped:
                return
            found = iter_messages(self.data) if self.header is None else iter_records(self.data, self.header)
            yield from dropwhile(lambda record: record.offset < offset, found)
        except CorruptBatch as error:
            raise damaged(self.partition, offset, error) from None


def batches_of(
    partition: TopicPartition, records: Any, aborted: Iterable[Any], check_crcs: bool
) -> Iterator[FetchedBatch]:
    """Yield the whole batches of an answer; a batch whose checksum is wrong raises an error when it is read.

    Args:
        aborted: the AbortedTransactions of the answer, if their records are to be skipped.

    Raises:
        ClientError: nobody can tell where the next batch begins.
    """
    data = memoryview(records if records is not None else b"")
    skipped, position = AbortedBatches(aborted), 0
    while position < len(data):
        try:
            if (magic := peek(data, position)) is None:
                return  # cut short: the last batch may be
            if magic < 2:
                yield from _old(partition, data[position:])
                return
            header = read_header(data, position)
            stop = require_whole(data, header, position)
        except TruncatedBatch:
            return
        except CorruptBatch as error:
            raise damaged(partition, -1, error) from None
        batch, damage = data[position:stop], None
        try:
            if check_crcs:
                check_crc(data, header, position)
            if header.is_control:
                skipped.ends(header, batch)
        except CorruptBatch as error:
            damage = error
        unread = header.is_control or skipped.has(header)
        yield FetchedBatch(partition, batch, header, unread, header.next_offset, damage)
        position = stop


def _old(partition: TopicPartition, data: memoryview) -> Iterator[FetchedBatch]:
    """Yield all whole messages of an old format as a single batch."""
    last = -1
    try:
        for record in iter_messages(data):
            last = record.offset
    except TruncatedBatch:
        pass
    except CorruptBatch as error:
        raise damaged(partition, -1, error) from None
    if last >= 0:
        yield FetchedBatch(partition, data, None, False, last + 1)


def damaged(partition: TopicPartition, offset: int, error: CorruptBatch) -> ClientError:
    at = f" at offset {offset}" if offset >= 0 else ""
    return ClientError(f"Record batch for partition {partition}{at} is invalid, cause: {error}")


# -- the consumer


_VERSIONS = (12, 13)  # with the leader epochs of the last records; from 13 on topics by their ids
_OLDER = (2, 11)  # records in any format since Kafka 0.10
CLOSED = "This consumer has already been closed."
LOOK_EVERY_MS = 100  # how often a waiting `poll` looks for the end of a pause and for old metadata


def _refusal(partition: TopicPartition, code: int) -> KafkaError:
    """Return the error of a partition, in the words of Kafka's clients."""
    try:
        check_topic(partition.topic, code)
    except KafkaError as error:
        return error
    return KafkaError(code)


class Chunk(NamedTuple):
    """Records of a single batch. `timestamp_type` is 0 for CreateTime, 1 for LogAppendTime."""

    partition: TopicPartition
    records: list[BatchRecord]
    leader_epoch: int
    timestamp_type: int


class _Position:
    """The position in a partition.

    offset: None until the offset of `time` has been looked up. epoch: the leader epoch of the record before the offset,
    -1 where unknown. topic_id: the topic that the position belongs to, ZERO_UUID where unknown. replica: a follower to
    read at until `replica_until`, NOBODY for the leader.
    """

    __slots__ = (
        "batches",
        "current",
        "epoch",
        "failures",
        "not_before",
        "offset",
        "paused",
        "records",
        "replica",
        "replica_until",
        "time",
        "topic_id",
    )

    def __init__(self, time: int | None) -> None:
        self.failures = self.not_before = self.replica_until = 0
        self.replica = NOBODY
        self.paused = False
        self.move(None, time=time)

    def move(self, offset: int | None, epoch: int = -1, time: int | None = None) -> None:
        """Move to an offset, or to the offset of a time, in whatever topic has the name by now."""
        self.offset, self.epoch, self.time, self.topic_id = offset, epoch, time, ZERO_UUID
        self.drop()

    def drop(self) -> None:
        """Drop all fetched records."""
        self.batches: deque[FetchedBatch] = deque()
        self.current: FetchedBatch | None = None
        self.records: Iterator[BatchRecord] = iter(())


class Consumer:
    """A consumer of assigned partitions: `async with Consumer(client) as consumer`, `assign`, `seek`, `poll`.

    Args:
        client: brings its properties.
        properties: win over the properties of the client.
        on_created_again: called with a partition whose position is reset, as its topic was created again.
    """

    def __init__(
        self,
        client: Client,
        properties: Mapping[str, str] | None = None,
        *,
        on_created_again: Callable[[TopicPartition], object] = lambda _: None,
    ) -> None:
        self.settings = ConsumerSettings({**client.properties, **(properties or {})})
        self._client = client
        self._on_created_again = on_created_again
        self._leaders = Leaders(client)
        self._positions: dict[TopicPartition, _Position] = {}
        self._fetches: dict[int, asyncio.Task[None]] = {}
        self._finding: dict[int, asyncio.Task[None]] = {}  # looks for positions, by leader
        self._old_nodes: set[int] = set()  # whose fetches tell no epochs
        self._looking: asyncio.Task[None] | None = None
        self._backoff = Backoff(client)  # between looks for leaders
        self._error: Exception | None = None
        self._returned: dict[TopicPartition, int] = {}  # where the records begin that the latest `poll` has returned
        self._arrived = asyncio.Event()
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closed = True
        self._arrived.set()
        tasks = [*self._fetches.values(), *self._finding.values()]
        if self._looking is not None:
            tasks.append(self._looking)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- assignment and positions

    @property
    def assignment(self) -> list[TopicPartition]:
        return list(self._positions)

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read the given partitions and no others; partitions assigned before keep the old position."""
        wanted = [TopicPartition(*each) for each in partitions]
        time = self._reset_time()
        self._positions = {each: self._positions.get(each) or _Position(time) for each in wanted}
        self._returned = {each: offset for each, offset in self._returned.items() if each in self._positions}
        self._arrived.set()  # somebody may be waiting in `poll`

    def seek(self, partition: tuple[str, int], offset: int, epoch: int = -1) -> None:
        """Move to an offset; epoch: the leader epoch of the record before the offset, -1 where unknown."""
        self._positions[TopicPartition(*partition)].move(offset, epoch)
        self._returned.pop(TopicPartition(*partition), None)

    def seek_to_time(self, partition: tuple[str, int], time: int) -> None:
        """Move to the first record of a time, or to EARLIEST or LATEST of `protocol.enums`."""
        self._positions[TopicPartition(*partition)].move(None, time=time)
        self._returned.pop(TopicPartition(*partition), None)

    def position(self, partition: tuple[str, int]) -> int | None:
        """Return the offset of the next record, None while the offset is unknown."""
        return self._positions[TopicPartition(*partition)].offset

    def epoch_before(self, partition: tuple[str, int], offset: int) -> int:
        """Return the leader epoch of the record before the offset, -1 where unknown: beside the position."""
        position = self._positions.get(TopicPartition(*partition))
        return position.epoch if position is not None and position.offset == offset else -1

    def position_before(self, partition: tuple[str, int]) -> int | None:
        """Return the position without the records of the latest `poll`, which its caller may still be working on."""
        return self._returned.get(TopicPartition(*partition), self.position(partition))

    def dealt_with(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Note that the caller is done with the records before the offsets, though not with the latest `poll`."""
        self._returned.update(offsets)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return no further records of assigned partitions."""
        for each in partitions:
            if (position := self._positions.get(each)) is not None:
                position.paused = True

    def fail(self, error: Exception) -> None:
        """Let `poll` raise an error: the call that waits, or the next one."""
        self._error = error
        self._arrived.set()

    # -- reading

    def check_open(self) -> None:
        """Raise ClientError if the consumer was closed."""
        if self._closed:
            raise ClientError(CLOSED)

    async def poll(self, timeout_ms: int, max_records: int | None = None) -> list[Chunk]:
        """Wait for records and return at most `max_records`, by default `max.poll.records`. Raises ClientError."""
        most = self.settings.max_poll_records if max_records is None else max_records
        self._returned = {}
        until = self._client.deadline(timeout_ms)
        self._raise()  # records that keep coming hide no error
        while True:
            self.check_open()
            self._arrived.clear()
            if found := self._read(most):
                self._send_requests()
                return found
            self._raise()
            self._send_requests()
            left = until - self._client.deadline(0)
            if left <= 0:
                return []
            await wait_for(self._arrived, min(left, LOOK_EVERY_MS))

    def _raise(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _read(self, most: int) -> list[Chunk]:
        """Return records fetched before. Damage behind records is raised by the next `poll`, and by each one after it.

        Raises:
            ClientError: the first records are damaged.
        """
        found: list[Chunk] = []
        for partition, position in self._positions.items():
            while most > 0 and not position.paused:
                if position.current is None and not self._next_batch(position):
                    break
                batch, offset = position.current, position.offset
                assert batch is not None
                assert offset is not None
                try:
                    records = list(islice(position.records, most))
                except ClientError as error:
                    position.drop()
                    if not found:
                        raise
                    self._error = error
                    return found
                if len(records) < most:
                    position.current, position.offset = None, batch.next_offset
                else:
                    position.offset = records[-1].offset + 1
                position.epoch = batch.leader_epoch
                if records:
                    self._returned.setdefault(partition, offset)
                    most -= len(records)
                    found.append(Chunk(partition, records, batch.leader_epoch, batch.timestamp_type))
        return found

    def _next_batch(self, position: _Position) -> bool:
        if not position.batches:
            return False
        position.current = batch = position.batches.popleft()
        assert position.offset is not None
        position.records = batch.records(position.offset)
        return True

    # -- fetching

    def _send_requests(self) -> None:
        """Send requests for missing positions, leaders and records."""
        now = self._client.deadline(0)
        wanted: dict[int, dict[TopicPartition, FetchPartition]] = {}
        sought: dict[int, dict[TopicPartition, int]] = {}
        epochs: dict[TopicPartition, int] = {}
        lost = self._leaders.stale(each.topic for each in self._positions)
        undefined = []
        busy = set(self._fetches)
        for partition, position in self._positions.items():
            if position.paused or now < position.not_before:
                continue
            if position.current is not None or position.batches:
                busy.add(self._node(partition, position, now))
                continue
            leader = self._leaders.leader(partition)
            if leader == NOBODY:
                lost.add(partition.topic)
            elif not self._is_in_topic(partition, position):
                continue
            elif position.offset is not None:
                node = self._node(partition, position, now)
                wanted.setdefault(node, {})[partition] = self._asked(partition, position)
            elif position.time is not None:
                sought.setdefault(leader, {})[partition] = position.time
                epochs[partition] = self._leaders.epoch(partition)
            else:
                undefined.append(partition)
        if undefined:
            names = ", ".join(map(str, undefined))
            self.fail(ClientError(f"Undefined offset with no reset policy for partitions: [{names}]"))
        if lost and self._looking is None:
            self._looking = asyncio.create_task(self._look_up(lost))
        for node in sought.keys() - self._finding.keys():
            self._finding[node] = asyncio.create_task(self._find(node, sought[node], epochs))
        for node in wanted.keys() - busy:
            ids = {each.topic: self._leaders.topic_id(each.topic) for each in wanted[node]}
            self._fetches[node] = asyncio.create_task(self._fetch(node, wanted[node], ids))

    def _is_in_topic(self, partition: TopicPartition, position: _Position) -> bool:
        """Return whether the position belongs to the present topic; in a topic created anew it is reset."""
        topic_id = self._leaders.topic_id(partition.topic)
        if ZERO_UUID not in (position.topic_id, topic_id) and position.topic_id != topic_id:
            time = self._reset_time()
            if time is None:
                self.fail(ClientError(f"Topic {partition.topic} was deleted and created again, with another id"))
                return False
            logger.info("topic %s was created again: the position in %s is reset", partition.topic, partition)
            position.move(None, time=time)
            self._returned.pop(partition, None)
            self._on_created_again(partition)
        position.topic_id = topic_id
        return True

    def _asked(self, partition: TopicPartition, position: _Position) -> FetchPartition:
        """Return the part of a fetch for a partition; no leader of an epoch before that of the last record answers."""
        leader_epoch = self._leaders.epoch(partition)
        assert position.offset is not None
        return FetchPartition(
            partition.partition,
            leader_epoch if leader_epoch < 0 else max(leader_epoch, position.epoch),
            position.offset,
            position.epoch,
            partition_max_bytes=self.settings.max_partition_fetch_bytes,
        )

    def _reset_time(self) -> int | None:
        return self.settings.reset_time(self._client.clock.wall)

    def _node(self, partition: TopicPartition, position: _Position, now: int) -> int:
        """Return the node to read a partition at."""
        near = position.replica in self._client.nodes and now < position.replica_until
        return position.replica if near else self._leaders.leader(partition)

    async def _look_up(self, topics: set[str]) -> None:
        """Look up the leaders of the topics; pause where some are still unknown.

        What a partition is refused for is an error of the next `poll`, and keeps the others from nothing.
        """
        try:
            try:
                self._note_errors((await self._leaders.look_up(topics)).values())
            except TimedOut as error:
                logger.warning("%s; trying again", error)  # for ever, as Kafka's consumers
            except Exception as error:  # a fault of ours would stop the consumer, and nobody would know
                self._error = error
            self._arrived.set()
            stale = self._leaders.stale(each.topic for each in self._positions)
            if stale or any(self._leaders.leader(each) == NOBODY for each in self._positions):
                await self._backoff.pause()
            else:
                self._backoff.reset()
        finally:
            self._looking = None

    def _note_errors(self, errors: Iterable[Exception]) -> None:
        """Let the next `poll` raise the first of the errors; what is asked for again brings the others again."""
        for error in errors:
            self._error = self._error or error

    async def _find(self, node: int, times: dict[TopicPartition, int], epochs: Mapping[TopicPartition, int]) -> None:
        """Look up the offsets of times at a leader. No other leader is waited for."""
        isolation_level = self.settings.isolation_level
        request = offsets_request(self._client, times, isolation_level, epochs)
        versions = versions_of(times.values(), isolation_level)
        try:
            answer = await self._client.ask_once(request, node, versions=versions)
            for partition, (code, found) in listed_offsets(answer).items():
                position = self._positions.get(partition)
                if position is not None and position.offset is None and position.time == times.get(partition):
                    self._found(partition, position, code, found)
        except LinkError:
            for each in times:
                self._wait(each)
        except Exception as error:  # a fault of ours would stop the consumer, and nobody would know
            self._note_errors([error])
            for each in times:
                self._pause(each)
        finally:
            del self._finding[node]
            self._arrived.set()

    def _found(self, partition: TopicPartition, position: _Position, code: int, found: ListedOffset) -> None:
        if code in LEADER_ERRORS:
            self._wait(partition)
        elif code:
            self._note_errors([_refusal(partition, code)])
            self._pause(partition)
        elif found.offset >= 0:
            position.offset, position.epoch = found.offset, found.leader_epoch
        else:  # no record is so late
            position.time = LATEST

    async def _fetch(self, node: int, asked: dict[TopicPartition, FetchPartition], ids: dict[str, bytes]) -> None:
        settings = self.settings
        topics = by_topic((each.topic, part) for each, part in asked.items())
        versions = _VERSIONS if ZERO_UUID not in ids.values() else (12, 12)
        if node in self._old_nodes:
            versions = _OLDER
            for part in asked.values():
                part.last_fetched_epoch = -1
        request = FetchRequest(
            max_wait_ms=settings.fetch_max_wait_ms,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.fetch_max_bytes,
            isolation_level=settings.isolation_level,
            topics=[FetchTopic(name, ids[name], each) for name, each in topics.items()],
            rack_id=settings.rack,
        )
        try:
            wait_ms = self._client.request_timeout_ms + settings.fetch_max_wait_ms
            answer = await self._client.ask_once(request, node, versions=versions, timeout_ms=wait_ms, line="fetch")
            self._fetched(answer, asked, {topic_id: name for name, topic_id in ids.items()})
        except LinkError:
            for each in asked:
                self._wait(each)
        except KafkaError as error:
            if error.code == ErrorCode.UNSUPPORTED_VERSION and versions != _OLDER:
                self._old_nodes.add(node)
            else:
                self._error = error
        except Exception as error:  # a fault of ours would stop the consumer, and nobody would know
            self._error = error
        finally:
            del self._fetches[node]
            self._arrived.set()

    def _fetched(
        self, answer: FetchResponse, asked: Mapping[TopicPartition, FetchPartition], names: Mapping[bytes, str]
    ) -> None:
        if answer.error_code:
            raise KafkaError(answer.error_code)
        for topic in answer.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for each in topic.partitions:
                partition = TopicPartition(name, each.partition_index)
                position = self._positions.get(partition)
                if position is None or partition not in asked or position.offset != asked[partition].fetch_offset:
                    continue
                if position.batches or position.current is not None:
                    continue  # another node has answered before
                try:
                    self._store(partition, position, each)
                except ClientError as error:  # the other partitions have their records all the same
                    self._note_errors([error])

    def _store(self, partition: TopicPartition, position: _Position, data: PartitionData) -> None:
        """Store the records of a partition, unless the position has moved since the request."""
        code, parts = data.error_code, data.diverging_epoch
        if code in LEADER_ERRORS:
            self._wait(partition)
        elif (code == ErrorCode.OFFSET_OUT_OF_RANGE or parts.end_offset >= 0) and position.replica != NOBODY:
            position.replica = NOBODY  # the leader may have records that a follower lacks
        elif code == ErrorCode.OFFSET_OUT_OF_RANGE:
            time = self._reset_time()
            if time is None:
                raise KafkaError(code, f"Fetch position {position.offset} is out of range for partition {partition}")
            position.move(None, time=time)
        elif code:
            raise _refusal(partition, code)
        elif parts.end_offset >= 0:
            self._truncate(partition, position, parts.end_offset, parts.epoch)
        else:
            committed = self.settings.isolation_level == IsolationLevel.READ_COMMITTED
            position.failures = 0
            if data.preferred_read_replica >= 0:
                position.replica = data.preferred_read_replica
                position.replica_until = self._client.deadline(self._leaders.max_age_ms)
            aborted: list[Any] = list(data.aborted_transactions or ()) if committed else []
            position.batches.extend(batches_of(partition, data.records, aborted, self.settings.check_crcs))

    def _truncate(self, partition: TopicPartition, position: _Position, end_offset: int, epoch: int) -> None:
        """Go on where the leader's log parts from the records that were read. Raises LogTruncated."""
        assert position.offset is not None
        at = f"Truncation detected for partition {partition} at offset {position.offset}"
        if self._reset_time() is None:
            raise LogTruncated(f"{at}, first offset known to diverge: {end_offset}")
        logger.info("%s, resetting offset to the first offset known to diverge %d", at, end_offset)
        position.move(min(end_offset, position.offset), epoch)

    def _wait(self, partition: TopicPartition) -> None:
        """Wait until the leader of the partition is known."""
        self._leaders.forget(partition.topic)
        self._pause(partition)

    def _pause(self, partition: TopicPartition) -> None:
        """Ask nobody about the partition for a while, after a failure."""
        position = self._positions.get(partition)
        if position is not None:
            position.replica = NOBODY
            position.failures += 1
            position.not_before = self._client.deadline(self._client.pause_ms(position.failures))
