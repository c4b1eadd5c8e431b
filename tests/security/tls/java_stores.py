"""Key stores as Java's tools write them, without Java. What keytool itself writes is read in interop/."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Sequence

from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)

from tests.security.tls.certificates import Issued
from tests.security.tls.record_names import element, identifier


def jks(password: str, keys: Sequence[Issued] = (), trusted: Sequence[bytes] = (), key_password: str = "") -> bytes:
    """Build a store of type JKS."""
    body = struct.pack(">4sII", b"\xfe\xed\xfe\xed", 2, len(keys) + len(trusted))
    for number, issued in enumerate(keys):
        body += _begun(1, f"key-{number}")
        encrypted = _encrypted(issued, key_password or password)
        chain = [issued.certificate, *issued.issuers]
        body += struct.pack(">I", len(encrypted)) + encrypted + struct.pack(">I", len(chain))
        for certificate in chain:
            body += _certificate(certificate.public_bytes(Encoding.DER))
    for number, der in enumerate(trusted):
        body += _begun(2, f"ca-{number}") + _certificate(der)
    return body + hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()


def p12(password: str, issued: Issued, others: bool = True) -> bytes:
    """Build a store of type PKCS12 with a key."""
    encryption = BestAvailableEncryption(password.encode())
    issuers = list(reversed(issued.issuers)) if others else None
    return pkcs12.serialize_key_and_certificates(b"key", issued.key, issued.certificate, issuers, encryption)


def _begun(tag: int, alias: str) -> bytes:
    return struct.pack(">IH", tag, len(alias)) + alias.encode() + bytes(8)


def _certificate(der: bytes) -> bytes:
    return struct.pack(">H5sI", 5, b"X.509", len(der)) + der


def _encrypted(issued: Issued, password: str) -> bytes:
    key = issued.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    secret, salt = password.encode("utf-16-be"), os.urandom(20)
    stream, block = b"", salt
    while len(stream) < len(key):
        block = hashlib.sha1(secret + block).digest()
        stream += block
    cipher = bytes(a ^ b for a, b in zip(key, stream, strict=False))
    content = salt + cipher + hashlib.sha1(secret + key).digest()
    algorithm = element(0x30, identifier("1.3.6.1.4.1.42.2.17.1.1") + b"\x05\x00")
    return element(0x30, algorithm + element(4, content))
