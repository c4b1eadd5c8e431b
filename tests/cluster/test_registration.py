"""Brokers register with a controller, lose what an earlier incarnation may have lost, and get producer ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.cluster import heartbeats
from pykafka_broker.cluster.features import SUPPORTED
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.cluster.registration import allocate_producer_ids, unregister_controller
from pykafka_broker.errors import ApiError
from pykafka_broker.log.checkpoints import UNASSIGNED
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from pykafka_broker.protocol.messages.broker_registration_request import Feature, Listener
from pykafka_broker.protocol.messages.controller_registration_request import ControllerRegistrationRequest
from pykafka_broker.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from pykafka_broker.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from pykafka_broker.protocol.messages.unregister_controller_request import UnregisterControllerRequest
from pykafka_broker.protocol.stored.feature_level_record import FeatureLevelRecord
from tests.broker.controller_node import NODE, NOW, ControllerNode, directory
from tests.cluster.parts import cluster_of

TIMEOUT = 9_000


@pytest.fixture
def node(tmp_path: Path) -> ControllerNode:
    return ControllerNode(tmp_path)


def create(node: ControllerNode, topic: str, *replicas: int) -> None:
    assigned = CreatableTopic(topic, -1, -1, [CreatableReplicaAssignment(0, list(replicas))], [])
    assert node.ask(CreateTopicsRequest([assigned])).topics[0].error_code == 0


def test_a_broker_is_registered_fenced_and_its_epoch_is_the_offset_of_that(node: ControllerNode) -> None:
    answer = node.register(1, rack="a")
    assert (answer.error_code, answer.broker_epoch) == (0, node.metadata.applied_offset)
    broker = node.image.brokers[1]
    assert (broker.epoch, broker.fenced, broker.rack, broker.log_dirs) == (
        answer.broker_epoch,
        True,
        "a",
        (directory(1),),
    )
    assert broker.endpoints == [("PLAINTEXT", "127.0.0.1", 9001, 0)]
    assert broker.features["metadata.version"] == (7, 33)


ALL = [Feature(name, *levels) for name, levels in SUPPORTED.items()]
NARROW = [Feature("metadata.version", 7, 29)]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"incarnation": 2, "broker_id": 1}, ErrorCode.DUPLICATE_BROKER_REGISTRATION),
        ({"log_dirs": []}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [directory(1)]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [directory(2), directory(2)]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [UNASSIGNED]}, ErrorCode.INVALID_REGISTRATION),
        ({"features": []}, ErrorCode.INVALID_REGISTRATION),
        ({"features": NARROW}, ErrorCode.UNSUPPORTED_VERSION),
        ({"features": [Feature("metadata.version", 7, 30)]}, ErrorCode.UNSUPPORTED_VERSION),
        ({"features": [*ALL, Feature("unheard.of", 1, 2)]}, ErrorCode.UNSUPPORTED_VERSION),
        ({"features": [*ALL, Feature("unheard.of", 0, 2)]}, ErrorCode.NONE),
        ({"is_migrating_zk_broker": True}, ErrorCode.BROKER_ID_NOT_REGISTERED),
        ({"listeners": [Listener("", "h", 1, 0)]}, ErrorCode.INVALID_REGISTRATION),
        ({"listeners": [Listener("A", "h", 1, 0), Listener("A", "h", 2, 0)]}, ErrorCode.INVALID_REGISTRATION),
        ({"listeners": [Listener("A", "h", 0, 0)]}, ErrorCode.INVALID_REGISTRATION),
        ({"listeners": [Listener("A", "h", 1, 4)]}, ErrorCode.INVALID_REGISTRATION),
        ({"listeners": []}, ErrorCode.NONE),
    ],
)
def test_who_is_not_let_in(node: ControllerNode, fields: dict[str, Any], error: ErrorCode) -> None:
    node.join(1)
    answer = node.register(fields.pop("broker_id", 2), fields.pop("incarnation", 1), **fields)
    assert answer.error_code == error
    assert (2 in node.image.brokers) == (error == ErrorCode.NONE)


def test_the_same_incarnation_again_keeps_its_epoch_and_state(node: ControllerNode) -> None:
    first = node.register(1).broker_epoch
    assert node.register(1).broker_epoch == first
    assert node.image.brokers[1].fenced
    node.beat(1, cordoned_log_dirs=[directory(1)])
    assert node.register(1, rack="r").broker_epoch == first
    broker = node.image.brokers[1]
    assert (broker.fenced, broker.rack, broker.cordoned_log_dirs) == (False, "r", (directory(1),))
    assert node.beat(1).is_fenced is False


def test_the_same_incarnation_tells_its_directories_where_there_was_no_room_before(node: ControllerNode) -> None:
    node.metadata.commit([ApiMessageAndVersion(FeatureLevelRecord("metadata.version", 14), 0)])
    node.join(1, 2)
    create(node, "t", 1, 2)
    assert node.image.brokers[1].log_dirs == ()
    node.metadata.commit([ApiMessageAndVersion(FeatureLevelRecord("metadata.version", 25), 0)])
    lost, kept = directory(1), b"k" * 16
    assert node.register(1, log_dirs=[lost, kept]).error_code == ErrorCode.NONE
    assert node.image.brokers[1].log_dirs == (lost, kept)
    assert node.beat(1, offline_log_dirs=[lost]).is_fenced is False
    assert node.image.brokers[1].log_dirs == (kept,)


def test_a_session_begins_with_the_first_heartbeat(node: ControllerNode) -> None:
    first = node.register(1).broker_epoch
    second = node.register(1, 2)
    assert second.error_code == 0
    assert second.broker_epoch > first
    node.beat(1, want_fence=True)
    assert node.register(1, 3).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_another_incarnation_waits_for_the_end_of_the_session(node: ControllerNode) -> None:
    node.join(1)
    node.on_deadline(NOW + TIMEOUT - 1)
    assert node.register(1, 2).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    node.on_deadline(NOW + TIMEOUT)
    answer = node.register(1, 2)
    assert answer.error_code == 0
    assert node.image.brokers[1].epoch == answer.broker_epoch
    assert node.image.brokers[1].fenced


def test_a_new_controller_knows_no_other_session_than_its_own_start(tmp_path: Path) -> None:
    node = ControllerNode(tmp_path)
    node.join(1)
    node.stop(NOW)
    again = ControllerNode(tmp_path)
    assert again.register(1, 2).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert again.beat(1).is_fenced is False  # its epoch is as good as before


def test_who_may_have_lost_records_leaves_every_isr_before_it_comes_back(node: ControllerNode) -> None:
    node.join(1, 2)
    create(node, "t", 1, 2)
    epoch = node.image.brokers[1].epoch
    node.beat(2)
    node.clock.set(NOW + TIMEOUT)  # nobody has noticed yet that 1 is gone
    answer = node.register(1, 2)
    partition = node.image.topics["t"].partitions[0]
    assert (partition.isr, partition.leader) == ((2,), 2)
    assert answer.broker_epoch == node.metadata.applied_offset > epoch


@pytest.mark.parametrize("cleanly", [False, True])
def test_who_was_in_many_isrs_leaves_them_in_portions(
    node: ControllerNode, monkeypatch: pytest.MonkeyPatch, cleanly: bool
) -> None:
    monkeypatch.setattr(heartbeats, "PORTION", 2)
    node.join(1, 2)
    assigned = [CreatableReplicaAssignment(number, [2, 1]) for number in range(5)]
    assert node.ask(CreateTopicsRequest([CreatableTopic("t", -1, -1, assigned, [])])).topics[0].error_code == 0
    partitions = node.image.topics["t"].partitions
    epoch = node.image.brokers[2].epoch
    node.clock.set(NOW + 9_000)  # its session is over, and it is not fenced yet
    seen = []
    while (answer := node.register(2, 2, previous=epoch if cleanly else -1)).error_code:
        assert answer.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
        seen.append(sum(2 in each.isr for each in partitions.values()))
        node.beat(1)
    assert seen == [3, 1]
    node.on_deadline(node.clock.now)
    assert not any(2 in each.isr for each in partitions.values())
    assert node.image.brokers[2].epoch == answer.broker_epoch > epoch


def test_who_was_shut_down_cleanly_stays_eligible(node: ControllerNode) -> None:
    node.join(1)
    create(node, "t", 1)
    for passed in (TIMEOUT // 2, TIMEOUT):
        node.on_deadline(NOW + passed)
    partition = node.image.topics["t"].partitions[0]
    assert (partition.isr, partition.elr, partition.leader) == ((), (1,), -1)
    node.register(1, 2, previous=node.image.brokers[1].epoch)
    assert node.image.topics["t"].partitions[0].elr == (1,)
    node.on_deadline(NOW + 3 * TIMEOUT)
    node.register(1, 3)  # and now it says nothing of its end
    assert node.image.topics["t"].partitions[0].elr == ()
    assert node.image.topics["t"].partitions[0].last_known_elr == (1,)


def test_a_broker_is_unregistered_and_comes_back_as_a_new_one(node: ControllerNode) -> None:
    node.join(1, 2)
    create(node, "t", 1, 2)
    assert node.ask(UnregisterBrokerRequest(1)).error_code == 0
    assert 1 not in node.image.brokers
    assert node.image.topics["t"].partitions[0].leader == 2
    assert node.beat(1, 12).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert node.register(1, 2).error_code == 0


def test_one_that_was_unregistered_is_not_eligible_when_it_comes_back(node: ControllerNode) -> None:
    node.join(1)
    create(node, "t", 1)
    assert node.ask(UnregisterBrokerRequest(1)).error_code == 0
    assert node.image.topics["t"].partitions[0].elr == (1,)
    node.register(1, 2)  # maybe another machine of that name
    partition = node.image.topics["t"].partitions[0]
    assert (partition.elr, partition.last_known_elr) == ((), (1,))


def test_nobody_unregisters_a_broker_that_is_not_there(node: ControllerNode) -> None:
    answer = node.ask(UnregisterBrokerRequest(5))
    assert answer.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert answer.error_message == "Broker ID 5 is not currently registered"


def test_controllers_are_known(node: ControllerNode) -> None:
    assert node.ask(ControllerRegistrationRequest(7, b"i" * 16)).error_code == 0
    assert set(node.image.controllers) == {7, NODE}
    own = node.image.controllers[NODE]
    assert [(each.name, each.host, each.port) for each in own.end_points] == [("CONTROLLER", "127.0.0.1", 9093)]


def test_no_two_brokers_get_the_same_ids() -> None:
    cluster = cluster_of()
    blocks = []
    for broker in (2, 3, 2):
        decision = allocate_producer_ids(cluster.controller, AllocateProducerIdsRequest(broker, 10 + broker))
        cluster.apply(decision.records)
        blocks.append((decision.reply.producer_id_start, decision.reply.producer_id_len))
        assert (decision.records[0].message.broker_id, decision.records[0].message.broker_epoch) == (
            broker,
            10 + broker,
        )
    assert blocks == [(0, 1000), (1000, 1000), (2000, 1000)]
    assert cluster.image.next_producer_id == 3000


def test_a_broker_of_another_time_gets_none() -> None:
    cluster = cluster_of()
    for broker, epoch in ((2, 11), (9, 19)):
        decision = allocate_producer_ids(cluster.controller, AllocateProducerIdsRequest(broker, epoch))
        assert (decision.reply.error_code, decision.records) == (ErrorCode.STALE_BROKER_EPOCH, [])


def test_a_controller_is_unregistered_from_metadata_version_33_on(node: ControllerNode) -> None:
    controller, metadata = node.metadata.controller, node.metadata
    metadata.commit([ApiMessageAndVersion(FeatureLevelRecord("metadata.version", 32), 0)])
    assert node.ask(ControllerRegistrationRequest(7, b"i" * 16)).error_code == 0

    def refusal(controller_id: int) -> str | None:
        with pytest.raises(ApiError) as refused:
            unregister_controller(controller, UnregisterControllerRequest(controller_id))
        return refused.value.message

    too_old = "The current MetadataVersion is too old to support controller unregistration."
    itself = "Controller cannot unregister itself while it is active."
    assert [refusal(controller_id) for controller_id in (7, 9, NODE)] == [too_old, too_old, itself]
    metadata.commit([ApiMessageAndVersion(FeatureLevelRecord("metadata.version", 33), 0)])
    assert [refusal(controller_id) for controller_id in (9, NODE)] == [
        "Controller ID 9 is not currently registered.",
        itself,
    ]
    metadata.commit(list(unregister_controller(controller, UnregisterControllerRequest(7)).records))
    assert set(node.image.controllers) == {NODE}
    assert refusal(7) == "Controller ID 7 is not currently registered."
