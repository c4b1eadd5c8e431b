"""The pipeline's job `route` in Spark's real-time mode: how long after its acknowledgement a record has moved on.

A consumer that polls without a pause sees the record there, so its own fetch is part of the time.
"""

import random
import statistics
import tempfile
import threading
import time

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

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
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for future in admin.create_topics([NewTopic(name, 1) for name in ("realtime", "realtime.out")]).values():
        future.result(30)
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
        job = threading.Thread(target=route.run, args=(context,))
        job.start()
        try:
            waits = waits_ms(bootstrap, job)
        finally:
            context.stop.set()
            job.join()
    return {
        "spark_realtime_p50_ms": statistics.median(waits),
        "spark_realtime_p99_ms": statistics.quantiles(waits, n=100)[-1],
    }


def waits_ms(bootstrap: str, job: threading.Thread) -> list[float]:
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
                if not job.is_alive() or time.perf_counter() - acknowledged > PATIENCE_S:
                    raise RuntimeError("Spark does not route the record")
            waits.append((time.perf_counter() - acknowledged) * 1000)
            time.sleep(rng.uniform(0.01, 0.06))
    finally:
        consumer.close()
    return waits[UNCOUNTED:]
