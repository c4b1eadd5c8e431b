"""Records: written and read without a client."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Annotated, Any

from pykafka_broker.client.partitioner import partition_of
from pykafka_broker.control.api.topics import raise_if, topic_image
from pykafka_broker.control.control import Control
from pykafka_broker.control.problems import Problem
from pykafka_broker.control.reading import FoundRecord, IsolationLevel, Outcome, check_led_here, end_of, records_from
from pykafka_broker.control.schema import Index, Offset, ValueLimits, meant, text_or_base64
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.records.builder import BatchBuilder
from pykafka_broker.records.record import BatchRecord as StoredRecord
from pykafka_broker.records.record import header_name

MOST_AT_ONCE = 5_000
_MOST_BYTES_AT_ONCE = 64 << 20  # of keys and values, looked at in one call
_TIMEOUT_MS = 30_000
_ALL = -1
_MADE_MEANWHILE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)


@dataclass
class Header:
    """A header of a record; a name may occur several times."""

    name: str
    value: str | None = None
    value_base64: str | None = None


@dataclass
class NewRecordInput:
    """A record to be written. Text is written as UTF-8, other JSON as JSON, base64 as the bytes. Without a partition a
    key chooses one, as with Kafka's producers, and records without a key take turns.
    """

    value: Any = None
    key: Any = None
    headers: list[Header] = field(default_factory=list)
    timestamp: Annotated[int, ValueLimits(minimum=0, maximum=2**63 - 1, says="epoch milliseconds")] | None = None
    partition: Index | None = None
    value_base64: str | None = None
    key_base64: str | None = None


@dataclass
class NewProducer:
    """The id and epoch of a new idempotent producer."""

    producer_id: int
    producer_epoch: int


@dataclass
class ProducerInput:
    """An idempotent producer. `sequences` has the sequence of the first record of each partition, by the partition; 0
    for a partition that is left out.
    """

    producer_id: Offset
    producer_epoch: Annotated[int, ValueLimits(minimum=0, maximum=2**15 - 1)]
    sequences: dict[str, Index] = field(default_factory=dict)


@dataclass
class Written:
    """The position of a written record."""

    partition: int
    offset: int


@dataclass
class RecordAnswer:
    """A record. Bytes other than UTF-8 are in base64 under names with `_base64`. `transaction` is the
    outcome of the record's transaction, null without one.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: str
    key: str | None
    value: str | None
    headers: list[Header]
    key_base64: str | None = None
    value_base64: str | None = None
    transaction: Outcome | None = None


@dataclass
class Records:
    """A page of records, and the start of the next page in each partition; `more` says whether a next page exists."""

    records: list[RecordAnswer]
    next_offsets: dict[str, int]
    more: bool


async def new_producer(control: Control) -> NewProducer:
    """Return the id of a new idempotent producer, for repeatable calls of `produce`."""
    answer = await control.inside.ask(InitProducerIdRequest(transactional_id=None))
    raise_if(answer.error_code)
    return NewProducer(answer.producer_id, answer.producer_epoch)


async def produce(
    control: Control,
    topic: str,
    records: Annotated[list[NewRecordInput], ValueLimits(max_length=MOST_AT_ONCE)],
    producer: ProducerInput | None = None,
) -> list[Written]:
    """Write records. The answer comes once all are committed, with partition and offset of each in order. A call
    without an answer may be repeated with the same producer, sequences and partitions, at another leader too: the
    records are stored once.
    """
    partitions = await _partitions(control, topic)
    by_partition: dict[int, list[tuple[int, StoredRecord]]] = {}
    now = control.services.clock.wall
    for number, record in enumerate(records):
        found = stored(record, now)
        index = _partition_for(control, record, found, partitions, topic)
        by_partition.setdefault(index, []).append((number, found))
    written: dict[int, Written] = {}
    for index, those in by_partition.items():
        base = await _append(control, topic, index, [each for _, each in those], producer)
        written |= {number: Written(index, base + place) for place, (number, _) in enumerate(those)}
    return [written[number] for number in range(len(records))]


async def _partitions(control: Control, topic: str) -> int:
    """Return how many partitions the topic has; a missing topic is created if auto-creation is on."""
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=True)
    found = (await control.inside.ask(asked)).topics[0]
    if found.error_code in _MADE_MEANWHILE:  # Kafka's first answer does not have the new topic yet
        found = (await control.inside.ask(asked)).topics[0]
    raise_if(found.error_code)
    return len(found.partitions)


def stored(record: NewRecordInput, now: int) -> StoredRecord:
    """Return a record as it is stored, with `now` where it has no time. Raises `Problem` 400."""
    key = meant(record.key, record.key_base64, "key")
    value = meant(record.value, record.value_base64, "value")
    headers = [(each.name, meant(each.value, each.value_base64, "value")) for each in record.headers]
    return StoredRecord(0, now if record.timestamp is None else record.timestamp, key, value, headers)


def _partition_for(control: Control, record: NewRecordInput, stored: StoredRecord, partitions: int, topic: str) -> int:
    if record.partition is not None:
        if record.partition >= partitions:
            raise Problem(404, f"topic {topic} has partitions 0 to {partitions - 1}, not {record.partition}")
        return record.partition
    if stored.key is not None:
        return partition_of(stored.key, partitions)
    turn = control.turn_of_topic[topic] = (control.turn_of_topic.get(topic, -1) + 1) % partitions
    return turn


async def _append(
    control: Control, topic: str, partition: int, records: list[StoredRecord], producer: ProducerInput | None
) -> int:
    """Return the offset of the first record."""
    topic_id = topic_image(control, topic, partition).id  # the topic may have been deleted meanwhile
    check_led_here(control, topic, partition)
    builder = BatchBuilder()
    if producer is not None:
        builder.producer_id, builder.producer_epoch = producer.producer_id, producer.producer_epoch
        builder.base_sequence = producer.sequences.get(str(partition), 0)
    for offset, record in zip(count(), records, strict=False):
        record.offset = offset
    builder.extend(records)
    data = [PartitionProduceData(partition, bytes(builder.build()))]
    request = ProduceRequest(None, _ALL, _TIMEOUT_MS, [TopicProduceData(topic, topic_id, data)])
    answer = (await control.inside.ask(request)).responses[0].partition_responses[0]
    message = answer.error_message
    if answer.record_errors:
        first = answer.record_errors[0]
        message = f"record {first.batch_index}: {first.batch_index_error_message or message}"
    elif answer.error_code == ErrorCode.REQUEST_TIMED_OUT:
        isr = list(topic_image(control, topic, partition).partitions[partition].isr)
        message = (
            f"within {_TIMEOUT_MS} ms not all replicas in sync, {isr}, have fetched the records of {topic}-{partition}"
        )
    raise_if(answer.error_code, message)
    return int(answer.base_offset)


def records(
    control: Control,
    topic: str,
    partition: Index | None = None,
    from_offset: Offset = 0,
    isolation_level: IsolationLevel = "read_committed",
    limit: Annotated[int, ValueLimits(minimum=1, maximum=MOST_AT_ONCE)] = 1_000,
    key: str | None = None,
    key_base64: str | None = None,
) -> Records:
    """Read records, of a partition or of all, each from an offset on; with a key, only records with that key. No
    group and no offset is touched. Records come partition by partition. Records of open or aborted transactions are
    read with read_uncommitted, and say so in `transaction`. A page with much content has fewer records than `limit`.
    """
    indexes = _indexes(control, topic, partition)
    wanted = meant(key, key_base64, "key")
    page: list[RecordAnswer] = []
    next_offsets: dict[str, int] = {}
    more, left, left_bytes = False, MOST_AT_ONCE, _MOST_BYTES_AT_ONCE  # records read in one call
    for index in indexes:
        check_led_here(control, topic, index)
        source = control.services.replicas.leader(topic, index)
        following = max(end_of(source, isolation_level), from_offset)
        for found in records_from(source, from_offset, isolation_level):
            if len(page) == limit or left == 0 or left_bytes <= 0:
                more, following = True, found.record.offset
                break
            left -= 1
            left_bytes -= len(found.record.key or b"") + len(found.record.value or b"")
            if wanted is None or found.record.key == wanted:
                page.append(shown(topic, index, found))
        next_offsets[str(index)] = following
    return Records(page, next_offsets, more)


def _indexes(control: Control, topic: str, partition: int | None) -> list[int]:
    """Return the partition, or all of the topic. Raises `Problem` 404."""
    image = topic_image(control, topic, partition)
    return sorted(image.partitions) if partition is None else [partition]


async def delete_records(
    control: Control, topic: str, before_offset: Offset | None = None, partition: Index | None = None
) -> dict[str, int]:
    """Delete the records before an offset, of a partition or of all; all records where no offset is named. Returns
    the first offset left in each partition.
    """
    asked = [
        DeleteRecordsPartition(index, _ALL if before_offset is None else before_offset)
        for index in _indexes(control, topic, partition)
    ]
    request = DeleteRecordsRequest([DeleteRecordsTopic(topic, asked)], _TIMEOUT_MS)
    answer = (await control.inside.ask(request)).topics[0].partitions
    before = "" if before_offset is None else f": offset {before_offset}"
    for each in answer:
        raise_if(each.error_code, f"{topic}-{each.partition_index}{before}")
    return {str(each.partition_index): each.low_watermark for each in answer}


def shown(topic: str, partition: int, found: FoundRecord) -> RecordAnswer:
    """Return a record as an answer."""
    record, header = found.record, found.header
    (key, key_base64), (value, value_base64) = text_or_base64(record.key), text_or_base64(record.value)
    return RecordAnswer(
        topic,
        partition,
        record.offset,
        header.max_timestamp if header.log_append_time else record.timestamp,
        "LogAppendTime" if header.log_append_time else "CreateTime",
        key,
        value,
        [Header(header_name(name), *text_or_base64(data)) for name, data in record.headers],
        key_base64,
        value_base64,
        found.transaction,
    )
