"""Our broker says in every scenario what Apache Kafka 4.4.0 said when it was recorded (record.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.recording import check
from tests.scenarios.telemetry.scripts import SCENARIOS, TelemetryStage
from tests.scenarios.telemetry.settings import CONFIG

ANSWERS = Path(__file__).with_name("answers")


@pytest.mark.parametrize("name", SCENARIOS)
def test_answers_what_kafka_answers(name: str, tmp_path: Path) -> None:
    check(SCENARIOS, TelemetryStage, ANSWERS, name, tmp_path, CONFIG)


def test_every_recorded_scenario_is_played() -> None:
    assert {path.stem for path in ANSWERS.glob("*.json")} == set(SCENARIOS)
