"""Key stores of type PKCS12."""

from __future__ import annotations

import builtins
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_der_private_key

from pykafka_broker.security.tls.pkcs12 import read_pkcs12
from tests.security.tls.certificates import authority, server_certificate
from tests.security.tls.java_stores import p12


def test_a_key_comes_with_its_chain_in_order() -> None:
    content = read_pkcs12(p12("secret", server_certificate()), "secret")
    assert content.certificates == [server_certificate().der(), authority().der]
    assert content.key is not None
    assert load_der_private_key(content.key, None).public_key() == server_certificate().certificate.public_key()


def test_a_wrong_password_and_what_is_no_store_are_refused() -> None:
    for data, password in ((p12("secret", server_certificate()), "guess"), (b"nothing", "secret"), (b"", None)):
        with pytest.raises(
            ValueError, match="its password is not the one that is set, or it is no store of type PKCS12"
        ):
            read_pkcs12(data, password)


def test_without_the_extra_the_way_to_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return original(name, *rest)

    data = p12("secret", server_certificate())
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ValueError, match=r"need cryptography: pip install cryptography$"):
        read_pkcs12(data, "secret")
