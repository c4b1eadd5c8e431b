"""The topic `_schemas`, written and read inside the process.

Rule: `state` is the sum of the topic, whoever wrote to it: the topic is read on before every answer, a few records in
each turn of the loop where there are many new ones. After a reset or
restore, which put another broker in the place of this one, and after the topic was replaced, it is read from the start.

In a cluster the leader of the topic is the primary, and only the primary changes the topic. A new primary first writes
where its registry is. So the others know the address; and with that record everything before it is committed, so no id
is given twice. The same record is written before a change if nobody knows what came of the change before: its records
may be in the log and not yet committed, so that `state` lacks them.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import count

from pykafka_broker.broker.partitions.partition import NotLeader, Partition
from pykafka_broker.control.control import InProcessClient
from pykafka_broker.control.problems import Problem
from pykafka_broker.control.reading import FoundRecord, end_of, records_from
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.records.builder import BatchBuilder
from pykafka_broker.records.record import BatchRecord
from pykafka_broker.registry import records
from pykafka_broker.registry.problems import STORE_FAILED, TOO_LARGE, Elsewhere, RegistryError
from pykafka_broker.registry.state import RegistryState
from pykafka_broker.server.serving import Running

TOPIC = "_schemas"
_TIMEOUT_MS = 30_000
_ALL = -1
_REPLICAS = 3
_POLL_S = 0.01
_POLLS = 500
_RECORDS_AT_ONCE = 200
_BYTES_AT_ONCE = 1 << 20
_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
KeyValue = tuple[bytes, bytes | None]


class SchemasTopic:
    """The topic of the current broker."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._inside = InProcessClient(running)
        self._state = RegistryState()
        self._of: tuple[object, bytes] | None = None  # the broker and the topic of the state
        self._offset = 0
        self._records: Iterator[FoundRecord] | None = None  # from `_offset` to `_end`, being read
        self._end = 0
        self._one_at_a_time = asyncio.Lock()
        self._greeted: tuple[bytes, int] | None = None  # the topic and the leader epoch in which `port` was written
        self._uncertain = False  # the last write has no outcome
        self.port = 0  # the registry's port, for the other nodes of the cluster

    @property
    def alone(self) -> bool:
        """Return whether the cluster has no other brokers."""
        return self._running.server.broker.node.roles.alone

    @property
    def end_offset(self) -> int:
        """Return the end offset of the records in `state`. Raises RegistryError."""
        self.state()
        return self._offset

    @property
    def cluster_id(self) -> str:
        return self._running.server.broker.services.cluster_id

    @property
    def max_bytes(self) -> int:
        """Return the size limit of a record."""
        return int(self._running.server.broker.services.node.topic_config(TOPIC).max_message_bytes)

    async def make(self) -> None:
        """Create the topic if missing. Raises RegistryError."""
        image = self._running.server.broker.services.image
        if TOPIC in image.topics:
            return
        compact = CreatableTopicConfig("cleanup.policy", "compact")
        there = sum(not each.fenced for each in image.brokers.values())
        replicas = -1 if self.alone else min(_REPLICAS, there)
        asked = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=replicas, configs=[compact])
        try:
            answer = await self._inside.ask(CreateTopicsRequest(topics=[asked], timeout_ms=_TIMEOUT_MS))
        except Problem as problem:
            raise STORE_FAILED(problem.detail) from None
        made = answer.topics[0]
        if made.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise STORE_FAILED(made.error_message or ErrorCode(made.error_code).name)
        # another node may be the controller, which knows first
        await _until(lambda: TOPIC in self._running.server.broker.services.image.topics)

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[None]:
        """Lock the topic for a change.

        Raises:
            RegistryError: the topic can't be read.
            Elsewhere: another broker leads the topic.
        """
        async with self._one_at_a_time:
            await self.make()
            await self._lead()
            yield

    async def write_address(self) -> None:
        """Write the address of the registry, if the node leads the topic."""
        with suppress(RegistryError):
            if not self.alone and TOPIC in self._running.server.broker.services.image.topics:
                async with self._one_at_a_time:
                    await self._lead()

    async def _lead(self) -> None:
        services = self._running.server.broker.services
        if (topic := services.image.topics.get(TOPIC)) is None:
            return
        leading = None
        if not self.alone:
            try:
                leading = topic.id, services.replicas.leader(TOPIC, 0).leader_epoch
            except ApiError:
                raise Elsewhere(topic.partitions[0].leader) from None
        if self._uncertain or self._greeted != leading:
            await self.write([(records.NOOP_KEY, records.noop_value(services.node.id, self.port))])
            self._greeted = leading

    @property
    def other_leader(self) -> int | None:
        """Return the leader of the topic, None for the node or for no leader."""
        services = self._running.server.broker.services
        topic = None if self.alone else services.image.topics.get(TOPIC)
        return None if topic is None or topic.partitions[0].leader == services.node.id else topic.partitions[0].leader

    async def address_of(self, node_id: int, patient: bool) -> tuple[str, int] | None:
        """Return host and port of the registry beside a broker, None if unknown.

        Args:
            patient: wait for a broker that may be about to write its address.

        Raises:
            RegistryError: there is no replica to read from.
        """
        if patient:
            await _until(lambda: self._address_of(node_id) is not None)
        return self._address_of(node_id)

    def _address_of(self, node_id: int) -> tuple[str, int] | None:
        """Return host and port of the registry beside a broker.

        The host is the registered one of the broker: a client that writes to the topic can't send requests to any
        other.
        """
        told, broker = self.state().primary, self._running.server.broker.services.image.brokers.get(node_id)
        if told is None or told[0] != node_id or broker is None or not broker.endpoints:
            return None
        return broker.endpoints[0][1], told[1]

    async def reach(self, offset: int) -> None:
        """Wait for a limited time until `state` has all records before the offset."""
        await _until(lambda: self.end_offset >= offset)

    def state(self) -> RegistryState:
        """Read new records and return the state. Raises RegistryError."""
        self._is_read(sys.maxsize, sys.maxsize)
        return self._state

    def _is_read(self, most_records: int, most_bytes: int) -> bool:
        """Read new records, at most so many; return whether all were read. Raises RegistryError."""
        services = self._running.server.broker.services
        topic = services.image.topics.get(TOPIC)
        if topic is None:
            self._begin_anew(None)
            return True
        if self._of is None or self._of[0] is not services or self._of[1] != topic.id:
            self._begin_anew((services, topic.id))
        try:
            return self._read_on(services.replicas.readable(TOPIC, 0), most_records, most_bytes)
        except NotLeader as error:  # there is no replica on this node
            raise Elsewhere(error.leader) from None
        except ApiError as error:
            raise STORE_FAILED(error.message or error.code.name) from None

    def _begin_anew(self, of: tuple[object, bytes] | None) -> None:
        self._of, self._state, self._offset, self._records = of, RegistryState(), 0, None

    async def read_on(self) -> None:
        """Read new records, with others served in between. Raises RegistryError."""
        while True:
            if self._is_read(_RECORDS_AT_ONCE, _BYTES_AT_ONCE):
                return
            await asyncio.sleep(0)

    def _read_on(self, partition: Partition, most_records: int, most_bytes: int) -> bool:
        """Replay so many records; return whether these were all."""
        while True:
            if self._records is None:
                self._end = end_of(partition, "read_committed")
                if self._offset >= self._end:
                    return True
                self._records = records_from(partition, self._offset, "read_committed")
            try:
                for found in self._records:
                    record = found.record
                    key, value = _bytes(record.key), _bytes(record.value)
                    self._state.replay(key, value, record.timestamp)
                    self._offset = record.offset + 1
                    most_records, most_bytes = most_records - 1, most_bytes - len(key or b"") - len(value or b"")
                    if most_records <= 0 or most_bytes <= 0:
                        return False
            except Exception:
                self._records = None
                raise
            self._records, self._offset = None, self._end

    async def write(self, written: list[KeyValue]) -> None:
        """Append records as a single batch, and wait until committed and in `state`. Raises RegistryError."""
        services = self._running.server.broker.services
        if (made := services.image.topics.get(TOPIC)) is None:
            raise STORE_FAILED(f"the topic {TOPIC} is not known here yet")
        now = services.clock.wall
        builder = BatchBuilder()
        builder.extend(
            [BatchRecord(offset, now, key, value, []) for offset, (key, value) in zip(count(), written, strict=False)]
        )
        data = [PartitionProduceData(0, bytes(builder.build()))]
        topic = TopicProduceData(TOPIC, made.id, data)
        self._uncertain = True  # also if the client goes meanwhile
        try:
            answer = await self._inside.ask(ProduceRequest(None, _ALL, _TIMEOUT_MS, [topic]))
        except Problem as problem:
            raise STORE_FAILED(problem.detail) from None
        partition = answer.responses[0].partition_responses[0]
        self._uncertain = partition.error_code not in (ErrorCode.NONE, *_TOO_LARGE)
        if partition.error_code in _TOO_LARGE:
            raise TOO_LARGE()
        if partition.error_code:
            raise STORE_FAILED(partition.error_message or ErrorCode(partition.error_code).name)


async def _until(holds: Callable[[], bool]) -> None:
    """Wait for a condition for a limited time."""
    for _ in range(_POLLS):
        if holds():
            return
        await asyncio.sleep(_POLL_S)


def _bytes(found: bytes | memoryview | None) -> bytes | None:
    return None if found is None else bytes(found)
