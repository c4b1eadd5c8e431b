"""A controller with very many brokers on the virtual network: `python -m tests.simulation.many_brokers --brokers 100
--partitions 200000`.

Rule: everything is a whole `Broker` with its real machines, links, requests and records: it registers, sends
heartbeats, fetches the metadata into a log and an image of its own, is fenced, comes back and goes. Only what it would
do with data is left out: it opens no replicas. Time is virtual; CPU is what this process spent in turns of a node.
"""

from __future__ import annotations

import argparse
import gc
import logging
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pykafka_broker.peers import LinkError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.testing.simulation.network import Network
from pykafka_broker.testing.simulation.node import SimNode
from pykafka_broker.testing.simulation.timeline import Step
from tests.simulation.client import Ask, Script, SimClient
from tests.simulation.kept_files import KeptFiles
from tests.simulation.layouts import CLIENTS, CLUSTER_ID, CONTROLLERS, Settings
from tests.simulation.simulation import Simulation

CONTROLLER = 1_000_000  # an id that no broker has
OF_A_TOPIC = 1_000
LOOK_MS = 100
MOST_MS = 300_000
IDLE_MS = 10_000
Row = tuple[str, float, str]


class LightNode(SimNode):
    """A broker that opens no replicas. spent_s: the CPU time of its turns."""

    def __init__(self, network: Network, id: int, settings: Settings, directory: Path) -> None:
        super().__init__(network, id, {**settings, "log.dirs": str(directory)}, network.random)
        files: Any = KeptFiles()
        self.disk = files
        self.spent_s = 0.0

    def turn(self, step: Step) -> None:
        begun = time.process_time()
        super().turn(step)
        self.spent_s += time.process_time() - begun

    def _begin(self) -> None:
        startup = self.broker.startup
        if startup is not None:
            startup.caught_up = lambda ready: ready()  # type: ignore[method-assign]
        super()._begin()

    @property
    def applied(self) -> int:
        """The offset up to which the node has applied the metadata."""
        return self.broker.node.metadata.applied_offset

    def partitions(self) -> int:
        """Return the number of partitions in the node's image."""
        return sum(len(topic.partitions) for topic in self.broker.node.image.topics.values())


class ManyBrokers:
    """A controller with many brokers; `rows` measures the events of their life."""

    def __init__(self, directory: Path, brokers: int, partitions: int) -> None:
        self._simulation = simulation = Simulation(1, {})
        self._count = partitions
        common = {
            "controller.quorum.voters": f"{CONTROLLER}@n{CONTROLLER}:{CONTROLLERS}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
        }
        self.controller = self._node(
            CONTROLLER,
            {**common, "process.roles": "controller", "listeners": f"CONTROLLER://n{CONTROLLER}:{CONTROLLERS}"},
            directory,
        )
        self.brokers = [
            self._node(
                id, {**common, "process.roles": "broker", "listeners": f"PLAINTEXT://n{id}:{CLIENTS}"}, directory
            )
            for id in range(1, brokers + 1)
        ]
        self._client = simulation.client("tool")

    def _node(self, id: int, settings: Settings, directory: Path) -> LightNode:
        path = directory / str(id)
        path.mkdir()
        node = LightNode(self._simulation.network, id, settings, path)
        node.format(CLUSTER_ID)
        return node

    def rows(self) -> Iterator[Row]:
        """Yield the measurements of one event after the other."""
        parts = (self.starting, self.creating, self.idling, self.killing, self.returning, self.leaving, self.without)
        with self._simulation:
            for part in parts:
                yield from part()
                assert not self._simulation.history.violations, self._simulation.history.violations[:5]

    # -- what happens

    def starting(self) -> Iterator[Row]:
        self.controller.start()
        for node in self.brokers:
            node.start()
        yield from self._costs(
            "all brokers register and are unfenced", lambda: len(self._active()) == len(self.brokers)
        )

    def creating(self) -> Iterator[Row]:
        def create(client: SimClient) -> Script:
            for number in range(self._count // OF_A_TOPIC):
                request = CreateTopicsRequest([CreatableTopic(f"t{number}", OF_A_TOPIC, 3)], 60_000)
                answer = yield Ask((self.brokers[0].name, CLIENTS), request, (7, 7))
                while isinstance(answer, LinkError):
                    answer = yield Ask((self.brokers[0].name, CLIENTS), request, (7, 7))
                assert answer.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS), answer

        self._client.begin(create(self._client))
        yield from self._costs(
            f"{self._count:,} partitions are created, and known to all",
            lambda: self._client.done and self._all_know() and self.brokers[-1].partitions() == self._count,
        )
        gc.collect()
        import resource  # Windows has none

        yield "this process then", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, "GB"

    def idling(self) -> Iterator[Row]:
        before, others = self.controller.spent_s, self._spent_by_brokers()
        self._simulation.run(IDLE_MS)
        seconds = IDLE_MS / 1000
        yield "the controller when nothing happens", (self.controller.spent_s - before) / seconds * 100, "% of a core"
        each = (self._spent_by_brokers() - others) / len(self.brokers)
        yield "a broker when nothing happens", each / seconds * 100, "% of a core"

    def killing(self) -> Iterator[Row]:
        """Kill the last broker, whose session then runs out."""
        self.brokers[-1].kill()
        led = self._led_by(self.brokers[-1])
        yield from self._costs(
            f"a broker dies that leads {led:,} partitions; others lead, and all know",
            lambda: self._is_replaced() and self._all_know(),
        )

    def returning(self) -> Iterator[Row]:
        """Start the last broker again; its log still has the metadata up to its death."""
        self.brokers[-1].start()
        yield from self._costs(
            "it comes back, reads its log and is unfenced", lambda: self.brokers[-1].id in self._active()
        )

    def leaving(self) -> Iterator[Row]:
        """Shut the last broker down in an orderly way."""
        node = self.brokers[-2]
        led = self._led_by(node)
        node.stop()
        yield from self._costs(f"one leaves in order that leads {led:,}", lambda: not node.running and self._all_know())
        node.start()
        yield from self._costs("and comes back", lambda: node.id in self._active() and self._all_know())

    def without(self) -> Iterator[Row]:
        """Kill the controller and start it again after some seconds, which must not fence any broker."""
        self.controller.kill()
        self._simulation.run(5_000)
        epochs = {node.id: node.broker.node.image.brokers[node.id].epoch for node in self.brokers}
        self.controller.start()
        yield from self._costs(
            "the controller comes back after 5 s, and has heard of all",
            lambda: self._all_are_active() and self._all_know(),
        )
        self._simulation.run(20_000)
        assert epochs == {id: broker.epoch for id, broker in self.controller.broker.node.image.brokers.items()}
        assert self._all_are_active()
        assert {node.partitions() for node in (self.controller, *self.brokers)} == {self._count}

    # -- looking on

    def _until(self, enough: Callable[[], bool]) -> tuple[float, str]:
        begun = self._simulation.timeline.now
        while not enough():
            assert self._simulation.timeline.now < begun + MOST_MS, "it takes too long"
            self._simulation.run(LOOK_MS)
        return (self._simulation.timeline.now - begun) / 1000, "s"

    def _costs(self, what: str, enough: Callable[[], bool]) -> Iterator[Row]:
        controller, brokers = self.controller.spent_s, self._spent_by_brokers()
        yield f"{what}: in virtual time", *self._until(enough)
        yield "... CPU of the controller", (self.controller.spent_s - controller) * 1000, "ms"
        yield "... CPU of a broker", (self._spent_by_brokers() - brokers) / len(self.brokers) * 1000, "ms"

    def _spent_by_brokers(self) -> float:
        return sum(node.spent_s for node in self.brokers)

    def _active(self) -> list[int]:
        known = self.controller.broker.node.image.brokers
        return [id for id, broker in known.items() if not broker.fenced and not broker.in_controlled_shutdown]

    def _all_are_active(self) -> bool:
        return len(self._active()) == len(self.brokers)

    def _all_know(self) -> bool:
        """Return whether all running brokers have applied the controller's records, except perhaps a last NoOp."""
        end = self.controller.applied
        return all(node.applied >= end - 1 for node in self.brokers if node.running)

    def _led_by(self, node: LightNode) -> int:
        topics = self.controller.broker.node.image.topics.values()
        return sum(each.leader == node.id for topic in topics for each in topic.partitions.values())

    def _is_replaced(self) -> bool:
        return self.brokers[-1].id not in self._active() and not self._led_by(self.brokers[-1])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.many_brokers", description=__doc__)
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=200_000)
    options = parser.parse_args()
    logging.getLogger("pykafka_broker").setLevel(logging.ERROR)
    print(f"{options.brokers} brokers, {options.partitions:,} partitions with 3 replicas each\n\n| | |\n|---|--:|")
    with tempfile.TemporaryDirectory() as directory:
        for what, figure, unit in ManyBrokers(Path(directory), options.brokers, options.partitions).rows():
            print(f"| {what} | {figure:,.4g} {unit} |", flush=True)


if __name__ == "__main__":
    main()
