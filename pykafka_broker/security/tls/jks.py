"""Java's own key stores, JKS.

Rule: what Sun's format says and no more: entries of keys and of certificates. The password proves that the file is what
was written, and its keys are encrypted by it or by one of their own; without a password certificates are read on trust,
as Java does.
"""

from __future__ import annotations

import hashlib
import hmac
from struct import Struct, error
from typing import NamedTuple

from pykafka_broker.security.tls.der import OID, elements, oid_text

MAGIC = b"\xfe\xed\xfe\xed"
_VERSION = 2
_KEY, _CERTIFICATE = 1, 2
_INT, _SHORT = Struct(">I"), Struct(">H")
_DIGEST_BYTES = 20
_SALT = b"Mighty Aphrodite"
_KEY_PROTECTOR = "1.3.6.1.4.1.42.2.17.1.1"


class Entry(NamedTuple):
    """chain: certificates in DER, the key's own first; key: as it is encrypted, None where there is none."""

    alias: str
    chain: list[bytes]
    key: bytes | None


def read_jks(data: bytes, password: str | None) -> list[Entry]:
    """Raises ValueError."""
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if password is not None:
        found = hashlib.sha1(password.encode("utf-16-be") + _SALT + body, usedforsecurity=False).digest()
        if not hmac.compare_digest(found, digest):
            raise ValueError("its password is not the one that is set, or the file is damaged")
    try:
        return _entries(_Reader(body))
    except (error, UnicodeDecodeError):
        raise ValueError("it is damaged") from None


def open_key(encrypted: bytes, password: str) -> bytes:
    """The PKCS#8 of a private key. Raises ValueError."""
    (outer,) = elements(encrypted)
    algorithm, content = elements(outer.content)
    (oid, *_) = elements(algorithm.content)
    if oid.tag != OID or oid_text(oid.content) != _KEY_PROTECTOR:
        raise ValueError("its private key is encrypted in an unknown way")
    protected, secret = content.content, password.encode("utf-16-be")
    block, cipher, check = protected[:20], protected[20:-20], protected[-20:]
    stream = bytearray()
    while len(stream) < len(cipher):
        block = hashlib.sha1(secret + block, usedforsecurity=False).digest()
        stream += block
    key = bytes(a ^ b for a, b in zip(cipher, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key, usedforsecurity=False).digest(), check):
        raise ValueError("its private key can't be decrypted with the password that is set")
    return key


def _entries(reader: _Reader) -> list[Entry]:
    if reader.take(4) != MAGIC or reader.int() != _VERSION:
        raise ValueError("it is no key store of type JKS")
    entries = []
    for _ in range(reader.int()):
        tag, alias = reader.int(), reader.text()
        reader.take(8)  # when it was made
        if tag == _KEY:
            key = reader.take(reader.int())
            entries.append(Entry(alias, [reader.certificate() for _ in range(reader.int())], key))
        elif tag == _CERTIFICATE:
            entries.append(Entry(alias, [reader.certificate()], None))
        else:
            raise ValueError(f"it has an entry of the unknown kind {tag}")
    return entries


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise ValueError("it is damaged")
        self._at += size
        return taken

    def int(self) -> int:
        return int(_INT.unpack(self.take(4))[0])

    def text(self) -> str:
        return self.take(_SHORT.unpack(self.take(2))[0]).decode()

    def certificate(self) -> bytes:
        if self.text() != "X.509":
            raise ValueError("it has a certificate that is no X.509")
        return self.take(self.int())
