"""The properties of a client, named as Kafka's Java clients name them (Kafka docs, "Admin Configs").

Rule: the security of a connection is read by the code that secures links between brokers, so that one reader knows
stores, protocols and login modules. Numbers are read as Java reads them: ASCII digits with a sign, where Python also
takes `1_0` and ` 1`.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pykafka_broker.addresses import split_address
from pykafka_broker.client.errors import Unusable
from pykafka_broker.config.properties import read_properties_file
from pykafka_broker.config.values import JAVA_BLANKS, java_double, java_integer

if TYPE_CHECKING:
    from pykafka_broker.server.link import TransportSecurity


# -- text in Java's forms


def integer(text: str) -> int:
    """Read a number of 32 bits, as `Integer.parseInt`. Raises ValueError."""
    return java_integer(text)


def long(text: str) -> int:
    """Read a number of 64 bits, as `Long.parseLong`. Raises ValueError."""
    return java_integer(text, 63)


def double(text: str) -> float:
    """Read a floating-point number, as `Double.parseDouble`. Raises ValueError."""
    return java_double(text)


def java_split(separator: str | re.Pattern[str], text: str) -> list[str]:
    """Split a text at a regular expression, as `String.split`.

    Empty parts at the end are dropped, and one at the start where nothing separates it.
    """
    found = re.split(separator, text)
    while text and found and not found[-1]:
        found.pop()
    if found and not found[0] and (first := re.match(separator, text)) is not None and not first[0]:
        del found[0]
    return found


# -- properties


_LONGS = frozenset(
    {
        "buffer.memory",
        "linger.ms",
        "max.block.ms",
        "metadata.max.age.ms",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
    }
)
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_NOWHERE = "No resolvable bootstrap urls given in bootstrap.servers"
DEFAULT_PORT_MISSING = "Invalid url in bootstrap.servers"


def read_properties(path: str) -> dict[str, str]:
    """Read a file in the form of java.util.Properties. Raises Unusable."""
    try:
        return read_properties_file(path)
    except OSError as error:
        raise Unusable(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise Unusable(f"cannot read {path}: {error}") from None


def trimmed(properties: Mapping[str, str]) -> dict[str, str]:
    """Return properties without the blanks around values, which files keep at the ends of lines."""
    return {name: text.strip(JAVA_BLANKS) for name, text in properties.items()}


def addresses(text: str) -> list[tuple[str, int]]:
    """Return host and port of each address in `host:port,host:port`. Raises Unusable."""
    found = []
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    if "" in parts:
        raise Unusable("Configuration 'bootstrap.servers' values must not be empty.")
    for each in parts:
        host, port = split_address(each.partition("://")[2] or each)
        if not host or not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65535:
            raise Unusable(f"{DEFAULT_PORT_MISSING}: {each}")
        found.append((host, int(port)))
    if not found:
        raise Unusable(_NOWHERE)
    return found


def check_resolvable(found: Iterable[tuple[str, int]]) -> None:
    """Check for at least a single host with an address, as Java's clients do at start. Raises Unusable."""
    for host, port in found:
        try:
            socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):  # UnicodeError: no label of a host name can have this form
            continue
        return
    raise Unusable(_NOWHERE)


def security_of(properties: Mapping[str, str]) -> TransportSecurity | None:
    """Return the security of connections, None for PLAINTEXT. Raises Unusable."""
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise Unusable(f"security.protocol {protocol} is none of {', '.join(_PROTOCOLS)}")
    if protocol == "PLAINTEXT":
        return None
    from pykafka_broker.config import ConfigError  # knows hundreds of keys: a plain client needs none
    from pykafka_broker.security.listener_settings import ClientSettings
    from pykafka_broker.server.link_security import LinkSecurity

    try:
        return LinkSecurity(ClientSettings(properties), protocol, properties.get("sasl.mechanism", "GSSAPI"))
    except ConfigError as error:
        raise Unusable(str(error)) from None


def invalid(name: str, value: object, why: str) -> Unusable:
    """Return the error for the value of a property, in the words of Kafka's clients."""
    return Unusable(f"Invalid value {value} for configuration {name}: {why}")


def number(properties: Mapping[str, str], name: str, default: int, least: int | None = None) -> int:
    """Return an integer property, at least `least`. Raises Unusable."""
    text = properties.get(name)
    if text is None:
        return default
    read, kind = (long, "LONG") if name in _LONGS else (integer, "INT")
    try:
        found = read(text.strip())
    except ValueError:
        raise invalid(name, text, f"Not a number of type {kind}") from None
    if least is not None and found < least:
        raise invalid(name, found, f"Value must be at least {least}")
    return found


def nonempty(properties: Mapping[str, str], name: str) -> str | None:
    """Return a text property, None if unset. Raises Unusable for an empty text."""
    text = properties.get(name)
    if text == "":
        raise invalid(name, text, "String must be non-empty")
    return text


def flag(properties: Mapping[str, str], name: str, default: bool) -> bool:
    """Return a property with the value true or false. Raises Unusable."""
    text = properties.get(name)
    if text is None:
        return default
    if text.strip().lower() not in ("true", "false"):
        raise Unusable(f"Expected value to be either true or false for configuration {name}: {text}")
    return text.strip().lower() == "true"
