"""aiokafka, 0.1 to today. Rule: what a release lacks is found by asking it, never by its number."""

import asyncio
import inspect
import ssl
import time
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from interop.matrix.programs.scenario import (
    CA,
    COUNT,
    FIRST_MS,
    HEADERS,
    LARGE,
    PASSWORD,
    RECORDS,
    RELEASE,
    USER,
    VALUES,
    WITHIN_S,
    NotSupported,
    ask_for_restart,
    main,
    same,
)

try:
    from aiokafka import TopicPartition
except ImportError:
    from kafka import TopicPartition


def takes(kind: Any, name: str, what: str) -> None:
    if name not in inspect.signature(kind.__init__).parameters:
        raise NotSupported("the client has no %s" % what)


def _common(kind: Any, bootstrap: str) -> Any:
    found = {"bootstrap_servers": bootstrap}  # type: Any
    if inspect.signature(kind.__init__).parameters["loop"].default is inspect.Parameter.empty:
        found["loop"] = asyncio.get_event_loop()
    if RELEASE < (0, 10):
        found["api_version"] = ".".join(map(str, RELEASE))
    return found


async def producer(bootstrap: str, **more: Any) -> Any:
    made = AIOKafkaProducer(**dict(_common(AIOKafkaProducer, bootstrap), acks="all", **more))
    await asyncio.wait_for(made.start(), WITHIN_S)
    return made


async def sent(made: Any, topic: str, value: Any, **more: Any) -> Any:
    """`send_and_wait` takes less in some releases than `send`."""
    return await (await made.send(topic, value, **more))


async def consumer(bootstrap: str, group: str, *topics: str, **more: Any) -> Any:
    start = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    made = AIOKafkaConsumer(*topics, **dict(_common(AIOKafkaConsumer, bootstrap), **dict(start, **more)))
    await asyncio.wait_for(made.start(), WITHIN_S)
    return made


async def send(bootstrap: str, topic: str, values: Any, **more: Any) -> None:
    made = await producer(bootstrap, **more)
    try:
        futures = [await made.send(topic, value, key=b"k") for value in values]
        await asyncio.wait_for(asyncio.gather(*futures), 60)
    finally:
        await made.stop()


async def next_of(reader: Any, count: int) -> Any:
    """Some releases give a message that a codec could not read as an error of getone."""
    return [await asyncio.wait_for(reader.getone(), 60) for _ in range(count)]


async def read(bootstrap: str, topic: str, count: int, **more: Any) -> Any:
    reader = await consumer(bootstrap, topic + "-reader", topic, **more)
    try:
        return await next_of(reader, count)
    finally:
        await reader.stop()


def values_of(records: Any) -> Any:
    return [bytes(record.value) for record in records]


async def until(condition: Any, what: str) -> None:
    end = time.time() + WITHIN_S
    while not condition():
        if time.time() > end:
            raise AssertionError("not within %d s: %s" % (WITHIN_S, what))
        await asyncio.sleep(0.05)


async def connect(bootstrap: str, topic: str) -> None:
    made = await producer(bootstrap)
    same(set(await asyncio.wait_for(made.partitions_for(topic), 60)), {0, 1, 2, 3})
    await made.stop()


async def produce(bootstrap: str, topic: str) -> None:
    await send(bootstrap, topic, VALUES)
    same(values_of(await read(bootstrap, topic, COUNT)), VALUES)


async def records(bootstrap: str, topic: str) -> None:
    made = await producer(bootstrap)
    for key, value in RECORDS:
        await sent(made, topic, value, key=key)
    await made.stop()
    same([(record.key, record.value) for record in await read(bootstrap, topic, len(RECORDS))], RECORDS)


def _send_takes(name: str, what: str) -> None:
    if name not in inspect.signature(AIOKafkaProducer.send).parameters:
        raise NotSupported("the client has no %s" % what)


async def headers(bootstrap: str, topic: str) -> None:
    _send_takes("headers", "headers")
    made = await producer(bootstrap)
    await sent(made, topic, b"v", headers=HEADERS)
    await made.stop()
    same([tuple(each) for each in (await read(bootstrap, topic, 1))[0].headers], HEADERS)


async def timestamps(bootstrap: str, topic: str) -> None:
    _send_takes("timestamp_ms", "timestamps")
    times = [FIRST_MS + number for number in range(5)]
    made = await producer(bootstrap)
    for at in times:
        await sent(made, topic, b"v", timestamp_ms=at)
    await made.stop()
    same([record.timestamp for record in await read(bootstrap, topic, 5)], times)


async def codecs(bootstrap: str, topic: str) -> str:
    written = []  # type: Any
    said = []  # type: Any

    for name in ["gzip", "snappy", "lz4", "zstd"]:
        if name == "zstd" and RELEASE < (2, 1):
            said.append("zstd: Kafka has it since 2.1")
            continue
        try:
            await send(bootstrap, topic, VALUES, compression_type=name)
        except (AssertionError, KeyError, NotImplementedError, RuntimeError, ValueError) as error:
            said.append("%s: not in this release (%s)" % (name, str(error)[:50]))
            continue
        written.extend(VALUES)
        same(values_of(await read(bootstrap, topic, len(written))), written)
        said.append(name)
    return ", ".join(said)


async def idempotent(bootstrap: str, topic: str) -> None:
    takes(AIOKafkaProducer, "enable_idempotence", "idempotent producer")
    await send(bootstrap, topic, VALUES, enable_idempotence=True)
    same(values_of(await read(bootstrap, topic, COUNT)), VALUES)


async def transactions(bootstrap: str, topic: str) -> None:
    takes(AIOKafkaProducer, "transactional_id", "transactions")
    made = await producer(bootstrap, transactional_id=topic)
    for number in range(4):
        await made.begin_transaction()
        await sent(made, topic, b"%d" % number)
        await sent(made, topic, b"%d" % number)
        if number % 2:
            await made.abort_transaction()
        else:
            await made.commit_transaction()
    await made.stop()
    same(values_of(await read(bootstrap, topic, 8)), [b"0", b"0", b"1", b"1", b"2", b"2", b"3", b"3"])
    committed = await read(bootstrap, topic, 4, isolation_level="read_committed")
    same(values_of(committed), [b"0", b"0", b"2", b"2"])


async def group(bootstrap: str, topic: str) -> None:
    timing = {"heartbeat_interval_ms": 300, "session_timeout_ms": 10_000}
    first = await consumer(bootstrap, topic, topic, **timing)
    await until(lambda: len(first.assignment()) == 4, "the first member has four partitions")
    second = await consumer(bootstrap, topic, topic, **timing)
    members = (first, second)
    await until(lambda: [len(each.assignment()) for each in members] == [2, 2], "two partitions each")
    await first.stop()
    await until(lambda: len(second.assignment()) == 4, "the second member has four partitions")
    await second.stop()


async def next_group(bootstrap: str, topic: str) -> None:
    takes(AIOKafkaConsumer, "group_protocol", "KIP-848 groups")
    raise AssertionError("a release with KIP-848 groups: its scenario is to be written")


async def commit(bootstrap: str, topic: str) -> None:
    await send(bootstrap, topic, VALUES)
    first = await consumer(bootstrap, topic, topic)
    same(values_of(await next_of(first, 30)), VALUES[:30])
    await first.commit()
    same(await first.committed(TopicPartition(topic, 0)), 30)
    await first.stop()
    later = await consumer(bootstrap, topic, topic)
    same(values_of(await next_of(later, COUNT - 30)), VALUES[30:])
    await later.stop()


async def seek(bootstrap: str, topic: str) -> None:
    if not hasattr(AIOKafkaConsumer, "offsets_for_times"):
        raise NotSupported("the client has no look-up by time")
    _send_takes("timestamp_ms", "timestamps")
    made = await producer(bootstrap)
    for number in range(10):
        await sent(made, topic, b"%d" % number, timestamp_ms=FIRST_MS + 1000 * number)
    await made.stop()
    partition = TopicPartition(topic, 0)
    reader = await consumer(bootstrap, topic)
    reader.assign([partition])
    same((await reader.offsets_for_times({partition: FIRST_MS + 4500}))[partition].offset, 5)
    same((await reader.offsets_for_times({partition: FIRST_MS + 99_000}))[partition], None)
    found = (await reader.beginning_offsets([partition]), await reader.end_offsets([partition]))
    same(found, ({partition: 0}, {partition: 10}))
    reader.seek(partition, 5)
    same(values_of(await next_of(reader, 1)), [b"5"])
    await reader.stop()


async def admin(bootstrap: str, topic: str) -> None:
    try:
        from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
        from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
    except ImportError as error:
        raise NotSupported("the client has no administration") from error
    name = topic + "-made"
    caller = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await caller.start()
    await caller.create_topics([NewTopic(name, 1, 1, topic_configs={"retention.ms": "1234567"})])
    await caller.create_partitions({name: NewPartitions(total_count=3)})
    made = await producer(bootstrap)
    same(set(await asyncio.wait_for(made.partitions_for(name), 60)), {0, 1, 2})
    await made.stop()
    await caller.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, {"retention.ms": "7654321"})])
    end = time.time() + WITHIN_S
    while "7654321" not in str(await described(caller, ConfigResource(ConfigResourceType.TOPIC, name))):
        assert time.time() < end, "the config did not change"
        await asyncio.sleep(0.05)
    await caller.delete_topics([name])
    await caller.close()


async def described(caller: Any, resource: Any) -> Any:
    return [each.resources for each in await caller.describe_configs([resource])]


async def large(bootstrap: str, topic: str) -> None:
    await send(bootstrap, topic, LARGE)
    same(values_of(await read(bootstrap, topic, len(LARGE))), LARGE)


async def security(bootstrap: str, topic: str) -> None:
    takes(AIOKafkaProducer, "sasl_mechanism", "SASL")
    secure = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
        "ssl_context": ssl.create_default_context(cafile=CA),
    }
    try:
        await send(bootstrap, topic, VALUES, **secure)
    except ValueError as error:
        raise NotSupported("the client has no SCRAM: %s" % error) from error
    same(values_of(await read(bootstrap, topic, COUNT, **secure)), VALUES)


async def restart(bootstrap: str, topic: str) -> None:
    """A producer that tries again and a consumer in a group go on when the broker is back."""
    made = await producer(bootstrap)
    reader = await consumer(bootstrap, topic, topic)
    found = []  # type: Any

    async def read_on(count: int) -> None:
        while len(set(found)) < count:
            found.append(bytes((await asyncio.wait_for(reader.getone(), WITHIN_S)).value))

    for value in VALUES[:50]:
        await sent(made, topic, value)
    await read_on(50)
    await asyncio.get_event_loop().run_in_executor(None, ask_for_restart)
    for value in VALUES[50:]:
        await asyncio.wait_for(sent(made, topic, value), 60)
    await read_on(COUNT)
    same(sorted(set(found)), sorted(VALUES))


def _run(scenario: Any) -> Any:
    def run(bootstrap: str, topic: str) -> Any:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(scenario(bootstrap, topic))

    return run


main(
    {
        each.__name__: _run(each)
        for each in (
            connect, produce, records, headers, timestamps, codecs, idempotent, transactions, group, next_group,
            commit, seek, admin, large, security, restart,
        )
    }
)  # fmt: skip
