"""Answers that are asked for again and again. Rule: a cached answer holds until the metadata image changes, not longer.

Spark and the Java clients ask for ApiVersions and Metadata all the time; the bytes of an answer are made once. An
answer that tells of more than the metadata (ends of logs) fills that in each time (`current`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.protocol.runtime import Pieces


class EncodedReply:
    """A response as bytes, for one version."""

    __slots__ = ("body",)

    def __init__(self, body: bytes) -> None:
        self.body = body

    def current(self) -> EncodedReply | None:
        """Return the answer as it is now, None where the handler has to be asked."""
        return self

    def write(self, version: int, w: Callable[[Any], object]) -> None:
        w(self.body)


class WrittenReply:
    """A response as pieces, for one version; the first piece is empty, for the header."""

    __slots__ = ("pieces",)

    def __init__(self, pieces: Pieces) -> None:
        self.pieces = pieces

    def write(self, version: int, w: Callable[[Any], object]) -> None:
        for piece in self.pieces[1:]:
            w(piece)


class UnwrittenReply(list[Any]):
    """The pieces of an answer that rests on a record which is written at the end of the turn.

    Until then the answer stands for success. A write that fails puts the error into the pieces, which keep their
    lengths; so the pieces are joined only when the answer leaves.
    """

    __slots__ = ()


class ReplyCache:
    """Encoded replies by request, for one generation of the metadata image; bounded in number and bytes."""

    def __init__(self, most: int = 256, most_bytes: int = 32 << 20) -> None:
        self._generation = -1
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0
        self._replies: dict[Hashable, EncodedReply] = {}

    def get(self, image: MetadataImage, key: Hashable) -> EncodedReply | None:
        if self._generation != image.generation:
            self._forget(image)
        found = self._replies.get(key)
        return None if found is None else found.current()

    def put(self, image: MetadataImage, key: Hashable, reply: EncodedReply) -> EncodedReply:
        """Keep an answer made from `image`, and return the answer."""
        size, former = len(reply.body), self._replies.pop(key, None)
        if former is not None:
            self._bytes -= len(former.body)
        full = len(self._replies) >= self._most or self._bytes + size > self._most_bytes
        if full or self._generation != image.generation:
            self._forget(image)
        self._replies[key] = reply
        self._bytes += size
        return reply

    def _forget(self, image: MetadataImage) -> None:
        self._replies.clear()
        self._bytes = 0
        self._generation = image.generation
