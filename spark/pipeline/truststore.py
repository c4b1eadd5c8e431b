"""A Java trust store with the certificate authorities that this machine's Python and pip trust.

Rule: a Java runtime from a package brings its own authorities and knows none that the machine's owner has added; the
jars are fetched from whom pip fetches packages.
"""

from __future__ import annotations

import hashlib
import os
import ssl
import struct
from pathlib import Path

PASSWORD = "changeit"
_MAGIC, _VERSION, _TRUSTED = 0xFEEDFEED, 2, 2
_BUNDLES = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE")


def trusted_authorities() -> list[bytes]:
    """Return certificates in DER, without repeats."""
    context = ssl.create_default_context()
    for name in _BUNDLES:
        if Path(os.environ.get(name, "")).is_file():
            context.load_verify_locations(os.environ[name])
    return list(dict.fromkeys(context.get_ca_certs(binary_form=True)))


def write_trust_store(path: Path, authorities: list[bytes]) -> None:
    """Write the JKS format, version 2: entries, then a digest that is salted with the password."""
    data = struct.pack(">III", _MAGIC, _VERSION, len(authorities))
    for number, certificate in enumerate(authorities):
        data += struct.pack(">I", _TRUSTED) + _text(str(number)) + struct.pack(">Q", 0)
        data += _text("X.509") + struct.pack(">I", len(certificate)) + certificate
    digest = hashlib.sha1(PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + data).digest()
    path.write_bytes(data + digest)


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode("ascii")


def java_options(folder: Path) -> list[str]:
    """Return the options that make a Java trust them; none if Python trusts nobody by itself."""
    authorities = trusted_authorities()
    if not authorities:
        return []
    store = folder / "authorities.jks"
    write_trust_store(store, authorities)
    return [
        f"-Djavax.net.ssl.trustStore={store}",
        f"-Djavax.net.ssl.trustStorePassword={PASSWORD}",
        "-Djavax.net.ssl.trustStoreType=JKS",
    ]
