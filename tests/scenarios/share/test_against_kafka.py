"""Our broker says in every scenario what Apache Kafka 4.4.0 said when it was recorded (record.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.recording import check
from tests.scenarios.share.scripts import SCENARIOS
from tests.scenarios.share.settings import CONFIG
from tests.scenarios.share.stage import ShareStage
from tests.scenarios.synced import check_synced

ANSWERS = Path(__file__).with_name("answers")


@pytest.mark.parametrize("name", SCENARIOS)
def test_answers_what_kafka_answers(name: str, tmp_path: Path) -> None:
    check(SCENARIOS, ShareStage, ANSWERS, name, tmp_path, CONFIG)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_same_answers_after_a_sync(name: str, tmp_path: Path) -> None:
    check_synced(SCENARIOS, ShareStage, ANSWERS, name, tmp_path, CONFIG)


def test_every_recorded_scenario_is_played() -> None:
    assert {path.stem for path in ANSWERS.glob("*.json")} == set(SCENARIOS)
