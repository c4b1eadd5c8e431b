"""kafka-python: what producers write, consumers read, by offset, by time, from the ends."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import (
    MessageSizeTooLargeError,
    NoOffsetForPartitionError,
)

CODECS = [None, "gzip", "snappy", "lz4", "zstd"]
Produce = Callable[..., list[Any]]


@pytest.fixture
def produce(bootstrap: str) -> Produce:
    """Send records (values, or keyword arguments of `send`); return their metadata."""

    def send_all(topic: str, records: list[Any], **settings: Any) -> list[Any]:
        with closing(KafkaProducer(bootstrap_servers=bootstrap, **settings)) as producer:
            asked = [r if isinstance(r, dict) else {"value": r} for r in records]
            futures = [producer.send(topic, **record) for record in asked]
            producer.flush(timeout=60)
            return [future.get(timeout=60) for future in futures]

    return send_all


@pytest.fixture
def consumer(bootstrap: str) -> Iterator[KafkaConsumer]:
    with closing(KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")) as c:
        yield c


def read(consumer: KafkaConsumer, count: int, timeout_s: float = 60) -> list[Any]:
    """Return the next `count` records of the assigned partitions."""
    records: list[Any] = []
    deadline = time.monotonic() + timeout_s
    while len(records) < count and time.monotonic() < deadline:
        for batch in consumer.poll(timeout_ms=500).values():
            records += batch
    assert len(records) == count
    return records


@pytest.mark.parametrize("codec", CODECS)
def test_every_compression_comes_back(codec: str | None, topic: str, produce: Produce, consumer: KafkaConsumer) -> None:
    values = [b"%d " % i + b"abc" * 100 for i in range(500)]
    produce(topic, values, compression_type=codec, linger_ms=20, acks="all")
    consumer.assign([TopicPartition(topic, 0)])
    assert [r.value for r in read(consumer, 500)] == values


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_acks_setting_writes(acks: int | str, topic: str, produce: Produce, consumer: KafkaConsumer) -> None:
    sent = produce(topic, [b"a", b"b"], acks=acks, enable_idempotence=False)
    if acks != 0:  # with acks=0 nothing comes back, and the client makes the offsets up
        assert [m.offset for m in sent] == [0, 1]
    consumer.assign([TopicPartition(topic, 0)])
    assert [(r.offset, r.value) for r in read(consumer, 2)] == [(0, b"a"), (1, b"b")]


def test_keys_headers_tombstones_and_timestamps(topic: str, produce: Produce, consumer: KafkaConsumer) -> None:
    headers = [("one", b"1"), ("one", b"again"), ("empty", b""), ("nöch", b"\xff\x00")]
    produce(
        topic,
        [
            {"key": b"k", "value": b"v", "headers": headers, "timestamp_ms": 1_000_000_000_001},
            {"key": b"k", "value": None, "timestamp_ms": 999},
            {"key": None, "value": b"", "timestamp_ms": 1_500_000_000_000},
        ],
    )
    consumer.assign([TopicPartition(topic, 0)])
    first, tombstone, empty = read(consumer, 3)
    assert (first.key, first.value, list(first.headers)) == (b"k", b"v", headers)
    assert (first.timestamp, first.timestamp_type) == (1_000_000_000_001, 0)
    assert (tombstone.key, tombstone.value, tombstone.timestamp) == (b"k", None, 999)
    assert (empty.key, empty.value) == (None, b"")


def test_keys_choose_the_partition(make_topic: Any, produce: Produce, consumer: KafkaConsumer) -> None:
    topic = make_topic(partitions=5)
    sent = produce(topic, [{"key": b"key-%d" % (i % 7), "value": b"%d" % i} for i in range(70)])
    assert len({m.partition for m in sent}) > 1
    consumer.assign([TopicPartition(topic, p) for p in range(5)])
    by_key: dict[bytes, list[Any]] = {}
    for record in read(consumer, 70):
        by_key.setdefault(record.key, []).append(record)
    for same_key in by_key.values():
        assert len({r.partition for r in same_key}) == 1
        assert [int(r.value) for r in same_key] == sorted(int(r.value) for r in same_key)


def test_an_idempotent_producer(topic: str, produce: Produce, consumer: KafkaConsumer) -> None:
    values = [b"%d" % i for i in range(2000)]
    sent = produce(topic, values, enable_idempotence=True, acks="all", batch_size=2000)
    assert [m.offset for m in sent] == list(range(2000))
    consumer.assign([TopicPartition(topic, 0)])
    assert [r.value for r in read(consumer, 2000)] == values


def test_seek_and_position(topic: str, produce: Produce, consumer: KafkaConsumer) -> None:
    produce(topic, [b"%d" % i for i in range(100)], linger_ms=20)  # one batch: a seek lands in the middle of it
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek(partition, 42)
    assert [r.offset for r in read(consumer, 58)] == list(range(42, 100))
    assert consumer.position(partition) == 100
    consumer.seek_to_beginning(partition)
    assert consumer.position(partition) == 0
    consumer.seek_to_end(partition)
    assert consumer.position(partition) == 100
    assert consumer.poll(timeout_ms=100) == {}


def test_beginning_and_end_offsets(make_topic: Any, produce: Produce, consumer: KafkaConsumer) -> None:
    topic = make_topic(partitions=2)
    produce(topic, [{"value": b"x", "partition": 1} for _ in range(3)])
    both = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    assert consumer.beginning_offsets(both) == {both[0]: 0, both[1]: 0}
    assert consumer.end_offsets(both) == {both[0]: 0, both[1]: 3}


def test_offsets_for_times(topic: str, produce: Produce, consumer: KafkaConsumer) -> None:
    times = [1000, 2000, 1500, 3000, 3000]
    for timestamp in times:
        produce(topic, [{"value": b"x", "timestamp_ms": timestamp}])
    partition = TopicPartition(topic, 0)

    def at(timestamp: int) -> tuple[int, int] | None:
        found = consumer.offsets_for_times({partition: timestamp})[partition]
        return None if found is None else (found.offset, found.timestamp)

    assert at(0) == (0, 1000)
    assert at(1000) == (0, 1000)
    assert at(1001) == (1, 2000)
    assert at(2001) == (3, 3000)
    assert at(3001) is None


def test_offsets_for_times_inside_a_batch(topic: str, produce: Produce, consumer: KafkaConsumer) -> None:
    produce(topic, [{"value": b"x", "timestamp_ms": 1000 + i} for i in range(50)], linger_ms=50)
    partition = TopicPartition(topic, 0)
    found = consumer.offsets_for_times({partition: 1033})[partition]
    assert (found.offset, found.timestamp) == (33, 1033)


def test_log_append_time(make_topic: Any, produce: Produce, consumer: KafkaConsumer) -> None:
    topic = make_topic(message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    [sent] = produce(topic, [{"value": b"x", "timestamp_ms": before - 60_000}])
    after = int(time.time() * 1000)
    consumer.assign([TopicPartition(topic, 0)])
    [record] = read(consumer, 1)
    assert (record.timestamp, record.timestamp_type) == (sent.timestamp, 1)
    assert before <= record.timestamp <= after


def test_the_first_batch_is_returned_above_every_limit(topic: str, produce: Produce, bootstrap: str) -> None:
    big = b"x" * 900_000
    produce(topic, [big, big])
    with closing(
        KafkaConsumer(bootstrap_servers=bootstrap, max_partition_fetch_bytes=1000, fetch_max_bytes=1000)
    ) as small_bites:
        small_bites.assign([TopicPartition(topic, 0)])
        small_bites.seek(TopicPartition(topic, 0), 0)
        assert [len(r.value) for r in read(small_bites, 2)] == [900_000, 900_000]


def test_a_batch_above_max_message_bytes_is_refused(topic: str, bootstrap: str) -> None:
    with (
        closing(KafkaProducer(bootstrap_servers=bootstrap, max_request_size=4_000_000)) as producer,
        pytest.raises(MessageSizeTooLargeError),
    ):
        producer.send(topic, b"x" * 2_000_000).get(timeout=60)


def test_a_topic_may_allow_larger_batches(make_topic: Any, produce: Produce, consumer: KafkaConsumer) -> None:
    topic = make_topic(max_message_bytes=5_000_000)
    produce(topic, [b"x" * 3_000_000], max_request_size=4_000_000)
    consumer.assign([TopicPartition(topic, 0)])
    assert len(read(consumer, 1)[0].value) == 3_000_000


def test_producing_creates_the_topic(bootstrap: str, produce: Produce, consumer: KafkaConsumer) -> None:
    produce("auto-created", [b"hello"])
    consumer.assign([TopicPartition("auto-created", 0)])
    assert read(consumer, 1)[0].value == b"hello"


def test_an_offset_out_of_range_with_no_reset(topic: str, produce: Produce, bootstrap: str) -> None:
    produce(topic, [b"x"])
    with closing(KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="none")) as strict:
        strict.assign([TopicPartition(topic, 0)])
        with pytest.raises(NoOffsetForPartitionError):
            strict.poll(timeout_ms=60_000)


def test_metadata_of_topics_and_partitions(make_topic: Any, consumer: KafkaConsumer) -> None:
    topic = make_topic(partitions=3)
    assert topic in consumer.topics()
    assert consumer.partitions_for_topic(topic) == {0, 1, 2}


def test_a_waiting_consumer_is_woken_by_an_append(topic: str, bootstrap: str, produce: Produce) -> None:
    with closing(KafkaConsumer(bootstrap_servers=bootstrap, fetch_max_wait_ms=25_000)) as waiting:
        waiting.assign([TopicPartition(topic, 0)])
        waiting.seek(TopicPartition(topic, 0), 0)
        assert waiting.poll(timeout_ms=500) == {}  # its fetch stays parked
        produce(topic, [b"wake"])
        assert read(waiting, 1)[0].value == b"wake"
