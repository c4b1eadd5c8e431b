"""Copies one topic to another in transactions until it is killed: python -m interop.copier BOOTSTRAP INPUT OUTPUT NAME
PAUSE_MS

Consume, transform, produce, send the offsets, commit. NAME is transactional id, group and group instance id at once: a
new copier fences the one before it and takes its place without waiting for a session to end. It pauses up to PAUSE_MS
between the steps of a transaction, so that a kill finds it in the middle. It ends when nothing comes for long, as a
program does that is watched: librdkafka 2.16 forgets what it has to ask of a coordinator that has left the cluster
(its issue 5511), and waits for that at its end too.
"""

import faulthandler
import os
import random
import sys
import threading
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

BATCH = 20
STALLED_S = 20


class Copier:
    """One producer and one consumer, in one transaction at a time."""

    def __init__(self, bootstrap: str, source: str, sink: str, name: str, pause_ms: str) -> None:
        self._sink = sink
        self._pause_s = int(pause_ms) / 1000
        self._came = time.monotonic()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": name,
                "group.instance.id": name,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "partition.assignment.strategy": "cooperative-sticky",
            }
        )
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 1, "transaction.timeout.ms": 30_000}
        )
        self._consumer.subscribe([source])

    def run(self) -> None:
        threading.Thread(target=self._watch, daemon=True).start()
        self._producer.init_transactions(STALLED_S)
        self._came = time.monotonic()
        print("ready", flush=True)
        while True:
            messages = [m for m in self._consumer.consume(BATCH, timeout=0.05) if not m.error()]
            if not messages:
                continue
            self._producer.begin_transaction()
            try:
                self._copy(messages)
            except KafkaException as exception:
                self._give_up(exception.args[0])
            self._came = time.monotonic()

    def _watch(self) -> None:
        while time.monotonic() < self._came + STALLED_S:
            time.sleep(1)
        faulthandler.dump_traceback()
        os._exit(1)

    def _copy(self, messages: list) -> None:  # type: ignore[type-arg]
        for message in messages:
            self._producer.produce(self._sink, b"copy of " + message.value(), key=message.key())
        self._producer.poll(0)
        self._pause()
        self._producer.send_offsets_to_transaction(behind(messages), self._consumer.consumer_group_metadata())
        self._pause()
        self._producer.commit_transaction()

    def _pause(self) -> None:
        time.sleep(random.uniform(0, self._pause_s))

    def _give_up(self, error: KafkaError) -> None:
        """Abort and read on from what is committed; or end, if there is nothing left to do for this producer."""
        print(f"gives up: {error}", flush=True)
        if error.fatal() or not error.txn_requires_abort():
            sys.exit(f"can't go on: {error}")
        self._producer.abort_transaction()
        assigned = self._consumer.assignment()
        for partition in self._consumer.committed(assigned, timeout=10):
            offset = partition.offset if partition.offset >= 0 else 0
            self._consumer.seek(TopicPartition(partition.topic, partition.partition, offset))


def behind(messages: list) -> list[TopicPartition]:  # type: ignore[type-arg]
    """Return the offsets to read on from; the consumer's own positions may be ahead of what was copied."""
    places = {(message.topic(), message.partition()): message.offset() + 1 for message in messages}
    return [TopicPartition(topic, partition, offset) for (topic, partition), offset in places.items()]


if __name__ == "__main__":
    try:
        Copier(*sys.argv[1:6]).run()
    except (KafkaException, SystemExit) as why:
        print(why, flush=True)
        os._exit(1)
