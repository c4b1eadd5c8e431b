"""A share group that rejects records, in every kind of trouble: each of them leaves a letter."""

from __future__ import annotations

import pytest

from pykafka_broker.broker.coordinators.dead_letters import DeadLetterWriter
from tests.simulation.runs import KILLS, run_letters

pytestmark = pytest.mark.whole

SEEDS = 2


def test_a_run_writes_letters_once() -> None:
    did = run_letters(1, ()).history.did
    assert did["letters"] > 30
    assert did["letters that came again"] == 0


def test_each_rejected_record_leaves_a_letter(seed: int) -> None:
    run_letters(seed, KILLS)


def test_the_next_leader_is_sent_what_the_last_one_lost() -> None:
    """The first leader of the letters gave a batch sequence numbers that the next leader refused."""
    run_letters(119, KILLS, trouble_ms=8_000)


def test_the_last_member_may_be_given_more_once_all_letters_have_come() -> None:
    """The last member rejected more records after the reader of letters had ended, and so waited for ever."""
    run_letters(361101, KILLS, trouble_ms=8_000)


def test_letters_that_are_not_written_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeadLetterWriter, "_write", lambda self, key, letters: iter(()))
    with pytest.raises(AssertionError, match="still wait"):
        run_letters(1, ())
