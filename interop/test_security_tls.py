"""Clients over TLS: stores of every type, certificates of clients, good ones and bad ones, and keys that change."""

import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError
from confluent_kafka import Consumer, KafkaError, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError as KafkaPythonError

from interop import three_values
from interop.java_transactions import JavaClients
from interop.raw import Closed, RawClient, framed, request_bytes
from interop.real_kafka import free_port
from interop.three_values import Values, read_by_confluent
from interop.tls_broker import PASSWORD, PLAIN, TLS, TlsBroker, TlsClient, tls_broker
from interop.waiting import eventually
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from tests.security.tls.certificates import authority, subject

MANY_BYTES = 30_000_000


@pytest.fixture(scope="module")
def broker(target_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    with tls_broker(target_name, tmp_path_factory.mktemp("tls")) as broker:
        yield broker


@pytest.fixture(scope="module")
def alice(broker: TlsBroker) -> str:
    """The file of a certificate whose subject is Alice."""
    name = subject(("2.5.4.10", "Acme"), ("2.5.4.11", "Test"), ("2.5.4.3", "Alice"))
    return broker.file("alice", authority().issue(name))


@pytest.fixture(scope="module")
def bad(broker: TlsBroker) -> dict[str, str | None]:
    """Files of certificates that no broker should accept."""
    return {
        "none": None,
        "expired": broker.file("expired", authority().issue("alice", begins=-3, ends=-1)),
        "foreign": broker.file("foreign", authority("Another").issue("alice")),
    }


@pytest.fixture
def topic(broker: TlsBroker, request: pytest.FixtureRequest) -> str:
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    with closing(KafkaProducer(bootstrap_servers=broker.address(PLAIN))) as producer:
        assert producer.partitions_for(name) == {0}  # the request creates the topic
    return name


# -- the clients: each writes three values and reads them back


def through_kafka_python(
    broker: TlsBroker, topic: str, listener: str, shows: str | None, patience_ms: int = 60_000
) -> Values:
    known = broker.kafka_python(listener, shows)
    with closing(KafkaProducer(**known, bootstrap_timeout_ms=patience_ms)) as producer:
        for number in range(3):
            producer.send(topic, b"%d" % number).get(60)
    with closing(KafkaConsumer(topic, **known, auto_offset_reset="earliest", group_id=topic)) as consumer:
        return [next(consumer).value for _ in range(3)]


def through_confluent(broker: TlsBroker, topic: str, listener: str, shows: str | None) -> Values:
    known = broker.confluent(listener, shows)
    errors: list[KafkaError] = []
    producer = Producer({**known, "error_cb": errors.append})
    for number in range(3):
        producer.produce(topic, b"%d" % number)
    deadline = time.monotonic() + 60
    while producer.flush(0.1) and time.monotonic() < deadline:
        if any(error.code() in (KafkaError._SSL, KafkaError._ALL_BROKERS_DOWN) for error in errors):
            raise PermissionError(errors[0].str())
    return read_by_confluent(known, topic)


def through_aiokafka(broker: TlsBroker, topic: str, listener: str, shows: str | None) -> Values:
    known: dict[str, Any] = {
        "bootstrap_servers": broker.address(listener),
        "security_protocol": "SSL",
        "ssl_context": broker.context(shows),
    }
    return three_values.through_aiokafka(known, topic)


CLIENTS: dict[str, Callable[..., Values]] = {
    "kafka-python": through_kafka_python,
    "confluent-kafka": through_confluent,
    "aiokafka": through_aiokafka,
}
REFUSALS: dict[str, type[Exception]] = {
    "kafka-python": KafkaPythonError,
    "confluent-kafka": PermissionError,
    "aiokafka": KafkaConnectionError,
}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("listener", TLS)
def test_python_clients_come_in(broker: TlsBroker, topic: str, alice: str, client: str, listener: str) -> None:
    shows = alice if listener in ("WANTED", "MUTUAL", "PKCS", "JKS") else None
    assert CLIENTS[client](broker, topic, listener, shows) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("fault", ["none", "expired", "foreign"])
def test_python_clients_with_a_bad_certificate_stay_outside(
    broker: TlsBroker, topic: str, bad: dict[str, str | None], client: str, fault: str
) -> None:
    patience = {"patience_ms": 3000} if client == "kafka-python" else {}  # this client tries again after every error
    with pytest.raises(REFUSALS[client]):
        CLIENTS[client](broker, topic, "MUTUAL", bad[fault], **patience)


def console(broker: TlsBroker, java: JavaClients, listener: str, shows: str | None, topic: str) -> tuple[str, str]:
    """Write two records with Java's console producer and read them back; return the output, and both tools' errors."""
    config = broker.folder / f"{listener}.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in broker.java(listener, shows).items()))
    known = ("--bootstrap-server", broker.address(listener), "--topic", topic, "--command-config", str(config))
    settings = ("--command-property", "request.timeout.ms=60000", "--command-property", "retries=0")
    written = java.run("kafka-console-producer", *known, *settings, stdin="one\ntwo\n")
    read = java.run(
        "kafka-console-consumer", *known, "--from-beginning", "--max-messages", "2", "--timeout-ms", "60000"
    )
    return read.out, written.err + read.err


@pytest.mark.java
@pytest.mark.parametrize("listener", TLS)
def test_java_comes_in(broker: TlsBroker, java: JavaClients, topic: str, alice: str, listener: str) -> None:
    shows = alice if listener in ("WANTED", "MUTUAL", "PKCS", "JKS") else None
    assert console(broker, java, listener, shows, topic)[0] == "one\ntwo\n"


@pytest.mark.java
@pytest.mark.parametrize("fault", ["none", "expired", "foreign"])
def test_java_with_a_bad_certificate_is_told_that_the_handshake_failed(
    broker: TlsBroker, java: JavaClients, bad: dict[str, str | None], fault: str
) -> None:
    admin = java.jvm.org.apache.kafka.clients.admin.Admin.create(java.properties(**broker.java("MUTUAL", bad[fault])))
    try:
        with pytest.raises(Exception, match="SslAuthenticationException"):
            admin.describeCluster().nodes().get()
    finally:
        admin.close()


# -- principals


def principal(broker: TlsBroker, listener: str, shows: str | None, version: ssl.TLSVersion | None = None) -> str:
    """Return the client's principal: an answer to a request for a token names it, even where tokens are off."""
    with TlsClient(broker.address(listener), broker.context(shows, version)) as client:
        answer = client.call(CreateDelegationTokenRequest(max_lifetime_ms=1000), 3)
    return f"{answer.principal_type}:{answer.principal_name}"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_has_the_name_that_the_rules_give_it(broker: TlsBroker, alice: str, version: ssl.TLSVersion) -> None:
    other = broker.file("other", authority().issue(subject(("2.5.4.10", "Acme, Inc."), ("2.5.4.5", "7"))))
    assert principal(broker, "MUTUAL", alice, version) == "User:alice"
    assert principal(broker, "MUTUAL", other, version) == "User:2.5.4.5=#130137,O=Acme\\, Inc."
    assert principal(broker, "WANTED", None, version) == "User:ANONYMOUS"
    assert principal(broker, "PEM", None, version) == "User:ANONYMOUS"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize(
    ("listener", "fault"),
    [("MUTUAL", "none"), *((listener, fault) for listener in ("MUTUAL", "WANTED") for fault in ("expired", "foreign"))],
)
def test_a_bad_certificate_is_answered_by_an_alert(
    broker: TlsBroker, bad: dict[str, str | None], listener: str, fault: str, version: ssl.TLSVersion
) -> None:
    with pytest.raises(ssl.SSLError, match="ALERT"):
        principal(broker, listener, bad[fault], version)


def test_what_is_not_offered_is_answered_by_an_alert(broker: TlsBroker) -> None:
    with pytest.raises(ssl.SSLError, match="ALERT_PROTOCOL_VERSION"):
        TlsClient(broker.address("OLDER"), broker.context(None, ssl.TLSVersion.TLSv1_3))
    with TlsClient(broker.address("OLDER"), broker.context()) as client:
        assert client.socket.cipher()[0] in (  # type: ignore[index]
            "ECDHE-ECDSA-AES256-GCM-SHA384",
            "ECDHE-ECDSA-AES128-GCM-SHA256",
        )
    context = broker.context(None, ssl.TLSVersion.TLSv1_2)
    context.set_ciphers("ECDHE-ECDSA-CHACHA20-POLY1305")
    with pytest.raises(ssl.SSLError, match="HANDSHAKE_FAILURE"):
        TlsClient(broker.address("OLDER"), context)


# -- the wrong door


def test_who_speaks_plaintext_to_tls_and_the_reverse_is_closed_at_once(broker: TlsBroker) -> None:
    with RawClient(broker.address("PEM")) as client, pytest.raises((Closed, ConnectionError)):
        client.call(ApiVersionsRequest("test", "1"), 3)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        TlsClient(broker.address(PLAIN), broker.context())


def test_hundreds_that_never_shake_hands_hold_up_nobody(broker: TlsBroker) -> None:
    host, _, port = broker.address("PEM").partition(":")
    mute = [socket.create_connection((host, int(port))) for _ in range(300)]
    for sock in mute[:200]:
        sock.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    with TlsClient(broker.address("PEM"), broker.context()) as client:
        assert client.call(ApiVersionsRequest("test", "1"), 3).error_code == 0
    for sock in mute:
        sock.setblocking(False)
        with pytest.raises(BlockingIOError):  # nobody had to be turned away for that
            sock.recv(1)
        sock.close()


# -- much


def test_a_large_answer_comes_whole_and_so_do_thousands_of_small_ones(broker: TlsBroker, topic: str) -> None:
    known = broker.confluent("PEM")
    producer = Producer({**known, "message.max.bytes": 1_000_000, "linger.ms": 50})
    for number in range(MANY_BYTES // 100_000):
        producer.produce(topic, b"%06d" % number + b"x" * 99_994)
    assert producer.flush(60) == 0
    consumer = Consumer(
        {**known, "group.id": topic, "auto.offset.reset": "earliest", "fetch.message.max.bytes": 20_000_000}
    )
    consumer.subscribe([topic])
    values: Values = []
    deadline = time.monotonic() + 60
    while len(values) < 300 and time.monotonic() < deadline:
        values += [message.value() or b"" for message in consumer.consume(100, 1) if message.error() is None]
    consumer.close()
    assert [int(value[:6]) for value in values] == list(range(300))
    assert {len(value) for value in values} == {100_000}
    with TlsClient(broker.address("PEM"), broker.context()) as client:
        client.send_bytes(framed(request_bytes(ApiVersionsRequest("test", "1"), 3)) * 3000)
        for _ in range(3000):
            assert client.receive_frame()


# -- keys that change


@pytest.mark.java
def test_keys_are_replaced_while_clients_are_connected(broker: TlsBroker, java: JavaClients) -> None:
    def alter(*changes: str) -> str:
        entity = ("--entity-type", "brokers", "--entity-name", "1")
        done = java.run("kafka-configs", "--bootstrap-server", broker.address(PLAIN), "--alter", *entity, *changes)
        return done.out + done.err

    def shown() -> bytes:
        with TlsClient(broker.address("PEM"), broker.context()) as client:
            assert client.call(ApiVersionsRequest("test", "1"), 3).error_code == 0
            return client.socket.getpeercert(True) or b""

    location = "listener.name.pem.ssl.keystore.location"
    with TlsClient(broker.address("PEM"), broker.context()) as old:
        for _ in range(2):  # the second time under the same path
            renewed = authority().issue("broker")
            file = broker.file("renewed", renewed)
            assert "Completed updating config" in alter("--add-config", f"{location}={file}")
            eventually(shown, renewed.der())
        other = broker.file("other-name", authority().issue("another"))
        assert "Keystore DistinguishedName does not match" in alter("--add-config", f"{location}={other}")
        assert "Failed to load PEM SSL keystore" in alter("--add-config", f"{location}=/nowhere.pem")
        assert shown() == renewed.der()
        assert old.call(ApiVersionsRequest("test", "1"), 3).error_code == 0


@pytest.mark.ours_only
@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            {"ssl.keystore.location": "/nowhere.pem"},
            "/nowhere.pem for configuration ssl.keystore.location: listener FRONT",
        ),
        (
            {"ssl.keystore.type": "JKS", "ssl.keystore.location": "STORE", "ssl.keystore.password": "guess"},
            "its password",
        ),
        ({}, "listener FRONT: Missing required configuration ssl.keystore.location"),
    ],
)
def test_a_store_that_can_not_be_used_ends_the_start(
    broker: TlsBroker, tmp_path: Path, settings: dict[str, str], told: str
) -> None:
    values = {
        "listeners": f"FRONT://127.0.0.1:{free_port()}",
        "listener.security.protocol.map": "FRONT:SSL",
        "log.dirs": str(tmp_path / "data"),
        "ssl.keystore.type": "PEM",
        **settings,
    }
    if "STORE" in values.values():
        values["ssl.keystore.location"] = str(broker.folder / "keys.JKS")
    file = tmp_path / "server.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    done = subprocess.run(
        [sys.executable, "-m", "pykafka_broker", str(file)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert "guess" not in done.stderr


@pytest.mark.ours_only
def test_nothing_secret_is_in_the_log(broker: TlsBroker) -> None:
    log = broker.target.log_path.read_text()
    assert PASSWORD not in log
    assert "PRIVATE KEY" not in log
    assert "Traceback" not in log
