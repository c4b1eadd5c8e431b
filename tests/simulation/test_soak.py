"""The soak runs every kind of run that the tests have, and goes on behind one that fails."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Never

import pytest

from tests.simulation import runs, soak
from tests.simulation.keeping import FORMS, Keeping
from tests.simulation.leases import run_leases
from tests.simulation.simulation import Simulation


def test_every_form_of_run_and_every_fault_is_soaked() -> None:
    forms = {run for name, run in vars(runs).items() if name.startswith("run_")} | {run_leases}
    assert {kind.func for kind in soak.KINDS.values()} == forms
    groups = (runs.EVERYTHING, runs.POWER_CUTS, runs.WIPES, runs.SLOW, runs.ONCE)
    faults = {fault for each in groups for fault in each}
    assert {fault for kind in soak.KINDS.values() for fault in kind.keywords["faults"]} == faults
    assert any(kind.keywords.get("on_disk") for kind in soak.KINDS.values()), "replicas that are moved between disks"


@pytest.mark.parametrize("error", [AssertionError("lost"), AssertionError(), KeyError("gone")])
def test_what_fails_is_told_with_its_kind_and_seed(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(seed: int, keeping: Keeping, busy: bool) -> Never:
        raise error

    monkeypatch.setitem(soak.KINDS, "a kind", partial(fail))
    wrong = soak.outcome_of("a kind", 7).wrong
    assert wrong is not None
    assert wrong.startswith("a kind, seed 7: ")
    assert (str(error) or "AssertionError") in wrong


def test_a_run_that_ends_well_is_not_told() -> None:
    outcome = soak.outcome_of("alone", len(FORMS))
    assert outcome.wrong is None
    assert outcome.form == "kept"


def test_a_rare_state_that_is_never_reached_is_told_when_there_were_enough_runs() -> None:
    few = Counter({(kind, soak.form_for(kind, seed).name): 1 for kind in soak.KINDS for seed in range(len(FORMS))})
    enough = Counter(dict.fromkeys(few, soak.ENOUGH))
    reached = Counter({"log cut": 3})
    assert soak.never_reached(few, reached) == []
    missing = soak.never_reached(enough, reached)
    assert "log cut" not in missing
    assert "unclean election" in missing


def test_seeds_are_taken_from_first_to_last(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(soak, "prepare", lambda: None)  # this process has other tests to run
    monkeypatch.setattr("sys.argv", ["soak", "--seeds", "5-6", "--kind", "alone", "--kind", "calm", "--processes", "1"])
    monkeypatch.setattr(soak, "KINDS", {"alone": partial(_does_nothing), "calm": partial(_does_nothing)})
    assert soak.main() == 0
    assert "4 runs, 0 failed" in capsys.readouterr().out


def _does_nothing(seed: int, keeping: Keeping, busy: bool) -> Simulation:
    return Simulation(seed, {}, keeping)
