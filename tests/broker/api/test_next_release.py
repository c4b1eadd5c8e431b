"""A broker that passes for Kafka 4.4 answers as a real 4.4.0 answered, and one of today knows nothing of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.errors import FrameError
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.delete_groups_request import DeleteGroupsRequest
from pykafka_broker.protocol.messages.unregister_controller_request import UnregisterControllerRequest
from pykafka_broker.protocol.runtime import Message
from tests.broker.api.next_release import RECORDED, Talk
from tests.broker.api.real_broker import RealBroker

KAFKA: dict[str, Any] = json.loads(RECORDED.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    settings = {
        "pykafka.emulate": "4.4",
        "group.streams.initial.rebalance.delay.ms": "0",
        "group.streams.assignment.interval.ms": "0",
    }
    broker = RealBroker(tmp_path_factory.mktemp("next"), **settings)
    return Talk(broker.call).play()


def test_the_same_was_asked(ours: dict[str, Any]) -> None:
    assert list(ours) == list(KAFKA)


@pytest.mark.parametrize("asked", KAFKA)
def test_the_answer_is_kafkas(ours: dict[str, Any], asked: str) -> None:
    expected = KAFKA[asked]
    if asked == "ApiVersions 4" or "this cluster, node 1" in asked or "no cluster, node -1" in asked:
        expected = as_far_as_it_works(expected)
    assert ours[asked] == expected


def as_far_as_it_works(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer to ApiVersions without the dead-letter queues of share groups (share.version 2)."""
    for feature in (*answer["supported_features"], *answer["finalized_features"]):
        if feature["name"] == "share.version":
            for name in ("max_version", "max_version_level", "min_version_level"):
                feature.update({name: 1} if name in feature else {})
    for part in ("supported_features", "finalized_features"):
        answer[part].sort(key=repr)
    return answer


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (ApiVersionsRequest("test", "1", "another", 1), 5),
        (DeleteGroupsRequest(["g"]), 3),
        (UnregisterControllerRequest(99), 0),
    ],
)
@pytest.mark.parametrize("emulate", ["", "4.3"])
def test_a_broker_of_today_does_not_know_it(tmp_path: Path, emulate: str, request_: Message, version: int) -> None:
    broker = RealBroker(tmp_path, **{"pykafka.emulate": emulate})
    if isinstance(request_, ApiVersionsRequest):
        answer: Any = broker.call(ApiVersionsRequest("test", "1"), 4)
        assert {key.api_key: key.max_version for key in answer.api_keys}[request_.API_KEY] == 4
        return
    with pytest.raises(FrameError, match=r"is (not served|unknown)"):
        broker.call(request_, version)
