"""The key of a listener and the certificates that it trusts, as its settings name them.

Rule: whatever the format, a key store becomes PEM as OpenSSL reads it and a trust store the DER of its certificates;
nobody else knows of formats. A store is read whole when it is asked for, so that what is in force does not change with
the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pykafka_broker.config.values import ConfigError, invalid
from pykafka_broker.security.listener_settings import ListenerSettings
from pykafka_broker.security.tls.jks import MAGIC, open_key, read_jks
from pykafka_broker.security.tls.pem import Block, armoured, blocks_of
from pykafka_broker.security.tls.pkcs12 import read_pkcs12

_BINARY = ("JKS", "PKCS12")


class KeyStore(NamedTuple):
    """A private key with its chain of certificates, its own first.

    pem: the key, as it was stored, and the chain; password: of the key, if it is encrypted.
    """

    pem: str
    chain: list[bytes]
    password: str | None

    def __repr__(self) -> str:
        return f"KeyStore({len(self.chain)} certificates)"


def key_store_of(settings: ListenerSettings) -> KeyStore:
    """Raises ConfigError."""
    kind = str(settings.get("ssl.keystore.type")).upper()
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


def bad_store(settings: ListenerSettings, key: str, reason: str) -> ConfigError:
    """There is something wrong with the store that `key` names, or holds."""
    return invalid(name_of(settings, key), shown(settings, key), f"listener {settings.name}: {reason}")


def _unknown_type(settings: ListenerSettings, key: str, kind: str) -> ConfigError:
    return bad_store(settings, key, f"{kind} is not one of JKS, PKCS12, PEM")


def _missing(settings: ListenerSettings) -> ConfigError:
    return ConfigError(f"Missing required configuration ssl.keystore.location: listener {settings.name} has no key")


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
    chain = _certificates(settings, chain_key, blocks)
    return KeyStore(
        keys[0].text + "".join(text for text, _ in chain),
        [der for _, der in chain],
        password if keys[0].is_encrypted else None,
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
            chain = entry.chain
        else:
            content = read_pkcs12(data, password)
            if content.key is None:
                raise ValueError("it has no private key")
            key, chain = content.key, content.certificates
    except ValueError as error:
        raise bad_store(settings, location, str(error)) from None
    certificates = "".join(armoured("CERTIFICATE", der) for der in chain)
    return KeyStore(armoured("PRIVATE KEY", key) + certificates, chain, None)


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
