"""Spark batches: `spark.read.format("kafka")` and `df.write.format("kafka")`."""

import datetime
import json

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from kafka import KafkaAdminClient
from kafka import TopicPartition as AdminPartition
from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession

from interop.conftest import MakeTopic
from interop.spark.conftest import Put, Read

pytestmark = pytest.mark.spark


def values(frame: DataFrame) -> list[str]:
    rows = frame.selectExpr("CAST(value AS STRING) AS value").collect()
    return [row.value for row in rows]


def test_every_column(lasting_topic: str, put: Put, read: Read) -> None:
    put(
        lasting_topic,
        [{"key": b"k", "value": b"v", "timestamp": 1_600_000_000_123, "headers": [("h", b"1"), ("h", b"2")]}],
    )
    put(lasting_topic, [{"key": b"k", "value": None, "timestamp": 1_600_000_000_124}])
    first, tombstone = read(lasting_topic, includeHeaders=True).orderBy("offset").collect()
    assert (bytes(first.key), bytes(first.value)) == (b"k", b"v")
    assert (first.topic, first.partition, first.offset, first.timestampType) == (lasting_topic, 0, 0, 0)
    assert first.timestamp.astimezone(datetime.UTC) == datetime.datetime(2020, 9, 13, 12, 26, 40, 123000, datetime.UTC)
    assert [(h.key, bytes(h.value)) for h in first.headers] == [("h", b"1"), ("h", b"2")]
    assert (tombstone.value, tombstone.offset) == (None, 1)


def test_several_topics_and_a_pattern(
    make_topic: MakeTopic, put: Put, read: Read, spark: SparkSession, bootstrap: str
) -> None:
    one, two = make_topic(partitions=2), make_topic()
    put(one, [b"a", b"b"])
    put(two, [b"c"])
    assert sorted(values(read(f"{one},{two}"))) == ["a", "b", "c"]
    options = {"kafka.bootstrap.servers": bootstrap, "subscribePattern": f"({one}|{two[:-1]}.)"}
    assert sorted(values(spark.read.format("kafka").options(**options).load())) == ["a", "b", "c"]


def test_starting_and_ending_offsets(topic: str, put: Put, read: Read) -> None:
    put(topic, [b"%d" % i for i in range(10)])
    frame = read(topic, startingOffsets=json.dumps({topic: {"0": 3}}), endingOffsets=json.dumps({topic: {"0": 6}}))
    assert values(frame) == ["3", "4", "5"]


def test_starting_offsets_by_timestamp(lasting_topic: str, put: Put, read: Read) -> None:
    for i in range(5):
        put(lasting_topic, [{"value": b"%d" % i, "timestamp": 1_600_000_000_000 + i}])
    spec = json.dumps({lasting_topic: {"0": 1_600_000_000_002}})
    assert values(read(lasting_topic, startingOffsetsByTimestamp=spec)) == ["2", "3", "4"]
    until = json.dumps({lasting_topic: {"0": 1_600_000_000_004}})
    assert values(read(lasting_topic, startingOffsetsByTimestamp=spec, endingOffsetsByTimestamp=until)) == ["2", "3"]


def test_a_time_after_the_last_record(lasting_topic: str, put: Put, read: Read) -> None:
    put(lasting_topic, [{"value": b"x", "timestamp": 1000}])
    late = {"startingTimestamp": 2000}
    with pytest.raises(IllegalArgumentException, match="No offset matched"):  # Spark's default strategy
        values(read(lasting_topic, **late))
    assert values(read(lasting_topic, startingOffsetsByTimestampStrategy="latest", **late)) == []


def test_min_partitions_splits_one_partition(topic: str, put: Put, read: Read) -> None:
    put(topic, [b"%d" % i for i in range(100)])
    frame = read(topic, minPartitions=4)
    assert frame.rdd.getNumPartitions() >= 4
    assert sorted(values(frame), key=int) == [str(i) for i in range(100)]


def test_reading_deleted_records(topic: str, put: Put, read: Read, admin: KafkaAdminClient) -> None:
    put(topic, [b"%d" % i for i in range(10)])
    admin.delete_records({AdminPartition(topic, 0): 4})
    assert values(read(topic)) == ["4", "5", "6", "7", "8", "9"]
    from_zero = {"startingOffsets": json.dumps({topic: {"0": 0}})}
    assert values(read(topic, failOnDataLoss=False, **from_zero)) == ["4", "5", "6", "7", "8", "9"]
    with pytest.raises(Py4JJavaError):
        values(read(topic, failOnDataLoss=True, **from_zero))


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_isolation_levels_without_transactions(level: str, topic: str, put: Put, read: Read) -> None:
    put(topic, [b"a", b"b"])
    assert values(read(topic, kafka__isolation__level=level)) == ["a", "b"]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_records(codec: str, topic: str, bootstrap: str, read: Read) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 20})
    for i in range(200):
        producer.produce(topic, b"%d" % i)
    assert producer.flush(120) == 0
    assert sorted(values(read(topic)), key=int) == [str(i) for i in range(200)]


def test_batch_write(make_topic: MakeTopic, bootstrap: str, spark: SparkSession) -> None:
    topic = make_topic(partitions=2)
    frame = spark.sql(
        f"""SELECT '{topic}' AS topic, CAST(id AS STRING) AS key, CONCAT('v', id) AS value,
            CAST(id % 2 AS INT) AS partition,
            ARRAY(NAMED_STRUCT('key', 'h', 'value', CAST('x' AS BINARY))) AS headers
            FROM RANGE(100)"""
    )
    writer = frame.write.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    writer.option("includeHeaders", "true").option("kafka.compression.type", "zstd").save()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(2)])
    seen = consumer.consume(100, timeout=120)
    consumer.close()
    found = {int(m.key() or b"-1"): (m.value(), m.partition(), m.headers()) for m in seen}
    assert found == {i: (b"v%d" % i, i % 2, [("h", b"x")]) for i in range(100)}


def test_write_then_read(topic: str, bootstrap: str, spark: SparkSession, read: Read) -> None:
    frame = spark.range(1000).selectExpr("CAST(id AS STRING) AS value")
    frame.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("topic", topic).save()
    assert sorted(values(read(topic)), key=int) == [str(i) for i in range(1000)]
