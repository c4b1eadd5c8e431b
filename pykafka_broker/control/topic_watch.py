"""How many records a topic has, asked again and again.

Rule: what has been counted is not read again; only what was appended since is, and of that only the headers of batches
where they are enough.
"""

from __future__ import annotations

from itertools import islice

from pykafka_broker.control.control import Control
from pykafka_broker.control.reading import Found, IsolationLevel, batches_from, count_from, end_of, records_from
from pykafka_broker.errors import ApiError


class TopicWatch:
    """The records of a topic from its beginning, or from `offsets` on."""

    def __init__(
        self, control: Control, topic: str, isolation_level: IsolationLevel, offsets: dict[int, int] | None = None
    ) -> None:
        self._control = control
        self.topic = topic
        self._isolation_level = isolation_level
        self._offsets = {} if offsets is None else dict(offsets)
        self._counted_to: dict[int, int] = {}
        self._topic_id: bytes | None = None
        self.count = 0

    def ends(self) -> dict[int, int]:
        """Where each partition ends now, as a reader of this isolation level sees it."""
        image = self._control.services.image.topics.get(self.topic)
        ends = {}
        for number in () if image is None else sorted(image.partitions):
            try:
                partition = self._control.services.replicas.leader(self.topic, number)
            except ApiError:
                continue
            ends[number] = end_of(partition, self._isolation_level)
        return ends

    def look(self) -> int:
        """How many there are now."""
        image = self._control.services.image.topics.get(self.topic)
        if image is None or image.id != self._topic_id:  # another topic has its name now: nothing of it is counted
            self._counted_to, self.count = {}, 0
            self._topic_id = None if image is None else image.id
        for number, end in self.ends().items():
            start = self._counted_to.get(number, self._offsets.get(number, 0))
            if start < end:
                self.count += self._between(number, start)
                self._counted_to[number] = end
        return self.count

    def _between(self, number: int, start: int) -> int:
        partition = self._control.services.replicas.leader(self.topic, number)
        total = 0
        for header, batch in batches_from(partition, start, self._isolation_level):
            total += count_from(header, batch, max(start, partition.log.log_start_offset))
        return total

    def records(self, limit: int) -> list[tuple[int, Found]]:
        """The first of them with their partitions."""
        found: list[tuple[int, Found]] = []
        for number in self.ends():
            partition = self._control.services.replicas.leader(self.topic, number)
            offset = self._offsets.get(number, 0)
            page = islice(records_from(partition, offset, self._isolation_level), limit - len(found))
            found += [(number, each) for each in page]
        return found
