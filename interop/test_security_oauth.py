"""OAUTHBEARER: clients with unsecured tokens and with signed ones, good and bad, and with tokens that are renewed."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import jwt
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AsyncTokenProvider
from aiokafka.errors import KafkaConnectionError
from confluent_kafka import KafkaError, Producer
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm
from kafka import KafkaProducer
from kafka.errors import KafkaTimeoutError, SaslAuthenticationFailedError
from kafka.net.sasl.oauth import AbstractTokenProvider

from interop.java_transactions import JavaClients
from interop.raw import Closed, RawClient, framed
from interop.secured import NotAuthenticated, Secured, bearer, secured
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest
from pykafka_broker.testing import KafkaBroker
from tests.security.sasl.bearer import encoded

PACKAGE = "org.apache.kafka.common.security.oauthbearer."
# Kafka logs in by itself as well, so its line has to make a token.
LINE = f'{PACKAGE}OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
VALIDATOR = PACKAGE + "OAuthBearerValidatorCallbackHandler"
UNSECURED_LOGIN = PACKAGE + "internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler"
ISSUER, AUDIENCE = "https://issuer.test", "kafka"
INVALID = '{"status":"invalid_token"}'
STRING = "org.apache.kafka.common.serialization.String"
Mint = Callable[[], str]
KEYS = {kid: rsa.generate_private_key(65537, 2048) for kid in ("one", "two", "unknown")}


def key_set(*kids: str) -> str:
    keys = [{**json.loads(RSAAlgorithm.to_jwk(KEYS[kid].public_key())), "kid": kid} for kid in kids]
    return json.dumps({"keys": keys})


def unsecured(lifetime_s: float = 60, **changed: Any) -> str:
    claims = {"sub": "alice", "iat": time.time() - 1, "exp": time.time() + lifetime_s, **changed}
    return f"{encoded({'alg': 'none'})}.{encoded(claims)}."


def signed(lifetime_s: int = 60, kid: str = "one", by: str = "", **changed: Any) -> str:
    now = int(time.time())
    claims = {"sub": "alice", "iat": now - 200, "exp": now + lifetime_s, "aud": AUDIENCE, "iss": ISSUER, **changed}
    known = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(known, KEYS[by or kid], "RS256", headers={"kid": kid})


def settings(key_url: str) -> dict[str, str]:
    """One listener for each kind of tokens."""
    values = {"sasl.enabled.mechanisms": "OAUTHBEARER"}
    for name in ("unsecured", "signed"):
        values[f"listener.name.{name}.oauthbearer.sasl.jaas.config"] = LINE
    of_signed = {
        "oauthbearer.sasl.server.callback.handler.class": VALIDATOR,
        "oauthbearer.sasl.login.callback.handler.class": UNSECURED_LOGIN,
        "sasl.oauthbearer.jwks.endpoint.url": key_url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
    }
    return values | {f"listener.name.signed.{key}": value for key, value in of_signed.items()}


LISTENERS = {"UNSECURED": "SASL_PLAINTEXT", "SIGNED": "SASL_PLAINTEXT"}
MINTS: dict[str, Mint] = {"UNSECURED": unsecured, "SIGNED": signed}
BAD_MINTS: dict[str, Mint] = {"UNSECURED": lambda: unsecured(scope=3), "SIGNED": lambda: signed(by="two")}


@pytest.fixture(scope="module")
def broker(target_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    path = tmp_path_factory.mktemp("oauth") / "keys.json"
    path.write_text(key_set("one", "two"))
    allowed = [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.{what}={path.as_uri()}" for what in ("urls", "files")]
    with secured(target_name, LISTENERS, settings(path.as_uri()), jvm=allowed) as broker:
        yield broker


@pytest.fixture(scope="module")
def java() -> Iterator[JavaClients]:
    with JavaClients() as clients:
        yield clients


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
        # It may authenticate anew twice within a second, which Kafka refuses, and then connects again.
        if producer.flush(8):
            raise PermissionError(next(error.str() for error in errors if error.code() == KafkaError._AUTHENTICATION))


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


def by_aiokafka(address: str, topic: str, mint: Mint, pauses: Sequence[float]) -> None:
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

    asyncio.run(asyncio.wait_for(send(), 5 + sum(pauses)))


PYTHON_CLIENTS: dict[str, Callable[[str, str, Mint, Sequence[float]], None]] = {
    "confluent-kafka": by_confluent,
    "kafka-python": by_kafka_python,
    "aiokafka": by_aiokafka,
}
REFUSALS: dict[str, Any] = {
    "confluent-kafka": PermissionError,
    "kafka-python": (SaslAuthenticationFailedError, KafkaTimeoutError),
    "aiokafka": (KafkaConnectionError, TimeoutError),  # it takes the challenge for a yes, and begins again and again
}


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("client", PYTHON_CLIENTS)
def test_clients_with_good_tokens_are_served(broker: Secured, client: str, listener: str) -> None:
    PYTHON_CLIENTS[client](broker.address(listener), f"{client}-{listener}", MINTS[listener], [0, 0])


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("client", PYTHON_CLIENTS)
def test_clients_with_bad_tokens_are_told(broker: Secured, client: str, listener: str) -> None:
    with pytest.raises(REFUSALS[client]):
        PYTHON_CLIENTS[client](broker.address(listener), f"bad-{client}", BAD_MINTS[listener], [0])


@pytest.mark.parametrize("client", PYTHON_CLIENTS)
def test_clients_go_on_with_renewed_tokens(broker: Secured, client: str) -> None:
    """Each token lasts four seconds, and the client longer."""
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
    "not valid yet": {"nbf": int(time.time()) + 1000},
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


# -- the keys


@pytest.mark.ours_only
def test_a_new_key_is_found_when_a_token_names_it(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text(key_set("one"))
    with secured("pykafka", LISTENERS, settings(path.as_uri())) as broker:
        with broker.connect("SIGNED") as client, pytest.raises(NotAuthenticated):
            bearer(client, signed(kid="two"))
        path.write_text("garbage")
        time.sleep(1.1)
        with broker.connect("SIGNED") as client, pytest.raises(NotAuthenticated):
            bearer(client, signed(kid="two"))
        with broker.connect("SIGNED") as client:
            bearer(client, signed())  # the keys that there were
        path.write_text(key_set("two"))
        time.sleep(1.1)
        with broker.connect("SIGNED") as client:
            bearer(client, signed(kid="two"))
        with broker.connect("SIGNED") as client, pytest.raises(NotAuthenticated):
            bearer(client, signed())


@pytest.mark.ours_only
def test_keys_that_can_not_be_read_end_the_start(tmp_path: Path) -> None:
    for url in ((tmp_path / "nowhere").as_uri(), "http://127.0.0.1:1/keys"):
        broker = KafkaBroker({"listeners": "SIGNED://127.0.0.1:0", **_alone(url)})
        with pytest.raises(Exception, match=r"jwks\.endpoint\.url of listener SIGNED"):
            broker.start()


def _alone(url: str) -> dict[str, str]:
    return {"listener.security.protocol.map": "SIGNED:SASL_PLAINTEXT", **settings(url)}


@pytest.mark.ours_only
def test_no_token_is_in_the_log_and_a_huge_one_is_not_even_read(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text(key_set("one"))
    good, bad = signed(), signed(by="two")
    with secured("pykafka", LISTENERS, settings(path.as_uri())) as broker:
        with broker.connect("SIGNED") as client:
            bearer(client, good)
        with broker.connect("SIGNED") as client, pytest.raises(NotAuthenticated):
            bearer(client, bad)
        with broker.connect("SIGNED") as client:
            assert is_cut_off(client)
        with broker.connect("UNSECURED") as client:
            bearer(client, unsecured())
        log = broker.target.log_path.read_text()
    assert "its signature is wrong" in log
    for token in (good, bad):
        assert not any(part in log for part in token.split("."))


def is_cut_off(client: RawClient) -> bool:
    """Whether a token of 100 MB is refused at its length."""
    client.send_bytes((100 << 20).to_bytes(4, "big"))
    client.send_bytes(framed(b"x")[:2])
    return client.is_closed_by_broker()


@pytest.mark.ours_only
def test_nobody_waits_for_keys_that_come_from_a_slow_url() -> None:
    site = KeySite(key_set("one"))
    with site, secured("pykafka", LISTENERS, settings(site.url)) as broker:
        with broker.connect("SIGNED") as client:
            bearer(client, signed())
        site.content, site.pause_s = key_set("two"), 2
        time.sleep(1.1)
        begun = time.monotonic()
        with broker.connect("SIGNED") as client, pytest.raises(NotAuthenticated):
            bearer(client, signed(kid="two"))  # which has them read anew
        with broker.connect("SIGNED") as client:
            bearer(client, signed())
            assert client.call(MetadataRequest([])).brokers
        assert time.monotonic() - begun < 1.5
        time.sleep(3)
        with broker.connect("SIGNED") as client:
            bearer(client, signed(kid="two"))
        assert site.asked == 2


class KeySite:
    """Serves keys over HTTP, as slowly as it is told."""

    def __init__(self, content: str) -> None:
        site = self
        self.content, self.pause_s, self.asked = content, 0.0, 0

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked += 1
                time.sleep(site.pause_s)
                self.send_response(200)
                self.end_headers()
                self.wfile.write(site.content.encode())

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/keys"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


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
    assert producer.flush(10) == 0
