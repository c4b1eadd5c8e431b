"""Tasks go to the members that a Kafka 4.4.0 gives them to, heartbeat by heartbeat.

The histories have members of one to eight processes that come, go and return, as static members too, standby copies,
reported offsets, racks, tags, and settings of warm-up tasks.
"""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path

import pytest

from tests.coordinators.streams.tasks.histories import Json, Player, configure, history, make_ready
from tests.coordinators.streams.tasks.record import RECORDED, ours

HISTORIES: list[Json] = json.loads(RECORDED.read_text(encoding="utf-8"))
STANDBY, WARM_UP = re.compile(r"[^|]*\|\d"), re.compile(r"\|[\d_ ]*\|\d")  # the second and the third role


def test_every_task_is_where_kafka_has_it(tmp_path: Path) -> None:
    ask = ours(tmp_path)
    make_ready(ask)
    for each in HISTORIES:
        configure(each, ask)
        told = Player(each, ask).play()
        for step, found, expected in zip(each["steps"], told, each["told"], strict=True):
            assert found == expected, f"{each['seed']} {step}"


def test_the_recording_has_what_matters() -> None:
    assert any(each["reports"] for each in HISTORIES)
    assert any("streams.rack.aware.assignment.tags" in each["configs"] for each in HISTORIES)
    assert {each["configs"]["streams.num.standby.replicas"] for each in HISTORIES} == {"0", "1", "2"}
    steps = {name for each in HISTORIES for name, *_ in each["steps"]}
    assert steps == {"join", "beat", "settle", "leave", "away", "return"}


def test_no_task_of_kafka_warms_up() -> None:
    texts = [text for each in HISTORIES for step in each["told"] for text in step]
    assert any(STANDBY.search(text) for text in texts)
    assert not any(WARM_UP.search(text) for text in texts)


def test_reported_offsets_decide(tmp_path: Path) -> None:
    """Without its reports a history comes out otherwise than Kafka has told."""
    ask = ours(tmp_path)
    make_ready(ask)
    silent = [copy.deepcopy(each) | {"reports": 0} for each in HISTORIES if each["reports"]]
    differs = 0
    for each in silent:
        configure(each, ask)
        differs += Player(each, ask).play() != each["told"]
    assert differs


@pytest.mark.parametrize("seed", range(3))
def test_a_history_is_its_seeds(seed: int) -> None:
    assert history(seed) == history(seed)
    assert json.loads(json.dumps(history(seed))) == history(seed)
