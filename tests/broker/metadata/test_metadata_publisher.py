"""Consequences of metadata: logs, configs, listeners; over restarts and crashes."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.cluster.image import MetadataDelta
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from pykafka_broker.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest
from pykafka_broker.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from pykafka_broker.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pykafka_broker.protocol.runtime import uuid_text
from pykafka_broker.protocol.stored.config_record import ConfigRecord
from pykafka_broker.protocol.stored.partition_record import PartitionRecord
from pykafka_broker.protocol.stored.remove_topic_record import RemoveTopicRecord
from pykafka_broker.protocol.stored.topic_record import TopicRecord
from tests.broker.api.real_broker import RealBroker, UnsyncedFileSystem
from tests.broker.support import batch


@pytest.fixture
def node(tmp_path: Path) -> RealBroker:
    return RealBroker(tmp_path)


def create(node: RealBroker, name: str, partitions: int = 1, **configs: str) -> Any:
    overrides = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
    request = CreateTopicsRequest([CreatableTopic(name, partitions, 1, configs=overrides)])
    result = node.call(request, 7).topics[0]
    assert result.error_code == 0
    return result


def delete(node: RealBroker, name: str) -> None:
    assert node.call(DeleteTopicsRequest(topic_names=[name], timeout_ms=30_000), 5).responses[0].error_code == 0


def alter(node: RealBroker, kind: int, name: str, key: str, value: str | None) -> None:
    config = AlterableConfig(key, 0 if value is not None else 1, value)
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(kind, name, [config])])
    assert node.call(request, 1).responses[0].error_code == 0


def folders(node: RealBroker) -> set[str]:
    names = (path.name for path in node.directory.iterdir() if path.is_dir())
    return {name.partition(".")[0] + ("-delete" if name.endswith("-delete") else "") for name in names}


def test_topics_have_logs_at_once_and_after_a_restart(node: RealBroker) -> None:
    topic_id = create(node, "t", 2).topic_id
    node.call(CreatePartitionsRequest([CreatePartitionsTopic("t", 3, None)], 30_000), 3)
    assert folders(node) == {"__cluster_metadata-0", "t-0", "t-1", "t-2"}
    node.restart()
    assert node.broker.image.topic_id("t") == topic_id
    assert [node.broker.partition_log("t", number).topic_id for number in range(3)] == [topic_id] * 3


def test_topics_that_come_grow_and_go_are_logged_once(node: RealBroker, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "pykafka_broker.broker.metadata.metadata_publisher"):
        single = uuid_text(create(node, "single").topic_id)
        text = uuid_text(create(node, "t", 2).topic_id)
        node.call(CreatePartitionsRequest([CreatePartitionsTopic("t", 5, None)], 30_000), 3)
        node.restart()
        delete(node, "t")
    assert caplog.messages == [
        f"topic single is created: 1 partition, id {single}",
        f"topic t is created: 2 partitions, id {text}",
        "topic t has 5 partitions now",
        f"topic t is deleted, id {text}",
    ]


def test_a_deleted_topic_is_gone_and_a_new_one_begins_at_zero(node: RealBroker) -> None:
    first = create(node, "t").topic_id
    old = node.broker.partition_log("t", 0)
    delete(node, "t")
    assert folders(node) == {"__cluster_metadata-0", "t-0-delete"}
    with pytest.raises(ApiError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        node.broker.partition_log("t", 0)
    with pytest.raises(ApiError, match="UNKNOWN_TOPIC_ID"):
        node.broker.topic_name(first)
    second = create(node, "t").topic_id
    new = node.broker.partition_log("t", 0)
    assert second != first
    assert new is not old
    assert (new.log_start_offset, new.log_end_offset, new.topic_id) == (0, 0, second)


def test_topic_configs_reach_the_log(node: RealBroker) -> None:
    create(node, "t", retention_ms="5")
    log = node.broker.partition_log("t", 0)
    assert log.config.retention_ms == 5
    alter(node, ConfigResourceType.TOPIC, "t", "retention.ms", "77")
    assert log.config.retention_ms == 77
    node.restart()
    assert node.broker.partition_log("t", 0).config.retention_ms == 77
    alter(node, ConfigResourceType.TOPIC, "t", "retention.ms", None)
    assert node.broker.partition_log("t", 0).config.retention_ms == 7 * 24 * 3600 * 1000


def test_dynamic_broker_configs_lie_over_the_static_ones(tmp_path: Path) -> None:
    node = RealBroker(tmp_path, **{"log.retention.ms": "1000"})
    create(node, "t")
    create(node, "own", retention_ms="5")
    alter(node, ConfigResourceType.BROKER, "", "log.retention.ms", "2000")
    retained = [node.broker.partition_log(topic, 0).config.retention_ms for topic in ("t", "own")]
    assert (node.broker.config.log_retention_ms, retained) == (2000, [2000, 5])
    alter(node, ConfigResourceType.BROKER, "1", "log.retention.ms", "3000")
    node.restart()
    assert node.broker.config.log_retention_ms == 3000
    alter(node, ConfigResourceType.BROKER, "1", "log.retention.ms", None)
    alter(node, ConfigResourceType.BROKER, "", "log.retention.ms", None)
    assert node.broker.config.log_retention_ms == 1000
    assert node.broker.topic_config("t").retention_ms == 1000


def test_listeners_hear_of_changes_after_they_were_made(node: RealBroker) -> None:
    heard: list[tuple[list[str], list[str], bool]] = []

    def listener(delta: MetadataDelta) -> None:
        created = [topic.name for topic in delta.created]
        heard.append((created, [topic.name for topic in delta.deleted], node.broker.logs.exists("t", 0)))

    node.broker.subscribe(listener)
    create(node, "t")
    delete(node, "t")
    assert heard == [(["t"], [], True), ([], ["t"], False)]


def test_a_topic_made_and_deleted_in_one_batch_leaves_no_log(node: RealBroker) -> None:
    records = [TopicRecord("t", b"i" * 16), RemoveTopicRecord(b"i" * 16)]
    node.broker.commit_metadata([ApiMessageAndVersion(record, 0) for record in records])
    assert folders(node) == {"__cluster_metadata-0"}


def test_nothing_changes_if_the_log_refuses(node: RealBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)

    offset = node.broker.metadata.applied_offset
    monkeypatch.setattr(type(node.broker.metadata.log.log), "append", full)
    with pytest.raises(ApiError, match="KAFKA_STORAGE_ERROR"):
        node.broker.commit_metadata([ApiMessageAndVersion(TopicRecord("t", b"i" * 16), 0)])
    assert (node.broker.image.topics, node.broker.metadata.applied_offset) == ({}, offset)


def test_a_clean_restart_keeps_the_leader_epochs_and_a_crash_ends_them(node: RealBroker) -> None:
    create(node, "t", 2)

    def epochs() -> list[int]:
        return [partition.leader_epoch for partition in node.broker.image.topics["t"].partitions.values()]

    node.restart()
    assert epochs() == [0, 0]
    node.start()  # without a stop
    assert epochs() == [1, 1]


def test_a_crash_before_the_log_was_made(node: RealBroker) -> None:
    create(node, "t")
    node.broker.metadata.log.append([ApiMessageAndVersion(record, 2) for record in partition_of(node, "t")], node.now)
    node.start()
    assert folders(node) == {"__cluster_metadata-0", "t-0", "t-1"}


def partition_of(node: RealBroker, name: str) -> list[Any]:
    topic_id = node.broker.image.topics[name].id
    return [PartitionRecord(1, topic_id, [1], [1], [], [], 1, 0, 0, 0, [bytes(16)])]


def test_a_crash_before_a_deleted_log_was_moved(node: RealBroker) -> None:
    topic_id = create(node, "t").topic_id
    node.broker.metadata.log.append([ApiMessageAndVersion(RemoveTopicRecord(topic_id), 0)], node.now)
    node.start()
    assert folders(node) == {"__cluster_metadata-0", "t-0-delete"}


def test_a_crash_between_deleting_and_creating_again(node: RealBroker) -> None:
    first = create(node, "t").topic_id
    again = b"n" * 16
    records: list[Any] = [RemoveTopicRecord(first), TopicRecord("t", again)]
    node.broker.metadata.log.append([ApiMessageAndVersion(record, 0) for record in records], node.now)
    partition = PartitionRecord(0, again, [1], [1], [], [], 1, 0, 0, 0, [bytes(16)])
    node.broker.metadata.log.append([ApiMessageAndVersion(partition, 2)], node.now)
    node.start()
    assert folders(node) == {"__cluster_metadata-0", "t-0", "t-0-delete"}
    assert node.broker.partition_log("t", 0).topic_id == again


def test_folders_that_the_metadata_does_not_know_are_left_alone(
    node: RealBroker, caplog: pytest.LogCaptureFixture
) -> None:
    node.stop()
    (node.directory / "stray-0").mkdir()
    with caplog.at_level(logging.WARNING):
        node.start()
    assert "stray-0" in folders(node)
    assert "Not in the metadata and left alone: stray-0" in caplog.text


def test_producer_ids_go_on_after_a_restart(node: RealBroker) -> None:
    assert [node.broker.services.node.producer_ids.next_id() for _ in range(2)] == [0, 1]
    node.restart()
    assert node.broker.services.node.producer_ids.next_id() == 1000


def test_snapshots_are_written_as_the_log_grows(tmp_path: Path) -> None:
    settings = {"metadata.log.max.record.bytes.between.snapshots": "2000", "metadata.max.retention.bytes": "0"}
    node = RealBroker(tmp_path, **settings)
    for number in range(40):
        create(node, f"t{number}")
    snapshots = list((tmp_path / "__cluster_metadata-0").glob("*.checkpoint"))
    assert len(snapshots) == 1
    assert node.broker.metadata.log.log.log_start_offset > 50
    node.restart()
    assert len(node.broker.image.topics) == 40
    assert node.broker.image.brokers[1].epoch > 0


def test_snapshots_are_written_as_time_goes_by(node: RealBroker) -> None:
    create(node, "t")
    due = node.broker.metadata.next_deadline()
    assert due == node.now + 3_600_000
    node.broker.on_deadline(due)
    assert len(list((node.directory / "__cluster_metadata-0").glob("*.checkpoint"))) == 1


def test_configs_of_another_release_are_kept_and_ignored(node: RealBroker) -> None:
    create(node, "t", retention_ms="5")
    left = ConfigRecord(ConfigResourceType.TOPIC, "t", "message.format.version", "2.8")
    node.broker.commit_metadata([ApiMessageAndVersion(left, 0)])
    node.restart()
    assert node.broker.partition_log("t", 0).config.retention_ms == 5
    request = DescribeConfigsRequest([DescribeConfigsResource(ConfigResourceType.TOPIC, "t", None)])
    (result,) = node.call(request, 4).results
    assert result.error_code == 0
    assert "message.format.version" not in {config.name for config in result.configs}
    assert node.broker.image.topic_config("t")["message.format.version"] == "2.8"
    alter(node, ConfigResourceType.TOPIC, "t", "retention.ms", "6")


def test_values_that_cannot_be_read_stop_no_broker(node: RealBroker, caplog: pytest.LogCaptureFixture) -> None:
    create(node, "t", retention_ms="5")
    values = {"cleanup.policy": "delete,delete", "max.message.bytes": "many", "compression.type": "best"}
    records = [ConfigRecord(ConfigResourceType.TOPIC, "t", name, value) for name, value in values.items()]
    node.broker.commit_metadata([ApiMessageAndVersion(record, 0) for record in records])
    node.restart()
    config = node.broker.partition_log("t", 0).config
    assert (config.retention_ms, config.cleanup_policy) == (5, ["delete"])
    assert (config.max_message_bytes, config.compression_type) == (1_048_588, "producer")
    assert "ignored a topic config: Invalid value many" in caplog.text
    request = DescribeConfigsRequest([DescribeConfigsResource(ConfigResourceType.TOPIC, "t", None)])
    assert node.call(request, 4).results[0].error_code == 0


def test_a_log_goes_to_the_directory_that_its_replica_names(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    node = RealBroker(first, **{"log.dirs": f"{first},{second}"})
    there = node.broker.logs.directories[1]
    partition = PartitionRecord(0, b"i" * 16, [7, 1], [7, 1], [], [], 7, 0, 0, 0, [b"?" * 16, there.id])
    records = [ApiMessageAndVersion(TopicRecord("t", b"i" * 16), 0), ApiMessageAndVersion(partition, 2)]
    node.broker.commit_metadata(records)
    assert node.broker.logs.directory_of(("t", 0)) is there


def test_a_log_that_found_no_room_is_made_when_there_is_some(
    node: RealBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "No space left on device")

    heard: list[MetadataDelta] = []
    node.broker.subscribe(lambda delta: heard.append(delta))
    with monkeypatch.context() as full:
        full.setattr(node.broker.logs, "make", refuse)
        full.setattr(node.broker.logs, "create", refuse)
        topic_id = create(node, "t", 2).topic_id
        assert len(heard) == 1
        assert caplog.text.count("has no log yet") == 2
        with pytest.raises(ApiError) as caught:
            node.broker.partition_log("t", 1)
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert node.broker.partition_log("t", 1).topic_id == topic_id
    assert folders(node) == {"__cluster_metadata-0", "t-1"}


def test_a_subscriber_that_raises_keeps_no_other_from_hearing(
    node: RealBroker, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[list[str]] = []

    def broken(delta: MetadataDelta) -> None:
        raise ValueError("a defect of a subscriber")

    node.broker.subscribe(lambda delta: heard.append([topic.name for topic in delta.deleted]))
    node.broker.subscribe(broken)
    node.broker.subscribe(lambda delta: heard.append([topic.name for topic in delta.deleted]))
    create(node, "t")
    create(node, "u")
    heard.clear()
    assert [
        one.error_code for one in node.call(DeleteTopicsRequest(topic_names=["t", "u"], timeout_ms=30_000), 5).responses
    ] == [0, 0]
    assert heard == [["t", "u"]] * 2
    assert "a defect of a subscriber" in caplog.text


def test_a_folder_that_stays_keeps_nobody_from_hearing_of_the_deletion(
    node: RealBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two topics in one request, and the disk refuses the new name of the first one's folder."""
    for name in "tu":
        create(node, name)
        node.broker.partition_log(name, 0).append(batch(b"old", timestamp=node.now), node.now)
    heard: list[str] = []
    node.broker.subscribe(lambda delta: heard.extend(topic.name for topic in delta.deleted))
    rename = UnsyncedFileSystem.rename

    def refusing(fs: UnsyncedFileSystem, source: str, target: str) -> None:
        if source.endswith("/t-0"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), source)
        rename(fs, source, target)

    with monkeypatch.context() as full:
        full.setattr(UnsyncedFileSystem, "rename", refusing)
        answers = node.call(DeleteTopicsRequest(topic_names=["t", "u"], timeout_ms=30_000), 5).responses
        assert [one.error_code for one in answers] == [0, 0]
        assert sorted(heard) == ["t", "u"]
        topic_id = create(node, "t").topic_id
    fetched = node.call(
        FetchRequest(max_wait_ms=0, topics=[FetchTopic(topic_id=topic_id, partitions=[FetchPartition(0)])]), 13
    )
    (data,) = fetched.responses[0].partitions
    assert (data.error_code, data.high_watermark, bytes(data.records)) == (0, 0, b"")
