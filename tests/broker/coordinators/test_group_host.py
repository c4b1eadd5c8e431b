"""The group coordinator's host: loading beside requests, deleted topics, a log that refuses."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from pykafka_broker.broker.coordinators import group_host, shards
from pykafka_broker.cluster.image import MetadataDelta
from pykafka_broker.coordinators.groups.group import TimerKey
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.heartbeat_request import HeartbeatRequest
from pykafka_broker.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pykafka_broker.protocol.messages.list_groups_request import ListGroupsRequest
from pykafka_broker.protocol.stored.partition_change_record import PartitionChangeRecord
from tests.scenarios.groups.actors import Actor, ClassicMember, ConsumerMember, joined_pair, subscription
from tests.scenarios.groups.local import LocalWorld
from tests.scenarios.groups.settings import CONFIG
from tests.scenarios.groups.stage import Stage


@pytest.fixture
def world(tmp_path: Path) -> LocalWorld:
    return LocalWorld(tmp_path, "group", CONFIG)


@pytest.fixture
def stage(world: LocalWorld) -> Stage:
    stage = Stage(world)
    stage.ready()
    return stage


def committed(actor: Actor, topic: str) -> tuple[int, ErrorCode]:
    group = actor.fetch({topic: [0]}).groups[0]
    if group.error_code:
        return -1, ErrorCode(group.error_code)
    partition = group.topics[0].partitions[0]
    return partition.committed_offset, ErrorCode(partition.error_code)


def test_a_group_whose_log_is_being_read_says_so(
    world: LocalWorld, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = stage.topic("t")
    actor = Actor(stage, "a")
    for offset in range(5):
        actor.commit({(topic, 0): offset})
    monkeypatch.setattr(shards, "FIRST_SLICE_BYTES", 1)
    monkeypatch.setattr(shards, "SLICE_BYTES", 1)
    world.restart()
    actor, member = Actor(stage, "a"), ClassicMember(stage, "m")
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert committed(actor, topic) == (-1, loading)
    assert actor.commit({(topic, 0): 9}).topics[0].partitions[0].error_code == loading
    assert actor.ask(ListGroupsRequest()).error_code == loading
    assert actor.describe().groups[0].error_code == loading
    assert member.join().error_code == loading
    assert member.sync().error_code == ErrorCode.REBALANCE_IN_PROGRESS, "its generation is gone"
    assert member.ask(HeartbeatRequest(stage.group, 1, "m"), 4).error_code == ErrorCode.NONE, "nobody knows better"
    assert ConsumerMember(stage, "c").join(topic).error_code == loading
    assert actor.delete_groups().results[0].error_code == loading
    world.wait(0)
    assert committed(actor, topic) == (4, ErrorCode.NONE)


def test_without_the_topic_there_is_no_coordinator(world: LocalWorld) -> None:
    stage = Stage(world)
    actor = Actor(stage, "a")
    assert committed(actor, "t") == (-1, ErrorCode.NOT_COORDINATOR)
    assert ClassicMember(stage, "m").join().error_code == ErrorCode.NOT_COORDINATOR
    assert actor.describe().groups[0].error_code == ErrorCode.NOT_COORDINATOR
    found = actor.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4).coordinators[0]
    assert (found.error_code, found.node_id) == (ErrorCode.NONE, world.broker.node_id)
    assert len(world.broker.image.topics["__consumer_offsets"].partitions) == 5
    assert committed(actor, "t") == (-1, ErrorCode.NONE)


def test_offsets_of_a_deleted_topic_are_gone_also_after_a_restart(world: LocalWorld, stage: Stage) -> None:
    topic = stage.topic("t")
    actor = Actor(stage, "a")
    actor.commit({(topic, 0): 5})
    actor.ask(DeleteTopicsRequest([DeleteTopicState(topic)], timeout_ms=1_000), 6)
    stage.topic("t")
    assert committed(actor, topic)[0] == -1
    world.restart()
    assert committed(Actor(stage, "a"), topic)[0] == -1


def test_members_hear_of_replicas_that_move(world: LocalWorld, stage: Stage) -> None:
    member, topic = ConsumerMember(stage, "m"), stage.topic("t")
    member.join(topic)
    group: Any = world.broker.groups.coordinator.groups[stage.group]
    member.beat()
    assert not group.metadata_stale
    change = PartitionChangeRecord(0, world.broker.image.topics[topic].id, replicas=[world.broker.node_id])
    world.broker.services.node.metadata.image.apply(change, delta := MetadataDelta())
    world.broker.groups._on_metadata(delta)
    assert group.metadata_stale


def test_a_deleted_topic_opens_no_logs(world: LocalWorld, stage: Stage) -> None:
    topic, actor = stage.topic("t"), Actor(stage, "a")
    actor.commit({(topic, 0): 5})
    before = {*world.broker.logs.loaded}
    assert len([key for key in before if key[0] == "__consumer_offsets"]) == 1
    actor.ask(DeleteTopicsRequest([DeleteTopicState(topic)], timeout_ms=1_000), 6)
    assert {*world.broker.logs.loaded} <= before


def test_a_log_out_of_reach_does_not_keep_other_groups_from_forgetting_a_topic(
    world: LocalWorld, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, actor, groups = stage.topic("t"), Actor(stage, "a"), world.broker.services.groups
    index = groups.shards.index_of(stage.group)
    other = next(name for name in map(str, range(100)) if groups.shards.index_of(name) != index)
    for group in (stage.group, other):
        actor.commit({(topic, 0): 5}, group=group)
    replicas = world.broker.services.replicas
    replicas.offline([("__consumer_offsets", index)])

    def leader(topic: str, partition: int, *arguments: Any) -> Any:
        if (topic, partition) == ("__consumer_offsets", index):
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        return type(replicas).leader(replicas, topic, partition, *arguments)

    monkeypatch.setattr(replicas, "leader", leader)
    actor.ask(DeleteTopicsRequest([DeleteTopicState(topic)], timeout_ms=1_000), 6)
    assert not groups.coordinator.offsets.committed(other)


def test_whoever_waits_is_sent_away_when_the_topic_goes(stage: Stage) -> None:
    one = ClassicMember(stage, "one")
    one.enter()
    one.joined()
    two = ClassicMember(stage, "two")
    two.enter()
    two.waits()
    one.ask(DeleteTopicsRequest([DeleteTopicState("__consumer_offsets")], timeout_ms=1_000), 6)
    assert two.joined().error_code == ErrorCode.NOT_COORDINATOR
    assert one.heartbeat().error_code == ErrorCode.NOT_COORDINATOR


def test_a_log_that_refuses_changes_nothing(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = stage.topic("t")
    actor = Actor(stage, "a")
    actor.commit({(topic, 0): 5})
    one, two = joined_pair(stage, group=f"{stage.group}-members")
    two.send_sync()

    def refuse(*arguments: Any, **keywords: Any) -> None:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    with monkeypatch.context() as broken:
        broken.setattr(shards.CoordinatorShards, "append", refuse)
        unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert actor.commit({(topic, 0): 6}).topics[0].partitions[0].error_code == unavailable
        assert one.sync({one.member_id: b"x", two.member_id: b"y"}).error_code == unavailable
        assert two.receive().error_code == unavailable
        assert ConsumerMember(stage, "c").join(topic).error_code == unavailable
    assert committed(actor, topic)[0] == 5
    one.join()
    assert one.sync({one.member_id: b"x", two.member_id: b"y"}).assignment == b"x"
    assert two.sync().assignment == b"y"


def test_a_group_that_a_log_does_not_let_turn_back_stays_a_consumer_group(
    world: LocalWorld, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = stage.topic("t", 2)
    one = ConsumerMember(stage, "one")
    one.join(topic)
    old = ClassicMember(stage, "old", protocols={"range": subscription([topic])})
    old.enter()
    old.joined()
    host = world.broker.services.groups

    def refuse(*arguments: Any, **keywords: Any) -> None:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    with monkeypatch.context() as broken:
        broken.setattr(shards.CoordinatorShards, "append", refuse)
        assert one.beat(-1).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    group, timers = host.coordinator.groups[stage.group], host.coordinator.table.timers
    assert (group.type_name, sorted(group.members)) == ("consumer", sorted([one.member_id, old.member_id]))
    for member_id in group.members:
        assert TimerKey("consumer-session", stage.group, member_id) in timers, "nobody would go"
    assert TimerKey("classic-session", stage.group, old.member_id) not in timers
    assert one.beat(-1).error_code == ErrorCode.NONE
    assert host.coordinator.groups[stage.group].type_name == "classic"
    world.restart()
    group = world.broker.services.groups.coordinator.groups[stage.group]
    assert (group.type_name, [*group.members]) == ("classic", [old.member_id])


def test_an_empty_group_that_a_log_does_not_let_go_stays_a_consumer_group(
    world: LocalWorld, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = ConsumerMember(stage, "one")
    one.join(stage.topic("t"))
    one.beat(-1)
    groups = world.broker.services.groups.coordinator.groups

    def refuse(*arguments: Any, **keywords: Any) -> None:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    with monkeypatch.context() as broken:
        broken.setattr(shards.CoordinatorShards, "append", refuse)
        assert ClassicMember(stage, "old").join().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert ClassicMember(stage, "new", group="new").join().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert groups[stage.group].type_name == "consumer"
    assert "new" not in groups
    assert ClassicMember(stage, "old").join().error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert groups[stage.group].type_name == "classic"
    world.restart()
    assert world.broker.services.groups.coordinator.groups[stage.group].type_name == "classic"


def test_whoever_waits_is_answered_where_the_log_refuses_to_confirm(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = ClassicMember(stage, "one"), ClassicMember(stage, "two")
    one.enter()
    one.joined()
    two.enter()
    assert two.wire.is_quiet()

    def refuse(*arguments: Any, **keywords: Any) -> None:
        raise ApiError(ErrorCode.NOT_COORDINATOR)

    monkeypatch.setattr(shards.CoordinatorShards, "confirm", refuse)
    assert one.leave((two.member_id, None)).error_code == ErrorCode.NOT_COORDINATOR
    assert not two.wire.is_quiet()
    assert two.receive().error_code == ErrorCode.NOT_COORDINATOR


def test_of_sessions_that_end_in_one_moment_a_turn_ends_some(
    world: LocalWorld, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = stage.topic("t")
    for name in ("one", "two", "three"):
        ConsumerMember(stage, name).join(topic)
    monkeypatch.setattr(group_host, "DEADLINES_A_TURN", 2)
    host = world.broker.services.groups
    group = host.coordinator.groups[stage.group]
    after_all = world.now + 3_600_000
    left = []
    while group.members:
        host.on_deadline(after_all)
        left.append(len(group.members))
        due = host.next_deadline()
        assert not group.members or (due is not None and due <= after_all), "the next turn goes on"
    assert left[-1] == 0
    assert left[0] >= 1, f"members after each turn: {left}"


def alter(actor: Actor, kind: ConfigResourceType, resource: str, key: str, value: str) -> None:
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(kind, resource, [AlterableConfig(key, 0, value)])])
    assert actor.ask(request, 1).responses[0].error_code == ErrorCode.NONE


def test_settings_of_a_group_count_at_once(stage: Stage) -> None:
    topic = stage.topic("t")
    member = ConsumerMember(stage, "m")
    assert member.join(topic).heartbeat_interval_ms == 200
    alter(member, ConfigResourceType.GROUP, stage.group, "consumer.heartbeat.interval.ms", "700")
    assert member.beat().heartbeat_interval_ms == 700
    alter(member, ConfigResourceType.GROUP, stage.group, "consumer.session.timeout.ms", "9000")
    member.beat()
    stage.wait(8_000)
    assert member.beat().error_code == ErrorCode.NONE


def test_settings_of_the_broker_count_at_once(stage: Stage) -> None:
    topic = stage.topic("t", 2)
    one, two = ConsumerMember(stage, "one"), ConsumerMember(stage, "two")
    one.join(topic)
    alter(one, ConfigResourceType.BROKER, "", "group.consumer.assignment.interval.ms", "1000")
    assert two.join(topic).member_epoch == 2, "the last target is not a second old"
    stage.wait(1_000)
    assert two.beat().member_epoch == 3
