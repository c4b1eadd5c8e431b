"""A node alone, with clients of every kind, in every kind of trouble."""

from __future__ import annotations

from tests.simulation.keeping import Keeping
from tests.simulation.layouts import ALONE
from tests.simulation.runs import KILLS, POWER_CUTS, SYNCED, run_alone

SEEDS = 100


def test_what_was_acknowledged_outlives_a_killed_process(seed: int, keeping: Keeping) -> None:
    run_alone(seed, ALONE, KILLS, keeping=keeping)


def test_what_was_acknowledged_outlives_a_power_cut(seed: int, keeping: Keeping) -> None:
    run_alone(seed, SYNCED, POWER_CUTS, keeping=keeping)


def test_a_seed_decides_everything() -> None:
    one, other = (run_alone(7, SYNCED, POWER_CUTS) for _ in range(2))
    assert one.timeline.happened == other.timeline.happened > 500
    assert one.history.acknowledged == other.history.acknowledged
    assert one.history.did == other.history.did


def test_a_run_does_much_of_everything() -> None:
    did = run_alone(3, ALONE, ()).history.did
    assert did["batch"] > 50
    assert did["transaction"] > 10
    assert did["commit"] > 20
