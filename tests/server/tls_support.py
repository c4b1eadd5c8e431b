"""Settings of a server and contexts of clients, for tests of TLS connections."""

from __future__ import annotations

import ssl
from pathlib import Path

from tests.security.tls.certificates import Issued, authority, server_certificate


def client_context(
    version: ssl.TLSVersion | None = None, shows: Issued | None = None, folder: Path | None = None
) -> ssl.SSLContext:
    """Return the TLS context of a client that trusts the server.

    A certificate that the client is to show needs a folder for its file.
    """
    context = ssl.create_default_context(cadata=authority().pem)
    if version is not None:
        context.minimum_version = context.maximum_version = version
    if shows is not None:
        assert folder is not None
        context.load_cert_chain(shows.write(folder / "client.pem"))
    return context


def tls_settings(folder: Path, **more: str) -> dict[str, str]:
    """Return the TLS settings of a server; its key is written into `folder`."""
    return {
        "ssl_keystore_type": "PEM",
        "ssl_keystore_location": server_certificate().write(folder / "broker.pem"),
        "ssl_truststore_type": "PEM",
        "ssl_truststore_certificates": authority().pem,
        **more,
    }
