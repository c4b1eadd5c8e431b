"""Clients that log in over SASL_PLAINTEXT and SASL_SSL, with PLAIN and both SCRAMs, and logins that are refused."""

import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError as AioKafkaConnectionError
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaConnectionError, KafkaTimeoutError, SaslAuthenticationFailedError
from py4j.protocol import Py4JJavaError

from interop import three_values, toolchains
from interop.java_transactions import JavaClients
from interop.raw import Closed, RawClient, framed
from interop.sasl_broker import MECHANISMS, PASSWORDS, SESSION_MS, SaslBroker, sasl_broker
from interop.three_values import Values, read_by_confluent
from interop.waiting import eventually
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.list_groups_request import ListGroupsRequest
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest
from pykafka_broker.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from pykafka_broker.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from tests.security.sasl.test_scram import final

LISTENERS = ("SASL_PLAINTEXT", "SASL_SSL")
WAYS = [(listener, mechanism) for listener in LISTENERS for mechanism in MECHANISMS]
NUMBERS = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}
STRING = "org.apache.kafka.common.serialization.String"


@pytest.fixture(scope="module")
def broker(target_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    with sasl_broker(target_name, tmp_path_factory.mktemp("sasl")) as broker:
        for name, password in PASSWORDS.items():
            add_user(broker, name, password)
        yield broker


@pytest.fixture
def topic(broker: SaslBroker, request: pytest.FixtureRequest) -> str:
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    with closing(KafkaProducer(bootstrap_servers=broker.address("PLAINTEXT"))) as producer:
        assert producer.partitions_for(name) == {0}  # the request creates the topic
    return name


def add_user(broker: SaslBroker, name: str, password: str) -> None:
    """Add a user by confluent-kafka's admin client, for both SCRAM mechanisms."""
    admin = AdminClient({"bootstrap.servers": broker.address("PLAINTEXT")})
    for kind in NUMBERS.values():
        info = ScramCredentialInfo(kind, 4096)
        change = UserScramCredentialUpsertion(name, info, password.encode())
        for done in admin.alter_user_scram_credentials([change]).values():
            done.result(60)


# -- the clients: each writes three values and reads them back


def through_kafka_python(
    broker: SaslBroker, topic: str, listener: str, mechanism: str, name: str, password: str
) -> Values:
    known = broker.kafka_python(listener, mechanism, name, password)
    with closing(KafkaProducer(**known, acks="all", bootstrap_timeout_ms=5000)) as producer:
        for number in range(3):
            producer.send(topic, b"%d" % number).get(20)
    with closing(KafkaConsumer(topic, **known, auto_offset_reset="earliest", group_id=topic)) as consumer:
        return [next(consumer).value for _ in range(3)]


def through_confluent(
    broker: SaslBroker, topic: str, listener: str, mechanism: str, name: str, password: str
) -> Values:
    known = broker.confluent(listener, mechanism, name, password)
    errors: list[KafkaError] = []
    producer = Producer({**known, "error_cb": errors.append})
    for number in range(3):
        producer.produce(topic, b"%d" % number)
    deadline = time.monotonic() + 60
    while producer.flush(0.1) and time.monotonic() < deadline:
        if any(error.code() == KafkaError._AUTHENTICATION for error in errors):
            raise PermissionError(errors[0].str())
    return read_by_confluent(known, topic)


def through_aiokafka(broker: SaslBroker, topic: str, listener: str, mechanism: str, name: str, password: str) -> Values:
    known = broker.kafka_python(listener, mechanism, name, password)
    known.pop("ssl_cafile")
    context = ssl.create_default_context(cafile=str(broker.ca)) if listener.endswith("SSL") else None
    return three_values.through_aiokafka({**known, "ssl_context": context}, topic)


PYTHON_CLIENTS: dict[str, Callable[..., Values]] = {
    "kafka-python": through_kafka_python,
    "confluent-kafka": through_confluent,
    "aiokafka": through_aiokafka,
}
REFUSALS: dict[str, Any] = {
    "kafka-python": (SaslAuthenticationFailedError, KafkaTimeoutError),  # this client tries again after every error
    "confluent-kafka": PermissionError,
    "aiokafka": AioKafkaConnectionError,
}


@pytest.mark.parametrize("client", PYTHON_CLIENTS)
@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
def test_python_clients_come_in(broker: SaslBroker, topic: str, client: str, listener: str, mechanism: str) -> None:
    found = PYTHON_CLIENTS[client](broker, topic, listener, mechanism, "alice", PASSWORDS["alice"])
    assert found == [b"0", b"1", b"2"]


@pytest.mark.parametrize("client", PYTHON_CLIENTS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_python_clients_with_a_wrong_password_are_told(broker: SaslBroker, client: str, mechanism: str) -> None:
    began = time.monotonic()
    with pytest.raises(REFUSALS[client]):
        PYTHON_CLIENTS[client](broker, "nowhere", "SASL_PLAINTEXT", mechanism, "alice", "wrong")
    assert time.monotonic() - began < 25


@pytest.mark.java
@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
def test_java_comes_in(broker: SaslBroker, java: JavaClients, topic: str, listener: str, mechanism: str) -> None:
    known = broker.java(listener, mechanism, "alice", PASSWORDS["alice"])
    assert three_values.through_java(java, known, topic) == three_values.THREE


@pytest.mark.java
@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        ("PLAIN", "Authentication failed: Invalid username or password"),
        ("SCRAM-SHA-256", "invalid credentials with SASL mechanism SCRAM-SHA-256"),
        ("SCRAM-SHA-512", "invalid credentials with SASL mechanism SCRAM-SHA-512"),
    ],
)
@pytest.mark.parametrize("name", ["alice", "nobody"])
def test_java_is_told_the_reason(
    broker: SaslBroker, java: JavaClients, name: str, mechanism: str, message: str
) -> None:
    known = broker.java("SASL_PLAINTEXT", mechanism, name, "wrong")
    admin = java.jvm.org.apache.kafka.clients.admin.Admin.create(java.properties(**known))
    try:
        with pytest.raises(Exception, match="SaslAuthenticationException") as raised:
            admin.describeCluster().nodes().get()
        assert message in str(raised.value.java_exception)  # type: ignore[attr-defined]  # py4j's
    finally:
        admin.close()


# -- users while the broker runs


def log_in(broker: SaslBroker, name: str, password: str, mechanism: str = "SCRAM-SHA-256") -> bool:
    known = broker.confluent("SASL_PLAINTEXT", mechanism, name, password)
    errors: list[KafkaError] = []
    client = Producer({**known, "error_cb": errors.append})
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            client.list_topics(timeout=0.5)
            return True
        except KafkaException:
            client.poll(0)
        if any(error.code() == KafkaError._AUTHENTICATION for error in errors):
            return False
    raise TimeoutError(errors)


def test_a_user_may_come_change_and_go_while_the_broker_runs(broker: SaslBroker) -> None:
    name = "carol, the =first"  # the comma and the equals sign have to be escaped
    assert not log_in(broker, name, "one")
    add_user(broker, name, "one")
    eventually(lambda: log_in(broker, name, "one"), True)
    add_user(broker, name, "two")
    eventually(lambda: log_in(broker, name, "two"), True)
    assert not log_in(broker, name, "one")
    admin = AdminClient({"bootstrap.servers": broker.address("PLAINTEXT")})
    removal = UserScramCredentialDeletion(name, ScramMechanism.SCRAM_SHA_256)
    for done in admin.alter_user_scram_credentials([removal]).values():
        done.result(60)
    eventually(lambda: log_in(broker, name, "two"), False)
    assert log_in(broker, name, "two", "SCRAM-SHA-512")


@pytest.mark.java
def test_users_by_kafka_configs(broker: SaslBroker, java: JavaClients) -> None:
    where = ("--bootstrap-server", broker.address("PLAINTEXT"), "--entity-type", "users", "--entity-name", "dave")
    added = java.run("kafka-configs", *where, "--alter", "--add-config", "SCRAM-SHA-512=[iterations=8192,password=one]")
    assert added.status == 0, added.err
    eventually(lambda: log_in(broker, "dave", "one", "SCRAM-SHA-512"), True)
    shown = java.run("kafka-configs", *where, "--describe")
    assert "SCRAM-SHA-512=iterations=8192" in shown.out
    gone = java.run("kafka-configs", *where, "--alter", "--delete-config", "SCRAM-SHA-512")
    assert gone.status == 0, gone.err


@pytest.mark.java
@pytest.mark.ours_only
@pytest.mark.parametrize(("first", "second"), [("pykafka", "kafka"), ("kafka", "pykafka")])
def test_users_come_along_with_a_data_directory(tmp_path: Path, first: str, second: str) -> None:
    """Users stay when a data directory goes from one broker to the other and back."""
    with sasl_broker(first, tmp_path, keeps=True) as broker:
        add_user(broker, "erin", "one")
        eventually(lambda: log_in(broker, "erin", "one"), True)
    with sasl_broker(second, tmp_path, keeps=True) as broker:
        assert all(log_in(broker, "erin", "one", mechanism) for mechanism in NUMBERS)
        add_user(broker, "erin", "two")
        eventually(lambda: log_in(broker, "erin", "two"), True)
    with sasl_broker(first, tmp_path, keeps=True) as broker:
        assert all(log_in(broker, "erin", "two", mechanism) for mechanism in NUMBERS)
        assert not log_in(broker, "erin", "one")


@pytest.mark.slow
@pytest.mark.java
@pytest.mark.ours_only
@pytest.mark.parametrize("release", ["0.10.2.2", "0.11.0.3"])
def test_a_java_client_from_before_tokens_were_wrapped(broker: SaslBroker, topic: str, release: str) -> None:
    """An old Java client logs in with bare tokens by PLAIN, and ends a refused login by a time-out.

    Its SCRAM is not tried, as it needs a Java before 11.
    """
    program = toolchains.java("Login", release)
    for password, expected in (("alice-secret", "read: 10"), ("wrong", "refused: TimeoutException")):
        known = broker.java("SASL_PLAINTEXT", "PLAIN", "alice", password) | {"max.block.ms": "4000"}
        known = {name: value for name, value in known.items() if not name.startswith(("ssl.", "bootstrap"))}
        settings = [part for pair in known.items() for part in pair]
        done = subprocess.run(
            [*program, broker.address("SASL_PLAINTEXT"), topic, *settings],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stdout.strip() == expected, done.stderr


# -- sessions


# A client that stalls until its session is over is cut off, and connects again: then it is tried once more.


def test_kafka_python_goes_on_after_its_session(broker: SaslBroker, topic: str) -> None:
    assert any(kafka_python_goes_on(broker, topic) for _ in range(3))


def kafka_python_goes_on(broker: SaslBroker, topic: str) -> bool:
    """Write for three sessions without retries; return whether the client was never cut off."""
    known = broker.kafka_python("REAUTH", "SCRAM-SHA-256", "alice", PASSWORDS["alice"])
    end = time.monotonic() + 3 * SESSION_MS / 1000
    with closing(KafkaProducer(**known, acks="all", retries=0)) as producer, suppress(KafkaConnectionError):
        while time.monotonic() < end:
            producer.send(topic, b"x").get(20)
            time.sleep(0.05)
        return True
    return False


@pytest.mark.parametrize("listener", ["REAUTH", "REAUTH_SSL"])
def test_confluent_goes_on_after_its_session(broker: SaslBroker, topic: str, listener: str) -> None:
    assert any(not errors_of_sessions(broker, topic, listener) for _ in range(3))


def errors_of_sessions(broker: SaslBroker, topic: str, listener: str) -> list[KafkaError]:
    """Write for three sessions, and return the errors of the client; every record is delivered."""
    errors: list[KafkaError] = []
    known = broker.confluent(listener, "SCRAM-SHA-256", "alice", PASSWORDS["alice"])
    producer = Producer({**known, "error_cb": errors.append})
    failed: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(error)

    end = time.monotonic() + 3 * SESSION_MS / 1000
    while time.monotonic() < end:
        producer.produce(topic, b"x", on_delivery=on_delivery)
        producer.poll(0.05)
    assert producer.flush(60) == 0
    assert not failed
    return errors


@pytest.mark.java
@pytest.mark.parametrize("listener", ["REAUTH", "REAUTH_SSL"])
def test_java_goes_on_after_its_session_on_the_same_connection(
    broker: SaslBroker, java: JavaClients, topic: str, listener: str
) -> None:
    assert any(java_goes_on(broker, java, topic, listener) for _ in range(3))


def java_goes_on(broker: SaslBroker, java: JavaClients, topic: str, listener: str) -> bool:
    """Write for three sessions without retries; return whether the client was never cut off."""
    known = broker.java(listener, "SCRAM-SHA-512", "alice", PASSWORDS["alice"])
    clients = java.jvm.org.apache.kafka.clients
    producer = clients.producer.KafkaProducer(
        java.properties(
            **known, key_serializer=STRING + "Serializer", value_serializer=STRING + "Serializer", retries=0
        )
    )
    end = time.monotonic() + 3 * SESSION_MS / 1000
    try:
        while time.monotonic() < end:
            producer.send(clients.producer.ProducerRecord(topic, "x")).get()
            time.sleep(0.05)
        metrics = {
            entry.getKey().name(): float(entry.getValue().metricValue())
            for entry in producer.metrics().entrySet()
            if entry.getKey().name().endswith("authentication-total") and entry.getKey().group() == "producer-metrics"
        }
    except Py4JJavaError as error:
        if str(error.java_exception.getCause().getClass().getSimpleName()) != "NetworkException":
            raise
        return False
    finally:
        producer.close()
    assert metrics["failed-reauthentication-total"] == 0
    return metrics["successful-reauthentication-total"] >= 2


# -- byte by byte: what both brokers answer

ALICE, BOB, WRONG = (b"\0alice\0alice-secret", b"\0bob\0bob-secret", b"\0alice\0wrong")
CLOSED = "closed"
HANDSHAKE, HANDSHAKE_0 = (SaslHandshakeRequest("PLAIN"), 1), (SaslHandshakeRequest("PLAIN"), 0)
VERSIONS, METADATA = (ApiVersionsRequest("raw", "1"), 3), (MetadataRequest([]), 9)
GROUPS, SCRAM = (ListGroupsRequest(), 4), (SaslHandshakeRequest("SCRAM-SHA-256"), 1)
TOKEN, TOKEN_0 = (SaslAuthenticateRequest(ALICE), 2), (SaslAuthenticateRequest(ALICE), 0)
BOBS, WRONGS = (SaslAuthenticateRequest(BOB), 2), (SaslAuthenticateRequest(WRONG), 2)
OVER = SESSION_MS / 1000 + 0.2

SCRIPTS: list[tuple[str, str, list[Any], list[Any]]] = [
    ("versions, handshake, token", "SASL_PLAINTEXT", [VERSIONS, HANDSHAKE, TOKEN, METADATA], [0, 0, 0, 0]),
    ("no versions", "SASL_PLAINTEXT", [HANDSHAKE, TOKEN_0, METADATA], [0, 0, 0]),
    ("bad software", "SASL_PLAINTEXT", [(ApiVersionsRequest("!", "1"), 3), VERSIONS, HANDSHAKE], [42, 0, 0]),
    ("versions twice", "SASL_PLAINTEXT", [VERSIONS, VERSIONS], [0, CLOSED]),
    ("metadata first", "SASL_PLAINTEXT", [METADATA], [CLOSED]),
    ("token first", "SASL_PLAINTEXT", [TOKEN], [CLOSED]),
    ("versions among tokens", "SASL_PLAINTEXT", [HANDSHAKE, VERSIONS, TOKEN], [0, 34, CLOSED]),
    ("handshake among tokens", "SASL_PLAINTEXT", [HANDSHAKE, HANDSHAKE, TOKEN], [0, 34, CLOSED]),
    ("groups among tokens", "SASL_PLAINTEXT", [HANDSHAKE, GROUPS, TOKEN], [0, 34, CLOSED]),
    ("unknown mechanism", "SASL_PLAINTEXT", [(SaslHandshakeRequest("FOO"), 1), TOKEN], [33, CLOSED]),
    ("wrong password", "SASL_PLAINTEXT", [HANDSHAKE, WRONGS, TOKEN], [0, 58, CLOSED]),
    ("bare token", "SASL_PLAINTEXT", [HANDSHAKE_0, ALICE, METADATA], [0, b"", 0]),
    ("bare wrong token", "SASL_PLAINTEXT", [HANDSHAKE_0, WRONG], [0, CLOSED]),
    ("again", "SASL_PLAINTEXT", [HANDSHAKE, TOKEN, HANDSHAKE, TOKEN, VERSIONS, METADATA], [0, 0, 34, 34, 0, 0]),
    ("new session", "REAUTH", [HANDSHAKE, TOKEN, METADATA, HANDSHAKE, TOKEN, METADATA], [0, 0, 0, 0, 0, 0]),
    ("too soon", "REAUTH", [*[HANDSHAKE, TOKEN] * 2, HANDSHAKE, METADATA], [0, 0, 0, 0, 34, 0]),
    ("not too soon", "REAUTH", [*[HANDSHAKE, TOKEN] * 2, 1.2, HANDSHAKE, TOKEN], [0, 0, 0, 0, 0, 0]),
    ("between", "REAUTH", [HANDSHAKE, TOKEN, HANDSHAKE, VERSIONS, TOKEN], [0, 0, 0, 34, CLOSED]),
    ("somebody else", "REAUTH", [HANDSHAKE, TOKEN, HANDSHAKE, BOBS, METADATA], [0, 0, 0, 58, CLOSED]),
    ("another mechanism", "REAUTH", [HANDSHAKE, TOKEN, SCRAM, TOKEN], [0, 0, 0, CLOSED]),
    ("unknown later", "REAUTH", [HANDSHAKE, TOKEN, (SaslHandshakeRequest("FOO"), 1)], [0, 0, CLOSED]),
    ("wrong later", "REAUTH", [HANDSHAKE, TOKEN, HANDSHAKE, WRONGS, METADATA], [0, 0, 0, 58, CLOSED]),
    ("bare later", "REAUTH", [HANDSHAKE, TOKEN, HANDSHAKE_0, ALICE, METADATA], [0, 0, 0, b"", 0]),
    ("over", "REAUTH", [HANDSHAKE, TOKEN, OVER, METADATA], [0, 0, CLOSED]),
    ("over, untold", "REAUTH", [HANDSHAKE, TOKEN_0, OVER, METADATA], [0, 0, CLOSED]),
    ("over, bare", "REAUTH", [HANDSHAKE_0, ALICE, OVER, METADATA], [0, b"", CLOSED]),
    ("over, then anew", "REAUTH", [HANDSHAKE, TOKEN, OVER, HANDSHAKE, TOKEN, METADATA], [0, 0, 0, 0, 0]),
    ("anew, slowly", "REAUTH", [HANDSHAKE, TOKEN, HANDSHAKE, OVER, TOKEN, METADATA], [0, 0, 0, 0, 0]),
]


@pytest.mark.parametrize(("listener", "steps", "expected"), [s[1:] for s in SCRIPTS], ids=[s[0] for s in SCRIPTS])
def test_each_step_is_answered_as_kafka_does(
    broker: SaslBroker, listener: str, steps: list[Any], expected: list[Any]
) -> None:
    found: list[Any] = []
    with RawClient(broker.address(listener)) as client:
        for step in steps:
            if isinstance(step, float):
                time.sleep(step)
                continue
            try:
                if isinstance(step, bytes):
                    client.send_bytes(framed(step))
                    found.append(client.receive_frame())
                else:
                    found.append(client.call(*step).error_code if step is not METADATA else _served(client))
            except (Closed, ConnectionError):
                found.append(CLOSED)
                break
    assert found == expected


@pytest.mark.parametrize(("kind", "mechanism"), [(1, "SCRAM-SHA-256"), (2, "SCRAM-SHA-512")])
def test_bare_tokens_of_scram(broker: SaslBroker, kind: int, mechanism: str) -> None:
    first = "n,,n=alice,r=abc"
    with RawClient(broker.address("SASL_PLAINTEXT")) as client:
        assert client.call(SaslHandshakeRequest(mechanism), 0).error_code == 0
        client.send_bytes(framed(first.encode()))
        last, verifier = final(first, client.receive_frame(), PASSWORDS["alice"], kind)
        client.send_bytes(framed(last))
        assert client.receive_frame() == verifier
        assert _served(client) == 0


def _served(client: RawClient) -> int:
    return 0 if client.call(*METADATA).brokers else -1
