"""A cluster inside the event loop of a test: brokers, controller, network, disks and time, all decided by a seed.

Rule: the brokers are the real ones on virtual machines, and clients reach them by the loop's own `create_connection`.
The same program with the same seed does the same, frame for frame, as `trace` shows; in another process too, where
PYTHONHASHSEED is the same. Nothing leaves the process, and nothing is left of a cluster after its block.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import Callable, Collection, Iterable, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self
from zlib import crc32

from pykafka_broker.peers import Address, LinkError
from pykafka_broker.protocol.api_keys import SPECS
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.testing.cluster import QUICK
from pykafka_broker.testing.data import BrokerError, WaitTimeout
from pykafka_broker.testing.process import check_known, config_texts
from pykafka_broker.testing.simulation import faults
from pykafka_broker.testing.simulation.faults import Trouble
from pykafka_broker.testing.simulation.link import SimLink
from pykafka_broker.testing.simulation.loop import APPLICATION, SimulatedLoop
from pykafka_broker.testing.simulation.node import QUICK_DISK_MS, SimNode
from pykafka_broker.testing.simulation.shrinking import SimulatedHit
from pykafka_broker.testing.simulation.timeline import START_MS, Host

CLIENTS, CONTROLLERS = 9092, 9093
CONTROLLER_ID = 101
CLUSTER_ID = "IN1VHh2cTpqjEHPzO3tzSQ"
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
# Times as short as in a cluster for tests, and few partitions of internal topics: a run is made of many small steps.
_SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "log.cleaner.enable": "false",
}


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


class SimulatedCluster:
    """A cluster of brokers in virtual time, for `async with` on a `SimulatedLoop`.

    Args:
        brokers: how many brokers; a single one is its own controller, several have a controller of their own.
        seed: decides everything that is left to chance, in the cluster and in the test.
        config: Kafka's broker configs, for all nodes.
    """

    def __init__(self, brokers: int = 3, seed: int = 0, config: Mapping[str, object] | None = None) -> None:
        if brokers < 1:
            raise ValueError("a cluster has at least one broker")
        self.seed = seed
        self._config = config_texts(config)
        check_known(self._config)
        self._ids = list(range(1, brokers + 1))
        self._nodes: dict[int, SimNode] = {}
        self._trouble: list[Trouble] = []
        self._calls: list[str] = []
        self.arrivals: list[Arrival] = []
        self._loop: SimulatedLoop
        self._chance_before: Any = None

    def __repr__(self) -> str:
        return f"<SimulatedCluster of {len(self._ids)} brokers, seed {self.seed}>"

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
        random.seed(self.seed)
        loop.random.seed(self.seed)
        loop.network.on_arrival = self._note
        for id in (*self._ids, *([CONTROLLER_ID] if len(self._ids) > 1 else ())):
            self._nodes[id] = SimNode(loop.network, id, self._settings(id), loop.random)
        for node in reversed(self._nodes.values()):
            if len(self._ids) > 1:
                node.format(CLUSTER_ID)
            node.start()
        await self.until(self._all_serve, told="the brokers have not come up")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for index, each in enumerate(self._trouble):
            each.end()
            for number, told in zip(each.numbers, each.came, strict=True):
                at, _, what = told.partition(": ")
                hit = SimulatedHit(index, number, f"{int(at) - START_MS} ms: {what}", self._calls[index])
                self._loop.faults.came.append(hit)
        for node in self._nodes.values():
            if node.running:
                node.kill()
        random.setstate(self._chance_before)
        if error is not None:
            hint = "" if "PYTHONHASHSEED" in os.environ else "; another process repeats it with a fixed PYTHONHASHSEED"
            error.add_note(f"simulated with SimulatedCluster(brokers={len(self._ids)}, seed={self.seed}){hint}")

    def _settings(self, id: int) -> dict[str, str]:
        if len(self._ids) == 1:
            return {**_SETTINGS, "listeners": f"PLAINTEXT://n{id}:{CLIENTS}", **self._config}
        is_controller = id == CONTROLLER_ID
        return {
            **_SETTINGS,
            **QUICK,
            "min.insync.replicas": "1",
            "process.roles": "controller" if is_controller else "broker",
            "listeners": f"CONTROLLER://n{id}:{CONTROLLERS}" if is_controller else f"PLAINTEXT://n{id}:{CLIENTS}",
            "controller.quorum.voters": f"{CONTROLLER_ID}@n{CONTROLLER_ID}:{CONTROLLERS}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "default.replication.factor": str(min(3, len(self._ids))),
            "offsets.topic.replication.factor": str(min(3, len(self._ids))),
            "transaction.state.log.replication.factor": str(min(3, len(self._ids))),
            "share.coordinator.state.topic.replication.factor": str(min(3, len(self._ids))),
            **self._config,
        }

    def _all_serve(self) -> bool:
        image = self.controller.broker.node.image
        return all(id in image.brokers and not image.brokers[id].fenced for id in self._ids)

    async def until(self, holds: Callable[[], object], timeout: float = 60, told: str = "it is not so") -> None:
        """Wait until something holds.

        Args:
            holds: a function, asked every 20 virtual milliseconds.
            timeout: virtual seconds.
            told: the end of the sentence about a time-out.

        Raises:
            WaitTimeout: the time is over.
        """
        for _ in range(round(timeout / _LOOK_S)):
            if holds():
                return
            await asyncio.sleep(_LOOK_S)
        raise WaitTimeout(f"after {timeout:g} virtual seconds {told}")

    # -- looking

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for a client's `bootstrap.servers`."""
        return ",".join(f"n{id}:{CLIENTS}" for id in self._ids)

    @property
    def brokers(self) -> list[SimNode]:
        """All brokers."""
        return [self._nodes[id] for id in self._ids]

    @property
    def controller(self) -> SimNode:
        """The node that leads the metadata."""
        return self._nodes.get(CONTROLLER_ID, self._nodes[self._ids[0]])

    def broker(self, id: int) -> SimNode:
        """Return a broker, for `kill`, `start`, `stop`, `pause`, `go_on`, `cut_power`, `break_disk`, `mend_disks`,
        `drift`.
        """
        if id not in self._ids:
            raise ValueError(f"there is no broker {id}: there are {', '.join(map(str, self._ids))}")
        return self._nodes[id]

    def leader(self, topic: str, partition: int = 0) -> SimNode:
        """Return the leader of a partition. Raises BrokerError if there is none."""
        topics = self.controller.broker.node.image.topics
        state = topics[topic].partitions.get(partition) if topic in topics else None
        if state is None or state.leader not in self._nodes:
            raise BrokerError(f"{topic}-{partition} has no leader")
        return self._nodes[state.leader]

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
        self.arrivals.append(Arrival(self.now_ms, source.name, target.name, size, checksum, api))

    # -- topics

    async def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replicas: int | None = None,
        config: Mapping[str, object] | None = None,
    ) -> None:
        """Create a topic, and wait until all running brokers know its leaders.

        Raises:
            BrokerError: the cluster refuses the topic.
        """
        configs = [CreatableTopicConfig(*each) for each in config_texts(config).items()]
        factor = min(3, len(self._ids)) if replicas is None else replicas
        request = CreateTopicsRequest([CreatableTopic(name, partitions, factor, configs=configs)], _REQUEST_MS)
        answer = await self.ask(request)
        created = answer.topics[0]
        if created.error_code:
            raise BrokerError(f"{ErrorCode(created.error_code).name}: {created.error_message}")

        def is_known() -> bool:
            images = [node.broker.node.image for node in self._nodes.values() if node.running]
            return all(name in each.topics for each in images)

        await self.until(is_known, told=f"not all brokers know {name}")

    async def ask(self, request: Message, broker: int | None = None) -> Any:
        """Return the answer of a broker to a request of Kafka's protocol; by default of the first that runs.

        Raises:
            BrokerError: there is no answer.
        """
        running = [node for node in self.brokers if node.running]
        node = self.broker(broker) if broker is not None else next(iter(running), self.brokers[0])
        loop, answered = self._loop, self._loop.create_future()
        link = SimLink(loop.network, loop.application, Address(node.name, CLIENTS, "PLAINTEXT"), "cluster")
        loop.application.turn(lambda: link.send(request, answered.set_result, _REQUEST_MS, copied=True))
        answer = await answered
        loop.application.turn(link.close)
        if isinstance(answer, LinkError):
            raise BrokerError(f"{node.name} does not answer: {answer}")
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
        self._loop.network.heal()

    def slow(self, id: int, ms: int) -> None:
        """Let everything from and to a broker come later, until `heal`."""
        self._loop.network.slow[self._machine(id)] = ms

    def break_connections(self, id: int) -> None:
        """Reset all connections of a broker."""
        name = self._machine(id)
        self._loop.network.break_connections(lambda one, other: name in (one, other))

    def _machine(self, which: str | int) -> str:
        name = self.broker(which).name if isinstance(which, int) else which
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
            only: numbers of faults (`numbers` of the result): no others come, as the note of a failure has it.
        """
        kinds = list(kinds)
        if unknown := [kind for kind in kinds if kind not in KINDS]:
            raise ValueError(f"there is no fault {unknown[0]}: there are {', '.join(KINDS)}")
        loop = self._loop
        chosen = [KINDS[kind] for kind in kinds]
        index = len(self._trouble)
        down = f", most_down={most_down}" if most_down != 1 else ""
        self._calls.append(f"cluster.trouble({json.dumps(kinds)}, mean_ms={mean_ms}{down}")
        began = Trouble(
            loop.timeline,
            loop.network,
            self.brokers,
            random.Random(loop.random.getrandbits(64)),
            chosen,
            mean_ms=mean_ms,
            most_down=most_down,
            controller=self.controller,
            may_come=lambda number: (only is None or number in only) and loop.faults.may_come(index, number),
        )
        self._trouble.append(began)
        began.begin()
        return began

    async def calm(self) -> None:
        """End all faults, start all nodes, and wait until every broker serves clients."""
        for each in self._trouble:
            each.end()
        self._loop.network.heal()
        for node in self._nodes.values():
            node.disk_ms = QUICK_DISK_MS
            node.drift(1)
            node.mend_disks()
            if node.running and node.has_lost_disks:
                node.kill()
            if node.paused:
                node.go_on()
        await self.until(self._all_are_back, told="not all brokers serve")

    def _all_are_back(self) -> bool:
        """Start each node that has ended, and tell whether all serve and none is about to end."""
        for node in self._nodes.values():
            if not node.running:
                node.start()
        return self._all_serve() and not any(node.leaving for node in self._nodes.values())


__all__ = ["SimulatedCluster"]
