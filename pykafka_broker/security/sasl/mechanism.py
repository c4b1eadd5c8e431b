"""Mechanisms of SASL, and what they may ask: the listener's settings, the users and tokens of the metadata, the time.

Rule: for each listener and mechanism there is one `NewMechanism`, made when the listener is bound and made anew when
its settings change; a mistake in them is a `ConfigError`, which ends the start. Each client that logs in has a
`Mechanism` of its own, which is given the client's tokens one by one until it says who the client is, or raises
`LoginRefused`. The module of a mechanism is imported by the first listener that has it.

Settings are those of one moment; users and tokens are looked up when a client logs in, so a change of them counts for
the next login.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import NamedTuple, Protocol

from pykafka_broker.clock import Clock
from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.config.values import invalid
from pykafka_broker.security.listener_settings import ListenerSettings


class RemoteDocument(Protocol):
    """A document behind a URL.

    content: as it was read last, whatever has become of it since; error: why the last reading failed, or an empty text;
    failures: in a row; read_at: the time of the last attempt, by `now`.
    """

    content: bytes
    error: str
    failures: int
    read_at: int

    def read(self) -> None:
        """Read the document anew: at once if quick, else beside the loop."""


class Around(NamedTuple):
    """The surroundings of a listener.

    image: the metadata as it is now. new_nonce: 128 random bits or more, as printable ASCII without a comma. document:
    the document of a URL, read once already; the same object for the same URL.
    """

    image: Callable[[], MetadataImage]
    clock: Clock
    new_nonce: Callable[[], str]
    document: Callable[[str], RemoteDocument]


class Realm(NamedTuple):
    """A listener, for mechanisms."""

    settings: ListenerSettings
    around: Around


class Challenge(NamedTuple):
    """A token for the client; the exchange goes on."""

    token: bytes


class Done(NamedTuple):
    """The client is known.

    token: the last one for it; principal: "User:alice"; expires_ms: when, by the wall clock, its proof expires;
    by_token: the proof was a delegation token.
    """

    token: bytes
    principal: str
    expires_ms: int | None = None
    by_token: bool = False


class LoginRefused(Exception):
    """A refused login. The text is told to the client and logged: nothing secret may be in it."""


class Mechanism(Protocol):
    """A client's exchange."""

    def step(self, token: bytes, wall: int) -> Challenge | Done:
        """Answer a token, sent at `wall` (epoch milliseconds). Raises LoginRefused."""


NewMechanism = Callable[[], Mechanism]  # called for each client that logs in

# The module below this package and its function, which is called with the realm of the listener.
_MECHANISMS = {
    "PLAIN": ("plain", "plain"),
    "SCRAM-SHA-256": ("scram", "scram_sha_256"),
    "SCRAM-SHA-512": ("scram", "scram_sha_512"),
    "GSSAPI": ("kerberos", "gssapi_mechanism"),
    "OAUTHBEARER": ("oauthbearer", "oauthbearer"),
    "AWS_MSK_IAM": ("aws_msk_iam", "aws_msk_iam"),
}


def mechanism_of(name: str, realm: Realm) -> NewMechanism:
    """Return the maker of clients' logins by a mechanism on a listener.

    Raises ConfigError if there is no such mechanism, or its settings can't be used.
    """
    found = _MECHANISMS.get(name)
    if found is None:
        served = f"listener {realm.settings.name}: it must be one of {', '.join(_MECHANISMS)}"
        raise invalid("sasl.enabled.mechanisms", name, served)
    module, function = found
    new: Callable[[Realm], NewMechanism] = getattr(importlib.import_module(f"{__package__}.{module}"), function)
    return new(realm)
