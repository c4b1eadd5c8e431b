"""aiokafka: a client with a codec and a connection handling of its own."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.errors import MessageSizeTooLargeError, OffsetOutOfRangeError

Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture
def run() -> Run:
    return lambda coroutine: asyncio.run(asyncio.wait_for(coroutine, 90))


@asynccontextmanager
async def producing(bootstrap: str, **settings: Any) -> AsyncIterator[AIOKafkaProducer]:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, **settings)
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


@asynccontextmanager
async def consuming(bootstrap: str, *partitions: TopicPartition, **settings: Any) -> AsyncIterator[AIOKafkaConsumer]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, **{"auto_offset_reset": "earliest"} | settings)
    await consumer.start()
    consumer.assign(partitions)
    try:
        yield consumer
    finally:
        await consumer.stop()


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_every_compression_comes_back(codec: str | None, topic: str, bootstrap: str, run: Run) -> None:
    async def scenario() -> None:
        values = [b"%d " % i + b"abc" * 50 for i in range(300)]
        async with producing(bootstrap, compression_type=codec, linger_ms=20) as producer:
            for sent in [await producer.send(topic, value) for value in values]:
                await sent
        async with consuming(bootstrap, TopicPartition(topic, 0)) as consumer:
            assert [(await consumer.getone()).value for _ in values] == values

    run(scenario())


def test_keys_headers_tombstones_and_timestamps(topic: str, bootstrap: str, run: Run) -> None:
    async def scenario() -> None:
        headers = [("one", b"1"), ("one", b"again")]
        async with producing(bootstrap, enable_idempotence=True) as producer:
            await producer.send_and_wait(topic, b"v", key=b"k", headers=headers, timestamp_ms=1_000_000_000_001)
            await producer.send_and_wait(topic, None, key=b"k", timestamp_ms=999)
        async with consuming(bootstrap, TopicPartition(topic, 0)) as consumer:
            first, tombstone = [await consumer.getone() for _ in range(2)]
        assert (first.key, first.value, list(first.headers), first.timestamp) == (
            b"k",
            b"v",
            headers,
            1_000_000_000_001,
        )
        assert (tombstone.key, tombstone.value, tombstone.timestamp) == (b"k", None, 999)

    run(scenario())


def test_positions_and_times(topic: str, bootstrap: str, run: Run) -> None:
    async def scenario() -> None:
        partition = TopicPartition(topic, 0)
        async with producing(bootstrap, acks="all") as producer:
            for timestamp in (1000, 2000, 3000):
                await producer.send_and_wait(topic, b"x", timestamp_ms=timestamp)
        async with consuming(bootstrap, partition) as consumer:
            assert await consumer.beginning_offsets([partition]) == {partition: 0}
            assert await consumer.end_offsets([partition]) == {partition: 3}
            found = (await consumer.offsets_for_times({partition: 1001}))[partition]
            assert found is not None
            assert (found.offset, found.timestamp) == (1, 2000)
            assert (await consumer.offsets_for_times({partition: 3001}))[partition] is None
            consumer.seek(partition, 2)
            assert (await consumer.getone()).offset == 2
            await consumer.seek_to_end(partition)
            assert await consumer.position(partition) == 3

    run(scenario())


def test_what_is_refused(topic: str, bootstrap: str, run: Run) -> None:
    async def scenario() -> None:
        async with producing(bootstrap, max_request_size=4_000_000) as producer:
            with pytest.raises(MessageSizeTooLargeError):
                await producer.send_and_wait(topic, b"x" * 2_000_000)
        async with consuming(bootstrap, TopicPartition(topic, 0), auto_offset_reset="none") as consumer:
            consumer.seek(TopicPartition(topic, 0), 99)
            with pytest.raises(OffsetOutOfRangeError):
                await consumer.getone()

    run(scenario())


def test_admin(bootstrap: str, run: Run) -> None:
    async def scenario() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            await admin.create_topics([NewTopic("from-aiokafka", 2, 1)])
            partitions: list[Any] = []
            while len(partitions) != 2:  # in a cluster the broker that is asked may hear of the change a moment later
                [described] = await admin.describe_topics(["from-aiokafka"])
                partitions = described["partitions"]
            await admin.create_partitions({"from-aiokafka": NewPartitions(3)})
            assert "from-aiokafka" in await admin.list_topics()
            await admin.delete_topics(["from-aiokafka"])
        finally:
            await admin.close()

    run(scenario())
