"""One run: nodes, clients, faults, and what is checked at the end.

Rule: a run is decided by its seed and nothing else. Trouble come for a while; then all is made whole, the clients end
what they have begun, and everything is looked at.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from random import Random
from types import MappingProxyType, TracebackType
from typing import Self

from pykafka_broker.cluster.image import MetadataDelta
from pykafka_broker.protocol.enums import PartitionKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pykafka_broker.testing.simulation.faults import DISK_ERRORS
from pykafka_broker.testing.simulation.network import Network
from pykafka_broker.testing.simulation.node import BUSY_MS, SimNode
from pykafka_broker.testing.simulation.timeline import Timeline
from tests.simulation import dead_letters
from tests.simulation.checks import Found, Gone, check_history
from tests.simulation.client import Ask, Script, SimClient, Wait
from tests.simulation.equality import differences, leftovers, undecided, unsettled
from tests.simulation.history import History
from tests.simulation.keeping import KEPT, Keeping
from tests.simulation.lookers import looker, trimmer
from tests.simulation.memberships import ClassicMembership, ConsumerMembership, Membership
from tests.simulation.operators import Churn, Growth, Operator, settle
from tests.simulation.producers import Transactional, careless, idempotent, unheard
from tests.simulation.rare import counted
from tests.simulation.readers import OutOfRange, Vacillating, committed_offset, committer, fetch, read_whole, reader
from tests.simulation.sharers import Rewinding, Sharer, from_the_beginning
from tests.simulation.watch import Watch
from tests.simulation.workers import AtLeastOnce, ExactlyOnce

TOPIC, OUTPUT, CHURNED = "t", "o", "d"
SHARE_GROUP = "shares"
_LOGGER = logging.getLogger("pykafka_broker")
OUT_OF_REACH = "no log of them in reach"
OFFLINE = "The log directory of the partition is not online"
OF_DISKS = *map(os.strerror, DISK_ERRORS), OUT_OF_REACH, OFFLINE

LOOK_MS = 50
REST_MS = 3_000
SETTLE_MS = 120_000  # whatever has a time-out, has had it


class Simulation:
    """A cluster on a virtual network, with its clients.

    While it is entered, defects that brokers log become violations, and rare states are counted.

    settings: of each node, by id. keeping: the retention of the run's topic.
    """

    def __init__(
        self,
        seed: int,
        settings: Mapping[int, Mapping[str, str]],
        keeping: Keeping = KEPT,
        *,
        busy: bool = False,
        beside: Simulation | None = None,
    ) -> None:
        """busy: the nodes serve several connections in one turn, and more clients commit offsets. beside: another
        simulation, whose random numbers, time and network this one shares.
        """
        self.network: Network = Network(Timeline(), Random(seed)) if beside is None else beside.network
        self.timeline: Timeline = self.network.timeline
        self.random: Random = self.network.random
        self.prefix = ""  # of the names of clients
        self.history = History(TOPIC, keeping)
        self.nodes = {id: SimNode(self.network, id, each, self.random) for id, each in settings.items()}
        self.busy = busy
        for node in self.nodes.values():
            node.busy_ms = self._busy_ms
        self.watch = Watch(self.network, self.nodes, self.history)
        self.clients: list[SimClient] = []
        self.workers: list[SimClient] = []  # clients that go on until all records are processed
        self.partitions: list[PartitionKey] = []
        self.output: list[PartitionKey] = []
        self.letters: list[PartitionKey] = []
        self._defects = Defects(
            lambda text: self.history.violation(text), lambda: any(node.has_lost_disks for node in self.nodes.values())
        )
        self._entered = ExitStack()
        self._operated = False  # somebody changes settings
        for node in self.nodes.values():
            node.on_made = self._watch

    def __enter__(self) -> Self:
        self._entered.enter_context(counted(self.history.rare))
        self._entered.enter_context(self.watch.noting_starts())
        _LOGGER.addHandler(self._defects)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        _LOGGER.removeHandler(self._defects)
        self._entered.close()

    @property
    def _busy_ms(self) -> int:
        return BUSY_MS if self.busy else 0

    # -- parts

    def client(self, name: str) -> SimClient:
        """Return a new client on a machine of its own."""
        bootstrap = [(node.name, 9092) for node in self.nodes.values() if node.is_broker]
        return SimClient(self.network, f"{self.prefix}{name}", bootstrap, self.history)

    def add(self, node: SimNode) -> None:
        """Add a node and watch it."""
        self.nodes[node.id] = node
        node.busy_ms = self._busy_ms
        node.on_made = self._watch

    def begin_anew(self, prefix: str, known: History) -> None:
        """Go on with new clients and with `known` as the history."""
        self.prefix, self.history, self.watch.history = prefix, known, known
        self.clients, self.workers = [], []

    def do(self, name: str, script: Callable[[SimClient], Script]) -> SimClient:
        """Start a new client with the script, and return it."""
        client = self.client(name)
        client.begin(script(client))
        self.clients.append(client)
        return client

    def create_topic(self, partitions: int, replicas: int) -> None:
        """Create the run's topic, before any fault and any client."""
        self.partitions = self._create(TOPIC, partitions, replicas, self.history.keeping.topic)

    def _create(
        self, name: str, partitions: int, replicas: int, configs: Mapping[str, str] = MappingProxyType({})
    ) -> list[PartitionKey]:
        def create(client: SimClient) -> Script:
            own = [CreatableTopicConfig(*each) for each in configs.items()]
            request = CreateTopicsRequest([CreatableTopic(name, partitions, replicas, configs=own)], 1000)
            while True:
                answer = yield Ask(client.random.choice(client.bootstrap), request, (7, 7))
                code = getattr(answer, "topics", None) and answer.topics[0].error_code
                if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    return
                yield Wait(100)

        self.finish([self.do(f"creator of {name}", create)])
        return [(name, number) for number in range(partitions)]

    def clients_begin(self, *, patient: bool = False) -> None:
        """Start two producers, a transactional one that may be patient, readers of both kinds, and committers.

        Unless the run is a plain one, also start clients that look for offsets, delete records, and write with acks=1
        and acks=0.
        """
        partitions, keeping = self.partitions, self.history.keeping
        for name in ("p1", "p2"):
            self.do(name, lambda client: idempotent(client, partitions))
        self.do("x", lambda client: Transactional(client, partitions, patient=patient).script())
        for partition in partitions:
            self._read(partition)
        self.do("g", lambda client: committer(client, "group-g"))
        for name in "hijk" if self.busy else "":
            self.do(name, partial(committer, group=f"group-{name}", asking=1))
        if not keeping.plain:
            self.do("y", lambda client: Transactional(client, partitions, fleeting=True).script())
            self.do("c", lambda client: careless(client, partitions))
            self.do("u", lambda client: unheard(client, partitions))
            self.do("l", lambda client: looker(client, partitions, timed=not self._operated))
            self.do("v", lambda client: Vacillating(client).script())
        if keeping.trimmed:
            self.do("d", lambda client: trimmer(client, partitions))

    def _read(self, partition: PartitionKey) -> None:
        self.do(f"r{partition[1]}", partial(reader, partition=partition, committed=bool(partition[1] % 2)))

    def near_readers_begin(self) -> None:
        """Start a reader in each broker's rack for each partition."""
        for node in self.nodes.values():
            for partition in self.partitions if node.is_broker else ():
                self._read_near(node, partition)

    def _read_near(self, node: SimNode, partition: PartitionKey) -> None:
        def near(client: SimClient) -> Script:
            client.rack = node.name
            return reader(client, partition, committed=bool((partition[1] + node.id) % 2))

        self.do(f"near-{node.name}-{partition[1]}", near)

    def growth_begins(self) -> None:
        """Have partitions added to the topic."""

        def read(partition: int) -> None:
            if not grower.stopping:
                self._read((TOPIC, partition))

        grower = self.do("a", lambda client: Growth(client, self.partitions, read).script())

    def groups_begin(self) -> None:
        """Start two groups with members of either protocol: one processes at least once, the other exactly once."""
        self.output = self._create(OUTPUT, 2, 3)
        for group, kinds in (("once", self._kinds()), ("exact", self._kinds())):
            for number, kind in enumerate(kinds):
                self._worker(group, f"{group}{number}", kind)
        self.history.exact.add("exact")

    def shares_begin(self) -> None:
        """Start a share group with members and, unless the run is a plain one, a second one that is rewound."""
        self.history.shared.add(SHARE_GROUP)
        self.finish([self.do("settings", lambda client: from_the_beginning(client, SHARE_GROUP))])
        for name in ("s1", "s2", "s3"):
            client = self.client(name)
            client.begin(Sharer(client, SHARE_GROUP, TOPIC).script())
            self.workers.append(client)
        if not self.history.keeping.plain:
            client = self.client("w")
            client.begin(Rewinding(client, self.partitions).script())
            self.workers.append(client)

    def letters_begin(self) -> None:
        """Start a share group whose members reject some records, and create the topic of the dead letters."""
        self.letters = self._create(dead_letters.LETTERS, 2, 3, dead_letters.TAKES_LETTERS)
        self.history.shared.add(dead_letters.GROUP)
        self.finish([self.do("settings", dead_letters.with_letters)])
        for name in ("s1", "s2", "s3"):
            client = self.client(name)
            client.begin(dead_letters.Rejecting(client, dead_letters.GROUP, TOPIC).script())
            self.workers.append(client)

    def letters_come(self) -> list[str]:
        """Wait for the letters of all rejected records; return the violations."""
        client = self.client("letters")
        reader = dead_letters.LetterReader(client, self.letters)
        client.begin(reader.script())
        member = self.do("member", lambda each: dead_letters.last_member(each, TOPIC, lambda: client.done))
        self.finish([client, member])
        return self.history.violations

    def operators_begin(self, *, directories: Sequence[str] = ()) -> None:
        """Start an operator, who moves partitions (between `directories` too) and changes settings, and a client that
        creates and deletes a topic.
        """
        brokers = [node.id for node in self.nodes.values() if node.is_broker]
        topics = sorted({topic for topic, _ in self.partitions + self.output})
        self._operated = True
        self.do("op", lambda client: Operator(client, brokers, topics, directories).script())
        self.do("churn", lambda client: Churn(client, CHURNED).script())

    def _kinds(self) -> list[type[Membership]]:
        return [self.random.choice((ClassicMembership, ConsumerMembership)) for _ in range(2)]

    def _worker(self, group: str, name: str, kind: type[Membership]) -> None:
        client = self.client(name)
        member = kind(client, group, self.partitions, name if self.random.random() < 0.2 else None)
        worker = ExactlyOnce(client, member, self.output) if group == "exact" else AtLeastOnce(client, member)
        client.begin(worker.script())
        self.workers.append(client)

    # -- time

    def run(self, ms: int) -> None:
        self.timeline.run(self.timeline.now + ms)

    def finish(self, clients: list[SimClient]) -> None:
        """Run until these clients are done."""
        if not self._until(lambda: all(client.done for client in clients)):
            stuck = [client.name for client in clients if not client.done]
            self.history.violation(f"after a long time in peace these clients still wait: {stuck}")

    def _until(self, enough: Callable[[], bool]) -> bool:
        """Run until `enough` returns True; return False if that takes too long or a partition stands still."""
        limit = self.timeline.now + SETTLE_MS
        while not enough():
            if self.timeline.now >= limit or self.watch.standstill:
                return False
            self.run(LOOK_MS)
            self._start_all()  # a node may have ended only now
        return True

    def _start_all(self) -> None:
        for node in self.nodes.values():
            if not node.running:
                node.start()

    def make_whole(self) -> None:
        """End all faults: heal the network and the disks, and start every node."""
        self.network.heal()
        for node in self.nodes.values():
            node.make_whole()
        self._start_all()

    def conclude(self) -> list[str]:
        """Let the clients end, check everything, and return the violations."""
        self.make_whole()
        for client in self.clients:
            client.stopping = True
        self.finish(self.clients)
        if not self.history.keeping.plain:
            self.finish([self.do("settled", lambda client: settle(client, TOPIC))])
        found, committed = self._read_all(REST_MS)
        if self.workers:
            for client in self.workers:
                client.stopping = True
            self.finish(self.workers)
            found, committed = self._read_all(0)
        nodes = list(self.nodes.values())
        brokers = [node for node in nodes if node.is_broker]
        self._until(lambda: not any(self._amiss(nodes, brokers)))
        self.history.violations += self._amiss(nodes, brokers)
        for node in self.nodes.values():
            self.history.violations += node.violations
        return check_history(self.history, found, committed)

    def _amiss(self, nodes: list[SimNode], brokers: list[SimNode]) -> Iterator[str]:
        """Yield the differences between nodes once nothing happens any more."""
        yield from unsettled(brokers)
        yield from differences(nodes, cleaned=self.history.keeping.keyed)
        yield from leftovers(brokers)
        if not self.history.keeping.lossy:  # else the marker that ended a transaction may be lost, as any record
            yield from undecided(brokers)

    def _read_all(self, rest_ms: int) -> tuple[Found, Found]:
        partitions = self.partitions + self.output
        found: Found = {partition: {} for partition in partitions}
        committed: Found = {partition: {} for partition in partitions}

        def read(client: SimClient) -> Script:
            for partition in partitions:
                with suppress(OutOfRange):
                    yield from fetch(client, partition, 0, committed=False)  # its log is opened at its first use
            yield Wait(rest_ms)  # and a high watermark that a crash has set back rises again
            for partition in partitions:
                yield from read_whole(client, partition, found[partition], committed=False)
                end = yield from read_whole(client, partition, committed[partition], committed=True)
                if partition in self.partitions:
                    self.history.ends[partition] = end
            for group, partition in list(self.history.asked_offsets):
                yield from committed_offset(client, group, partition)

        self.finish([self.do("last", read)])
        gone = Gone(self.history, committed)
        for partition in self.partitions:
            self.history.there[partition] = gone.must_be_met(partition, found[partition])
        return found, committed

    # -- what is looked at all the time

    def _watch(self, node: SimNode) -> None:
        def look(delta: MetadataDelta) -> None:
            for topic_id, partition, epoch in led_by(node):
                self.history.note_leader(topic_id, partition, epoch, node.id)
            if node.is_controller:
                self.watch.look_for_elections(node)

        node.broker.node.subscribe(look)


def led_by(node: SimNode) -> list[tuple[bytes, int, int]]:
    """Return topic id, partition and epoch of every partition whose leader the node believes to be."""
    return [
        (topic.id, number, each.leader_epoch)
        for topic in node.broker.node.image.topics.values()
        for number, each in topic.partitions.items()
        if each.leader == node.id
    ]


class Defects(logging.Handler):
    """A log handler that reports the errors of brokers as violations, except those of disks that fail on purpose."""

    def __init__(self, violation: Callable[[str], None], disks_fail: Callable[[], bool]) -> None:
        super().__init__(logging.ERROR)
        self._violation = violation
        self._disks_fail = disks_fail

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info or not self._disks_fail() or not any(each in text for each in OF_DISKS):
            self._violation(text + (f": {record.exc_info[1]!r}" if record.exc_info else ""))
