"""The partition of a record, as Kafka's producers choose it.

Rule: a key has the partition that every Java client gives it: the 32-bit MurmurHash2 of its bytes, seeded as Kafka
seeds it, without its sign.
"""

from __future__ import annotations

from struct import Struct

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_WORD = Struct("<I")


def murmur2(data: bytes) -> int:
    """Return the MurmurHash2 of the bytes, unsigned."""
    length = len(data)
    whole = length & ~3
    value = _SEED ^ length
    for (word,) in _WORD.iter_unpack(data[:whole]):
        word = word * _M & _MASK
        word = (word ^ word >> 24) * _M & _MASK
        value = value * _M & _MASK ^ word
    if whole < length:
        value = (value ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    value = (value ^ value >> 13) * _M & _MASK
    return value ^ value >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of a key in a topic with `partitions` partitions."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
