"""Other nodes, as machines without sockets see them.

Rule: every request that a `Peer` has taken gets exactly one call of its `on_reply`, with the answer or with a
`LinkError`, and never before `send` has returned. An error says whether the peer may have acted on the request.

`server/` has the real thing, `Link`; a simulation has a network of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from pykafka_broker.protocol.runtime import Message

Versions = tuple[int, int]


class LinkError(Exception):
    """There is no answer. Unless it says otherwise, the request never left."""


class LinkBroken(LinkError):
    """The connection ended before the answer came: nobody knows whether the peer has acted."""


class LinkTimeout(LinkError):
    """No answer came in time. `sent`: the request has left, and nobody knows whether the peer has acted."""

    def __init__(self, text: str, sent: bool) -> None:
        super().__init__(text)
        self.sent = sent


class LinkFull(LinkError):
    """Too many requests wait for the peer."""


class LinkClosed(LinkError):
    """The link was closed on this side; a request that had left may have been acted on."""


class NotServed(LinkError):
    """The peer serves no version of this API that can carry the request."""


OnReply = Callable[[Message | LinkError], None]


class Address(NamedTuple):
    """Where a node listens, and under which name of a listener: connections have its security."""

    host: str
    port: int
    listener: str


class Peer(Protocol):
    """Requests to one address, in their order, over one connection that is made when there is something to send."""

    def send(
        self,
        request: Message,
        on_reply: OnReply,
        timeout_ms: int,
        *,
        versions: Versions | None = None,
        copied: bool = False,
    ) -> None:
        """Take a request; raises `LinkFull` or `LinkClosed` if it is not taken.

        versions: the lowest and highest that the request's fields go with; any, if it is not given.
        copied: the answer's `records` stay; otherwise they are gone when `on_reply` returns.
        """

    def served(self, api_key: int) -> Versions | None:
        """The versions of this API that the peer serves; None if it serves none, or has not been reached yet."""

    def close(self) -> None:
        """What waits for an answer is told `LinkClosed`, later."""


class Peers(Protocol):
    """Makes connections to other nodes."""

    def open(self, address: Address, client_id: str) -> Peer:
        """A peer of its own: what goes over it waits for nobody else."""
