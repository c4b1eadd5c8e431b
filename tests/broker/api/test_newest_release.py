"""A broker answers as a real 4.4.0 answered, and a broker that passes for 4.3 knows nothing of what is new."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.cluster.features import SUPPORTED
from pykafka_broker.errors import FrameError
from pykafka_broker.log.log_directory import LogDirectoryError
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.delete_groups_request import DeleteGroupsRequest
from pykafka_broker.protocol.messages.unregister_controller_request import UnregisterControllerRequest
from pykafka_broker.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from pykafka_broker.protocol.runtime import Message
from tests.broker.api.newest_release import RECORDED, Talk
from tests.broker.api.real_broker import RealBroker
from tests.releases.other import NEWEST_VERSION, name_of

OF_4_3 = 30  # the metadata.version of 4.3
KAFKA: dict[str, Any] = json.loads(RECORDED.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    settings = {
        "pykafka.emulate": name_of(NEWEST_VERSION),
        "group.streams.initial.rebalance.delay.ms": "0",
        "group.streams.assignment.interval.ms": "0",
        "group.consumer.max.size": "1",
    }
    broker = RealBroker(tmp_path_factory.mktemp("next"), **settings)
    return Talk(broker.call).play()


def test_the_same_was_asked(ours: dict[str, Any]) -> None:
    assert list(ours) == list(KAFKA)


def test_the_answers_are_kafkas(ours: dict[str, Any]) -> None:
    assert {asked: (ours[asked], theirs) for asked, theirs in KAFKA.items() if ours[asked] != theirs} == {}


def test_a_directory_of_a_newer_release_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = RealBroker(tmp_path)
    broker.stop()
    with monkeypatch.context() as older:
        older.setitem(SUPPORTED, "metadata.version", (7, OF_4_3))
        with pytest.raises(LogDirectoryError, match=r"has metadata\.version 33, and this .* supports levels up to 30"):
            broker.start()
    broker.start()
    [level] = {f.max_version_level for f in features(broker) if f.name == "metadata.version"}
    assert level == 33


def features(broker: RealBroker) -> list[Any]:
    answer: Any = broker.call(ApiVersionsRequest("test", "1"), 4)
    return list(answer.finalized_features)


def test_a_directory_of_4_3_stays_at_its_level_until_it_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setitem(SUPPORTED, "metadata.version", (7, OF_4_3))
        broker = RealBroker(tmp_path)
        broker.stop()
    broker.start()
    assert {f.name: f.max_version_level for f in features(broker)}["metadata.version"] == OF_4_3
    raised = UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey("metadata.version", 33, upgrade_type=1)])
    assert broker.call(raised, 1).error_code == 0
    assert {f.name: f.max_version_level for f in features(broker)}["metadata.version"] == 33


@pytest.mark.parametrize(
    ("release", "level"), [("4.0", 25), ("4.3", OF_4_3), ("4.4", 33), ("3.9", 33)], ids=lambda each: str(each)
)
def test_a_new_directory_has_the_level_of_the_release_since_4_0(tmp_path: Path, release: str, level: int) -> None:
    """kafka-storage 4.3.1 gives it 30 (`interop/storage_tool/recorded_other.json`)."""
    broker = RealBroker(tmp_path, **{"pykafka.emulate": release})
    broker.stop()
    for passes_for in (release, ""):
        broker = RealBroker(tmp_path, **{"pykafka.emulate": passes_for})
        assert broker.broker.image.features["metadata.version"] == level
        broker.stop()


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (ApiVersionsRequest("test", "1", "another", 1), 5),
        (DeleteGroupsRequest(["g"]), 3),
        (UnregisterControllerRequest(99), 0),
    ],
)
def test_a_broker_that_passes_for_4_3_does_not_know_it(tmp_path: Path, request_: Message, version: int) -> None:
    broker = RealBroker(tmp_path, **{"pykafka.emulate": "4.3"})
    if isinstance(request_, ApiVersionsRequest):
        answer: Any = broker.call(ApiVersionsRequest("test", "1"), 4)
        assert {key.api_key: key.max_version for key in answer.api_keys}[request_.API_KEY] == 4
        return
    with pytest.raises(FrameError, match=r"is (not served|unknown)"):
        broker.call(request_, version)
