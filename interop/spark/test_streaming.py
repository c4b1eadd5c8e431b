"""Spark Structured Streaming: exactly the records since the checkpoint, across restarts, and out again."""

import json
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, TopicPartition
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from interop.conftest import MakeTopic
from interop.spark.conftest import Put, Read
from interop.waiting import eventually

pytestmark = pytest.mark.spark


def drain(frame: DataFrame, out: Path) -> None:
    """Runs the stream over what there is now, then stops; a second call goes on from the checkpoint."""
    query = (
        frame.selectExpr("CAST(value AS STRING) AS value", "offset")
        .writeStream.format("json")
        .option("path", str(out))
        .option("checkpointLocation", f"{out}-checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(240)


def written(out: Path) -> list[str]:
    rows = [json.loads(line) for path in out.glob("*.json") for line in path.read_text().splitlines()]
    return [row["value"] for row in sorted(rows, key=lambda row: int(row["offset"]))]


def test_a_restart_goes_on_from_the_checkpoint(topic: str, put: Put, stream: Read, out: Path) -> None:
    put(topic, [b"%d" % i for i in range(50)])
    drain(stream(topic, startingOffsets="earliest"), out)
    assert written(out) == [str(i) for i in range(50)]
    put(topic, [b"%d" % i for i in range(50, 80)])
    drain(stream(topic, startingOffsets="earliest"), out)
    assert written(out) == [str(i) for i in range(80)]


def test_starting_offsets_by_timestamp(lasting_topic: str, put: Put, stream: Read, out: Path) -> None:
    for i in range(5):
        put(lasting_topic, [{"value": b"%d" % i, "timestamp": 1_600_000_000_000 + i}])
    drain(stream(lasting_topic, startingOffsetsByTimestamp=json.dumps({lasting_topic: {"0": 1_600_000_000_003}})), out)
    assert written(out) == ["3", "4"]


def test_bounded_micro_batches(topic: str, put: Put, stream: Read, out: Path) -> None:
    put(topic, [b"%d" % i for i in range(50)])
    drain(stream(topic, startingOffsets="earliest", maxOffsetsPerTrigger=20, minPartitions=2), out)
    assert written(out) == [str(i) for i in range(50)]
    assert len([p for p in Path(f"{out}-checkpoint/commits").iterdir() if p.name.isdigit()]) == 3


def test_a_running_query_sees_new_records_soon(topic: str, put: Put, stream: Read, tmp_path: Path) -> None:
    seen: list[str] = []

    def collect(batch: DataFrame, number: int) -> None:
        seen.extend(row.value for row in batch.collect())

    frame = stream(topic, startingOffsets="earliest").selectExpr("CAST(value AS STRING) AS value")
    query = frame.writeStream.foreachBatch(collect).option("checkpointLocation", str(tmp_path / "c")).start()
    try:
        for i in range(5):
            put(topic, [b"%d" % i])
            eventually(seen.__len__, i + 1, 240)
    finally:
        query.stop()
    assert seen == ["0", "1", "2", "3", "4"]


def test_records_deleted_between_two_runs(
    topic: str, put: Put, stream: Read, out: Path, admin: KafkaAdminClient
) -> None:
    put(topic, [b"%d" % i for i in range(10)])
    drain(stream(topic, startingOffsets="earliest"), out)
    put(topic, [b"%d" % i for i in range(10, 20)])
    admin.delete_records({TopicPartition(topic, 0): 15})
    with pytest.raises(StreamingQueryException):
        drain(stream(topic, startingOffsets="earliest", failOnDataLoss=True), out)
    drain(stream(topic, startingOffsets="earliest", failOnDataLoss=False), out)
    assert written(out) == [str(i) for i in (*range(10), *range(15, 20))]


def test_streaming_write(
    make_topic: MakeTopic, put: Put, stream: Read, read: Read, bootstrap: str, tmp_path: Path, spark: SparkSession
) -> None:
    source, sink = make_topic(), make_topic(partitions=2)
    put(source, [{"key": b"%d" % i, "value": b"%d" % i} for i in range(100)])
    for _ in range(2):  # the second run finds nothing new and must write nothing twice
        query = (
            stream(source, startingOffsets="earliest", kafka__isolation__level="read_committed")
            .selectExpr("key", "CONCAT('<', CAST(value AS STRING), '>') AS value")
            .writeStream.format("kafka")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", sink)
            .option("checkpointLocation", str(tmp_path / "c"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(240)
    rows = read(sink).selectExpr("CAST(value AS STRING) AS value").collect()
    assert sorted(row.value for row in rows) == sorted(f"<{i}>" for i in range(100))


def test_partitions_added_while_the_query_is_down(
    topic: str, put: Put, stream: Read, out: Path, admin: KafkaAdminClient
) -> None:
    put(topic, [b"0"])
    drain(stream(topic, startingOffsets="earliest"), out)
    admin.create_partitions({topic: 3})
    admin.wait_for_topics([topic])
    put(topic, [{"value": b"new", "partition": 2}])
    drain(stream(topic, startingOffsets="earliest"), out)
    assert sorted(written(out)) == ["0", "new"]
