"""A node alone, with clients of every kind, in every kind of trouble."""

from __future__ import annotations

from tests.simulation.faults import Fault, Faults, break_connections, cut_power, kill, partition, pause, slow_disk, stop
from tests.simulation.layouts import ALONE
from tests.simulation.simulation import Simulation

SEEDS = 60
TROUBLE_MS = 4_000
SYNCED = {**ALONE, "log.flush.interval.messages": "1"}
ALWAYS: tuple[Fault, ...] = (stop, pause, partition, break_connections, slow_disk)


def run(seed: int, settings: dict[str, str], *faults: Fault) -> Simulation:
    """Faults and load for a while, then a look at everything."""
    with Simulation(seed, {1: settings}) as simulation:
        simulation.nodes[1].start()
        simulation.create_topic(2, 1)
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


def test_what_was_acknowledged_outlives_a_killed_process(seed: int) -> None:
    run(seed, ALONE, kill, *ALWAYS)


def test_what_was_acknowledged_outlives_a_power_cut(seed: int) -> None:
    run(seed, SYNCED, cut_power, kill, *ALWAYS)


def test_a_seed_decides_everything() -> None:
    one, other = run(7, SYNCED, cut_power, *ALWAYS), run(7, SYNCED, cut_power, *ALWAYS)
    assert one.timeline.happened == other.timeline.happened > 500
    assert one.history.acknowledged == other.history.acknowledged
    assert one.history.did == other.history.did


def test_a_run_does_much_of_everything() -> None:
    did = run(3, ALONE).history.did
    assert did["batch"] > 50
    assert did["transaction"] > 10
    assert did["commit"] > 20
