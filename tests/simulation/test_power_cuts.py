"""Three brokers that lose power, one at a time: what is not synced on one is on the others."""

from __future__ import annotations

import pytest

from tests.simulation.keeping import Keeping, form_of
from tests.simulation.runs import POWER_CUTS, run_cluster, run_groups

SEEDS = 3


def test_nothing_that_was_promised_is_lost(seed: int, keeping: Keeping, busy: bool) -> None:
    run_cluster(seed, POWER_CUTS, keeping=keeping, busy=busy)


def test_nor_if_one_of_the_brokers_is_the_controller(seed: int, keeping: Keeping, busy: bool) -> None:
    run_cluster(seed, POWER_CUTS, combined=True, keeping=keeping, busy=busy)


@pytest.mark.whole
def test_a_log_that_begins_anew_is_synced_before_it_is_called_so() -> None:
    """360010: after a power cut the checkpoint had the new log start, and the folder had no segment."""
    run_groups(360_010, POWER_CUTS, trouble_ms=8_000, keeping=form_of(360_010))
