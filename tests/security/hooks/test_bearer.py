"""A user's Python class that checks tokens."""

from __future__ import annotations

import logging
import math
from typing import Any

import pytest

from pykafka_broker.config import ConfigError
from pykafka_broker.security.sasl.mechanism import Challenge, Done, mechanism_of
from tests.security.sasl.bearer import WALL, message
from tests.security.sasl.realms import PREFIX, realm_of

HERE = "tests.security.hooks.test_bearer"
HANDLER = PREFIX + "oauthbearer.sasl.server.callback.handler.class"
SENSELESS: dict[str, Any] = {"bare": "alice", "endless": ("alice", None), "flat": 1, "infinite": ("alice", math.inf)}


class Opaque:
    """A checker of tokens whose text has no claims."""

    def identify(self, token: str, now_ms: int) -> tuple[str, int] | None:
        if token == "fails":
            raise LookupError("no directory")
        if token in SENSELESS:
            return SENSELESS[token]
        return ("alice", now_ms + 1000) if token == "known" else None


class Nothing:
    pass


def answer(token: str) -> Challenge | Done:
    return mechanism_of("OAUTHBEARER", realm_of({HANDLER: f"{HERE}:Opaque"}))().step(message(token), WALL)


def test_what_it_knows_logs_in() -> None:
    assert answer("known") == Done(b"", "User:alice", WALL + 1000)


@pytest.mark.parametrize("token", ["unknown", "fails"])
def test_what_it_does_not_know_is_refused(token: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        assert answer(token) == Challenge(b'{"status":"invalid_token"}')
    assert ("no directory" in caplog.text) == (token == "fails")


@pytest.mark.parametrize("token", SENSELESS)
def test_a_senseless_result_is_a_failure_of_the_class(token: str, caplog: pytest.LogCaptureFixture) -> None:
    assert answer(token) == Challenge(b'{"status":"invalid_token"}')
    assert "Opaque has failed" in caplog.text


def test_one_without_the_method_ends_the_start() -> None:
    with pytest.raises(ConfigError, match="must have the method identify"):
        mechanism_of("OAUTHBEARER", realm_of({HANDLER: f"{HERE}:Nothing"}))
