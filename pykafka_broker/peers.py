"""Other nodes, as machines without sockets see them.

Rule: every request that a `Peer` has taken, and that is not taken back, gets exactly one call of its `on_reply`, with
the answer or with a `LinkError`, and never before `send` has returned. An error says whether the peer may have acted on
the request. A defect that an answer meets stays with its request (`deliver`): the machine that has asked hears of a
broken link then, and goes on as after any other.

`server/` has the real thing, `Link`; a simulation has a network of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple, Protocol

from pykafka_broker.protocol.runtime import Message

logger = logging.getLogger(__name__)

Versions = tuple[int, int]


class LinkError(Exception):
    """A request without an answer.

    Unless a subclass says otherwise, the request never left.

    ended_by: the error that has ended the connection, EOFError where the peer has closed it; None without either.
    """

    def __init__(self, text: str, ended_by: Exception | None = None) -> None:
        super().__init__(text)
        self.ended_by = ended_by


class LinkBroken(LinkError):
    """The connection ended before the answer came: the peer may or may not have acted."""


class LinkTimeout(LinkError):
    """No answer came in time. `sent`: the request has left, and the peer may or may not have acted."""

    def __init__(self, text: str, sent: bool, ended_by: Exception | None = None) -> None:
        super().__init__(text, ended_by)
        self.sent = sent


class LinkFull(LinkError):
    """Too many requests wait for the peer."""


class LinkClosed(LinkError):
    """The link was closed locally; the peer may have acted on sent requests."""


class NotServed(LinkError):
    """The peer serves no fitting version of the API. theirs: the versions that the peer serves."""

    def __init__(self, text: str, theirs: Versions | None = None) -> None:
        super().__init__(text)
        self.theirs = theirs


class Unsendable(LinkError):
    """The request has a value that does not fit its field: a number or a name is too large."""


OnReply = Callable[[Message | LinkError], None]
Ask = Callable[[Message, OnReply, int], None]  # the way to the active controller (`MetadataSource.ask`)


def deliver(on_reply: OnReply, reply: Message | LinkError) -> None:
    """Call `on_reply`, and where the call fails, log why and call again with a `LinkBroken`. Never raises."""
    try:
        on_reply(reply)
    except Exception:
        logger.exception("a defect at %s", type(reply).__name__)
        if not isinstance(reply, LinkError):
            deliver(on_reply, LinkBroken("the answer has met a defect here"))


class Address(NamedTuple):
    """A node's address, with the name of a listener, which decides the security of connections."""

    host: str
    port: int
    listener: str


class Peer(Protocol):
    """Requests to an address, in order, over a connection made at need."""

    def send(
        self,
        request: Message,
        on_reply: OnReply,
        timeout_ms: int,
        *,
        versions: Versions | None = None,
        copied: bool = False,
    ) -> None:
        """Take a request; raises `LinkFull` or `LinkClosed` otherwise.

        versions: the lowest and highest version that the request's fields fit; by default any. copied: the answer's
        `records` stay valid; otherwise they are gone when `on_reply` returns.
        """

    def withdraw(self, request: Message) -> bool:
        """Take back a request that has not left; return whether it was. Its `on_reply` is not called then."""

    def served(self, api_key: int) -> Versions | None:
        """Return the versions of an API served by the peer; None without any, or before the first contact."""

    def close(self) -> None:
        """Close; waiting requests fail with `LinkClosed`, later."""


class Peers(Protocol):
    """A maker of connections to other nodes."""

    def open(self, address: Address, client_id: str) -> Peer:
        """Return a new peer, independent of all others."""
