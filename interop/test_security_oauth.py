"""OAUTHBEARER: clients with unsecured tokens and with signed ones, good and bad, and with tokens that are renewed."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import jwt
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AsyncTokenProvider
from aiokafka.errors import KafkaConnectionError
from confluent_kafka import KafkaError, Producer
from kafka import KafkaProducer
from kafka.errors import KafkaTimeoutError, SaslAuthenticationFailedError
from kafka.net.sasl.oauth import AbstractTokenProvider

from interop.bearer_tokens import LISTENERS, PACKAGE, key_set, settings, signed, unsecured
from interop.java_transactions import JavaClients
from interop.raw import Closed
from interop.secured import NotAuthenticated, Secured, bearer, deliver, secured
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest

INVALID = '{"status":"invalid_token"}'
STRING = "org.apache.kafka.common.serialization.String"
Mint = Callable[[], str]
MINTS: dict[str, Mint] = {"UNSECURED": unsecured, "SIGNED": signed}
BAD_MINTS: dict[str, Mint] = {"UNSECURED": lambda: unsecured(scope=3), "SIGNED": lambda: signed(by="two")}


@pytest.fixture(scope="module")
def broker(target_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    path = tmp_path_factory.mktemp("oauth") / "keys.json"
    path.write_text(key_set("one", "two"))
    allowed = [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.{what}={path.as_uri()}" for what in ("urls", "files")]
    with secured(target_name, LISTENERS, settings(path.as_uri()), jvm=allowed) as broker:
        yield broker


# -- the clients: each sends values as long as it is told, with tokens from `mint`


def by_confluent(address: str, topic: str, mint: Mint, pauses: Sequence[float]) -> None:
    errors: list[KafkaError] = []

    def token(_: str) -> tuple[str, float]:
        made = mint()
        return made, float(jwt.decode(made, options={"verify_signature": False})["exp"])

    producer = Producer(
        {
            "bootstrap.servers": address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": token,
            "error_cb": errors.append,
        }
    )
    for pause in pauses:
        end = time.monotonic() + pause
        while time.monotonic() < end:
            producer.poll(0.1)
        producer.produce(topic, b"value")
        deliver(producer, errors)


class Provider(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, mint: Mint) -> None:
        self.mint = mint

    def token(self) -> str:
        return self.mint()


class AsyncProvider(AsyncTokenProvider):  # type: ignore[misc]
    def __init__(self, mint: Mint) -> None:
        self.mint = mint

    async def token(self) -> str:
        return self.mint()


def by_kafka_python(address: str, topic: str, mint: Mint, pauses: Sequence[float]) -> None:
    known = {
        "bootstrap_servers": address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": Provider(mint),
    }
    with closing(KafkaProducer(**known, acks="all", bootstrap_timeout_ms=5000, max_block_ms=10_000)) as producer:
        for pause in pauses:
            time.sleep(pause)
            producer.send(topic, b"value").get(20)


def by_aiokafka(address: str, topic: str, mint: Mint, pauses: Sequence[float], patience_s: float = 60) -> None:
    async def send() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=address,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=AsyncProvider(mint),
        )
        try:
            await producer.start()
            for pause in pauses:
                await asyncio.sleep(pause)
                await producer.send_and_wait(topic, b"value")
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(send(), patience_s + sum(pauses)))


PYTHON_CLIENTS: dict[str, Callable[..., None]] = {
    "confluent-kafka": by_confluent,
    "kafka-python": by_kafka_python,
    "aiokafka": by_aiokafka,
}
REFUSALS: dict[str, Any] = {
    "confluent-kafka": PermissionError,
    "kafka-python": (SaslAuthenticationFailedError, KafkaTimeoutError),
    "aiokafka": (KafkaConnectionError, TimeoutError),  # takes the challenge for success, and connects again and again
}


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("client", PYTHON_CLIENTS)
def test_clients_with_good_tokens_are_served(broker: Secured, client: str, listener: str) -> None:
    PYTHON_CLIENTS[client](broker.address(listener), f"{client}-{listener}", MINTS[listener], [0, 0])


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("client", PYTHON_CLIENTS)
def test_clients_with_bad_tokens_are_told(broker: Secured, client: str, listener: str) -> None:
    patience = {"patience_s": 5} if client == "aiokafka" else {}
    with pytest.raises(REFUSALS[client]):
        PYTHON_CLIENTS[client](broker.address(listener), f"bad-{client}", BAD_MINTS[listener], [0], **patience)


@pytest.mark.parametrize("client", PYTHON_CLIENTS)
def test_clients_go_on_with_renewed_tokens(broker: Secured, client: str) -> None:
    """Clients go on with renewed tokens: each token lasts four seconds, and the client runs longer."""
    PYTHON_CLIENTS[client](broker.address("SIGNED"), f"renewed-{client}", lambda: signed(4), [0, 3, 3, 3])


BAD_SIGNED: dict[str, dict[str, Any]] = {
    "expired": {"lifetime_s": -100},
    "another audience": {"aud": "other"},
    "no audience": {"aud": None},
    "another issuer": {"iss": "https://other.test"},
    "no issuer": {"iss": None},
    "another key": {"by": "two"},
    "an unknown key": {"kid": "unknown"},
    "no subject": {"sub": None},
    "not valid yet": {"nbf": 4_102_444_800},
}


@pytest.mark.parametrize("wrong", BAD_SIGNED)
def test_what_is_wrong_with_a_signed_token_is_told_to_nobody(broker: Secured, wrong: str) -> None:
    with broker.connect("SIGNED") as client, pytest.raises(NotAuthenticated) as refused:
        bearer(client, signed(**BAD_SIGNED[wrong]))
    assert str(refused.value) == INVALID


@pytest.mark.parametrize("token", ["unsecured", "garbage", "a.b.c", "." * 400_000])
def test_tokens_that_are_not_signed_are_refused(broker: Secured, token: str) -> None:
    with broker.connect("SIGNED") as client, pytest.raises(NotAuthenticated) as refused:
        bearer(client, unsecured() if token == "unsecured" else token)
    assert str(refused.value) == INVALID


@pytest.mark.parametrize("listener", LISTENERS)
def test_a_session_ends_with_its_token(broker: Secured, listener: str) -> None:
    with broker.connect(listener) as client:
        lifetime_ms = bearer(client, unsecured(3) if listener == "UNSECURED" else signed(3))
        assert 1000 < lifetime_ms <= 3000
        assert client.call(MetadataRequest([])).brokers
        time.sleep(lifetime_ms / 1000 + 0.2)
        with pytest.raises((Closed, ConnectionError)):
            client.call(MetadataRequest([]))


# -- Java


def java_settings(java: JavaClients, broker: Secured, listener: str, **more: str) -> Any:
    return java.properties(
        **{
            "bootstrap.servers": broker.address(listener),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.login.refresh.min.period.seconds": "0",
            "sasl.login.refresh.buffer.seconds": "0",
            "key.serializer": STRING + "Serializer",
            "value.serializer": STRING + "Serializer",
            **more,
        }
    )


def java_sends(java: JavaClients, properties: Any, topic: str, pauses: Sequence[float]) -> None:
    clients = java.jvm.org.apache.kafka.clients.producer
    producer = clients.KafkaProducer(properties)
    try:
        for pause in pauses:
            time.sleep(pause)
            producer.send(clients.ProducerRecord(topic, "value")).get()
    finally:
        producer.close(java.jvm.java.time.Duration.ZERO)


@pytest.mark.java
def test_java_makes_unsecured_tokens_and_renews_them(broker: Secured, java: JavaClients) -> None:
    line = f'{PACKAGE}OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="alice" '
    properties = java_settings(
        java, broker, "UNSECURED", **{"sasl.jaas.config": line + 'unsecuredLoginLifetimeSeconds="4";'}
    )
    java_sends(java, properties, "java-unsecured", [0, 3, 3, 3])


@pytest.mark.java
@pytest.mark.parametrize("good", [True, False])
def test_java_takes_signed_tokens_from_a_file(broker: Secured, java: JavaClients, tmp_path: Path, good: bool) -> None:
    path = tmp_path / "token"
    path.write_text(signed(30) if good else signed(30, by="two"))
    system = java.jvm.java.lang.System
    for what in ("urls", "files"):
        system.setProperty(f"org.apache.kafka.sasl.oauthbearer.allowed.{what}", path.as_uri())
    properties = java_settings(
        java,
        broker,
        "SIGNED",
        **{
            "sasl.jaas.config": f"{PACKAGE}OAuthBearerLoginModule required;",
            "sasl.login.callback.handler.class": PACKAGE + "OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": path.as_uri(),
        },
    )
    if good:
        java_sends(java, properties, "java-signed", [0])
    else:
        with pytest.raises(Exception, match="invalid_token"):
            java_sends(java, properties, "java-signed", [0])


def test_librdkafka_makes_unsecured_tokens_of_its_own(broker: Secured) -> None:
    known = {
        "bootstrap.servers": broker.address("UNSECURED"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": "principal=alice scope=kafka lifeSeconds=60",
    }
    producer = Producer(known)
    producer.produce("librdkafka-unsecured", b"value")
    assert producer.flush(60) == 0
