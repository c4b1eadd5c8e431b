"""The key of a listener and the certificates that it trusts, as its settings name them.

Rule: whatever the format, a key store becomes PEM as OpenSSL reads it and a trust store the DER of its certificates;
nobody else knows of formats. A store is read whole when it is asked for, so that what is in force does not change with
the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pykafka_broker.config.values import UnusableError
from pykafka_broker.security.listener_settings import ListenerSettings
from pykafka_broker.security.tls.jks import MAGIC, open_key, read_jks
from pykafka_broker.security.tls.pem import Block, armoured, blocks_of
from pykafka_broker.security.tls.pkcs12 import read_pkcs12

_BINARY = ("JKS", "PKCS12")
_INVALID = "org.apache.kafka.common.errors.InvalidConfigurationException"
_PEM_ALIAS = "kafka"


class KeyStore(NamedTuple):
    """A private key with its chain of certificates, its own first.

    pem: the key, as it was stored, and the chain; password: of the key, if it is encrypted.
    """

    pem: str
    chain: list[bytes]
    password: str | None
    alias: str

    def __repr__(self) -> str:
        return f"KeyStore({len(self.chain)} certificates)"


def key_store_of(settings: ListenerSettings) -> KeyStore:
    """Raises ConfigError."""
    kind = str(settings.get("ssl.keystore.type")).upper()
    _check_passwords(settings, kind)
    if kind == "PEM":
        return _pem_key_store(settings)
    if kind not in _BINARY:
        raise _unknown_type(settings, "ssl.keystore.type", kind)
    if settings.get("ssl.keystore.location") is None:
        raise _missing(settings)
    return _binary_key_store(settings)


def trust_store_of(settings: ListenerSettings) -> list[bytes] | None:
    """The certificates that are trusted, or None where nothing is said of them. Raises ConfigError."""
    kind = str(settings.get("ssl.truststore.type")).upper()
    inline = settings.get("ssl.truststore.certificates")
    location = settings.get("ssl.truststore.location")
    if inline is None and location is None:
        return None
    if kind in _BINARY and location is not None:
        return _binary_trust_store(settings)
    if kind != "PEM":
        raise _unknown_type(settings, "ssl.truststore.type", kind)
    key = "ssl.truststore.location" if inline is None else "ssl.truststore.certificates"
    return [der for _, der in _certificates(settings, key, _pem_blocks(settings, key))]


def name_of(settings: ListenerSettings, key: str) -> str:
    """The full name under which `key` is set for this listener."""
    found = settings.text(key)
    return key if found is None else found[0]


def shown(settings: ListenerSettings, key: str) -> str:
    """What an error shows of a value: a path, and nothing of what is secret."""
    return str(settings.get(key)) if key.endswith((".location", ".type")) else "[hidden]"


class StoreError(UnusableError):
    """kafka: what Kafka says of it where a client is told."""

    def __init__(self, text: str, kafka: str) -> None:
        super().__init__(text)
        self.kafka = kafka


def bad_store(settings: ListenerSettings, key: str, reason: str) -> StoreError:
    """There is something wrong with the store that `key` names, or holds."""
    location, kind = (settings.get(f"{key.rpartition('.')[0]}.{rest}") for rest in ("location", "type"))
    return StoreError(
        f"Invalid value {shown(settings, key)} for configuration {name_of(settings, key)}: "
        f"listener {settings.name}: {reason}",
        f"{_INVALID}: Failed to load PEM SSL keystore {location}"
        if kind == "PEM"
        else f"org.apache.kafka.common.KafkaException: Failed to load SSL keystore {location} of type {kind}",
    )


def _misused(settings: ListenerSettings, sentence: str) -> StoreError:
    """Settings that do not go together."""
    return StoreError(f"listener {settings.name}: {sentence}", f"{_INVALID}: {sentence}")


def _unknown_type(settings: ListenerSettings, key: str, kind: str) -> StoreError:
    return bad_store(settings, key, f"{kind} is not one of JKS, PKCS12, PEM")


def _check_passwords(settings: ListenerSettings, kind: str) -> None:
    location, password = settings.get("ssl.keystore.location"), settings.get("ssl.keystore.password")
    if kind == "PEM" and password is not None:
        sentence = "SSL key store password cannot be specified with PEM format, only key password may be specified"
        raise _misused(settings, sentence)
    if kind == "PEM" and location is not None and settings.get("ssl.keystore.key") is not None:
        raise _misused(settings, "Both SSL key store location and separate private key are specified.")
    if kind != "PEM" and location is not None and password is None:
        raise _misused(settings, "SSL key store is specified, but key store password is not specified.")


def _missing(settings: ListenerSettings) -> StoreError:
    return _misused(settings, "Missing required configuration ssl.keystore.location: there is no key")


def _pem_key_store(settings: ListenerSettings) -> KeyStore:
    inline = settings.get("ssl.keystore.key") is not None
    if inline:
        key, chain_key = "ssl.keystore.key", "ssl.keystore.certificate.chain"
        if settings.get("ssl.keystore.certificate.chain") is None:
            raise bad_store(settings, key, f"it needs {chain_key} beside it")
        blocks = _pem_blocks(settings, key) + _pem_blocks(settings, chain_key)
    else:
        key = chain_key = "ssl.keystore.location"
        if settings.get(key) is None:
            raise _missing(settings)
        blocks = _pem_blocks(settings, key)
    keys = [block for block in blocks if block.is_key]
    if len(keys) != 1:
        raise bad_store(settings, key, f"it must have one private key and has {len(keys)}")
    password = settings.get("ssl.key.password")
    if keys[0].is_encrypted and password is None:
        raise bad_store(settings, key, "its private key is encrypted, and ssl.key.password is not set")
    if password is not None and not keys[0].is_encrypted:
        raise bad_store(settings, key, "ssl.key.password is set, and its private key is not encrypted")
    chain = _certificates(settings, chain_key, blocks)
    return KeyStore(
        keys[0].text + "".join(text for text, _ in chain),
        [der for _, der in chain],
        password,
        _PEM_ALIAS,
    )


def _binary_key_store(settings: ListenerSettings) -> KeyStore:
    """JKS or PKCS12: each may have the content of the other, as with Java."""
    location = "ssl.keystore.location"
    data, password = read_store(settings, location), settings.get("ssl.keystore.password")
    try:
        if data.startswith(MAGIC):
            entry = next((entry for entry in read_jks(data, password) if entry.key is not None), None)
            if entry is None or entry.key is None:
                raise ValueError("it has no private key")
            key = open_key(entry.key, settings.get("ssl.key.password") or password or "")
            chain, alias = entry.chain, entry.alias
        else:
            content = read_pkcs12(data, password)
            if content.key is None:
                raise ValueError("it has no private key")
            key, chain, alias = content.key, content.certificates, content.alias
    except ValueError as error:
        raise bad_store(settings, location, str(error)) from None
    certificates = "".join(armoured("CERTIFICATE", der) for der in chain)
    return KeyStore(armoured("PRIVATE KEY", key) + certificates, chain, None, alias)


def _binary_trust_store(settings: ListenerSettings) -> list[bytes]:
    location = "ssl.truststore.location"
    data, password = read_store(settings, location), settings.get("ssl.truststore.password")
    try:
        if data.startswith(MAGIC):  # a key there is no reason to trust its certificate
            trusted = [der for entry in read_jks(data, password) if entry.key is None for der in entry.chain]
        else:
            trusted = read_pkcs12(data, password).certificates
        if not trusted:
            raise ValueError("it has no certificate")
    except ValueError as error:
        raise bad_store(settings, location, str(error)) from None
    return trusted


def _certificates(settings: ListenerSettings, key: str, blocks: list[Block]) -> list[tuple[str, bytes]]:
    """Text and DER of each."""
    try:
        certificates = [(block.text, block.read_der()) for block in blocks if block.is_certificate]
    except ValueError as error:
        raise bad_store(settings, key, str(error)) from None
    if not certificates:
        raise bad_store(settings, key, "it has no certificate")
    return certificates


def _pem_blocks(settings: ListenerSettings, key: str) -> list[Block]:
    if key.endswith(".location"):
        text = read_store(settings, key).decode("utf-8", "replace")
    else:
        text = str(settings.get(key))
    try:
        return blocks_of(text)
    except ValueError as error:
        raise bad_store(settings, key, str(error)) from None


def read_store(settings: ListenerSettings, key: str) -> bytes:
    """The file that `key` names."""
    try:
        return Path(settings.get(key)).read_bytes()
    except OSError as error:
        raise bad_store(settings, key, f"it can't be read: {error.strerror}") from None
