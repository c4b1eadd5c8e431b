"""Groups whose members come and go, in every kind of trouble: nothing that is committed goes back, every record is
processed, and what is read and written in transactions has its output once.
"""

from __future__ import annotations

import pytest

from tests.simulation.keeping import Keeping
from tests.simulation.runs import KILLS, run_groups

SEEDS = 2


@pytest.mark.whole
def test_a_run_does_much_of_everything() -> None:
    did = run_groups(2, ()).history.did
    assert did["processed"] > 100
    assert did["exactly once"] > 100
    assert did["rebalance"] > 8
    assert did["member left"] > 2
    assert did["member vanished"] > 0


def test_each_record_has_its_output(seed: int, keeping: Keeping, busy: bool) -> None:
    run_groups(seed, KILLS, combined=bool(seed % 2), keeping=keeping, busy=busy)


@pytest.mark.whole
@pytest.mark.parametrize("failed", [1179])
def test_what_has_failed_once(failed: int) -> None:
    """1179: a member with nothing but an id was refused by a group whose members had all gone."""
    run_groups(failed, KILLS)
