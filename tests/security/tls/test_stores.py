"""Stores of keys and of certificates: what is read, and what the error says of what can't be.

PEM as files and values have it.

Java's own key stores.

Key stores of type PKCS12.

What is said of stores that shall replace others: Kafka's words.
"""

from __future__ import annotations

import builtins
import random
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_der_private_key

from pykafka_broker.config import BrokerConfig, ConfigError
from pykafka_broker.security.listener_settings import ListenerSettings
from pykafka_broker.security.tls.contexts import server_context
from pykafka_broker.security.tls.stores import (
    armoured,
    blocks_of,
    key_store_of,
    open_key,
    read_jks,
    read_pkcs12,
    refused,
    trust_store_of,
)
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


def test_a_file_of_a_key_and_a_chain_has_its_blocks_in_order() -> None:
    text = "Bag Attributes\n" + server_certificate().pem()
    blocks = blocks_of(text)
    assert [(block.is_key, block.is_certificate) for block in blocks] == [(True, False), (False, True), (False, True)]
    assert blocks[2].read_der() == authority().der
    assert not blocks[0].is_encrypted
    assert blocks_of(server_certificate().pem("secret"))[0].is_encrypted


@pytest.mark.parametrize("change", [("\n", "\r\n"), ("\n", " "), ("\n", "")])
def test_lines_may_end_as_they_like_or_not_at_all(change: tuple[str, str]) -> None:
    (block,) = blocks_of(authority().pem.replace(*change))
    assert block.read_der() == authority().der
    assert block.text == authority().pem


def test_what_is_armoured_is_read_back() -> None:
    (block,) = blocks_of(armoured("CERTIFICATE", authority().der))
    assert block.text == authority().pem


def test_half_a_block_is_refused() -> None:
    with pytest.raises(ValueError, match="a CERTIFICATE has no end"):
        blocks_of(authority().pem[:-10])
    with pytest.raises(ValueError, match="base64 of a CERTIFICATE"):
        blocks_of("-----BEGIN CERTIFICATE-----\n?!\n-----END CERTIFICATE-----\n")[0].read_der()


def test_text_without_blocks_has_none() -> None:
    assert blocks_of("nothing here\n") == []


def test_keys_and_certificates_are_read() -> None:
    data = jks("sécret", [server_certificate()], [authority().der], key_password="other")
    key, trusted = read_jks(data, "sécret")
    assert key.alias == "key-0"
    assert key.chain == [server_certificate().der(), authority().der]
    assert trusted.chain == [authority().der]
    assert trusted.key is None
    assert key.key is not None
    opened = load_der_private_key(open_key(key.key, "other"), None)
    assert opened.public_key() == server_certificate().certificate.public_key()
    with pytest.raises(ValueError, match="can't be decrypted with the password"):
        open_key(key.key, "sécret")


def test_without_a_password_certificates_are_taken_on_trust() -> None:
    data = jks("secret", trusted=[authority().der])
    assert [entry.chain for entry in read_jks(data, None)] == [[authority().der]]
    with pytest.raises(ValueError, match="its password is not the one that is set, or the file is damaged"):
        read_jks(data, "guess")


@pytest.mark.parametrize(
    ("written", "alias"),  # as Java's KeyStore writes them
    [(b"\xc3\xa9", "\u00e9"), (b"k\xed\xa0\xbd\xed\xb8\x80", "k\U0001f600"), (b"a\xc0\x80b", "a\0b")],
)
def test_an_alias_may_have_any_characters(written: bytes, alias: str) -> None:
    store = jks("secret", [server_certificate()])
    named = store.replace(b"\0\x05key-0", bytes((0, len(written))) + written)
    assert [each.alias for each in read_jks(named, None)] == [alias]


def test_a_damaged_store_is_refused_and_never_read_past_its_end() -> None:
    data = jks("secret", [server_certificate()], [authority().der])
    chance = random.Random(14)
    for _ in range(2000):
        damaged = bytearray(data[: chance.randrange(len(data))])
        for _ in range(min(3, len(damaged))):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        with pytest.raises(ValueError):
            read_jks(bytes(damaged), "secret")
        try:
            read_jks(bytes(damaged), None)
        except ValueError:
            continue


def test_a_key_comes_with_its_chain_in_order() -> None:
    content = read_pkcs12(p12("secret", server_certificate()), "secret")
    assert content.chain == [server_certificate().der(), authority().der]
    assert content.key is not None
    assert load_der_private_key(content.key, None).public_key() == server_certificate().certificate.public_key()


def test_a_wrong_password_and_what_is_no_store_are_refused() -> None:
    for data, password in ((p12("secret", server_certificate()), "guess"), (b"nothing", "secret"), (b"", None)):
        with pytest.raises(
            ValueError, match="its password is not the one that is set, or it is no store of type PKCS12"
        ):
            read_pkcs12(data, password)


def test_without_the_extra_the_way_to_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return original(name, *rest)

    data = p12("secret", server_certificate())
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ValueError, match=r"need cryptography: pip install cryptography$"):
        read_pkcs12(data, "secret")


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
