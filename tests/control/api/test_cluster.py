"""A cluster as one of its nodes shows it, here one that is alone."""

from __future__ import annotations

import pytest

from pykafka_broker.control.http import HttpAddress
from pykafka_broker.testing import ControlError, KafkaBroker


def test_a_node_alone_is_a_cluster_of_one(broker: KafkaBroker) -> None:
    cluster = broker.cluster()
    assert cluster["controller_id"] == 1
    assert [each["node_id"] for each in cluster["brokers"]] == [1]
    assert cluster["brokers"][0]["listeners"] == broker.listeners
    assert cluster["brokers"][0]["fenced"] is False
    assert cluster["brokers"][0]["silent_ms"] is None


def test_an_address_of_version_6_has_brackets() -> None:
    with KafkaBroker(host="::1", in_process=True) as broker:
        assert broker.cluster()["brokers"][0]["listeners"] == broker.listeners == {"PLAINTEXT": f"[::1]:{broker.port}"}
    assert repr(HttpAddress("::1", 9644, None)) == "[::1]:9644"


def test_a_node_alone_coordinates_everything(broker: KafkaBroker) -> None:
    assert broker.coordinator("billing") == broker.coordinator(transactional_id="writer") == 1
    for wrong in ({}, {"group": "billing", "transactional_id": "writer"}):
        with pytest.raises(ControlError, match="name a group or a transactional_id"):
            broker.coordinator(**wrong)


def test_a_partition_has_its_leader_and_who_is_in_sync(broker: KafkaBroker) -> None:
    broker.create_topic("of-one", partitions=2)
    state = broker.partition("of-one", 1)
    epoch = state["leader_epoch"]  # above 0 where a reset was before: epochs never fall
    assert state == {
        "topic": "of-one", "partition": 1, "leader": 1, "leader_epoch": epoch, "replicas": [1], "isr": [1],
        "log_start_offset": 0, "high_watermark": 0,
    }  # fmt: skip
    assert broker.move_leader("of-one", 1, 1)["leader_epoch"] == epoch + 1


@pytest.mark.parametrize(("topic", "partition"), [("nowhere", 0), ("of-two", 7)])
def test_what_is_not_there_is_said(broker: KafkaBroker, topic: str, partition: int) -> None:
    if topic == "of-two":
        broker.create_topic("of-two")
    with pytest.raises(
        ControlError, match=r"there is no topic nowhere|topic of-two has partitions 0 to 0, not 7"
    ) as refused:
        broker.partition(topic, partition)
    assert refused.value.status == 404


def test_who_is_not_in_sync_can_t_lead(broker: KafkaBroker) -> None:
    broker.create_topic("not-led")
    with pytest.raises(ControlError, match="broker 5 is not in sync; in sync are 1") as refused:
        broker.move_leader("not-led", 5)
    assert refused.value.status == 409


def test_more_replicas_than_there_are_brokers_are_refused(broker: KafkaBroker) -> None:
    with pytest.raises(ControlError) as refused:
        broker.create_topic("too-many", replication_factor=3)
    assert refused.value.code == "INVALID_REPLICATION_FACTOR"


def test_a_node_alone_can_be_cut_off_from_anybody(broker: KafkaBroker) -> None:
    broker.cut_off([2, 100])
    broker.rejoin()
    broker.create_topic("reached")
