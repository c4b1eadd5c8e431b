"""A share group whose members are given records in every kind of trouble: each record comes to somebody, and none that
was accepted comes again.
"""

from __future__ import annotations

import pytest

from pykafka_broker.coordinators.share.state import ShareState
from tests.simulation.keeping import COMPACTED, Keeping
from tests.simulation.runs import KILLS, run_shares

SEEDS = 2


def test_a_run_does_much_of_everything() -> None:
    assert run_shares(1, ()).history.did["shared"] > 100


def test_each_record_comes_until_it_is_accepted(seed: int, keeping: Keeping) -> None:
    run_shares(seed, KILLS, keeping=keeping)


def test_replicas_clean_at_different_times() -> None:
    """A time was asked for of a leader that had cleaned records which its successor still had."""
    run_shares(1004, KILLS, trouble_ms=8_000, keeping=COMPACTED)


def test_a_state_that_is_not_kept_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ShareState, "take", lambda self, update: None)
    with pytest.raises(AssertionError, match="which it has accepted"):
        run_shares(1, KILLS)
