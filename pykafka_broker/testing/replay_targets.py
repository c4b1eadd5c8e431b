"""The brokers that a recording is played against: with a control API, or without one.

Rule: a Kafka without a control API gets topics, records and offsets by Kafka's own protocol. What can't be had there
(faults, the clock, everything else that only a control API does) is counted, so that it can be told.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Protocol
from urllib.parse import parse_qsl

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError, KafkaError
from pykafka_broker.client.groups import Committed, commit_offsets, committed_offsets
from pykafka_broker.client.producer import Producer
from pykafka_broker.client.topics import create_topic
from pykafka_broker.control.api.seeding import OffsetLine, RecordLine, TopicLine, read_line
from pykafka_broker.control.operations import find
from pykafka_broker.control.problems import Problem
from pykafka_broker.control.traffic.exchange import error_codes
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import CoordinatorType, TopicPartition
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from pykafka_broker.testing.control_client import ControlClient
from pykafka_broker.testing.recorded_messages import RecordedMessages
from pykafka_broker.testing.recording import BadRecording, Recorded, Recording

# Records stay in order, and those between two flushes are one batch in each partition.
_IN_BATCHES = {
    "enable.idempotence": "false",
    "max.in.flight.requests.per.connection": "1",
    "linger.ms": "10000",
    "batch.size": "1000000",
}
_PAUSE_S = 0.05
_QUESTIONS = {int(CoordinatorType.GROUP): "group", int(CoordinatorType.TRANSACTION): "transactional_id"}


class Target(Protocol):
    """The broker or cluster that a recording is played against.

    lags: whether it learns of changes later than the recorded broker did, so that it must be asked again.
    brokers: the ids of a cluster's brokers, which are those of the recording; empty for a broker alone.
    """

    knows_faults: bool
    lags: bool
    brokers: Sequence[int]

    def address(self, node: int) -> tuple[str, int]:
        """Return host and port of the broker that plays the part of a recorded node."""

    async def begin(self, recording: Recording) -> Recording:
        """Make the state that the recording begins with; return what is to be played. Raises BadRecording."""

    async def call(self, event: Recorded) -> None:
        """Do what a call of the control API did."""

    async def end(self) -> None:
        """Close connections."""


class ControlledTarget:
    """A broker with a control API."""

    knows_faults = True
    lags = False
    brokers: Sequence[int] = ()

    def __init__(self, control: ControlClient, host: str, port: int, last_fault: int = 0) -> None:
        self._control = control
        self._address = host, port
        self._last_fault = last_fault
        self._faults: dict[int, int] = {}  # the id here, by the recorded id

    def address(self, node: int) -> tuple[str, int]:
        return self._address

    async def begin(self, recording: Recording) -> Recording:
        self._last_fault = recording.last_fault
        if recording.state:
            await asyncio.to_thread(self._control.call, "POST", "/seed", "\n".join(recording.state))
        for kind, key in sorted(coordinators(recording.events, found_at_once=True)):
            if (name := _QUESTIONS.get(kind)) is not None:
                await asyncio.to_thread(self._control.call, "GET", "/coordinator", query={name: key})
        return recording

    async def call(self, event: Recorded) -> None:
        method, target, body = event.call or ("", "", "")
        path, _, query = target.partition("?")
        given: Any = body or None
        with suppress(ValueError):
            given = json.loads(body)
        _, faults, number = path.rpartition("/faults/")
        if faults and number.isdecimal():
            path = f"/faults/{self._faults.get(int(number), number)}"
        answer = await asyncio.to_thread(self._control.call, method, path, given, query=dict(parse_qsl(query)))
        if (method, path) == ("POST", "/faults"):
            self._last_fault += 1
            self._faults[self._last_fault] = answer["id"]

    async def end(self) -> None:
        """Do nothing: a control client closes its connections by itself."""


class PlainTarget:
    """A Kafka without a control API.

    left_out: how often each operation of the control API could not be done, by its name.
    """

    knows_faults = False
    lags = True
    brokers: Sequence[int] = ()

    def __init__(self, host: str, port: int) -> None:
        self._address = host, port
        self.left_out: Counter[str] = Counter()
        self._client = Client(f"[{host}]:{port}" if ":" in host else f"{host}:{port}", client_id="replay")
        self._producer = Producer(self._client, _IN_BATCHES)
        self._turns: Counter[str] = Counter()  # of the partitions of a topic, for records without partition and key
        self._partitions: dict[str, int] = {}
        self._is_open = False

    def address(self, node: int) -> tuple[str, int]:
        return self._address

    async def begin(self, recording: Recording) -> Recording:
        _, writer = await asyncio.open_connection(*self._address)  # OSError at once where nobody listens
        writer.close()
        await self._client.__aenter__()
        await self._producer.__aenter__()
        self._is_open = True
        try:
            await self._take(recording.state)
            for kind, key in sorted(coordinators(recording.events)):
                await self._until_loaded(kind, key)
        except (ClientError, Problem) as error:
            raise BadRecording(f"the state before the recording can't be made there: {error}") from None
        return recording

    async def end(self) -> None:
        if self._is_open:
            self._is_open = False
            await self._producer.__aexit__(None, None, None)
            await self._client.__aexit__(None, None, None)

    async def call(self, event: Recorded) -> None:
        method, target, body = event.call or ("", "", "")
        name = f"{method} {target}"
        with suppress(ClientError, Problem):
            operation, given = find(method, target.partition("?")[0])
            name = operation.name
            if name == "seed":
                return await self._take(body.splitlines())
            if name == "create_topic":
                topic = json.loads(body)
                return await self._create(topic["name"], topic.get("partitions") or 1, topic.get("config") or {})
            if name == "produce" and (asked := json.loads(body)).get("producer") is None:
                records = ({"type": "record", "topic": given["topic"], **each} for each in asked["records"])
                return await self._take(map(json.dumps, records))
        self.left_out[name] += 1

    async def _take(self, lines: Iterable[str]) -> None:
        """Make what lines for `seed` tell."""
        offsets: dict[str, dict[TopicPartition, Committed]] = {}
        batch: tuple[Any, ...] | None = None
        for text in lines:
            line = read_line(text)
            if isinstance(line, TopicLine):
                await self._create(line.name, line.partitions, line.config)
            elif isinstance(line, OffsetLine):
                place = TopicPartition(line.topic, line.partition)
                offsets.setdefault(line.group, {})[place] = Committed(line.offset, -1, line.metadata)
            else:
                found = (line.topic,) if line.batch is None else (line.topic, line.partition, line.batch)
                if found != batch:
                    await self._producer.flush()
                batch = found
                await self._send(line)
        await self._producer.flush()
        for group, committed in offsets.items():
            await commit_offsets(self._client, group, committed)

    async def _until_loaded(self, kind: int, key: str) -> None:
        """Wait until a coordinator is there and answers for a group or a transactional id."""
        if kind == CoordinatorType.GROUP:
            await committed_offsets(self._client, key)
        elif kind == CoordinatorType.TRANSACTION:
            asked = DescribeTransactionsRequest([key])
            with suppress(KafkaError):  # the transactional id is not known yet
                await self._client.ask_coordinator(kind, key, asked, lambda answer: answer.transaction_states[0])
        else:
            await self._client.coordinator(kind, key)

    async def _create(self, name: str, partitions: int, config: dict[str, Any]) -> None:
        texts = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in config.items()}
        await create_topic(self._client, name, partitions=partitions, configs=texts)
        self._partitions[name] = partitions
        until = self._client.deadline()
        while self._client.deadline(0) < until:
            (topic,) = (await self._client.metadata([name])).topics
            if len(topic.partitions) == partitions and all(each.leader_id >= 0 for each in topic.partitions):
                return
            await asyncio.sleep(_PAUSE_S)

    async def _send(self, line: RecordLine) -> None:
        key, value, headers = line.stored()
        partition = line.partition
        if partition is None and key is None:  # as the control API does it
            partition = self._turns[line.topic] % self._partitions.get(line.topic, 1)
            self._turns[line.topic] += 1
        await self._producer.send(
            line.topic, value, key, headers=headers, partition=partition, timestamp=line.timestamp
        )


def coordinators(events: Iterable[Recorded], found_at_once: bool = False) -> set[tuple[int, str]]:
    """Return kind and key of all coordinators that clients look for. The first question to one of a kind makes a broker
    create the topic for it.

    Args:
        found_at_once: only those of kinds that were there when the first client asked.
    """
    found: set[tuple[int, str]] = set()
    late: set[int] = set()
    for event in events:
        message = RecordedMessages(event)
        request = message.request
        if message.api_key != ApiKey.FIND_COORDINATOR or request is None:
            continue
        if ErrorCode.COORDINATOR_NOT_AVAILABLE in error_codes(message.response):
            late.add(request.key_type)
        found |= {(request.key_type, key) for key in (request.coordinator_keys or [request.key])}
    return {(kind, key) for kind, key in found if not (found_at_once and kind in late)}
