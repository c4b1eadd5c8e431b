"""Wrong histories of real clients: each is accused, of one thing and by its right name."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import closing

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import TopicPartition as AioPartition
from confluent_kafka import TopicPartition
from kafka import KafkaProducer
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as KafkaPartition

from pykafka_broker.records.header import iter_batches
from pykafka_broker.testing import KafkaBroker
from pykafka_broker.testing.history import Questions
from tests.control.history.clients import (
    PATIENCE_S,
    History,
    consumer,
    polled,
    producer,
    python_consumer,
    read,
    read_once,
    transacting,
    write,
)


def cut_last_batch(broker: KafkaBroker, topic: str = "orders") -> None:
    """Take the last batch from a log, as a disk does that has lied about its syncs."""
    broker.stop()
    (log,) = (broker.data_dir / f"{topic}-0").glob("*.log")
    *kept, _ = [bytes(batch) for _, batch in iter_batches(log.read_bytes())]
    log.write_bytes(b"".join(kept))
    for index in log.parent.glob("*.*index"):
        index.unlink()
    broker.start()


def a_record_that_the_disk_has_lost(broker: KafkaBroker) -> None:
    write(producer(broker), "a", "b")
    cut_last_batch(broker)


def a_record_of_an_idempotent_producer_that_the_disk_has_lost(broker: KafkaBroker) -> None:
    broker.create_topic("orders", config={"message.timestamp.type": "LogAppendTime"})
    write(producer(broker, enable_idempotence=True), "a", "b")
    cut_last_batch(broker)


def another_record_in_the_place_of_a_lost_one(broker: KafkaBroker) -> None:
    write(producer(broker), "a", "b")
    cut_last_batch(broker)
    write(producer(broker), "c")


def a_retry_without_idempotence(broker: KafkaBroker) -> None:
    broker.create_topic("orders")
    broker.faults.add(api="Produce", error="REQUEST_TIMED_OUT", applied=True, times=1)
    settings = {"enable_idempotence": False, "acks": "all"}
    with closing(KafkaProducer(**broker.client_config("kafka-python"), **settings)) as made:
        made.send("orders", b"once").get(timeout=PATIENCE_S)


def a_retry_after_a_lost_connection(broker: KafkaBroker) -> None:
    async def run() -> None:
        async with AIOKafkaProducer(**broker.client_config("aiokafka"), acks="all") as made:
            await made.send_and_wait("orders", b"first")
            broker.faults.add(api="Produce", drop="after", times=1)
            await made.send_and_wait("orders", b"once")

    asyncio.run(run())


def a_retry_where_the_broker_sets_timestamps(broker: KafkaBroker) -> None:
    broker.create_topic("orders", config={"message.timestamp.type": "LogAppendTime"})
    broker.faults.add(api="Produce", error="REQUEST_TIMED_OUT", applied=True, times=1)
    made = producer(broker, linger_ms=60_000, compression_type="gzip")  # one batch, sent by the flush
    for value in "abc":
        made.produce("orders", value * 50)
    assert made.flush(PATIENCE_S) == 0


def a_retry_that_others_overtake(broker: KafkaBroker) -> None:
    broker.create_topic("orders")
    made = producer(broker, batch_num_messages=1)
    write(made, "first")
    # Until the refusal even a busy machine has sent the others: librdkafka keeps the order of what it has not sent.
    broker.faults.add(api="Produce", error="NOT_LEADER_OR_FOLLOWER", delay_ms=2000, times=1)
    for value in "abc":
        made.produce("orders", value)
    assert made.flush(PATIENCE_S) == 0


def a_reader_of_an_aborted_transaction(broker: KafkaBroker) -> None:
    made = transacting(broker)
    made.begin_transaction()
    write(made, "never")
    made.abort_transaction(PATIENCE_S)
    read_once(broker, 1, isolation_level="read_uncommitted")


def a_reader_of_an_open_transaction(broker: KafkaBroker) -> None:
    async def run() -> None:
        at = broker.client_config("aiokafka")
        reading = {"auto_offset_reset": "earliest", "client_id": "reader"}
        async with AIOKafkaProducer(**at, transactional_id="writer") as made, made.transaction():
            await made.send_and_wait("orders", b"soon")
            async with AIOKafkaConsumer("orders", **at, **reading) as reader:
                await asyncio.wait_for(reader.getone(), PATIENCE_S)

    broker.create_topic("orders")
    asyncio.run(run())


def a_reader_of_what_a_producer_has_given_up(broker: KafkaBroker) -> None:
    broker.create_topic("orders")
    broker.faults.add(api="Produce", error="TOPIC_AUTHORIZATION_FAILED", applied=True, times=1)
    made = producer(broker, retries=0)
    made.produce("orders", "unsure")
    made.flush(PATIENCE_S)
    read_once(broker, 1)


def a_seek_past_what_is_not_read(broker: KafkaBroker) -> None:
    write(producer(broker), *"abcdef")
    with closing(python_consumer(broker, max_partition_fetch_bytes=100)) as made:
        made.subscribe(["orders"])
        polled(made, 1)
        made.commit()
        made.seek(KafkaPartition("orders", 0), 5)
        polled(made, 1)
        made.commit()


def a_transaction_that_leaves_out_records(broker: KafkaBroker) -> None:
    write(producer(broker), *"abcdef")
    made = transacting(broker, "biller")
    with closing(consumer(broker, fetch_message_max_bytes=100, queued_min_messages=1)) as reader:
        read(reader, 1)
        reader.seek(TopicPartition("orders", 0, 5))
        made.begin_transaction()
        read(reader, 1, commit=False)
        places = reader.position(reader.assignment())
        made.send_offsets_to_transaction(places, reader.consumer_group_metadata(), PATIENCE_S)
        made.commit_transaction(PATIENCE_S)


def a_commit_of_the_end(broker: KafkaBroker) -> None:
    async def run() -> None:
        at = broker.client_config("aiokafka")
        settings = {"group_id": "billing", "auto_offset_reset": "earliest", "enable_auto_commit": False}
        async with AIOKafkaConsumer("orders", **at, **settings, max_partition_fetch_bytes=80) as reader:
            await asyncio.wait_for(reader.getone(), PATIENCE_S)
            place = AioPartition("orders", 0)
            reader.pause(place)
            write(producer(broker), *"xyz")
            await reader.commit({place: (await reader.end_offsets([place]))[place]})

    write(producer(broker), *"abcdef")
    asyncio.run(run())


def a_seek_to_the_beginning_after_an_error(broker: KafkaBroker) -> None:
    write(producer(broker), *"abcd")
    with closing(python_consumer(broker)) as made:
        made.subscribe(["orders"])
        polled(made, 4)
        made.commit()
        made.seek_to_beginning()
        polled(made, 4)


def a_commit_that_comes_late(broker: KafkaBroker) -> None:
    write(producer(broker), *"abcd")
    with closing(python_consumer(broker)) as made:
        made.subscribe(["orders"])
        polled(made, 4)
        for offset in (4, 2):
            made.commit({KafkaPartition("orders", 0): OffsetAndMetadata(offset, "", -1)})


def transactions_that_read_each_other(broker: KafkaBroker) -> None:
    broker.create_topic("orders", 2)
    made = {name: transacting(broker, name) for name in ("one", "two")}
    for partition, each in enumerate(made.values()):
        each.begin_transaction()
        write(each, "mine", partition=partition)
    for partition, (name, each) in enumerate(made.items()):
        with closing(consumer(broker, name, client_id=name, isolation_level="read_uncommitted")) as reader:
            reader.unsubscribe()
            reader.assign([TopicPartition("orders", 1 - partition, 0)])
            read(reader, 1, commit=False)
            read_to = [TopicPartition("orders", 1 - partition, 1)]
            each.send_offsets_to_transaction(read_to, reader.consumer_group_metadata(), PATIENCE_S)
    for each in made.values():
        each.commit_transaction(PATIENCE_S)


def transactions_that_write_in_different_orders(broker: KafkaBroker) -> None:
    broker.create_topic("orders", 2)
    made = [transacting(broker, name) for name in ("one", "two")]
    for each in made:
        each.begin_transaction()
    for order in ((0, 1), (1, 0)):
        for partition, each in zip(order, made, strict=True):
            write(each, "mine", partition=partition)
    for each in made:
        each.commit_transaction(PATIENCE_S)


def a_group_that_is_behind(broker: KafkaBroker) -> None:
    write(producer(broker), *"abc")
    read_once(broker, 3)
    write(producer(broker), "d")


def billed(broker: KafkaBroker, *values: str, partitions: Iterable[int] = ()) -> None:
    """Read the orders a, b and c, and write what a wrong application would write."""
    broker.create_topic("billed", 2)
    made = producer(broker)
    for value in "abc":
        write(made, value, key="one")
    read_once(broker, 3)
    for value, partition in zip(values, [*partitions] or [0] * len(values), strict=True):
        write(made, value, topic="billed", key="one", partition=partition)


def an_application_that_leaves_out_a_record(broker: KafkaBroker) -> None:
    billed(broker, "a", "c")


def an_application_that_writes_a_record_twice(broker: KafkaBroker) -> None:
    billed(broker, "a", "b", "b", "c")


def an_application_that_makes_records_up(broker: KafkaBroker) -> None:
    billed(broker, "a", "b", "c", "d")


def an_application_whose_threads_overtake_each_other(broker: KafkaBroker) -> None:
    billed(broker, "b", "a", "c")


def an_application_that_spreads_a_key(broker: KafkaBroker) -> None:
    billed(broker, "a", "b", "c", partitions=(0, 1, 0))


APPLICATION: Questions = {"input": "orders", "output": "billed", "key": "value"}
IN_ORDER: Questions = {**APPLICATION, "order": "key"}
WRONG: Iterable[tuple[History, str, Questions]] = (
    (a_record_that_the_disk_has_lost, "lost write", {}),
    (a_record_of_an_idempotent_producer_that_the_disk_has_lost, "lost write", {}),
    (another_record_in_the_place_of_a_lost_one, "inconsistent offsets", {}),
    (a_retry_without_idempotence, "duplicate", {}),
    (a_retry_after_a_lost_connection, "duplicate", {}),
    (a_retry_where_the_broker_sets_timestamps, "duplicate", {}),
    (a_retry_that_others_overtake, "out of order", {}),
    (a_reader_of_an_aborted_transaction, "aborted read", {}),
    (a_reader_of_an_open_transaction, "precommitted read", {}),
    (a_reader_of_what_a_producer_has_given_up, "unacknowledged read", {"forbid": ["unacknowledged read"]}),
    (a_seek_past_what_is_not_read, "poll skip", {}),
    (a_transaction_that_leaves_out_records, "poll skip", {}),
    (a_commit_of_the_end, "commit ahead of fetch", {}),
    (a_seek_to_the_beginning_after_an_error, "nonmonotonic poll", {}),
    (a_commit_that_comes_late, "nonmonotonic commit", {}),
    (transactions_that_read_each_other, "circular information flow", {"allow": ["precommitted read"]}),
    (transactions_that_write_in_different_orders, "write cycle", {"forbid": ["write cycle"]}),
    (a_group_that_is_behind, "unseen", {"seen_by": "billing"}),
    (an_application_that_leaves_out_a_record, "lost", APPLICATION),
    (an_application_that_writes_a_record_twice, "doubled", APPLICATION),
    (an_application_that_makes_records_up, "invented", APPLICATION),
    (an_application_whose_threads_overtake_each_other, "out of order", IN_ORDER),
    (an_application_that_spreads_a_key, "split key", IN_ORDER),
)


@pytest.mark.parametrize(("history", "anomaly", "asked"), WRONG, ids=lambda each: getattr(each, "__name__", ""))
def test_a_wrong_history_is_accused_by_its_name(
    broker: KafkaBroker, history: History, anomaly: str, asked: Questions
) -> None:
    history(broker)
    assert {each.anomaly for each in broker.check(**asked, raises=False)} == {anomaly}
