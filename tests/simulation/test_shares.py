"""A share group whose members are given records in every kind of trouble: each record comes to somebody, and none that
was accepted comes again.
"""

from __future__ import annotations

import pytest

from pykafka_broker.coordinators.share.state import ShareState
from tests.simulation.keeping import Keeping
from tests.simulation.runs import KILLS, run_shares

SEEDS = 2


def test_a_run_does_much_of_everything() -> None:
    assert run_shares(1, ()).history.did["shared"] > 100


def test_each_record_comes_until_it_is_accepted(seed: int, keeping: Keeping) -> None:
    run_shares(seed, KILLS, keeping=keeping)


def test_a_state_that_is_not_kept_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ShareState, "take", lambda self, update: None)
    with pytest.raises(AssertionError, match="which it has accepted"):
        run_shares(1, KILLS)
