"""Members whose connection has closed: given up soon where the broker is for tests, by their session elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka_broker.broker.setup import Setup
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from tests.scenarios.groups.actors import SESSION_MS, Actor, ClassicMember, ConsumerMember, joined_pair, stable_pair
from tests.scenarios.groups.local import LocalWorld
from tests.scenarios.groups.settings import CONFIG
from tests.scenarios.groups.stage import Stage

PATIENCE_MS = 5_000
LONG_SESSIONS = CONFIG | {f"group.{protocol}.session.timeout.ms": str(SESSION_MS) for protocol in ("consumer", "share")}
LONG_SESSIONS["group.share.min.session.timeout.ms"] = "500"


@pytest.fixture
def stage(tmp_path: Path, request: pytest.FixtureRequest) -> Stage:
    patience_ms = getattr(request, "param", PATIENCE_MS)
    stage = Stage(LocalWorld(tmp_path, "g", LONG_SESSIONS, Setup(absent_member_ms=patience_ms)))
    stage.ready()
    return stage


def members(stage: Stage) -> list[str]:
    return [member.client_id for member in Actor(stage, "admin").describe().groups[0].members]


def keep_beating(stage: Stage, member: ClassicMember, ms: int) -> None:
    for _ in range(0, ms, 1_000):
        member.heartbeat()
        stage.wait(1_000)


def test_a_classic_member_that_is_gone_is_given_up_soon(stage: Stage) -> None:
    one, two = stable_pair(stage)
    two.wire.close()
    keep_beating(stage, one, PATIENCE_MS - 1_000)
    assert one.heartbeat().error_code == ErrorCode.NONE
    stage.wait(1_000)
    assert one.heartbeat().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert members(stage) == ["one"]


@pytest.mark.parametrize("stage", [None], indirect=True)
def test_elsewhere_a_session_lasts_as_long_as_kafka_lets_it(stage: Stage) -> None:
    one, two = stable_pair(stage)
    two.wire.close()
    keep_beating(stage, one, SESSION_MS - 1_000)
    assert one.heartbeat().error_code == ErrorCode.NONE
    stage.wait(1_000)
    assert one.heartbeat().error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_one_that_comes_back_on_another_connection_stays(stage: Stage) -> None:
    one, two = stable_pair(stage)
    two.wire.close()
    stage.wait(PATIENCE_MS - 1)
    two.wire = stage.world.connect("two")
    assert two.heartbeat().error_code == ErrorCode.NONE
    stage.wait(SESSION_MS - PATIENCE_MS)
    assert one.heartbeat().error_code == two.heartbeat().error_code == ErrorCode.NONE


def test_the_end_of_an_older_connection_means_nothing(stage: Stage) -> None:
    one, two = stable_pair(stage)
    older, two.wire = two.wire, stage.world.connect("two")
    assert two.heartbeat().error_code == ErrorCode.NONE
    older.close()
    keep_beating(stage, one, 2 * PATIENCE_MS)
    assert two.heartbeat().error_code == ErrorCode.NONE


def test_a_static_member_is_expected_back_within_its_session(stage: Stage) -> None:
    member = ClassicMember(stage, "static", instance_id="i")
    member.join()
    member.sync({member.member_id: b"all"})
    member.wire.close()
    stage.wait(SESSION_MS - 1)
    assert members(stage) == ["static"]


def test_one_that_is_gone_while_it_waits_for_a_rebalance_goes_after_it(stage: Stage) -> None:
    one, _ = stable_pair(stage)
    three = ClassicMember(stage, "three")
    three.enter()  # and it waits for one and two
    three.wire.close()
    keep_beating(stage, one, PATIENCE_MS)
    one.send_join()
    stage.wait(SESSION_MS)  # two has not joined: it is out, and the next generation has one and three
    assert one.joined().error_code == ErrorCode.NONE
    keep_beating(stage, one, PATIENCE_MS)
    assert members(stage) == ["one"]


def test_a_join_that_is_asked_to_come_back_with_its_id_and_does_not(stage: Stage) -> None:
    one, two = joined_pair(stage)
    two.wire.close()
    stage.wait(PATIENCE_MS)
    assert members(stage) == ["one"]
    assert one.heartbeat().error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_of_the_consumer_protocol_leaves_its_partitions_to_others(stage: Stage) -> None:
    topic = stage.topic("t", 2)
    one, two = ConsumerMember(stage, "one"), ConsumerMember(stage, "two")
    one.join(topic)
    two.join(topic)
    one.beat(owned={topic: [0]})
    two.wire.close()
    stage.wait(PATIENCE_MS)
    (group,) = Actor(stage, "admin").describe_consumer().groups
    assert [member.client_id for member in group.members] == ["one"]
    assert one.beat().assignment is not None


def test_a_member_of_a_share_group_too(stage: Stage) -> None:
    topic = stage.topic("t")
    client = stage.client("sharing")
    assert client.ask(ShareGroupHeartbeatRequest(stage.group, "m", 0, None, [topic])).error_code == ErrorCode.NONE
    client.wire.close()
    admin = stage.client("admin")
    stage.wait(PATIENCE_MS)
    assert admin.ask(ShareGroupHeartbeatRequest(stage.group, "m", 1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_is_no_member_is_not_kept(stage: Stage) -> None:
    one, _ = stable_pair(stage)
    for number in range(100):
        assert one.heartbeat(member_id=f"nobody-{number}").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    world = stage.world
    assert isinstance(world, LocalWorld)
    assert len(world.broker.services.groups.coordinator.disconnected._connection_of) == 2
