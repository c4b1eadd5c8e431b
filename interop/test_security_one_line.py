"""Each client comes in by what `client_config` hands it, over each protocol and by each mechanism."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import TopicAuthorizationFailedError as AioTopicAuthorizationFailedError
from confluent_kafka import Consumer, KafkaError, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import TopicAuthorizationFailedError

from interop.java_transactions import JavaClients
from interop.secured_targets import SecuredTarget, secured

Config = dict[str, Any]
Values = list[bytes]
USERS = {"alice": 'al"i\\ce ü', "bob": "bob-secret"}
ACLS = [
    "alice may all topic one-*",
    "alice may read group one-*",
    "bob may describe topic one-*",
    "bob may write topic two-*",  # or an idempotent producer is not even given an id
]
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
STRING = "org.apache.kafka.common.serialization.String"
# name of a broker: its security, and what else it is made with
BROKERS: dict[str, tuple[str, dict[str, Any]]] = {
    "ssl": ("ssl", {}),
    "mutual": ("ssl", {"users": USERS, "acls": ACLS}),
    "sasl_plaintext": ("sasl_plaintext", {"users": USERS, "acls": ACLS, "mechanisms": MECHANISMS}),
    "sasl_ssl": ("sasl_ssl", {"users": USERS, "acls": ACLS, "mechanisms": MECHANISMS}),
    "sasl_ssl_mutual": ("sasl_ssl", {"users": USERS, "acls": ACLS, "client_auth": "required"}),
}
WAYS = [
    ("ssl", None),
    ("mutual", None),
    *(("sasl_plaintext", mechanism) for mechanism in MECHANISMS),
    *(("sasl_ssl", mechanism) for mechanism in MECHANISMS),
    ("sasl_ssl_mutual", "SCRAM-SHA-512"),
]


@pytest.fixture(scope="module")
def brokers(target_name: str) -> Iterator[Callable[[str], SecuredTarget]]:
    """One of each kind, started when it is first asked for; a real Kafka goes before the next one comes."""
    running: dict[str, SecuredTarget] = {}
    with ExitStack() as stack:

        def get(name: str) -> SecuredTarget:
            if name not in running:
                if target_name == "kafka":
                    running.clear()
                    stack.close()
                security, wanted = BROKERS[name]
                running[name] = stack.enter_context(secured(target_name, security, **wanted))
            return running[name]

        yield get


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return "one-" + "".join(letter if letter.isalnum() else "-" for letter in request.node.name)


# -- the clients: each writes three values and reads them back, in a group


def through_kafka_python(config: Config, topic: str) -> Values:
    with closing(KafkaProducer(**config, acks="all")) as producer:
        for number in range(3):
            producer.send(topic, b"%d" % number).get(20)
    with closing(KafkaConsumer(topic, **config, auto_offset_reset="earliest", group_id=topic)) as consumer:
        return [next(consumer).value for _ in range(3)]


def through_confluent(config: Config, topic: str) -> Values:
    errors: list[int | None] = []

    def delivered(error: KafkaError | None, _: object) -> None:
        errors.append(None if error is None else error.code())

    producer = Producer({**config, "message.timeout.ms": 20_000})
    for number in range(3):
        producer.produce(topic, b"%d" % number, callback=delivered)
    producer.flush(20)
    if errors != [None] * 3:
        raise PermissionError(errors)
    consumer = Consumer({**config, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    values: Values = []
    deadline = time.monotonic() + 30
    while len(values) < 3 and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            values.append(message.value() or b"")
    consumer.close()
    return values


def through_aiokafka(config: Config, topic: str) -> Values:
    async def exchange() -> Values:
        async with AIOKafkaProducer(**config) as producer:
            for number in range(3):
                await producer.send_and_wait(topic, b"%d" % number)
        async with AIOKafkaConsumer(topic, **config, group_id=topic, auto_offset_reset="earliest") as consumer:
            return [(await consumer.getone()).value for _ in range(3)]

    return asyncio.run(asyncio.wait_for(exchange(), 30))


CLIENTS = {"kafka-python": through_kafka_python, "confluent": through_confluent, "aiokafka": through_aiokafka}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("broker", "mechanism"), WAYS)
def test_a_client_comes_in(
    brokers: Callable[[str], SecuredTarget], topic: str, broker: str, mechanism: str | None, client: str
) -> None:
    settings = brokers(broker).client_config(client, mechanism=mechanism)
    assert CLIENTS[client](settings, topic) == [b"0", b"1", b"2"]


REFUSALS: dict[str, type[Exception]] = {
    "kafka-python": TopicAuthorizationFailedError,
    "confluent": PermissionError,
    "aiokafka": AioTopicAuthorizationFailedError,
}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("broker", ["mutual", "sasl_plaintext", "sasl_ssl"])
def test_who_may_not_write_is_told(
    brokers: Callable[[str], SecuredTarget], topic: str, broker: str, client: str
) -> None:
    CLIENTS[client](brokers(broker).client_config(client, "alice"), topic)
    with pytest.raises(REFUSALS[client]):
        CLIENTS[client](brokers(broker).client_config(client, "bob"), topic)


@pytest.fixture(scope="module")
def java() -> Iterator[JavaClients]:
    with JavaClients() as clients:
        yield clients


@pytest.mark.java
@pytest.mark.parametrize(("broker", "mechanism"), WAYS)
def test_java_comes_in(
    brokers: Callable[[str], SecuredTarget], java: JavaClients, topic: str, broker: str, mechanism: str | None
) -> None:
    config = brokers(broker).client_config("java", mechanism=mechanism)
    clients = java.jvm.org.apache.kafka.clients
    producer = clients.producer.KafkaProducer(
        java.properties(**config, key_serializer=STRING + "Serializer", value_serializer=STRING + "Serializer")
    )
    for number in range(3):
        producer.send(clients.producer.ProducerRecord(topic, str(number))).get()
    producer.close()
    kinds = {"key_deserializer": STRING + "Deserializer", "value_deserializer": STRING + "Deserializer"}
    consumer = clients.consumer.KafkaConsumer(
        java.properties(**config, **kinds, group_id=topic, auto_offset_reset="earliest")
    )
    topics = java.jvm.java.util.ArrayList()
    topics.add(topic)
    consumer.subscribe(topics)
    values: list[str] = []
    deadline = time.monotonic() + 30
    while len(values) < 3 and time.monotonic() < deadline:
        records = consumer.poll(java.jvm.java.time.Duration.ofMillis(500)).iterator()
        while records.hasNext():
            values.append(records.next().value())
    consumer.close()
    assert values == ["0", "1", "2"]
