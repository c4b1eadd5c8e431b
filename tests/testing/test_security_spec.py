"""A few words make a broker with certificates, users and rights; words that make none are refused at once."""

from __future__ import annotations

import contextlib
import ssl
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaProducer
from kafka.errors import TopicAuthorizationFailedError

from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.testing import BrokerError, KafkaBroker
from pykafka_broker.testing.control_client import told_to_the_test
from pykafka_broker.testing.data import NotReached, poll
from pykafka_broker.testing.security_spec import (
    Authority,
    parse_acls,
)

USERS = {"alice": "alice-secret", "bob": 'b"o\\b ü😀'}
ACLS = ["alice may write, create and describe topic orders", "bob may do anything"]


def sent(broker: KafkaBroker, topic: str, **who: Any) -> int:
    producer = KafkaProducer(**broker.client_config("kafka-python", **who))
    try:
        return int(producer.send(topic, b"1").get(60).offset)
    finally:
        producer.close()


def users_of(broker: KafkaBroker) -> list[str]:
    admin = AdminClient(broker.client_config("confluent", "bob"))
    asked: Any = admin.describe_user_scram_credentials()
    return sorted(asked.result(60))


def test_users_and_rights_outlive_resets_restarts_and_forks() -> None:
    with KafkaBroker(security="sasl_ssl", users=USERS, acls=ACLS) as broker:
        assert sent(broker, "orders", user="alice") == 0
        broker.reset()
        assert sent(broker, "orders", user="alice", mechanism="SCRAM-SHA-512") == 0
        with pytest.raises(TopicAuthorizationFailedError):
            sent(broker, "others", user="alice")
        assert sent(broker, "others", user="bob", mechanism="SCRAM-SHA-256") == 0
        broker.snapshot("one")
        broker.restart()
        assert sent(broker, "orders") == 1
        broker.restore("one")
        assert sent(broker, "orders") == 1
        with broker.fork() as fork:
            assert sent(fork, "orders", user="alice") == 2
            assert users_of(fork) == ["alice", "bob"]
        assert users_of(broker) == ["alice", "bob"]


def test_a_wrong_password_is_refused() -> None:
    with KafkaBroker(security="sasl_plaintext", users=["alice"], in_process=True) as broker:
        config = broker.client_config("confluent") | {"sasl.password": "wrong"}
        admin = AdminClient(config)
        with pytest.raises(KafkaException):
            admin.list_topics(timeout=2)
        poll(lambda: _refused(broker), "no login was refused", 30)


def _refused(broker: KafkaBroker) -> None:
    if "Authentication failed: Invalid username or password" not in broker.log:
        raise NotReached


@pytest.mark.linux("/proc shows command lines")
def test_secrets_are_for_their_owner_alone(tmp_path: Path) -> None:
    with KafkaBroker(security="sasl_ssl", users=USERS, client_auth="required") as broker:
        config = broker.client_config("java", "alice")
        for name in ("ssl.truststore.location", "ssl.keystore.location"):
            assert stat.S_IMODE(Path(config[name]).stat().st_mode) == 0o600
        command = Path(f"/proc/{broker.pid}/cmdline").read_bytes()
        assert b"alice-secret" not in command
        assert "alice-secret" not in broker.log + repr(broker)
        kept = Path(config["ssl.truststore.location"]).parents[1]
    assert not kept.exists()


def test_a_broker_has_what_its_config_adds() -> None:
    config = {"super.users": "User:alice", "auto.create.topics.enable": "false"}
    with KafkaBroker(config, security="sasl_plaintext", users=USERS, acls=[], mechanisms=["SCRAM-SHA-256"]) as broker:
        broker.create_topic("t")
        assert sent(broker, "t", user="alice") == 0


def test_rights_without_a_password_are_those_of_everybody() -> None:
    with KafkaBroker(acls=["ANONYMOUS may write and describe topic t"], in_process=True) as broker:
        broker.create_topic("t")
        producer = Producer(broker.client_config("confluent"))
        producer.produce("t", b"1")
        assert producer.flush(60) == 0
        assert [each.value for each in broker.records("t")] == ["1"]


@pytest.mark.parametrize("release", ["0.10.2", "2.0", "2.8"])
def test_older_releases_have_users_too(release: str) -> None:
    with KafkaBroker(security="sasl_ssl", users=USERS, acls=ACLS, emulate=release, in_process=True) as broker:
        assert sent(broker, "orders", user="alice") == 0


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ({"security": "tls"}, "security='tls': it must be one of plaintext, ssl, sasl_plaintext, sasl_ssl"),
        ({"security": "sasl_ssl"}, "security='sasl_ssl' needs users, such as users={'alice': 'secret'}"),
        ({"users": USERS}, "users need security='sasl_ssl', 'sasl_plaintext' or 'ssl'"),
        ({"security": "ssl", "mechanisms": ["PLAIN"]}, "mechanisms are for security='sasl_plaintext' or 'sasl_ssl'"),
        ({"security": "sasl_ssl", "users": USERS, "mechanisms": ["SCRAM"]}, "mechanism SCRAM is not known"),
        ({"security": "ssl", "client_auth": "want"}, "client_auth='want': it must be one of none, requested, required"),
        ({"security": "sasl_plaintext", "users": USERS, "client_auth": "none"}, "client_auth is for security='ssl'"),
        ({"security": "ssl", "users": USERS, "client_auth": "none"}, "users have certificates"),
        ({"security": "sasl_ssl", "users": "alice"}, "it must be a list of names"),
        ({"security": "sasl_ssl", "users": ["a b"]}, "a user's name has no blanks"),
        ({"security": "sasl_ssl", "users": {"a": ""}}, "user a must have a password"),
        ({"security": "sasl_ssl", "users": USERS, "acls": ["carol may do anything"]}, "there is no user carol"),
        ({"security": "ssl", "config": {"listeners": "SSL://:1"}}, "security=... makes the listener itself"),
    ],
)
def test_words_that_make_no_broker_are_told_at_once(wanted: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError) as raised:
        KafkaBroker(**wanted)
    assert reason in str(raised.value)
    assert "secret'" not in str(raised.value).replace("'alice': 'secret'", "")


def test_a_client_that_there_is_not_is_told() -> None:
    broker = KafkaBroker(port=4711, security="sasl_plaintext", users=USERS, mechanisms="PLAIN")
    with pytest.raises(ValueError, match="there is no user carol; there are alice, bob"):
        broker.client_config("java", "carol")
    with pytest.raises(ValueError, match="mechanism SCRAM-SHA-256 is not enabled on this broker; it has PLAIN"):
        broker.client_config("java", mechanism="SCRAM-SHA-256")
    with pytest.raises(ValueError, match="this broker has no users"):
        KafkaBroker().client_config("java", "alice")


def test_one_sentence_is_no_list_of_them() -> None:
    with pytest.raises(ValueError, match=r"acls=\['alice may read topic orders'\]"):
        KafkaBroker(security="sasl_plaintext", users=["alice"], acls="alice may read topic orders")


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> ssl.SSLObject:
    """Do a TLS handshake in memory, and return the server's side."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    here = client.wrap_bio(down, up, server_hostname=name)
    there = server.wrap_bio(up, down, server_side=True)
    for _ in range(3):
        for side in (here, there):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    return there


@pytest.fixture
def contexts(tmp_path: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    authority = Authority()
    for name, text in {
        "ca": authority.pem,
        "broker": authority.issue("broker", ["localhost", "127.0.0.1", "::1"]),
        "alice": authority.issue("alice"),
    }.items():
        (tmp_path / name).write_text(text)
    client = ssl.create_default_context(cafile=tmp_path / "ca")
    client.load_cert_chain(tmp_path / "alice")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "broker")
    server.load_verify_locations(tmp_path / "ca")
    server.verify_mode = ssl.CERT_REQUIRED
    return client, server


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_both_sides_know_each_other(contexts: tuple[ssl.SSLContext, ssl.SSLContext], host: str) -> None:
    found: Any = shake_hands(*contexts, host).getpeercert()
    assert found["subject"] == ((("commonName", "alice"),),)


def test_who_checks_strictly_as_python_does_from_3_13_on_is_content(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    for context in contexts:
        context.verify_flags |= ssl.VERIFY_X509_STRICT
    assert shake_hands(*contexts, "localhost").version() == "TLSv1.3"


def test_another_host_and_another_authority_are_refused(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(*contexts, "example.org")
    with pytest.raises(ssl.SSLCertVerificationError, match="self-signed"):
        shake_hands(ssl.create_default_context(cadata=Authority().pem), contexts[1], "localhost")


def test_a_secured_broker_without_cryptography_says_in_one_line_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric", None)
    with pytest.raises(BrokerError, match=r"pip install cryptography$") as caught:
        KafkaBroker(security="ssl")
    assert caught.value.__suppress_context__
    assert told_to_the_test(caught), "pytest shows only the line of the test"


NAMES = ("alice", "bob")
ALLOW, DENY = 3, 2
LITERAL, PREFIXED = 3, 4


def parsed(sentence: str) -> list[tuple[object, ...]]:
    names = ("principal", "host", "permission_type", "operation", "resource_type", "pattern_type", "resource_name")
    return [tuple(getattr(each, name) for name in names) for each in parse_acls([sentence], NAMES).entries]


@pytest.mark.parametrize(
    ("sentence", "meaning"),
    [
        (
            "alice may read topic orders",
            ("User:alice", "*", ALLOW, AclOperation.READ, AclResourceType.TOPIC, LITERAL, "orders"),
        ),
        (
            "bob may not write topic orders from 10.0.0.1",
            ("User:bob", "10.0.0.1", DENY, AclOperation.WRITE, AclResourceType.TOPIC, LITERAL, "orders"),
        ),
        (
            "bob may read group team-*",
            ("User:bob", "*", ALLOW, AclOperation.READ, AclResourceType.GROUP, PREFIXED, "team-"),
        ),
        (
            "anyone may describe topic *",
            ("User:*", "*", ALLOW, AclOperation.DESCRIBE, AclResourceType.TOPIC, LITERAL, "*"),
        ),
        (
            "alice  may\n idempotent-write cluster",
            (
                "User:alice",
                "*",
                ALLOW,
                AclOperation.IDEMPOTENT_WRITE,
                AclResourceType.CLUSTER,
                LITERAL,
                "kafka-cluster",
            ),
        ),
        (
            "ANONYMOUS may write transactional-id tx 1",
            ("User:ANONYMOUS", "*", ALLOW, AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, LITERAL, "tx 1"),
        ),
        (
            "alice may create-tokens user User:bob",
            ("User:alice", "*", ALLOW, AclOperation.CREATE_TOKENS, AclResourceType.USER, LITERAL, "User:bob"),
        ),
        ("alice may all topic t", ("User:alice", "*", ALLOW, 2, AclResourceType.TOPIC, LITERAL, "t")),
    ],
)
def test_a_sentence_is_an_acl(sentence: str, meaning: tuple[object, ...]) -> None:
    assert parsed(sentence) == [meaning]


@pytest.mark.parametrize("operations", ["read and describe", "read, describe", "read,describe", "read describe"])
def test_several_operations_are_as_many_acls(operations: str) -> None:
    assert [each[3] for each in parsed(f"alice may {operations} topic t")] == [AclOperation.READ, AclOperation.DESCRIBE]


def test_who_may_do_anything_is_a_super_user() -> None:
    rights = parse_acls(["bob may do anything", "alice may read topic t"], NAMES)
    assert rights.super_users == ["User:bob"]
    assert len(rights.entries) == 1
    assert len({entry.id for entry in parse_acls(["alice may read, write topic t"], NAMES).entries}) == 2


@pytest.mark.parametrize(
    ("sentence", "reason"),
    [
        ("alice reads orders", "it must be like 'alice may read topic orders'"),
        ("carol may read topic orders", "there is no user carol; there are alice, bob"),
        ("alice may read orders", "it names none of topic, group, cluster"),
        ("alice may raed topic orders", "raed is no operation of a topic; there are read, write, create"),
        ("alice may write group g", "write is no operation of a group; there are read, delete, describe"),
        ("alice may topic orders", "it must be like"),
        ("alice may read topic", "it names no topic"),
        ("alice may alter cluster main", "the cluster takes no name"),
        ("anyone may do anything", "it names none of"),
        ("bob may do anything from 10.0.0.1", "a super user is one wherever the user comes from"),
    ],
)
def test_what_is_wrong_is_told(sentence: str, reason: str) -> None:
    with pytest.raises(ValueError) as raised:
        parse_acls([sentence], NAMES)
    assert str(raised.value).startswith(f"{sentence!r} is no ACL: {reason}")
