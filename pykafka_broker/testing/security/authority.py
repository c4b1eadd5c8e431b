"""Certificates that are thrown away with the broker that they are for.

Rule: keys are made on the spot and never leave the folder of their broker. `cryptography` makes them; it is imported
here alone, and who has it not is told what to install.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

_BEFORE = datetime.timedelta(days=1)
_AFTER = datetime.timedelta(days=3650)


class NoCryptography(ImportError):
    """Certificates can't be made."""


class Authority:
    """Signs what it is asked to. Raises NoCryptography when it is made."""

    def __init__(self) -> None:
        try:
            from cryptography.hazmat.primitives.asymmetric import ec
        except ImportError as error:
            raise NoCryptography("certificates are made with cryptography: pip install cryptography") from error
        self._curve = ec.SECP256R1()
        self._new_key = ec.generate_private_key
        self._key: EllipticCurvePrivateKey = self._new_key(self._curve)
        self._certificate = self._sign("pykafka-broker", self._key, None, ())
        self.pem = _pem(self._certificate)

    def issue(self, name: str, hosts: Iterable[str] = ()) -> str:
        """A new key with its certificate and that of the authority, as PEM, for `CN=name`; a server's is good for
        `hosts`.
        """
        from cryptography.hazmat.primitives import serialization

        key = self._new_key(self._curve)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return private.decode() + _pem(self._sign(name, key, self._certificate, hosts)) + self.pem

    def _sign(
        self, name: str, key: EllipticCurvePrivateKey, issuer: x509.Certificate | None, hosts: Iterable[str]
    ) -> x509.Certificate:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.x509.oid import NameOID

        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject if issuer is None else issuer.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _BEFORE)
            .not_valid_after(now + _AFTER)
            .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if issuer is None:
            builder = builder.add_extension(signs_others(), critical=True)
        if names := [_general_name(host) for host in hosts]:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256())


def signs_others() -> x509.KeyUsage:
    """What the authority's own certificate is for: who checks strictly, as Python does from 3.13 on, wants it said."""
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM).decode()
