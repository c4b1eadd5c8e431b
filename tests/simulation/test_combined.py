"""Three brokers, one of which is the controller too, in every kind of trouble."""

from __future__ import annotations

from tests.simulation.runs import KILLS, run_cluster

SEEDS = 150


def test_nothing_that_was_promised_is_lost(seed: int) -> None:
    run_cluster(seed, KILLS, combined=True)
