"""Disks that are replaced by empty ones, and replicas that are moved from one disk of a broker to another: what was
acknowledged is on the others, and comes back to where it is missing.
"""

from __future__ import annotations

import errno

import pytest

from pykafka_broker.testing.simulation.faults import break_disk
from tests.simulation.keeping import form_of
from tests.simulation.layouts import CLUSTER_ID, cluster
from tests.simulation.runs import EVERYTHING, KILLS, ONCE, WIPES, run_changes, run_cluster
from tests.simulation.simulation import Simulation

pytestmark = pytest.mark.whole

SEEDS = 2


def test_a_run_does_much_of_everything() -> None:
    moves = [run_changes(seed, (), on_disk=True).history.did["move on disk"] for seed in (1, 2)]
    assert sum(moves) > 1


def test_what_was_on_a_disk_is_elsewhere(seed: int) -> None:
    run_cluster(seed, WIPES)


def test_moves_between_disks_lose_nothing(seed: int) -> None:
    run_changes(seed, (break_disk, *KILLS, *WIPES), on_disk=True)


def test_another_disk_works_where_one_was_full() -> None:
    with Simulation(1, cluster(1)) as simulation:
        node = simulation.nodes[1]
        node.format(CLUSTER_ID)
        (directory,) = node.directories
        node.disk.broken[directory] = errno.ENOSPC
        node.wipe_disk(directory)
        node.format(CLUSTER_ID)
        assert node.disk.exists(f"{directory}/meta.properties")


@pytest.mark.parametrize("failed", [1, 9])
def test_what_has_failed_once(failed: int) -> None:
    """1, 9: a broker whose only disk was replaced never told the controller the new directory of its replicas, so
    none of them was ever in sync again.
    """
    run_cluster(failed, WIPES)


def test_a_replica_whose_disk_was_replaced_waits_for_another_to_lead() -> None:
    """162: the partition had no leader at that moment, and was reported as lost."""
    run_changes(162, (break_disk, *KILLS, *WIPES), on_disk=True)


@pytest.mark.parametrize("failed", [200_009, 360_092])
def test_a_node_whose_disk_fails_as_it_starts_ends(failed: int) -> None:
    """200009, 360092: a controller could not write its leadership or epoch to disk, and the error ended the run."""
    run_cluster(failed, ONCE, trouble_ms=8_000, keeping=form_of(failed))


@pytest.mark.parametrize("failed", [360_078, 360_146, 360_163])
def test_a_disk_that_fails_or_is_full_takes_its_own_logs_along_and_no_more(failed: int) -> None:
    """360078: the cleaner read a segment's first timestamp from the failed disk, and the error ended the broker's turn.
    360146, 360163: a log that failed to begin anew tried again, and lost segments that a checkpoint called synced.
    """
    run_changes(failed, EVERYTHING, combined=True, trouble_ms=8_000, groups=True, keeping=form_of(failed))


def test_no_disk_is_wiped_while_the_controller_is_cut_off() -> None:
    """362011: the controller took live brokers for dead one by one, until the wiped broker was the last in sync."""
    run_cluster(362_011, WIPES, trouble_ms=8_000, keeping=form_of(362_011))


def test_no_node_is_killed_beside_one_with_a_new_disk() -> None:
    """365645: a killed broker is not eligible to lead, and the last known leader had lost its log."""
    failed = 365_645
    run_changes(failed, (break_disk, *KILLS, *WIPES), trouble_ms=8_000, on_disk=True, keeping=form_of(failed))
