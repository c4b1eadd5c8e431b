"""Four brokers with two disks each, while partitions are moved, moves are given up, preferred leaders elected, settings
changed and topics deleted and made anew; disks fail, clocks drift, nodes come and go.
"""

from __future__ import annotations

import pytest

from pykafka_broker.cluster import heartbeats
from pykafka_broker.testing.simulation.faults import Fault, break_disk, drift, kill, stop
from tests.simulation.keeping import Keeping
from tests.simulation.runs import EVERYTHING, KILLS, POWER_CUTS, TROUBLE_MS, WIPES, run_changes, run_cluster

SEEDS = 10
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
    """14, 18: a fetcher looked for a partition that a failing disk had just taken away; 14: a partition that was made
    and moved on while a node was away left a folder there.
    121: a follower waited for a sync that a setting had asked for, and that nobody began.
    3050: two folders of deleted topics of one name, in two directories, were each other's rivals for ever.
    """
    run_changes(failed, faults, trouble_ms=5_000 if faults is DISKS else TROUBLE_MS)


@pytest.mark.whole
@pytest.mark.parametrize("failed", [5047, 6031, 6051])
def test_what_has_failed_once_with_a_controller_that_is_a_broker(failed: int) -> None:
    """5047: what was moved on while its disk was away was never put aside by a node that is a controller too.
    6031, 6051: a disk failed just as a broker that started looked for what is not its own, and it never served.
    """
    run_changes(failed, (break_disk, break_disk, *KILLS, drift), combined=True, trouble_ms=6_000)


@pytest.mark.whole
@pytest.mark.parametrize("failed", [11_231_802, 20_006])
def test_what_was_taken_away_before_a_kill_is_not_missed(failed: int) -> None:
    """A checkpoint still had an offset of what was deleted: a partition that was given back, a topic made anew."""
    run_changes(failed, EVERYTHING, trouble_ms=8_000, groups=True)


@pytest.mark.whole
@pytest.mark.parametrize("failed", [231_176, 231_201])
def test_what_moves_between_disks_while_disks_are_replaced(failed: int) -> None:
    """231176: the disk that a replica was leaving was wiped, and its unfinished copy kept it from being made anew for
    good. 231201: a move that was pointless, as the replica was another node's by then, was told as an error.
    """
    run_changes(failed, (break_disk, *KILLS, *WIPES), trouble_ms=8_000, on_disk=True)


@pytest.mark.whole
def test_what_is_written_in_portions_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are served between any two partitions that a broker loses or gets back."""
    monkeypatch.setattr(heartbeats, "PORTION", 1)
    run_changes(1, EVERYTHING)
    run_cluster(2, POWER_CUTS)
