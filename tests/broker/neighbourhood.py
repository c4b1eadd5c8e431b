"""Several whole brokers without sockets, and a network between them that a test can hold up.

Metadata records that one node commits are committed by all, as if one controller had sent them. A leader's records
are carried by hand to the next leader (`move`).
"""

from __future__ import annotations

import itertools
import sys
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pykafka_broker.broker.coordinators.coordinator_log import read_batches
from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.broker.requests.router import PendingReply
from pykafka_broker.broker.waiting.future import Future
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.config import BrokerConfig
from pykafka_broker.log.partition_log import Origin
from pykafka_broker.peers import Address, LinkBroken, LinkError, OnReply, Peer, Versions
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.protocol.stored.config_record import ConfigRecord
from pykafka_broker.protocol.stored.partition_change_record import PartitionChangeRecord
from pykafka_broker.protocol.stored.partition_record import PartitionRecord
from pykafka_broker.protocol.stored.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from pykafka_broker.protocol.stored.remove_topic_record import RemoveTopicRecord
from pykafka_broker.protocol.stored.topic_record import TopicRecord
from pykafka_broker.server.listeners import Listener
from tests.broker.api.real_broker import NOW, UnsyncedFileSystem
from tests.broker.driven import DrivenBroker, settings
from tests.broker.frames import decoded, framed

FIRST_PORT = 9100


class Sent(NamedTuple):
    """A request on its way."""

    line: Line
    request: Message
    on_reply: OnReply
    highest: int  # version


class Line:
    """A connection of one node to another, for one purpose."""

    def __init__(self, network: Network, source: int, address: Address, client_id: str) -> None:
        self.network, self.client_id = network, client_id
        self.source, self.target = source, address.port - FIRST_PORT
        self.closed = False

    def send(
        self,
        request: Message,
        on_reply: OnReply,
        timeout_ms: int,
        *,
        versions: Versions | None = None,
        copied: bool = False,
    ) -> None:
        highest = SPECS[ApiKey(request.API_KEY)].stable_max_version
        self.network.sent.append(Sent(self, request, on_reply, min(highest, (versions or (0, highest))[1])))

    def withdraw(self, request: Message) -> bool:
        sent = self.network.sent
        left = [each for each in sent if each.request is not request]
        was_there = len(left) < len(sent)
        sent.clear()
        sent.extend(left)
        return was_there

    def served(self, api_key: int) -> Versions | None:
        return None

    def close(self) -> None:
        self.closed = True


class Lines:
    """The connections that one node opens to others."""

    def __init__(self, network: Network, source: int) -> None:
        self._network, self._source = network, source

    def open(self, address: Address, client_id: str) -> Peer:
        return Line(self._network, self._source, address, client_id)


class Network:
    """The network between nodes: requests arrive when a test says so (`run`).

    `log` has source, target, client id and request of each request that arrived.
    """

    def __init__(self, nodes: dict[int, DrivenBroker]) -> None:
        self.sent: deque[Sent] = deque()
        self.log: list[tuple[int, int, str, Message]] = []
        self.cut: set[int] = set()  # nodes that nobody reaches
        self.silent: set[int] = set()  # nodes that reach nobody
        self.deaf: set[int] = set()  # nodes that get everything and answer nothing
        self.slow: set[int] = set()  # nodes whose answers stay under way until `deliver`
        self._late: deque[tuple[OnReply, Any]] = deque()
        self._nodes = nodes
        self._connections = itertools.count(1000)

    def run(self) -> None:
        """Deliver requests until nothing is under way."""
        while self.sent:
            self.step()

    def step(self) -> None:
        """Deliver one request, and its answer if there is one at once."""
        line, request, on_reply, version = self.sent.popleft()
        if line.closed or line.target in self.cut or line.source in self.silent:
            on_reply(LinkBroken("nobody there"))
            return
        self.log.append((line.source, line.target, line.client_id, request))
        if line.target in self.deaf:
            return
        connection = ConnectionContext(
            next(self._connections), "PLAINTEXT", ("127.0.0.1", FIRST_PORT + line.target), ("127.0.0.1", 50000)
        )

        def answered(answer: Any) -> None:
            if line.target in self.slow:
                self._late.append((on_reply, answer))
            else:
                on_reply(answer)

        ask(self._nodes[line.target], connection, request, version, answered, line.client_id)

    def deliver(self, most: int = sys.maxsize) -> None:
        """Deliver the answers of slow nodes, the first `most` of them."""
        while self._late and most:
            most -= 1
            on_reply, answer = self._late.popleft()
            on_reply(answer)

    def lose(self) -> None:
        """Lose the answers of slow nodes."""
        self._late = deque((on_reply, LinkBroken("nobody there")) for on_reply, _ in self._late)
        self.deliver()


def ask(
    node: DrivenBroker,
    connection: ConnectionContext,
    request: Message,
    version: int,
    on_reply: Callable[[Any], None],
    client_id: str = "test",
) -> Future[Any] | None:
    """Send a request through the router; its answer is encoded and decoded. A pending answer is returned."""

    def answered(pieces: Sequence[Any]) -> None:
        on_reply(decoded(pieces, request.API_KEY, version))

    found = node.router.dispatch(connection, framed(request, version, client_id))
    if isinstance(found, PendingReply):
        pending = found
        pending.future.add_done_callback(lambda _: answered(pending.pieces()))
        return pending.future
    if found is not None:
        answered(found)
    return None


class Neighbourhood:
    """Nodes 1, 2, ... `now` is moved by `wait`."""

    def __init__(self, directory: Path, brokers: int = 2, **config: str) -> None:
        self.nodes: dict[int, DrivenBroker] = {}
        self.network = Network(self.nodes)
        self.now = NOW
        self._ids = itertools.count(1)
        self._topic_ids = itertools.count(1000)
        self._undelivered: deque[tuple[int, Sequence[ApiMessageAndVersion]]] = deque()
        self._commit: dict[int, Callable[..., None]] = {}
        self.connection = ConnectionContext(1, "PLAINTEXT", ("127.0.0.1", 1), ("127.0.0.1", 50000))
        for number in range(1, brokers + 1):
            self.nodes[number] = self._start(number, directory / str(number), config)
        for number in self.nodes:
            self._introduce(number)

    def __getitem__(self, number: int) -> DrivenBroker:
        return self.nodes[number]

    def _start(self, number: int, directory: Path, config: dict[str, str]) -> DrivenBroker:
        node = DrivenBroker(
            BrokerConfig({"log.dirs": str(directory), "node.id": str(number), **settings(**config)}),
            new_uuid=lambda: next(self._ids).to_bytes(16, "big"),
            new_session_id=lambda: next(self._ids),
            fs=UnsyncedFileSystem(),
            peers=Lines(self.network, number),
        )
        node.listeners["PLAINTEXT"] = Listener("PLAINTEXT", "127.0.0.1", FIRST_PORT + number)
        node.start(self.now)
        self._commit[number] = node.metadata.commit
        node.metadata.commit = lambda records: self.commit(number, records)  # type: ignore[method-assign]
        return node

    def _introduce(self, number: int) -> None:
        """To all others."""
        me = self.nodes[number].image.brokers[number]
        record = RegisterBrokerRecord(
            broker_id=number, incarnation_id=me.incarnation_id, broker_epoch=me.epoch, fenced=False, rack=me.rack
        )
        endpoint = self.nodes[number].listeners["PLAINTEXT"]
        record.end_points = [BrokerEndpoint("PLAINTEXT", endpoint.host, endpoint.port, 0)]
        for other in self.nodes:
            if other != number:
                self._commit[other]([ApiMessageAndVersion(record, 1)])

    # -- metadata

    def commit(self, source: int, records: Sequence[ApiMessageAndVersion]) -> None:
        """Apply committed records at `source` first, then at all other nodes.

        Records that are committed as a consequence reach the other nodes afterwards.
        """
        if not records:
            return
        first = not self._undelivered
        others = [number for number in self.nodes if number != source]
        self._undelivered += [(number, records) for number in others]
        self._commit[source](records)
        while first and self._undelivered:
            number, more = self._undelivered[0]
            self._commit[number](more)
            self._undelivered.popleft()

    def add(self, topic: str, *leaders: int, replicas: tuple[int, ...] = (), **overrides: str) -> bytes:
        """Add a topic with a partition for each leader, the only replica unless `replicas` are given; return its id."""
        topic_id = next(self._topic_ids).to_bytes(16, "big")
        records: list[Any] = [TopicRecord(topic, topic_id)]
        records += [
            PartitionRecord(
                number,
                topic_id,
                list(replicas or (leader,)),
                [leader],
                leader=leader,
                leader_epoch=0,
                partition_epoch=0,
            )
            for number, leader in enumerate(leaders)
        ]
        records += [
            ConfigRecord(ConfigResourceType.TOPIC, topic, key, value) for key, value in settings(**overrides).items()
        ]
        self.commit(1, [ApiMessageAndVersion(record, 0) for record in records])
        return topic_id

    def move(self, topic: str, number: int, to: int) -> None:
        """Give a partition another leader, which has all records of the leader before."""
        state = self[1].image.topics[topic].partitions[number]
        old = self[state.leader].logs.get(topic, number)
        new = self[to].logs.get(topic, number)
        for header, batch in read_batches(old):
            if header.base_offset >= new.log_end_offset:
                new.append(bytearray(batch), self.now, header=header, origin=Origin.REPLICATION)
        new.advance_high_watermark(new.log_end_offset)
        self.change(topic, number, leader=to, isr=[to])

    def remove(self, topic: str) -> None:
        """Delete a topic."""
        self.commit(1, [ApiMessageAndVersion(RemoveTopicRecord(self[1].image.topics[topic].id), 0)])

    def change(self, topic: str, number: int = 0, **fields: Any) -> None:
        """Change any fields of a partition that a PartitionChangeRecord can name."""
        record = PartitionChangeRecord(number, self[1].image.topics[topic].id, **fields)
        self.commit(1, [ApiMessageAndVersion(record, 1 if "directories" in fields else 0)])

    # -- requests and time

    def asked(self, node: int, request: Message, version: int) -> list[Any]:
        """Send a request to a node; return a list that gets the answer once it comes."""
        answers: list[Any] = []
        self.connection.id += 1
        ask(self[node], self.connection, request, version, answers.append)
        return answers

    def call(self, node: int, request: Message, version: int) -> Any:
        """Send a request and return its answer, after all requests between the nodes that it takes."""
        answers = self.asked(node, request, version)
        self.network.run()
        assert answers, "the request waits"
        return answers[0]

    def wait(self, ms: int) -> None:
        """Let so much time pass, with all that is due on the way."""
        self.now += ms
        for node in self.nodes.values():
            node.clock.set(self.now)
        self.settle()

    def settle(self) -> None:
        """Run all nodes until nothing is under way, without letting time pass."""
        for _ in range(20):
            for node in self.nodes.values():
                node.whole.on_deadline()
                node.whole.settle()
            if not self.network.sent:
                return
            self.network.run()
        raise AssertionError("they do not come to rest")

    def log(self, node: int, topic: str, number: int) -> Any:
        """Return a node's log of a partition."""
        return self[node].logs.get(topic, number)


__all__ = ["LinkError", "Neighbourhood"]
