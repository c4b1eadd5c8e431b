"""Answers that are asked for again and again. Rule: a cached answer holds until the metadata image changes, not longer.

Spark and the Java clients ask for ApiVersions and Metadata all the time; the bytes of an answer are made once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from pykafka_broker.cluster.image import MetadataImage


class EncodedReply:
    """A response that is already bytes, for one version."""

    __slots__ = ("body",)

    def __init__(self, body: bytes) -> None:
        self.body = body

    def write(self, version: int, w: Callable[[Any], object]) -> None:
        w(self.body)


class ReplyCache:
    """Encoded replies by what was asked, for one generation of the image."""

    __slots__ = ("_generation", "_limit", "_replies")

    def __init__(self, limit: int = 256) -> None:
        self._generation = -1
        self._limit = limit
        self._replies: dict[Hashable, EncodedReply] = {}

    def get(self, image: MetadataImage, key: Hashable) -> EncodedReply | None:
        if self._generation != image.generation:
            self._replies.clear()
            self._generation = image.generation
        return self._replies.get(key)

    def put(self, image: MetadataImage, key: Hashable, reply: EncodedReply) -> EncodedReply:
        """Keep an answer that was made from `image` as it is now."""
        if self._generation != image.generation or len(self._replies) >= self._limit:
            self._replies.clear()
            self._generation = image.generation
        self._replies[key] = reply
        return reply
