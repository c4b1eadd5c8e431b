"""Certificates for tests, made when they are needed; no key is ever kept."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from pykafka_broker.testing.security_spec import signs_others

LOCAL = ("localhost", "127.0.0.1")
DAY = datetime.timedelta(days=1)
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


class Issued(NamedTuple):
    """A key, its certificate and those above it."""

    key: Key
    certificate: x509.Certificate
    issuers: tuple[x509.Certificate, ...] = ()

    @property
    def chain_pem(self) -> str:
        return "".join(pem_of(certificate) for certificate in (self.certificate, *self.issuers))

    def key_pem(self, password: str | None = None) -> str:
        encryption: KeySerializationEncryption = NoEncryption()
        if password is not None:
            encryption = BestAvailableEncryption(password.encode())
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()

    def pem(self, password: str | None = None) -> str:
        """Return key and certificate chain as in Kafka's key stores of type PEM."""
        return self.key_pem(password) + self.chain_pem

    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)

    def write(self, path: Path, password: str | None = None) -> str:
        path.write_text(self.pem(password))
        return str(path)


class Authority:
    """A certificate authority for tests."""

    def __init__(self, name: str = "Test CA") -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = common_name(name)
        self.certificate = (
            _begun(self.name, self.name, self.key, -1, 30)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(signs_others(), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self.key.public_key()), critical=False)
            .sign(self.key, hashes.SHA256())
        )

    @property
    def pem(self) -> str:
        return pem_of(self.certificate)

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)

    def issue(
        self,
        subject: str | x509.Name,
        names: Sequence[str] = LOCAL,
        *,
        key: Key | None = None,
        begins: float = -1,
        ends: float = 30,
        server_only: bool = False,
    ) -> Issued:
        """Issue a certificate; `begins` and `ends` are days from now."""
        key = key or ec.generate_private_key(ec.SECP256R1())
        name = common_name(subject) if isinstance(subject, str) else subject
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, *([] if server_only else [ExtendedKeyUsageOID.CLIENT_AUTH])]
        builder = _begun(name, self.name, key, begins, ends).add_extension(x509.ExtendedKeyUsage(usages), False)
        known = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = builder.add_extension(known, critical=False)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), False)
        return Issued(key, builder.sign(self.key, hashes.SHA256()), (self.certificate,))


@cache
def authority(name: str = "Test CA") -> Authority:
    """Return the authority of that name, which all tests of a process share."""
    return Authority(name)


@cache
def server_certificate() -> Issued:
    """Return a certificate for localhost, issued by `authority()`."""
    return authority().issue("broker")


def rsa_key(bits: int = 2048) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, bits)


def common_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def subject(*attributes: tuple[str, str]) -> x509.Name:
    """Build a subject from dotted object identifiers and values, in the order of the encoding."""
    return x509.Name([x509.NameAttribute(ObjectIdentifier(oid), text) for oid, text in attributes])


def pem_of(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _begun(subject: x509.Name, issuer: x509.Name, key: Key, begins: float, ends: float) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + begins * DAY)
        .not_valid_after(now + ends * DAY)
    )
