"""A Kafka without a control API that a recording is played against.

Rule: it gets topics, records, offsets, leaders and coordinators by Kafka's own protocol. What can't be had there
(faults, the clock, everything else that only a control API does) is counted, so that it can be told. The recording of a
cluster needs as many brokers there. Its play ends where a broker was killed or stopped: everything later rests on that.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError, KafkaError, check
from pykafka_broker.client.groups import Committed, commit_offsets, committed_offsets
from pykafka_broker.client.producer import Producer
from pykafka_broker.client.topics import create_partitions, create_topic, reassign
from pykafka_broker.control.api.seeding import OffsetLine, RecordLine, TopicLine, read_line
from pykafka_broker.control.operations import find
from pykafka_broker.control.problems import Problem
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import CoordinatorType, TopicPartition
from pykafka_broker.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from pykafka_broker.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.protocol.messages.metadata_response import MetadataResponsePartition, MetadataResponseTopic
from pykafka_broker.testing.partial_recordings import forget_epochs
from pykafka_broker.testing.recorded_coordinators import (
    OF_COORDINATORS,
    Coordinated,
    coordinators,
    moved_coordinator,
)
from pykafka_broker.testing.recorded_messages import RecordedMessages
from pykafka_broker.testing.recording import COORDINATOR, PROCESS, BadRecording, Placement, Recorded, Recording
from pykafka_broker.testing.replay_targets import MOST_EPOCHS, WaitingTarget, as_played, matched, placed, rests_on_epoch

if TYPE_CHECKING:
    pass

# Records stay in order, and those between two flushes are one batch in each partition.
_IN_BATCHES = {
    "enable.idempotence": "false",
    "max.in.flight.requests.per.connection": "1",
    "linger.ms": "10000",
    "batch.size": "1000000",
}
_PAUSE_S = 0.05
_LOOKS = 60
_ENDED = {"kill": "killed", "stop": "stopped"}


class PlainTarget(WaitingTarget):
    """A Kafka without a control API.

    left_out: how often each operation of the control API could not be done, by its name.
    ended: the number of the last request before a broker was killed or stopped, and what was done to it.
    """

    knows_faults = False
    lags = True

    def __init__(self, host: str, port: int) -> None:
        self._address = host, port
        self.nodes: Mapping[int, int] = {}
        self.left_out: Counter[str] = Counter()
        self.ended: tuple[int, str] | None = None
        self._client = Client(f"[{host}]:{port}" if ":" in host else f"{host}:{port}", client_id="replay")
        self._producer = Producer(self._client, _IN_BATCHES)
        self._turns: Counter[str] = Counter()  # of the partitions of a topic, for records without partition and key
        self._partitions: dict[str, int] = {}
        self._placements: Mapping[str, list[Placement]] = {}
        self._has_begun = self._is_open = False

    def address(self, node: int) -> tuple[str, int]:
        found = self._client.nodes.get(self.nodes.get(node, -1))
        return self._address if found is None else (found.host, found.port)

    async def begin(self, recording: Recording) -> Recording:
        _, writer = await asyncio.open_connection(*self._address)  # OSError at once where nobody listens
        writer.close()
        await self._client.__aenter__()
        await self._producer.__aenter__()
        self._is_open = True
        try:
            if recording.nodes:
                await self._until_known(len(recording.brokers))
                self.nodes = matched(recording.brokers, self._client.nodes)
                self._placements = placed(recording.placements, self.nodes)
                if recording.unknown:  # epochs are not compared, and each one takes an election
                    self._placements = {
                        name: [each._replace(leader_epoch=-1) for each in places]
                        for name, places in self._placements.items()
                    }
            await self._take(recording.state)
            for one, node in sorted(coordinators(recording.events).items()):
                await self._until_loaded(one)
                if node in self.nodes and one.kind in OF_COORDINATORS:
                    await self._coordinate(one, self.nodes[node])
        except (ClientError, Problem) as error:
            raise BadRecording(f"the state before the recording can't be made there: {error}") from None
        self._has_begun = True
        return recording._replace(events=list(self._as_played(recording.events, bool(recording.unknown))))

    async def _until_known(self, brokers: int) -> None:
        """Look for so many brokers for a while: a cluster that has just started may not know all of them."""
        for _ in range(_LOOKS):
            await self._client.refresh()
            if len(self._client.nodes) >= brokers:
                return
            await asyncio.sleep(_PAUSE_S)

    def _as_played(self, events: Iterable[Recorded], is_partial: bool) -> Iterator[Recorded]:
        """Yield the events up to the first end of a broker's process."""
        number = 0
        for event in events:
            if event.call is not None and event.call[0] == PROCESS:
                how = event.call[1].strip("/")
                who = f"broker {event.node}" if event.node else "the broker"
                self.ended = number, f"{who} was {_ENDED.get(how, how)}"
                return
            number += bool(event.request)
            if self.nodes:
                event = _without_epochs(event) if is_partial else event
                if not (is_partial and rests_on_epoch(event)):  # what it waited for does not come without the epoch
                    event = as_played(event, self._placements)
            yield event

    async def end(self) -> None:
        if self._is_open:
            self._is_open = False
            await self._producer.__aexit__(None, None, None)
            await self._client.__aexit__(None, None, None)

    async def call(self, event: Recorded) -> None:
        method, target, body = event.call or ("", "", "")
        name = f"{method} {target}"
        if method == COORDINATOR:
            one, node = moved_coordinator(event)
            await self._coordinate(one, self.nodes[node])
            return await self._until_loaded(one)
        with suppress(ClientError, Problem):
            operation, given = find(method, target.partition("?")[0])
            name = operation.name
            if name == "seed":
                return await self._take(filter(str.strip, body.split("\n")))
            if name == "create_topic":
                topic = json.loads(body)
                return await self._create(topic["name"], topic.get("partitions") or 1, topic.get("config") or {})
            if name == "add_partitions":
                return await self._add_partitions(given["topic"], json.loads(body)["total"])
            if name == "move_leader" and self.nodes:
                asked = json.loads(body)
                index, leader = asked.get("partition") or 0, self.nodes[asked["leader"]]
                state = await self._state(asked["topic"], index)
                return await self._lead(asked["topic"], index, Placement(list(state.replica_nodes), leader))
            if name == "new_producer" and self.nodes:
                return None  # records of a cluster are written by a producer of the test's, and here by another one
            if name == "produce" and ((asked := json.loads(body)).get("producer") is None or self.nodes):
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
            elif isinstance(line, RecordLine):
                found = (line.topic,) if line.batch is None else (line.topic, line.partition, line.batch)
                if found != batch:
                    await self._producer.flush()
                batch = found
                await self._send(line)
        await self._producer.flush()
        for group, committed in offsets.items():
            await commit_offsets(self._client, group, committed)

    async def _until_loaded(self, one: Coordinated) -> None:
        """Wait until a coordinator is there and answers for a group or a transactional id."""
        kind, key = one
        if kind == CoordinatorType.GROUP:
            await committed_offsets(self._client, key)
        elif kind == CoordinatorType.TRANSACTION:
            asked = DescribeTransactionsRequest([key])
            with suppress(KafkaError):  # the transactional id is not known yet
                await self._client.ask_coordinator(kind, key, asked, lambda answer: answer.transaction_states[0])
        else:
            await self._client.coordinator(kind, key)

    async def _create(self, name: str, partitions: int, config: dict[str, Any]) -> None:
        if self.nodes and name in OF_COORDINATORS.values():
            return  # the brokers there make it, with a number of partitions of their own
        texts = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in config.items()}
        places = self._placements.get(name, [])[:partitions]
        replicas = [each.replicas for each in places]
        await create_topic(
            self._client, name, partitions=-1 if places else partitions, assignment=replicas, configs=texts
        )
        await self._until_led(name, len(places) or partitions)
        if not self._has_begun:
            for index, place in enumerate(places):
                await self._lead(name, index, place)

    async def _add_partitions(self, name: str, total: int) -> None:
        (topic,) = (await self._client.metadata([name])).topics
        replicas = [each.replicas for each in self._placements.get(name, [])[len(topic.partitions) : total]]
        await create_partitions(self._client, {name: total}, {name: replicas} if replicas else None)
        await self._until_led(name, total)

    async def _until_led(self, name: str, partitions: int) -> None:
        self._partitions[name] = partitions
        until = self._client.deadline()
        while self._client.deadline(0) < until:
            (topic,) = (await self._client.metadata([name])).topics
            if len(topic.partitions) == partitions and all(each.leader_id >= 0 for each in topic.partitions):
                return
            await asyncio.sleep(_PAUSE_S)

    # -- leaders where they were

    async def _coordinate(self, one: Coordinated, leader: int) -> None:
        """Let a broker coordinate a group or the transactions of an id."""
        (found,) = (await self._client.metadata([OF_COORDINATORS[one.kind]])).topics
        topic, index = one.place(len(found.partitions))
        replicas = list((await self._state(topic, index)).replica_nodes)
        if leader not in replicas:
            replicas[0] = leader
        await self._lead(topic, index, Placement(replicas, leader))

    async def _lead(self, topic: str, index: int, wanted: Placement) -> None:
        """Elect a leader until the broker and the epoch are the wanted ones. Kafka elects the first replica, so the
        replicas are in another order meanwhile.
        """
        for _ in range(MOST_EPOCHS):
            state = await self._state(topic, index)
            replicas, leader = wanted.replicas, wanted.leader
            if leader == state.leader_id:
                if state.leader_epoch >= wanted.leader_epoch or len(replicas) == 1:
                    break
                leader = next(each for each in replicas if each != leader)
            if leader not in replicas:
                break  # no broker led at the beginning
            await self._reassign(topic, index, [leader, *(each for each in replicas if each != leader)])
            request = ElectLeadersRequest(0, [TopicPartitions(topic, [index])], self._client.request_timeout_ms)
            check((await self._client.ask_controller(request)).error_code)
            await self._until(topic, index, leader=leader)
        await self._reassign(topic, index, wanted.replicas)

    async def _reassign(self, topic: str, index: int, replicas: list[int]) -> None:
        if (await self._state(topic, index)).replica_nodes != replicas:
            for error in (await reassign(self._client, {TopicPartition(topic, index): replicas})).values():
                raise error
            await self._until(topic, index, replicas=replicas)

    async def _until(
        self, topic: str, index: int, leader: int | None = None, replicas: list[int] | None = None
    ) -> None:
        """Wait until all brokers know the leader or the replicas of a partition. Raises BadRecording."""
        until = self._client.deadline()
        for node in self.nodes.values():
            while True:
                found = await self._state(topic, index, node)
                if found.replica_nodes == replicas if leader is None else found.leader_id == leader:
                    break
                if self._client.deadline(0) > until:
                    raise BadRecording(f"{topic}-{index} does not get the recorded replicas and leader there")
                await asyncio.sleep(_PAUSE_S)

    async def _state(self, topic: str, index: int, node: int | None = None) -> MetadataResponsePartition:
        """Return a partition as a broker knows it, once the broker has heard of its topic."""
        request = MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        until = self._client.deadline()
        while True:
            found: MetadataResponseTopic = (await self._client.ask(request, node, versions=(7, 13))).topics[0]
            known = [each for each in found.partitions if each.partition_index == index]
            if known or self._client.deadline(0) > until:
                check(found.error_code)
                return known[0]
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


def _without_epochs(event: Recorded) -> Recorded:
    message = RecordedMessages(event)
    if message.api_key not in (ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH):
        return event
    if message.request is not None:
        forget_epochs(message.request)
    return message.rewritten()._replace(response=event.response)
