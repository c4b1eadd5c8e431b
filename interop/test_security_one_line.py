"""Each client logs in with the settings of `client_config`, over each protocol and by each mechanism."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from aiokafka.errors import TopicAuthorizationFailedError as AioTopicAuthorizationFailedError
from confluent_kafka import KafkaError, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import TopicAuthorizationFailedError

from interop.java_transactions import JavaClients
from interop.secured_targets import SecuredTarget, secured
from interop.three_values import THREE, Values, read_by_confluent, through_aiokafka, through_java

Config = dict[str, Any]
USERS = {"alice": 'al"i\\ce ü', "bob": "bob-secret"}
ACLS = [
    "alice may all topic one-*",
    "alice may read group one-*",
    "bob may describe topic one-*",
    "bob may write topic two-*",  # without this right an idempotent producer gets no id
]
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
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
    """A function that returns a broker of a kind, started at the first call; only one real Kafka runs at a time."""
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
            producer.send(topic, b"%d" % number).get(60)
    with closing(KafkaConsumer(topic, **config, auto_offset_reset="earliest", group_id=topic)) as consumer:
        return [next(consumer).value for _ in range(3)]


def through_confluent(config: Config, topic: str) -> Values:
    errors: list[int | None] = []

    def delivered(error: KafkaError | None, _: object) -> None:
        errors.append(None if error is None else error.code())

    producer = Producer({**config, "message.timeout.ms": 60_000})
    for number in range(3):
        producer.produce(topic, b"%d" % number, callback=delivered)
    producer.flush(60)
    if errors != [None] * 3:
        raise PermissionError(errors)
    return read_by_confluent(config, topic)


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


@pytest.mark.java
@pytest.mark.parametrize(("broker", "mechanism"), WAYS)
def test_java_comes_in(
    brokers: Callable[[str], SecuredTarget], java: JavaClients, topic: str, broker: str, mechanism: str | None
) -> None:
    config = brokers(broker).client_config("java", mechanism=mechanism)
    assert through_java(java, config, topic) == THREE
