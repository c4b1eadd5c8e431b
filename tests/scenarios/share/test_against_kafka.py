"""Our broker says in every scenario what Apache Kafka 4.3.1 said when it was recorded (record.py)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.scenarios.groups.local import LocalWorld
from tests.scenarios.share.scripts import SCENARIOS
from tests.scenarios.share.settings import CONFIG
from tests.scenarios.share.stage import ShareStage

ANSWERS = Path(__file__).with_name("answers")


@pytest.mark.parametrize("name", SCENARIOS)
def test_answers_what_kafka_answers(name: str, tmp_path: Path) -> None:
    stage = ShareStage(LocalWorld(tmp_path, f"{name}-000000", CONFIG))  # as long as the names at the recording
    stage.ready()
    SCENARIOS[name](stage)
    assert stage.lines == json.loads((ANSWERS / f"{name}.json").read_text())


def test_every_recorded_scenario_is_played() -> None:
    assert {path.stem for path in ANSWERS.glob("*.json")} == set(SCENARIOS)
