"""Applications with the mistakes that people make, each beside the version without the mistake.

Rule: an application is a function of a broker and `right`. It reads `orders`, and most write `billed`; it meets the
same faults in both versions, and sleeps for nobody. What a test says about it is what the checker says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from threading import Event
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as Partition

from pykafka_broker.testing import KafkaBroker

ORDERS = 20
PATIENCE_S = 30


def fill(broker: KafkaBroker, orders: int = ORDERS) -> None:
    """Make the topics, and write the orders, one batch each."""
    broker.create_topic("orders")
    broker.create_topic("billed")
    for number in range(orders):
        broker.produce("orders", [(f"order-{number}", "{}")])


# -- confluent-kafka


@contextmanager
def consumer(broker: KafkaBroker, name: str, topic: str = "orders", **settings: Any) -> Iterator[Consumer]:
    made = Consumer(
        {
            **broker.client_config("confluent"),
            "group.id": "billing",
            "client.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **{setting.replace("_", "."): value for setting, value in settings.items()},
        }
    )
    made.subscribe([topic])
    try:
        yield made
    finally:
        made.close()


def producer(broker: KafkaBroker, name: str, **settings: Any) -> Producer:
    own = {setting.replace("_", "."): value for setting, value in settings.items()}
    return Producer({**broker.client_config("confluent"), "client.id": name, "linger.ms": 0, **own})


def messages(reader: Consumer, most: int) -> Iterator[Message]:
    for _ in range(most):
        message = reader.poll(PATIENCE_S)
        assert message is not None
        assert message.error() is None, message.error()
        yield message


def commit(reader: Consumer, message: Message) -> None:
    reader.commit(message=message, asynchronous=False)


def bill(writer: Producer, message: Message) -> None:
    writer.produce("billed", b"paid", key=message.key())
    assert writer.flush(PATIENCE_S) == 0


def commits_first(broker: KafkaBroker, right: bool) -> None:
    """Commit offsets before the work is done, and crash in between."""
    writer = producer(broker, "biller")
    with consumer(broker, "first") as reader:
        for message in messages(reader, 10):
            if not right:
                commit(reader, message)
            if message.offset() == 9:
                break  # the crash
            bill(writer, message)
            if right:
                commit(reader, message)
    with consumer(broker, "second") as reader:
        for message in messages(reader, ORDERS - (9 if right else 10)):
            bill(writer, message)
            commit(reader, message)


def retries_without_idempotence(broker: KafkaBroker, right: bool) -> None:
    """Send records again that were stored and not acknowledged."""
    broker.faults.add(api="Produce", client_id="biller", error="REQUEST_TIMED_OUT", applied=True, times=1)
    writer = producer(broker, "biller", enable_idempotence=right, retry_backoff_ms=1)
    with consumer(broker, "reader") as reader:
        for message in messages(reader, ORDERS):
            bill(writer, message)
            commit(reader, message)


def swallows_errors(broker: KafkaBroker, right: bool) -> None:
    """Ignore delivery reports, and commit the offsets of orders whose bills could not be written."""
    broker.faults.add(api="Produce", client_id="biller", error="POLICY_VIOLATION", times=1)
    writer = producer(broker, "biller", enable_idempotence=False)
    failed: list[bytes | None] = []

    def report(error: Any, message: Message) -> None:
        if error is not None:
            failed.append(message.key())

    with consumer(broker, "reader") as reader:
        for message in messages(reader, ORDERS):
            writer.produce("billed", b"paid", key=message.key(), on_delivery=report)
            assert writer.flush(PATIENCE_S) == 0
            while right and failed:
                writer.produce("billed", b"paid", key=failed.pop(), on_delivery=report)
                assert writer.flush(PATIENCE_S) == 0
            commit(reader, message)


def reorders(broker: KafkaBroker, right: bool) -> None:
    """Keep several requests under way, and repeat the first of them behind the others."""
    broker.faults.add(api="Produce", client_id="writer", error="NOT_ENOUGH_REPLICAS", times=1)
    pause = {} if right else dict.fromkeys(("retry_backoff_ms", "retry_backoff_max_ms"), 3000)
    writer = producer(broker, "writer", enable_idempotence=right, batch_num_messages=1, **pause)
    for number in range(5):
        writer.produce("orders", str(number).encode(), key=b"late", partition=0)
    assert writer.flush(PATIENCE_S) == 0


def reads_uncommitted(broker: KafkaBroker, right: bool) -> None:
    """Read the records of an aborted transaction."""
    writer = producer(broker, "writer", transactional_id="orders-1")
    writer.init_transactions()
    writer.begin_transaction()
    writer.produce("orders", b"{}", key=b"never", partition=0)
    writer.flush(PATIENCE_S)
    writer.abort_transaction()
    writer.begin_transaction()
    writer.produce("orders", b"{}", key=b"order-20", partition=0)
    writer.commit_transaction()
    biller = producer(broker, "biller")
    level = "read_committed" if right else "read_uncommitted"
    with consumer(broker, "reader", isolation_level=level) as reader:
        for message in messages(reader, ORDERS + (1 if right else 2)):
            bill(biller, message)
            commit(reader, message)


def zombie(broker: KafkaBroker, right: bool) -> None:
    """Go on writing after another process has taken over the work."""
    names = {"transactional_id": "biller"} if right else {}
    old = producer(broker, "old", **names)
    if right:
        old.init_transactions()
        old.begin_transaction()
    with consumer(broker, "first") as reader:
        taken = list(messages(reader, 5))  # and stands still, until its session has expired
    new = producer(broker, "new", **names)
    if right:
        new.init_transactions()
    with consumer(broker, "second") as reader:
        for message in messages(reader, ORDERS):
            if right:
                new.begin_transaction()
            new.produce("billed", b"paid", key=message.key())
            assert new.flush(PATIENCE_S) == 0
            if right:
                offsets = [TopicPartition("orders", 0, (message.offset() or 0) + 1)]
                new.send_offsets_to_transaction(offsets, reader.consumer_group_metadata())
                new.commit_transaction()
            else:
                commit(reader, message)
    for message in taken:  # the paused process wakes up
        old.produce("billed", b"paid", key=message.key())
    with suppress(KafkaException):
        old.flush(PATIENCE_S)
        if right:
            old.commit_transaction()


def commits_the_end(broker: KafkaBroker, right: bool) -> None:
    """Commit the end of the partition instead of the offset that the work has reached."""
    writer = producer(broker, "biller")
    with consumer(broker, "first") as reader:
        for message in messages(reader, ORDERS):
            bill(writer, message)
            commit(reader, message)
        with broker.faults.add(api="Fetch", hang=True):  # so the client can't have got the late record
            broker.produce("orders", [("late", "{}")])
            if not right:
                reader.commit(offsets=[TopicPartition("orders", 0, ORDERS + 1)], asynchronous=False)
                reader.unsubscribe()
    if right:
        with consumer(broker, "second") as reader:
            for message in messages(reader, 1):
                bill(writer, message)
                commit(reader, message)


def shares_its_work(broker: KafkaBroker) -> None:
    """Work with two consumers that come and go, until everything is billed at least once."""
    done = Event()

    def work(name: str, most: int) -> None:
        writer = producer(broker, f"{name}-biller", enable_idempotence=True)
        with consumer(broker, name) as reader:
            while not done.is_set() and most > 0:
                message = reader.poll(0.2)
                if message is not None and message.error() is None:
                    bill(writer, message)
                    most -= 1
                    with suppress(KafkaException):  # the partition's new owner bills the order again
                        commit(reader, message)

    with ThreadPoolExecutor() as threads:
        working = [threads.submit(work, name, most) for name, most in (("first", ORDERS // 3), ("second", 10 * ORDERS))]
        try:
            wanted = {f"order-{number}" for number in range(ORDERS)}
            billed = broker.records("billed")
            while not wanted <= {str(each.key) for each in billed}:
                billed = broker.wait_for_records("billed", len(billed) + 1, timeout=PATIENCE_S)
        finally:
            done.set()
        for each in working:
            each.result()


# -- kafka-python


def rebalance_listener_forgets(broker: KafkaBroker, right: bool) -> None:
    """Lose work when partitions are revoked, since offsets are committed and the bills are not written."""
    writer = KafkaProducer(**broker.client_config("kafka-python"), client_id="biller")
    settings = {
        **broker.client_config("kafka-python"),
        "group_id": "billing",
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }
    reader = KafkaConsumer("orders", **settings, client_id="first", max_poll_records=10)
    pending: list[Any] = []
    while len(pending) < 10:
        for records in reader.poll(PATIENCE_S * 1000).values():
            pending += records
    # Partitions are revoked: the work must be written before the offsets are committed.
    if right:
        for record in pending:
            writer.send("billed", b"paid", key=record.key).get(PATIENCE_S)
    reader.commit({Partition("orders", 0): OffsetAndMetadata(len(pending), "", -1)})
    reader.close()
    second = KafkaConsumer("orders", **settings, client_id="second")
    count = len(pending)
    while count < ORDERS:
        for records in second.poll(PATIENCE_S * 1000).values():
            for record in records:
                writer.send("billed", b"paid", key=record.key).get(PATIENCE_S)
                count += 1
    second.commit()
    second.close()
    writer.close()


def seeks_back(broker: KafkaBroker, right: bool) -> None:
    """Seek to the beginning after an error, and work again on orders whose offsets are committed."""
    writer = KafkaProducer(**broker.client_config("kafka-python"), client_id="biller")
    reader = KafkaConsumer(
        "orders",
        **broker.client_config("kafka-python"),
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        client_id="reader",
    )
    count, failed = 0, False
    while count < ORDERS:
        for records in reader.poll(PATIENCE_S * 1000).values():
            for record in records:
                writer.send("billed", b"paid", key=record.key).get(PATIENCE_S)
                count = record.offset + 1
            reader.commit()
        if count >= ORDERS and not failed and not right:
            failed, count = True, 0
            reader.seek_to_beginning()
    reader.close()
    writer.close()


# -- aiokafka


def commits_automatically(broker: KafkaBroker, right: bool) -> None:
    """Let the client commit while work is still under way, and crash."""
    asyncio.run(_commits_automatically(broker, right))


async def _commits_automatically(broker: KafkaBroker, right: bool) -> None:
    writer = AIOKafkaProducer(**broker.client_config("aiokafka"), client_id="biller")
    await writer.start()
    settings = {**broker.client_config("aiokafka"), "group_id": "billing", "auto_offset_reset": "earliest"}
    first = AIOKafkaConsumer(
        "orders", **settings, client_id="first", enable_auto_commit=not right, auto_commit_interval_ms=50
    )
    await first.start()
    tasks = []
    for number in range(10):
        record = await first.getone()
        if number < 9:  # the last order is still being worked on when the process dies
            tasks.append(asyncio.ensure_future(writer.send_and_wait("billed", b"paid", key=record.key)))
    await asyncio.gather(*tasks)
    if right:
        from aiokafka import TopicPartition as Place

        await first.commit({Place("orders", 0): 9})
    await first.stop()
    second = AIOKafkaConsumer("orders", **settings, client_id="second", enable_auto_commit=False)
    await second.start()
    for _ in range(ORDERS - (9 if right else 10)):
        record = await second.getone()
        await writer.send_and_wait("billed", b"paid", key=record.key)
    await second.commit()
    await second.stop()
    await writer.stop()


Application = Callable[[KafkaBroker, bool], None]
