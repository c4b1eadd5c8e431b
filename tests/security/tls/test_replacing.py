"""What is said of stores that shall replace others: Kafka's words."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka_broker.config import ConfigError
from pykafka_broker.security.tls.contexts import server_context
from pykafka_broker.security.tls.replacing import refused
from tests.security.tls.certificates import server_certificate
from tests.security.tls.java_stores import jks
from tests.security.tls.test_stores import settings

INVALID = "org.apache.kafka.common.errors.InvalidConfigurationException"

PEM_PASSWORD = "SSL key store password cannot be specified with PEM format, only key password may be specified"


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        ({"keystore_location": "FOLDER/none.pem"}, f"{INVALID}: Failed to load PEM SSL keystore FOLDER/none.pem"),
        ({"keystore_location": "FOLDER/bad.pem"}, f"{INVALID}: Failed to load PEM SSL keystore FOLDER/bad.pem"),
        (
            {"keystore_location": "FOLDER/key.pem", "key_password": "unneeded"},
            f"{INVALID}: Failed to load PEM SSL keystore FOLDER/key.pem",
        ),
        (
            {"keystore_location": "FOLDER/key.pem", "truststore_location": "FOLDER/none.pem"},
            f"{INVALID}: Failed to load PEM SSL keystore FOLDER/none.pem",
        ),
        (
            {"keystore_type": "JKS", "keystore_location": "FOLDER/key.jks", "keystore_password": "guess"},
            "org.apache.kafka.common.KafkaException: Failed to load SSL keystore FOLDER/key.jks of type JKS",
        ),
        (
            {"keystore_type": "JKS", "keystore_location": "FOLDER/key.jks"},
            f"{INVALID}: SSL key store is specified, but key store password is not specified.",
        ),
        (
            {"keystore_location": "FOLDER/key.pem", "keystore_password": "x"},
            f"{INVALID}: {PEM_PASSWORD}",
        ),
        (
            {"keystore_location": "FOLDER/key.pem", "keystore_key": "x"},
            f"{INVALID}: Both SSL key store location and separate private key are specified.",
        ),
    ],
)
def test_each_fault_has_its_sentence(tmp_path: Path, texts: dict[str, str], sentence: str) -> None:
    (tmp_path / "bad.pem").write_text("nothing")
    (tmp_path / "key.jks").write_bytes(jks("secret", [server_certificate()]))
    server_certificate().write(tmp_path / "key.pem")
    found = {name: text.replace("FOLDER", str(tmp_path)) for name, text in texts.items()}
    with pytest.raises(ConfigError) as fault:
        server_context(settings(**found))
    told = refused(fault.value)
    assert str(told) == "Validation of dynamic config update of SSLFactory failed: " + sentence.replace(
        "FOLDER", str(tmp_path)
    )
