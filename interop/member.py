"""One member of a consumer group, as a process: python -m interop.member CLIENT BOOTSTRAP GROUP TOPIC SETTINGS

Rule: a value is written to standard output before its offset is committed, so kill -9 repeats records and loses none.
SIGTERM commits and leaves; an error that the client does not get over by itself ends the process. SETTINGS are JSON, in
the client's own names.
"""

import asyncio
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

Read = Callable[[], Sequence[bytes]]
ENDED = threading.Event()


def serve(read: Read, commit: Callable[[], None], refused: type[BaseException]) -> None:
    """Read, write, commit until SIGTERM. A commit that a rebalance or a restart refused is made up for by the next."""
    owed = False
    while not ENDED.is_set():
        values = read()
        if values:
            os.write(1, b"".join(value + b"\n" for value in values))
            owed = True
        if owed:
            try:
                commit()
                owed = False
            except refused as error:
                print(f"not committed: {error!r}", file=sys.stderr)


def confluent(bootstrap: str, group: str, topic: str, settings: dict[str, Any]) -> None:
    from confluent_kafka import Consumer, KafkaError, KafkaException

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **settings,
        }
    )
    consumer.subscribe([topic])

    def read() -> list[bytes]:
        return [m.value() or b"" for m in consumer.consume(1_000, timeout=0.1) if not m.error()]

    def commit() -> None:
        try:
            consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._NO_OFFSET:  # these partitions belong to another member by now
                raise

    serve(read, commit, KafkaException)
    consumer.close()


def kafka_python(bootstrap: str, group: str, topic: str, settings: dict[str, Any]) -> None:
    from kafka import KafkaConsumer
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from kafka.errors import KafkaError, RetriableError

    known = (RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor)
    by_name = {assignor.name: assignor for assignor in (*known, CooperativeStickyAssignor)}
    if "partition_assignment_strategy" in settings:
        settings["partition_assignment_strategy"] = [by_name[n] for n in settings["partition_assignment_strategy"]]
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        **settings,
    )
    # A member forgets its assignment if a poll ends before SyncGroup is answered (docs/troubleshooting.md): here a poll
    # waits for the group as long as that takes.
    wait_for_group = consumer._coordinator.poll
    consumer._coordinator.poll = lambda timeout_ms=None: wait_for_group()

    def read() -> list[bytes]:
        try:
            polled = consumer.poll(timeout_ms=100)
        except RetriableError as error:  # all brokers are away that the client could ask
            print(f"not read: {error!r}", file=sys.stderr)
            return []
        return [record.value for records in polled.values() for record in records]

    serve(read, consumer.commit, KafkaError)
    consumer.close()


def aiokafka(bootstrap: str, group: str, topic: str, settings: dict[str, Any]) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from aiokafka.errors import KafkaError

    known = (RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor)
    by_name = {assignor.name: assignor for assignor in known}
    if "partition_assignment_strategy" in settings:
        settings["partition_assignment_strategy"] = [by_name[n] for n in settings["partition_assignment_strategy"]]
    loop = asyncio.new_event_loop()

    async def start() -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            **settings,
        )
        await consumer.start()
        return consumer

    consumer = loop.run_until_complete(start())

    def read() -> list[bytes]:
        batches = loop.run_until_complete(consumer.getmany(timeout_ms=100))
        return [record.value for records in batches.values() for record in records]

    serve(read, lambda: loop.run_until_complete(consumer.commit()), KafkaError)
    loop.run_until_complete(consumer.stop())


CLIENTS = {"confluent": confluent, "kafka-python": kafka_python, "aiokafka": aiokafka}

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, frame: ENDED.set())  # before the client is even imported
    # When the group is not as it should be, a test shows its clients' logs.
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    name, bootstrap, group, topic, settings = sys.argv[1:6]
    CLIENTS[name](bootstrap, group, topic, json.loads(settings))
