"""The time from the acknowledgement of a record until Spark's foreachBatch has it."""

import random
import statistics
import tempfile
import time

from confluent_kafka import Producer
from pyspark.sql import DataFrame

from bench.spark_session import session, warm_up

RECORDS, WARM_UP_RECORDS = 25, 50
UNCOUNTED = 5  # the first batches of a query begin its connections


def micro_batch_latency(bootstrap: str, topic: str) -> float:
    """Return the median in milliseconds, one record at a time with pauses of irregular length."""
    warm_up("micro-batches", lambda: median_ms(bootstrap, topic, "warm", WARM_UP_RECORDS))
    return median_ms(bootstrap, topic, "measured", RECORDS)


def median_ms(bootstrap: str, topic: str, name: str, records: int) -> float:
    seen: dict[str, float] = {}

    def note(batch: DataFrame, number: int) -> None:
        rows = batch.selectExpr("CAST(value AS STRING)").collect()
        seen.update({row.value: time.perf_counter() for row in rows})

    source = session().readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    frame = source.option("subscribe", topic).option("startingOffsets", "earliest").load()
    with tempfile.TemporaryDirectory(prefix="bench-spark-") as checkpoint:
        query = frame.writeStream.foreachBatch(note).option("checkpointLocation", checkpoint).start()
        try:
            return statistics.median(waits_ms(bootstrap, topic, name, records, seen))
        finally:
            query.stop()


def waits_ms(bootstrap: str, topic: str, name: str, records: int, seen: dict[str, float]) -> list[float]:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0})
    rng = random.Random(1)
    waits: list[float] = []
    for i in range(records + UNCOUNTED):
        value = f"{name}-{i}"
        producer.produce(topic, value)
        if producer.flush(10):
            raise RuntimeError("a record was not acknowledged")
        acknowledged = time.perf_counter()
        while value not in seen:
            if time.perf_counter() - acknowledged > 30:
                raise RuntimeError("Spark does not see the record")
            time.sleep(0.001)
        waits.append((seen[value] - acknowledged) * 1000)
        time.sleep(rng.uniform(0.05, 0.4))
    return waits[UNCOUNTED:]
