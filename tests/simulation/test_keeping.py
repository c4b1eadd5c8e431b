"""Each form in which records are kept does what it is for, and brings about the states that it is there for."""

from __future__ import annotations

from collections import Counter

import pytest

from pykafka_broker.testing.simulation.faults import kill, stop
from tests.simulation.keeping import (
    BY_SIZE,
    BY_TIME,
    COMPACTED,
    COMPACTED_TRIMMED,
    FORMS,
    TRIMMED,
    UNCLEAN,
    UNCLEAN_TRIMMED,
    Keeping,
    form_of,
)
from tests.simulation.layouts import ALONE
from tests.simulation.runs import KILLS, ONCE, SLOW, WIPES, run_alone, run_cluster, run_groups

pytestmark = pytest.mark.whole

SEEDS = 3


@pytest.mark.parametrize(
    ("keeping", "states"),
    [
        (BY_TIME, {"log start raised by retention"}),
        (BY_SIZE, {"log start raised by retention", "follower's start above its leader's"}),
        (TRIMMED, {"log started inside a segment", "OFFSET_OUT_OF_RANGE followed"}),
        (COMPACTED, {"cleaned before an abort marker"}),
        (COMPACTED_TRIMMED, {"log cleaned"}),
    ],
)
def test_a_run_without_faults_reaches_its_rare_states(keeping: Keeping, states: set[str]) -> None:
    rare = run_cluster(1, (), keeping=keeping).history.rare
    assert {state for state in states if rare[state]} == states


def test_followers_begin_anew_and_inside_a_batch() -> None:
    rare: Counter[str] = Counter()
    for seed in range(3):
        rare.update(run_cluster(seed, (kill, stop), keeping=TRIMMED).history.rare)
    assert rare["follower began anew"] > 0
    assert rare["follower began inside a batch"] > 0


def test_a_run_does_much_of_everything() -> None:
    did = run_cluster(2, (), keeping=COMPACTED_TRIMMED).history.did
    assert did["batch with acks=1"] > 20
    assert did["batch with acks=0"] > 20
    assert did["partition added"] > 0
    assert did["tombstone"] > 2
    assert did["deleted up to there"] > 2
    assert did["offset deleted"] > 2
    assert did["ListOffsets of a time"] > 5
    assert all(did[f"ListOffsets of {kind}"] > 0 for kind in (-1, -2, -3, -4, -5))


def test_partitions_that_are_added_are_used() -> None:
    simulation = run_groups(3, (), keeping=TRIMMED)
    history = simulation.history
    assert history.counts["t"] == len(simulation.partitions) > 2
    assert history.rare["member was given an added partition"] > 0
    assert all(history.acknowledged[partition] for partition in simulation.partitions[:3])


def test_disks_are_replaced(seed: int, keeping: Keeping, busy: bool) -> None:
    run_cluster(seed, WIPES, keeping=keeping, busy=busy)


def test_everything_about_the_controller_is_slow(seed: int, keeping: Keeping, busy: bool) -> None:
    run_cluster(seed, SLOW, keeping=keeping, busy=busy)


def test_one_call_fails(seed: int, keeping: Keeping, busy: bool) -> None:
    run_cluster(seed, ONCE, keeping=keeping, busy=busy)


@pytest.mark.parametrize("keeping", [UNCLEAN, UNCLEAN_TRIMMED])
@pytest.mark.parametrize("unclean", range(3))
def test_whoever_leads_in_the_end_has_followers(unclean: int, keeping: Keeping) -> None:
    run_cluster(unclean, WIPES, keeping=keeping)


@pytest.mark.parametrize("calm", range(4))
def test_nothing_stands_still_while_a_majority_is_well(calm: int) -> None:
    run_cluster(calm, KILLS, keeping=FORMS[calm], calm=True)


def test_a_minority_was_away_for_long() -> None:
    rare: Counter[str] = Counter()
    for seed in range(2):
        rare.update(run_cluster(seed, KILLS, keeping=TRIMMED, calm=True).history.rare)
    assert rare["minority away for long"] > 10


def test_a_seed_decides_everything() -> None:
    one, other = (run_alone(7, ALONE, KILLS, keeping=COMPACTED_TRIMMED) for _ in range(2))
    assert one.timeline.happened == other.timeline.happened > 500
    assert one.history.acknowledged == other.history.acknowledged
    assert one.history.rare == other.history.rare


def test_what_a_leader_alone_has_deleted_is_promised_to_nobody() -> None:
    """If only the leader knows of a deletion, an eligible replica may lead next with the records, as in Kafka."""
    done = run_cluster(360_002, SLOW, trouble_ms=8_000, keeping=form_of(360_002))
    assert done.history.rare["records deleted by a leader alone"] > 5


def test_a_fetch_of_long_ago_takes_no_partition_from_a_session() -> None:
    """360935: an old connection's fetch came 100 ms after the new one's first; the replica was never in sync again."""
    run_cluster(360_935, SLOW, trouble_ms=8_000, keeping=form_of(360_935))
