"""`get-offsets` as JSON, and of brokers that know no times but some."""

import pytest
from confluent_kafka import Producer

from pykafka_broker.testing import KafkaBroker
from pykafka_broker.tools.frame import main
from tests.tools.asking import Asked


def send(broker: KafkaBroker, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(count):
        producer.produce(topic, b"x", partition=0, timestamp=1000 + number)
    assert producer.flush(60) == 0


def test_offsets_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker(in_process=True) as broker:
        broker.create_topic("a", 2)
        send(broker, "a", 3)
        asked = Asked(broker, capsys)
        assert asked("get-offsets", "--topic", "a") == [
            {"topic": "a", "partition": 0, "offset": 3},
            {"topic": "a", "partition": 1, "offset": 0},
        ]
        assert asked("get-offsets", "--time", "1002") == [{"topic": "a", "partition": 0, "offset": 2}]
        assert asked("get-offsets", "--time", "5000") == []


def test_partitions_come_in_the_order_of_kafkas_script(capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker(in_process=True) as broker:
        broker.create_topic("p12", 12)
        broker.create_topic("p.3", 1)
        assert main("get-offsets", ["--bootstrap-server", broker.bootstrap_servers]) == 0
    order = ["p.3:0", *(f"p12:{partition}" for partition in (0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9))]
    assert capsys.readouterr().out.splitlines() == [f"{each}:0" for each in order]


@pytest.mark.parametrize("release", ["0.10.0", "0.11", "2.8"])
def test_a_time_that_an_old_broker_does_not_know_is_skipped(release: str, capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker(config={"pykafka.emulate": release}, in_process=True) as broker:
        broker.create_topic("a", 1)
        send(broker, "a", 3)
        where = ["--bootstrap-server", broker.bootstrap_servers, "--topic", "a", "--time"]
        assert main("get-offsets", [*where, "latest"]) == 0
        assert main("get-offsets", [*where, "earliest"]) == 0
        assert capsys.readouterr() == ("a:0:3\na:0:0\n", "")
        assert main("get-offsets", [*where, "max-timestamp"]) == 0
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("Skip getting offsets for topic-partition a-0 due to error: org.apache.kafka.common.err")
        assert err.count("\n") == 1
