"""Java's own key stores."""

from __future__ import annotations

import random

import pytest
from cryptography.hazmat.primitives.serialization import load_der_private_key

from pykafka_broker.security.tls.jks import open_key, read_jks
from tests.security.tls.certificates import authority, server_certificate
from tests.security.tls.java_stores import jks


def test_keys_and_certificates_are_read() -> None:
    data = jks("sécret", [server_certificate()], [authority().der], key_password="other")
    key, trusted = read_jks(data, "sécret")
    assert key.alias == "key-0"
    assert key.chain == [server_certificate().der(), authority().der]
    assert trusted.chain == [authority().der]
    assert trusted.key is None
    assert key.key is not None
    opened = load_der_private_key(open_key(key.key, "other"), None)
    assert opened.public_key() == server_certificate().certificate.public_key()
    with pytest.raises(ValueError, match="can't be decrypted with the password"):
        open_key(key.key, "sécret")


def test_without_a_password_certificates_are_taken_on_trust() -> None:
    data = jks("secret", trusted=[authority().der])
    assert [entry.chain for entry in read_jks(data, None)] == [[authority().der]]
    with pytest.raises(ValueError, match="its password is not the one that is set, or the file is damaged"):
        read_jks(data, "guess")


def test_a_damaged_store_is_refused_and_never_read_past_its_end() -> None:
    data = jks("secret", [server_certificate()], [authority().der])
    chance = random.Random(14)
    for _ in range(2000):
        damaged = bytearray(data[: chance.randrange(len(data))])
        for _ in range(min(3, len(damaged))):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        with pytest.raises(ValueError):
            read_jks(bytes(damaged), "secret")
        try:
            read_jks(bytes(damaged), None)
        except ValueError:
            continue
