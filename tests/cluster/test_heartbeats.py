"""Sessions of brokers with their controller, and heartbeats from registered to serving to shut down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.cluster.heartbeats import Sessions
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from pykafka_broker.protocol.stored.partition_change_record import PartitionChangeRecord
from tests.broker.controller_node import NOW, ControllerNode, directory
from tests.cluster.support import Cluster

TIMEOUT = 9_000
SECOND_DIRECTORY = b"e" * 16


def sessions_of(cluster: Cluster, now: int = 0) -> Sessions:
    sessions = Sessions(TIMEOUT, node_id=1)
    sessions.follow(cluster.image, list(cluster.image.brokers), now)
    return sessions


def test_a_new_controller_gives_everybody_a_session() -> None:
    sessions = sessions_of(Cluster(brokers=3), now=100)
    assert sessions.next_deadline() == 100 + TIMEOUT
    assert sessions.expired(100 + TIMEOUT - 1) == []
    assert sessions.expired(100 + TIMEOUT) == [2, 3]  # 1 is the controller's own node


def test_whoever_is_heard_of_has_its_time_anew() -> None:
    sessions = sessions_of(Cluster(brokers=3))
    sessions.contact(2, 12, 0, 5_000)
    assert sessions.expired(TIMEOUT) == [3]
    assert sessions.next_deadline() == TIMEOUT
    sessions.postpone_fencing(3, TIMEOUT)
    assert sessions.next_deadline() == 5_000 + TIMEOUT


def test_all_may_have_their_time_anew() -> None:
    sessions = sessions_of(Cluster(brokers=3))
    sessions.reset_all(5_000)
    assert (sessions.expired(TIMEOUT), sessions.next_deadline()) == ([], 5_000 + TIMEOUT)


def test_a_fenced_broker_is_not_watched_but_keeps_its_id_while_it_is_heard_of() -> None:
    cluster = Cluster(brokers=2)
    sessions = sessions_of(cluster)
    cluster.image.brokers[2].fenced = True
    sessions.follow(cluster.image, [2], 10)
    assert sessions.next_deadline() is None
    assert sessions.is_running(2, 12, TIMEOUT - 1)
    assert not sessions.is_running(2, 12, TIMEOUT)
    assert not sessions.is_running(2, 11, 10)


def test_one_that_is_unregistered_is_forgotten() -> None:
    cluster = Cluster(brokers=2)
    sessions = sessions_of(cluster)
    del cluster.image.brokers[2]
    sessions.follow(cluster.image, [2], 10)
    assert sessions.next_deadline() is None
    assert not sessions.is_running(2, 12, 10)


def test_all_that_serve_must_have_seen_an_offset() -> None:
    cluster = Cluster(brokers=4)
    sessions = sessions_of(cluster)
    cluster.image.brokers[4].in_controlled_shutdown = True
    assert not sessions.all_have_seen(cluster.image, 20)
    sessions.contact(2, 12, 20, 1)
    sessions.contact(3, 13, 19, 1)
    assert not sessions.all_have_seen(cluster.image, 20)
    sessions.contact(3, 13, 20, 2)
    assert sessions.all_have_seen(cluster.image, 20)


@pytest.fixture
def node(tmp_path: Path) -> ControllerNode:
    return ControllerNode(tmp_path)


def create(node: ControllerNode, topic: str, *replicas: int) -> None:
    assigned = CreatableTopic(topic, -1, -1, [CreatableReplicaAssignment(0, list(replicas))], [])
    assert node.ask(CreateTopicsRequest([assigned])).topics[0].error_code == 0


def of(answer: Any) -> tuple[bool, bool, bool]:
    assert answer.error_code == 0
    return answer.is_caught_up, answer.is_fenced, answer.should_shut_down


def changes(node: ControllerNode, since: int) -> list[tuple[str, dict[str, Any]]]:
    """Return kind and set fields of each metadata record written after the first `since` records."""
    found = []
    for record in node.written[since:]:
        values = {
            key: value
            for key in ("fenced", "in_controlled_shutdown", "log_dirs", "cordoned_log_dirs", "isr", "leader")
            if (value := getattr(record, key, None)) not in (None, 0, [], -2)
        }
        found.append((type(record).__name__, values))
    return found


def test_from_registered_to_serving(node: ControllerNode) -> None:
    epoch = node.register(1).broker_epoch
    assert of(node.beat(1, current_metadata_offset=epoch - 1, want_fence=True)) == (False, True, False)
    assert of(node.beat(1, current_metadata_offset=epoch - 1)) == (False, True, False)  # it can't serve yet
    assert of(node.beat(1, current_metadata_offset=epoch, want_fence=True)) == (True, True, False)
    written = len(node.written)
    assert of(node.beat(1, current_metadata_offset=epoch, cordoned_log_dirs=[])) == (True, False, False)
    assert changes(node, written) == [
        ("BrokerRegistrationChangeRecord", {}),  # cordoned: none, where nothing was known
        ("BrokerRegistrationChangeRecord", {"fenced": -1}),
    ]
    assert node.image.brokers[1].cordoned_log_dirs == ()
    written = len(node.written)
    assert of(node.beat(1, cordoned_log_dirs=[])) == (True, False, False)
    assert len(node.written) == written


def test_strangers_and_old_epochs_are_told(node: ControllerNode) -> None:
    node.join(1)
    for broker_id, epoch in ((1, node.image.brokers[1].epoch - 1), (2, 5)):
        answer = node.beat(broker_id, epoch)
        assert (answer.error_code, answer.is_fenced) == (ErrorCode.STALE_BROKER_EPOCH, True)


def test_a_silent_broker_is_fenced_with_all_that_follows_in_one_batch(node: ControllerNode) -> None:
    node.join(1, 2)
    create(node, "t", 1, 2)
    node.on_deadline(NOW + 5_000)
    node.beat(2)
    written = len(node.written)
    node.on_deadline(NOW + 8_999)
    assert not node.image.brokers[1].fenced
    node.on_deadline(NOW + 9_000)
    assert changes(node, written) == [
        ("PartitionChangeRecord", {"isr": [2], "leader": 2}),
        ("BrokerRegistrationChangeRecord", {"fenced": 1}),
    ]
    assert node.image.brokers[1].fenced
    assert node.next_deadline() is not None
    node.on_deadline(NOW + 13_999)
    assert not node.image.brokers[2].fenced


def test_one_that_comes_back_leads_what_nobody_could(node: ControllerNode) -> None:
    node.join(1, 2)
    create(node, "t", 1, 2)
    node.on_deadline(NOW + 5_000)
    node.on_deadline(NOW + 9_000)
    partition = node.image.topics["t"].partitions[0]
    assert (partition.leader, partition.isr, partition.elr) == (-1, (), (2,))
    written = len(node.written)
    assert of(node.beat(2)) == (True, False, False)
    assert [kind for kind, _ in changes(node, written)] == ["BrokerRegistrationChangeRecord", "PartitionChangeRecord"]
    assert (node.image.topics["t"].partitions[0].leader, node.image.topics["t"].partitions[0].isr) == (2, (2,))


def test_a_controlled_shutdown_waits_until_all_others_know(node: ControllerNode) -> None:
    node.join(1, 2, 3)
    create(node, "t", 1, 2)
    before = node.metadata.applied_offset
    written = len(node.written)
    assert of(node.beat(1, want_shut_down=True)) == (True, False, False)
    assert changes(node, written) == [
        ("BrokerRegistrationChangeRecord", {"in_controlled_shutdown": 1}),
        ("PartitionChangeRecord", {"isr": [2], "leader": 2}),
    ]
    node.beat(2)
    node.beat(3, current_metadata_offset=before)
    assert of(node.beat(1, want_shut_down=True)) == (True, False, False)
    node.beat(3)
    written = len(node.written)
    assert of(node.beat(1, want_shut_down=True)) == (True, True, True)
    assert changes(node, written) == [("BrokerRegistrationChangeRecord", {"fenced": 1})]
    assert of(node.beat(1, want_shut_down=True)) == (True, True, True)


def test_a_shutdown_whose_records_were_refused_waits_for_those_that_follow(
    node: ControllerNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> None:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)

    node.join(1, 2, 3)
    create(node, "t", 1, 2)
    with monkeypatch.context() as full:
        full.setattr(node.metadata.log, "append", refuse)
        assert node.beat(1, want_shut_down=True).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    create(node, "u", 2, 3)  # its records take the offsets of the refused ones
    before = node.metadata.applied_offset
    assert of(node.beat(1, want_shut_down=True)) == (True, False, False)
    node.beat(2)
    node.beat(3, current_metadata_offset=before)
    assert of(node.beat(1, want_shut_down=True)) == (True, False, False)
    node.beat(3)
    assert of(node.beat(1, want_shut_down=True)) == (True, True, True)


def test_one_that_never_served_may_end_at_once(node: ControllerNode) -> None:
    node.register(1)
    assert of(node.beat(1, want_shut_down=True, want_fence=True)) == (True, True, True)


def test_the_last_broker_may_end_though_nobody_can_lead(node: ControllerNode) -> None:
    node.join(1)
    create(node, "t", 1)
    assert of(node.beat(1, want_shut_down=True)) == (True, False, False)
    assert node.image.topics["t"].partitions[0].leader == -1
    assert of(node.beat(1, want_shut_down=True)) == (True, True, True)


def test_one_that_wants_to_be_fenced_is(node: ControllerNode) -> None:
    node.join(1, 2)
    create(node, "t", 1, 2)
    assert of(node.beat(1, want_fence=True)) == (True, True, False)
    assert node.image.topics["t"].partitions[0].leader == 2
    assert of(node.beat(2, want_fence=True, want_shut_down=True)) == (True, True, True)


def test_a_lost_directory_leaves_the_registration_and_its_leaders_move(node: ControllerNode) -> None:
    node.register(1, log_dirs=[directory(1), SECOND_DIRECTORY])
    node.beat(1)
    node.join(2)
    create(node, "t", 1, 2)
    create(node, "u", 1, 2)
    for topic, place in (("t", directory(1)), ("u", SECOND_DIRECTORY)):
        change = PartitionChangeRecord(0, node.image.topics[topic].id, directories=[place, directory(2)])
        node.commit_metadata([ApiMessageAndVersion(change, 2)])
    written = len(node.written)
    lost = [SECOND_DIRECTORY, b"x" * 16]
    assert of(node.beat(1, offline_log_dirs=lost)) == (True, False, False)
    assert changes(node, written) == [
        ("BrokerRegistrationChangeRecord", {"log_dirs": [directory(1)]}),
        ("PartitionChangeRecord", {"isr": [2], "leader": 2}),
    ]
    assert [node.image.topics[topic].partitions[0].leader for topic in "tu"] == [1, 2]
    written = len(node.written)
    node.beat(1, offline_log_dirs=lost)  # each heartbeat names the offline directories
    assert len(node.written) == written


def test_a_broker_without_any_directory_serves_no_more(node: ControllerNode) -> None:
    node.join(1, 2)
    create(node, "t", 1, 2)
    assert of(node.beat(1, offline_log_dirs=[directory(1)])) == (True, True, False)
    assert node.image.topics["t"].partitions[0].leader == 2
    assert of(node.beat(1, offline_log_dirs=[directory(1)])) == (True, True, False)


def test_the_version_of_a_change_is_the_lowest_that_can_carry_it(node: ControllerNode) -> None:
    node.register(1, log_dirs=[directory(1), SECOND_DIRECTORY])
    node.beat(1, cordoned_log_dirs=[SECOND_DIRECTORY])
    assert node.image.brokers[1].cordoned_log_dirs == (SECOND_DIRECTORY,)
    node.beat(1, offline_log_dirs=[SECOND_DIRECTORY])
    assert node.image.brokers[1].log_dirs == (directory(1),)
