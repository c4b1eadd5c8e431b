"""Facts between clients and brokers, read from the entries of a history.

Rule: a fact is what a client asked and what it was told, of one partition, group or transaction. A fact is a row of
JSON in an answer, so that the facts of several brokers can be put together. `answered` is False where the client got
no answer, and `error` is the name of Kafka's error, empty for none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

from pykafka_broker.control.history.entries import HistoryEntry
from pykafka_broker.control.traffic.exchange import error_name, first_header
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import PartitionKey
from pykafka_broker.protocol.messages.delete_groups_request import DeleteGroupsRequest
from pykafka_broker.records.header import MAGIC_OFFSET

NO_OFFSET = -1
NO_PRODUCER = -1
TopicName = Callable[[bytes], str | None]


@dataclass(kw_only=True)
class Fact:
    """When (ms since 1970, by the broker's clock), in which order, and which client: client id, and host with port.

    The order counts the entries of one broker. `at` is the arrival of the request, `until` the time of the answer.
    """

    kind: ClassVar[str]
    at: int
    order: int
    client: str
    address: str
    answered: bool = True
    error: str = ""
    until: int = -1

    @property
    def done(self) -> bool:
        """Return whether the client was told that it is done."""
        return self.answered and not self.error

    @property
    def who(self) -> str:
        return f"{self.client or 'a client without a name'} ({self.address})"


@dataclass(kw_only=True)
class Produced(Fact):
    """A batch was sent. `offset` and `count` are -1 and 0 where they are not known."""

    kind = "produced"
    topic: str
    partition: int
    offset: int = NO_OFFSET
    count: int = 0
    crc: int = 0
    attributes: int = 0
    producer_id: int = NO_PRODUCER
    epoch: int = -1
    sequence: int = -1
    transactional_id: str | None = None
    acks: int = -1


@dataclass(kw_only=True)
class Fetched(Fact):
    """Records were sent to a consumer: `size` bytes of whole batches from the batch at `base` on.

    position: the offset that was asked for; -1 where the session knows it. aborted: producer ids with the offset from
    which on records are aborted, as the consumer was told.
    """

    kind = "fetched"
    topic: str
    partition: int
    position: int
    base: int
    size: int
    committed_only: bool
    high_watermark: int
    last_stable_offset: int
    aborted: list[list[int]] = field(default_factory=list)


@dataclass(kw_only=True)
class OffsetCommitted(Fact):
    """A group's offset was committed; with a producer id in a transaction. `member` is empty without membership."""

    kind = "committed"
    group: str
    member: str
    generation: int
    topic: str
    partition: int
    offset: int
    producer_id: int = NO_PRODUCER
    epoch: int = -1


@dataclass(kw_only=True)
class Joined(Fact):
    """A client is a member of a group."""

    kind = "joined"
    group: str
    member: str


@dataclass(kw_only=True)
class Located(Fact):
    """A client was told an offset of a partition by time, or its first or last one."""

    kind = "located"
    topic: str
    partition: int
    offset: int


@dataclass(kw_only=True)
class Registered(Fact):
    """A producer got its id and epoch."""

    kind = "registered"
    transactional_id: str | None
    producer_id: int
    epoch: int


@dataclass(kw_only=True)
class Ended(Fact):
    """A transaction was asked to end."""

    kind = "ended"
    transactional_id: str
    producer_id: int
    epoch: int
    commit: bool


@dataclass(kw_only=True)
class RecordsAcquired(Fact):
    """Records from offset `first` to `last` were delivered to a member of a share group."""

    kind = "acquired"
    group: str
    member: str
    topic: str
    partition: int
    first: int
    last: int
    deliveries: int


@dataclass(kw_only=True)
class RecordsAcknowledged(Fact):
    """A member of a share group acknowledged records. types: Kafka's, one for each offset or a single one for all."""

    kind = "acknowledged"
    group: str
    member: str
    topic: str
    partition: int
    first: int
    last: int
    types: list[int]

    def type_of(self, offset: int) -> int:
        """Return the type of an offset's acknowledgement."""
        return self.types[0] if len(self.types) == 1 else self.types[offset - self.first]


@dataclass(kw_only=True)
class GroupReset(Fact):
    """A group or offsets of it were deleted, or a share group's offsets were set: it begins anew."""

    kind = "group reset"
    group: str


@dataclass(kw_only=True)
class Deleted(Fact):
    """A topic was asked to be deleted. `topic` is empty where only its id is known."""

    kind = "deleted"
    topic: str


KINDS: dict[str, type[Fact]] = {each.kind: each for each in Fact.__subclasses__()}


def fact_of(row: dict[str, Any]) -> Fact:
    """Return a fact from the row that `row_of` made."""
    values = dict(row)
    return KINDS[values.pop("kind")](**values)


def row_of(fact: Fact) -> dict[str, Any]:
    """Return a fact as a value for JSON."""
    return {"kind": fact.kind, **vars(fact)}


def facts_of(entry: HistoryEntry, topic_name: TopicName) -> Iterator[Fact]:
    """Yield the facts of an entry; none where it does not decode. topic_name: the name of a topic's id."""
    exchange = entry.exchange
    request = exchange.request
    if request is None:
        return
    common = {
        "at": exchange.wall_ms,
        "order": entry.number,
        "client": exchange.client_id or "",
        "address": entry.client,
        "answered": exchange.answer is not None,
        "until": entry.until,
    }
    yield from _READERS[ApiKey(exchange.api_key)](request, exchange.response, common, topic_name)


_Common = dict[str, Any]


def _error(answer: Any, field: str = "error_code") -> str:
    """Return the name of the error in a response or in a part of one; an empty text where there is none."""
    code = 0 if answer is None else getattr(answer, field)
    return error_name(code) if code else ""


def _name(topic: Any, topic_name: TopicName) -> str:
    name = getattr(topic, "name", "") or getattr(topic, "topic", "")
    return name or topic_name(getattr(topic, "topic_id", b"")) or ""


def _parts(
    message: Any, topics: str, topic_name: TopicName, partitions: str = "partitions", index: str = "partition_index"
) -> Iterator[tuple[PartitionKey, Any]]:
    """Yield the parts of a request or a response that concern a partition, with the partition; none without a message.

    Args:
        topics, partitions, index: the names of the fields.
    """
    for topic in () if message is None else getattr(message, topics):
        name = _name(topic, topic_name)
        for part in getattr(topic, partitions):
            yield (name, getattr(part, index)), part


def _produced(request: Any, response: Any, common: _Common, topic_name: TopicName) -> Iterator[Fact]:
    told = dict(_parts(response, "responses", topic_name, "partition_responses", "index"))
    for (name, index), each in _parts(request, "topic_data", topic_name, "partition_data", "index"):
        answer = told.get((name, index))
        fact = Produced(topic=name, partition=index, acks=request.acks, **common)
        fact.transactional_id = request.transactional_id
        if answer is not None:
            fact.error, fact.offset = _error(answer), answer.base_offset
        header = first_header(each.records)
        if header is not None:
            fact.count, fact.crc, fact.attributes = header.count, header.crc, header.attributes
            fact.producer_id, fact.epoch = header.producer_id, header.producer_epoch
            fact.sequence = header.base_sequence
        yield fact


def _fetched(request: Any, response: Any, common: _Common, topic_name: TopicName) -> Iterator[Fact]:
    if response is None or request.replica_id >= 0 or request.replica_state.replica_id >= 0:
        return  # followers are no consumers
    asked = dict(_parts(request, "topics", topic_name, index="partition"))
    for (name, index), each in _parts(response, "responses", topic_name):
        if len(each.records or b"") <= MAGIC_OFFSET:  # nothing, or a part of a message
            continue
        wanted = asked.get((name, index))
        position = base = NO_OFFSET if wanted is None else wanted.fetch_offset
        if each.records[MAGIC_OFFSET] >= 2:  # compressed messages of older formats have the last offset in front
            base = int.from_bytes(bytes(each.records[:8]), "big", signed=True)
        yield Fetched(
            topic=name,
            partition=index,
            position=position,
            base=base,
            size=len(each.records),
            committed_only=request.isolation_level == 1,
            high_watermark=each.high_watermark,
            last_stable_offset=each.last_stable_offset,
            aborted=[[aborted.producer_id, aborted.first_offset] for aborted in each.aborted_transactions or ()],
            **common,
        )


def _committed(request: Any, response: Any, common: _Common, topic_name: TopicName) -> Iterator[Fact]:
    told = dict(_parts(response, "topics", topic_name))
    for (name, index), each in _parts(request, "topics", topic_name):
        yield OffsetCommitted(
            group=request.group_id,
            member=request.member_id,
            generation=request.generation_id_or_member_epoch,
            topic=name,
            partition=index,
            offset=each.committed_offset,
            producer_id=getattr(request, "producer_id", NO_PRODUCER),
            epoch=getattr(request, "producer_epoch", -1),
            **common | {"error": _error(told.get((name, index)))},
        )


def _joined(request: Any, response: Any, common: _Common, topic_name: TopicName) -> Iterator[Fact]:
    if response is not None and not response.error_code:
        yield Joined(group=request.group_id, member=response.member_id or request.member_id, **common)


def _located(request: Any, response: Any, common: _Common, topic_name: TopicName) -> Iterator[Fact]:
    for (name, index), each in _parts(response, "topics", topic_name):
        offset = each.offset if each.offset >= 0 else next(iter(each.old_style_offsets), NO_OFFSET)
        if not each.error_code and offset >= 0:
            yield Located(topic=name, partition=index, offset=offset, **common)


def _registered(request: Any, response: Any, common: _Common, topic_name: TopicName) -> Iterator[Fact]:
    if response is not None and not response.error_code:
        producer = {"producer_id": response.producer_id, "epoch": response.producer_epoch}
        yield Registered(transactional_id=request.transactional_id, **producer, **common)


def _ended(request: Any, response: Any, common: _Common, topic_name: TopicName) -> Iterator[Fact]:
    yield Ended(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        epoch=request.producer_epoch,
        commit=request.committed,
        **common | {"error": _error(response)},
    )


def _acknowledged(request: Any, response: Any, common: _Common, topic_name: TopicName, field: str) -> Iterator[Fact]:
    told = dict(_parts(response, "responses", topic_name))
    for (name, index), each in _parts(request, "topics", topic_name):
        answer = told.get((name, index))
        error = _error(response) or _error(answer, field)
        for batch in each.acknowledgement_batches:
            yield RecordsAcknowledged(
                group=request.group_id or "",
                member=request.member_id or "",
                topic=name,
                partition=index,
                first=batch.first_offset,
                last=batch.last_offset,
                types=list(batch.acknowledge_types),
                **common | {"error": error, "answered": bool(error) or answer is not None},
            )


def _share_fetched(request: Any, response: Any, common: _Common, topic_name: TopicName) -> Iterator[Fact]:
    yield from _acknowledged(request, response, common, topic_name, "acknowledge_error_code")
    for (name, index), each in _parts(response, "responses", topic_name):
        for acquired in each.acquired_records:
            yield RecordsAcquired(
                group=request.group_id or "",
                member=request.member_id or "",
                topic=name,
                partition=index,
                first=acquired.first_offset,
                last=acquired.last_offset,
                deliveries=acquired.delivery_count,
                **common,
            )


def _group_reset(request: Any, response: Any, common: _Common, topic_name: TopicName) -> Iterator[Fact]:
    """Yield a reset even where an error was told: another topic's offsets may have been set."""
    for group in request.groups_names if isinstance(request, DeleteGroupsRequest) else [request.group_id]:
        yield GroupReset(group=group, **common)


def _deleted(request: Any, response: Any, common: _Common, topic_name: TopicName) -> Iterator[Fact]:
    if response is not None:
        for each in response.responses:
            yield Deleted(topic=each.name or "", **common | {"error": _error(each)})
        return
    for name in (*request.topic_names, *(_name(each, topic_name) for each in request.topics)):
        yield Deleted(topic=name, **common)


_READERS: dict[ApiKey, Callable[[Any, Any, _Common, TopicName], Iterator[Fact]]] = {
    ApiKey.PRODUCE: _produced,
    ApiKey.FETCH: _fetched,
    ApiKey.LIST_OFFSETS: _located,
    ApiKey.OFFSET_COMMIT: _committed,
    ApiKey.TXN_OFFSET_COMMIT: _committed,
    ApiKey.JOIN_GROUP: _joined,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _joined,
    ApiKey.INIT_PRODUCER_ID: _registered,
    ApiKey.END_TXN: _ended,
    ApiKey.SHARE_FETCH: _share_fetched,
    ApiKey.SHARE_ACKNOWLEDGE: partial(_acknowledged, field="error_code"),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _group_reset,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _group_reset,
    ApiKey.DELETE_GROUPS: _group_reset,
    ApiKey.OFFSET_DELETE: _group_reset,
    ApiKey.DELETE_TOPICS: _deleted,
}
