"""Stores of keys and of certificates: what is read, and what the error says of what can't be."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_der_private_key

from pykafka_broker.config import BrokerConfig, ConfigError
from pykafka_broker.security.listener_settings import ListenerSettings
from pykafka_broker.security.tls.pem import blocks_of
from pykafka_broker.security.tls.stores import key_store_of, trust_store_of
from tests.security.tls.certificates import authority, server_certificate
from tests.security.tls.java_stores import jks, p12


def settings(**texts: str) -> ListenerSettings:
    named = {f"ssl.{name.replace('_', '.')}": text for name, text in texts.items()}
    return ListenerSettings(BrokerConfig({"ssl.keystore.type": "PEM", "ssl.truststore.type": "PEM"} | named), "OUTSIDE")


def test_a_pem_file_is_a_key_and_its_chain(tmp_path: Path) -> None:
    store = key_store_of(settings(keystore_location=server_certificate().write(tmp_path / "key.pem")))
    assert store.pem == server_certificate().pem()
    assert store.chain == [server_certificate().der(), authority().der]
    assert store.password is None
    assert "KEY" not in repr(store)


def test_key_and_chain_may_stand_in_the_settings_themselves() -> None:
    issued = server_certificate()
    store = key_store_of(settings(keystore_key=issued.key_pem(), keystore_certificate_chain=issued.chain_pem))
    assert store.pem == issued.pem()
    with pytest.raises(ConfigError, match=r"it needs ssl\.keystore\.certificate\.chain beside it"):
        key_store_of(settings(keystore_key=issued.key_pem()))


def test_trusted_certificates_come_from_a_file_or_from_the_setting_itself(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text(authority().pem + authority("Another").pem)
    assert trust_store_of(settings(truststore_location=str(path))) == [authority().der, authority("Another").der]
    assert trust_store_of(settings(truststore_certificates=authority().pem)) == [authority().der]
    assert trust_store_of(settings()) is None


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (
            None,
            r"/none.pem for configuration ssl\.keystore\.location: listener OUTSIDE: it can't be read: No such file",
        ),
        ("", "it must have one private key and has 0"),
        ("key", "it has no certificate"),
        ("two keys", "it must have one private key and has 2"),
        ("encrypted", r"its private key is encrypted, and ssl\.key\.password is not set"),
        ("cut", "a CERTIFICATE has no end"),
    ],
)
def test_a_bad_key_store_is_told_with_its_file_and_listener(tmp_path: Path, content: str | None, why: str) -> None:
    issued = server_certificate()
    texts = {
        "key": issued.key_pem(),
        "two keys": issued.key_pem() + issued.pem(),
        "encrypted": issued.pem("secret"),
        "cut": issued.pem()[:-30],
    }
    path = tmp_path / "none.pem"
    if content is not None:
        path = tmp_path / "key.pem"
        path.write_text(texts.get(content, content))
    with pytest.raises(ConfigError, match=why) as refused:
        key_store_of(settings(keystore_location=str(path)))
    assert str(path) in str(refused.value)
    assert "OUTSIDE" in str(refused.value)
    assert "BEGIN" not in str(refused.value)


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
@pytest.mark.parametrize("content", ["JKS", "PKCS12"])
def test_java_s_stores_of_either_type_may_hold_the_other(tmp_path: Path, kind: str, content: str) -> None:
    issued, path = server_certificate(), tmp_path / "store"
    path.write_bytes(jks("secret", [issued]) if content == "JKS" else p12("secret", issued))
    store = key_store_of(settings(keystore_type=kind, keystore_location=str(path), keystore_password="secret"))
    assert store.chain == [issued.der(), authority().der]
    key, *chain = blocks_of(store.pem)
    assert load_der_private_key(key.read_der(), None).public_key() == issued.certificate.public_key()
    assert [block.read_der() for block in chain] == store.chain
    with pytest.raises(ConfigError, match="its password is not the one that is set") as refused:
        key_store_of(settings(keystore_type=kind, keystore_location=str(path), keystore_password="guess"))
    assert str(path) in str(refused.value)
    assert "guess" not in str(refused.value)


def test_a_key_of_a_jks_may_have_a_password_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "store"
    path.write_bytes(jks("secret", [server_certificate()], key_password="other"))
    common = {"keystore_type": "JKS", "keystore_location": str(path), "keystore_password": "secret"}
    assert key_store_of(settings(**common, key_password="other")).chain
    with pytest.raises(ConfigError, match="its private key can't be decrypted"):
        key_store_of(settings(**common))


def test_a_java_store_without_what_is_looked_for_is_refused(tmp_path: Path) -> None:
    trust, keys = tmp_path / "trust", tmp_path / "keys"
    trust.write_bytes(jks("secret", trusted=[authority().der]))
    keys.write_bytes(jks("secret", [server_certificate()]))
    with pytest.raises(ConfigError, match="it has no private key"):
        key_store_of(settings(keystore_type="JKS", keystore_location=str(trust), keystore_password="secret"))
    trusting = settings(truststore_type="JKS", truststore_location=str(trust))
    assert trust_store_of(trusting) == [authority().der]
    with pytest.raises(ConfigError, match="it has no certificate"):
        trust_store_of(settings(truststore_type="JKS", truststore_location=str(keys), truststore_password="secret"))
    with pytest.raises(ConfigError, match="there is no key"):
        key_store_of(settings(keystore_type="PKCS12"))


def test_a_listener_without_a_key_and_an_unknown_type_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"listener OUTSIDE: Missing required configuration ssl\.keystore\.location"):
        key_store_of(settings())
    with pytest.raises(ConfigError, match="WALLET is not one of JKS, PKCS12, PEM"):
        key_store_of(settings(keystore_type="WALLET"))


def test_what_is_secret_is_not_shown(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        key_store_of(settings(keystore_key="-----BEGIN PRIVATE KEY-----\nSECRET", keystore_certificate_chain="x"))
    assert "SECRET" not in str(refused.value)
