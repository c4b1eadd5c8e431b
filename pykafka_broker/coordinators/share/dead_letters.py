"""Dead letters: the records that a share group gives up, as they are written to its dead-letter topic (KIP-1191).

Rule: a dead letter tells by its headers where the record stands and why the group has given it up. Key and value are
those of the record if the group asks for copies and the record is still there, and null otherwise; headers of the
record are never copied. A copy that the topic would not take is left out, and the letter goes without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pykafka_broker.records.builder import BatchBuilder
from pykafka_broker.records.compression import NONE
from pykafka_broker.records.header import HEADER_SIZE
from pykafka_broker.records.record import Headers

REJECTED = "Offset rejected by client."
EXCEEDED = "Offset delivery count exceeded the threshold."

MOST_LETTERS = 256  # of a batch, which take three milliseconds
_NUMBERS_BYTES = 24  # at most so many bytes for the numbers of a record: its length, deltas, and lengths of its parts


class DeadLetters(NamedTuple):
    """Neighbouring offsets given up for the same cause after the same number of deliveries."""

    first: int
    last: int
    deliveries: int
    cause: str

    def without(self, known: Iterable[DeadLetters]) -> list[DeadLetters]:
        """Return the letters of the offsets that have no letter in `known`."""
        left = [self]
        for other in known:
            if self.first <= other.last and other.first <= self.last:
                before = [each._replace(last=min(each.last, other.first - 1)) for each in left]
                after = [each._replace(first=max(each.first, other.last + 1)) for each in left]
                left = [each for each in before + after if each.first <= each.last]
        return left


class Original(NamedTuple):
    """Key and value of a record that was given up."""

    key: bytes | None
    value: bytes | None

    @property
    def size(self) -> int:
        """Return the size of both in bytes."""
        return len(self.key or b"") + len(self.value or b"")


NO_COPY = Original(None, None)


def headers_of(letters: DeadLetters, offset: int, topic: str, partition: int, group_id: str) -> Headers:
    """Return the headers of one dead letter, in Kafka's order."""
    told = {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "group": group_id,
        "delivery.count": letters.deliveries,
        "message": letters.cause,
    }
    return [(f"__dlq.errors.{name}", str(value).encode()) for name, value in told.items()]


def letter_batches(
    letters: DeadLetters,
    originals: Iterable[tuple[int, Original]],
    topic: str,
    partition: int,
    group_id: str,
    *,
    max_bytes: int,
    now: int,
    codec: int = NONE,
    level: int | None = None,
) -> Iterator[bytearray]:
    """Yield the dead letters in batches of at most `max_bytes` and MOST_LETTERS letters.

    A letter that is larger alone is a batch all the same.

    Args:
        originals: The records that are copied, by offset and in order; those of other offsets are passed over.
        max_bytes: The limit before compression.
        now: The timestamp of each letter.
    """
    copies = iter(originals)
    copy = next(copies, None)
    builder = BatchBuilder(codec=codec, level=level)
    for offset in range(letters.first, letters.last + 1):
        while copy is not None and copy[0] < offset:
            copy = next(copies, None)
        original = NO_COPY if copy is None or copy[0] > offset else copy[1]
        headers = headers_of(letters, offset, topic, partition, group_id)
        size = sum(len(name) + len(value or b"") + 4 for name, value in headers) + _NUMBERS_BYTES
        if HEADER_SIZE + size + original.size > max_bytes:
            original = NO_COPY
        if builder.count == MOST_LETTERS or (builder.count and builder.size + size + original.size > max_bytes):
            yield builder.build()
            builder = BatchBuilder(codec=codec, level=level)
        builder.append(original.key, original.value, now, headers)
    yield builder.build()
