"""How many partitions a produce request names, found without reading it.

Rule: nearly all requests are long by their records and name few partitions, so this must cost next to nothing for them;
it stops as soon as there are too many, or where the bytes make no sense, which whoever reads them says.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError

from pykafka_broker.protocol.runtime import DecodeError, read_tag, read_uvarint

COUNTED_FROM_BYTES = 16 << 10
MOST_PARTITIONS = 64
_TRANSACTIONAL_ID_FROM, _FLEXIBLE_FROM, _TOPIC_IDS_FROM = 3, 9, 13
_INT16 = Struct(">h")
_INT32 = Struct(">i")
_ACKS_AND_TIMEOUT_BYTES, _INDEX_BYTES, _UUID_BYTES = 6, 4, 16


class _TooMany(Exception):
    """Tagged fields, of which there are none in these."""


def names_many_partitions(frame: memoryview | bytes, at: int, version: int) -> bool:
    """Whether the request that begins there names more topics and partitions than are read in one go."""
    try:
        return (_count_flexible if version >= _FLEXIBLE_FROM else _count_plain)(frame, at, version) > MOST_PARTITIONS
    except _TooMany:
        return True
    except (IndexError, StructError, DecodeError):
        return False


def _count_flexible(frame: memoryview | bytes, at: int, version: int) -> int:
    length, at = read_uvarint(frame, at)
    topics, at = read_uvarint(frame, at + max(0, length - 1) + _ACKS_AND_TIMEOUT_BYTES)
    found = topics - 1
    if found > MOST_PARTITIONS:
        return found
    for _ in range(topics - 1):
        if version >= _TOPIC_IDS_FROM:
            at += _UUID_BYTES
        else:
            length, at = read_uvarint(frame, at)
            at += max(0, length - 1)
        partitions, at = read_uvarint(frame, at)
        found += partitions - 1
        if found > MOST_PARTITIONS:
            return found
        for _ in range(partitions - 1):
            length, at = read_uvarint(frame, at + _INDEX_BYTES)
            at = _after_tags(frame, at + max(0, length - 1))
        at = _after_tags(frame, at)
    return found


def _after_tags(frame: memoryview | bytes, at: int) -> int:
    if not frame[at]:
        return at + 1
    count, at = read_uvarint(frame, at)
    if count > MOST_PARTITIONS:
        raise _TooMany
    for _ in range(count):
        _, _, at = read_tag(frame, at)
    return at


def _count_plain(frame: memoryview | bytes, at: int, version: int) -> int:
    if version >= _TRANSACTIONAL_ID_FROM:
        at += 2 + max(0, _INT16.unpack_from(frame, at)[0])
    at += _ACKS_AND_TIMEOUT_BYTES
    (topics,) = _INT32.unpack_from(frame, at)
    at += 4
    found: int = topics
    if found > MOST_PARTITIONS:
        return found
    for _ in range(topics):
        at += 2 + max(0, _INT16.unpack_from(frame, at)[0])
        (partitions,) = _INT32.unpack_from(frame, at)
        at += 4
        found += partitions
        if found > MOST_PARTITIONS:
            return found
        for _ in range(partitions):
            at += _INDEX_BYTES
            at += 4 + max(0, _INT32.unpack_from(frame, at)[0])
    return found


__all__ = ["COUNTED_FROM_BYTES", "MOST_PARTITIONS", "names_many_partitions"]
