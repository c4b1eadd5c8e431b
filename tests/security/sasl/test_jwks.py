"""The keys that sign tokens: which one is taken, and when they are read anew."""

from __future__ import annotations

import json
import logging

import pytest

from pykafka_broker.config import ConfigError
from pykafka_broker.security.sasl.jwks import Jwks
from tests.security.sasl.realms import Kept, settings_of
from tests.security.sasl.signing import key_set, public_key

START = 1_000_000
HOUR = 3_600_000
KEYS = key_set(public_key("r1"), public_key("r2"), public_key("e1"), public_key("o1"), public_key("h1"))


def jwks(document: Kept) -> Jwks:
    return Jwks(settings_of(), document)


@pytest.mark.parametrize(
    ("kid", "algorithm"),
    [("r1", "RS256"), ("r1", "PS512"), ("r2", "RS384"), ("e1", "ES256"), ("o1", "EdDSA"), ("h1", "HS256")],
)
def test_a_key_is_found_by_its_id(kid: str, algorithm: str) -> None:
    found = jwks(Kept(KEYS)).key(kid, algorithm, START)
    assert found is not None
    assert found.key_id == kid


def test_without_an_id_it_is_the_first_of_its_kind() -> None:
    found = jwks(Kept(KEYS)).key(None, "RS256", START)
    assert found is not None
    assert found.key_id == "r1"


@pytest.mark.parametrize(("kid", "algorithm"), [("r1", "ES256"), ("r1", "HS256"), ("e1", "RS256"), ("x", "RS256")])
def test_a_key_of_another_kind_or_id_is_none(kid: str, algorithm: str) -> None:
    assert jwks(Kept(KEYS)).key(kid, algorithm, START) is None


def test_a_key_may_be_for_one_algorithm_or_for_another_use() -> None:
    keys = jwks(Kept(key_set(public_key("r1", alg="RS384", use="sig"), public_key("r2", use="enc"))))
    assert keys.key("r1", "RS384", START) is not None
    assert keys.key("r1", "RS256", START) is None
    assert keys.key("r2", "RS256", START) is None


NO_KEY_SETS = [
    b"",
    b"garbage",
    b"\xff\xfe",
    b"[]",
    b"{}",
    b'{"keys":5}',
    b'{"keys":[]}',
    b'{"keys":[5]}',
    b'{"keys":[{}]}',
    b'{"keys":[{"kty":5}]}',
    b"[" * 100_000,
    key_set(*[public_key("o1")] * 1001),
    key_set(public_key("r1", use="enc")),
]


@pytest.mark.parametrize("content", NO_KEY_SETS, ids=range(len(NO_KEY_SETS)))
def test_what_is_no_key_set_ends_the_start(content: bytes) -> None:
    with pytest.raises(ConfigError, match=r"sasl\.oauthbearer\.jwks\.endpoint\.url of listener OUTSIDE"):
        jwks(Kept(content))


def test_what_can_not_be_read_ends_the_start() -> None:
    with pytest.raises(ConfigError, match="No such file"):
        jwks(Kept(error="No such file"))


def test_what_was_read_before_will_do_while_it_can_not_be_read() -> None:
    """A listener whose settings change looks at its keys anew."""
    assert jwks(Kept(KEYS, error="unreachable")).key("r1", "RS256", START) is not None


@pytest.mark.parametrize(
    "key",
    [{"kty": "RSA", "kid": "b", "n": "!", "e": "AQAB"}, {"kty": "RSA", "kid": "b"}, {"kty": "RSA", "kid": "b", "n": 5}],
)
def test_one_key_that_is_garbage_spoils_only_itself(key: dict[str, object], caplog: pytest.LogCaptureFixture) -> None:
    keys = jwks(Kept(key_set(key, public_key("r1"))))
    with caplog.at_level(logging.WARNING):
        assert keys.key("b", "RS256", START) is None
    assert "can't be used" in caplog.text
    assert keys.key("r1", "RS256", START) is not None


def test_garbage_later_leaves_the_keys_as_they_were() -> None:
    document = Kept(KEYS)
    keys = jwks(document)
    document.next_content = b"garbage"
    assert keys.key("new", "RS256", START + 1000) is None
    assert keys.key("r1", "RS256", START + 1000) is not None
    assert document.reads == 1


def test_an_unknown_id_is_looked_for_anew() -> None:
    document = Kept(key_set(public_key("r1")))
    keys = jwks(document)
    document.next_content = KEYS
    assert keys.key("r2", "RS256", START + 1000) is not None


def test_but_not_more_than_once_a_second() -> None:
    document = Kept(KEYS)
    keys = jwks(document)
    for _ in range(100):
        assert keys.key("x", "RS256", START + 999) is None
    assert document.reads == 0
    keys.key("x", "RS256", START + 1000)
    assert document.reads == 1


def test_old_keys_are_read_anew() -> None:
    document = Kept(KEYS)
    keys = jwks(document)
    document.next_content = key_set(public_key("r2"))
    assert keys.key("r1", "RS256", START + HOUR - 1) is not None
    assert keys.key("r1", "RS256", START + HOUR) is None


def test_after_failures_there_are_longer_and_longer_pauses() -> None:
    document = Kept(KEYS)
    keys = jwks(document)
    document.next_error = "unreachable"
    document.failures, document.error = 6, "unreachable"
    for now in (START + 1000, START + 3199):  # 100 ms, doubled five times
        keys.key("x", "RS256", now)
    assert document.reads == 0
    keys.key("x", "RS256", START + 3200)
    assert document.reads == 1
    document.failures = 60
    keys.key("x", "RS256", START + 9999)
    assert document.reads == 1
    keys.key("x", "RS256", START + 10_000)
    assert document.reads == 2
    assert keys.key("r1", "RS256", START + 10_000) is not None


def test_nothing_of_the_document_is_told(caplog: pytest.LogCaptureFixture) -> None:
    secret = json.dumps({"keys": [{"kty": "RSA", "d": "very-secret"}], "x": 1})[:-1].encode()
    with caplog.at_level(logging.DEBUG), pytest.raises(ConfigError) as error:
        jwks(Kept(secret))
    assert "very-secret" not in caplog.text + str(error.value)
