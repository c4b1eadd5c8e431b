"""StreamsGroupHeartbeat where the broker has something else to do: internal topics, and a cluster without streams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.broker.metadata.metadata_source import OnRefused
from pykafka_broker.coordinators.streams.topology import MISSING_INTERNAL_TOPICS
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic
from pykafka_broker.protocol.messages.create_topics_response import CreatableTopicResult
from pykafka_broker.protocol.messages.streams_group_heartbeat_request import KeyValue, TopicInfo
from tests.scenarios.groups.local import LocalWorld
from tests.scenarios.groups.settings import CONFIG
from tests.scenarios.groups.stage import Stage
from tests.scenarios.groups.streams_actor import StreamsMember, one_step


def world(directory: Path, **config: str) -> Stage:
    settings = CONFIG | {key.replace("_", "."): value for key, value in config.items()}
    stage = Stage(LocalWorld(directory, "streams-000000", settings))
    stage.ready()
    return stage


def test_why_an_internal_topic_can_not_be_created_is_told(tmp_path: Path) -> None:
    stage = world(tmp_path)
    log = TopicInfo("log", topic_configs=[KeyValue("retention.ms", "soon")])
    fine = TopicInfo("fine", topic_configs=[KeyValue("cleanup.policy", "compact")])
    one = StreamsMember(stage, "one", one_step(stage.topic("t", 2), changelogs=[log, fine]))
    [status] = one.join().status
    assert (
        "; Creation failed: log (Invalid value soon for configuration retention.ms: Not a number of type LONG)."
        in status.status_detail
    )
    assert stage.topic_id("fine")
    [status] = one.beat().status
    assert status.status_detail.startswith("Internal topics are missing: log;")


def test_a_remote_controllers_refusal_is_told_by_the_next_heartbeats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Expect what members of Kafka 4.4.0 were told by a broker whose controller was another node."""
    stage = world(tmp_path)
    assert isinstance(stage.world, LocalWorld)
    asked: list[tuple[list[str], OnRefused]] = []

    def create(topics: list[CreatableTopic], context: object, on_refused: OnRefused) -> list[CreatableTopicResult]:
        if topics:
            asked.append(([topic.name for topic in topics], on_refused))
        return [CreatableTopicResult(topic.name) for topic in topics]

    monkeypatch.setattr(stage.world.broker.metadata, "create_topics", create)
    topology = one_step(stage.topic("t", 2), changelogs=[TopicInfo("log", replication_factor=5)])
    one, two = StreamsMember(stage, "one", topology), StreamsMember(stage, "two", topology)

    def told(answer: Any) -> list[str]:
        return [status.status_detail for status in answer.status if status.status_code == MISSING_INTERNAL_TOPICS]

    plain = "Internal topics are missing: log"
    assert told(one.join()) == [plain]
    names, on_refused = asked.pop()
    assert names == ["log"]
    on_refused(
        [CreatableTopicResult("log", error_code=ErrorCode.INVALID_REPLICATION_FACTOR, error_message="Too many.")]
    )
    why = f"{plain}; Creation failed: log (Too many.)."
    assert (told(one.beat()), told(two.join()), asked) == ([why], [why], [])
    stage.wait(2 * one.beat().heartbeat_interval_ms)
    assert told(one.beat()) == [plain]
    assert [names for names, _ in asked] == [["log"]], "it is tried again"


def test_a_cluster_may_do_without_streams_groups(tmp_path: Path) -> None:
    stage = world(tmp_path, group_coordinator_rebalance_protocols="classic,consumer")
    one = StreamsMember(stage, "one", one_step(stage.topic("t", 2)))
    assert one.join().error_code == ErrorCode.UNSUPPORTED_VERSION
    assert one.describe_streams().groups[0].error_code == ErrorCode.UNSUPPORTED_VERSION


def partitions(member: StreamsMember) -> list[int]:
    """Return the partition counts of the changelog topics, as the group is described."""
    [group] = member.describe_streams().groups
    return [topic.partitions for one in group.topology.subtopologies for topic in one.state_changelog_topics]


def test_internal_topics_are_described_from_the_second_epoch_on(tmp_path: Path) -> None:
    """Expect Kafka's answers for a new group with its changelog: first epoch and plain heartbeats show no topics."""
    stage = world(tmp_path)
    source, changelog = stage.topic("t", 2), stage.topic("log", 2)
    topology = one_step(source, changelogs=[TopicInfo(changelog)])
    one = StreamsMember(stage, "one", topology)
    assert one.join().status == []
    assert partitions(one) == [0]
    for _ in range(3):
        assert one.beat().member_epoch == one.epoch
        assert partitions(one) == [0]
    StreamsMember(stage, "two", topology).join()
    assert partitions(one) == [2]


def test_internal_topics_that_were_missing_are_described_once_they_are_there(tmp_path: Path) -> None:
    stage = world(tmp_path)
    one = StreamsMember(stage, "one", one_step(stage.topic("t", 2), changelogs=[TopicInfo("log")]))
    assert one.join().status
    assert partitions(one) == [0]
    assert one.beat().status == []
    assert partitions(one) == [2]
