"""Certificates are what a client checks."""

from __future__ import annotations

import builtins
import contextlib
import ssl
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.testing.security.authority import Authority, NoCryptography


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> ssl.SSLObject:
    """In memory; returns the server's side."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    here = client.wrap_bio(down, up, server_hostname=name)
    there = server.wrap_bio(up, down, server_side=True)
    for _ in range(3):
        for side in (here, there):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    return there


@pytest.fixture
def contexts(tmp_path: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    authority = Authority()
    for name, text in {
        "ca": authority.pem,
        "broker": authority.issue("broker", ["localhost", "127.0.0.1", "::1"]),
        "alice": authority.issue("alice"),
    }.items():
        (tmp_path / name).write_text(text)
    client = ssl.create_default_context(cafile=tmp_path / "ca")
    client.load_cert_chain(tmp_path / "alice")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "broker")
    server.load_verify_locations(tmp_path / "ca")
    server.verify_mode = ssl.CERT_REQUIRED
    return client, server


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_both_sides_know_each_other(contexts: tuple[ssl.SSLContext, ssl.SSLContext], host: str) -> None:
    found: Any = shake_hands(*contexts, host).getpeercert()
    assert found["subject"] == ((("commonName", "alice"),),)


def test_who_checks_strictly_as_python_does_from_3_13_on_is_content(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    for context in contexts:
        context.verify_flags |= ssl.VERIFY_X509_STRICT
    assert shake_hands(*contexts, "localhost").version() == "TLSv1.3"


def test_another_host_and_another_authority_are_refused(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(*contexts, "example.org")
    with pytest.raises(ssl.SSLCertVerificationError, match="self-signed"):
        shake_hands(ssl.create_default_context(cadata=Authority().pem), contexts[1], "localhost")


def test_who_has_no_cryptography_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return plain(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(NoCryptography, match=r"pip install cryptography$"):
        Authority()
