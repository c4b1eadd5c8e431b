"""The last offset of each key in the part of a log that is to be cleaned.

Rule: its memory is bounded. When it is full, cleaning goes as far as it got and does the rest another time. A long
key is represented by a digest of 128 bits, as Kafka does with every key.
"""

from __future__ import annotations

from hashlib import blake2b

# What one entry costs: a key of up to 16 bytes and an offset as objects, and a slot of the table at its usual fill.
ENTRY_BYTES = 200
_DIGEST_BYTES = 16


class OffsetMap:
    __slots__ = ("_offsets", "capacity", "latest_offset")

    def __init__(self, memory_bytes: int) -> None:
        self.capacity = max(1, memory_bytes // ENTRY_BYTES)
        self._offsets: dict[bytes, int] = {}
        self.latest_offset = -1  # all keys up to here are known

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, key: bytes, offset: int) -> bool:
        """False if there is no room for another key."""
        if len(self._offsets) >= self.capacity:
            return False
        self._offsets[key if len(key) < _DIGEST_BYTES else _digest(key)] = offset
        return True

    def get(self, key: bytes) -> int:
        """The last offset of that key, -1 if it did not occur."""
        return self._offsets.get(key if len(key) < _DIGEST_BYTES else _digest(key), -1)


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=_DIGEST_BYTES).digest()
