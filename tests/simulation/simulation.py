"""One run: nodes, clients, faults, and what is checked at the end.

Rule: a run is decided by its seed and nothing else. Faults come for a while; then all is made whole, the clients end
what they have begun, and everything is looked at.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from types import TracebackType
from typing import Self

from pykafka_broker.cluster.image import MetadataDelta
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from tests.simulation.checks import Found, check_history
from tests.simulation.client import Ask, Script, SimClient, Wait
from tests.simulation.equality import differences, unsettled
from tests.simulation.history import History, TopicPartition
from tests.simulation.network import Network
from tests.simulation.node import QUICK_DISK_MS, SimNode
from tests.simulation.producers import Transactional, idempotent
from tests.simulation.readers import check_offset, committer, fetch, read_whole, reader
from tests.simulation.timeline import Timeline

TOPIC = "t"
_LOGGER = logging.getLogger("pykafka_broker")
LOOK_MS = 50
REST_MS = 3_000
SETTLE_MS = 120_000  # whatever has a time-out, has had it


class Simulation:
    """`settings` of each node by its id. While it is entered, what brokers log as a defect is seen."""

    def __init__(self, seed: int, settings: Mapping[int, Mapping[str, str]]) -> None:
        self.random = Random(seed)
        self.timeline = Timeline()
        self.network = Network(self.timeline, self.random)
        self.history = History()
        self.nodes = {id: SimNode(self.network, id, each, self.random) for id, each in settings.items()}
        self.clients: list[SimClient] = []
        self.partitions: list[TopicPartition] = []
        self._defects = Defects(self.history)
        for node in self.nodes.values():
            node.on_made = self._watch

    def __enter__(self) -> Self:
        _LOGGER.addHandler(self._defects)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        _LOGGER.removeHandler(self._defects)

    # -- parts

    def client(self, name: str) -> SimClient:
        """A machine of its own."""
        bootstrap = [(node.name, 9092) for node in self.nodes.values() if node.is_broker]
        return SimClient(self.network, name, bootstrap, self.history)

    def do(self, name: str, script: Callable[[SimClient], Script]) -> SimClient:
        """Another client, which does that."""
        client = self.client(name)
        client.begin(script(client))
        self.clients.append(client)
        return client

    def create_topic(self, partitions: int, replicas: int, **configs: str) -> None:
        """Before anything else; all nodes are well."""
        self.partitions = [(TOPIC, number) for number in range(partitions)]

        def create(client: SimClient) -> Script:
            request = CreateTopicsRequest([CreatableTopic(TOPIC, partitions, replicas)], 1000)
            while True:
                answer = yield Ask(client.random.choice(client.bootstrap), request, (7, 7))
                code = getattr(answer, "topics", None) and answer.topics[0].error_code
                if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    return
                yield Wait(100)

        self.finish([self.do("creator", create)])

    def clients_begin(self) -> None:
        """Two producers, a transactional one, readers of both kinds, and a committer."""
        partitions = self.partitions
        for name in ("p1", "p2"):
            self.do(name, lambda client: idempotent(client, partitions))
        self.do("x", lambda client: Transactional(client, partitions).script())
        for partition in partitions:
            self.do(f"r{partition[1]}", partial(reader, partition=partition, committed=bool(partition[1] % 2)))
        self.do("g", lambda client: committer(client, "group-g"))

    # -- time

    def run(self, ms: int) -> None:
        self.timeline.run(self.timeline.now + ms)

    def finish(self, clients: list[SimClient]) -> None:
        """Until these are done."""
        if not self._until(lambda: all(client.done for client in clients)):
            stuck = [client.name for client in clients if not client.done]
            self.history.violation(f"after two minutes in peace these clients still wait: {stuck}")

    def _until(self, enough: Callable[[], bool]) -> bool:
        """Let things happen until it is so; False if that takes too long."""
        limit = self.timeline.now + SETTLE_MS
        while not enough():
            if self.timeline.now >= limit:
                return False
            self.run(LOOK_MS)
            self._start_all()  # some may only have been about to end
        return True

    def _start_all(self) -> None:
        for node in self.nodes.values():
            if not node.running:
                node.start()

    def make_whole(self) -> None:
        """The end of all trouble."""
        self.network.heal()
        for node in self.nodes.values():
            node.disk_ms = QUICK_DISK_MS
            if node.paused:
                node.go_on()
        self._start_all()

    def conclude(self) -> list[str]:
        """Let the clients end, look at everything, and say what is wrong."""
        self.make_whole()
        for client in self.clients:
            client.stopping = True
        self.finish(self.clients)
        found, committed = self._read_all()
        nodes = list(self.nodes.values())
        brokers = [node for node in nodes if node.is_broker]
        self._until(lambda: not unsettled(brokers) and not any(differences(nodes)))
        self.history.violations += unsettled(brokers)
        self.history.violations += differences(nodes)
        for node in self.nodes.values():
            self.history.violations += node.violations
        return check_history(self.history, found, committed)

    def _read_all(self) -> tuple[Found, Found]:
        found: Found = {partition: {} for partition in self.partitions}
        committed: Found = {partition: {} for partition in self.partitions}

        def read(client: SimClient) -> Script:
            for partition in self.partitions:
                yield from fetch(client, partition, 0, committed=False)  # its log is opened at its first use
            yield Wait(REST_MS)  # and a high watermark that a crash has set back rises again
            for partition in self.partitions:
                yield from read_whole(client, partition, found[partition], committed=False)
                yield from read_whole(client, partition, committed[partition], committed=True)
            for group, asked in self.history.asked_offsets.items():
                yield from check_offset(client, group, self.history.committed_offsets.get(group, -1), asked)

        self.finish([self.do("last", read)])
        return found, committed

    # -- what is looked at all the time

    def _watch(self, node: SimNode) -> None:
        def look(delta: MetadataDelta) -> None:
            for topic_id, partition, epoch in led_by(node):
                self.history.note_leader(topic_id, partition, epoch, node.id)

        node.broker.node.subscribe(look)


def led_by(node: SimNode) -> list[tuple[bytes, int, int]]:
    """What a node takes itself for the leader of, and in which epoch."""
    image = node.broker.node.image
    topic = image.topics.get(TOPIC)
    if topic is None:
        return []
    return [
        (topic.id, number, each.leader_epoch) for number, each in topic.partitions.items() if each.leader == node.id
    ]


class Defects(logging.Handler):
    """What a broker logs as a defect, and survives."""

    def __init__(self, history: History) -> None:
        super().__init__(logging.ERROR)
        self._history = history

    def emit(self, record: logging.LogRecord) -> None:
        self._history.violation(record.getMessage() + (f": {record.exc_info[1]!r}" if record.exc_info else ""))
