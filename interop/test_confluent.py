"""confluent-kafka, that is librdkafka: produce and consume with everything that it can ask of a single broker."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
Produce = Callable[..., list[Message]]


@pytest.fixture
def produce(bootstrap: str) -> Produce:
    """Send records (values, or keyword arguments of `produce`); return them as acknowledged."""

    def send_all(topic: str, records: list[Any], **settings: Any) -> list[Message]:
        options = {key.replace("_", "."): value for key, value in settings.items()}
        producer = Producer({"bootstrap.servers": bootstrap, **options})
        delivered: list[Message] = []

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            assert error is None, error
            delivered.append(message)

        for record in records:
            keywords = record if isinstance(record, dict) else {"value": record}
            producer.produce(topic, on_delivery=on_delivery, **keywords)
        assert producer.flush(60) == 0
        return delivered

    return send_all


@pytest.fixture
def consumer(bootstrap: str) -> Iterator[Consumer]:
    c = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    yield c
    c.close()


def read(consumer: Consumer, count: int, timeout_s: float = 60) -> list[Message]:
    records: list[Message] = []
    deadline = time.monotonic() + timeout_s
    while len(records) < count and time.monotonic() < deadline:
        for message in consumer.consume(count - len(records), timeout=0.5):
            assert message.error() is None, message.error()
            records.append(message)
    assert len(records) == count
    return records


def assign(consumer: Consumer, topic: str, offset: int = OFFSET_BEGINNING, partition: int = 0) -> None:
    consumer.assign([TopicPartition(topic, partition, offset)])


@pytest.mark.parametrize("codec", CODECS)
def test_every_compression_comes_back(codec: str, topic: str, produce: Produce, consumer: Consumer) -> None:
    values = [b"%d " % i + b"abc" * 100 for i in range(1000)]
    produce(topic, values, compression_type=codec, linger_ms=20)
    assign(consumer, topic)
    assert [m.value() for m in read(consumer, 1000)] == values


@pytest.mark.parametrize("codec", CODECS[1:])
def test_the_topic_compresses_anew(codec: str, make_topic: Any, produce: Produce, consumer: Consumer) -> None:
    topic = make_topic(compression_type=codec)
    values = [b"%d " % i + b"abc" * 100 for i in range(200)]
    produce(topic, values, linger_ms=20)
    assign(consumer, topic)
    assert [m.value() for m in read(consumer, 200)] == values


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_every_acks_setting_writes(acks: int, topic: str, produce: Produce, consumer: Consumer) -> None:
    produce(topic, [b"a", b"b"], acks=acks)
    assign(consumer, topic)
    assert [(m.offset(), m.value()) for m in read(consumer, 2)] == [(0, b"a"), (1, b"b")]


def test_keys_headers_tombstones_and_timestamps(topic: str, produce: Produce, consumer: Consumer) -> None:
    headers = [("one", b"1"), ("one", b"again"), ("none", None), ("empty", b""), ("nöch", b"\xff\x00")]
    produce(
        topic,
        [
            {"key": b"k", "value": b"v", "headers": headers, "timestamp": 1_000_000_000_001},
            {"key": b"k", "value": None, "timestamp": 999},
            {"key": None, "value": b"", "timestamp": 1_500_000_000_000},
        ],
    )
    assign(consumer, topic)
    first, tombstone, empty = read(consumer, 3)
    assert (first.key(), first.value(), first.headers()) == (b"k", b"v", headers)
    assert first.timestamp() == (TIMESTAMP_CREATE_TIME, 1_000_000_000_001)
    assert (tombstone.key(), tombstone.value(), tombstone.timestamp()[1]) == (b"k", None, 999)
    assert (empty.key(), empty.value()) == (None, b"")


def test_log_append_time(make_topic: Any, produce: Produce, consumer: Consumer) -> None:
    topic = make_topic(message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    [sent] = produce(topic, [{"value": b"x", "timestamp": before - 60_000}])
    assign(consumer, topic)
    [record] = read(consumer, 1)
    assert record.timestamp() == sent.timestamp()
    kind, timestamp = record.timestamp()
    assert kind == TIMESTAMP_LOG_APPEND_TIME
    assert before <= timestamp <= int(time.time() * 1000)


def test_an_idempotent_producer_with_five_in_flight(topic: str, produce: Produce, consumer: Consumer) -> None:
    values = [b"%06d" % i for i in range(20_000)]
    sent = produce(topic, values, enable_idempotence=True, batch_num_messages=100, linger_ms=0)
    assert [m.offset() for m in sent] == list(range(20_000))
    assign(consumer, topic)
    assert [m.value() for m in read(consumer, 20_000)] == values


def test_many_partitions(make_topic: Any, produce: Produce, consumer: Consumer) -> None:
    topic = make_topic(partitions=10)
    produce(topic, [{"key": b"%d" % i, "value": b"%d" % i} for i in range(1000)])
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(10)])
    assert sorted(int(m.value() or b"-1") for m in read(consumer, 1000)) == list(range(1000))


def test_seek(topic: str, produce: Produce, consumer: Consumer) -> None:
    produce(topic, [b"%d" % i for i in range(100)], linger_ms=20)
    assign(consumer, topic, 42)
    assert [m.offset() for m in read(consumer, 58)] == list(range(42, 100))
    consumer.seek(TopicPartition(topic, 0, 7))
    assert read(consumer, 1)[0].offset() == 7
    consumer.seek(TopicPartition(topic, 0, OFFSET_END))
    assert consumer.consume(1, timeout=0.3) == []


def test_offsets_for_times_and_watermarks(topic: str, produce: Produce, consumer: Consumer) -> None:
    for timestamp in (1000, 2000, 1500, 3000):
        produce(topic, [{"value": b"x", "timestamp": timestamp}])

    def at(timestamp: int) -> int:
        [found] = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp)], timeout=60)
        return int(found.offset)

    assert [at(t) for t in (0, 1000, 1001, 2001)] == [0, 0, 1, 3]
    assert at(3001) == OFFSET_END
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60) == (0, 4)


def test_a_large_message(make_topic: Any, produce: Produce, consumer: Consumer) -> None:
    topic = make_topic(max_message_bytes=9_000_000)
    big = bytes(range(256)) * 31_250
    produce(topic, [big], message_max_bytes=9_000_000)
    assign(consumer, topic)
    assert read(consumer, 1)[0].value() == big


def refusal(bootstrap: str, topic: str, value: bytes, **settings: Any) -> int:
    """Return the error code that a record gets instead of an offset."""
    producer = Producer({"bootstrap.servers": bootstrap, **{k.replace("_", "."): v for k, v in settings.items()}})
    codes: list[int] = []
    producer.produce(topic, value, on_delivery=lambda error, message: codes.append(error.code() if error else 0))
    producer.flush(60)
    return codes[0]


def test_too_large_a_message_is_refused(topic: str, bootstrap: str) -> None:
    code = refusal(bootstrap, topic, b"x" * 2_000_000, message_max_bytes=4_000_000)
    assert code == KafkaError.MSG_SIZE_TOO_LARGE


def test_a_keyless_record_for_a_compacted_topic_is_refused(make_topic: Any, bootstrap: str) -> None:
    assert refusal(bootstrap, make_topic(cleanup_policy="compact"), b"x") == KafkaError.INVALID_RECORD


def test_a_timestamp_outside_the_allowed_range_is_refused(make_topic: Any, bootstrap: str) -> None:
    topic = make_topic(message_timestamp_before_max_ms=1000)
    producer = Producer({"bootstrap.servers": bootstrap})
    codes: list[int] = []
    producer.produce(topic, b"x", timestamp=1000, on_delivery=lambda e, m: codes.append(e.code() if e else 0))
    producer.flush(60)
    assert codes == [KafkaError.INVALID_TIMESTAMP]


def test_an_unknown_topic_without_creation(bootstrap: str) -> None:
    c = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "allow.auto.create.topics": False})
    with pytest.raises(KafkaException) as raised:
        c.get_watermark_offsets(TopicPartition("nobody-made-it", 0), timeout=60)
    c.close()
    assert raised.value.args[0].code() == KafkaError._UNKNOWN_PARTITION  # from a metadata answer without the topic


def test_an_offset_out_of_range_with_no_reset(topic: str, produce: Produce, bootstrap: str) -> None:
    produce(topic, [b"x"])
    c = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "auto.offset.reset": "error"})
    assign(c, topic, 55)
    message = c.poll(60)
    c.close()
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError._AUTO_OFFSET_RESET


def test_a_read_committed_consumer_without_transactions(topic: str, produce: Produce, bootstrap: str) -> None:
    produce(topic, [b"a", b"b"])
    c = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "isolation.level": "read_committed"})
    assign(c, topic)
    assert [m.value() for m in read(c, 2)] == [b"a", b"b"]
    c.close()


def test_end_of_partition_is_reported_once_per_end(topic: str, produce: Produce, bootstrap: str) -> None:
    produce(topic, [b"a"])
    c = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.partition.eof": True})
    assign(c, topic)
    first, end = c.poll(60), c.poll(60)
    c.close()
    assert first is not None
    assert first.value() == b"a"
    assert end is not None
    assert end.error() is not None
    assert end.error().code() == KafkaError._PARTITION_EOF  # type: ignore[union-attr]
    assert end.offset() == 1


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
@pytest.mark.parametrize("version", ["0.9.0", "0.10.0", "0.10.2", "0.11.0"])
@pytest.mark.ours_only
def test_librdkafka_that_believes_the_broker_is_old(version: str, codec: str, topic: str, bootstrap: str) -> None:
    """librdkafka without ApiVersions picks message formats 0 and 1 by its setting of the broker's version."""
    old = {"api.version.request": "false", "broker.version.fallback": version}
    values = [b"%d" % i * 20 for i in range(100)]
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "compression.type": codec, **old})
    for value in values:
        producer.produce(topic, value, key=b"k")
    assert producer.flush(60) == 0
    for settings in ({}, old):
        c = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", **settings})
        assign(c, topic)
        assert [(m.key(), m.value()) for m in read(c, 100)] == [(b"k", v) for v in values]
        c.close()
