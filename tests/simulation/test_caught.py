"""The simulation finds what it is there for: each defect that is put in is caught by some of the first seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka_broker.log.log_directory import LogDirectoryError
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.log.producer_state import ProducerState
from tests.log.crash.simulator import SimHandle
from tests.simulation.faults import Fault, break_connections, cut_power, kill
from tests.simulation.layouts import ALONE
from tests.simulation.test_one_node import ALWAYS, SYNCED, run

MOST_SEEDS = 25
Defect = Callable[[pytest.MonkeyPatch], None]


def acknowledges_before_it_is_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimHandle, "sync", lambda self: None)


def takes_what_comes_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProducerState, "find_duplicate", lambda self, batch: None)
    monkeypatch.setattr(ProducerState, "check", lambda self, batch, base_offset, check_sequence: None)


def hides_no_aborted_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartitionLog, "aborted_transactions", lambda self, offset, end: [])


def shows_open_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartitionLog, "last_stable_offset", property(lambda self: self.high_watermark))


@pytest.mark.parametrize(
    ("defect", "settings", "faults"),
    [
        (acknowledges_before_it_is_on_disk, SYNCED, (cut_power,)),
        (takes_what_comes_twice, ALONE, (break_connections, kill)),
        (hides_no_aborted_transaction, ALONE, ()),
        (shows_open_transactions, ALONE, ()),
    ],
)
def test_a_defect_is_caught(
    monkeypatch: pytest.MonkeyPatch, defect: Defect, settings: dict[str, str], faults: tuple[Fault, ...]
) -> None:
    defect(monkeypatch)
    caught: list[Any] = []
    for seed in range(MOST_SEEDS):
        try:
            run(seed, settings, *faults, *ALWAYS)
        except (AssertionError, LogDirectoryError) as error:
            caught.append(error)
            break
    assert caught, f"{defect.__name__} goes unnoticed"
