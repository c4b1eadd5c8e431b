"""Odd histories of real clients that are right: what each does looks like an anomaly at first sight, and is none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import closing
from time import monotonic
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import AcknowledgeType, Consumer, KafkaException, ShareConsumer, TopicPartition
from kafka import KafkaProducer
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as KafkaPartition

from pykafka_broker.cli import main
from pykafka_broker.testing import KafkaBroker
from tests.control.history.clients import (
    PATIENCE_S,
    History,
    consumer,
    know_partitions,
    polled,
    producer,
    python_consumer,
    read,
    read_once,
    transacting,
    write,
)


def transactions_that_abort_and_are_tried_again(broker: KafkaBroker) -> None:
    made = transacting(broker)
    for attempt in range(3):
        made.begin_transaction()
        write(made, "paid")
        if attempt < 2:
            made.abort_transaction(PATIENCE_S)
    made.commit_transaction(PATIENCE_S)
    read_once(broker, 1, isolation_level="read_committed")


def a_seek_back_to_what_is_not_committed(broker: KafkaBroker) -> None:
    broker.produce("orders", list("abcde"))
    with closing(python_consumer(broker)) as made:
        made.subscribe(["orders"])
        polled(made, 2)
        made.commit()
        for _ in range(3):
            polled(made, 3)
            made.seek(KafkaPartition("orders", 0), 2)
        polled(made, 3)
        made.commit()


def a_group_that_begins_at_the_end_until_it_commits(broker: KafkaBroker) -> None:
    broker.produce("orders", list("abc"))
    for value in "xyz":
        with closing(python_consumer(broker, auto_offset_reset="latest")) as made:
            made.subscribe(["orders"])
            know_partitions(made)
            until = monotonic() + PATIENCE_S
            while not made.assignment():
                assert monotonic() < until
                made.poll(1000)  # a rebalance that outlasts a poll leaves kafka-python 3.0.12 without partitions
            made.position(KafkaPartition("orders", 0))
            broker.produce("orders", [value])
            polled(made, 1)
            if value == "z":
                made.commit()
        broker.produce("orders", ["missed"])


def a_compacted_topic(broker: KafkaBroker) -> None:
    broker.create_topic("orders", config={"cleanup.policy": "compact"})
    made = producer(broker)
    for value in "abcd":
        write(made, value, key="one")
        write(made, value, key=value)
    write(made, "", key="a")
    broker.compact("orders")
    read_once(broker, 4)
    write(made, "e", key="one")
    broker.compact("orders")
    read_once(broker, 1)


def records_that_are_deleted_before_they_are_read(broker: KafkaBroker) -> None:
    made = producer(broker)
    write(made, *"abcdef")
    read_once(broker, 2)
    broker.delete_records("orders", 4)
    read_once(broker, 2)
    broker.delete_records("orders", 6)
    write(made, "g")
    read_once(broker, 1)


def records_that_retention_removes_as_the_clock_moves(broker: KafkaBroker) -> None:
    broker.create_topic("orders", config={"retention.ms": 3_600_000, "segment.ms": 60_000})
    made = producer(broker)
    write(made, *"abc")
    read_once(broker, 1)
    broker.clock.advance(hours=3)
    broker.produce("orders", ["d"])
    broker.apply_retention("orders")
    read_once(broker, 1)


def partitions_that_are_added_under_its_clients(broker: KafkaBroker) -> None:
    async def run() -> None:
        at = broker.client_config("aiokafka")
        reading = {"group_id": "billing", "client_id": "reader", "metadata_max_age_ms": 100}
        reader = AIOKafkaConsumer("orders", **at, **reading, auto_offset_reset="earliest", enable_auto_commit=False)
        async with AIOKafkaProducer(**at, client_id="writer") as writer, reader:
            await writer.send_and_wait("orders", b"a", partition=0)
            await reader.getone()
            await reader.commit()
            await asyncio.to_thread(broker.add_partitions, "orders", total=3)
            await writer.client.force_metadata_update()
            for partition in range(3):
                await writer.send_and_wait("orders", b"b", partition=partition)
            for _ in range(3):
                await asyncio.wait_for(reader.getone(), PATIENCE_S)
            await reader.commit()

    broker.create_topic("orders")
    asyncio.run(run())


def a_static_member_that_comes_back(broker: KafkaBroker) -> None:
    write(producer(broker), *"abcd")
    for _ in range(2):
        read_once(broker, 2, group_instance_id="first")


def rebalances_of_cooperative_members(broker: KafkaBroker) -> None:
    broker.create_topic("orders", 2)
    settings: dict[str, Any] = {"partition_assignment_strategy": "cooperative-sticky", "heartbeat_interval_ms": 100}
    made = producer(broker)
    with closing(consumer(broker, client_id="one", **settings)) as one:
        for partition in (0, 1):
            write(made, "a", partition=partition)
        read(one, 2)
        with closing(consumer(broker, client_id="two", **settings)) as two:
            until = monotonic() + PATIENCE_S
            while not (one.assignment() and two.assignment()):
                assert monotonic() < until
                for each in (one, two):
                    each.poll(0.05)
            for partition in (0, 1):
                write(made, "b", partition=partition)
            for each in (one, two):
                read(each, 1)
        for partition in (0, 1):
            write(made, "c", partition=partition)
        read(one, 2)


def a_share_group_that_releases_and_restarts(broker: KafkaBroker) -> None:
    broker.produce("orders", ["a", "b"])
    begin = ("--alter", "--entity-type", "groups", "--entity-name", "workers", "--add-config")
    earliest = "share.auto.offset.reset=earliest"
    assert main(["configs", "--bootstrap-server", broker.bootstrap_servers, *begin, earliest]) == 0
    settings = {"group.id": "workers", "client.id": "worker", "share.acknowledgement.mode": "explicit"}
    for release in (True, False):
        with closing(ShareConsumer({**broker.client_config("confluent"), **settings})) as made:
            made.subscribe(["orders"])
            taken, until = 0, monotonic() + PATIENCE_S
            while taken < 2:
                assert monotonic() < until
                for message in made.poll(0.2):
                    made.acknowledge(message, AcknowledgeType.RELEASE if release else AcknowledgeType.ACCEPT)
                    taken += 1
                made.commit_sync(PATIENCE_S)


def a_producer_that_wants_no_answers(broker: KafkaBroker) -> None:
    broker.create_topic("orders")
    with closing(KafkaProducer(**broker.client_config("kafka-python"), acks=0, enable_idempotence=False)) as made:
        for value in (b"a", b"a", b"b"):
            made.send("orders", value)
        made.flush(PATIENCE_S)
    broker.wait_for_records("orders", 3)
    read_once(broker, 3)


def a_reader_that_passes_over_what_is_not_committed(broker: KafkaBroker) -> None:
    made = transacting(broker)
    made.begin_transaction()
    write(made, "a")
    made.commit_transaction(PATIENCE_S)
    read_once(broker, 1, isolation_level="read_uncommitted")
    made.begin_transaction()
    write(made, "b")
    made.abort_transaction(PATIENCE_S)
    made.begin_transaction()
    write(made, "c")
    made.commit_transaction(PATIENCE_S)
    read_once(broker, 1, isolation_level="read_committed")


def a_topic_that_is_deleted_and_made_again_under_its_clients(broker: KafkaBroker) -> None:
    made = producer(broker)
    for values in ("abcd", "a"):
        broker.create_topic("orders")
        write(made, *values)
        read_once(broker, len(values))
        broker.delete_topic("orders")
        made.poll(0)


def a_mirror_that_keeps_headers_and_timestamps(broker: KafkaBroker) -> None:
    made = producer(broker)
    for number in range(3):
        made.produce("orders", b"same", headers={"id": str(number)}, timestamp=1_700_000_000_000)
        assert made.flush(PATIENCE_S) == 0
    with closing(consumer(broker)) as reader:
        for _ in range(3):
            record = reader.poll(PATIENCE_S)
            assert record is not None
            made.produce("copies", record.value(), headers=record.headers(), timestamp=record.timestamp()[1])
            assert made.flush(PATIENCE_S) == 0
            reader.commit(message=record, asynchronous=False)
    assert broker.check(input="orders", output="copies", key="header:id", order=lambda _: "all") == []


def records_without_keys_and_without_values(broker: KafkaBroker) -> None:
    made = producer(broker)
    for key, value in ((None, None), (None, b""), (b"", None), (b"a", None), (b"a", b"b")):
        made.produce("orders", value, key)
        assert made.flush(PATIENCE_S) == 0
    read_once(broker, 5)


def timestamps_of_the_broker(broker: KafkaBroker) -> None:
    broker.create_topic("orders", config={"message.timestamp.type": "LogAppendTime"})
    for made in (producer(broker), producer(broker, enable_idempotence=True)):
        write(made, "a", "a", "a")
    read_once(broker, 6)


def the_same_batch_on_purpose(broker: KafkaBroker) -> None:
    made = producer(broker)
    for _ in range(3):
        made.produce("orders", b"tick", timestamp=1_700_000_000_000)
        assert made.flush(PATIENCE_S) == 0


def the_same_batch_of_producers_that_are_not_answered(broker: KafkaBroker) -> None:
    broker.create_topic("orders")
    settings = {"acks": 0, "retries": 0}
    for client_id in ("one", "one", "two"):
        made = producer(broker, **settings, client_id=client_id)
        for value in "ab":
            made.produce("orders", value, timestamp=1_700_000_000_000)
            assert made.flush(PATIENCE_S) == 0
    broker.wait_for_records("orders", 6)


def the_same_batch_of_others_after_a_refused_one(broker: KafkaBroker) -> None:
    broker.create_topic("orders")
    broker.faults.add(api="Produce", error="TOPIC_AUTHORIZATION_FAILED", times=1)
    for client_id in ("one", "two", "three"):
        made = producer(broker, client_id=client_id)
        made.produce("orders", "tick", timestamp=1_700_000_000_000)
        assert made.flush(PATIENCE_S) == 0


def a_compacted_topic_that_is_compacted_no_more(broker: KafkaBroker) -> None:
    broker.create_topic("orders", config={"cleanup.policy": "compact"})
    made = producer(broker)
    for value in "abcd":
        write(made, value, key="one")
    broker.compact("orders")
    broker.alter_config("orders", {"cleanup.policy": "delete"})
    write(made, "e", key="one")
    read_once(broker, 2)


def batches_that_the_broker_compresses(broker: KafkaBroker) -> None:
    broker.create_topic("orders", config={"compression.type": "gzip"})
    for settings in ({}, {"enable_idempotence": True}, {"compression_type": "lz4"}):
        made = producer(broker, **settings)
        for _ in range(2):
            made.produce("orders", b"x" * 500, timestamp=1_700_000_000_000)
            assert made.flush(PATIENCE_S) == 0
    read_once(broker, 6)


def transactions_while_the_clock_is_set_back(broker: KafkaBroker) -> None:
    made = {name: transacting(broker, name) for name in ("one", "two")}
    now_ms = broker.clock.advance(minutes=10)
    for minutes in (0, 4, 8):
        broker.clock.set(now_ms - minutes * 60_000)
        for name, each in made.items():
            each.begin_transaction()
            write(each, name)
            each.commit_transaction(PATIENCE_S)
        with closing(consumer(broker, isolation_level="read_committed")) as reader:
            read(reader, 2)
    assert broker.check(forbid=["write cycle"]) == []


def an_operator_with_the_client_id_of_the_consumers(broker: KafkaBroker) -> None:
    write(producer(broker), *"abcdef")
    read_once(broker, 6)
    settings = {**broker.client_config("confluent"), "group.id": "billing", "client.id": "reader"}
    with closing(Consumer(settings)) as operator:
        operator.commit(offsets=[TopicPartition("orders", 0, 2)], asynchronous=False)
    read_once(broker, 4)


def retries_of_an_idempotent_producer(broker: KafkaBroker) -> None:
    broker.create_topic("orders")
    made = producer(broker, enable_idempotence=True)
    write(made, "a")
    broker.faults.add(api="Produce", drop="after", times=1)
    broker.faults.add(api="Produce", error="REQUEST_TIMED_OUT", applied=True, nth=3)
    broker.faults.add(api="Produce", error="NOT_LEADER_OR_FOLLOWER", nth=4)
    for value in "bcdef":
        made.produce("orders", value)
    assert made.flush(PATIENCE_S) == 0


def reading_and_writing_in_transactions_that_abort(broker: KafkaBroker) -> None:
    broker.produce("orders", list("abc"))
    made = transacting(broker)
    with closing(consumer(broker, isolation_level="read_committed")) as reader:
        for abort in (True, False):
            made.begin_transaction()
            values = read(reader, 3, commit=False)
            write(made, *values, topic="billed")
            made.send_offsets_to_transaction(
                reader.position(reader.assignment()), reader.consumer_group_metadata(), PATIENCE_S
            )
            if abort:
                made.abort_transaction(PATIENCE_S)
                for place in reader.committed(reader.assignment(), PATIENCE_S):
                    reader.seek(TopicPartition(place.topic, place.partition, max(place.offset, 0)))
            else:
                made.commit_transaction(PATIENCE_S)
    assert broker.check(input="orders", output="billed", key="value") == []


def a_member_that_takes_over_what_another_had_not_committed(broker: KafkaBroker) -> None:
    write(producer(broker), *"abcdef")
    with closing(consumer(broker, client_id="one")) as one:
        read(one, 2)
        read(one, 3, commit=False)
    read_once(broker, 4, client_id="two")


def an_operator_who_sets_a_group_back_and_forth(broker: KafkaBroker) -> None:
    write(producer(broker), *"abcdef")
    read_once(broker, 6)
    broker.reset_offsets("billing", "orders", to="earliest")
    read_once(broker, 2)
    broker.commit("billing", "orders", 5)
    read_once(broker, 1)
    broker.delete_group("billing")
    read_once(broker, 6)


def two_groups_of_one_client_id(broker: KafkaBroker) -> None:
    write(producer(broker), *"abcd")
    read_once(broker, 4)
    read_once(broker, 2, "mailing")
    read_once(broker, 2, "mailing")


def a_producer_that_is_replaced(broker: KafkaBroker) -> None:
    old = transacting(broker)
    old.begin_transaction()
    write(old, "old")
    made = transacting(broker)
    made.begin_transaction()
    write(made, "new")
    made.commit_transaction(PATIENCE_S)
    old.produce("orders", b"late")
    with pytest.raises(KafkaException, match="fenced"):
        old.flush(PATIENCE_S)
    read_once(broker, 1, isolation_level="read_committed")


def commits_of_the_same_offset_and_with_notes(broker: KafkaBroker) -> None:
    write(producer(broker), *"ab")
    with closing(python_consumer(broker)) as made:
        made.subscribe(["orders"])
        polled(made, 2)
        for note in ("one", "two", ""):
            made.commit({KafkaPartition("orders", 0): OffsetAndMetadata(2, note, -1)})


def a_reader_without_a_group(broker: KafkaBroker) -> None:
    write(producer(broker), *"abcd")
    read_once(broker, 4)
    with closing(python_consumer(broker, group_id=None, client_id="other")) as made:
        made.assign([KafkaPartition("orders", 0)])
        for offset in (3, 0, 2):
            made.seek(KafkaPartition("orders", 0), offset)
            polled(made, 1)


def large_compressed_batches_of_many_partitions(broker: KafkaBroker) -> None:
    broker.create_topic("orders", 3)
    made = producer(broker, linger_ms=20, compression_type="lz4", batch_size=2000)
    for number in range(300):
        made.produce("orders", b"x" * 100, str(number), partition=number % 3)
    assert made.flush(PATIENCE_S) == 0
    read_once(broker, 300)


RIGHT: Iterable[History] = (
    transactions_that_abort_and_are_tried_again,
    a_seek_back_to_what_is_not_committed,
    a_group_that_begins_at_the_end_until_it_commits,
    a_compacted_topic,
    records_that_are_deleted_before_they_are_read,
    records_that_retention_removes_as_the_clock_moves,
    partitions_that_are_added_under_its_clients,
    a_static_member_that_comes_back,
    rebalances_of_cooperative_members,
    a_share_group_that_releases_and_restarts,
    a_producer_that_wants_no_answers,
    a_reader_that_passes_over_what_is_not_committed,
    a_topic_that_is_deleted_and_made_again_under_its_clients,
    a_mirror_that_keeps_headers_and_timestamps,
    records_without_keys_and_without_values,
    timestamps_of_the_broker,
    the_same_batch_on_purpose,
    the_same_batch_of_producers_that_are_not_answered,
    the_same_batch_of_others_after_a_refused_one,
    a_compacted_topic_that_is_compacted_no_more,
    batches_that_the_broker_compresses,
    transactions_while_the_clock_is_set_back,
    an_operator_with_the_client_id_of_the_consumers,
    retries_of_an_idempotent_producer,
    reading_and_writing_in_transactions_that_abort,
    a_member_that_takes_over_what_another_had_not_committed,
    an_operator_who_sets_a_group_back_and_forth,
    two_groups_of_one_client_id,
    a_producer_that_is_replaced,
    commits_of_the_same_offset_and_with_notes,
    a_reader_without_a_group,
    large_compressed_batches_of_many_partitions,
)


@pytest.mark.parametrize("history", RIGHT, ids=lambda each: each.__name__)
def test_an_odd_history_that_is_right_is_not_accused(broker: KafkaBroker, history: History) -> None:
    history(broker)
    assert [line for each in broker.check(raises=False) for line in each.lines] == []
