"""A node that is a broker and the controller of others at once comes and leaves as every broker does."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from pykafka_broker.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from pykafka_broker.protocol.runtime import EncodeError
from pykafka_broker.protocol.stored.feature_level_record import FeatureLevelRecord
from pykafka_broker.protocol.stored.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from tests.broker.controller_node import NODE, NOW, ControllerNode


@pytest.fixture
def node(tmp_path: Path) -> ControllerNode:
    return ControllerNode(tmp_path, roles="broker,controller")


def leaving(node: ControllerNode) -> list[bool]:
    left: list[bool] = []
    node.whole.leave(lambda: left.append(True))
    node.on_deadline(node.clock.now)
    return left


def led_here(node: ControllerNode) -> None:
    assigned = CreatableTopic("t", -1, -1, [CreatableReplicaAssignment(0, [NODE, 1])], [])
    assert node.ask(CreateTopicsRequest([assigned])).topics[0].error_code == 0


def test_it_registers_fenced_and_is_unfenced_once_it_serves(node: ControllerNode) -> None:
    registered = next(record for record in node.written if type(record).__name__ == "RegisterBrokerRecord")
    unfenced = node.written[-1]
    assert registered.fenced
    assert (type(unfenced).__name__, unfenced.fenced) == ("BrokerRegistrationChangeRecord", -1)
    assert not node.image.brokers[NODE].fenced


def test_a_directory_that_fails_is_told_and_others_lead_what_it_had(tmp_path: Path) -> None:
    node = ControllerNode(tmp_path / "a", roles="broker,controller", log_dirs=f"{tmp_path}/a,{tmp_path}/b")
    node.join(1)
    assigned = [CreatableReplicaAssignment(index, [NODE, 1]) for index in range(4)]
    assert node.ask(CreateTopicsRequest([CreatableTopic("t", -1, -1, assigned, [])])).topics[0].error_code == 0
    lost = node.logs.directories[1]
    there = [each for each in node.image.topics["t"].partitions.values() if each.directory_of(NODE) == lost.id]
    assert there, "each replica's directory is known at once"
    node.logs.take_offline(lost, OSError(5, "broken"))
    node.on_deadline(node.clock.now)
    assert lost.id not in node.image.brokers[NODE].log_dirs
    for index in (each.partition for each in there):
        assert node.image.topics["t"].partitions[index].leader == 1


def test_it_tells_its_directories_once_the_metadata_has_room_for_them(node: ControllerNode) -> None:
    def raised_to(level: int) -> None:
        node.metadata.commit([ApiMessageAndVersion(FeatureLevelRecord("metadata.version", level), 0)])
        node.on_deadline(node.clock.now)

    known = node.image.brokers[NODE]
    (directory,) = known.log_dirs
    raised_to(14)
    record = RegisterBrokerRecord(NODE, False, known.incarnation_id, known.epoch, fenced=False)
    record.end_points = [BrokerEndpoint("PLAINTEXT", "127.0.0.1", 9092, 0)]
    node.metadata.commit([ApiMessageAndVersion(record, 2)])
    raised_to(16)
    assert node.image.brokers[NODE].log_dirs == ()
    raised_to(17)
    broker = node.image.brokers[NODE]
    assert (broker.log_dirs, broker.epoch, broker.fenced) == ((directory,), known.epoch, False)


def test_heartbeats_before_4_3_name_no_cordoned_directories(node: ControllerNode) -> None:
    startup = node.whole.startup
    assert startup is not None
    for level, cordoned in ((29, None), (30, [])):
        node.metadata.commit([ApiMessageAndVersion(FeatureLevelRecord("metadata.version", level), 0)])
        directories = startup.directories()
        assert directories.cordoned == cordoned
    version_of_4_2 = 1  # has no such field
    assert BrokerHeartbeatRequest(NODE, cordoned_log_dirs=None).encode(version_of_4_2)
    with pytest.raises(EncodeError):
        BrokerHeartbeatRequest(NODE, cordoned_log_dirs=[]).encode(version_of_4_2)


def test_others_lead_and_know_it_before_it_goes(node: ControllerNode) -> None:
    node.join(1)
    led_here(node)
    before = node.metadata.applied_offset
    left = leaving(node)
    partition = node.image.topics["t"].partitions[0]
    assert (partition.leader, partition.isr) == (1, (1,))
    assert node.image.brokers[NODE].in_controlled_shutdown
    node.on_deadline(NOW + 1_000)
    assert not left
    node.beat(1, current_metadata_offset=before)
    node.on_deadline(NOW + 1_100)
    assert not left, "it has not heard of that"
    node.beat(1)
    node.on_deadline(NOW + 1_200)
    node.on_deadline(NOW + 1_300)
    assert left == [True]


def test_it_does_not_wait_for_ever(node: ControllerNode) -> None:
    node.join(1)
    led_here(node)
    node.beat(1, current_metadata_offset=0)
    left = leaving(node)
    for passed in (4_000, 8_000):
        node.beat(1, current_metadata_offset=0)
        node.on_deadline(NOW + passed)
    assert not left
    node.on_deadline(NOW + 10_100)
    assert left == [True]


def test_where_nobody_else_is_nothing_changes(node: ControllerNode) -> None:
    written = len(node.written)
    left = leaving(node)
    node.on_deadline(NOW)
    assert (left, len(node.written)) == ([True], written)


def test_a_broker_that_comes_back_serves_as_before(node: ControllerNode, tmp_path: Path) -> None:
    node.join(1)
    led_here(node)
    leaving(node)
    node.whole.stop()
    again = ControllerNode(tmp_path, roles="broker,controller")
    assert not again.image.brokers[NODE].in_controlled_shutdown
    assert not again.image.brokers[NODE].fenced


def test_without_controlled_shutdown_it_just_goes(tmp_path: Path) -> None:
    node = ControllerNode(tmp_path, roles="broker,controller", controlled_shutdown_enable="false")
    node.join(1)
    led_here(node)
    assert leaving(node) == [True]
    assert node.image.topics["t"].partitions[0].leader == NODE
