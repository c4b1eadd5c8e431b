"""The brokers that a recording is played against: one with a control API, a cluster of them, or any Kafka.

Rule: in a cluster topics get the recorded replicas, and partitions and coordinators the recorded leaders; after a call
of the control API nothing else is sent until all running brokers know what the controller has decided. A call that
fails there is left out, as it failed then too or shows in the answers.

A Kafka without a control API gets topics, records, offsets, leaders and coordinators by Kafka's own protocol. What
can't be had there (faults, the clock, everything else that only a control API does) is counted, so that it can be told.
The recording of a cluster needs as many brokers there. Its play ends where a broker was killed or stopped: everything
later rests on that.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qsl

from pykafka_broker.addresses import address_text
from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError, KafkaError, check
from pykafka_broker.client.groups import Committed, commit_offsets, committed_offsets
from pykafka_broker.client.producer import Producer
from pykafka_broker.client.topics import create_partitions, create_topic, reassign
from pykafka_broker.control.api.seeding import OffsetLine, RecordLine, TopicLine, read_line
from pykafka_broker.control.operations import find
from pykafka_broker.control.problems import Problem
from pykafka_broker.control.traffic.exchange import error_codes
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import CoordinatorType, TopicPartition
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_topics_request import CreatableReplicaAssignment
from pykafka_broker.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from pykafka_broker.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.protocol.messages.metadata_response import MetadataResponsePartition, MetadataResponseTopic
from pykafka_broker.testing.arguments import config_texts
from pykafka_broker.testing.cluster_traffic import SESSION, SESSION_MS
from pykafka_broker.testing.control_client import ControlClient, ControlError
from pykafka_broker.testing.data import BrokerError, WaitTimeout
from pykafka_broker.testing.partial_recordings import forget_epochs
from pykafka_broker.testing.recorded_coordinators import (
    OF_COORDINATORS,
    QUESTIONS,
    Coordinated,
    coordinators,
    moved_coordinator,
)
from pykafka_broker.testing.recorded_messages import RecordedMessages
from pykafka_broker.testing.recording import COORDINATOR, PROCESS, BadRecording, Placement, Recorded, Recording

if TYPE_CHECKING:
    from pykafka_broker.testing.cluster import KafkaCluster
    from pykafka_broker.testing.process import KafkaBroker

MOST_EPOCHS = 200  # that a leader is moved for
_PATIENCE_MS = 20_000  # less than the player has for an answer
_CREATE_TOPICS = int(ApiKey.CREATE_TOPICS).to_bytes(2, "big")
_FETCH = int(ApiKey.FETCH).to_bytes(2, "big")
_OF_EPOCHS = {ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH}
_CLOCK = ("advance_clock", "set_clock")


class Target(Protocol):
    """The broker or cluster that a recording is played against.

    lags: whether it learns of changes later than the recorded broker did, so that it must be asked again.
    nodes: of a cluster, the broker that plays the part of each recorded one; empty for a broker alone. They are known
        once the play has begun.
    """

    knows_faults: bool
    lags: bool
    nodes: Mapping[int, int]

    def address(self, node: int) -> tuple[str, int]:
        """Return host and port of the broker that plays the part of a recorded node."""

    async def begin(self, recording: Recording) -> Recording:
        """Make the state that the recording begins with; return what is to be played. Raises BadRecording."""

    async def call(self, event: Recorded) -> None:
        """Do what a call of the control API did."""

    async def pass_to(self, ms: int) -> None:
        """Let time pass, up to some milliseconds since the beginning."""

    async def end(self) -> None:
        """Close connections."""


class WaitingTarget:
    """A target whose time can't be moved: time passes by waiting."""

    _began_s: float | None = None

    async def pass_to(self, ms: int) -> None:
        now = asyncio.get_running_loop().time()
        if self._began_s is None:
            self._began_s = now
        await asyncio.sleep(self._began_s + ms / 1000 - now)


class ControlledTarget:
    """A broker with a control API. Its clock is stopped where the time of the recording passes there."""

    knows_faults = True
    lags = False
    nodes: Mapping[int, int] = {}

    def __init__(
        self, control: ControlClient, host: str, port: int, last_fault: int = 0, process: KafkaBroker | None = None
    ) -> None:
        self._control = control
        self._process = process  # can be ended and started; None for one that is not ours
        self._address = host, port
        self._last_fault = last_fault
        self._faults: dict[int, int] = {}  # the id here, by the recorded id
        self._passed_ms: int | None = None
        self._stands = False  # the recorded clock

    def address(self, node: int) -> tuple[str, int]:
        return self._address

    async def begin(self, recording: Recording) -> Recording:
        if self._process is None and any(
            each.call is not None and each.call[0] == PROCESS for each in recording.events
        ):
            raise BadRecording("the recorded broker was stopped or killed, which can't be done there: leave out --to")
        self._last_fault = recording.last_fault
        if recording.state:
            await asyncio.to_thread(self._control.call, "POST", "/seed", "\n".join(recording.state))
        for kind, key in sorted(coordinators(recording.events, found_at_once=True)):
            if (name := QUESTIONS.get(kind)) is not None:
                await asyncio.to_thread(self._control.call, "GET", "/coordinator", query={name: key})
        return recording

    async def call(self, event: Recorded) -> None:
        method, target, body = event.call or ("", "", "")
        if method == PROCESS and self._process is not None:
            return await self._end_or_start(self._process, target.strip("/"))
        path, _, query = target.partition("?")
        self._stands = path == "/clock/freeze" or (self._stands and path != "/clock/resume")
        if path == "/clock/resume" and self._passed_ms is not None:
            return
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

    async def _end_or_start(self, process: KafkaBroker, how: str) -> None:
        await asyncio.to_thread({"kill": process.kill, "stop": process.stop, "start": process.start}[how])
        if how == "start":
            self._control, self._faults, self._last_fault = process.control, {}, 0
            if self._passed_ms is not None:
                await asyncio.to_thread(self._control.call, "POST", "/clock/freeze")

    async def pass_to(self, ms: int) -> None:
        """Move the clock on, by as much as the recorded one has gone."""
        if self._passed_ms is None:
            self._passed_ms = 0
            await asyncio.to_thread(self._control.call, "POST", "/clock/freeze")
        passed, self._passed_ms = ms - self._passed_ms, max(ms, self._passed_ms)
        if passed > 0 and not self._stands:
            await asyncio.to_thread(self._control.call, "POST", "/clock/advance", {"ms": passed})

    async def end(self) -> None:
        """Let the clock go on that the play has stopped; a control client closes its connections by itself."""
        if self._passed_ms is not None and not self._stands:
            with suppress(ControlError, BrokerError, OSError):  # of a broker that has ended within the recording
                await asyncio.to_thread(self._control.call, "POST", "/clock/resume")


class ClusterTarget(WaitingTarget):
    """A cluster with the control API, each broker of which plays the part of a recorded one."""

    knows_faults = True
    lags = True

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self.nodes: Mapping[int, int] = {}
        self._targets: dict[int, ControlledTarget] = {}  # by node of the cluster here
        self._placements: dict[str, list[Placement]] = {}
        self._controller = 0

    def address(self, node: int) -> tuple[str, int]:
        broker = self._cluster.broker(self._here(node))
        return broker.host, broker.port

    def _here(self, node: int) -> int:
        """Return the node that plays the part of a recorded one; the first broker for 0."""
        return self._cluster._controller_id if node and node == self._controller else self.nodes.get(node, self._first)

    async def begin(self, recording: Recording) -> Recording:
        there = self._cluster._ids
        self.nodes = matched(recording.brokers or there, there)
        self._controller = recording.controller
        for node, last_fault in (recording.nodes or {self._first: recording.last_fault}).items():
            self._targets[self._here(node)] = self._target(self._here(node), last_fault)
        lines = [json.loads(each) for each in recording.state]
        topics = [each for each in lines if each["type"] == "topic"]
        alone = [Placement([self._first], self._first)]
        self._placements = {each["name"]: alone * each["partitions"] for each in topics}
        self._placements |= placed(recording.placements, self.nodes)
        try:
            for topic in topics:
                await self._create(topic["name"], topic["partitions"], topic.get("config", {}), leaders=True)
        except (ClientError, ControlError, BrokerError, WaitTimeout) as error:
            raise BadRecording(f"the state before the recording can't be made there: {error}") from None
        await asyncio.to_thread(self._lead_coordinators, recording.events)
        await asyncio.to_thread(self._fill, lines)
        return recording._replace(events=[as_played(each, self._placements) for each in recording.events])

    async def call(self, event: Recorded) -> None:
        method, path, body = event.call or ("", "", "")
        if method == PROCESS:
            return await asyncio.to_thread(self._process, self._here(event.node), path.strip("/"))
        if method == COORDINATOR:
            one, node = moved_coordinator(event)
            return await asyncio.to_thread(self._coordinate, one, self.nodes[node])
        name = ""
        with suppress(Problem):
            name, given = (found := find(method, path.partition("?")[0]))[0].name, found[1]
        with suppress(ControlError, BrokerError, ClientError, WaitTimeout, OSError):
            if name == "create_topic" and (asked := json.loads(body))["name"] in self._placements:
                return await self._create(asked["name"], asked.get("partitions") or 1, asked.get("config") or {})
            if name == "add_partitions" and given["topic"] in self._placements:
                return await self._add_partitions(given["topic"], json.loads(body)["total"])
            at = self._here(event.node)
            if name == "produce":  # the producer's id is of the recorded cluster
                asked = {key: value for key, value in json.loads(body).items() if key != "producer"}
                event = event._replace(call=(method, path, json.dumps(asked)))
                if not event.node:  # of a capture, which does not tell where others have produced
                    index = asked["records"][0].get("partition") or 0
                    at = await asyncio.to_thread(self._cluster.leader_of, given["topic"], index)
            elif name == "move_leader":
                asked = json.loads(body)
                asked["leader"] = self.nodes.get(asked["leader"], asked["leader"])
                event = event._replace(call=(method, path, json.dumps(asked)))
                at = self._cluster._controller_id
            if at not in self._targets:
                self._targets[at] = self._target(at)
            await self._targets[at].call(event)
        await asyncio.to_thread(self._settle, name in _CLOCK)

    async def end(self) -> None:
        """Do nothing: control clients close their connections by themselves."""

    @property
    def _first(self) -> int:
        return self._cluster._ids[0]

    def _target(self, node: int, last_fault: int = 0) -> ControlledTarget:
        broker = self._cluster.nodes[node]
        return ControlledTarget(broker.control, broker.host, broker.port, last_fault)

    def _process(self, node: int, how: str) -> None:
        """End or start the process of a broker."""
        broker = self._cluster.broker(node)
        if how == "start":
            broker.start()
            self._targets[node] = self._target(node)
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
        places, texts = self._placements[name][:partitions], config_texts(config)
        async with Client(self._cluster.bootstrap_servers, client_id="replay") as client:
            await create_topic(client, name, assignment=[each.replicas for each in places], configs=texts)
        await asyncio.to_thread(self._lead, name, places, leaders)

    async def _add_partitions(self, name: str, total: int) -> None:
        before = (await asyncio.to_thread(self._cluster.topic, name))["partitions"]
        places = [each.replicas for each in self._placements[name][before:total]]
        async with Client(self._cluster.bootstrap_servers, client_id="replay") as client:
            await create_partitions(client, {name: total}, {name: places} if len(places) == total - before else None)
        await asyncio.to_thread(self._lead, name, self._placements[name][:total], False)

    def _lead_coordinators(self, events: Iterable[Recorded]) -> None:
        """Make the topics of coordinators that came within the recording, with the recorded leaders; of a capture, with
        the coordinators that clients were told.
        """
        there = {each["name"] for each in self._cluster.topics(internal=True)}
        for kind, name in OF_COORDINATORS.items():
            if name in self._placements and name not in there:
                self._cluster.coordinator(**{QUESTIONS[kind]: "replay"})
                self._lead(name, self._placements[name], True)
        for one, node in sorted(coordinators(events).items()):
            if (name := OF_COORDINATORS.get(one.kind, "")) and name not in self._placements and node in self.nodes:
                self._coordinate(one, self.nodes[node])

    def _coordinate(self, one: Coordinated, node: int) -> None:
        """Let a broker coordinate a group or the transactions of an id."""
        self._cluster.coordinator(**{QUESTIONS[one.kind]: one.key})
        name, index = one.place(self._cluster.topic(OF_COORDINATORS[one.kind])["partitions"])
        self._cluster.wait_for_isr(name, index)
        self._move(name, index, Placement([], node))
        self._cluster.wait_for_metadata()

    def _lead(self, name: str, places: list[Placement], leaders: bool) -> None:
        self._cluster.wait_for_metadata()
        for index, place in enumerate(places):
            self._cluster.wait_for_isr(name, index)
            if leaders and place.leader >= 0:
                self._move(name, index, place)
        self._cluster.wait_for_metadata()

    def _move(self, name: str, index: int, wanted: Placement) -> None:
        """Move a leader until the broker and the epoch are the recorded ones."""
        for _ in range(MOST_EPOCHS):
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
            at = line["partition"]
            self._cluster.commit(line["group"], line["topic"], line["offset"], at, line.get("metadata", ""))


def matched(recorded: Collection[int], there: Collection[int]) -> dict[int, int]:
    """Return which broker there plays the part of each recorded one: that of its id, or else any other one.

    Raises:
        BadRecording: there are too few.
    """
    if len(recorded) > len(there):
        raise BadRecording(f"the recording has {len(recorded)} brokers, and the cluster there has {len(there)}")
    others = iter(sorted({*there} - {*recorded}))
    return {each: each if each in there else next(others) for each in sorted(recorded)}


def placed(placements: Mapping[str, list[Placement]], nodes: Mapping[int, int]) -> dict[str, list[Placement]]:
    """Return recorded placements with the brokers that play the parts."""
    return {
        name: [
            each._replace(
                replicas=[nodes[node] for node in each.replicas if node in nodes], leader=nodes.get(each.leader, -1)
            )
            for each in places
        ]
        for name, places in placements.items()
    }


def rests_on_epoch(event: Recorded) -> bool:
    """Return whether a request was refused for the leader epoch that it named."""
    return bool(_OF_EPOCHS & error_codes(RecordedMessages(event).response).keys())


def as_played(event: Recorded, placements: Mapping[str, list[Placement]]) -> Recorded:
    """Return a request of a cluster as it is played: topics get the recorded replicas, and a Fetch waits for its
    records, or for the new leader because of which it failed.
    """
    api_key = event.request[:2]
    if api_key not in (_CREATE_TOPICS, _FETCH):
        return event
    message = RecordedMessages(event)
    if message.request is None or message.response is None:
        return event
    if api_key == _FETCH:
        if not any(
            each.records or each.error_code for topic in message.response.responses for each in topic.partitions
        ):
            return event
        message.request.max_wait_ms = _PATIENCE_MS  # what it waited for may come later than it did
        return message.rewritten()._replace(response=event.response)
    for topic in message.request.topics:
        places = [each.replicas for each in placements.get(topic.name, ())]
        if places and not topic.assignments:
            chosen = places if topic.num_partitions < 0 else places[: topic.num_partitions]
            topic.assignments = [CreatableReplicaAssignment(index, each) for index, each in enumerate(chosen)]
            topic.num_partitions = topic.replication_factor = -1
    return message.rewritten()._replace(response=event.response)


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
        self._client = Client(address_text(host, port), client_id="replay")
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
        places, texts = self._placements.get(name, [])[:partitions], config_texts(config)
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
        """Return a partition as a broker knows it, once the broker has heard of it. Raises BadRecording."""
        request = MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        until = self._client.deadline()
        while True:
            found: MetadataResponseTopic = (await self._client.ask(request, node, versions=(7, 13))).topics[0]
            known = [each for each in found.partitions if each.partition_index == index]
            if known or self._client.deadline(0) > until:
                check(found.error_code)
                if not known:
                    raise BadRecording(f"{topic} has no partition {index} there")
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
