"""A cluster inside the event loop of a test: brokers, controller, network, disks and time, all decided by a seed.

Rule: the brokers are the real ones on virtual machines, and clients reach them by the loop's own `create_connection`.
The same program with the same seed does the same, frame for frame, as `trace` shows; in another process too, where
PYTHONHASHSEED is the same. Nothing leaves the process, and nothing is left of a cluster after its block. Operations of
the control API are those of every cluster (`AsyncClusterData`), called in the process.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, Self
from zlib import crc32

from pykafka_broker.log.checkpoints import RESTORED
from pykafka_broker.peers import Address, LinkError
from pykafka_broker.platform import memory_directory
from pykafka_broker.protocol.api_keys import SPECS
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pykafka_broker.protocol.runtime import Message, uuid_text
from pykafka_broker.testing.aio.cluster_data import AsyncClusterData
from pykafka_broker.testing.answers import ConfigValue, Snapshot, Topic
from pykafka_broker.testing.arguments import check_count, config_texts
from pykafka_broker.testing.client_settings import client_settings
from pykafka_broker.testing.cluster_traffic import SESSION, FaultHandles
from pykafka_broker.testing.control_client import ControlError
from pykafka_broker.testing.data import BrokerError, WaitTimeout
from pykafka_broker.testing.process import security_of
from pykafka_broker.testing.simulation import faults
from pykafka_broker.testing.simulation.broker import CLIENTS, INNER, SimulatedBroker
from pykafka_broker.testing.simulation.disk import CrashFileSystem
from pykafka_broker.testing.simulation.faults import SimulatedBlow, Trouble
from pykafka_broker.testing.simulation.layout import SESSION_MS, SimulatedLayout
from pykafka_broker.testing.simulation.link import SimLink
from pykafka_broker.testing.simulation.loop import APPLICATION, SimulatedLoop
from pykafka_broker.testing.simulation.node import SimNode
from pykafka_broker.testing.simulation.shrinking import SimulatedHit
from pykafka_broker.testing.simulation.timeline import START_MS, Host
from pykafka_broker.testing.trouble import OF_CLIENTS, Blow, check_kinds

KINDS = {
    each.__name__: each
    for each in (
        faults.kill,
        faults.stop,
        faults.cut_power,
        faults.pause,
        faults.partition,
        faults.break_connections,
        faults.slow_disk,
        faults.slow_down,
        faults.break_disk,
        faults.fail_once,
        faults.drift,
    )
}
_LOOK_S = 0.02
_REQUEST_MS = 5_000


class Arrival(NamedTuple):
    """A frame that has arrived at a machine; without bytes, the end of a connection."""

    at_ms: int  # since the start of the loop
    source: str
    target: str
    size: int
    checksum: int
    api: str  # of a request of the application

    def __str__(self) -> str:
        content = f"{self.api} {self.size} bytes, {self.checksum:08x}".lstrip() if self.size else "end"
        return f"{self.at_ms:>7} ms {self.source} -> {self.target}: {content}"


class SimulatedCluster(AsyncClusterData):
    """A cluster of brokers in virtual time, for `async with` on a `SimulatedLoop`.

    Its methods are those of an `AsyncKafkaCluster`, and more. `cluster.broker(1)` is a `SimulatedBroker`. The block
    ends with BrokerError where a node refused a frame that makes no sense, or was refused by the controller.

    Args:
        brokers: how many brokers; a single one is its own controller, several have a controller of their own.
        seed: decides everything that is left to chance, in the cluster and in the test.
        racks: the rack of each broker.
        config: Kafka's broker configs, for all nodes.
        emulate: the release of Kafka that clients see, as of `KafkaCluster`.
        security: "sasl_plaintext", or None; TLS has bytes that no seed decides.
        users: names, or names with passwords (`{"alice": "secret"}`); `client_config` has the settings for a login.
        acls: rights as sentences (`["alice may read topic orders"]`).
        mechanisms: the SASL mechanisms.
        history: write down what clients produce, fetch and commit, for `check`.
    """

    def __init__(
        self,
        brokers: int = 3,
        seed: int = 0,
        config: Mapping[str, object] | None = None,
        *,
        racks: Sequence[str] | None = None,
        emulate: str | None = None,
        security: str | None = None,
        users: Mapping[str, str] | Iterable[str] = (),
        acls: Iterable[str] | None = None,
        mechanisms: Iterable[str] | None = None,
        history: bool = False,
    ) -> None:
        if security is not None and security.lower().endswith("ssl"):
            raise ValueError(f"security={security!r}: a simulation has no TLS, since no seed decides its bytes")
        self._drawn_by = seed
        self._security = security_of("n1", security, users, acls, mechanisms, None)
        self._layout = SimulatedLayout(brokers, config_texts(config), racks, emulate, self._security)
        self._ids, self._controller_id = self._layout.brokers, self._layout.controller
        self._fault_handles = FaultHandles()
        self._sides = []
        self._history = history
        self._nodes: dict[int, SimNode] = {}
        self._brokers: dict[int, SimulatedBroker] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None  # of histories
        self._trouble: list[Trouble] = []
        self._blows: list[SimulatedBlow] = []
        self._calls: list[str] = []
        self._snapshots: dict[str, dict[int, CrashFileSystem]] = {}
        self.arrivals: list[Arrival] = []
        self.asked = asyncio.Event()  # whether clients have begun
        self._loop: SimulatedLoop
        self._chance_before: Any = None

    def __repr__(self) -> str:
        return f"<SimulatedCluster of {len(self._ids)} brokers, seed {self._drawn_by}>"

    # -- life

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        if not isinstance(loop, SimulatedLoop):
            raise BrokerError(
                "a SimulatedCluster lives on a SimulatedLoop: simulate(main()), or "
                "asyncio.Runner(loop_factory=SimulatedLoop), or the loop factory of your test framework"
            )
        if loop.network.hosts.keys() - {APPLICATION}:
            raise BrokerError("this loop has a cluster already: a SimulatedLoop is made for one")
        self._loop = loop
        self._chance_before = random.getstate()
        random.seed(self._drawn_by)
        loop.random.seed(self._drawn_by)
        loop.network.on_arrival = self._note
        if self._history:
            self._folder = tempfile.TemporaryDirectory(prefix="pykafka-history-", dir=memory_directory())
        try:
            await self._start()
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def _start(self) -> None:
        for id in self._layout.nodes:
            self._add(id)
        for node in reversed(self._nodes.values()):
            self._layout.put_first_disk(node)
            node.start()
        await self.until(self._all_serve, told="the brokers have not come up")

    def _add(self, id: int) -> None:
        loop = self._loop
        node = self._nodes[id] = SimNode(loop.network, id, self._layout.settings(id), loop.random)
        history = Path(self._folder.name) / str(id) if self._folder is not None and id in self._ids else None
        self._brokers[id] = SimulatedBroker(node, loop, lambda broker: self._serves(broker.id), history)

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            self._end_blows()
            if violations := [each for node in self._nodes.values() for each in node.violations]:
                raise BrokerError("\n".join(violations))
        except Exception as wrong:
            if error is None:
                wrong.add_note(self._how_to_repeat)
                raise
            error.add_note(str(wrong))
        finally:
            self._leave_nothing()
        if error is not None:
            error.add_note(self._how_to_repeat)

    @property
    def _how_to_repeat(self) -> str:
        hint = "" if "PYTHONHASHSEED" in os.environ else "; another process repeats it with a fixed PYTHONHASHSEED"
        return f"simulated with SimulatedCluster(brokers={len(self._ids)}, seed={self._drawn_by}){hint}"

    def _end_blows(self) -> None:
        """End the troubles of `befall`. Raises the error of one that could not come."""
        with ExitStack() as steps:
            for blow in self._blows:
                steps.callback(blow.end)
            self._blows = []

    def _leave_nothing(self) -> None:
        for index, each in enumerate(self._trouble):
            each.end()
            for number, told in zip(each.numbers, each.came, strict=True):
                at, _, what = told.partition(": ")
                hit = SimulatedHit(index, number, f"{int(at) - START_MS} ms: {what}", self._calls[index])
                self._loop.faults.came.append(hit)
        for broker in self._brokers.values():
            broker.end()
        if self._folder is not None:
            self._folder.cleanup()
        random.setstate(self._chance_before)

    def _all_serve(self) -> bool:
        return all(map(self._serves, self._ids))

    def _serves(self, id: int) -> bool:
        if id not in self._ids:
            return self._nodes[id].running
        image = self._leader_of_metadata.broker.node.image
        is_open = (self._nodes[id].name, CLIENTS) in self._loop.network.listeners
        return is_open and id in image.brokers and not image.brokers[id].fenced

    @property
    def _leader_of_metadata(self) -> SimNode:
        return self._nodes[self._controller_id]

    async def until(self, holds: Callable[[], object], timeout: float = 60, told: str = "it is not so") -> None:
        """Wait until a condition holds.

        Args:
            holds: a function, asked every 20 virtual milliseconds, and at the end.
            timeout: virtual seconds.
            told: the end of the sentence about a time-out.

        Raises:
            WaitTimeout: the time is over.
        """
        for _ in range(round(timeout / _LOOK_S)):
            if holds():
                return
            await asyncio.sleep(_LOOK_S)
        if not holds():
            raise WaitTimeout(f"after {timeout:g} virtual seconds {told}")

    # -- looking

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for a client's `bootstrap.servers`."""
        return ",".join(f"n{id}:{CLIENTS}" for id in self._ids)

    @property
    def nodes(self) -> dict[int, SimulatedBroker]:  # type: ignore[override]
        """All nodes by id, with the controller; empty before the start."""
        return self._brokers

    @property
    def brokers(self) -> list[SimulatedBroker]:  # type: ignore[override]
        """All brokers."""
        return [self._brokers[id] for id in self._ids]

    @property
    def controller(self) -> SimulatedBroker:
        """The node that leads the metadata."""
        return self._brokers[self._controller_id]

    def broker(self, node_id: int) -> SimulatedBroker:
        """Return the broker with the id, for `kill`, `start`, `stop`, `pause`, `unpause`, `cut_power`, `break_disk`,
        `mend_disks`, `drift`, and the operations of one broker.
        """
        broker = super().broker(node_id)
        assert isinstance(broker, SimulatedBroker)
        return broker

    def leader(self, topic: str, partition: int = 0) -> SimulatedBroker:
        """Return the leader of a partition. Raises BrokerError if there is none."""
        topics = self._leader_of_metadata.broker.node.image.topics
        if topic not in topics:
            raise BrokerError(f"there is no topic {topic}")
        state = topics[topic].partitions.get(partition)
        if state is None or state.leader not in self._nodes:
            raise BrokerError(f"{topic}-{partition} has no leader")
        return self._brokers[state.leader]

    def client_config(self, client: str, user: str | None = None, mechanism: str | None = None) -> dict[str, Any]:
        """Return the settings of a client of the cluster, as `KafkaCluster.client_config`."""
        if self._security is None and (user is not None or mechanism is not None):
            raise ValueError("this cluster has no users: make it with security=... and users=...")
        login = None if self._security is None else self._security.login(Path(), user, mechanism)
        return client_settings(client, self.bootstrap_servers, login)

    @property
    def now_ms(self) -> int:
        """Virtual milliseconds since the start of the loop."""
        return self._loop.timeline.now - START_MS

    @property
    def trace(self) -> str:
        """Every frame that has arrived so far, a line for each: the same for every run of a seed."""
        return "\n".join(map(str, self.arrivals))

    def _note(self, source: Host, target: Host, frame: bytes | None) -> None:
        api, size, checksum = "", 0, 0
        if frame is not None:
            size, checksum = len(frame), crc32(frame)
            if source.name == APPLICATION and (spec := SPECS.get(int.from_bytes(frame[4:6], "big"))) is not None:
                api = spec.name
                if api in OF_CLIENTS:
                    self.asked.set()
        self.arrivals.append(Arrival(self.now_ms, source.name, target.name, size, checksum, api))

    # -- topics

    async def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        config: Mapping[str, ConfigValue] | None = None,
        *,
        replication_factor: int | None = None,
        exist_ok: bool = False,
    ) -> Topic:
        """Create a topic and return it, once all running brokers that the controller reaches know its leaders.

        Args:
            partitions: by default one.
            config: Kafka's topic configs.
            replication_factor: by default the number of brokers, up to three.
            exist_ok: the topic may exist already, with the given partitions and configs.

        Raises:
            ControlError: the cluster refuses the topic.
        """
        configs = [CreatableTopicConfig(*each) for each in config_texts(config).items()]
        factor = min(3, len(self._ids)) if replication_factor is None else replication_factor
        topic = CreatableTopic(name, 1 if partitions is None else partitions, factor, configs=configs)
        created = (await self.ask(CreateTopicsRequest([topic], _REQUEST_MS))).topics[0]
        code = ErrorCode(created.error_code)
        if code and not (exist_ok and code is ErrorCode.TOPIC_ALREADY_EXISTS):
            raise ControlError(409, f"{code.name}: {created.error_message}", code.name)
        await self._wait_until_known()
        if code:
            return await self._running().create_topic(name, partitions, config, exist_ok=True)
        image = self._leader_of_metadata.broker.node.image.topics[name]
        return {
            "name": name,
            "topic_id": uuid_text(image.id),
            "partitions": len(image.partitions),
            "internal": False,
            "config": dict(config_texts(config)),
        }

    async def ask(self, request: Message, broker: int | None = None) -> Any:
        """Return the answer of a broker to a request of Kafka's protocol; by default of the first that runs.

        Raises:
            BrokerError: there is no answer.
        """
        running = [node for node in self.brokers if node.running]
        node = self.broker(broker) if broker is not None else next(iter(running), self.brokers[0])
        loop, answered = self._loop, self._loop.create_future()
        port = INNER if self._layout.has_inner_listeners else CLIENTS
        link = SimLink(loop.network, loop.application, Address(node.host, port, "PLAINTEXT"), "cluster")

        def on_reply(reply: Any) -> None:
            if not answered.done():  # the caller may have been cancelled
                answered.set_result(reply)

        loop.application.turn(lambda: link.send(request, on_reply, _REQUEST_MS, copied=True))
        try:
            answer = await answered
        finally:
            loop.application.turn(link.close)
        if isinstance(answer, LinkError):
            raise BrokerError(f"{node.host} does not answer: {answer}")
        return answer

    # -- faults

    def cut(self, one: str | int, other: str | int) -> None:
        """Cut the ways between two machines: ids of brokers, or "app" for the clients."""
        first, second = self._machine(one), self._machine(other)
        self._loop.network.separate((first, second), (second, first))

    def isolate(self, id: int) -> None:
        """Cut a broker off from all other machines."""
        for name in self._loop.network.hosts.keys() - {f"n{id}"}:
            self.cut(id, name)

    def heal(self) -> None:
        """Let all machines reach each other again."""
        del self._sides[:]
        self._loop.network.heal()

    def slow(self, id: int, ms: int) -> None:
        """Let everything from and to a broker come later, until `heal`."""
        self._loop.network.slow[self._machine(id)] = ms

    def break_connections(self, id: int) -> None:
        """Reset all connections of a broker."""
        name = self._machine(id)
        self._loop.network.break_connections(lambda one, other: name in (one, other))

    def _machine(self, which: str | int) -> str:
        name = f"n{which}" if isinstance(which, int) else which
        if name not in self._loop.network.hosts:
            raise ValueError(f"there is no machine {name}: there are {', '.join(self._loop.network.hosts)}")
        return name

    def trouble(
        self,
        kinds: Iterable[str] = ("kill",),
        mean_ms: int = 500,
        most_down: int = 1,
        only: Collection[int] | None = None,
    ) -> Trouble:
        """Let faults come by the seed until `end` of the result, or `calm`; `came` of the result lists them.

        Args:
            kinds: names of faults, such as "kill", "pause", "partition", "break_connections", "slow_disk".
            mean_ms: the mean pause between two faults.
            most_down: how many brokers may be away at once.
            only: numbers of faults (`numbers` of the result); no other faults come. The note of a failure has them.
        """
        kinds = check_kinds(kinds, list(KINDS))
        check_count("mean_ms", mean_ms)
        check_count("most_down", most_down)
        loop = self._loop
        index = len(self._trouble)
        down = f", most_down={most_down}" if most_down != 1 else ""
        self._calls.append(f"cluster.trouble({json.dumps(kinds)}, mean_ms={mean_ms}{down}")
        began = Trouble(
            loop.timeline,
            loop.network,
            [self._nodes[id] for id in self._ids],
            Random(loop.random.getrandbits(64)),
            [KINDS[kind] for kind in kinds],
            mean_ms=mean_ms,
            most_down=most_down,
            controller=self._leader_of_metadata,
            may_come=lambda number: (only is None or number in only) and loop.faults.may_come(index, number),
        )
        self._trouble.append(began)
        began.begin()
        return began

    def befall(
        self,
        kind: str,
        broker: int,
        *,
        after_ms: int = 0,
        for_ms: int = 1000,
        topic: str | None = None,
        partition: int = 0,
        group: str | None = None,
        at: Mapping[str, object] | None = None,
    ) -> SimulatedBlow:
        """Let one trouble come to a broker, some virtual time after the first request of a client, or at a request.

        The arguments are those of `KafkaCluster.befall`, and kinds are its kinds and "cut_power". As there, a trouble
        that never could come, or whose request did not, is an error of `calm`, and of the cluster's end.
        """
        blow = Blow(kind, broker, after_ms, for_ms, topic, partition, group, at)
        self._blows.append(SimulatedBlow(self, blow))
        return self._blows[-1]

    async def calm(self) -> None:
        """End all faults, start all nodes, and wait until every broker serves clients.

        Raises:
            WaitTimeout: a trouble of `befall` could not come when it was due, or its request did not come.
        """
        async with AsyncExitStack() as steps:
            steps.push_async_callback(self._mend)
            self._end_blows()

    async def _mend(self) -> None:
        for each in self._trouble:
            each.end()
        self.heal()
        for node in self._nodes.values():
            node.make_whole()
        await self.until(self._all_are_back, told="not all brokers serve")

    def _all_are_back(self) -> bool:
        """Start each node that has ended, and tell whether all serve and none is about to end."""
        for node in self._nodes.values():
            if not node.running:
                node.start()
        return self._all_serve() and not any(node.leaving for node in self._nodes.values())

    # -- the whole state

    async def snapshot(self, name: str) -> Snapshot:
        """Keep the files of all nodes, as they are at this moment, under a name. Returns name and size_bytes.

        The snapshot lacks messages on their way between nodes or to a client, as if all processes had been killed.
        """
        self._snapshots[name] = {id: node.disk.after_crash(keep=True) for id, node in self._nodes.items()}
        return self._described(name)

    async def restore(self, name: str) -> None:
        """Go back to the state of a snapshot.

        All nodes are killed and start on the files of the snapshot; clients connect again, faults end, and time goes
        on. Leader epochs are higher than any that clients have seen. A snapshot can be restored again.

        Raises:
            ControlError: there is no such snapshot.
        """
        disks = self._disks(name)
        self._end_blows()
        seen = self._leader_epochs()
        for id, node in self._nodes.items():
            if node.running:
                node.kill()
            node.put_disk(disks[id])
            node.mend_disks()
            for directory in node.directories:
                node.disk.open(f"{directory}/{RESTORED}", create=True)
        self._leader_of_metadata.start()
        await asyncio.sleep(
            int(self.controller.config.get(SESSION, SESSION_MS)) / 1000
        )  # it takes the brokers of the snapshot for alive
        await self.calm()
        for image in list(self._leader_of_metadata.broker.node.image.topics.values()):
            for index in image.partitions:
                await self._wait_for_running(image.name, index)
        for (topic, index), epoch in seen.items():
            if topic in self._leader_of_metadata.broker.node.image.topics:
                while (state := await self.partition(topic, index))["leader_epoch"] <= epoch and state["leader"] != -1:
                    await self.move_leader(topic, state["leader"], index)

    async def snapshots(self) -> list[Snapshot]:
        """Return name and size_bytes of each snapshot."""
        return [self._described(name) for name in sorted(self._snapshots)]

    async def delete_snapshot(self, name: str) -> None:
        """Forget a snapshot."""
        self._disks(name)
        del self._snapshots[name]

    def _disks(self, name: str) -> dict[int, CrashFileSystem]:
        if name not in self._snapshots:
            known = f"there are {', '.join(sorted(self._snapshots))}" if self._snapshots else "there are none"
            raise ControlError(404, f"there is no snapshot {name}; {known}")
        return self._snapshots[name]

    def _described(self, name: str) -> Snapshot:
        return {"name": name, "size_bytes": sum(disk.size_of_logs() for disk in self._disks(name).values())}

    def _leader_epochs(self) -> dict[tuple[str, int], int]:
        """Return the highest leader epoch of each partition that any node knows."""
        found: dict[tuple[str, int], int] = {}
        for node in self._nodes.values():
            if node.running:
                for topic in node.broker.node.image.topics.values():
                    for each in topic.partitions.values():
                        key = topic.name, each.partition
                        found[key] = max(found.get(key, -1), each.leader_epoch)
        return found
