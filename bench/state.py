"""A test's broker: how long it takes to get one, an empty one, and one with a state that was kept.

Rule: what is measured is the call in the test's process, answer included. The broker is one as a test has it
(`KafkaBroker`); what was written before is on disk when a restore is measured, or its time would be the disk's.
"""

import os
import statistics
import time
from collections.abc import Callable

from confluent_kafka import Consumer, Producer, TopicPartition

from pykafka_broker.testing import KafkaBroker

TOPICS = 100
GROUPS = 20
_ROUNDS = 7
_RECORD_BYTES = 10_000
_PARTITIONS = 4


def state(kept_mb: int) -> dict[str, float]:
    begun = time.perf_counter()
    with KafkaBroker() as broker:
        broker.topics()
        figures = {"first_broker_ms": (time.perf_counter() - begun) * 1e3}
        figures["reset_empty_ms"] = _median(broker.reset)
        figures["reset_ms"] = _median(broker.reset, lambda: _fill(broker))
        _fill(broker)
        figures["snapshot_ms"] = _median(lambda: broker.snapshot("topics"))
        figures["restore_ms"] = _median(lambda: broker.restore("topics"))
        broker.reset()
        _write(broker, kept_mb)
        figures["snapshot_1gb_ms"] = _median(lambda: broker.snapshot("large"))
        os.sync()
        figures["restore_1gb_ms"] = _median(lambda: broker.restore("large"))
    return figures


def _median(measured: Callable[[], object], before: Callable[[], object] = lambda: None) -> float:
    times = []
    for _ in range(_ROUNDS):
        before()
        begun = time.perf_counter()
        measured()
        times.append((time.perf_counter() - begun) * 1e3)
    return statistics.median(times)


def _fill(broker: KafkaBroker) -> None:
    """Make a hundred topics with a record each, and twenty groups with an offset each."""
    for number in range(TOPICS):
        broker.create_topic(f"t{number}")
        broker.produce(f"t{number}", ["v"])
    for number in range(GROUPS):
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": f"g{number}", "log_level": 0}
        consumer = Consumer(settings)
        consumer.commit(offsets=[TopicPartition(f"t{number}", 0, 1)], asynchronous=False)
        consumer.close()


def _write(broker: KafkaBroker, megabytes: int) -> None:
    broker.create_topic("large", _PARTITIONS)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 20, "log_level": 0})
    value = os.urandom(_RECORD_BYTES)
    for number in range(megabytes * 1_000_000 // _RECORD_BYTES):
        while True:
            try:
                producer.produce("large", value, partition=number % _PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(60):
        raise RuntimeError("not everything was written")
