"""Why a request over a link has no answer. Rule: each one says whether the peer may have acted on it."""

from __future__ import annotations


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
