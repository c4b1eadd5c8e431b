"""A cluster that a recording is played against: each of its brokers plays the part of the recorded node of its id.

Rule: topics get the recorded replicas, and partitions the recorded leaders and leader epochs. After a call of the
control API nothing else is sent until all running brokers know what the controller has decided. A call that fails is
left out, as it failed then too or shows in the answers.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError
from pykafka_broker.client.topics import create_partitions, create_topic
from pykafka_broker.control.operations import find
from pykafka_broker.control.problems import Problem
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.messages.create_topics_request import CreatableReplicaAssignment
from pykafka_broker.testing.cluster import KafkaCluster
from pykafka_broker.testing.cluster_nodes import SESSION, SESSION_MS
from pykafka_broker.testing.cluster_recording import PROCESS
from pykafka_broker.testing.control_client import ControlError
from pykafka_broker.testing.data import BrokerError, WaitTimeout
from pykafka_broker.testing.recorded_messages import RecordedMessages
from pykafka_broker.testing.recording import BadRecording, Placement, Recorded, Recording
from pykafka_broker.testing.replay_targets import ControlledTarget

_MOST_EPOCHS = 200  # that a leader is moved for
_CREATE_TOPICS = int(ApiKey.CREATE_TOPICS).to_bytes(2, "big")
_FETCH = int(ApiKey.FETCH).to_bytes(2, "big")
_PATIENCE_MS = 20_000  # less than the player has for an answer
_OF_COORDINATORS = {"__consumer_offsets": "group", "__transaction_state": "transactional_id"}
_CLOCK = ("advance_clock", "set_clock")


class ClusterTarget:
    """A cluster with the control API."""

    knows_faults = True
    lags = True

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self.brokers: Sequence[int] = [*cluster._ids]
        self._nodes: dict[int, ControlledTarget] = {}
        self._placements: dict[str, list[Placement]] = {}
        self._controller = 0

    def address(self, node: int) -> tuple[str, int]:
        broker = self._cluster.broker(node or self.brokers[0])
        return broker.host, broker.port

    async def begin(self, recording: Recording) -> Recording:
        if missing := sorted({*recording.brokers} - {*self.brokers}):
            raise BadRecording(f"the recording has a broker {missing[0]}, and the cluster has none")
        alone = self.brokers[0]
        self._controller = recording.controller
        for node, last_fault in (recording.nodes or {alone: recording.last_fault}).items():
            self._nodes[node] = self._target(node, last_fault)
        lines = [json.loads(each) for each in recording.state]
        topics = [each for each in lines if each["type"] == "topic"]
        self._placements = {each["name"]: [Placement([alone], alone)] * each["partitions"] for each in topics} | dict(
            recording.placements
        )
        try:
            for topic in topics:
                await self._create(topic["name"], topic["partitions"], topic["config"], leaders=True)
        except (ClientError, ControlError, BrokerError, WaitTimeout) as error:
            raise BadRecording(f"the state before the recording can't be made there: {error}") from None
        await asyncio.to_thread(self._lead_coordinators)
        await asyncio.to_thread(self._fill, lines)
        events = [self._as_played(each) for each in recording.events]
        return recording._replace(events=events)

    async def call(self, event: Recorded) -> None:
        method, path, body = event.call or ("", "", "")
        if method == PROCESS:
            return await asyncio.to_thread(self._process, event.node or self.brokers[0], path.strip("/"))
        name = ""
        with suppress(Problem):
            name, given = (found := find(method, path.partition("?")[0]))[0].name, found[1]
        with suppress(ControlError, BrokerError, ClientError, WaitTimeout, OSError):
            if name == "create_topic" and (asked := json.loads(body))["name"] in self._placements:
                return await self._create(asked["name"], asked.get("partitions") or 1, asked.get("config") or {})
            if name == "add_partitions" and given["topic"] in self._placements:
                return await self._add_partitions(given["topic"], json.loads(body)["total"])
            if name == "produce":  # the producer's id is of the recorded cluster
                asked = {key: value for key, value in json.loads(body).items() if key != "producer"}
                event = event._replace(call=(method, path, json.dumps(asked)))
            await self._node(event.node).call(event)
        await asyncio.to_thread(self._settle, name in _CLOCK)

    async def end(self) -> None:
        """Do nothing: control clients close their connections by themselves."""

    def _target(self, node: int, last_fault: int = 0) -> ControlledTarget:
        broker = self._cluster.controller if node == self._controller else self._cluster.broker(node)
        return ControlledTarget(broker.control, broker.host, broker.port, last_fault)

    def _node(self, node: int) -> ControlledTarget:
        return self._nodes[node or self.brokers[0]]

    def _process(self, node: int, how: str) -> None:
        """End or start the process of a broker."""
        broker = self._cluster.broker(node)
        if how == "start":
            broker.start()
            self._nodes[node] = self._target(node)
        else:
            {"kill": broker.kill, "stop": broker.stop}[how]()

    def _settle(self, of_clock: bool) -> None:
        """Wait until all brokers know what the controller has decided, and it has heard of them."""
        with suppress(ControlError, BrokerError, WaitTimeout, OSError):
            if of_clock:
                session_ms = int(self._cluster.controller.config.get(SESSION, SESSION_MS))
                self._cluster.clock._all_heard(session_ms // 2)
            self._cluster.wait_for_metadata()

    # -- topics where they were

    async def _create(self, name: str, partitions: int, config: dict[str, Any], *, leaders: bool = False) -> None:
        """Create a topic with the recorded replicas, and wait until all of them are in sync."""
        places = self._placements[name][:partitions]
        texts = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in config.items()}
        async with Client(self._cluster.bootstrap_servers, client_id="replay") as client:
            await create_topic(client, name, assignment=[each.replicas for each in places], configs=texts)
        await asyncio.to_thread(self._lead, name, places, leaders)

    async def _add_partitions(self, name: str, total: int) -> None:
        before = (await asyncio.to_thread(self._cluster.topic, name))["partitions"]
        places = [each.replicas for each in self._placements[name][before:total]]
        async with Client(self._cluster.bootstrap_servers, client_id="replay") as client:
            await create_partitions(client, {name: total}, {name: places} if len(places) == total - before else None)
        await asyncio.to_thread(self._lead, name, self._placements[name][:total], False)

    def _lead_coordinators(self) -> None:
        """Make the topics of coordinators that came within the recording, with the recorded leaders."""
        there = {each["name"] for each in self._cluster.topics(internal=True)}
        for name, key in _OF_COORDINATORS.items():
            if name in self._placements and name not in there:
                self._cluster.coordinator(**{key: "replay"})
                self._lead(name, self._placements[name], True)

    def _lead(self, name: str, places: list[Placement], leaders: bool) -> None:
        self._cluster.wait_for_metadata()
        for index, place in enumerate(places):
            self._cluster.wait_for_isr(name, index)
            if leaders and place.leader >= 0:
                self._move(name, index, place)
        self._cluster.wait_for_metadata()

    def _move(self, name: str, index: int, wanted: Placement) -> None:
        """Move a leader until the broker and the epoch are the recorded ones."""
        for _ in range(_MOST_EPOCHS):
            state = self._cluster.partition(name, index)
            if state["leader"] == wanted.leader and state["leader_epoch"] >= wanted.leader_epoch:
                return
            self._cluster.controller.move_leader(name, wanted.leader, index)

    def _fill(self, lines: Iterable[dict[str, Any]]) -> None:
        """Write records at their leaders, in the recorded batches, and commit offsets."""
        records: dict[int, list[str]] = defaultdict(list)
        offsets: list[dict[str, Any]] = []
        for line in lines:
            if line["type"] == "record":
                place = self._placements[line["topic"]][line.get("partition") or 0]
                records[place.leader].append(json.dumps(line))
            elif line["type"] == "offset":
                offsets.append(line)
        for leader, texts in records.items():
            self._cluster.broker(leader).control.call("POST", "/seed", "\n".join(texts))
        for line in offsets:
            self._cluster.commit(line["group"], line["topic"], line["offset"], line["partition"], line["metadata"])

    def _as_played(self, event: Recorded) -> Recorded:
        """Return a request that makes topics with the recorded replicas, and a Fetch that waits for its records."""
        api_key = event.request[:2]
        if api_key not in (_CREATE_TOPICS, _FETCH):
            return event
        message = RecordedMessages(event)
        if message.request is None or message.response is None:
            return event
        if api_key == _FETCH:
            if not any(each.records for topic in message.response.responses for each in topic.partitions):
                return event
            message.request.max_wait_ms = _PATIENCE_MS  # what it waited for may come later than it did
            return message.rewritten()._replace(response=event.response)
        for topic in message.request.topics:
            places = [each.replicas for each in self._placements.get(topic.name, ())]
            if places and not topic.assignments:
                chosen = places if topic.num_partitions < 0 else places[: topic.num_partitions]
                topic.assignments = [CreatableReplicaAssignment(index, each) for index, each in enumerate(chosen)]
                topic.num_partitions = topic.replication_factor = -1
        return message.rewritten()._replace(response=event.response)
