"""Messages with one very long list, which is encoded in steps before the message is.

Rule: the bytes are those that `encode` gives. What is generated writes the count of a list and goes through its
elements then; the lists here say a count and write themselves when they are gone through.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any

from pykafka_broker.protocol.runtime import Message

_AT_ONCE = 400


class _Noted(list[Any]):
    """Notes which pieces are those of its elements."""

    def __init__(self, items: Sequence[Any], pieces: list[Any]) -> None:
        super().__init__(items)
        self._pieces = pieces
        self.written: list[Any] = []

    def __iter__(self) -> Iterator[Any]:
        begin = len(self._pieces)
        yield from super().__iter__()
        self.written = self._pieces[begin:]


class _Encoded(list[Any]):
    """Its elements are bytes already."""

    def __init__(self, count: int, encoded: bytes, pieces: list[Any]) -> None:
        super().__init__()
        self._count = count
        self._encoded = encoded
        self._pieces = pieces

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        self._pieces.append(self._encoded)
        return iter(())


def elements_in_steps(like: Message, version: int, name: str, items: Sequence[Any]) -> Generator[None, None, bytes]:
    """The elements of the list of that name, as they stand in a message of this kind behind their count."""
    encoded: list[bytes] = []
    for start in range(0, len(items), _AT_ONCE):
        pieces: list[Any] = []
        noted = _Noted(items[start : start + _AT_ONCE], pieces)
        setattr(like, name, noted)
        like.write(version, pieces.append)
        encoded.append(b"".join(noted.written))
        yield
    return b"".join(encoded)


def encode_with(message: Message, version: int, name: str, encoded: bytes) -> bytes:
    """The message whose list of that name has been encoded."""
    held, pieces = getattr(message, name), list[Any]()
    setattr(message, name, _Encoded(len(held), encoded, pieces))
    message.write(version, pieces.append)
    setattr(message, name, held)
    return b"".join(pieces)


__all__ = ["elements_in_steps", "encode_with"]
