"""The key of a listener and the certificates that it trusts, as its settings name them, in PEM, JKS or PKCS12.

Rule: whatever the format, a key store becomes PEM as OpenSSL reads it and a trust store the DER of its certificates;
the formats are known here alone. A store is read whole when it is asked for, so that a later change of the file changes
nothing that is in force.

PEM: text between blocks is skipped, as every reader of PEM does; a block that does not end or holds no base64 is an
error, so that half a file never passes for a whole one. JKS: entries of keys and of certificates. The password proves
that the file is unchanged, and its keys are encrypted by it or by one of their own; without a password certificates are
read on trust, as Java does. PKCS12: the package `cryptography` reads them, and is imported for the first one.

Keys and certificates may be replaced while a listener serves (KIP-226): a new certificate has the name and at least the
alternative names of the old one, unless `ssl.allow.dn.changes` and `ssl.allow.san.changes` allow others; else nothing
changes. Clients are told in Kafka's words.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
import re
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple

from pykafka_broker.config.values import ConfigError, UnusableError
from pykafka_broker.security.listener_settings import ListenerSettings
from pykafka_broker.security.tls.der import OID, elements, names_of, oid_text, text_of

# -- PEM


_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)(?:-----END \1-----|\Z)", re.DOTALL)
_KEY_LABEL_END = "PRIVATE KEY"


class Block(NamedTuple):
    """A block of PEM. text: the whole block with its lines BEGIN and END."""

    label: str
    text: str

    @property
    def is_key(self) -> bool:
        return self.label.endswith(_KEY_LABEL_END)

    @property
    def is_certificate(self) -> bool:
        return self.label in ("CERTIFICATE", "TRUSTED CERTIFICATE", "X509 CERTIFICATE")

    @property
    def is_encrypted(self) -> bool:
        return self.label.startswith("ENCRYPTED") or "Proc-Type: 4,ENCRYPTED" in self.text

    def read_der(self) -> bytes:
        """Return the content. Raises ValueError for bad base64."""
        body = "".join(self.text.split("\n", 1)[1].rsplit("-----END", 1)[0].split())
        try:
            return base64.b64decode(body, validate=True)
        except binascii.Error:
            raise ValueError(f"the base64 of a {self.label} can't be read") from None


def blocks_of(text: str) -> list[Block]:
    """Return the blocks of a text. Raises ValueError if a block has no end."""
    text = text.replace("\r\n", "\n")
    blocks = []
    for match in _BLOCK.finditer(text):
        if not match[0].endswith(f"-----END {match[1]}-----"):
            raise ValueError(f"a {match[1]} has no end")
        blocks.append(Block(match[1], _on_lines(match)))
    return blocks


def armoured(label: str, der: bytes) -> str:
    return _lines(label, base64.b64encode(der).decode())


def _on_lines(match: re.Match[str]) -> str:
    """Return the block with OpenSSL's line breaks, also if written on a single line, as in properties files."""
    label, body = match[1], match[2]
    if ":" in body:  # headers before the base64, as in keys encrypted in the old way
        return f"{match[0]}\n"
    return _lines(label, "".join(body.split()))


def _lines(label: str, body: str) -> str:
    lines = (body[start : start + 64] for start in range(0, len(body), 64))
    return "\n".join((f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""))


# -- JKS


_JKS_MAGIC = b"\xfe\xed\xfe\xed"
_VERSION = 2
_KEY, _CERTIFICATE = 1, 2
_INT, _SHORT = Struct(">I"), Struct(">H")
_DIGEST_BYTES = 20
_SALT = b"Mighty Aphrodite"  # Java's constant
_KEY_PROTECTOR = "1.3.6.1.4.1.42.2.17.1.1"


class StoreEntry(NamedTuple):
    """A private key with its certificates, or certificates alone.

    key: PKCS#8, in JKS encrypted; chain: certificates in DER, the key's own first.
    """

    alias: str
    chain: list[bytes]
    key: bytes | None


def read_jks(data: bytes, password: str | None) -> list[StoreEntry]:
    """Return the entries of a store; the keys stay encrypted, see `open_key`. Raises ValueError."""
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if password is not None:
        found = hashlib.sha1(password.encode("utf-16-be") + _SALT + body, usedforsecurity=False).digest()
        if not hmac.compare_digest(found, digest):
            raise ValueError("its password is not the one that is set, or the file is damaged")
    try:
        return _entries(_JksReader(body))
    except UnicodeDecodeError:
        raise ValueError("it is damaged") from None


def open_key(encrypted: bytes, password: str) -> bytes:
    """Decrypt a private key of JKS, and return its PKCS#8. Raises ValueError."""
    (outer,) = elements(encrypted)
    algorithm, content = elements(outer.content)
    (oid, *_) = elements(algorithm.content)
    if oid.tag != OID or oid_text(oid.content) != _KEY_PROTECTOR:
        raise ValueError("its private key is encrypted in an unknown way")
    protected, secret = content.content, password.encode("utf-16-be")
    block, cipher, check = protected[:20], protected[20:-20], protected[-20:]
    stream = bytearray()  # each block is the hash of password and previous block, from the salt on
    while len(stream) < len(cipher):
        block = hashlib.sha1(secret + block, usedforsecurity=False).digest()
        stream += block
    key = bytes(a ^ b for a, b in zip(cipher, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key, usedforsecurity=False).digest(), check):
        raise ValueError("its private key can't be decrypted with the password that is set")
    return key


def _entries(reader: _JksReader) -> list[StoreEntry]:
    if reader.take(4) != _JKS_MAGIC or reader.number() != _VERSION:
        raise ValueError("it is no key store of type JKS")
    entries = []
    for _ in range(reader.number()):
        tag, alias = reader.number(), reader.text()
        reader.take(8)  # time of creation
        if tag == _KEY:
            key = reader.take(reader.number())
            entries.append(StoreEntry(alias, [reader.certificate() for _ in range(reader.number())], key))
        elif tag == _CERTIFICATE:
            entries.append(StoreEntry(alias, [reader.certificate()], None))
        else:
            raise ValueError(f"it has an entry of the unknown kind {tag}")
    return entries


class _JksReader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise ValueError("it is damaged")
        self._at += size
        return taken

    def number(self) -> int:
        return int(_INT.unpack(self.take(4))[0])

    def text(self) -> str:
        """Return a text in Java's modified UTF-8: a zero has two bytes, a character beyond U+FFFF two surrogates."""
        written = self.take(_SHORT.unpack(self.take(2))[0]).replace(b"\xc0\x80", b"\0")
        return written.decode("utf-8", "surrogatepass").encode("utf-16", "surrogatepass").decode("utf-16")

    def certificate(self) -> bytes:
        if self.text() != "X.509":
            raise ValueError("it has a certificate that is no X.509")
        return self.take(self.number())


# -- PKCS12


def read_pkcs12(data: bytes, password: str | None) -> StoreEntry:
    """Return the content of a store. Raises ValueError."""
    try:
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError:
        raise ValueError("stores of type PKCS12 need cryptography: pip install cryptography") from None
    try:
        store = load_pkcs12(data, None if password is None else password.encode())
    except ValueError:
        raise ValueError("its password is not the one that is set, or it is no store of type PKCS12") from None
    key = None
    if store.key is not None:
        key = store.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    own = [] if store.cert is None else [store.cert.certificate]
    others = [each.certificate for each in store.additional_certs]
    chain = _in_order(own, others) if key is not None else own + others
    alias = (store.cert.friendly_name or b"") if store.cert is not None else b""
    certificates = [certificate.public_bytes(Encoding.DER) for certificate in chain]
    return StoreEntry(alias.decode("utf-8", "replace"), certificates, key)


def _in_order(own: list[Any], others: list[Any]) -> list[Any]:
    """Return the chain of the own certificate: after each certificate its issuer. Unrelated ones are left out."""
    chain = list(own)
    while chain:
        issuers = [each for each in others if each.subject == chain[-1].issuer and each not in chain]
        if not issuers:
            break
        chain.append(issuers[0])
    return chain


# -- the stores of a listener


_BINARY = ("JKS", "PKCS12")
_INVALID = "org.apache.kafka.common.errors.InvalidConfigurationException"
_PEM_ALIAS = "kafka"


class KeyStore(NamedTuple):
    """A private key with a chain of certificates, the key's own first.

    pem: the key, as it was stored, and the chain; password: of the key, if it is encrypted.
    """

    pem: str
    chain: list[bytes]
    password: str | None
    alias: str

    def __repr__(self) -> str:
        return f"KeyStore({len(self.chain)} certificates)"


def key_store_of(settings: ListenerSettings) -> KeyStore:
    """Return the key of a listener. Raises ConfigError."""
    kind = str(settings.get("ssl.keystore.type")).upper()
    _check_passwords(settings, kind)
    if kind not in ("PEM", *_BINARY):
        raise _unknown_type(settings, "ssl.keystore.type", kind)
    if settings.get("ssl.keystore.location") is None and (kind != "PEM" or settings.get("ssl.keystore.key") is None):
        raise _misused(settings, "Missing required configuration ssl.keystore.location: there is no key")
    return _pem_key_store(settings) if kind == "PEM" else _binary_key_store(settings)


def trust_store_of(settings: ListenerSettings) -> list[bytes] | None:
    """Return the trusted certificates, or None without settings. Raises ConfigError."""
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
    """Return the full name of `key` as set for the listener."""
    found = settings.text(key)
    return key if found is None else found[0]


class StoreError(UnusableError):
    """A store can't be used. kafka: Kafka's words for clients."""

    def __init__(self, text: str, kafka: str) -> None:
        super().__init__(text)
        self.kafka = kafka


def bad_store(settings: ListenerSettings, key: str, reason: str) -> StoreError:
    """Return the error for a store named or held by `key`."""
    location, kind = (settings.get(f"{key.rpartition('.')[0]}.{rest}") for rest in ("location", "type"))
    shown = settings.get(key) if key.endswith((".location", ".type")) else "[hidden]"  # others are secrets
    return StoreError(
        f"Invalid value {shown} for configuration {name_of(settings, key)}: {settings.before_error}{reason}",
        f"{_INVALID}: Failed to load PEM SSL keystore {location}"
        if kind == "PEM"
        else f"org.apache.kafka.common.KafkaException: Failed to load SSL keystore {location} of type {kind}",
    )


def _misused(settings: ListenerSettings, sentence: str) -> StoreError:
    """Return the error for settings in contradiction."""
    return StoreError(f"{settings.before_error}{sentence}", f"{_INVALID}: {sentence}")


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


def _pem_key_store(settings: ListenerSettings) -> KeyStore:
    inline = settings.get("ssl.keystore.key") is not None
    if inline:
        key, chain_key = "ssl.keystore.key", "ssl.keystore.certificate.chain"
        if settings.get("ssl.keystore.certificate.chain") is None:
            raise bad_store(settings, key, f"it needs {chain_key} beside it")
        blocks = _pem_blocks(settings, key) + _pem_blocks(settings, chain_key)
    else:
        key = chain_key = "ssl.keystore.location"
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
    """Read JKS or PKCS12, whichever the content is: the set type may be the other one, as with Java."""
    location = "ssl.keystore.location"
    data, password = read_store(settings, location), settings.get("ssl.keystore.password")
    try:
        if data.startswith(_JKS_MAGIC):
            entries = read_jks(data, password)
        else:
            entries = [read_pkcs12(data, password)]
        alias, chain, key = next((each for each in entries if each.key is not None), ("", [], None))
        if key is None:
            raise ValueError("it has no private key")
        if data.startswith(_JKS_MAGIC):
            key = open_key(key, settings.get("ssl.key.password") or password or "")
    except ValueError as error:
        raise bad_store(settings, location, str(error)) from None
    certificates = "".join(armoured("CERTIFICATE", der) for der in chain)
    return KeyStore(armoured("PRIVATE KEY", key) + certificates, chain, None, alias)


def _binary_trust_store(settings: ListenerSettings) -> list[bytes]:
    location = "ssl.truststore.location"
    data, password = read_store(settings, location), settings.get("ssl.truststore.password")
    try:
        if data.startswith(_JKS_MAGIC):  # a private key's own certificate is not thereby trusted
            trusted = [der for entry in read_jks(data, password) if entry.key is None for der in entry.chain]
        else:
            trusted = read_pkcs12(data, password).chain
        if not trusted:
            raise ValueError("it has no certificate")
    except ValueError as error:
        raise bad_store(settings, location, str(error)) from None
    return trusted


def _certificates(settings: ListenerSettings, key: str, blocks: list[Block]) -> list[tuple[str, bytes]]:
    """Return text and DER of each certificate."""
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
    """Return the bytes of the file named by `key`."""
    try:
        return Path(settings.get(key)).read_bytes()
    except OSError as error:
        raise bad_store(settings, key, f"it can't be read: {error.strerror}") from None


# -- the replacement of a key


_IP_ADDRESS = 7
_TEXTS = (1, 2, 6)  # mail, DNS and URI


def refused(error: ConfigError) -> ConfigError:
    """Return an error of new settings in Kafka's words."""
    reason = error.kafka if isinstance(error, StoreError) else str(error)
    return ConfigError(f"Validation of dynamic config update of SSLFactory failed: {reason}")


def check_replacement(old: KeyStore, new: KeyStore, settings: ListenerSettings) -> None:
    """Check a new key against the old. Raises ConfigError."""
    before, after = names_of(old.chain[0]), names_of(new.chain[0])
    if before.subject != after.subject and not settings.get("ssl.allow.dn.changes"):
        existing, proposed = (
            f"{{alias={store.alias}, DN={text_of(names.subject)}}}" for store, names in ((old, before), (new, after))
        )
        raise _mismatch("DistinguishedName does", existing, proposed)
    if not set(before.alternatives) <= set(after.alternatives) and not settings.get("ssl.allow.san.changes"):
        existing, proposed = (
            f"{{alias={store.alias}, SAN=[{', '.join(map(_alternative_text, names.alternatives))}]}}"
            for store, names in ((old, before), (new, after))
        )
        raise _mismatch("SubjectAltNames do", existing, proposed)


def _mismatch(what: str, existing: str, new: str) -> ConfigError:
    return ConfigError(
        f"org.apache.kafka.common.config.ConfigException: Keystore {what} not match:  existing={existing}, new={new}"
    )


def _alternative_text(name: bytes) -> str:
    """Return an alternative name in DER as Java prints names."""
    ((tag, content, _),) = elements(name)
    kind = tag & 0x1F
    if kind in _TEXTS:
        return f"[{kind}, {content.decode('latin-1')}]"
    if kind == _IP_ADDRESS and len(content) in (4, 16):
        return f"[{kind}, {ipaddress.ip_address(content)}]"
    return f"[{kind}, #{content.hex()}]"
