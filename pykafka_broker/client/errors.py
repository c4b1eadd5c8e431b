"""What a broker has refused, in the words in which Kafka's Java clients tell it.

Rule: the text is the broker's where it sends one, otherwise the one that Kafka's client has for the code
(`errors.json`: the class of the exception and its text, as a Kafka 4.3.1 client names them).
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources

from pykafka_broker.protocol.errors import ErrorCode

_PACKAGE = "org.apache.kafka.common.errors"


class ClientError(Exception):
    """Something that the user of a client is told in one line."""

    exception = "org.apache.kafka.common.KafkaException"

    @property
    def java(self) -> str:
        """As Java's Throwable.toString shows it: class and text."""
        return f"{self.exception}: {self}"


class Refused(ClientError):
    """A broker answered with an error. `code` is its error code."""

    def __init__(self, code: int, message: str | None = None) -> None:
        self.code = code
        name, text = of_code(code)
        self.exception = f"{_PACKAGE}.{name}"
        super().__init__(text if message is None else message)


class TimedOut(ClientError):
    """Nobody answered in time."""

    exception = f"{_PACKAGE}.TimeoutException"


class LoginRefused(ClientError):
    """Who connects is not let in, or does not trust whom it has found."""

    exception = f"{_PACKAGE}.SaslAuthenticationException"


class Unusable(ClientError):
    """A property or an address that makes no sense."""

    exception = "org.apache.kafka.common.config.ConfigException"


@cache
def _texts() -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = json.loads(resources.files(__package__).joinpath("errors.json").read_text())
    return found


def of_code(code: int) -> tuple[str, str]:
    """The simple name of Java's exception, and what it says."""
    name, text = _texts().get(str(code), _texts()["-1"])
    return name, text


def check(code: int, message: str | None = None) -> None:
    """Raise `Refused` unless the code is that of success."""
    if code != ErrorCode.NONE:
        raise Refused(code, message)
