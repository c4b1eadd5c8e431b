"""The driver's own client, against a real Kafka."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from interop.targets import start
from pipeline.kafka import Kafka
from pipeline.settings import Settings
from pykafka_broker.testing import KafkaBroker, KafkaCluster


@pytest.mark.java
def test_a_group_whose_coordinator_is_only_just_getting_ready() -> None:
    """A new cluster answers a first question about a group; librdkafka's admin client would end the process here."""
    with start("kafka") as broker:
        settings = Settings(bootstrap_servers=broker.bootstrap_servers, connect_timeout_s=30)
        kafka = Kafka(settings)
        kafka.ensure_topic("orders")
        assert kafka.committed("lag", "orders") == {}
        kafka.commit("lag", "orders", {0: 0})
        kafka.commit("lag", "orders", {2: 0})
        assert Kafka(settings).committed("lag", "orders") == {0: 0, 2: 0}


def test_goes_on_when_the_broker_that_it_asks_is_silent() -> None:
    """librdkafka asks the broker that its metadata calls the controller, and sticks to it."""
    with KafkaCluster(3) as cluster:
        cluster.create_topic("orders")
        cluster.wait_for_metadata()  # another broker may be asked
        kafka = Kafka(Settings(bootstrap_servers=cluster.bootstrap_servers, connect_timeout_s=1))
        kafka.remember("orders")
        cluster.broker(kafka._metadata().controller_id).pause()
        kafka.require_same_topics()


def test_offsets_of_a_partition_whose_leader_has_died() -> None:
    """librdkafka's answer is an invalid offset without an error: such a partition would pass for an empty one."""
    with KafkaCluster(3) as cluster:
        cluster.create_topic("orders", partitions=3, replication_factor=3)
        cluster.produce("orders", [{"value": "first", "partition": number} for number in range(3)])
        cluster.wait_for_metadata()
        kafka = Kafka(Settings(bootstrap_servers=cluster.bootstrap_servers, connect_timeout_s=1))
        kafka.ranges("orders")
        cluster.broker(cluster.leader_of("orders")).kill()
        assert kafka.ranges("orders") == {0: (0, 1), 1: (0, 1), 2: (0, 1)}


def test_a_record_that_comes_while_a_time_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record between the two questions, for the time and for the end, was left out."""
    with KafkaBroker() as broker:
        broker.produce("orders", [{"value": "old", "timestamp": 1_000}])
        kafka = Kafka(Settings(bootstrap_servers=broker.bootstrap_servers))
        ask = kafka._list_offsets

        def ask_before_a_record(*question: Any) -> dict[int, int]:
            found = ask(*question)
            broker.produce("orders", [{"value": "new", "timestamp": 2_000}])
            return found

        monkeypatch.setattr(kafka, "_list_offsets", ask_before_a_record)
        assert kafka.offsets_at("orders", 2_000) == {0: 1}


@pytest.mark.parametrize("error", ["OFFSET_NOT_AVAILABLE", "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH"])
def test_a_leader_that_has_only_just_been_elected_is_asked_again(error: str) -> None:
    """Until its followers have fetched, it does not know the end; and who asks may know of an earlier leader."""
    with KafkaBroker() as broker:
        broker.create_topic("orders")
        kafka = Kafka(Settings(bootstrap_servers=broker.bootstrap_servers))
        with broker.faults.add(api="ListOffsets", error=error, times=1) as fault:
            assert kafka.ranges("orders") == {0: (0, 0)}
        assert fault.hits == 1


def test_a_topic_is_there_when_it_was_made(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic is there once `ensure_topic` returns, even if the broker learns of it later than its controller."""
    kafka = Kafka(settings)
    before, ask = kafka._metadata(), kafka._metadata
    stale = iter([before] * 3)
    monkeypatch.setattr(kafka, "_metadata", lambda: next(stale, None) or ask())
    kafka.ensure_topic("late")
    assert kafka.partitions("late")
    assert next(stale, None) is None


def test_a_topic_that_another_flow_makes_at_the_same_time(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flows share a topic of metrics: the second to make it ended the run."""
    kafka = Kafka(settings)
    kafka.ensure_topic("shared")
    monkeypatch.setattr(kafka, "check_writable", lambda topic: False)
    kafka.ensure_topic("shared")


def test_the_largest_message_is_kafkas_default_where_configs_may_not_be_asked_for(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka = Kafka(settings)

    def refuse(_: object) -> None:
        raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))

    monkeypatch.setattr(kafka, "_retried", refuse)
    assert kafka.max_message_bytes("orders") == 1_048_588
