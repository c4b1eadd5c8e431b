"""Three brokers under a controller, with clients of every kind, in every kind of trouble."""

from __future__ import annotations

import pytest

from tests.simulation.faults import Fault, Faults, break_connections, kill, partition, pause, slow_disk, stop
from tests.simulation.layouts import CLUSTER_ID, cluster
from tests.simulation.simulation import Simulation

SEEDS = 40
TROUBLE_MS = 6_000
FAULTS: tuple[Fault, ...] = (kill, stop, pause, partition, break_connections, slow_disk)


def run(seed: int, *faults: Fault, combined: bool = False) -> Simulation:
    """Faults and load for a while, then a look at everything."""
    with Simulation(seed, cluster(3, combined=combined)) as simulation:
        for node in simulation.nodes.values():
            node.format(CLUSTER_ID)
            node.start()
        simulation.create_topic(2, 3)
        simulation.clients_begin()
        trouble = Faults(
            simulation.timeline, simulation.network, list(simulation.nodes.values()), simulation.random, faults
        )
        trouble.begin()
        simulation.run(TROUBLE_MS)
        trouble.end()
        wrong = simulation.conclude()
    assert not wrong, "\n".join([f"seed {seed}", *wrong[:10], *trouble.came])
    return simulation


def test_in_peace() -> None:
    did = run(0).history.did
    assert did["batch"] > 50
    assert did["transaction"] > 5
    assert did["commit"] > 20


def test_nothing_that_was_promised_is_lost_in_trouble(seed: int) -> None:
    run(seed, *FAULTS)


def test_nor_if_one_of_the_brokers_is_the_controller(seed: int) -> None:
    run(seed, *FAULTS, combined=True)


@pytest.mark.parametrize("failed", [30, 33])
def test_what_has_failed_once(failed: int) -> None:
    """30, 33: a broker that came back led what it had led, by metadata of before, until it was restarted."""
    run(failed, *FAULTS)
