"""Each client is told of TLS and SASL in its own words."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from pathlib import Path

import pytest

from pykafka_broker.testing.security.clients import settings_of, unsecured_token
from pykafka_broker.testing.security.wish import Security

FOLDER = Path("/certificates")
USERS = {"alice": 'a"s', "bob": "b"}


@pytest.fixture(scope="module")
def sasl_ssl() -> Security:
    return Security("sasl_ssl", USERS, client_auth="required", mechanisms=["SCRAM-SHA-512", "OAUTHBEARER"])


def test_java_reads_pem_and_a_jaas_line(sasl_ssl: Security) -> None:
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


def test_librdkafka_has_names_of_its_own(sasl_ssl: Security) -> None:
    assert settings_of("confluent", sasl_ssl, FOLDER, "bob", None) == {
        "security.protocol": "sasl_ssl",
        "ssl.ca.location": "/certificates/ca.pem",
        "ssl.certificate.location": "/certificates/user-bob.pem",
        "ssl.key.location": "/certificates/user-bob.pem",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "bob",
        "sasl.password": "b",
    }


def test_kafka_python_has_files_and_aiokafka_a_context(sasl_ssl: Security, tmp_path: Path) -> None:
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


def test_tokens_say_who_it_is(sasl_ssl: Security, tmp_path: Path) -> None:
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
    assert settings_of("java", Security("ssl"), FOLDER, None, None) == {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/certificates/ca.pem",
    }
    assert "ssl.key.location" in settings_of("confluent", Security("ssl", ["alice"]), FOLDER, "alice", None)
