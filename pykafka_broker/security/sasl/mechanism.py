"""What a mechanism is.

Rule: for each listener and mechanism there is one `MechanismServer`, made when the listener is bound and made anew when
its settings change; what is wrong with them is a `ConfigError`, which ends the start. Each client that logs in has a
`Mechanism` of its own, which is given the client's tokens one by one until it says who that is, or raises `Refused`.
The module of a mechanism is imported by the first listener that has it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import NamedTuple, Protocol

from pykafka_broker.config import ConfigError
from pykafka_broker.security.sasl.realm import Realm


class Challenge(NamedTuple):
    """The exchange goes on: the token for the client."""

    token: bytes


class Done(NamedTuple):
    """The client is known. token: the last one for it; principal: "User:alice"; expires_ms: when, by the wall clock,
    what it has shown expires; by_token: that was a delegation token.
    """

    token: bytes
    principal: str
    expires_ms: int | None = None
    by_token: bool = False


class Refused(Exception):
    """The client is not who it says it is, or says nothing that makes sense. The text is told to it and logged: nothing
    that is secret may be in it.
    """


class Mechanism(Protocol):
    """One exchange."""

    def step(self, token: bytes, wall: int) -> Challenge | Done:
        """The client has sent `token` at `wall` (epoch milliseconds). Raises Refused."""


class MechanismServer(Protocol):
    """One mechanism on one listener."""

    def begin(self) -> Mechanism:
        """A client begins to log in."""


# The module below this package and its class, which is called with the realm of the listener.
_SERVERS = {
    "PLAIN": ("plain", "PlainServer"),
    "SCRAM-SHA-256": ("scram", "ScramSha256Server"),
    "SCRAM-SHA-512": ("scram", "ScramSha512Server"),
    "GSSAPI": ("kerberos", "GssapiServer"),
    "OAUTHBEARER": ("oauthbearer", "OAuthBearerServer"),
}


def mechanism_server(name: str, realm: Realm) -> MechanismServer:
    """Raises ConfigError if there is no such mechanism, or its settings can't be used."""
    found = _SERVERS.get(name)
    if found is None:
        raise ConfigError(
            f"SASL mechanism {name} of listener {realm.listener} is not served; there are {', '.join(_SERVERS)}"
        )
    module, kind = found
    new: Callable[[Realm], MechanismServer] = getattr(importlib.import_module(f"{__package__}.{module}"), kind)
    return new(realm)
