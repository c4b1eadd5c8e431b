"""Groups as the control API shows them."""

from __future__ import annotations

import datetime
from typing import Any

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
    assert consumer.poll(timeout_ms=60_000)
    consumer.commit()
    shown = broker.group("classic")
    assert (shown["type"], shown["state"], shown["protocol_type"]) == ("classic", "Stable", "consumer")
    (member,) = shown["members"]
    assert (member["client_id"], member["partitions"]) == ("me", {"grouped": [0, 1]})
    assert broker.lag("classic") == sum(each["lag"] or 0 for each in shown["offsets"]) == 6
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


def test_a_group_that_is_not_there_is_told_with_those_that_are_like_it(broker: KafkaBroker) -> None:
    broker.create_topic("of-billing", exist_ok=True)
    broker.commit("billing", "of-billing", 0)
    for ask in (broker.group, broker.lag, broker.delete_group, broker.reset_offsets):
        with pytest.raises(ControlError, match=r"^there is no group biling; did you mean billing\?$") as refused:
            ask("biling")
        assert (refused.value.status, refused.value.code) == (404, "GROUP_ID_NOT_FOUND")


def test_offsets_are_committed_for_a_group_that_is_not_there_yet(broker: KafkaBroker) -> None:
    broker.create_topic("committed", 2)
    broker.produce("committed", [{"value": str(n), "partition": 1} for n in range(5)])
    broker.commit("made-by-commit", "committed", 2, partition=1, metadata="by hand")
    first, second = broker.group("made-by-commit")["offsets"]
    assert (first["committed"], second["committed"], second["metadata"]) == (None, 2, "by hand")
    consumer = KafkaConsumer(
        "committed", bootstrap_servers=broker.bootstrap_servers, group_id="made-by-commit", consumer_timeout_ms=60_000
    )
    assert next(consumer).value == b"2"
    with pytest.raises(
        ControlError, match=r"group made-by-commit has members \(kafka-python-.*\): end them"
    ) as refused:
        broker.commit("made-by-commit", "committed", 0)
    assert (refused.value.status, refused.value.code) == (409, "NON_EMPTY_GROUP")
    with pytest.raises(ControlError, match="has members"):
        broker.reset_offsets("made-by-commit")
    with pytest.raises(ControlError, match="has members"):
        broker.delete_group("made-by-commit")
    consumer.close(autocommit=False)
    broker.wait_for_group("made-by-commit", "Empty")
    with pytest.raises(ControlError, match="topic committed has partitions 0 to 1, not 2"):
        broker.commit("made-by-commit", "committed", 0, partition=2)


def test_offsets_are_reset_to_the_beginning_the_end_an_offset_or_a_time(broker: KafkaBroker) -> None:
    broker.create_topic("rewound", 2)
    broker.produce("rewound", [{"value": str(n), "partition": 0, "timestamp": 1_000 * n} for n in range(5)])
    broker.delete_records("rewound", before_offset=1, partition=0)
    broker.commit("rewinding", "rewound", 3)

    def committed(*places: Any, **where: Any) -> list[int | None]:
        found = broker.reset_offsets("rewinding", *places, **where)
        assert found == broker.group("rewinding")["offsets"]
        return [each["committed"] for each in found]

    assert committed(partition=0) == [1, None]
    assert committed("rewound", "latest") == [5, 0]
    assert committed() == [1, 0]
    assert committed(to=4, partition=0) == [4, 0]
    assert committed(to=datetime.datetime.fromtimestamp(2.5, datetime.UTC)) == [3, 0]
    assert committed(to=datetime.datetime.fromtimestamp(99, datetime.UTC)) == [5, 0]
    with pytest.raises(ValueError, match=r"^to is datetime.datetime\(2026, 1, 2, 0, 0\) without a time zone"):
        committed(to=datetime.datetime(2026, 1, 2))
    with pytest.raises(ControlError, match="rewound-0 has offsets 1 to 5, not 6"):
        broker.reset_offsets("rewinding", to=6)
    with pytest.raises(ControlError, match="to must be one of earliest, latest or an integer"):
        broker.reset_offsets("rewinding", to="beginning")


def test_a_group_is_deleted_with_its_offsets(broker: KafkaBroker) -> None:
    broker.create_topic("of-deleted")
    broker.commit("deleted", "of-deleted", 0)
    broker.delete_group("deleted")
    assert "deleted" not in [each["group_id"] for each in broker.groups()]
    with pytest.raises(ControlError, match="there is no group deleted"):
        broker.lag("deleted")
