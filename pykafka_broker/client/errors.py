"""Errors of requests, in the words of Kafka's Java clients.

Rule: the text is the broker's where the broker sends one, otherwise the text that Kafka's client has for the code
(`errors.json`: class and text of each exception, as a Kafka 4.4.0 client names them).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Any

from pykafka_broker.protocol.errors import ErrorCode

_PACKAGE = "org.apache.kafka.common.errors"


class ClientError(Exception):
    """An error for the user of a client, as a single line."""

    exception = "org.apache.kafka.common.KafkaException"

    @property
    def java(self) -> str:
        """Return class and text in the form of Java's Throwable.toString."""
        return f"{self.exception}: {self}"


class KafkaError(ClientError):
    """An error code in a broker's answer."""

    def __init__(self, code: int, message: str | None = None) -> None:
        self.code = code
        name, text = of_code(code)
        self.exception = f"{_PACKAGE}.{name}"
        super().__init__(text if message is None else message)


class TimedOut(ClientError):
    """No node answered in time."""

    exception = f"{_PACKAGE}.TimeoutException"


class LogTruncated(ClientError):
    """Records that were read before are not in the partition any more, and `auto.offset.reset` is `none`."""

    exception = "org.apache.kafka.clients.consumer.LogTruncationException"


class AuthenticationFailed(ClientError):
    """The login was refused, or a certificate is not trusted."""

    exception = f"{_PACKAGE}.SaslAuthenticationException"


class Unusable(ClientError):
    """An invalid property or address."""

    exception = "org.apache.kafka.common.config.ConfigException"


@cache
def _texts() -> dict[str, tuple[str, str]]:
    text = resources.files(__package__).joinpath("errors.json").read_text(encoding="utf-8")
    found: dict[str, tuple[str, str]] = json.loads(text)
    return found


def of_code(code: int) -> tuple[str, str]:
    """Return the simple name and the text of Java's exception for an error code."""
    name, text = _texts().get(str(code), _texts()["-1"])
    return name, text


def check(code: int, message: str | None = None) -> None:
    """Raise KafkaError unless the code is NONE."""
    if code != ErrorCode.NONE:
        raise KafkaError(code, message)


def check_all(parts: Iterable[Any]) -> None:
    """Raise KafkaError for the first part of an answer with an error."""
    for each in parts:
        check(each.error_code, getattr(each, "error_message", None))
