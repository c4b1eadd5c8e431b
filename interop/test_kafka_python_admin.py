"""kafka-python's admin client: topics, partitions, configs, records, log directories, the cluster; what is refused."""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any
from uuid import UUID

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetSpec, TopicPartition
from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType
from kafka.errors import (
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

from interop.waiting import eventually

TOPIC, BROKER = ConfigResourceType.TOPIC, ConfigResourceType.BROKER


@pytest.fixture
def producer(bootstrap: str) -> Iterator[KafkaProducer]:
    with closing(KafkaProducer(bootstrap_servers=bootstrap)) as p:
        yield p


def configs_of(admin: KafkaAdminClient, kind: ConfigResourceType, name: str, **options: Any) -> dict[str, Any]:
    described = admin.describe_configs([ConfigResource(kind, name)], **options)
    found: dict[str, Any] = described[kind.name.lower()][name]
    return found


def alter(admin: KafkaAdminClient, kind: ConfigResourceType, name: str, changes: dict[str, Any], **options: Any) -> str:
    answer = admin.alter_configs([ConfigResource(kind, name, changes)], raise_on_unknown=False, **options)
    return str(answer[kind.name.lower()][name])


def test_create_describe_delete(admin: KafkaAdminClient, broker_count: int) -> None:
    made = admin.create_topics({"life": {"num_partitions": 3, "configs": {"retention.ms": "1234567"}}})
    [created] = made["topics"]
    assert (created["name"], created["num_partitions"], created["replication_factor"]) == ("life", 3, broker_count)
    assert created["configs"]["retention.ms"]["value"] == "1234567"
    assert created["configs"]["retention.ms"]["config_source"] == "DYNAMIC_TOPIC_CONFIG"
    admin.wait_for_topics(["life"])
    [described] = admin.describe_topics(["life"])
    assert [p["partition_index"] for p in described["partitions"]] == [0, 1, 2]
    assert described["topic_id"] == created["topic_id"]
    assert not described["is_internal"]
    assert "life" in admin.list_topics()
    admin.delete_topics(["life"])
    eventually(lambda: "life" in admin.list_topics(), False)


def test_a_topic_with_defaults(admin: KafkaAdminClient, broker_count: int) -> None:
    [created] = admin.create_topics(["defaults"])["topics"]
    assert (created["num_partitions"], created["replication_factor"]) == (1, broker_count)


def test_a_recreated_topic_is_a_new_topic(admin: KafkaAdminClient, producer: KafkaProducer) -> None:
    [first] = admin.create_topics(["again"], wait_for_metadata=True)["topics"]
    producer.send("again", b"x").get(timeout=60)
    admin.delete_topics(["again"])
    [second] = admin.create_topics(["again"], wait_for_metadata=True)["topics"]
    assert first["topic_id"] != second["topic_id"]
    partition = TopicPartition("again", 0)
    ends = admin.list_partition_offsets({partition: OffsetSpec.LATEST})
    assert ends[partition].offset == 0


def test_delete_by_id(admin: KafkaAdminClient) -> None:
    [created] = admin.create_topics(["by-id"], wait_for_metadata=True)["topics"]
    admin.delete_topics([UUID(created["topic_id"])])
    eventually(lambda: "by-id" in admin.list_topics(), False)


def test_validate_only_creates_nothing(admin: KafkaAdminClient) -> None:
    admin.create_topics(["only-looking"], validate_only=True)
    assert "only-looking" not in admin.list_topics()


@pytest.mark.parametrize(
    ("topics", "error"),
    [
        ({"sp ace": {}}, InvalidTopicError),
        ({"..": {}}, InvalidTopicError),
        ({"x" * 250: {}}, InvalidTopicError),
        ({"none": {"num_partitions": 0}}, InvalidPartitionsError),
        ({"four": {"num_partitions": 1, "replication_factor": 4}}, InvalidReplicationFactorError),
    ],
)
def test_what_create_refuses(admin: KafkaAdminClient, topics: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        admin.create_topics(topics)


def test_create_twice_and_delete_nothing(admin: KafkaAdminClient, topic: str) -> None:
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([topic])
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics(["never-there"])


def test_manual_assignment(admin: KafkaAdminClient) -> None:
    broker, *_ = admin.describe_cluster()["brokers"]
    admin.create_topics(
        {"assigned": {"assignments": {0: [broker["broker_id"]], 1: [broker["broker_id"]]}}}, wait_for_metadata=True
    )
    [described] = admin.describe_topics(["assigned"])
    assert [p["replica_nodes"] for p in described["partitions"]] == [[broker["broker_id"]]] * 2


def test_more_partitions(admin: KafkaAdminClient, topic: str) -> None:
    admin.create_partitions({topic: 4}, validate_only=True)
    assert len(admin.describe_topics([topic])[0]["partitions"]) == 1
    admin.create_partitions({topic: 4})
    eventually(lambda: len(admin.describe_topics([topic])[0]["partitions"]), 4)
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions({topic: 2})


def test_describe_topic_partitions_in_pages(admin: KafkaAdminClient, make_topic: Any) -> None:
    topic = make_topic(partitions=5)
    page = admin.describe_topic_partitions([topic], response_partition_limit=3)
    assert len(page["topics"][0]["partitions"]) == 3
    assert page["next_cursor"]["partition_index"] == 3
    rest = admin.describe_topic_partitions([topic], cursor=page["next_cursor"])
    assert [p["partition_index"] for p in rest["topics"][0]["partitions"]] == [3, 4]


def value_of(admin: KafkaAdminClient, kind: ConfigResourceType, name: str, key: str) -> Callable[[], tuple[str, str]]:
    """Return a setting's value and its source."""

    def look() -> tuple[str, str]:
        entry = configs_of(admin, kind, name, config_filter="all")[key]
        return entry["value"], entry["config_source"]

    return look


def test_topic_configs_set_and_unset(admin: KafkaAdminClient, topic: str) -> None:
    retention, policy = (value_of(admin, TOPIC, topic, key) for key in ("retention.ms", "cleanup.policy"))
    assert alter(admin, TOPIC, topic, {"retention.ms": "5000", "cleanup.policy": "compact"}) == "OK"
    eventually(retention, ("5000", "DYNAMIC_TOPIC_CONFIG"))
    eventually(policy, ("compact", "DYNAMIC_TOPIC_CONFIG"))
    assert alter(admin, TOPIC, topic, {"cleanup.policy": (AlterConfigOp.APPEND, "delete")}) == "OK"
    eventually(policy, ("compact,delete", "DYNAMIC_TOPIC_CONFIG"))
    assert alter(admin, TOPIC, topic, {"cleanup.policy": (AlterConfigOp.SUBTRACT, "compact")}) == "OK"
    eventually(policy, ("delete", "DYNAMIC_TOPIC_CONFIG"))
    assert alter(admin, TOPIC, topic, {"retention.ms": (AlterConfigOp.DELETE, None)}) == "OK"
    eventually(retention, ("604800000", "DEFAULT_CONFIG"))


def test_validate_only_changes_nothing(admin: KafkaAdminClient, topic: str) -> None:
    assert alter(admin, TOPIC, topic, {"retention.ms": "5000"}, validate_only=True) == "OK"
    assert configs_of(admin, TOPIC, topic, config_filter="all")["retention.ms"]["value"] == "604800000"


def test_the_full_alteration_replaces_what_was_set(admin: KafkaAdminClient, make_topic: Any) -> None:
    topic = make_topic(retention_ms=5000)
    request = [ConfigResource(TOPIC, topic, {"segment.ms": "60000"})]
    # The client reads the other settings and sends them along, so nothing may get lost on the way.
    assert admin.alter_configs(request, incremental=False, raise_on_unknown=False)["topic"][topic] == "OK"
    eventually(value_of(admin, TOPIC, topic, "segment.ms"), ("60000", "DYNAMIC_TOPIC_CONFIG"))
    eventually(value_of(admin, TOPIC, topic, "retention.ms"), ("5000", "DYNAMIC_TOPIC_CONFIG"))


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"retention.ms": "soon"}, "retention.ms"),
        ({"no.such.key": "1"}, "no.such.key"),
        ({"cleanup.policy": "shred"}, "shred"),
        ({"retention.ms": (AlterConfigOp.APPEND, "1")}, "retention.ms"),
        ({"min.insync.replicas": "0"}, "min.insync.replicas"),
    ],
)
def test_what_configs_refuse(admin: KafkaAdminClient, topic: str, change: dict[str, Any], word: str) -> None:
    answer = alter(admin, TOPIC, topic, change)
    assert "InvalidConfig" in answer
    assert word in answer


def test_synonyms_and_types(admin: KafkaAdminClient, make_topic: Any) -> None:
    topic = make_topic(retention_ms=5000)
    every = configs_of(admin, TOPIC, topic, include_synonyms=True, config_filter="all")
    assert len(every) >= 30
    assert [k for k, v in every.items() if v["config_source"] == "DYNAMIC_TOPIC_CONFIG"] == ["retention.ms"]
    retention = every["retention.ms"]
    assert retention["config_type"] == "LONG"
    assert [(s["name"], s["value"]) for s in retention["synonyms"]] == [("retention.ms", "5000")]
    assert [(s["name"], s["source"]) for s in every["cleanup.policy"]["synonyms"]] == [
        ("log.cleanup.policy", "DEFAULT_CONFIG")
    ]
    assert every["cleanup.policy"]["config_type"] == "LIST"
    assert every["preallocate"]["config_type"] == "BOOLEAN"


def test_broker_configs(admin: KafkaAdminClient) -> None:
    broker, *_ = admin.describe_cluster()["brokers"]
    node = str(broker["broker_id"])
    every = configs_of(admin, BROKER, node, config_filter="all")
    assert len(every) > 200
    assert every["node.id"]["value"] == node
    assert every["node.id"]["read_only"]
    assert alter(admin, BROKER, node, {"log.cleaner.threads": "2"}) == "OK"
    threads = value_of(admin, BROKER, node, "log.cleaner.threads")
    eventually(threads, ("2", "DYNAMIC_BROKER_CONFIG"))
    assert alter(admin, BROKER, node, {"log.cleaner.threads": (AlterConfigOp.DELETE, None)}) == "OK"
    eventually(threads, ("1", "DEFAULT_CONFIG"))
    assert "Invalid" in alter(admin, BROKER, node, {"process.roles": "broker"})


def test_delete_records(admin: KafkaAdminClient, topic: str, producer: KafkaProducer, bootstrap: str) -> None:
    partition = TopicPartition(topic, 0)
    for i in range(10):
        producer.send(topic, b"%d" % i)
    producer.flush()
    assert admin.delete_records({partition: 4})[partition]["low_watermark"] == 4
    with closing(KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")) as consumer:
        assert consumer.beginning_offsets([partition]) == {partition: 4}
        consumer.assign([partition])
        consumer.seek(partition, 0)  # below the start: the reset policy takes it to 4
        first = next(r for batch in consumer.poll(timeout_ms=60_000).values() for r in batch)
        assert (first.offset, first.value) == (4, b"4")
    assert admin.delete_records({partition: -1})[partition]["low_watermark"] == 10
    with pytest.raises(OffsetOutOfRangeError):
        admin.delete_records({partition: 11})


def test_list_offsets(admin: KafkaAdminClient, topic: str, producer: KafkaProducer) -> None:
    for timestamp in (5000, 9000, 7000):
        producer.send(topic, b"x", timestamp_ms=timestamp).get(timeout=60)
    partition = TopicPartition(topic, 0)

    def at(spec: Any) -> tuple[int, int]:
        found = admin.list_partition_offsets({partition: spec})[partition]
        return found.offset, found.timestamp

    assert at(OffsetSpec.EARLIEST) == (0, -1)
    assert at(OffsetSpec.LATEST) == (3, -1)
    assert at(OffsetSpec.MAX_TIMESTAMP) == (1, 9000)
    assert at(OffsetSpec.EARLIEST_LOCAL) == (0, -1)


def test_cluster_and_log_dirs(admin: KafkaAdminClient, topic: str, producer: KafkaProducer, bootstrap: str) -> None:
    producer.send(topic, b"x" * 1000).get(timeout=60)
    cluster = admin.describe_cluster()
    brokers = cluster["brokers"]
    assert sorted(f"{broker['host']}:{broker['port']}" for broker in brokers) == sorted(bootstrap.split(","))
    assert cluster["controller_id"] in [broker["broker_id"] for broker in brokers]
    assert len(cluster["cluster_id"]) == 22
    directories = [directory for answer in admin.describe_log_dirs() for directory in answer["log_dirs"]]
    directory, *_ = [each for each in directories if topic in [found["name"] for found in each["topics"]]]
    assert directory["error_code"] == 0
    assert 0 < directory["usable_bytes"] <= directory["total_bytes"]
    sizes = {t["name"]: t["partitions"][0]["partition_size"] for t in directory["topics"]}
    assert 1000 < sizes[topic] < 1200


@pytest.mark.one_broker("it is about the quorum of one node")
def test_what_one_node_answers_about_its_quorum(admin: KafkaAdminClient, topic: str) -> None:
    [quorum] = admin.describe_metadata_quorum()["topics"][0]["partitions"]
    [broker] = admin.describe_cluster()["brokers"]
    assert quorum["leader_id"] == broker["broker_id"]
    assert [v["replica_id"] for v in quorum["current_voters"]] == [broker["broker_id"]]
    assert admin.list_partition_reassignments() == {}
    admin.elect_leaders(0, {topic: [0]})  # not needed: the client takes that for success


def test_features(admin: KafkaAdminClient) -> None:
    features = admin.describe_features()
    for name in ("metadata.version", "group.version", "transaction.version"):
        lowest, highest = features[name]["supported"]
        assert lowest <= features[name]["finalized"][1] <= highest
    assert features["metadata.version"]["finalized_epoch"] >= 0


def test_producers_of_a_partition(admin: KafkaAdminClient, topic: str, bootstrap: str) -> None:
    with closing(KafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)) as producer:
        for _ in range(3):
            producer.send(topic, b"x").get(timeout=60)
        partition = TopicPartition(topic, 0)
        [state] = admin.describe_producers([partition])[partition].active_producers
        assert state.last_sequence == 2
        assert state.producer_epoch == 0


def test_config_resources(admin: KafkaAdminClient, topic: str) -> None:
    assert topic in admin.list_config_resources(["TOPIC"])["topic"]
