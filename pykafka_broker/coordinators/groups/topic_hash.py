"""The number that tells a group whether the topics that it reads are still as they were (KIP-1101).

Rule: it is Kafka's own, to the bit, since it is stored with the group's epoch: whichever broker opens the log next
finds that nothing has changed, and nobody has to rebalance.
"""

from __future__ import annotations

from collections.abc import Set
from struct import Struct

from pykafka_broker.coordinators.groups.topics import Partitions, Topics, existing
from pykafka_broker.coordinators.groups.xxh3 import xxh3_64

NO_TOPICS = 0
LAYOUT = 0  # the first byte says which layout follows
_I32 = Struct("<i")
_I64 = Struct("<q")


class TopicHashes:
    """The hashes of topics as they are now, and of groups over them."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._known: dict[str, tuple[Partitions, int, bytes]] = {}

    def of_group(self, names: Set[str]) -> int:
        """Over the topics that exist among these; 0 if there are none."""
        topics = self._topics.topics
        there = sorted(existing(self._topics, names), key=_java_order)
        parts = [self._of_topic(topics[name]) for name in there]
        return _signed(xxh3_64(b"".join(parts))) if parts else NO_TOPICS

    def _of_topic(self, topic: Partitions) -> bytes:
        """A topic's hash, 8 bytes; anew if it is another one than last time, or has grown."""
        count = len(topic.partitions)
        known = self._known.get(topic.name)
        if known is not None and known[0] is topic and known[1] == count:
            return known[2]
        found = _I64.pack(_signed(xxh3_64(self._described(topic))))
        self._known[topic.name] = (topic, count, found)
        return found

    def _described(self, topic: Partitions) -> bytes:
        """All of a topic that matters to assignors: id, name, and the racks of each partition's replicas."""
        parts = [
            bytes((LAYOUT,)),
            topic.id[7::-1],
            topic.id[:7:-1],
            _text(topic.name),
            _I32.pack(len(topic.partitions)),
        ]
        racks = {node: broker.rack for node, broker in self._topics.brokers.items() if broker.rack is not None}
        if not racks:
            return b"".join((*parts, *map(_I32.pack, range(len(topic.partitions)))))
        for index in range(len(topic.partitions)):
            parts.append(_I32.pack(index))
            found = [racks[replica] for replica in topic.partitions[index].replicas if replica in racks]
            for rack in sorted(found, key=_java_order):
                parts += (_I32.pack(_length(rack)), _text(rack))
        return b"".join(parts)


def _text(text: str) -> bytes:
    """Java's characters, and how many they are."""
    return text.encode("utf-16-le") + _I32.pack(_length(text))


def _length(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def _java_order(text: str) -> bytes:
    return text.encode("utf-16-be")


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number
