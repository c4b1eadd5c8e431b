"""confluent-kafka's admin client: librdkafka checks the answers in its own way, so the main calls are made here too."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from interop.waiting import eventually


@pytest.fixture(scope="session")
def client(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def only(futures: dict[Any, Any]) -> Any:
    """Return the result of the only future."""
    [future] = futures.values()
    return future.result(20)


def code_of(call: Callable[[], object]) -> int:
    with pytest.raises(KafkaException) as raised:
        call()
    return int(raised.value.args[0].code())


def test_create_describe_delete(client: AdminClient) -> None:
    only(client.create_topics([NewTopic("lives", 3, 1, config={"retention.ms": "1234567"})]))
    eventually(lambda: "lives" in client.list_topics(timeout=60).topics, True)
    described = only(client.describe_topics(TopicCollection(["lives"])))
    assert [p.id for p in described.partitions] == [0, 1, 2]
    assert not described.is_internal
    assert all(p.leader.id == p.replicas[0].id == p.isr[0].id for p in described.partitions)
    only(client.create_partitions([NewPartitions("lives", 5)]))
    eventually(lambda: len(only(client.describe_topics(TopicCollection(["lives"]))).partitions), 5)
    only(client.delete_topics(["lives"]))
    eventually(lambda: "lives" in client.list_topics(timeout=60).topics, False)


def test_what_is_refused(client: AdminClient, topic: str) -> None:
    assert code_of(lambda: only(client.create_topics([NewTopic(topic, 1, 1)]))) == KafkaError.TOPIC_ALREADY_EXISTS
    assert code_of(lambda: only(client.create_topics([NewTopic("a b", 1, 1)]))) == KafkaError.TOPIC_EXCEPTION
    bad = NewTopic("bad-config", 1, 1, config={"retention.ms": "soon"})
    assert code_of(lambda: only(client.create_topics([bad]))) == KafkaError.INVALID_CONFIG
    assert code_of(lambda: only(client.create_topics([NewTopic("rf", 1, 5)]))) == KafkaError.INVALID_REPLICATION_FACTOR
    assert code_of(lambda: only(client.delete_topics(["never-there"]))) == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert code_of(lambda: only(client.create_partitions([NewPartitions(topic, 1)]))) == KafkaError.INVALID_PARTITIONS


def test_configs(client: AdminClient, topic: str) -> None:
    def entry(name: str) -> tuple[str, bool]:
        found = only(client.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]))[name]
        return found.value, ConfigSource(found.source) == ConfigSource.DYNAMIC_TOPIC_CONFIG

    def change(name: str, operation: AlterConfigOpType, value: str) -> None:
        entries = [ConfigEntry(name, value, incremental_operation=operation)]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        only(client.incremental_alter_configs([resource]))

    change("retention.ms", AlterConfigOpType.SET, "77000")
    eventually(lambda: entry("retention.ms"), ("77000", True))
    change("cleanup.policy", AlterConfigOpType.APPEND, "compact")
    eventually(lambda: entry("cleanup.policy"), ("delete,compact", True))
    change("cleanup.policy", AlterConfigOpType.SUBTRACT, "delete")
    eventually(lambda: entry("cleanup.policy"), ("compact", True))
    change("retention.ms", AlterConfigOpType.DELETE, "")
    eventually(lambda: entry("retention.ms"), ("604800000", False))


def test_cluster(client: AdminClient, bootstrap: str) -> None:
    cluster = client.describe_cluster().result(20)
    assert sorted(f"{node.host}:{node.port}" for node in cluster.nodes) == sorted(bootstrap.split(","))
    assert cluster.controller.id in [node.id for node in cluster.nodes]
    assert len(cluster.cluster_id) == 22


def test_list_offsets_and_delete_records(client: AdminClient, topic: str, bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for timestamp in (5000, 9000, 7000, 8000):
        producer.produce(topic, b"x", timestamp=timestamp)
        producer.flush(60)

    def at(spec: OffsetSpec) -> int:
        asked = {TopicPartition(topic, 0): spec}
        return int(only(client.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED)).offset)

    assert at(OffsetSpec.earliest()) == 0
    assert at(OffsetSpec.latest()) == 4
    assert at(OffsetSpec.max_timestamp()) == 1
    assert at(OffsetSpec.for_timestamp(5001)) == 1
    deleted = only(client.delete_records([TopicPartition(topic, 0, 2)]))
    assert deleted.low_watermark == 2
    assert at(OffsetSpec.earliest()) == 2
    assert (
        code_of(lambda: only(client.delete_records([TopicPartition(topic, 0, 99)]))) == KafkaError.OFFSET_OUT_OF_RANGE
    )
