"""The soak runs every kind of run that the tests have, and goes on behind one that fails."""

from __future__ import annotations

from functools import partial
from typing import Never

import pytest

from tests.simulation import runs, soak


def test_every_form_of_run_and_every_fault_is_soaked() -> None:
    forms = {run for name, run in vars(runs).items() if name.startswith("run_")}
    assert {kind.func for kind in soak.KINDS.values()} == forms
    faults = {fault for each in (runs.EVERYTHING, runs.POWER_CUTS, runs.WIPES) for fault in each}
    assert {fault for kind in soak.KINDS.values() for fault in kind.keywords["faults"]} == faults
    assert any(kind.keywords.get("on_disk") for kind in soak.KINDS.values()), "replicas that are moved between disks"


@pytest.mark.parametrize("error", [AssertionError("lost"), AssertionError(), KeyError("gone")])
def test_what_fails_is_told_with_its_kind_and_seed(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(seed: int) -> Never:
        raise error

    monkeypatch.setitem(soak.KINDS, "a kind", partial(fail))
    wrong = soak.what_fails("a kind", 7)
    assert wrong is not None
    assert wrong.startswith("a kind, seed 7: ")
    assert (str(error) or "AssertionError") in wrong


def test_a_run_that_ends_well_is_not_told() -> None:
    assert soak.what_fails("alone", 1) is None
