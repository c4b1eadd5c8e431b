"""kafka-python, and its fork kafka-python-ng. Rule: what a release lacks is found by asking it, never by its number."""

import inspect
import time
from typing import Any

import kafka
from kafka import KafkaConsumer, TopicPartition

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

try:
    from kafka import KafkaProducer
except ImportError:  # before 1.0
    KafkaProducer = None

CONSUMER = getattr(KafkaConsumer, "DEFAULT_CONFIG", {})


def settings(bootstrap: str) -> Any:
    found = {"bootstrap_servers": bootstrap}  # type: Any
    if RELEASE < (0, 10) and CONSUMER.get("api_version", "auto") is None:
        found["api_version"] = RELEASE  # today's must be told of brokers that do not answer ApiVersions
    return found


def producer(bootstrap: str, **more: Any) -> Any:
    if KafkaProducer is None:
        raise NotSupported("the producer of today came with 1.0")
    if RELEASE < (0, 11) and offered("enable_idempotence"):
        more.setdefault("enable_idempotence", False)
    return KafkaProducer(**dict(settings(bootstrap), acks=-1 if "acks" not in more else more.pop("acks"), **more))


def consumer(bootstrap: str, *topics: str, **more: Any) -> Any:
    return KafkaConsumer(*topics, **dict(settings(bootstrap), auto_offset_reset="earliest", **more))


def offered(name: str) -> bool:
    return name in getattr(KafkaProducer, "DEFAULT_CONFIG", getattr(KafkaProducer, "_DEFAULT_CONFIG", {}))


def send(bootstrap: str, topic: str, values: Any, **more: Any) -> None:
    made = producer(bootstrap, **more)
    futures = [made.send(topic, value=value, key=b"k") for value in values]
    made.flush()
    for future in futures:
        future.get(20)
    made.close()


def read(bootstrap: str, topic: str, count: int, **more: Any) -> Any:
    made = consumer(bootstrap, group_id=topic + "-reader", **more)
    made.assign([TopicPartition(topic, 0)])
    made.seek(TopicPartition(topic, 0), 0)
    found = []  # type: Any
    deadline = time.time() + 20
    while len(found) < count and time.time() < deadline:
        for records in made.poll(timeout_ms=200).values():
            found += records
    made.close()
    same(len(found), count)
    return found


def values_of(records: Any) -> Any:
    return [record.value for record in records]


def connect(bootstrap: str, topic: str) -> None:
    made = consumer(bootstrap, group_id=topic)
    until(lambda: topic in made.topics() and made.partitions_for_topic(topic) == {0, 1, 2, 3}, "four partitions")
    made.close()


def produce(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, VALUES)
    same(values_of(read(bootstrap, topic, COUNT)), VALUES)


def records(bootstrap: str, topic: str) -> None:
    made = producer(bootstrap)
    for key, value in RECORDS:
        made.send(topic, key=key, value=value).get(20)
    made.close()
    same([(record.key, record.value) for record in read(bootstrap, topic, len(RECORDS))], RECORDS)


def _argument_of_send(name: str, what: str) -> None:
    if KafkaProducer is None or name not in inspect.signature(KafkaProducer.send).parameters:
        raise NotSupported("the client has no %s" % what)


def headers(bootstrap: str, topic: str) -> None:
    _argument_of_send("headers", "headers")
    made = producer(bootstrap)
    made.send(topic, value=b"v", headers=HEADERS).get(20)
    made.close()
    same([tuple(header) for header in read(bootstrap, topic, 1)[0].headers], HEADERS)


def timestamps(bootstrap: str, topic: str) -> None:
    _argument_of_send("timestamp_ms", "timestamps")
    made = producer(bootstrap)
    for number in range(5):
        made.send(topic, value=b"v", timestamp_ms=FIRST_MS + number).get(20)
    made.close()
    same([record.timestamp for record in read(bootstrap, topic, 5)], [FIRST_MS + number for number in range(5)])


def codecs(bootstrap: str, topic: str) -> str:
    sent = []  # type: Any

    def one(name: str) -> None:
        if name == "zstd" and RELEASE < (2, 1):
            raise NotSupported("Kafka has it since 2.1")
        try:
            made = producer(bootstrap, compression_type=name, linger_ms=20)
            futures = [made.send(topic, value=value) for value in VALUES]
        except (AssertionError, KeyError, NotImplementedError, ValueError) as error:
            raise NotSupported("not in this release" if name == "zstd" else "no %s" % error) from error
        for future in futures:
            future.get(20)
        made.close()
        sent.extend(VALUES)
        same(values_of(read(bootstrap, topic, len(sent))), sent)

    return every_codec(["gzip", "snappy", "lz4", "zstd"], one)


def idempotent(bootstrap: str, topic: str) -> None:
    if not offered("enable_idempotence"):
        raise NotSupported("the client has no idempotent producer")
    send(bootstrap, topic, VALUES, enable_idempotence=True)
    same(values_of(read(bootstrap, topic, COUNT)), VALUES)


def transactions(bootstrap: str, topic: str) -> None:
    if not offered("transactional_id"):
        raise NotSupported("the client has no transactions")
    made = producer(bootstrap, transactional_id=topic)
    made.init_transactions()
    for number in range(4):
        made.begin_transaction()
        made.send(topic, value=b"%d" % number).get(20)
        made.send(topic, value=b"%d" % number).get(20)
        if number % 2:
            made.abort_transaction()
        else:
            made.commit_transaction()
    made.close()
    same(values_of(read(bootstrap, topic, 8)), [b"0", b"0", b"1", b"1", b"2", b"2", b"3", b"3"])
    committed = read(bootstrap, topic, 4, isolation_level="read_committed")
    same(values_of(committed), [b"0", b"0", b"2", b"2"])


def group(bootstrap: str, topic: str) -> None:
    _group(bootstrap, topic)


def next_group(bootstrap: str, topic: str) -> None:
    if "group_protocol" not in CONSUMER:
        raise NotSupported("the client has no KIP-848 groups")
    _group(bootstrap, topic, group_protocol="consumer")


def _group(bootstrap: str, topic: str, **more: Any) -> None:
    timing = {} if more else {"heartbeat_interval_ms": 300, "session_timeout_ms": 10_000}  # type: Any

    def make() -> Any:
        return consumer(bootstrap, topic, group_id=topic, **dict(timing, **more))

    def poll(member: Any) -> int:
        member.poll(timeout_ms=100)
        return len(member.assignment())

    two_members(make, poll)


def commit(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, VALUES)
    made = consumer(bootstrap, topic, group_id=topic, enable_auto_commit=False)
    same([next(made).value for _ in range(30)], VALUES[:30])
    made.commit()
    same(made.committed(TopicPartition(topic, 0)), 30)
    made.close()
    later = consumer(bootstrap, topic, group_id=topic, enable_auto_commit=False)
    same([next(later).value for _ in range(COUNT - 30)], VALUES[30:])
    later.close()


def seek(bootstrap: str, topic: str) -> None:
    if not hasattr(KafkaConsumer, "offsets_for_times"):
        raise NotSupported("the client has no look-up by time")
    made = producer(bootstrap)
    for number in range(10):
        made.send(topic, value=b"%d" % number, timestamp_ms=FIRST_MS + 1000 * number).get(20)
    made.close()
    partition = TopicPartition(topic, 0)
    reader = consumer(bootstrap, group_id=topic)
    reader.assign([partition])
    same(reader.offsets_for_times({partition: FIRST_MS + 4500})[partition].offset, 5)
    same(reader.offsets_for_times({partition: FIRST_MS + 99_000})[partition], None)
    same((reader.beginning_offsets([partition]), reader.end_offsets([partition])), ({partition: 0}, {partition: 10}))
    reader.seek(partition, 5)
    same(next(reader).value, b"5")
    reader.close()


def admin(bootstrap: str, topic: str) -> None:
    if not hasattr(kafka, "KafkaAdminClient"):
        raise NotSupported("the client has no administration")
    from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions, NewTopic

    made = KafkaAdminClient(**settings(bootstrap))
    name = topic + "-made"
    made.create_topics([NewTopic(name, 1, 1, topic_configs={"retention.ms": "1234567"})])
    made.create_partitions({name: NewPartitions(total_count=3)})
    reader = consumer(bootstrap, group_id=topic)
    until(lambda: name in reader.topics() and reader.partitions_for_topic(name) == {0, 1, 2}, "three partitions")
    reader.close()
    changed = {"retention.ms": "7654321"}
    made.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, changed)])
    until(lambda: "7654321" in _described(made, name), "the changed config")
    made.delete_topics([name])
    made.close()


def _described(made: Any, name: str) -> str:
    from kafka.admin import ConfigResource, ConfigResourceType

    found = made.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
    return str([getattr(each, "resources", each) for each in found] if isinstance(found, list) else found)


def large(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, LARGE)
    same(values_of(read(bootstrap, topic, len(LARGE))), LARGE)


def security(bootstrap: str, topic: str) -> None:
    secure = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
        "ssl_cafile": CA,
    }
    if not offered("sasl_mechanism"):
        raise NotSupported("the client has no SASL")
    try:
        send(bootstrap, topic, VALUES, **secure)
    except (AssertionError, NotImplementedError, TypeError) as error:  # the last from 1.3.0, for what it wants to say
        if "sasl_mechanism" in str(error) or isinstance(error, TypeError):
            raise NotSupported("the client has no SCRAM") from error
        raise
    same(values_of(read(bootstrap, topic, COUNT, **secure)), VALUES)


def restart(bootstrap: str, topic: str) -> None:
    """A producer that tries again and a consumer in a group go on when the broker is back."""
    made = producer(bootstrap, retries=1000)
    reader = consumer(bootstrap, topic, group_id=topic, session_timeout_ms=10_000)
    found = []  # type: Any

    def read_on(count: int) -> None:
        def poll() -> bool:
            for records in reader.poll(timeout_ms=1000).values():
                found.extend(values_of(records))
            return len(set(found)) >= count

        until(poll, "%d records" % count)

    for value in VALUES[:50]:
        made.send(topic, value=value).get(20)
    read_on(50)
    ask_for_restart()
    for value in VALUES[50:]:
        made.send(topic, value=value).get(30)
    read_on(COUNT)
    same(sorted(set(found)), sorted(VALUES))
    made.close()
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
