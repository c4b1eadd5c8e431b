"""Three brokers that lose power, one at a time: what is not synced on one is on the others."""

from __future__ import annotations

from tests.simulation.keeping import Keeping
from tests.simulation.runs import POWER_CUTS, run_cluster

SEEDS = 40


def test_nothing_that_was_promised_is_lost(seed: int, keeping: Keeping) -> None:
    run_cluster(seed, POWER_CUTS, keeping=keeping)


def test_nor_if_one_of_the_brokers_is_the_controller(seed: int, keeping: Keeping) -> None:
    run_cluster(seed, POWER_CUTS, combined=True, keeping=keeping)
