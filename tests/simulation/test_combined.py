"""Three brokers, one of which is the controller too, in every kind of trouble."""

from __future__ import annotations

from tests.simulation.keeping import Keeping
from tests.simulation.runs import KILLS, run_cluster

SEEDS = 5


def test_nothing_that_was_promised_is_lost(seed: int, keeping: Keeping, busy: bool) -> None:
    run_cluster(seed, KILLS, combined=True, keeping=keeping, busy=busy)
