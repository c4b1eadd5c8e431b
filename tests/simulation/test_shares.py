"""A share group whose members are given records in every kind of trouble: each record comes to somebody, and none that
was accepted comes again.
"""

from __future__ import annotations

import pytest

from pykafka_broker.coordinators.share.state import ShareState
from tests.simulation.keeping import COMPACTED, TRIMMED, Keeping, form_of
from tests.simulation.runs import KILLS, run_shares

SEEDS = 2


@pytest.mark.whole
def test_a_run_does_much_of_everything() -> None:
    assert run_shares(1, ()).history.did["shared"] > 100
    assert run_shares(1, (), keeping=TRIMMED).history.did["share group rewound"] > 5


def test_each_record_comes_until_it_is_accepted(seed: int, keeping: Keeping, busy: bool) -> None:
    run_shares(seed, KILLS, keeping=keeping, busy=busy)


@pytest.mark.whole
@pytest.mark.parametrize("failed", [6, 13, 14, 200_055, 345_019, 360_005])
def test_a_group_begins_where_it_was_put(failed: int) -> None:
    """6: a partition was initialized late, by a request for a member that had left, and the offset that the group had
    been put to since was gone. 13: a leader had asked for a state before the group was put elsewhere, and believed the
    answer when the next member came. 14: a leader with a session that had not ended kept what it knew for good.
    200055: a request to initialize a state arrived after a copy of it that was sent again. 345019: the coordinator of
    the group did not know a new partition yet, and let the group begin there all the same. 360005: a node that had been
    away read the state that another node kept since from its own log.
    """
    run_shares(failed, KILLS, trouble_ms=8_000, keeping=form_of(failed))


@pytest.mark.whole
@pytest.mark.parametrize("failed", [200_080, 360_115])
def test_what_is_told_as_accepted_is_committed(failed: int) -> None:
    """200080: while a node waited for the share coordinator of another partition, it lost the log with an
    acknowledgement, and yet told the member that all was well. 360115: a state change waited for a connection to a dead
    share coordinator, was made at the next one instead, and reached the first one seconds later.
    """
    run_shares(failed, KILLS, trouble_ms=8_000, keeping=form_of(failed))


@pytest.mark.whole
def test_replicas_clean_at_different_times() -> None:
    """A leader may answer a search by time after it has cleaned records that its successor still has."""
    run_shares(1004, KILLS, trouble_ms=8_000, keeping=COMPACTED)


def test_a_state_that_is_not_kept_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ShareState, "apply_update", lambda self, update: None)
    with pytest.raises(AssertionError, match="which it has accepted"):
        run_shares(1, KILLS)
