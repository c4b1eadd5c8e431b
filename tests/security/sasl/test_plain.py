"""PLAIN, byte by byte."""

from __future__ import annotations

import tracemalloc

import pytest

from pykafka_broker.config import ConfigError
from pykafka_broker.security.sasl.mechanism import Done, LoginRefused
from pykafka_broker.security.sasl.plain import plain
from tests.security.sasl.realms import PREFIX, SCRAM_LINE, realm_of

FAILED = "Authentication failed: "
WRONG = FAILED + "Invalid username or password"


def step(token: bytes, **settings: str) -> Done:
    return plain(realm_of(settings))().step(token, 0)


@pytest.mark.parametrize("token", [b"\0alice\0alice-secret", b"alice\0alice\0alice-secret"])
def test_the_right_password_makes_a_principal(token: bytes) -> None:
    assert step(token) == Done(b"", "User:alice", None)


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"\0alice\0wrong", WRONG),
        (b"\0nobody\0alice-secret", WRONG),
        (b"\0bob\0alice-secret", WRONG),
        (b"\0ali\xffce\0alice-secret", WRONG),
        (b"\0alice\0\xff\xfe", WRONG),
        (b"\0\0alice-secret", FAILED + "username not specified"),
        (b"\0alice\0", FAILED + "password not specified"),
        (
            b"bob\0alice\0alice-secret",
            FAILED + "Client requested an authorization id that is different from username",
        ),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"alice\0alice-secret", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"a\0b\0c\0d", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
    ],
)
def test_anything_else_is_refused_in_the_words_of_kafka(token: bytes, message: str) -> None:
    with pytest.raises(LoginRefused) as raised:
        step(token)
    assert str(raised.value) == message


def test_names_and_passwords_may_hold_anything() -> None:
    line = 'org.apache.kafka.common.security.plain.PlainLoginModule required "user_a b=,é"="pass word;\\"é";'
    server = plain(realm_of({PREFIX + "plain.sasl.jaas.config": line}))
    assert server().step('\0a b=,é\0pass word;"é'.encode(), 0).principal == "User:a b=,é"


def test_a_login_module_of_another_mechanism_has_no_accounts() -> None:
    with pytest.raises(LoginRefused):
        step(b"\0alice\0alice-secret", **{PREFIX + "plain.sasl.jaas.config": SCRAM_LINE})


def test_a_login_module_that_is_not_there_ends_the_start_as_with_kafka() -> None:
    for name in ("PlainLoginModule", "org.apache.kafka.common.security.plain.PlainLoginModul"):
        line = f'{name} required user_alice="hidden-secret";'
        with pytest.raises(ConfigError, match=f"there is no login module {name}; that of PLAIN is org") as raised:
            plain(realm_of({PREFIX + "plain.sasl.jaas.config": line}))
        assert "hidden-secret" not in str(raised.value)


def test_very_many_parts_are_only_counted() -> None:
    """Nobody is served while they are: who sends them has not said yet who it is."""
    token = bytes(500_000)
    tracemalloc.start()
    try:
        with pytest.raises(LoginRefused, match=r"expected 3 tokens, got 4$"):
            step(token)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
