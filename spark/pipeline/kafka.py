"""The driver's own requests to the brokers. Rule: before a job reads or writes anything, the brokers have answered and
the topics that it needs are there; before a job writes what it has read, the topic that it read is still the same one.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec

from pipeline.errors import BrokerUnreachable, CheckpointError, JobFailed, PipelineError, UnknownTopic
from pipeline.settings import Settings

Offsets = dict[int, int]  # by partition
Answer = TypeVar("Answer")
COMPACTED = {"cleanup.policy": "compact"}
MAX_MESSAGE_BYTES = 1_048_588
SILENCE = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError.REQUEST_TIMED_OUT)
READ_WAIT_S, READ_STEP_S = 30.0, 0.05
PATIENCE_S = 60.0  # with brokers that are silent in the middle of a run; Spark's own clients wait no longer
LONGEST_TRY_S = 5.0  # of a question's first try: librdkafka may be asking a broker that has died


def passes(code: int) -> bool:
    """Return whether a later try may fare better: no answer came, or a leader or coordinator is being moved."""
    return code in (
        *SILENCE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError._WAIT_COORD,
    )


def checked(places: list[TopicPartition]) -> list[TopicPartition]:
    """Return an answer whose errors are in its partitions, if there are none."""
    for place in places:
        if place.error is not None:
            raise KafkaException(place.error)
    return places


def in_words(error: KafkaException) -> PipelineError:
    """Return an error of the driver's own client as one of ours."""
    cause = error.args[0]
    if cause.code() in SILENCE:
        return BrokerUnreachable(f"the brokers stopped answering ({cause.str()})")
    return JobFailed(f"the brokers refused: {cause.str()} ({cause.name()})")


def _quiet(*_: object) -> None:
    """Ignore librdkafka's own log lines: what matters of them is raised."""


class Kafka:
    """The brokers of the settings, seen from the driver."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._timeout_s = settings.connect_timeout_s
        self._try_s = min(self._timeout_s, LONGEST_TRY_S)
        quiet: dict[str, Any] = {"error_cb": _quiet, "log_level": 0}
        self._config = {**quiet, "bootstrap.servers": settings.bootstrap_servers, **settings.client_config}
        self._admin = AdminClient(self._config)
        self._outsiders: dict[str, Consumer] = {}
        self._topic_ids: dict[str, str] = {}

    def check_reachable(self) -> None:
        try:
            self._ask_for_metadata(self._timeout_s)
        except KafkaException as error:
            raise BrokerUnreachable(
                f"no broker answers at {self._settings.bootstrap_servers} within {self._timeout_s:g} s "
                f"({error.args[0].str()}); the setting is bootstrap_servers"
            ) from error

    def _metadata(self) -> Any:
        return self._retried(lambda: self._ask_for_metadata(self._try_s))

    def _ask_for_metadata(self, timeout_s: float) -> Any:
        return self._admin.list_topics(timeout=timeout_s)

    def cluster_id(self) -> str:
        return str(self._metadata().cluster_id)

    def partitions(self, topic: str) -> list[int]:
        found = self._metadata().topics.get(topic)
        if found is None or found.error is not None:
            raise UnknownTopic(f"there is no topic {topic} at {self._settings.bootstrap_servers}")
        return sorted(found.partitions)

    def matching(self, pattern: re.Pattern[str]) -> list[str]:
        """Return the topics whose whole name matches."""
        return sorted(topic for topic in self._metadata().topics if pattern.fullmatch(topic))

    def topic_id(self, topic: str) -> str:
        """Return the id that tells a topic from a later one of its name; empty where brokers have none."""

        def ask() -> str:
            asked = TopicCollection([topic])
            found = self._admin.describe_topics(asked, request_timeout=self._try_s)[topic].result().topic_id
            return str(found) if found.get_most_significant_bits() or found.get_least_significant_bits() else ""

        return self._retried(ask)

    def remember(self, topic: str) -> str:
        """Return the id of a topic that the job is going to read, for `require_same_topics` to compare with."""
        self._topic_ids[topic] = self.topic_id(topic)
        return self._topic_ids[topic]

    def require_same_topics(self) -> None:
        """Make sure that what was read until now came from the topics that `remember` saw.

        A batch asks after it has read and before it writes: a topic that was deleted and made anew in between has
        other records at the same offsets, and a topic id never comes back. Costs one request.

        Raises:
            CheckpointError: a topic of the same name has taken the place of one of them.
            UnknownTopic: one of them is gone.
            BrokerUnreachable: no broker answers for `PATIENCE_S`.
        """
        for topic, known in self._topic_ids.items():
            if known and self._current_id(topic) != known:
                raise CheckpointError(
                    f"topic {topic} was deleted and made anew while the job read it: its offsets are other records "
                    "now, and none of them was written"
                )

    def _current_id(self, topic: str) -> str:
        try:
            return self.topic_id(topic)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise UnknownTopic(f"topic {topic} was deleted while the job read it") from error
            raise in_words(error) from error

    def check_writable(self, topic: str) -> bool:
        """Return whether the topic is there; refuse one that is not, where the settings don't let us create it."""
        present = topic in self._metadata().topics
        if not present and not self._settings.create_topics:
            raise UnknownTopic(f"there is no topic {topic} to write to, and create_topics is off")
        return present

    def ensure_topic(self, topic: str, configs: Mapping[str, str] | None = None) -> None:
        """Create the topic if the settings allow it; one that exists stays as it is."""
        if self.check_writable(topic):
            return
        new = NewTopic(topic, self._settings.topic_partitions, config=dict(configs or {}))
        try:
            self._admin.create_topics([new], operation_timeout=self._timeout_s)[topic].result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:  # by another flow or job, a moment ago
                raise UnknownTopic(f"topic {topic} can't be created: {error.args[0].str()}") from error
        self._await(topic)

    def max_message_bytes(self, topic: str) -> int:
        """Return how large a batch of the topic may be; Kafka's default where the configs may not be asked for."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)

        def ask() -> int:
            found = self._admin.describe_configs([resource], request_timeout=self._try_s)[resource].result()
            return int(found["max.message.bytes"].value)

        try:
            return self._retried(ask)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                return MAX_MESSAGE_BYTES
            raise

    def _await(self, topic: str) -> None:
        """Wait for a new topic: a real Kafka's brokers learn of it from their controller, a moment after it is made."""
        deadline = time.monotonic() + self._timeout_s
        while (found := self._metadata().topics.get(topic)) is None or found.error is not None:
            if time.monotonic() > deadline:
                raise UnknownTopic(f"topic {topic} was created, and no broker knows of it after {self._timeout_s:g} s")
            time.sleep(READ_STEP_S)

    def _list_offsets(self, topic: str, partitions: list[int], spec: OffsetSpec) -> Offsets:
        committed = self._settings.isolation_level == "read_committed"
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        asked = {TopicPartition(topic, partition): spec for partition in partitions}

        def ask() -> Offsets:
            found = self._admin.list_offsets(asked, isolation_level=level, request_timeout=self._try_s)
            offsets = {place.partition: future.result().offset for place, future in found.items()}
            if OFFSET_INVALID in offsets.values():  # librdkafka's answer for a leader that has died, without an error
                raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
            return offsets

        return self._retried(ask)

    def _retried(self, ask: Callable[[], Answer]) -> Answer:
        """Ask again while the answer is one that passes, or while there is none.

        The leader of a new partition may not know of it yet, or may have died. A broker that is silent is no reason for
        librdkafka to ask another one: its admin client sticks to the broker that the metadata calls the controller,
        which with KRaft is any broker, and with Kafka's may be one that has died. So another client asks next, for
        twice as long: on a machine that is too busy, its connection alone may take what the try before had.
        """
        begun, first_try_s = time.monotonic(), self._try_s
        try:
            return self._asked_until_told(ask, begun)
        finally:
            self._try_s = first_try_s

    def _asked_until_told(self, ask: Callable[[], Answer], begun: float) -> Answer:
        while True:
            try:
                return ask()
            except KafkaException as error:
                code, waited_s = error.args[0].code(), time.monotonic() - begun
                is_gone = code == KafkaError.UNKNOWN_TOPIC_OR_PART  # or has only just been made
                if not passes(code) or waited_s > (self._timeout_s if is_gone else PATIENCE_S):
                    raise
                if code in SILENCE:
                    self._admin = AdminClient(self._config)
                    self._try_s = min(2 * self._try_s, PATIENCE_S)
                else:
                    with suppress(KafkaException):
                        self._ask_for_metadata(self._try_s)
                time.sleep(READ_STEP_S)

    def ranges(self, topic: str) -> dict[int, tuple[int, int]]:
        """Return first offset and end of each partition; the end is where readers of committed records stop."""
        partitions = self.partitions(topic)
        first = self._list_offsets(topic, partitions, OffsetSpec.earliest())
        end = self._list_offsets(topic, partitions, OffsetSpec.latest())
        return {partition: (first[partition], end[partition]) for partition in partitions}

    def offsets_at(self, topic: str, timestamp_ms: int) -> Offsets:
        """Return the first offset of each partition whose record is not older; the end where there is none.

        The end comes first: a record that arrives between the two questions is after it. No record is older than 1970,
        and to librdkafka negative times are words: -1 is the end.
        """
        partitions = self.partitions(topic)
        ends = self._list_offsets(topic, partitions, OffsetSpec.latest())
        found = self._list_offsets(topic, partitions, OffsetSpec.for_timestamp(max(0, timestamp_ms)))
        return {partition: offset if offset >= 0 else ends[partition] for partition, offset in found.items()}

    def committed(self, group: str, topic: str) -> Offsets:
        wanted = [TopicPartition(topic, partition) for partition in self.partitions(topic)]

        def ask() -> Offsets:
            found = checked(self._outsider(group).committed(wanted, timeout=self._try_s))
            return {entry.partition: entry.offset for entry in found if entry.offset >= 0}

        return self._retried(ask)

    def commit(self, group: str, topic: str, offsets: Offsets) -> None:
        """Commit for a group without members, as tools do that set offsets."""
        entries = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        if entries:

            def ask() -> Offsets:
                checked(self._outsider(group).commit(offsets=entries, asynchronous=False) or [])
                return offsets

            self._retried(ask)

    def _outsider(self, group: str) -> Consumer:
        """Return a client that asks for the group's offsets and never joins it.

        Not the admin client: that of librdkafka 2.16 ends the whole process with a segmentation fault when the group's
        coordinator is only just getting ready.
        """
        if group not in self._outsiders:
            self._outsiders[group] = Consumer({**self._config, "group.id": group, "enable.auto.commit": False})
        return self._outsiders[group]

    def producer(self) -> Producer:
        """Return the driver's own producer, whose keys go where Java's clients, and so Spark's, put them."""
        return Producer({"partitioner": "murmur2_random", **self._config})

    def read_all(self, topic: str) -> list[Any]:
        """Return every record that is in the topic now: for topics that fit into memory, like metrics."""
        return self.read(topic, self.ranges(topic))

    def read(self, topic: str, ranges: Mapping[int, tuple[int, int]]) -> list[Any]:
        """Return the records of these offsets, partition by partition."""
        own = {"group.id": "pipeline-read", "enable.auto.commit": False, "enable.partition.eof": True}
        consumer = Consumer({**self._config, **own, "auto.offset.reset": "error"})
        try:
            return [
                record
                for partition, (first, end) in ranges.items()
                if first < end
                for record in self._read_partition(consumer, TopicPartition(topic, partition, first), end)
            ]
        finally:
            consumer.close()

    def _read_partition(self, consumer: Consumer, start: TopicPartition, end: int) -> list[Any]:
        consumer.assign([start])
        records: list[Any] = []
        deadline = time.monotonic() + READ_WAIT_S
        while time.monotonic() < deadline:
            for record in consumer.consume(1_000, timeout=READ_STEP_S):
                deadline = time.monotonic() + READ_WAIT_S
                error, offset = record.error(), record.offset()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return records
                if error is not None or offset is None:
                    raise KafkaException(error)
                if offset < end:
                    records.append(record)
                if offset >= end - 1:
                    return records
        raise BrokerUnreachable(f"{start.topic}-{start.partition} stays silent before offset {end}")
