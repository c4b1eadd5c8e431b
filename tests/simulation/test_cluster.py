"""Three brokers under a controller, with clients of every kind, in every kind of trouble."""

from __future__ import annotations

import pytest

from tests.simulation.keeping import Keeping
from tests.simulation.runs import KILLS, run_cluster

SEEDS = 5


def test_a_run_does_much_of_everything() -> None:
    did = run_cluster(0, ()).history.did
    assert did["batch"] > 50
    assert did["transaction"] > 3
    assert did["commit"] > 20


def test_nothing_that_was_promised_is_lost(seed: int, keeping: Keeping, busy: bool) -> None:
    run_cluster(seed, KILLS, keeping=keeping, busy=busy)


def test_readers_of_followers_get_what_those_of_the_leader_get(seed: int, keeping: Keeping, busy: bool) -> None:
    assert run_cluster(seed, KILLS, keeping=keeping, busy=busy, near=True).history.rare["read from a follower"]


@pytest.mark.parametrize("failed", [13, 33])
def test_what_has_failed_once(failed: int) -> None:
    """13, 33: a broker that came back led its old partitions by its old metadata, until it was restarted."""
    run_cluster(failed, KILLS)


@pytest.mark.parametrize("failed", [7, 259])
def test_nobody_ends_a_producer_that_has_time(failed: int) -> None:
    """A replaced coordinator that does not know of its replacement must not end transactions.

    It had never heard of the producer (7), or of the producer's epoch (259).
    """
    run_cluster(failed, KILLS, patient=True)
