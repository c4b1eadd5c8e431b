"""Answers as bytes: those that are asked for again and again, and those that are too long for one turn.

Rule: a cached answer holds until the metadata image changes, not longer. Spark and the Java clients ask for ApiVersions
and Metadata all the time; the bytes of an answer are made once. An answer that tells of more than the metadata (ends of
logs) fills that in each time (`current`).

A short request may ask for a very long answer, for instance by naming one large group thousands of times. `Portions`
encodes such an answer while it grows, and refuses what would be longer than the longest request.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.runtime import Message, Pieces, uvarint
from pykafka_broker.steps import Pace

MOST_ANSWER_BYTES = 100 << 20  # as many as a request may have, unless `socket.request.max.bytes` says otherwise


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


M = TypeVar("M", bound=Message)


class Portions(Generic[M]):
    """The elements of an answer, encoded a portion at a time; an answer of one portion stays a message.

    kind: the response, in whose array `field` the elements are; its other fields have their defaults.
    bytes_behind: of the fields that stand behind the array in this version.
    """

    def __init__(self, kind: type[M], field: str, version: int, bytes_behind: int = 0) -> None:
        self._kind, self._field, self._version = kind, field, version
        self._bytes_behind = bytes_behind
        self._elements: list[Any] = []  # not encoded yet
        self._encoded: list[bytes] = []
        self._count = self._bytes = 0
        self._pace = Pace()

    def add(self, element: Any, items: int = 1) -> bool:
        """Add an element that takes as long as `items` of `Pace`; return whether to yield before the next one.

        Raises:
            ApiError: the answer would be too long.
        """
        self._elements.append(element)
        if not self._pace.due(items):
            return False
        self._encode()
        return True

    def response(self) -> M | EncodedReply:
        """Return the answer with all elements."""
        if not self._encoded:
            return self._message()
        self._encode()
        start, count, end = self._around(self._count)
        return EncodedReply(b"".join([start, count, *self._encoded, end]))

    def _message(self) -> M:
        return self._kind(**{self._field: self._elements})

    def _encode(self) -> None:
        start, count, end = self._around(len(self._elements))
        whole = self._message().encode(self._version)
        self._count += len(self._elements)
        self._elements = []
        self._encoded.append(whole[len(start) + len(count) : len(whole) - len(end)])
        self._bytes += len(self._encoded[-1])
        if self._bytes > MOST_ANSWER_BYTES:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"The answer would have more than {MOST_ANSWER_BYTES} bytes: ask for less."
            )

    def _around(self, count: int) -> tuple[bytes, bytes, bytes]:
        """Return the bytes before the array, those of its length, and those behind its elements."""
        empty = self._kind().encode(self._version)
        behind = len(empty) - self._bytes_behind
        if self._kind.FLEXIBLE_FROM is None or self._version < self._kind.FLEXIBLE_FROM:
            return empty[: behind - 4], count.to_bytes(4, "big"), empty[behind:]
        behind -= 1  # the tagged fields
        return empty[: behind - 1], uvarint(count + 1), empty[behind:]
