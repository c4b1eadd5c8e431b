"""StreamsGroupHeartbeat where the broker has something else to do: internal topics, and a cluster without streams."""

from __future__ import annotations

from pathlib import Path

from pykafka_broker.protocol.errors import ErrorCode
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
