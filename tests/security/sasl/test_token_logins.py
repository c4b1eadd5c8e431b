"""Logins with delegation tokens: which one is known, and what checks its password."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from pykafka_broker.clock import Clock
from pykafka_broker.cluster.delegation_tokens import token_hmac
from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.protocol.stored.delegation_token_record import DelegationTokenRecord
from pykafka_broker.security.sasl.realm import Realm
from tests.security.sasl.realms import around, settings_of

WALL = 1_000_000


def realm(wall: int = WALL, key: str | None = "sesame", expires: int = WALL + 5, ends: int = WALL + 9) -> Realm:
    image = MetadataImage()
    image.delegation_tokens["id"] = DelegationTokenRecord("User:alice", "User:bob", [], 0, ends, expires, "id")
    settings = {} if key is None else {"delegation.token.secret.key": key}
    return Realm(settings_of(settings), around(image, Clock(0, wall)))


@pytest.mark.parametrize(("kind", "digest"), [(1, "sha256"), (2, "sha512")])
def test_the_password_is_the_hmac_in_base64(kind: int, digest: str) -> None:
    login = realm().token_login(kind, "id")
    assert login is not None
    assert (login.owner, login.expires_ms) == ("User:alice", WALL + 5)
    keys = login.keys
    password = base64.b64encode(token_hmac("sesame", "id"))
    salted = hashlib.pbkdf2_hmac(digest, password, keys.salt, keys.iterations)
    assert keys.iterations == 4096
    assert keys.stored_key == hashlib.new(digest, hmac.digest(salted, b"Client Key", digest)).digest()
    assert keys.server_key == hmac.digest(salted, b"Server Key", digest)


def test_every_token_has_a_salt_of_its_own() -> None:
    one, other = (realm(key=key).token_login(1, "id") for key in ("sesame", "another"))
    assert one is not None
    assert other is not None
    assert one.keys.salt != other.keys.salt
    assert len(one.keys.salt) == 16


def test_a_session_never_outlives_the_end_of_the_token() -> None:
    login = realm(expires=WALL + 9, ends=WALL + 3).token_login(1, "id")
    assert login is not None
    assert login.expires_ms == WALL + 3


def test_what_is_unknown_or_has_expired_does_not_log_in() -> None:
    assert realm().token_login(1, "another") is None
    assert realm(wall=WALL + 5).token_login(1, "id") is not None
    assert realm(wall=WALL + 6).token_login(1, "id") is None


def test_a_removed_token_is_not_remembered() -> None:
    known = realm()
    assert known.token_login(1, "id") is not None
    known.around.image().delegation_tokens.clear()
    assert known.token_login(1, "id") is None


def test_without_a_secret_key_no_token_logs_in() -> None:
    assert realm(key=None).token_login(1, "id") is None
