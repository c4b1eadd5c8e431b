"""A few words make a broker with certificates, users and rights; words that make none are refused at once."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaProducer
from kafka.errors import TopicAuthorizationFailedError

from pykafka_broker.testing import KafkaBroker

USERS = {"alice": "alice-secret", "bob": 'b"o\\b ü😀'}
ACLS = ["alice may write, create and describe topic orders", "bob may do anything"]


def sent(broker: KafkaBroker, topic: str, **who: Any) -> int:
    producer = KafkaProducer(**broker.client_config("kafka-python", **who))
    try:
        return int(producer.send(topic, b"1").get(10).offset)
    finally:
        producer.close()


def users_of(broker: KafkaBroker) -> list[str]:
    admin = AdminClient(broker.client_config("confluent", "bob"))
    asked: Any = admin.describe_user_scram_credentials()
    return sorted(asked.result(10))


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
    with KafkaBroker(security="sasl_plaintext", users=["alice"]) as broker:
        config = broker.client_config("confluent") | {"sasl.password": "wrong"}
        with pytest.raises(KafkaException):
            AdminClient(config).list_topics(timeout=2)
        assert "Authentication failed: Invalid username or password" in broker.log


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
    with KafkaBroker(acls=["ANONYMOUS may write and describe topic t"]) as broker:
        broker.create_topic("t")
        producer = Producer(broker.client_config("confluent"))
        producer.produce("t", b"1")
        assert producer.flush(10) == 0
        assert [each.value for each in broker.records("t")] == ["1"]


@pytest.mark.parametrize("release", ["0.10.2", "2.0", "2.8"])
def test_older_releases_have_users_too(release: str) -> None:
    with KafkaBroker(security="sasl_ssl", users=USERS, acls=ACLS, emulate=release) as broker:
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
