"""Every batch of `produced/kinds.py` beside what a real Kafka answered to it (`produced/record.py`).

The other release has its own answers, for a broker that passes for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tests.broker.api.real_broker import RealBroker
from tests.broker.produced.asking import Call, ask
from tests.broker.produced.kinds import TOPICS, Kind, kinds
from tests.releases.other import OTHER

RELEASES = {"": "answers.json", OTHER: "answers_other.json"}  # the emulated release, empty for none
ANSWERS: dict[str, dict[str, Any]] = {
    release: json.loads(Path(__file__).with_name("produced").joinpath(file).read_text(encoding="utf-8"))
    for release, file in RELEASES.items()
}
GROUPS = sorted({name.split(": ")[0] for name in ANSWERS[""]})


@pytest.fixture(scope="module", params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture(scope="module")
def call(tmp_path_factory: pytest.TempPathFactory, release: str) -> Iterator[Call]:
    broker = RealBroker(tmp_path_factory.mktemp("produced"), **{"pykafka.emulate": release})

    topics = [
        CreatableTopic(name, 1, 1, [], [CreatableTopicConfig(*pair) for pair in configs.items()])
        for name, configs in TOPICS.items()
    ]
    broker.call(CreateTopicsRequest(topics), 7)
    yield broker.call
    broker.stop()


@pytest.fixture(scope="module")
def by_group() -> dict[str, list[Kind]]:
    grouped: dict[str, list[Kind]] = {}
    for kind in kinds():
        grouped.setdefault(kind.name.split(": ")[0], []).append(kind)
    return grouped


def comparable(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the comparable part of an answer: of an error message, whose words are our own, only its presence."""
    return {key: bool(value) if key == "text" else value for key, value in answer.items()}


@pytest.mark.parametrize("group", GROUPS)
def test_what_kafka_takes_is_taken_and_what_it_refuses_is_refused(
    call: Call, release: str, by_group: dict[str, list[Kind]], group: str
) -> None:
    different = [
        f"{kind.name}:\n  Kafka {theirs}\n  here  {ours}"
        for kind in by_group[group]
        if (ours := comparable(ask(call, kind))) != (theirs := comparable(ANSWERS[release][kind.name]))
    ]
    assert not different, "\n".join(different)


def test_every_kind_was_asked(by_group: dict[str, list[Kind]]) -> None:
    asked = {kind.name for group in by_group.values() for kind in group}
    assert all(asked == answers.keys() for answers in ANSWERS.values())
