"""`consumer-groups` as JSON, and against brokers that know the classic protocol only."""

import pytest
from confluent_kafka import Consumer, TopicPartition

from pykafka_broker.testing import KafkaBroker
from tests.tools.asking import Asked
from tests.tools.test_get_offsets import send


def commit(broker: KafkaBroker, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


@pytest.mark.parametrize("release", ["", "1.0", "2.4", "2.8", "3.7"])
def test_groups_as_json(release: str, capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker(config={"pykafka.emulate": release} if release else {}, in_process=True) as broker:
        broker.create_topic("a", 1)
        send(broker, "a", 3)
        commit(broker, "g", "a", 1)
        asked = Asked(broker, capsys)
        of_group = ("consumer-groups", "--group", "g")
        (listed,) = asked("consumer-groups", "--list")
        assert (listed["group_id"], listed["type"]) == ("g", "Classic")
        (offsets,) = asked(*of_group, "--describe")
        assert offsets == {
            "group_id": "g",
            "topic": "a",
            "partition": 0,
            "leader_epoch": None,
            "current_offset": 1,
            "log_end_offset": 3,
            "lag": 2,
            "consumer_id": None,
            "host": None,
            "client_id": None,
        }
        (state,) = asked(*of_group, "--describe", "--state")
        assert (state["state"], state["member_count"], state["coordinator"]["node_id"]) == ("Empty", 0, 1)
        assert asked(*of_group, "--describe", "--members") == []
        (reset,) = asked(*of_group, "--reset-offsets", "--to-latest", "--topic", "a", "--execute")
        assert reset == {"group_id": "g", "topic": "a", "partition": 0, "new_offset": 3}
        assert asked(*of_group, "--describe")[0]["lag"] == 0
        if release != "1.0":  # groups and offsets are deleted since 1.1 and 2.4
            deleted = asked(*of_group, "--delete-offsets", "--topic", "a")
            assert deleted == [{"topic": "a", "partition": 0, "error": None}]
            assert asked(*of_group, "--delete") == [{"group_id": "g", "deleted": True}]


def test_a_regular_expression_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker(in_process=True) as broker:
        asked = Asked(broker, capsys)
        assert asked("consumer-groups", "--validate-regex", "a*") == {"regex": "a*", "valid": True}
        assert asked("consumer-groups", "--validate-regex", "(")["valid"] is False
