"""A node whose whole state is restored, reset and forked while clients use it, as tests do by the control API.

Rule: the real `BrokerState` does it, with files of this machine; connections of clients end when another broker takes
the place of one. After a restore everything is as it was in the very turn in which the snapshot was taken:
`run_leases` goes on with what its clients had noted then.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

from pykafka_broker.broker.broker import Broker
from pykafka_broker.broker.setup import NO_SETUP, Setup
from pykafka_broker.config import BrokerConfig
from pykafka_broker.control.state import BrokerState, DataDirLease
from pykafka_broker.log.filesystem import DisposableFiles
from pykafka_broker.server.listeners import listeners_of
from pykafka_broker.server.serving import BrokerShare
from pykafka_broker.testing.simulation.faults import Fault, Trouble
from pykafka_broker.testing.simulation.network import Network
from pykafka_broker.testing.simulation.node import SimNode
from tests.simulation.history import History
from tests.simulation.keeping import KEPT, Keeping
from tests.simulation.kept_files import KeptFiles
from tests.simulation.layouts import ALONE, CLIENTS, Settings, alone
from tests.simulation.producers import identity
from tests.simulation.simulation import TOPIC, Simulation

SNAPSHOT = "as it was"
PHASE_MS = 1_500
FORK = 2  # the id of the node that is forked


class LeasedNode(SimNode):
    """A single node with its data in `directory` of this machine. state: the object that exchanges the data."""

    def __init__(self, network: Network, id: int, settings: Settings, directory: Path) -> None:
        super().__init__(network, id, {**settings, "node.id": "1", "log.dirs": str(directory)}, network.random)
        self.disk: Any = KeptFiles()
        self.state: BrokerState
        self._files = DisposableFiles()

    def new_broker(self, setup: Setup = NO_SETUP, share: BrokerShare | None = None) -> Broker:
        if share is None:
            lease = DataDirLease(self.submit)
            share = lease.share
            parts: Any = SimpleNamespace(
                server=self, jobs=self, listeners=listeners_of(BrokerConfig(self.settings)), new_broker=self.new_broker
            )
            self.state = BrokerState(parts, lease)
        files: Any = share.files
        self._files = files
        self._files.hasty = True
        return super().new_broker(setup, share)

    def serve_received(self) -> None:
        """Do nothing: the network serves each request at once, and none is received that was not served."""

    def replace(self, broker: Broker) -> None:
        self._files.hasty = True  # no power is cut here
        super().replace(broker)


def run_leases(
    seed: int, faults: Sequence[Fault], *, keeping: Keeping = KEPT, busy: bool = False, trouble_ms: int = PHASE_MS
) -> Simulation:
    """Run a single node: take a snapshot while clients write, fork it a little later, restore it, and reset it."""
    with TemporaryDirectory() as directory, Simulation(seed, {}, keeping, busy=busy) as simulation:
        run = _Leases(simulation, Path(directory), faults, trouble_ms)
        wrong = run.wrong()
        assert not wrong, "\n".join([f"seed {seed}, {keeping.name}", *wrong[:10], *run.came])
        return simulation


class _Leases:
    """The phases of one run, each of trouble_ms."""

    def __init__(self, simulation: Simulation, directory: Path, faults: Sequence[Fault], trouble_ms: int) -> None:
        self.came: list[str] = []
        self._simulation = simulation
        self._directory = directory
        self._faults = faults
        self._trouble_ms = trouble_ms
        self._node = self._new_node(simulation, 1, directory / "first")

    def _new_node(self, simulation: Simulation, id: int, directory: Path) -> LeasedNode:
        directory.mkdir(exist_ok=True)
        settings = alone(simulation.history.keeping, {**ALONE, "listeners": f"PLAINTEXT://n{id}:{CLIENTS}"})[1]
        node = LeasedNode(simulation.network, id, settings, directory)
        simulation.add(node)
        node.start()
        return node

    def wrong(self) -> list[str]:
        """Return what was wrong in any of the phases."""
        simulation, node = self._simulation, self._node
        simulation.create_topic(2, 1)
        simulation.watch.begin(drifts=False)
        simulation.clients_begin()
        self._be_in_trouble()
        then = self._at(lambda: node.state.snapshot(SNAPSHOT))
        self._be_in_trouble()
        images: list[str] = []
        forked = self._at(lambda: images.extend(node.state.image_for_fork()))
        self._be_in_trouble()
        wrong = simulation.conclude()
        wrong += self._fork(images, forked)
        node.turn(lambda: node.state.restore(SNAPSHOT))
        wrong += self._go_on("r", then)
        node.turn(lambda: node.state.reset(()))
        if node.broker.node.image.topics:
            wrong.append(f"after a reset there are {list(node.broker.node.image.topics)}")
        nothing = History(TOPIC, simulation.history.keeping)
        nothing.rare = simulation.history.rare
        simulation.create_topic(2, 1)
        wrong += self._go_on("z", nothing)
        simulation.history.rare.update(["restored", "reset", "forked"])
        return wrong

    def _be_in_trouble(self) -> None:
        simulation = self._simulation
        trouble = Trouble(simulation.timeline, simulation.network, [self._node], simulation.random, self._faults)
        trouble.begin()
        simulation.run(self._trouble_ms)
        trouble.end()
        self.came += trouble.came
        simulation.make_whole()

    def _at(self, step: Callable[[], None]) -> History:
        """Take a step in a turn of the node; return the history of that moment."""
        self._node.turn(step)
        return self._simulation.history.copy()

    def _go_on(self, prefix: str, known: History) -> list[str]:
        """Go on with new clients from the history `known`; return the violations."""
        simulation = self._simulation
        _begin_anew(simulation, prefix, known)
        self._be_in_trouble()
        return simulation.conclude()

    def _fork(self, images: list[str], known: History) -> list[str]:
        (image,) = images
        second = self._directory / "second"
        os.rename(image, second)
        fork = Simulation(0, {}, known.keeping, busy=self._simulation.busy, beside=self._simulation)
        self._new_node(fork, FORK, second)
        fork.partitions = self._simulation.partitions
        _begin_anew(fork, "f", known)
        fork.run(self._trouble_ms)
        wrong = fork.conclude()
        fork.nodes[FORK].kill()
        return wrong


def _begin_anew(simulation: Simulation, prefix: str, known: History) -> None:
    """Start new clients, once the old producers have started again and so ended their open transactions."""
    simulation.begin_anew(prefix, known)
    for id in {each.producer: None for each in known.transactions}:
        simulation.finish([simulation.do(f"before {id}", partial(identity, transactional_id=id))])
    simulation.clients_begin()
