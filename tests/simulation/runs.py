"""Whole runs: load and faults for a while, then a look at everything.

Rule: a run raises an AssertionError that names its seed, what is wrong and which faults came. `python -m
tests.simulation.soak` does them for as long as one likes. The nodes of a `busy` run serve several connections in one
turn: answers leave together, after the write that they share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pykafka_broker.testing.simulation.faults import (
    CRASHES,
    Fault,
    Trouble,
    break_connections,
    break_disk,
    cut_power,
    drift,
    fail_once,
    kill,
    partition,
    pause,
    slow_disk,
    slow_down,
    stop,
    wipe_disk,
)
from pykafka_broker.testing.simulation.node import SimNode
from tests.simulation.dead_letters import EMULATED
from tests.simulation.keeping import KEPT, Keeping
from tests.simulation.layouts import ALONE, CLUSTER_ID, DIRECTORIES, Settings, alone, cluster
from tests.simulation.simulation import Simulation

TROUBLE_MS = 4_000
CALM_MS = 12_500  # longer than the time after which a partition stands still
HARMLESS: tuple[Fault, ...] = (stop, pause, partition, break_connections, slow_disk)
"""To what is written, whether or not it is synced."""
KILLS: tuple[Fault, ...] = (kill, *HARMLESS)
EVERYTHING: tuple[Fault, ...] = (break_disk, drift, *KILLS)
POWER_CUTS: tuple[Fault, ...] = (cut_power, *KILLS)
WIPES: tuple[Fault, ...] = (wipe_disk, wipe_disk, kill, pause, stop, partition)
SLOW: tuple[Fault, ...] = (slow_down, slow_down, stop, pause, partition, break_connections, slow_disk)
ONCE: tuple[Fault, ...] = (fail_once, fail_once, kill, stop, pause)
SYNCED = {**ALONE, "log.flush.interval.messages": "1"}


def run_alone(
    seed: int,
    settings: dict[str, str],
    faults: Sequence[Fault],
    *,
    keeping: Keeping = KEPT,
    busy: bool = False,
    trouble_ms: int = TROUBLE_MS,
) -> Simulation:
    """Run a single node, which is its own controller."""
    with Simulation(seed, alone(keeping, settings), keeping, busy=busy) as simulation:
        simulation.nodes[1].start()
        simulation.create_topic(2, 1)
        return _in_trouble(seed, simulation, faults, trouble_ms)


@contextmanager
def _started(seed: int, settings: dict[int, Settings], keeping: Keeping, busy: bool) -> Iterator[Simulation]:
    """Start a cluster and create the run's topic."""
    with Simulation(seed, settings, keeping, busy=busy) as simulation:
        for node in simulation.nodes.values():
            node.format(CLUSTER_ID)
            node.start()
        simulation.create_topic(2, 3)
        yield simulation


def run_cluster(
    seed: int,
    faults: Sequence[Fault],
    *,
    combined: bool = False,
    trouble_ms: int = TROUBLE_MS,
    patient: bool = False,
    keeping: Keeping = KEPT,
    busy: bool = False,
    calm: bool = False,
    near: bool = False,
) -> Simulation:
    """Run three brokers, under a separate controller or with one of them as controller.

    calm: after the faults one broker stays away for so long that no partition may stand still. near: readers run in
    the rack of each broker.
    """
    with _started(seed, cluster(3, combined=combined, keeping=keeping, racked=near), keeping, busy) as simulation:
        if near:
            simulation.near_readers_begin()
        return _in_trouble(seed, simulation, faults, trouble_ms, patient=patient, calm=calm)


def run_groups(
    seed: int,
    faults: Sequence[Fault],
    *,
    combined: bool = False,
    trouble_ms: int = TROUBLE_MS,
    keeping: Keeping = KEPT,
    busy: bool = False,
    sole: bool = False,
) -> Simulation:
    """Run three brokers, and groups whose members come and go. sole: committed offsets have one replica."""
    layout = cluster(3, combined=combined, keeping=keeping, sole=sole)
    with _started(seed, layout, keeping, busy) as simulation:
        simulation.groups_begin()
        return _in_trouble(seed, simulation, faults, trouble_ms)


def run_shares(
    seed: int,
    faults: Sequence[Fault],
    *,
    trouble_ms: int = TROUBLE_MS,
    keeping: Keeping = KEPT,
    busy: bool = False,
) -> Simulation:
    """Run three brokers and a share group."""
    with _started(seed, cluster(3, keeping=keeping), keeping, busy) as simulation:
        simulation.shares_begin()
        return _in_trouble(seed, simulation, faults, trouble_ms)


def run_letters(
    seed: int,
    faults: Sequence[Fault],
    *,
    trouble_ms: int = TROUBLE_MS,
    keeping: Keeping = KEPT,
    busy: bool = False,
) -> Simulation:
    """Run three brokers that pass for Kafka 4.4, and a share group that rejects records."""
    layout = {id: {**each, **EMULATED} for id, each in cluster(3, keeping=keeping).items()}
    with _started(seed, layout, keeping, busy) as simulation:
        simulation.letters_begin()
        _in_trouble(seed, simulation, faults, trouble_ms)
        wrong = simulation.letters_come()
        assert not wrong, "\n".join([f"seed {seed}", *wrong[:10]])
        return simulation


def run_changes(
    seed: int,
    faults: Sequence[Fault],
    *,
    combined: bool = False,
    trouble_ms: int = TROUBLE_MS,
    groups: bool = False,
    on_disk: bool = False,
    keeping: Keeping = KEPT,
    busy: bool = False,
) -> Simulation:
    """Run four brokers with two disks each, and operators. on_disk: operators move replicas between disks too."""
    layout = cluster(4, combined=combined, directories=2, keeping=keeping)
    with _started(seed, layout, keeping, busy) as simulation:
        if groups:
            simulation.groups_begin()
        simulation.operators_begin(directories=DIRECTORIES if on_disk else ())
        return _in_trouble(seed, simulation, faults, trouble_ms)


def _in_trouble(
    seed: int,
    simulation: Simulation,
    faults: Sequence[Fault],
    trouble_ms: int = TROUBLE_MS,
    *,
    patient: bool = False,
    calm: bool = False,
) -> Simulation:
    simulation.history.starts_last = not {*CRASHES} & {*faults}
    simulation.watch.begin(drifts=drift in faults)
    simulation.clients_begin(patient=patient)
    if not simulation.history.keeping.plain:
        simulation.growth_begins()
    nodes = list(simulation.nodes.values())
    trouble = Trouble(simulation.timeline, simulation.network, nodes, simulation.random, faults)
    trouble.begin()
    simulation.run(trouble_ms)
    trouble.end()
    simulation.history.rare["one call failed"] += trouble.once_failed
    if calm:
        simulation.make_whole()
        _take_away(trouble, simulation.random.choice([node for node in nodes if not node.is_controller]))
        simulation.run(CALM_MS)
    wrong = simulation.conclude()
    assert not wrong, "\n".join([f"seed {seed}, {simulation.history.keeping.name}", *wrong[:10], *trouble.came])
    return simulation


def _take_away(trouble: Trouble, node: SimNode) -> None:
    """Kill a node for good, let it hang, cut it off from all others, or do nothing."""
    way = trouble.random.randrange(4)
    trouble.came.append(f"{trouble.timeline.now}: {node.name} is away, way {way}")
    if way == 0:
        node.kill()
    elif way == 1:
        node.pause()
    elif way == 2:
        others = [name for name in trouble.network.hosts if name != node.name]
        trouble.network.separate(*((node.name, each) for each in others), *((each, node.name) for each in others))
