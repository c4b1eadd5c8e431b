"""The settings for clients of each library, accepted by the clients themselves."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka import KafkaProducer

from pykafka_broker.testing import KafkaBroker, RemoteBroker
from pykafka_broker.testing.client_settings import client_settings, login_settings, unsecured_token
from pykafka_broker.testing.security_spec import SecuritySpec


def test_clients_reach_the_broker_with_it() -> None:
    with KafkaBroker() as broker:
        assert (
            broker.get_bootstrap_server()
            == broker.bootstrap_servers
            == RemoteBroker(broker.control_url).get_bootstrap_server()
        )
        producer = Producer(broker.client_config("confluent"))
        producer.produce("t", "1")
        assert producer.flush(60) == 0
        with_kafka_python = KafkaProducer(**broker.client_config("kafka-python"))
        with_kafka_python.send("t", b"2").get(60)
        with_kafka_python.close()
        assert [each.value for each in broker.records("t")] == ["1", "2"]


@pytest.mark.parametrize(
    ("client", "name"),
    [
        ("java", "bootstrap.servers"),
        ("aiokafka", "bootstrap_servers"),
        ("spark", "kafka.bootstrap.servers"),
    ],
)
def test_each_client_has_its_own_word(client: str, name: str) -> None:
    assert client_settings(client, "h:1") == {name: "h:1"}


@pytest.mark.parametrize("client", ["confluent", "confluent-kafka", "librdkafka"])
def test_librdkafka_keeps_its_only_broker_where_it_can_be_told_to(client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"bootstrap.servers": "h:1"}
    assert client_settings(client, "h:1") == settings | {"metadata.recovery.strategy": "none"}
    Producer(client_settings(client, "127.0.0.1:1"))  # raises for a setting that it does not know
    monkeypatch.setattr("confluent_kafka.libversion", lambda: ("2.8.0", 0x020800FF))
    assert client_settings(client, "h:1") == settings
    monkeypatch.setattr("pykafka_broker.testing.client_settings.find_spec", lambda name: None)
    assert client_settings(client, "h:1") == settings


def test_another_client_is_refused() -> None:
    with pytest.raises(ValueError, match="flink is not known; it must be one of confluent"):
        client_settings("flink", "h:1")


# -- logins


FOLDER = Path("/certificates")
PASSWORDS = {"alice": 'a"s', "bob": "b"}


def settings_of(
    client: str, security: SecuritySpec, folder: Path, user: str | None, mechanism: str | None
) -> dict[str, Any]:
    return login_settings(client, security.login(folder, user, mechanism))


@pytest.fixture(scope="module")
def sasl_ssl() -> SecuritySpec:
    return SecuritySpec("sasl_ssl", PASSWORDS, client_auth="required", mechanisms=["SCRAM-SHA-512", "OAUTHBEARER"])


def test_java_reads_pem_and_a_jaas_line(sasl_ssl: SecuritySpec) -> None:
    settings = settings_of("java", sasl_ssl, FOLDER, None, None)
    assert settings == {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/certificates/ca.pem",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": "/certificates/user-alice.pem",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="alice" password="a\\"s";',
    }
    spark = settings_of("spark", sasl_ssl, FOLDER, None, None)
    assert spark == {f"kafka.{key}": value for key, value in settings.items()}


def test_librdkafka_has_names_of_its_own(sasl_ssl: SecuritySpec) -> None:
    assert settings_of("confluent", sasl_ssl, FOLDER, "bob", None) == {
        "security.protocol": "sasl_ssl",
        "ssl.ca.location": "/certificates/ca.pem",
        "ssl.certificate.location": "/certificates/user-bob.pem",
        "ssl.key.location": "/certificates/user-bob.pem",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "bob",
        "sasl.password": "b",
    }


def test_kafka_python_has_files_and_aiokafka_a_context(sasl_ssl: SecuritySpec, tmp_path: Path) -> None:
    sasl_ssl.write(tmp_path)
    common = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "alice",
        "sasl_plain_password": 'a"s',
    }
    identity = str(tmp_path / "user-alice.pem")
    files = {"ssl_cafile": str(tmp_path / "ca.pem"), "ssl_certfile": identity, "ssl_keyfile": identity}
    assert settings_of("kafka-python", sasl_ssl, tmp_path, None, None) == common | files
    settings = settings_of("aiokafka", sasl_ssl, tmp_path, None, None)
    context = settings.pop("ssl_context")
    assert settings == common
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert len(context.get_ca_certs()) == 1


def test_tokens_say_who_it_is(sasl_ssl: SecuritySpec, tmp_path: Path) -> None:
    header, claims, signature = unsecured_token("alice").split(".")
    assert json.loads(base64.urlsafe_b64decode(header + "==")) == {"alg": "none"}
    assert json.loads(base64.urlsafe_b64decode(claims + "=="))["sub"] == "alice"
    assert signature == ""
    sasl_ssl.write(tmp_path)
    for client in ("kafka-python", "aiokafka"):
        provider = settings_of(client, sasl_ssl, tmp_path, "bob", "OAUTHBEARER")["sasl_oauth_token_provider"]
        token = asyncio.run(provider.token()) if client == "aiokafka" else provider.token()
        assert token.split(".")[0] == header
    assert "sasl.oauthbearer.config" in settings_of("confluent", sasl_ssl, tmp_path, "bob", "OAUTHBEARER")
    java = settings_of("java", sasl_ssl, tmp_path, "bob", "OAUTHBEARER")["sasl.jaas.config"]
    assert java.endswith('OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="bob";')


def test_without_sasl_there_is_a_certificate_and_no_name() -> None:
    assert settings_of("java", SecuritySpec("ssl"), FOLDER, None, None) == {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/certificates/ca.pem",
    }
    assert "ssl.key.location" in settings_of("confluent", SecuritySpec("ssl", ["alice"]), FOLDER, "alice", None)
