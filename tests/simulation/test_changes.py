"""Four brokers with two disks each, while partitions are moved, moves are given up, preferred leaders elected, settings
changed and topics deleted and made anew; disks fail, clocks drift, nodes come and go.
"""

from __future__ import annotations

import pytest

from tests.simulation.faults import Fault
from tests.simulation.runs import EVERYTHING, KILLS, run_changes

SEEDS = 60


def test_a_run_does_much_of_everything() -> None:
    did = run_changes(2, ()).history.did
    assert did["move"] > 2
    assert did["election"] > 0
    assert did["setting"] > 4
    assert did["topic made and deleted"] > 5
    assert did["batch"] > 50


def test_nothing_that_was_promised_is_lost(seed: int) -> None:
    run_changes(seed, EVERYTHING, combined=bool(seed % 2))


@pytest.mark.parametrize(("failed", "faults"), [(14, EVERYTHING), (18, EVERYTHING), (121, KILLS)])
def test_what_has_failed_once(failed: int, faults: tuple[Fault, ...]) -> None:
    """14, 18: a fetcher looked for a partition that a failing disk had just taken away.
    121: a follower waited for a sync that a setting had asked for, and that nobody began.
    """
    run_changes(failed, faults)
