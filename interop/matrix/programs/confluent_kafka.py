"""confluent-kafka, 0.11 to 2. Rule: what a release lacks is found by asking it, never by its number."""

import inspect
import re
import time
from typing import Any

import confluent_kafka as client
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

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
    NotSupported,
    ask_for_restart,
    every_codec,
    main,
    same,
    two_members,
    until,
)

LIBRDKAFKA = tuple(int(part) for part in re.findall(r"\d+", str(client.libversion()[0])))
SECURE = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanisms": "SCRAM-SHA-512",
    "sasl.username": USER,
    "sasl.password": PASSWORD,
    "ssl.ca.location": CA,
}


def settings(bootstrap: str, more: Any) -> Any:
    found = dict({"bootstrap.servers": bootstrap}, **more)
    if RELEASE < (0, 10):
        found.update({"broker.version.fallback": ".".join(map(str, RELEASE)) + ".0", "api.version.request": False})
    return found


def made(kind: Any, bootstrap: str, more: Any) -> Any:
    """A setting that the client does not know is one that it has not."""
    try:
        return kind(settings(bootstrap, more))
    except (KafkaException, TypeError, ValueError) as error:
        for word in ("No such configuration property", "nsupported", "Invalid value", "not available"):
            if word in str(error):
                raise NotSupported(str(error).rpartition('str="')[2].rstrip('"}')) from error
        raise


def send(bootstrap: str, topic: str, messages: Any, more: Any = None) -> None:
    """Each message is what `Producer.produce` takes."""
    producer = made(Producer, bootstrap, more or {})
    deliver(producer, topic, messages)


def deliver(producer: Any, topic: str, messages: Any, within_s: float = 20) -> None:
    failed = []  # type: Any
    told = []  # type: Any

    def report(error: Any, message: Any) -> None:
        told.append(message)
        if error is not None:
            failed.append(error)

    for message in messages:
        producer.produce(topic, on_delivery=report, **message)
        producer.poll(0)
    producer.flush(within_s) if "timeout" in str(Producer.flush.__doc__) else producer.flush()
    same(failed, [])
    same(len(told), len(messages))


def of(values: Any) -> Any:
    return [{"value": value, "key": b"k"} for value in values]


def consumer(bootstrap: str, group: str, more: Any) -> Any:
    start = {"auto.offset.reset": "earliest", "enable.auto.commit": False}
    old = {"default.topic.config": {"auto.offset.reset": "earliest"}, "enable.auto.commit": False}
    before_1_0 = LIBRDKAFKA < (1, 0)
    return made(Consumer, bootstrap, dict(old if before_1_0 else start, **dict({"group.id": group}, **more)))


def read(bootstrap: str, topic: str, count: int, more: Any = None) -> Any:
    reader = consumer(bootstrap, topic + "-reader", more or {})
    reader.assign([TopicPartition(topic, 0, 0)])
    found = polled(reader, count)
    reader.close()
    return found


def polled(reader: Any, count: int, within_s: float = 20) -> Any:
    found = []  # type: Any
    deadline = time.time() + within_s
    while len(found) < count and time.time() < deadline:
        message = reader.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message)
    same(len(found), count)
    return found


def values_of(messages: Any) -> Any:
    return [message.value() for message in messages]


def connect(bootstrap: str, topic: str) -> None:
    producer = made(Producer, bootstrap, {})
    if not hasattr(producer, "list_topics"):
        raise NotSupported("the client does not tell of topics")
    same(set(producer.list_topics(topic, 10).topics[topic].partitions), {0, 1, 2, 3})
    assert topic in producer.list_topics(timeout=60).topics


def produce(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, of(VALUES))
    same(values_of(read(bootstrap, topic, COUNT)), VALUES)


def records(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, [{"key": key, "value": value} for key, value in RECORDS])
    same([(message.key(), message.value()) for message in read(bootstrap, topic, len(RECORDS))], RECORDS)


def headers(bootstrap: str, topic: str) -> None:
    if not hasattr(client.Message, "headers"):
        raise NotSupported("the client has no headers")
    send(bootstrap, topic, [{"value": b"v", "headers": HEADERS}])
    same(read(bootstrap, topic, 1)[0].headers(), HEADERS)


def timestamps(bootstrap: str, topic: str) -> None:
    if not hasattr(client.Message, "timestamp"):
        raise NotSupported("the client has no timestamps")
    times = [FIRST_MS + number for number in range(5)]
    try:
        send(bootstrap, topic, [{"value": b"v", "timestamp": at} for at in times])
    except NotImplementedError as error:
        raise NotSupported(str(error)) from error
    same([message.timestamp()[1] for message in read(bootstrap, topic, 5)], times)


def codecs(bootstrap: str, topic: str) -> str:
    sent = []  # type: Any

    def one(name: str) -> None:
        if name == "zstd" and RELEASE < (2, 1):
            raise NotSupported("Kafka has it since 2.1")
        send(bootstrap, topic, of(VALUES), {"compression.codec": name, "queue.buffering.max.ms": 20})
        sent.extend(VALUES)
        same(values_of(read(bootstrap, topic, len(sent))), sent)

    return every_codec(["gzip", "snappy", "lz4", "zstd"], one)


def idempotent(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, of(VALUES), {"enable.idempotence": True})
    same(values_of(read(bootstrap, topic, COUNT)), VALUES)


def transactions(bootstrap: str, topic: str) -> None:
    if not hasattr(Producer, "init_transactions"):
        raise NotSupported("the client has no transactions")
    producer = made(Producer, bootstrap, {"transactional.id": topic})
    producer.init_transactions(20)
    for number in range(4):
        producer.begin_transaction()
        deliver(producer, topic, of([b"%d" % number] * 2))
        if number % 2:
            producer.abort_transaction(20)
        else:
            producer.commit_transaction(20)
    everything = values_of(read(bootstrap, topic, 8, {"isolation.level": "read_uncommitted"}))
    same(everything, [b"0", b"0", b"1", b"1", b"2", b"2", b"3", b"3"])
    committed = values_of(read(bootstrap, topic, 4, {"isolation.level": "read_committed"}))
    same(committed, [b"0", b"0", b"2", b"2"])


def group(bootstrap: str, topic: str) -> None:
    _group(bootstrap, topic, {"heartbeat.interval.ms": 300, "session.timeout.ms": 10_000})


def next_group(bootstrap: str, topic: str) -> None:
    if LIBRDKAFKA < (2, 10):
        raise NotSupported("librdkafka has it since 2.10, for trial since 2.4")
    _group(bootstrap, topic, {"group.protocol": "consumer"})


def _group(bootstrap: str, topic: str, more: Any) -> None:
    def make() -> Any:
        member = consumer(bootstrap, topic, more)
        member.subscribe([topic])
        return member

    def poll(member: Any) -> int:
        member.poll(0.1)
        return len(member.assignment())

    two_members(make, poll)


def commit(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, of(VALUES))
    first = consumer(bootstrap, topic, {})
    first.subscribe([topic])
    messages = polled(first, 30, 30)
    same(values_of(messages), VALUES[:30])
    first.commit(message=messages[-1], **_waiting(first))
    until(lambda: first.committed([TopicPartition(topic, 0)])[0].offset == 30, "the committed offset")
    first.close()
    later = consumer(bootstrap, topic, {})
    later.subscribe([topic])
    same(values_of(polled(later, COUNT - 30, 30)), VALUES[30:])
    later.close()


def _waiting(reader: Any) -> Any:
    """`async` became a keyword of Python."""
    return {"asynchronous": False} if "asynchronous" in str(reader.commit.__doc__) else {"async": False}


def seek(bootstrap: str, topic: str) -> None:
    if not hasattr(Consumer, "offsets_for_times"):
        raise NotSupported("the client has no look-up by time")
    send(bootstrap, topic, [{"value": b"%d" % number, "timestamp": FIRST_MS + 1000 * number} for number in range(10)])
    reader = consumer(bootstrap, topic, {})

    def known() -> bool:
        """Some releases do not ask for partitions that they have not heard of."""
        try:
            return at(FIRST_MS) == 0
        except KafkaException:
            return False

    def at(time_ms: int) -> int:
        return int(reader.offsets_for_times([TopicPartition(topic, 0, time_ms)], timeout=10)[0].offset)

    until(known, "the first offset by time", 10)
    same(at(FIRST_MS + 4500), 5)
    assert at(FIRST_MS + 99_000) in (-1, 10)
    same(reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=10), (0, 10))
    reader.assign([TopicPartition(topic, 0, 5)])
    same(values_of(polled(reader, 1)), [b"5"])
    reader.close()


def admin(bootstrap: str, topic: str) -> None:
    try:
        from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic
    except ImportError as error:
        raise NotSupported("the client has no administration") from error
    caller, name = AdminClient(settings(bootstrap, {})), topic + "-made"

    def done(futures: Any) -> Any:
        [future] = futures.values()
        return future.result(60)

    done(caller.create_topics([NewTopic(name, num_partitions=1, replication_factor=1)]))
    until(lambda: name in caller.list_topics(timeout=60).topics, "the topic")
    done(caller.create_partitions([NewPartitions(name, 3)]))
    until(lambda: len(caller.list_topics(timeout=60).topics[name].partitions) == 3, "three partitions")
    kind = client.admin.RESOURCE_TOPIC
    if "set_config" in inspect.signature(ConfigResource).parameters:
        resource = ConfigResource(kind, name, set_config={"retention.ms": "7654321"})
    else:
        resource = ConfigResource(kind, name)
        resource.set_config("retention.ms", "7654321")
    done(caller.alter_configs([resource]))
    found = done(caller.describe_configs([ConfigResource(kind, name)]))
    same(found["retention.ms"].value, "7654321")
    done(caller.delete_topics([name]))


def large(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, of(LARGE))
    same(values_of(read(bootstrap, topic, len(LARGE))), LARGE)


def security(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, of(VALUES), SECURE)
    same(values_of(read(bootstrap, topic, COUNT, SECURE)), VALUES)


def restart(bootstrap: str, topic: str) -> None:
    """A producer and a consumer in a group go on when the broker is back; no setting but who they are."""
    producer = made(Producer, bootstrap, {})
    reader = consumer(bootstrap, topic, {"session.timeout.ms": 10_000})
    reader.subscribe([topic])
    deliver(producer, topic, of(VALUES[:50]))
    found = set(values_of(polled(reader, 50, 30)))
    ask_for_restart()
    deliver(producer, topic, of(VALUES[50:]), 40)
    end = time.time() + 40
    while len(found) < COUNT and time.time() < end:
        message = reader.poll(0.2)
        if message is not None and message.error() is None:
            found.add(message.value())
    same(sorted(found), sorted(VALUES))
    reader.close()


main(
    {
        each.__name__: each
        for each in (
            connect, produce, records, headers, timestamps, codecs, idempotent, transactions, group, next_group,
            commit, seek, admin, large, security, restart,
        )
    }
)  # fmt: skip
