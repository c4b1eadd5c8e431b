"""Three brokers that lose power, one at a time: what is not synced on one is on the others."""

from __future__ import annotations

from tests.simulation.runs import POWER_CUTS, run_cluster

SEEDS = 40


def test_nothing_that_was_promised_is_lost(seed: int) -> None:
    run_cluster(seed, POWER_CUTS)


def test_nor_if_one_of_the_brokers_is_the_controller(seed: int) -> None:
    run_cluster(seed, POWER_CUTS, combined=True)
