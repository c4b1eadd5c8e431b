"""How long after the acknowledgement of a record Spark's foreachBatch sees it."""

import random
import statistics
import tempfile
import time

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from interop.java import spark_jars

RECORDS = 25


def session() -> SparkSession:
    """One for the whole run; its start is not measured."""
    builder = SparkSession.builder.master("local[1]").config("spark.jars", ",".join(spark_jars()))
    quiet = (
        builder.config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    quiet.sparkContext.setLogLevel("OFF")
    return quiet


def micro_batch_latency(bootstrap: str, topic: str) -> float:
    """The median in milliseconds, one record at a time with pauses of irregular length."""
    seen: dict[bytes, float] = {}

    def note(batch: DataFrame, number: int) -> None:
        rows = batch.select("value").collect()
        seen.update({bytes(row.value): time.perf_counter() for row in rows})

    source = session().readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    frame = source.option("subscribe", topic).option("startingOffsets", "earliest").load()
    with tempfile.TemporaryDirectory(prefix="bench-spark-") as checkpoint:
        query = frame.writeStream.foreachBatch(note).option("checkpointLocation", checkpoint).start()
        try:
            return measure(bootstrap, topic, seen)
        finally:
            query.stop()


def measure(bootstrap: str, topic: str, seen: dict[bytes, float]) -> float:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0})
    rng = random.Random(1)
    waits: list[float] = []
    for i in range(RECORDS + 5):
        value = b"%d" % i
        producer.produce(topic, value)
        if producer.flush(10):
            raise RuntimeError("a record was not acknowledged")
        acknowledged = time.perf_counter()
        while value not in seen:
            if time.perf_counter() - acknowledged > 30:
                raise RuntimeError("Spark does not see the record")
            time.sleep(0.001)
        if i >= 5:  # the first batches warm the JVM
            waits.append((seen[value] - acknowledged) * 1000)
        time.sleep(rng.uniform(0.05, 0.4))
    return statistics.median(waits)
