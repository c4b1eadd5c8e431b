"""A broker that emulates another release, as its clients see it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.broker.services import Services
from pykafka_broker.errors import FrameError
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest
from pykafka_broker.protocol.messages.fetch_request import FetchRequest
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from pykafka_broker.releases.release import release, release_names
from tests.broker.api.real_broker import RealBroker

ANSWERING = [name for name in release_names() if ApiKey.API_VERSIONS in release(name).apis]


def emulating(directory: Path, name: str) -> RealBroker:
    return RealBroker(directory, **{"pykafka.emulate": name})


def api_versions(node: RealBroker, version: int) -> Any:
    return node.call(ApiVersionsRequest("test", "1"), version)


@pytest.mark.parametrize("name", ANSWERING)
def test_api_versions_are_those_of_the_release(tmp_path: Path, name: str) -> None:
    node = emulating(tmp_path, name)
    telemetry = (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)  # no stock Kafka offers them
    apis = {key: versions for key, versions in release(name).apis.items() if key not in telemetry}
    if name.startswith("4."):
        apis[ApiKey.PRODUCE] = (0, apis[ApiKey.PRODUCE][1])  # offered for librdkafka, and not served
    for version in range(apis[ApiKey.API_VERSIONS][1] + 1):
        answer = api_versions(node, version)
        assert {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys} == apis
        assert answer.error_code == 0


@pytest.mark.parametrize("name", ["0.8", "0.9"])
def test_before_0_10_the_question_closes_the_connection(tmp_path: Path, name: str) -> None:
    node = emulating(tmp_path, name)
    with pytest.raises(FrameError, match="API key 18 is unknown"):
        api_versions(node, 0)
    assert node.call(MetadataRequest([MetadataRequestTopic(name="t")]), 0).topics[0].name == "t"


@pytest.mark.parametrize(
    ("name", "own_range"),
    [("0.10", []), ("2.3", []), ("2.4", [(18, 0, 3)]), ("4.3", [(18, 0, 4)]), ("4.4", [(18, 0, 5)])],
)
def test_a_version_of_api_versions_that_is_too_new(tmp_path: Path, name: str, own_range: list[Any]) -> None:
    node = emulating(tmp_path, name)
    body = node.answer_to(ApiKey.API_VERSIONS, 9, ApiVersionsRequest("test", "1").encode(4))
    answer: Any = SPECS[ApiKey.API_VERSIONS].response_class().decode(body, 0)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(key.api_key, key.min_version, key.max_version) for key in answer.api_keys] == own_range


def test_a_version_that_came_later_or_was_dropped_closes_the_connection(tmp_path: Path) -> None:
    old, new = emulating(tmp_path / "old", "2.8"), emulating(tmp_path / "new", "4.0")
    with pytest.raises(FrameError, match="FETCH version 13 is not served: 0 to 12"):
        old.call(FetchRequest(), 13)
    with pytest.raises(FrameError, match="FETCH version 3 is not served: 4 to 17"):
        new.call(FetchRequest(), 3)
    assert old.call(FetchRequest(max_wait_ms=0, session_epoch=-1), 3).error_code == 0


def test_another_broker_takes_over_the_requests_between_brokers_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, another = emulating(tmp_path / "old", "2.8"), emulating(tmp_path / "new", "2.8")
    another.call(CreateTopicsRequest([CreatableTopic("t", 1, 1)], 1000), 5)
    monkeypatch.setattr(Services, "emulation_for", lambda services, connection: None)
    assert node.call(MetadataRequest(None), 12).topics == []
    node.broker.router.serve(another.broker.services)
    assert [topic.name for topic in node.call(MetadataRequest(None), 12).topics] == ["t"]


def test_what_brokers_asked_each_other_is_refused(tmp_path: Path) -> None:
    node = emulating(tmp_path, "2.8")
    request = SPECS[ApiKey.CONTROLLED_SHUTDOWN].request_class()()
    assert node.call(request, 1).error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("name", "version", "supported", "finalized", "epoch_is"),
    [
        ("2.6", 3, {}, {}, -1),
        ("2.8", 3, {}, {}, 0),
        ("3.5", 3, {"metadata.version": (1, 11)}, {"metadata.version": 11}, None),
        ("4.0", 3, {"metadata.version": (7, 25)}, None, None),
        ("4.0", 4, None, {"group.version": 1, "transaction.version": 2, "metadata.version": 25}, None),
        ("4.1", 4, None, {
            "group.version": 1, "transaction.version": 2, "metadata.version": 27, "eligible.leader.replicas.version": 1,
        }, None),
    ],
)  # fmt: skip
def test_features(
    tmp_path: Path, name: str, version: int, supported: Any, finalized: Any, epoch_is: int | None
) -> None:
    node = emulating(tmp_path, name)
    answer = api_versions(node, version)
    if supported is not None:
        assert {f.name: (f.min_version, f.max_version) for f in answer.supported_features} == supported
    if finalized is not None:
        assert {f.name: f.max_version_level for f in answer.finalized_features} == finalized
    expected = node.broker.metadata.applied_offset if epoch_is is None else epoch_is
    assert answer.finalized_features_epoch == expected


def test_a_feature_that_came_later_can_not_be_raised(tmp_path: Path) -> None:
    node = emulating(tmp_path, "4.0")
    answer = node.call(UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey("streams.version", 1)]), 1)
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "does not support this feature" in answer.error_message


def test_a_topic_config_that_came_later_is_refused(tmp_path: Path) -> None:
    from pykafka_broker.protocol.messages.create_topics_request import CreatableTopicConfig

    def create(node: RealBroker, config: str, value: str) -> int:
        topic = CreatableTopic(f"t-{config}", 1, 1, configs=[CreatableTopicConfig(config, value)])
        return int(node.call(CreateTopicsRequest([topic]), 5).topics[0].error_code)

    node = emulating(tmp_path, "2.8")
    assert create(node, "message.format.version", "2.0") == 0
    assert create(node, "compression.zstd.level", "3") == ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(("name", "makes"), [("0.10.2", True), ("2.8", True), ("3.9", False)])
@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_a_release_with_zookeeper_makes_a_change_that_it_is_given_no_time_for(
    tmp_path: Path, name: str, makes: bool, timeout_ms: int
) -> None:
    """Answers of 0.10.2.2, 1.1.1, 2.8.2, 3.9.2: a controller of KRaft refuses, one before told that nobody waited."""
    node = RealBroker(tmp_path, **{"pykafka.emulate": name, "delete.topic.enable": "true"})
    version = release(name).apis[ApiKey.CREATE_TOPICS][1]
    made, wrong = CreatableTopic("made", 1, 1), CreatableTopic("wrong", 1, 7)

    def topics() -> list[str | None]:
        return [topic.name for topic in node.call(MetadataRequest(), 0).topics]

    late, refused = ErrorCode.REQUEST_TIMED_OUT, ErrorCode.INVALID_REPLICATION_FACTOR
    answer = node.call(CreateTopicsRequest([made, wrong], timeout_ms), version)
    assert [one.error_code for one in answer.topics] == [late, refused if makes else late]
    assert answer.topics[0].num_partitions == -1
    if not makes:
        return
    assert topics() == ["made"]
    if version:
        answer = node.call(CreateTopicsRequest([CreatableTopic("seen", 1, 1)], timeout_ms, True), version)
        assert answer.topics[0].error_code == ErrorCode.NONE
    answer = node.call(DeleteTopicsRequest(topic_names=["made", "none"], timeout_ms=timeout_ms), 0)
    codes = {one.name: one.error_code for one in answer.responses}
    assert codes == {"made": late, "none": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert topics() == []


@pytest.mark.parametrize("timeout_ms", [0, 30_000])
def test_partitions_that_are_given_no_time_are_added_with_zookeeper(tmp_path: Path, timeout_ms: int) -> None:
    node = emulating(tmp_path, "2.8")
    node.call(CreateTopicsRequest([CreatableTopic("t", 1, 1)]), 5)
    wanted = CreatePartitionsRequest([CreatePartitionsTopic("t", 3, None)], timeout_ms)
    code = ErrorCode.NONE if timeout_ms else ErrorCode.REQUEST_TIMED_OUT
    assert node.call(wanted, 1).results[0].error_code == code
    assert len(node.call(MetadataRequest(), 0).topics[0].partitions) == 3
    again = AlterPartitionReassignmentsRequest(
        timeout_ms, topics=[ReassignableTopic("t", [ReassignablePartition(0, [1])])]
    )
    assert node.call(again, 0).error_code == ErrorCode.NONE
