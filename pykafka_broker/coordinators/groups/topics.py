"""The part of the cluster's metadata that groups look at, and the hash that tells whether topics have changed.

Rule: the hash is Kafka's own, to the bit, since it is stored with the group's epoch (KIP-1101): the next broker that
opens the log finds that nothing has changed, and no member has to rebalance. XXH3 is written for inputs of 4 bytes and
more, in the five forms that its specification has for them; the inputs here are never shorter than 8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from struct import Struct
from typing import Protocol


class ClusterPartition(Protocol):
    """A partition and the brokers of the replicas."""

    @property
    def replicas(self) -> Sequence[int]: ...


class ClusterNode(Protocol):
    """A broker and the rack."""

    @property
    def rack(self) -> str | None: ...


class ClusterTopic(Protocol):
    """A topic with name, id and partitions."""

    @property
    def name(self) -> str: ...

    @property
    def id(self) -> bytes: ...

    @property
    def partitions(self) -> Mapping[int, ClusterPartition]: ...


class ClusterTopics(Protocol):
    """All topics and all brokers of the cluster."""

    @property
    def topics(self) -> Mapping[str, ClusterTopic]: ...

    @property
    def topics_by_id(self) -> Mapping[bytes, ClusterTopic]: ...

    @property
    def brokers(self) -> Mapping[int, ClusterNode]: ...


def existing(topics: ClusterTopics, names: Set[str]) -> list[str]:
    """Return the names with a topic. A group may name far more topics than exist."""
    known = topics.topics
    return list(filter(names.__contains__, known) if len(known) < len(names) else filter(known.__contains__, names))


# The hash of topics that is stored with a group's epoch (KIP-1101)


NO_TOPICS = 0
LAYOUT = 0  # the first byte says which layout follows
_I32 = Struct("<i")
_I64 = Struct("<q")


class TopicHashes:
    """The hashes of the present topics, and of groups over the topics."""

    def __init__(self, topics: ClusterTopics) -> None:
        self._topics = topics
        self._known: dict[str, tuple[ClusterTopic, int, bytes]] = {}

    def of_group(self, names: Set[str]) -> int:
        """Return the hash over the existing topics among `names`; 0 if none exists."""
        topics = self._topics.topics
        there = sorted(existing(self._topics, names), key=_java_order)
        parts = [self._of_topic(topics[name]) for name in there]
        return _signed(xxh3_64(b"".join(parts))) if parts else NO_TOPICS

    def forget(self, names: frozenset[str]) -> None:
        """Drop the hashes of topics that have changed."""
        for name in names & self._known.keys():
            del self._known[name]

    def _of_topic(self, topic: ClusterTopic) -> bytes:
        """Return a topic's hash, 8 bytes, from a cache until the topic is forgotten, has grown or is another topic."""
        count = len(topic.partitions)
        known = self._known.get(topic.name)
        if known is not None and known[0] is topic and known[1] == count:
            return known[2]
        if len(self._known) > 2 * len(self._topics.topics):
            self._known.clear()  # most of these topics are deleted
        found = _I64.pack(_signed(xxh3_64(self._described(topic))))
        self._known[topic.name] = (topic, count, found)
        return found

    def _described(self, topic: ClusterTopic) -> bytes:
        """Return a topic's input for the hash: id, name, and the racks of each partition's replicas."""
        parts = [
            bytes((LAYOUT,)),
            topic.id[7::-1],
            topic.id[:7:-1],
            _java_text(topic.name),
            _I32.pack(len(topic.partitions)),
        ]
        racks = {node: broker.rack for node, broker in self._topics.brokers.items() if broker.rack is not None}
        if not racks:
            return b"".join((*parts, *map(_I32.pack, range(len(topic.partitions)))))
        for index in range(len(topic.partitions)):
            parts.append(_I32.pack(index))
            found = [racks[replica] for replica in topic.partitions[index].replicas if replica in racks]
            for rack in sorted(found, key=_java_order):
                parts += (_I32.pack(java_length(rack)), _java_text(rack))
        return b"".join(parts)


def _java_text(text: str) -> bytes:
    """Return Java's characters, followed by the count of characters."""
    return text.encode("utf-16-le") + _I32.pack(java_length(text))


def java_length(text: str) -> int:
    """Return how many of Java's characters a text has, by which Kafka's limits count."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def _java_order(text: str) -> bytes:
    return text.encode("utf-16-be")


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


# XXH3, the 64-bit hash without a seed (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md)


_MASK = (1 << 64) - 1
_PRIME32_1, _PRIME32_2, _PRIME32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
_PRIME64_1 = 0x9E3779B185EBCA87
_PRIME64_2 = 0xC2B2AE3D27D4EB4F
_PRIME64_3 = 0x165667B19E3779F9
_PRIME64_4 = 0x85EBCA77C2B2AE63
_PRIME64_5 = 0x27D4EB2F165667C5
_PRIME_MX1 = 0x165667919E3779F9
_PRIME_MX2 = 0x9FB21C651E98DF25
_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)

_STRIPE = 64
_STRIPES_IN_BLOCK = (len(_SECRET) - _STRIPE) // 8
_BLOCK = _STRIPE * _STRIPES_IN_BLOCK
_START = (_PRIME32_3, _PRIME64_1, _PRIME64_2, _PRIME64_3, _PRIME64_4, _PRIME32_2, _PRIME64_5, _PRIME32_1)

_U64 = Struct("<Q")
_TWO = Struct("<2Q")
_LANES = Struct("<8Q")


def xxh3_64(data: bytes) -> int:
    """Return the hash, an unsigned number of 64 bits."""
    length = len(data)
    assert length >= 4, "shorter inputs have forms of their own"
    if length <= 8:
        return _tiny(data)
    if length <= 16:
        return _short(data)
    if length <= 128:
        return _avalanche(length * _PRIME64_1 + _from_both_ends(data))
    if length <= 240:
        return _middle(data)
    return _long(data)


def _tiny(data: bytes) -> int:
    """Hash 4 to 8 bytes."""
    length = len(data)
    number = int.from_bytes(data[-4:], "little") + (int.from_bytes(data[:4], "little") << 32)
    number ^= _u64(_SECRET, 8) ^ _u64(_SECRET, 16)
    number = (number ^ _rotated(number, 49) ^ _rotated(number, 24)) * _PRIME_MX2 & _MASK
    number = (number ^ (number >> 35) + length) * _PRIME_MX2 & _MASK
    return number ^ number >> 28


def _rotated(number: int, bits: int) -> int:
    return (number << bits | number >> 64 - bits) & _MASK


def _short(data: bytes) -> int:
    """Hash 9 to 16 bytes."""
    low = _u64(data, 0) ^ _u64(_SECRET, 24) ^ _u64(_SECRET, 32)
    high = _u64(data, len(data) - 8) ^ _u64(_SECRET, 40) ^ _u64(_SECRET, 48)
    swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
    return _avalanche(len(data) + swapped + high + _fold(low, high))


def _from_both_ends(data: bytes) -> int:
    """Hash 17 to 128 bytes."""
    total = 0
    for i in range((len(data) - 1) // 32 + 1):
        total += _mix(data, 16 * i, 32 * i) + _mix(data, len(data) - 16 * (i + 1), 32 * i + 16)
    return total


def _middle(data: bytes) -> int:
    """Hash 129 to 240 bytes."""
    length = len(data)
    first = length * _PRIME64_1 + sum(_mix(data, 16 * i, 16 * i) for i in range(8))
    rest = sum(_mix(data, 16 * i, 16 * (i - 8) + 3) for i in range(8, length // 16))
    return _avalanche(_avalanche(first) + rest + _mix(data, length - 16, 136 - 17))


def _long(data: bytes) -> int:
    """Hash 241 bytes and more: eight sums over stripes, stirred after each block."""
    length = len(data)
    sums = list(_START)
    stir = _LANES.unpack_from(_SECRET, len(_SECRET) - _STRIPE)
    blocks = (length - 1) // _BLOCK
    for block in range(blocks):
        _add_stripes(sums, data, block * _BLOCK, _STRIPES_IN_BLOCK)
        for lane, value in enumerate(sums):
            value &= _MASK
            sums[lane] = (value ^ value >> 47 ^ stir[lane]) * _PRIME32_1 & _MASK
    _add_stripes(sums, data, blocks * _BLOCK, (length - 1 - blocks * _BLOCK) // _STRIPE)
    _add_stripe(sums, data, length - _STRIPE, len(_SECRET) - _STRIPE - 7)
    result = length * _PRIME64_1
    for lane in range(0, 8, 2):
        low, high = _TWO.unpack_from(_SECRET, 11 + 8 * lane)
        result += _fold(sums[lane] & _MASK ^ low, sums[lane + 1] & _MASK ^ high)
    return _avalanche(result)


def _add_stripes(sums: list[int], data: bytes, at: int, count: int) -> None:
    for stripe in range(count):
        _add_stripe(sums, data, at + stripe * _STRIPE, stripe * 8)


def _add_stripe(sums: list[int], data: bytes, at: int, secret_at: int) -> None:
    secret = _LANES.unpack_from(_SECRET, secret_at)
    for lane, value in enumerate(_LANES.unpack_from(data, at)):
        key = value ^ secret[lane]
        sums[lane ^ 1] += value
        sums[lane] += (key & 0xFFFFFFFF) * (key >> 32)


def _u64(data: bytes, at: int) -> int:
    number: int = _U64.unpack_from(data, at)[0]
    return number


def _mix(data: bytes, at: int, secret_at: int) -> int:
    """Mix 16 bytes with 16 bytes of the secret."""
    low, high = _TWO.unpack_from(data, at)
    secret_low, secret_high = _TWO.unpack_from(_SECRET, secret_at)
    return _fold(low ^ secret_low, high ^ secret_high)


def _fold(first: int, second: int) -> int:
    product = first * second
    return product & _MASK ^ product >> 64


def _avalanche(number: int) -> int:
    number &= _MASK
    number = (number ^ number >> 37) * _PRIME_MX1 & _MASK
    return number ^ number >> 32
