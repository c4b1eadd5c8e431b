"""Members of a share group with a dead-letter topic, and their admin, as short verbs over the raw requests.

Rule: letters and states are written down once all of them are there, since Kafka writes them beside its answers. How
letters are put into batches is Kafka's own affair and is not written down.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pykafka_broker.coordinators.record import decode
from pykafka_broker.coordinators.share.state import RecordState, runs_of
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pykafka_broker.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from pykafka_broker.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.read_share_group_state_request import (
    PartitionData as ReadPartition,
)
from pykafka_broker.protocol.messages.read_share_group_state_request import (
    ReadShareGroupStateRequest,
    ReadStateData,
)
from pykafka_broker.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from pykafka_broker.protocol.messages.write_share_group_state_request import (
    PartitionData as WrittenPartition,
)
from pykafka_broker.protocol.messages.write_share_group_state_request import (
    StateBatch,
    WriteShareGroupStateRequest,
    WriteStateData,
)
from pykafka_broker.protocol.stored.share_update_value import ShareUpdateValue
from pykafka_broker.protocol.stored_keys import SHARE_RECORDS
from pykafka_broker.records.builder import BatchBuilder
from pykafka_broker.records.header import iter_batches
from pykafka_broker.records.record import BatchRecord, Headers, iter_records
from tests.scenarios.groups.stage import CLOCK_FROM, Stage
from tests.scenarios.share.actors import ShareMember

ENABLE = "errors.deadletterqueue.group.enable"
NAME = "errors.deadletterqueue.topic.name"
COPY = "errors.deadletterqueue.copy.record.enable"
CREATE = "errors.deadletterqueue.auto.create.topics.enable"
PREFIX = "errors.deadletterqueue.topic.name.prefix"
_SET, _DELETE = 0, 1
_TRIES, _EVERY_MS = 40, 250
_STATES = "__share_group_state"

NO_CONFIGS: Mapping[str, str] = {}
Sent = tuple[bytes | None, bytes | None, Headers]


class LetterMember(ShareMember):
    """A member of a share group, which is the group's admin too."""

    # -- requests without a line in the recording

    def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        """Create a topic; underscores in names of configs stand for dots."""
        overrides = [CreatableTopicConfig(name.replace("_", "."), value) for name, value in configs.items()]
        self._call(CreateTopicsRequest([CreatableTopic(topic, partitions, 1, configs=overrides)], 10_000), 7)
        self.stage.topic_id(topic)
        self.stage.world.settle()

    def send_records(self, topic: str, *records: Sent, partition: int = 0) -> None:
        builder = BatchBuilder()
        for key, value, headers in records:
            builder.append(key, value, 1_600_000_000_000, headers)
        data = TopicProduceData(topic, partition_data=[PartitionProduceData(partition, bytes(builder.build()))])
        answer = self._call(ProduceRequest(None, -1, 10_000, [data]), 12).responses[0].partition_responses[0]
        assert answer.error_code == 0, answer.error_code

    def level(self, level: int) -> None:
        """Finalize this level of the feature share.version."""
        update = FeatureUpdateKey("share.version", level, upgrade_type=1 if level > 1 else 2)
        assert self._call(UpdateFeaturesRequest(feature_updates=[update]), 2).error_code == 0
        self.stage.world.settle()

    def leave_archiving(self, topic: str, *runs: tuple[int, int, int]) -> None:
        """Store records in state ARCHIVING, as a leader leaves them that dies. runs: first, last, delivery count."""
        topic_id = self.stage.topic_id(topic)
        asked = ReadShareGroupStateRequest(self.group, [ReadStateData(topic_id, [ReadPartition(0, 0)])])
        epoch = self._call(asked, 0).results[0].partitions[0].state_epoch
        batches = [StateBatch(first, last, RecordState.ARCHIVING, deliveries) for first, last, deliveries in runs]
        states = WriteStateData(topic_id, [WrittenPartition(0, epoch, 0, 0, 0, batches)])
        answer = self._call(WriteShareGroupStateRequest(self.group, [states]), 1)
        assert answer.results[0].partitions[0].error_code == 0

    def _call(self, request: Any, version: int) -> Any:
        self.wire.send(request, version)
        return self.wire.receive()

    # -- requests with lines in the recording

    def alter_configs(self, kind: ConfigResourceType, name: str, **configs: str | None) -> None:
        """Set configs, or delete those without a value."""
        entries = [
            AlterableConfig(key.replace("_", "."), _DELETE if value is None else _SET, value)
            for key, value in configs.items()
        ]
        answer = self._call(IncrementalAlterConfigsRequest([AlterConfigsResource(kind, name, entries)]), 1).responses[0]
        told = ErrorCode(answer.error_code).name, answer.error_message
        self._write(f"{kind.name} {name}: {configs}", told)
        self.stage.world.settle()

    def letters(self, topic: str, count: int) -> None:
        """Wait for `count` records in a dead-letter topic, and record them."""
        partitions: list[Any] = []
        for _ in range(_TRIES):
            partitions = self._partitions(topic)
            found = [list(self._records(topic, index)) for index in range(len(partitions))]
            if sum(map(len, found)) >= count:
                break
            self.stage.world.wait(_EVERY_MS)
        self.stage.world.settle()
        for index in range(len(partitions)):
            for record in sorted(self._records(topic, index), key=lambda one: [value for _, value in one.headers]):
                self._write(f"letter in {topic}-{index}", self._letter(record))

    def stored(self, topic: str) -> None:
        """Record the states of each offset of partition 0, in the order in which they were stored."""
        topic_id, states = self.stage.topic_id(topic), dict[int, list[str]]()
        for _ in range(_TRIES):
            states = self._states(topic_id)
            if all("ARCHIVING" not in each[-1] for each in states.values()):
                break
            self.stage.world.wait(_EVERY_MS)
        for offset, each in sorted(states.items()):
            self._write(f"offset {offset}", " ".join(each))

    def topic_and_configs(self, topic: str) -> None:
        """Record a topic's number of partitions and its own configs."""
        [described] = self._call(DescribeConfigsRequest([DescribeConfigsResource(2, topic)]), 4).results
        own = {one.name: one.value for one in described.configs if one.config_source == 1}
        self._write(f"topic {topic}", [len(self._partitions(topic)), own])

    def _states(self, topic_id: bytes) -> dict[int, list[str]]:
        states: dict[int, list[str]] = {}
        for record in self._records(_STATES, 0):
            decoded = decode(record.key or b"", record.value, SHARE_RECORDS)
            if decoded is None or decoded.key.topic_id != topic_id or not isinstance(decoded.value, ShareUpdateValue):
                continue
            for run in runs_of(decoded.value):
                for offset in range(run.first, run.last + 1):
                    states.setdefault(offset, []).append(f"{RecordState(run.state).name} x{run.deliveries}")
        return states

    def _letter(self, record: BatchRecord) -> list[str | None]:
        shown = [record.key, None if record.value is None else record.value[:20]]
        told = [None if one is None else bytes(one).decode() for one in shown]
        time = "of now" if record.timestamp > CLOCK_FROM else "of the record"
        return [*told, *(f"{name}={bytes(value or b'').decode()}" for name, value in record.headers), time]

    def _partitions(self, topic: str) -> list[Any]:
        answer = self._call(MetadataRequest([MetadataRequestTopic(name=topic)], False), 12)
        return list(answer.topics[0].partitions)

    def _records(self, topic: str, partition: int) -> Iterator[BatchRecord]:
        offset = 0
        while True:
            wanted = FetchTopic(topic, partitions=[FetchPartition(partition, fetch_offset=offset)])
            wanted.partitions[0].partition_max_bytes = 10_000_000
            request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=10_000_000, topics=[wanted])
            records = bytes(self._call(request, 12).responses[0].partitions[0].records or b"")
            if not records:
                return
            for header, batch in iter_batches(records):
                offset = header.last_offset + 1
                yield from iter_records(batch, header)

    def _write(self, what: str, answer: Any) -> None:
        self.stage.note(self.name, str(self.stage.plain(what)), answer)


def group_with_letters(
    s: Stage, partitions: int = 1, letters: int | None = 1, configs: Mapping[str, str] = NO_CONFIGS
) -> tuple[str, str, LetterMember]:
    """Return a topic, the name of a dead-letter topic, and a member of a group that reads the topic from its start.

    letters: the partitions of the dead-letter topic; None for a topic that does not exist.
    """
    topic, dead, one = s.topic("t", partitions), f"dlq.{s.world.name}", LetterMember(s, "one")
    if letters is not None:
        one.create(dead, letters, **{ENABLE: "true"})
    one.configure(
        **{"share_auto_offset_reset": "earliest", "share_record_lock_duration_ms": "30000", NAME: dead, **configs}
    )
    one.enter(topic)
    return topic, dead, one
