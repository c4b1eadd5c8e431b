"""The number of records in a topic, asked again and again.

Rule: counted records are not read again; only later ones are, and of these only the headers of batches where headers
are enough.
"""

from __future__ import annotations

from collections.abc import Iterator

from pykafka_broker.control.control import Control
from pykafka_broker.control.problems import Problem, did_you_mean, problem_of
from pykafka_broker.control.reading import FoundRecord, IsolationLevel, batches_from, count_from, end_of, records_from
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode


def no_topic(control: Control, topic: str) -> Problem:
    """Return the problem for an unknown topic, with suggestions of similar names."""
    meant = did_you_mean(topic, control.services.image.topics)
    return Problem(404, f"there is no topic {topic}{meant}", code="UNKNOWN_TOPIC_OR_PARTITION")


def check_led_here(control: Control, topic: str, partition: int) -> None:
    """Raise `Problem`, which names the leader, where another broker of a cluster has the records."""
    leader = control.services.image.topics[topic].partitions[partition].leader
    if leader not in (-1, control.services.node_id):
        led = f"broker {leader} leads {topic}-{partition}: ask that one, or the cluster"
        raise problem_of(ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, led))


class TopicWatch:
    """The records of a topic from the beginning, or from `offsets` on."""

    def __init__(
        self, control: Control, topic: str, isolation_level: IsolationLevel, offsets: dict[int, int] | None = None
    ) -> None:
        self._control = control
        self.topic = topic
        self.isolation_level = isolation_level
        self._offsets = {} if offsets is None else dict(offsets)
        self._counted_to: dict[int, int] = {}
        self._looked_to: dict[int, int] = {}
        self._topic_id: bytes | None = None
        self.count = 0

    @property
    def exists(self) -> bool:
        """Return whether the topic exists now."""
        return self.topic in self._control.services.image.topics

    def ends(self) -> dict[int, int]:
        """Return the end of each partition for readers of the isolation level.

        Raises `Problem` where another broker has the records.
        """
        image = self._control.services.image.topics.get(self.topic)
        if image is None or image.id != self._topic_id:  # another topic has the name now; counting begins anew
            self._counted_to, self._looked_to, self.count = {}, {}, 0
            self._topic_id = None if image is None else image.id
        ends = {}
        for number in () if image is None else sorted(image.partitions):
            check_led_here(self._control, self.topic, number)
            try:
                partition = self._control.services.replicas.leader(self.topic, number)
            except ApiError:
                continue
            ends[number] = end_of(partition, self.isolation_level)
        return ends

    def look(self) -> int:
        """Return the present number of records."""
        for number, end in self.ends().items():
            start = self._counted_to.get(number, self._offsets.get(number, 0))
            if start < end:
                self.count += self._between(number, start)
                self._counted_to[number] = end
        return self.count

    def _between(self, number: int, start: int) -> int:
        partition = self._control.services.replicas.leader(self.topic, number)
        total = 0
        for header, batch in batches_from(partition, start, self.isolation_level):
            total += count_from(header, batch, max(start, partition.log.log_start_offset))
        return total

    def fresh(self) -> Iterator[tuple[int, FoundRecord]]:
        """Yield records added since the last call of `fresh`, with partitions."""
        for number, end in self.ends().items():
            start = self._looked_to.get(number, self._offsets.get(number, 0))
            if start < end:
                partition = self._control.services.replicas.leader(self.topic, number)
                for found in records_from(partition, start, self.isolation_level):
                    self._looked_to[number] = found.record.offset + 1
                    yield number, found
                self._looked_to[number] = end

    def records(self) -> Iterator[tuple[int, FoundRecord]]:
        """Yield all records with the partitions, partition by partition."""
        for number in self.ends():
            partition = self._control.services.replicas.leader(self.topic, number)
            offset = self._offsets.get(number, 0)
            yield from ((number, each) for each in records_from(partition, offset, self.isolation_level))
