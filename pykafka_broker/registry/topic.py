"""The topic `_schemas`, written and read inside the process.

Rule: `state` is what the topic holds, whoever wrote it: it is read on before every answer. Where another broker has
come into the place of this one (reset, restore), or another topic into the place of this one, it is read anew.
"""

from __future__ import annotations

from itertools import count

from pykafka_broker.broker.partition import Partition
from pykafka_broker.control.inside import CurrentInside
from pykafka_broker.control.problems import Problem
from pykafka_broker.control.reading import end_of, records_from
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.records.builder import BatchBuilder
from pykafka_broker.records.record import Record
from pykafka_broker.registry.problems import store_failed, too_large
from pykafka_broker.registry.state import State
from pykafka_broker.server.serving import Running

TOPIC = "_schemas"
_TIMEOUT_MS = 30_000
_ALL = -1
_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
KeyValue = tuple[bytes, bytes | None]


class SchemasTopic:
    """The topic of the broker that has the place now."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._inside = CurrentInside(running)
        self._state = State()
        self._of: tuple[object, bytes] | None = None  # the broker and the topic that the state is of
        self._offset = 0

    @property
    def cluster_id(self) -> str:
        return self._running.server.broker.services.cluster_id

    @property
    def max_bytes(self) -> int:
        """The largest record that it takes."""
        return int(self._running.server.broker.services.topic_config(TOPIC).max_message_bytes)

    async def make(self) -> None:
        """See to it that it is there. Raises Refused."""
        if TOPIC in self._running.server.broker.services.image.topics:
            return
        compact = CreatableTopicConfig("cleanup.policy", "compact")
        asked = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=-1, configs=[compact])
        try:
            answer = await self._inside.get().ask(CreateTopicsRequest(topics=[asked], timeout_ms=_TIMEOUT_MS))
        except Problem as problem:
            raise store_failed(problem.detail) from None
        made = answer.topics[0]
        if made.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise store_failed(made.error_message or ErrorCode(made.error_code).name)

    def state(self) -> State:
        """What is in it by now. Raises Refused."""
        services = self._running.server.broker.services
        topic = services.image.topics.get(TOPIC)
        if topic is None:
            self._of, self._state, self._offset = None, State(), 0
            return self._state
        if self._of is None or self._of[0] is not services or self._of[1] != topic.id:
            self._of, self._state, self._offset = (services, topic.id), State(), 0
        try:
            self._read_on(services.replicas.leader(TOPIC, 0))
        except ApiError as error:
            raise store_failed(error.message or error.code.name) from None
        return self._state

    def _read_on(self, partition: Partition) -> None:
        end = end_of(partition, "read_committed")
        if self._offset < end:
            for found in records_from(partition, self._offset, "read_committed"):
                self._state.replay(_bytes(found.record.key), _bytes(found.record.value))
            self._offset = end

    async def write(self, written: list[KeyValue]) -> None:
        """Append them as one batch; `state` has them when it is committed. Raises Refused."""
        await self.make()
        services = self._running.server.broker.services
        if (made := services.image.topics.get(TOPIC)) is None:  # where another node is the controller, it knows first
            raise store_failed(f"the topic {TOPIC} is not known here yet")
        now = services.clock.wall
        builder = BatchBuilder()
        builder.extend(
            [Record(offset, now, key, value, []) for offset, (key, value) in zip(count(), written, strict=False)]
        )
        data = [PartitionProduceData(0, bytes(builder.build()))]
        topic = TopicProduceData(TOPIC, made.id, data)
        try:
            answer = await self._inside.get().ask(ProduceRequest(None, _ALL, _TIMEOUT_MS, [topic]))
        except Problem as problem:
            raise store_failed(problem.detail) from None
        partition = answer.responses[0].partition_responses[0]
        if partition.error_code in _TOO_LARGE:
            raise too_large()
        if partition.error_code:
            raise store_failed(partition.error_message or ErrorCode(partition.error_code).name)


def _bytes(found: bytes | memoryview | None) -> bytes | None:
    return None if found is None else bytes(found)
