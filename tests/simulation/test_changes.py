"""Four brokers with two disks each, while partitions are moved, moves are given up, preferred leaders elected, settings
changed and topics deleted and made anew; disks fail, clocks drift, nodes come and go.
"""

from __future__ import annotations

import pytest

from pykafka_broker.cluster import heartbeats
from pykafka_broker.testing.simulation.faults import Fault, break_disk, drift, kill, stop
from tests.simulation.keeping import Keeping
from tests.simulation.runs import EVERYTHING, KILLS, POWER_CUTS, TROUBLE_MS, WIPES, run_changes, run_cluster

SEEDS = 2
DISKS: tuple[Fault, ...] = (break_disk, break_disk, break_disk, kill, stop, drift)


@pytest.mark.whole
def test_a_run_does_much_of_everything() -> None:
    history = run_changes(4, ()).history
    did = history.did
    assert did["move"] > 2
    assert did["election"] > 0
    assert did["setting"] > 4
    assert did["topic made and deleted"] > 5
    assert did["batch"] > 50
    assert history.rare["fetch answer dropped"] > 0


def test_nothing_that_was_promised_is_lost(seed: int, keeping: Keeping, busy: bool) -> None:
    run_changes(seed, EVERYTHING, combined=bool(seed % 2), keeping=keeping, busy=busy)


@pytest.mark.whole
@pytest.mark.parametrize(("failed", "faults"), [(14, EVERYTHING), (18, EVERYTHING), (121, KILLS), (3050, DISKS)])
def test_what_has_failed_once(failed: int, faults: tuple[Fault, ...]) -> None:
    """Seeds of old defects pass.

    14, 18: a fetcher looked for a partition that a failing disk had just taken away. 14: a partition that was created
    and moved while a node was away left a folder on that node.
    121: a follower waited for a sync that a setting demanded and that no code began.
    3050: two folders of deleted topics of one name, in two directories, kept each other out of service for ever.
    """
    run_changes(failed, faults, trouble_ms=5_000 if faults is DISKS else TROUBLE_MS)


@pytest.mark.whole
@pytest.mark.parametrize("failed", [5047, 6031, 6051])
def test_what_has_failed_once_with_a_controller_that_is_a_broker(failed: int) -> None:
    """Seeds of old defects pass with a controller that is a broker.

    5047: the node never put aside a replica that had been moved away while its disk was failed.
    6031, 6051: a disk failed just as the starting broker looked for strange folders, and the broker never served.
    """
    run_changes(failed, (break_disk, break_disk, *KILLS, drift), combined=True, trouble_ms=6_000)


@pytest.mark.whole
@pytest.mark.parametrize("failed", [11_231_802, 20_006])
def test_what_was_taken_away_before_a_kill_is_not_missed(failed: int) -> None:
    """A checkpoint still had an offset of a deleted replica whose partition came back or whose topic was recreated."""
    run_changes(failed, EVERYTHING, trouble_ms=8_000, groups=True)


@pytest.mark.whole
@pytest.mark.parametrize("failed", [231_176, 231_201])
def test_what_moves_between_disks_while_disks_are_replaced(failed: int) -> None:
    """Seeds of old defects pass.

    231176: the disk that a replica was leaving was wiped, and the unfinished copy on the other disk kept the replica
    from ever being created again. 231201: a pointless move, of a replica that another node had by then, was logged as
    an error.
    """
    run_changes(failed, (break_disk, *KILLS, *WIPES), trouble_ms=8_000, on_disk=True)


@pytest.mark.whole
def test_what_is_written_in_portions_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs pass when a broker serves others after each partition that it loses or gets back."""
    monkeypatch.setattr(heartbeats, "PORTION", 1)
    run_changes(1, EVERYTHING)
    run_cluster(2, POWER_CUTS)
