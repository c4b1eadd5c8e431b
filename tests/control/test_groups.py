"""Groups as the control API shows them."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, TopicPartition
from kafka import KafkaConsumer

from pykafka_broker.testing import ControlError, KafkaBroker


def test_a_group_is_shown_with_members_and_what_is_left(broker: KafkaBroker) -> None:
    broker.create_topic("grouped", partitions=2)
    broker.produce("grouped", [{"value": str(n), "partition": n % 2} for n in range(10)])
    consumer = KafkaConsumer(
        "grouped",
        bootstrap_servers=broker.bootstrap_servers,
        group_id="classic",
        client_id="me",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=4,
    )
    while not consumer.poll(timeout_ms=500):
        pass
    consumer.commit()
    shown = broker.group("classic")
    assert (shown["type"], shown["state"], shown["protocol_type"]) == ("classic", "Stable", "consumer")
    (member,) = shown["members"]
    assert (member["client_id"], member["partitions"]) == ("me", {"grouped": [0, 1]})
    assert broker.lag("classic") == sum(each["lag"] for each in shown["offsets"]) == 6
    assert {"group_id": "classic", "type": "classic", "state": "Stable", "protocol_type": "consumer", "members": 1} in (
        broker.groups()
    )
    consumer.close()
    assert broker.wait_for_group("classic", "Empty")["members"] == []


def test_a_group_of_the_consumer_protocol_is_shown_the_same_way(broker: KafkaBroker) -> None:
    broker.create_topic("modern")
    broker.produce("modern", ["1", "2"])
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "new", "group.protocol": "consumer"}
        | {"auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.subscribe(["modern"])
    while consumer.poll(0.5) is None:
        pass
    shown = broker.wait_for_group("new", "Stable", members=1)
    assert (shown["type"], shown["members"][0]["partitions"]) == ("consumer", {"modern": [0]})
    consumer.commit(offsets=[TopicPartition("modern", 0, 1)], asynchronous=False)
    assert broker.wait_for_lag("new", 1) == 1
    consumer.close()


def test_a_group_that_is_not_there_is_told(broker: KafkaBroker) -> None:
    for ask in (broker.group, broker.lag):
        with pytest.raises(ControlError, match="Group none not found") as refused:
            ask("none")
        assert refused.value.status == 404
