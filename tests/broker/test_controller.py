"""Acts of a controller without any request, when their time comes: fencing, elections, balancing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.cluster import heartbeats
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.errors import ApiError
from pykafka_broker.log.checkpoints import METADATA_TOPIC_ID
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from pykafka_broker.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pykafka_broker.protocol.stored.partition_change_record import PartitionChangeRecord
from tests.broker.controller_node import NOW, ControllerNode, directory

IDLE = 500


@pytest.fixture
def node(tmp_path: Path) -> ControllerNode:
    return ControllerNode(tmp_path)


def observe(node: ControllerNode) -> None:
    partition = FetchPartition(0, 1, 0, 0)
    request = FetchRequest(replica_state=ReplicaState(7), topics=[FetchTopic("", METADATA_TOPIC_ID, [partition])])
    assert node.ask(request).error_code == 0


def kinds(node: ControllerNode, since: int) -> list[str]:
    return [type(record).__name__ for record in node.written[since:]]


def let_pass(node: ControllerNode, until: int) -> None:
    """Let time pass, deadline by deadline."""
    while (due := node.next_deadline()) is not None and due <= until:
        node.on_deadline(max(due, node.clock.now))
    node.on_deadline(until)


def test_something_is_written_for_observers_to_measure_by(node: ControllerNode) -> None:
    observe(node)
    let_pass(node, NOW + IDLE)
    written = len(node.written)
    let_pass(node, NOW + 5 * IDLE)
    assert kinds(node, written) == ["NoOpRecord"] * 4


def test_a_controller_that_nobody_follows_writes_nothing(node: ControllerNode) -> None:
    written = len(node.written)
    let_pass(node, NOW + 20 * IDLE)
    assert kinds(node, written) == []


def test_nothing_is_added_where_something_is_written_anyway(node: ControllerNode) -> None:
    observe(node)
    let_pass(node, NOW + IDLE)
    written = len(node.written)
    for turn in range(2, 5):
        node.register(turn)
        let_pass(node, NOW + turn * IDLE)
    assert kinds(node, written) == ["RegisterBrokerRecord"] * 3


def allow_unclean_leaders(node: ControllerNode) -> None:
    change = AlterConfigsResource(2, "t", [AlterableConfig("unclean.leader.election.enable", 0, "true")])
    assert node.ask(IncrementalAlterConfigsRequest([change])).responses[0].error_code == 0


def test_an_unclean_leader_is_elected_as_soon_as_that_is_allowed(node: ControllerNode) -> None:
    node.join(1, 2)
    assigned = CreatableTopic("t", -1, -1, [CreatableReplicaAssignment(0, [1, 2])], [])
    assert node.ask(CreateTopicsRequest([assigned])).topics[0].error_code == 0
    node.beat(1, want_fence=True)
    node.beat(2, want_fence=True)
    node.beat(1)
    assert (partition(node).leader, partition(node).elr) == (-1, (2,))
    allow_unclean_leaders(node)
    let_pass(node, NOW)
    assert (partition(node).leader, partition(node).isr, partition(node).leader_recovery_state) == (1, (1,), 1)


def test_who_is_silent_is_fenced(node: ControllerNode) -> None:
    node.join(1, 2)
    let_pass(node, NOW + 5_000)
    node.beat(1)
    let_pass(node, NOW + 9_000)
    assert [node.image.brokers[each].fenced for each in (1, 2)] == [False, True]


def test_a_controller_that_was_stopped_itself_gives_everybody_time(node: ControllerNode) -> None:
    node.join(1, 2)
    let_pass(node, NOW + 1_000)
    woken = NOW + 60_000
    node.on_deadline(woken)
    assert [node.image.brokers[each].fenced for each in (1, 2)] == [False, False]
    let_pass(node, woken + 5_000)
    node.beat(1)
    let_pass(node, woken + 9_000)
    assert [node.image.brokers[each].fenced for each in (1, 2)] == [False, True]


def test_a_controller_that_was_without_brokers_has_not_stood_still(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = ControllerNode(tmp_path, metadata_max_idle_interval_ms="0")
    let_pass(node, NOW + 60_000)
    node.join(1, 2)
    let_pass(node, NOW + 61_000)
    assert "was not running" not in caplog.text


def test_a_controller_without_brokers_has_nobody_to_give_time_to(
    node: ControllerNode, caplog: pytest.LogCaptureFixture
) -> None:
    node.on_deadline(NOW + 60_000)
    assert "was not running" not in caplog.text


@pytest.mark.parametrize("idle", ["0", "500", "60000"])
def test_a_freeze_that_is_hardly_longer_than_a_session_fences_nobody(tmp_path: Path, idle: str) -> None:
    """A freeze hardly longer than a session fences nobody, however seldom the controller writes something."""
    node = ControllerNode(tmp_path, metadata_max_idle_interval_ms=idle)
    node.join(1, 2)
    let_pass(node, NOW + 1_000)
    node.beat(1)
    node.beat(2)
    let_pass(node, NOW + 1_500)
    node.on_deadline(NOW + 10_100)
    assert [node.image.brokers[each].fenced for each in (1, 2)] == [False, False]


def with_partitions(
    node: ControllerNode, count: int, *, join: tuple[int, ...] = (1, 2), replicas: tuple[int, ...] = (2, 1)
) -> None:
    """Make a topic whose partitions are all led by node 2."""
    node.join(*join)
    assigned = [CreatableReplicaAssignment(number, list(replicas)) for number in range(count)]
    assert node.ask(CreateTopicsRequest([CreatableTopic("t", -1, -1, assigned, [])])).topics[0].error_code == 0


def led_by_2(node: ControllerNode) -> int:
    return sum(each.leader == 2 for each in node.image.topics["t"].partitions.values())


def test_who_leads_much_is_fenced_in_portions(node: ControllerNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "PORTION", 2)
    with_partitions(node, 4)
    let_pass(node, NOW + 5_000)
    node.beat(1)
    seen = []
    node.clock.set(NOW + 9_000)
    while (due := node.next_deadline()) is not None and due <= node.clock.now:
        node.on_deadline(node.clock.now)
        seen.append((led_by_2(node), node.image.brokers[2].fenced))
    assert seen == [(2, False), (0, False), (0, True)]


def test_who_is_heard_of_between_two_portions_is_not_fenced(
    node: ControllerNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeats, "PORTION", 2)
    with_partitions(node, 5)
    let_pass(node, NOW + 5_000)
    node.beat(1)
    node.on_deadline(NOW + 9_000)
    node.beat(2)
    let_pass(node, NOW + 9_000)
    assert (led_by_2(node), node.image.brokers[2].fenced) == (3, False)


def seen_in_turns(node: ControllerNode, look: Callable[[], Any]) -> list[Any]:
    """Return what `look` shows now, and after each turn as long as more work is due at once."""
    seen = [look()]
    while (due := node.next_deadline()) is not None and due <= node.clock.now:
        node.on_deadline(node.clock.now)
        seen.append(look())
    return seen


def test_who_wants_to_be_fenced_is_in_portions(node: ControllerNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "PORTION", 2)
    with_partitions(node, 4)
    assert node.beat(2, want_fence=True).is_fenced is False
    seen = seen_in_turns(node, lambda: (led_by_2(node), node.image.brokers[2].fenced))
    assert seen == [(2, False), (0, False), (0, True)]
    assert node.beat(2, want_fence=True).is_fenced is True


def test_who_does_not_want_to_be_fenced_any_more_is_not(node: ControllerNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "PORTION", 2)
    with_partitions(node, 5)
    node.beat(2, want_fence=True)
    node.beat(2)
    assert seen_in_turns(node, lambda: led_by_2(node)) == [3]
    assert not node.image.brokers[2].fenced


def lose_a_directory(node: ControllerNode) -> None:
    """Let broker 2 lose the directory in which it has its replicas of five partitions."""
    node.register(2, log_dirs=[directory(2), b"e" * 16])
    node.beat(2)
    with_partitions(node, 5, join=(1,))
    topic = node.image.topics["t"]
    places = [PartitionChangeRecord(number, topic.id, directories=[directory(2), directory(1)]) for number in range(5)]
    node.commit_metadata([ApiMessageAndVersion(each, 2) for each in places])
    node.beat(2, offline_log_dirs=[directory(2)])


def test_what_was_in_a_lost_directory_moves_in_portions(node: ControllerNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "PORTION", 2)
    lose_a_directory(node)
    node.beat(2, offline_log_dirs=[directory(2)])  # each heartbeat names the offline directories
    assert seen_in_turns(node, lambda: led_by_2(node)) == [3, 1, 0]
    assert node.image.brokers[2].log_dirs == (b"e" * 16,)


def test_nobody_is_elected_between_the_portions_of_its_fencing(
    node: ControllerNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeats, "PORTION", 2)
    with_partitions(node, 4, replicas=(2,))
    node.beat(2, want_fence=True)
    allow_unclean_leaders(node)
    for _ in range(10):
        node.on_deadline(node.clock.now)
    assert (led_by_2(node), node.image.brokers[2].fenced) == (0, True)
    assert {each.leader_recovery_state for each in node.image.topics["t"].partitions.values()} == {0}


def test_who_comes_back_leads_again_in_portions(node: ControllerNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "PORTION", 2)
    with_partitions(node, 5, replicas=(2,))
    node.beat(2, want_fence=True)
    seen_in_turns(node, lambda: None)
    assert led_by_2(node) == 0
    assert node.beat(2).is_fenced is False
    node.beat(2)  # an ordinary one does not end it
    assert seen_in_turns(node, lambda: led_by_2(node)) == [2, 4, 5]


def restarted(node: ControllerNode, path: Path, **config: str) -> ControllerNode:
    """Return the next controller of the directory, after all work that was due at once."""
    node.stop(node.clock.now)
    return ControllerNode(path, **config)


def test_portions_outlive_their_controller_of_who_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "PORTION", 2)
    node = ControllerNode(tmp_path)
    with_partitions(node, 5, replicas=(2,))
    node.beat(2, want_fence=True)
    seen_in_turns(node, lambda: None)
    node.beat(2)
    assert led_by_2(node) == 2
    assert led_by_2(restarted(node, tmp_path)) == 5


def test_portions_outlive_their_controller_of_a_lost_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "PORTION", 2)
    node = ControllerNode(tmp_path)
    lose_a_directory(node)
    assert led_by_2(node) == 3
    again = restarted(node, tmp_path)
    assert {each.isr for each in again.image.topics["t"].partitions.values()} == {(1,)}
    assert led_by_2(again) == 0


def test_a_controller_that_is_to_elect_unclean_leaders_does_so_at_its_start(tmp_path: Path) -> None:
    node = ControllerNode(tmp_path)
    node.join(1, 2)
    assigned = CreatableTopic("t", -1, -1, [CreatableReplicaAssignment(0, [1, 2])], [])
    assert node.ask(CreateTopicsRequest([assigned])).topics[0].error_code == 0
    for broker_id in (1, 2):
        node.beat(broker_id, want_fence=True)
    node.beat(1)
    assert partition(node).leader == -1
    again = restarted(node, tmp_path, unclean_leader_election_enable="true")
    assert (partition(again).leader, partition(again).leader_recovery_state) == (1, 1)


def test_a_portion_that_the_disk_refuses_is_written_in_a_moment(
    node: ControllerNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeats, "PORTION", 2)
    with_partitions(node, 5, replicas=(2,))
    node.beat(2, want_fence=True)
    seen_in_turns(node, lambda: None)
    node.beat(2)

    def refuse(records: object) -> None:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "no room")

    with monkeypatch.context() as full:
        full.setattr(node.metadata, "commit", refuse)
        assert seen_in_turns(node, lambda: led_by_2(node)) == [2, 2], "it is not tried again at once"
    due = node.next_deadline()
    assert due is not None
    assert due <= node.clock.now + 1_000
    node.on_deadline(node.clock.now + 1_000)
    assert seen_in_turns(node, lambda: led_by_2(node)) == [4, 5]


def test_another_incarnation_has_nothing_left_to_do(node: ControllerNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "PORTION", 2)
    with_partitions(node, 5, replicas=(2,))
    node.beat(2, want_fence=True)
    seen_in_turns(node, lambda: None)
    node.beat(2)
    node.clock.set(NOW + 60_000)
    epoch = node.image.brokers[2].epoch
    answers = [node.register(2, 2, previous=epoch).error_code for _ in range(2)]
    assert answers == [ErrorCode.DUPLICATE_BROKER_REGISTRATION, 0]
    node.on_deadline(node.clock.now)
    assert led_by_2(node) == 0


def test_who_leaves_hands_over_in_portions(node: ControllerNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "PORTION", 2)
    with_partitions(node, 5)
    seen = []
    while not node.image.brokers[2].fenced:
        may_end = node.beat(2, want_shut_down=True).should_shut_down
        seen.append((led_by_2(node), may_end))
        node.beat(1)
    assert seen == [(4, False), (2, False), (0, False), (0, True)]


@pytest.mark.parametrize(("enabled", "leader"), [("true", 1), ("false", 2)])
def test_leadership_goes_back_to_first_replicas_from_time_to_time(tmp_path: Path, enabled: str, leader: int) -> None:
    node = ControllerNode(
        tmp_path,
        leader_imbalance_check_interval_seconds="60",
        broker_session_timeout_ms="600000",
        auto_leader_rebalance_enable=enabled,
    )
    node.join(1, 2)
    assigned = CreatableTopic("t", -1, -1, [CreatableReplicaAssignment(0, [1, 2])], [])
    assert node.ask(CreateTopicsRequest([assigned])).topics[0].error_code == 0
    leads(node, 2)
    let_pass(node, NOW + 59_999)
    assert partition(node).leader == 2
    let_pass(node, NOW + 60_000)
    assert partition(node).leader == leader


def leads(node: ControllerNode, leader: int) -> None:
    record = PartitionChangeRecord(0, node.image.topics["t"].id, leader=leader)
    node.commit_metadata([ApiMessageAndVersion(record, 2)])


def partition(node: ControllerNode) -> Any:
    return node.image.topics["t"].partitions[0]
