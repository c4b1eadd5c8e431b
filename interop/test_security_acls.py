"""Rights as an operator gives them and as applications meet them: kafka-acls, and clients that lack one."""

import asyncio
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import TopicAuthorizationFailedError as AioTopicDenied
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import GroupAuthorizationFailedError, TopicAuthorizationFailedError

from interop.jars import streams_jars
from interop.java import QUICK_JVM, java_command
from interop.java_transactions import JavaClients
from interop.sasl_broker import PASSWORDS, SaslBroker, sasl_broker
from interop.waiting import eventually
from pykafka_broker.config.properties import format_properties
from pykafka_broker.testing import KafkaBroker

LISTENER = "SASL_PLAINTEXT"
AUTHORIZER = {
    "authorizer__class__name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super__users": "User:ANONYMOUS",  # the clients of the plain listener: administrators, and Kafka itself
}
PREFIXED = ResourcePatternType.PREFIXED
Run = Callable[..., str]


@pytest.fixture(scope="module")
def broker(target_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    with sasl_broker(target_name, tmp_path_factory.mktemp("acls"), keeps=False, **AUTHORIZER) as broker:
        yield broker


@pytest.fixture(scope="module")
def admin(broker: SaslBroker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.address("PLAINTEXT")})


@pytest.fixture
def topic(admin: AdminClient, request: pytest.FixtureRequest) -> str:
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(60)
    return name


def acl(
    operation: AclOperation,
    kind: ResourceType,
    name: str,
    *,
    permission: AclPermissionType = AclPermissionType.ALLOW,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
) -> AclBinding:
    return AclBinding(kind, name, pattern, "User:alice", "*", operation, permission)


def give(admin: AdminClient, *acls: AclBinding) -> None:
    for done in admin.create_acls([*acls]).values():
        done.result(60)
    time.sleep(0.3)  # Kafka's broker hears of an ACL after its controller


def on_topic(operation: AclOperation, name: str, **more: Any) -> AclBinding:
    return acl(operation, ResourceType.TOPIC, name, **more)


def on_group(operation: AclOperation, name: str) -> AclBinding:
    return acl(operation, ResourceType.GROUP, name)


def alice(broker: SaslBroker, **more: Any) -> dict[str, Any]:
    return broker.confluent(LISTENER, "PLAIN", "alice", PASSWORDS["alice"]) | more


def produced(producer: Producer, topic: str) -> int:
    """Produce one record; return its error code, or 0."""
    codes: list[int] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        codes.append(0 if error is None else error.code())

    try:
        producer.produce(topic, b"x", on_delivery=on_delivery)
    except KafkaException as error:  # a client that knows the topic's error from before raises it at once
        return int(error.args[0].code())
    producer.flush(60)
    return codes[0]


def consumed(consumer: Consumer, timeout_s: float = 60) -> bytes | int:
    """Return the next value, or the code of the next error."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None:
            error = message.error()
            return (message.value() or b"") if error is None else error.code()
    raise TimeoutError


# -- clients that lack a right


def test_confluent_is_told_and_comes_in_once_it_may(broker: SaslBroker, admin: AdminClient, topic: str) -> None:
    producer = Producer(alice(broker))
    assert produced(producer, topic) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    give(admin, on_topic(AclOperation.WRITE, topic))
    eventually(lambda: produced(producer, topic), 0)
    consumer = Consumer(alice(broker, **{"group.id": topic, "auto.offset.reset": "earliest"}))
    consumer.subscribe([topic])
    assert consumed(consumer) == KafkaError.GROUP_AUTHORIZATION_FAILED
    give(admin, on_group(AclOperation.READ, topic))
    while (told := consumed(consumer)) == KafkaError.GROUP_AUTHORIZATION_FAILED:
        pass
    assert told == KafkaError.TOPIC_AUTHORIZATION_FAILED
    give(admin, on_topic(AclOperation.READ, topic))
    while (told := consumed(consumer)) == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        pass
    consumer.close()
    assert told == b"x"


def test_kafka_python_is_told(broker: SaslBroker, admin: AdminClient, topic: str) -> None:
    known = broker.kafka_python(LISTENER, "PLAIN", "alice", PASSWORDS["alice"])
    with closing(KafkaProducer(**known)) as producer, pytest.raises(TopicAuthorizationFailedError):
        producer.send(topic, b"x").get(60)
    give(admin, on_topic(AclOperation.READ, topic), on_topic(AclOperation.WRITE, topic))
    with closing(KafkaProducer(**known)) as producer:
        producer.send(topic, b"x").get(60)
    with (
        closing(KafkaConsumer(topic, **known, group_id=topic, auto_offset_reset="earliest")) as consumer,
        pytest.raises(GroupAuthorizationFailedError),
    ):
        consumer.poll(60_000)
    give(admin, on_group(AclOperation.READ, topic))
    with closing(KafkaConsumer(topic, **known, group_id=topic, auto_offset_reset="earliest")) as consumer:
        assert next(consumer).value == b"x"


def test_aiokafka_is_told(broker: SaslBroker, topic: str) -> None:
    known = broker.kafka_python(LISTENER, "PLAIN", "alice", PASSWORDS["alice"])
    known.pop("ssl_cafile")

    async def send() -> None:
        producer = AIOKafkaProducer(**known)
        await producer.start()
        try:
            await producer.send_and_wait(topic, b"x")
        finally:
            await producer.stop()

    with pytest.raises(AioTopicDenied):
        asyncio.run(asyncio.wait_for(send(), 60))


@pytest.mark.java
def test_java_is_told(broker: SaslBroker, java: JavaClients, topic: str) -> None:
    known = broker.java(LISTENER, "PLAIN", "alice", PASSWORDS["alice"])
    serializer = "org.apache.kafka.common.serialization.StringSerializer"
    clients = java.jvm.org.apache.kafka.clients.producer
    producer = clients.KafkaProducer(java.properties(**known, key_serializer=serializer, value_serializer=serializer))
    try:
        with pytest.raises(Exception, match="TopicAuthorizationException") as told:
            producer.send(clients.ProducerRecord(topic, "x")).get()
    finally:
        producer.close()
    assert f"Not authorized to access topics: [{topic}]" in str(told.value.java_exception)  # type: ignore[attr-defined]


def test_a_topic_that_may_not_be_seen_is_not_there(broker: SaslBroker, admin: AdminClient, topic: str) -> None:
    stranger = AdminClient(alice(broker))
    assert topic not in stranger.list_topics(timeout=60).topics
    told = stranger.list_topics(topic, timeout=60).topics[topic].error
    assert told is not None
    assert told.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    give(admin, on_topic(AclOperation.DESCRIBE, topic))
    eventually(lambda: topic in stranger.list_topics(timeout=60).topics, True)


def test_one_topic_of_two_is_denied(broker: SaslBroker, admin: AdminClient, topic: str) -> None:
    other = topic + "-other"
    admin.create_topics([NewTopic(other, 1, 1)])[other].result(60)
    give(
        admin,
        on_topic(AclOperation.ALL, topic, pattern=PREFIXED),
        on_topic(AclOperation.WRITE, other, permission=AclPermissionType.DENY),
    )
    producer = Producer(alice(broker))
    eventually(lambda: produced(producer, topic), 0)
    assert produced(producer, other) == KafkaError.TOPIC_AUTHORIZATION_FAILED


# -- transactions


def test_a_transaction_needs_its_id_and_its_topics(broker: SaslBroker, admin: AdminClient, topic: str) -> None:
    settings = alice(broker, **{"transactional.id": topic, "transaction.timeout.ms": 60_000})
    with pytest.raises(KafkaException) as told:
        Producer(settings).init_transactions(60)
    assert told.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    give(admin, acl(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, topic))
    producer = Producer(settings)
    producer.init_transactions(60)
    producer.begin_transaction()
    assert produced(producer, topic) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(KafkaException):
        producer.commit_transaction(60)
    producer.abort_transaction(60)
    give(admin, on_topic(AclOperation.WRITE, topic))
    producer = Producer(settings)
    producer.init_transactions(60)
    producer.begin_transaction()
    assert produced(producer, topic) == 0
    producer.commit_transaction(60)


def test_an_idempotent_producer_needs_to_write_some_topic(broker: SaslBroker, topic: str, admin: AdminClient) -> None:
    known = broker.confluent(LISTENER, "PLAIN", "bob", PASSWORDS["bob"])
    known |= {"enable.idempotence": "true"}
    assert produced(Producer(known | {"message.timeout.ms": "4000"}), topic) != 0
    bobs = AclBinding(ResourceType.TOPIC, topic, PREFIXED, "User:bob", "*", AclOperation.WRITE, AclPermissionType.ALLOW)
    give(admin, bobs)
    assert produced(Producer(known), topic) == 0


# -- the tool


@pytest.fixture
def kafka_acls(broker: SaslBroker, java: JavaClients) -> Run:
    def run(*arguments: str) -> str:
        outcome = java.run("kafka-acls", "--bootstrap-server", broker.address("PLAINTEXT"), *arguments)
        assert outcome.status == 0, f"{arguments}: {outcome.out}{outcome.err}"
        return outcome.out

    return run


def listed(kafka_acls: Run, *filters: str) -> set[str]:
    """Return the lines of `kafka-acls --list` that describe ACLs."""
    return {line.strip() for line in kafka_acls("--list", *filters).splitlines() if "principal=" in line}


def line(operation: str, principal: str = "User:alice", permission: str = "ALLOW", host: str = "*") -> str:
    return f"(principal={principal}, host={host}, operation={operation}, permissionType={permission})"


@pytest.mark.java
def test_the_tool_adds_for_a_producer_and_removes(kafka_acls: Run, topic: str) -> None:
    ids = ("--topic", topic, "--transactional-id", topic)
    kafka_acls("--add", "--allow-principal", "User:alice", "--producer", "--idempotent", *ids)
    eventually(lambda: listed(kafka_acls, "--topic", topic), {line("WRITE"), line("DESCRIBE"), line("CREATE")})
    assert listed(kafka_acls, "--transactional-id", topic) == {line("WRITE"), line("DESCRIBE")}
    assert line("IDEMPOTENT_WRITE") in listed(kafka_acls, "--cluster")
    kafka_acls("--remove", "--force", "--allow-principal", "User:alice", "--producer", "--idempotent", *ids)
    eventually(lambda: listed(kafka_acls, "--topic", topic), set())
    assert line("IDEMPOTENT_WRITE") not in listed(kafka_acls, "--cluster")


@pytest.mark.java
def test_the_tool_adds_for_a_consumer(kafka_acls: Run, topic: str) -> None:
    ids = ("--topic", topic, "--group", topic)
    kafka_acls("--add", "--allow-principal", "User:bob", "--allow-host", "10.0.0.1", "--consumer", *ids)
    bobs = {line(one, "User:bob", host="10.0.0.1") for one in ("READ", "DESCRIBE")}
    eventually(lambda: listed(kafka_acls, "--topic", topic), bobs)
    assert listed(kafka_acls, "--group", topic) == {line("READ", "User:bob", host="10.0.0.1")}


@pytest.mark.java
def test_the_tool_shows_what_applies_to_a_name(kafka_acls: Run, topic: str) -> None:
    prefix = topic[:-2]
    add = ("--add", "--deny-principal", "User:alice", "--operation", "Read")
    kafka_acls(*add, "--topic", prefix, "--resource-pattern-type", "prefixed")
    match = ("--topic", topic, "--resource-pattern-type", "match")
    eventually(lambda: line("READ", permission="DENY") in listed(kafka_acls, *match), True)
    assert listed(kafka_acls, "--topic", topic) == set()
    kafka_acls("--remove", "--force", "--topic", prefix, "--resource-pattern-type", "prefixed")
    eventually(lambda: listed(kafka_acls, *match), set())


# -- Streams


STREAMS_TOPICS = ("streams-plaintext-input", "streams-wordcount-output")
APPLICATION = "streams-wordcount"
INNER = f"{APPLICATION}-KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition"


@pytest.mark.java
def test_streams_needs_rights_on_its_inner_topics(broker: SaslBroker, admin: AdminClient, tmp_path: Path) -> None:
    """Streams counts words only with the right to create its inner topics."""
    for done in admin.create_topics([NewTopic(name, 1, 1) for name in STREAMS_TOPICS]).values():
        done.result(60)
    give(
        admin,
        on_topic(AclOperation.READ, STREAMS_TOPICS[0]),
        on_topic(AclOperation.WRITE, STREAMS_TOPICS[1]),
        on_group(AclOperation.READ, APPLICATION),
        on_group(AclOperation.DESCRIBE, APPLICATION),
    )
    plain = Producer({"bootstrap.servers": broker.address("PLAINTEXT")})
    assert produced(plain, STREAMS_TOPICS[0]) == 0
    settings = broker.java(LISTENER, "PLAIN", "alice", PASSWORDS["alice"]) | {
        "state.dir": str(tmp_path / "state"),
        "commit.interval.ms": "50",
    }
    properties = tmp_path / "streams.properties"
    properties.write_text(format_properties(settings))
    jars = os.environ.get("KAFKA_STREAMS_JARS") or str(streams_jars())
    main = "org.apache.kafka.streams.examples.wordcount.WordCountDemo"
    command = java_command(*QUICK_JVM, "-Xmx256m", "-cp", f"{jars}/*", main, str(properties))
    consumer = Consumer(
        {"bootstrap.servers": broker.address("PLAINTEXT"), "group.id": "on", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([STREAMS_TOPICS[1]])
    denied = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        if isinstance(broker.target, KafkaBroker):  # the application may take long to come so far
            broker.target.wait_for_request(topic=INNER, error="TOPIC_AUTHORIZATION_FAILED", timeout=120)
        with pytest.raises(TimeoutError):
            consumed(consumer, 8)
    finally:
        denied.kill()
        denied.wait()
    inner = {name for name in admin.list_topics(timeout=60).topics if name.startswith(APPLICATION + "-")}
    assert inner - {STREAMS_TOPICS[1]} == set()
    give(admin, on_topic(AclOperation.ALL, APPLICATION + "-", pattern=PREFIXED))
    allowed = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert consumed(consumer, 120) == (1).to_bytes(8, "big")
    finally:
        allowed.kill()
        allowed.wait()
        consumer.close()


# -- a data directory with ACLs changes hands


def bindings(address: str) -> set[str]:
    admin = AdminClient({"bootstrap.servers": address})
    found = admin.describe_acls(every(ResourceType.ANY, ResourcePatternType.ANY))
    return {str(one) for one in found.result(60)}


def every(kind: ResourceType, pattern: ResourcePatternType, name: str | None = None) -> AclBindingFilter:
    anything: Any = None  # which its types do not know
    return AclBindingFilter(
        kind, name or anything, pattern, anything, anything, AclOperation.ANY, AclPermissionType.ANY
    )


@pytest.mark.java
@pytest.mark.ours_only
def test_acls_change_hands_with_kafka(tmp_path: Path) -> None:
    """A data directory goes to and fro between us and Kafka: each keeps the ACLs, adds some and deletes one."""
    from interop.real_kafka import RealKafka

    settings = {name.replace("__", "."): value for name, value in AUTHORIZER.items()}
    expected: set[str] = set()
    for turn in range(4):
        kind = (
            RealKafka(settings, directory=tmp_path) if turn % 2 else KafkaBroker(settings, data_dir=tmp_path / "logs")
        )
        with kind as running:
            address = running.bootstrap_servers
            eventually(partial(bindings, address), expected)
            admin = AdminClient({"bootstrap.servers": address})
            give(
                admin,
                on_topic(AclOperation.READ, f"t{turn}"),
                on_topic(AclOperation.WRITE, f"p{turn}", pattern=PREFIXED, permission=AclPermissionType.DENY),
                acl(AclOperation.ALTER, ResourceType.BROKER, "kafka-cluster"),
            )
            if turn:
                gone = every(ResourceType.TOPIC, ResourcePatternType.LITERAL, f"t{turn - 1}")
                [(_, done)] = admin.delete_acls([gone]).items()
                assert len(done.result(60)) == 1
            eventually(lambda: len(bindings(address)), turn + 3)  # noqa: B023 (asked at once, in this turn of the loop)
            expected = bindings(address)
