"""`transactions` as JSON, and what is said of an id that there is not."""

from functools import partial

import pytest
from confluent_kafka import Producer

from pykafka_broker.testing import KafkaBroker
from pykafka_broker.tools.frame import main
from tests.tools.asking import Asked


def begin(broker: KafkaBroker, name: str, topic: str) -> Producer:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": name, "log_level": 0})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"v", partition=0)
    assert producer.flush(60) == 0
    return producer


def test_a_transaction_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker(in_process=True) as broker:
        broker.create_topic("a")
        begin(broker, "shop", "a")
        tool = partial(Asked(broker, capsys), "transactions")
        (listed,) = tool("list")
        assert listed | {"producer_id": 0} == {
            "transactional_id": "shop",
            "coordinator": 1,
            "producer_id": 0,
            "state": "Ongoing",
        }
        described = tool("describe", "--transactional-id", "shop")
        assert described["producer_id"] == listed["producer_id"]
        assert described["topic_partitions"] == ["a-0"]
        (producer,) = tool("describe-producers", "--topic", "a", "--partition", "0")
        assert producer["producer_id"] == listed["producer_id"]
        assert producer["current_transaction_start_offset"] == 0
        assert tool("find-hanging", "--topic", "a", "--max-transaction-timeout", "0") == []
        assert tool("forceTerminateTransaction", "--transactionalId", "shop")["terminated"] is True
        assert tool("list", "--duration-filter", "0")[0]["state"] != "Ongoing"


def test_json_may_be_asked_for_behind_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker(in_process=True) as broker:
        assert main("transactions", ["--bootstrap-server", broker.bootstrap_servers, "list", "--json"]) == 0
        assert capsys.readouterr().out == "[]\n"
        described = ["--bootstrap-server", broker.bootstrap_servers, "describe", "--transactional-id", "x"]
        assert main("transactions", described) == 1
        assert capsys.readouterr().err.startswith("Failed to describe transaction state of transactional-id `x`: ")
