"""A node alone, with clients of every kind, in every kind of trouble."""

from __future__ import annotations

import pytest

from tests.simulation.keeping import Keeping
from tests.simulation.layouts import ALONE
from tests.simulation.runs import KILLS, ONCE, POWER_CUTS, SYNCED, run_alone

SEEDS = 16


def test_what_was_acknowledged_outlives_a_killed_process(seed: int, keeping: Keeping, busy: bool) -> None:
    run_alone(seed, ALONE, KILLS, keeping=keeping, busy=busy)


def test_what_was_acknowledged_outlives_a_power_cut(seed: int, keeping: Keeping, busy: bool) -> None:
    run_alone(seed, SYNCED, POWER_CUTS, keeping=keeping, busy=busy)


@pytest.mark.parametrize("busy", [False, True])
def test_a_seed_decides_everything(busy: bool) -> None:
    one, other = (run_alone(7, SYNCED, POWER_CUTS, busy=busy) for _ in range(2))
    assert one.timeline.happened == other.timeline.happened > 500
    assert one.history.acknowledged == other.history.acknowledged
    assert one.history.did == other.history.did


def test_a_run_does_much_of_everything() -> None:
    did = run_alone(3, ALONE, ()).history.did
    assert did["batch"] > 50
    assert did["transaction"] > 10
    assert did["commit"] > 20


def test_a_busy_node_writes_commits_of_several_clients_together() -> None:
    assert run_alone(3, ALONE, (), busy=True).history.rare["commits written together"] > 10


@pytest.mark.parametrize("failed", [48])
def test_a_node_whose_disk_fails_as_it_starts_says_so(failed: int) -> None:
    """48: logs of coordinators were out of reach, which was told as a defect."""
    run_alone(failed, ALONE, ONCE, busy=True)
