"""The pipeline's job `route` in Spark's real-time mode: how long after its acknowledgement a record has moved on.

A consumer that polls without a pause sees the record there, so its own fetch is part of the time.
"""

import random
import statistics
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from confluent_kafka import Consumer, Producer

from bench.spark_session import session
from pipeline import route
from pipeline.context import Context
from pipeline.kafka import Kafka
from pipeline.settings import Settings

RECORDS, UNCOUNTED = 200, 40
PATIENCE_S = 180  # a cold JVM on a busy machine takes a minute to its first record
EVENT = '{{"event_id": "{}", "event_time": "2024-05-01T00:00:00Z", "user_id": "u", "country": "de", "amount": 1.5}}'


def realtime_latency(bootstrap: str) -> dict[str, float]:
    """Return p50 and p99 in milliseconds, one record in flight, with pauses of irregular length."""
    with tempfile.TemporaryDirectory(prefix="bench-realtime-") as folder:
        settings = Settings(
            bootstrap_servers=bootstrap,
            data_dir=folder,
            bronze_topic="realtime",
            to_topic="realtime.out",
            dead_letter_topic="realtime.dead-letter",
            topic_partitions=1,
            trigger="realtime 5 minutes",  # one batch: what happens between two is not measured
            stop_timeout_s=0,
        )
        context = Context(session(), settings, Kafka(settings))
        for topic in (settings.bronze_topic, settings.to_topic):
            context.kafka.ensure_topic(topic)  # a warm job asks sooner than Kafka's broker hears from its controller
        with ThreadPoolExecutor(1) as pool:
            job = pool.submit(route.run, context)
            try:
                waits = waits_ms(bootstrap, job)
            finally:
                context.stop.set()
    return {
        "spark_realtime_p50_ms": statistics.median(waits),
        "spark_realtime_p99_ms": statistics.quantiles(waits, n=100)[-1],
    }


def waits_ms(bootstrap: str, job: "Future[Any]") -> list[float]:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0})
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "auto.offset.reset": "earliest"})
    consumer.subscribe(["realtime.out"])
    rng = random.Random(1)
    waits = []
    try:
        for number in range(RECORDS + UNCOUNTED):
            producer.produce("realtime", EVENT.format(number))
            if producer.flush(10):
                raise RuntimeError("a record was not acknowledged")
            acknowledged = time.perf_counter()
            while (record := consumer.poll(0.1)) is None or record.error() is not None:
                if job.done():
                    raise RuntimeError(f"the job has ended: {job.exception() or job.result()}")
                if time.perf_counter() - acknowledged > PATIENCE_S:
                    raise RuntimeError("Spark does not route the record")
            waits.append((time.perf_counter() - acknowledged) * 1000)
            time.sleep(rng.uniform(0.01, 0.06))
    finally:
        consumer.close()
    return waits[UNCOUNTED:]
