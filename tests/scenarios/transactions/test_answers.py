"""Our broker says what Apache Kafka 4.4.0 said, request by request."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.scenarios.transactions.client import Client
from tests.scenarios.transactions.in_process import InProcess
from tests.scenarios.transactions.scripts import SCENARIOS

ANSWERS = json.loads(Path(__file__).with_name("answers.json").read_text())


def test_every_scenario_is_recorded() -> None:
    assert set(ANSWERS) == set(SCENARIOS)


@pytest.mark.parametrize("name", SCENARIOS)
def test_answers(name: str, tmp_path: Path) -> None:
    wire = InProcess(tmp_path, transaction_abort_timed_out_transaction_cleanup_interval_ms="500")
    client = Client(wire, name)
    SCENARIOS[name](client)
    assert client.lines == ANSWERS[name]
