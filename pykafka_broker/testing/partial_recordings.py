"""Recordings of brokers that were there before, completed so that a fresh broker can play them.

Rule: a capture or a proxy tells nothing of what was there before. So topics are made as metadata told them, and what
clients read is written before they read it. Partitions begin at 0 on a fresh broker: offsets are counted from the first
one that a client named. Of an offset that nobody has read there is an empty record, up to a bound. What only such a
broker can know (epochs of leaders, ends of partitions, replicas) is not compared. Where clients asked several brokers
each event gets its broker, and leaders move as clients were told.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import repeat
from typing import Any, NamedTuple

from pykafka_broker.control.traffic.exchange import is_of_a_broker
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import PartitionKey, TopicPartition
from pykafka_broker.protocol.runtime import ZERO_UUID, Fields, Message, leaves, uuid_text
from pykafka_broker.records.builder import BatchBuilder
from pykafka_broker.records.conversion import iter_messages
from pykafka_broker.records.errors import CorruptBatch, UnsupportedCompression
from pykafka_broker.records.header import BatchHeader, iter_batches, read_header
from pykafka_broker.records.record import BatchRecord, iter_records
from pykafka_broker.testing.cluster_recording import MOVE_LEADER, served
from pykafka_broker.testing.compared_answers import is_message_set
from pykafka_broker.testing.control_client import in_path
from pykafka_broker.testing.recorded_coordinators import (
    OF_COORDINATORS,
    Coordinated,
    asked_coordinators,
    told_coordinators,
)
from pykafka_broker.testing.recorded_messages import RecordedMessages
from pykafka_broker.testing.recording import Placement, Recorded, Recording, in_base64

_MOST_EMPTY = 10_000  # records of a partition that nobody has read
_MOST_EPOCHS = 20  # of a leader that clients were not told of
_OFFSETS = frozenset(
    {
        *("base_offset", "log_start_offset", "fetch_offset", "high_watermark", "last_stable_offset", "first_offset"),
        *("last_offset", "offset", "committed_offset", "end_offset", "low_watermark"),
    }
)
_NAMED_BY_CLIENTS = frozenset({"fetch_offset", "committed_offset", "base_offset"})
_EPOCHS = ("current_leader_epoch", "last_fetched_epoch", "committed_leader_epoch")  # a fresh broker has others
_WITH_OFFSETS = frozenset(
    {
        *(ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH),
        *(ApiKey.TXN_OFFSET_COMMIT, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.DELETE_RECORDS, ApiKey.SHARE_FETCH),
        ApiKey.SHARE_ACKNOWLEDGE,
    }
)
_WAITING = frozenset({ApiKey.FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
_NEWS = frozenset({ApiKey.METADATA, ApiKey.FIND_COORDINATOR})  # of leaders and coordinators
_LOGINS = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
_UNREADABLE = (CorruptBatch, UnsupportedCompression)
_PARTITIONS = ("partition_index", "partition", "index")
Address = tuple[str, int]
Visit = Callable[[Any, str, PartitionKey], None]  # a struct, its field with an offset or records, its partition


def completed(recording: Recording) -> Recording:
    """Return a recording of which a fresh broker can play all events."""
    recording = by_node(recording)
    messages = [RecordedMessages(each) for each in recording.events if not _is_of(each, _LOGINS)]
    found = _Found()
    for each in messages:
        found.note(each)
    played = _Played(found, forgets_epochs=not recording.nodes)
    state = found.state()
    return recording._replace(state=state, events=[told for each in messages for told in played.event(each)])


def by_node(recording: Recording) -> Recording:
    """Return a recording whose events have the broker that clients asked, where they asked several."""
    if recording.nodes or len({*recording.servers.values()}) < 2:
        return recording
    inner = {each.connection for each in recording.events if is_of_a_broker(each.request)}
    events = [each for each in recording.events if each.connection not in inner]
    told = _KnownCluster(recording.servers)
    for index, event in enumerate(events):
        told.note(index, event)
    nodes = {address: told.node(address) for address in {*recording.servers.values()}}
    if len({*nodes.values()} - {0}) < 2:
        return recording  # all addresses are of one broker
    moves = sorted(told.moves(events), key=lambda each: each.at)
    events = [each._replace(node=nodes.get(recording.servers.get(each.connection, ("", 0)), 0)) for each in events]
    return recording._replace(
        events=sorted([*(call for each in moves for call in each.calls()), *told.in_effect(events, moves)], key=_at),
        nodes=dict.fromkeys(sorted(told.addresses), 0),
        placements=told.placements,
    )


def _at(event: Recorded) -> int:
    return event.at


class _NewLeader(NamedTuple):
    """A leader or coordinator that clients were told with an event, as many epochs later than the one before."""

    event: int
    node: int
    epochs: int = 1
    leader_epoch: int = -1


class _Move(NamedTuple):
    """A move of a leader or coordinator, before all events of its time."""

    at: int
    of: TopicPartition | Coordinated
    to: _NewLeader

    def calls(self) -> Iterator[Recorded]:
        if isinstance(self.of, Coordinated):
            yield self.of.moved(self.at, self.to.node)
            return
        body = json.dumps({"topic": self.of.topic, "partition": self.of.partition, "leader": self.to.node})
        yield from repeat(Recorded(self.at, self.at, 0, b"", None, ("POST", MOVE_LEADER, body)), self.to.epochs)


class _KnownCluster:
    """The brokers of a cluster, as clients were told of them."""

    def __init__(self, servers: Mapping[int, Address]) -> None:
        self._servers = servers
        self.addresses: dict[int, set[Address]] = {}  # by node
        self.placements: dict[str, list[Placement]] = {}
        self._names: dict[str, str] = {}  # of topics, by id
        self._leaders: dict[TopicPartition, Placement] = {}
        self._leading: Counter[tuple[Address, int]] = Counter()  # how often an address has led what a node leads
        self._coordinators: dict[Coordinated, int] = {}
        self._later: dict[TopicPartition | Coordinated, list[_NewLeader]] = {}  # all leaders after the first one
        # Events in which the old leader or coordinator refused a request, and those in which it had not changed yet.
        self._refused: dict[TopicPartition | Coordinated, list[int]] = {}
        self._served: dict[TopicPartition | Coordinated, list[int]] = {}

    def note(self, index: int, event: Recorded) -> None:
        """Take up what an event tells."""
        message = RecordedMessages(event)
        if message.api_key == ApiKey.METADATA and message.response is not None:
            for broker in message.response.brokers:
                self.addresses.setdefault(broker.node_id, set()).add((broker.host, broker.port))
            for topic in message.response.topics:
                if topic.name and not topic.error_code and not topic.is_internal:
                    self._names[uuid_text(topic.topic_id)] = topic.name
                    self._note_topic(index, topic)
        for one, node in told_coordinators(event):
            if one.kind in OF_COORDINATORS and node >= 0:
                if self._coordinators.setdefault(one, node) != node:
                    self._later.setdefault(one, []).append(_NewLeader(index, node))
                else:
                    self._served.setdefault(one, []).append(index)
                self._coordinators[one] = node
        for one, is_theirs in asked_coordinators(event):
            (self._served if is_theirs else self._refused).setdefault(one, []).append(index)
        for partition, is_led in served(event, self._names):
            (self._served if is_led else self._refused).setdefault(partition, []).append(index)
            if is_led and partition in self._leaders and event.connection in self._servers:
                self._leading[self._servers[event.connection], self._leaders[partition].leader] += 1

    def _note_topic(self, index: int, topic: Any) -> None:
        found = sorted(topic.partitions, key=lambda each: int(each.partition_index))
        placements = [Placement(each.replica_nodes, each.leader_id, each.leader_epoch) for each in found]
        self.placements.setdefault(topic.name, placements)
        for each, told in zip(found, placements, strict=True):
            partition = TopicPartition(topic.name, each.partition_index)
            known = self._leaders.setdefault(partition, told)
            if told.leader < 0 or 0 <= told.leader_epoch <= known.leader_epoch:
                self._served.setdefault(partition, []).append(index)
                continue  # no change, or a broker that has not heard of it
            if told != known:
                epochs = max(1, min(told.leader_epoch - known.leader_epoch, _MOST_EPOCHS))
                self._later.setdefault(partition, []).append(_NewLeader(index, told.leader, epochs, told.leader_epoch))
            self._leaders[partition] = told

    def node(self, address: Address) -> int:
        """Return the node at an address, 0 where it may be any: by what clients were told, by the partitions that it
        has led, or by its port.
        """
        told = [node for node, addresses in self.addresses.items() if address in addresses]
        led = Counter({node: times for (at, node), times in self._leading.items() if at == address})
        of_port = [node for node, each in self.addresses.items() if address[1] in {port for _, port in each}]
        if told or led or len(of_port) != 1:
            return told[0] if told else led.most_common(1)[0][0] if led else 0
        return of_port[0]

    def moves(self, events: Sequence[Recorded]) -> Iterator[_Move]:
        """Yield the moves of leaders and coordinators: before the old one first refuses a request, or before clients
        are told.
        """
        for of, later in self._later.items():
            before = -1
            for new in later:
                if isinstance(of, TopicPartition) or new.node in self.addresses:
                    yield _Move(self._time_of(of, before, new.event, events), of, new)
                before = new.event

    def _time_of(self, of: TopicPartition | Coordinated, before: int, told: int, events: Sequence[Recorded]) -> int:
        """Return the time of a move between two events with which clients were told. A request that waits is refused
        when the leader moves, so the leader may have served others since the request came.
        """
        refused = [events[index] for index in self._refused.get(of, ()) if before < index < told]
        if not refused:
            return events[told].at
        first = min(refused, key=lambda each: each.answered)
        if not _is_of(first, _WAITING):
            return first.at
        old = self._servers.get(first.connection)
        held = [events[index] for index in self._served.get(of, ()) if before < index < told]
        held = [each for each in held if first.at <= each.at and each.answered <= first.answered]
        known = (each.answered + 1 for each in held if self._servers.get(each.connection) == old or _is_of(each, _NEWS))
        return min(
            max([first.at, *known]), first.answered, *(each.at for each in refused if not _is_of(each, _WAITING))
        )

    def in_effect(self, events: Iterable[Recorded], moves: Sequence[_Move]) -> Iterator[Recorded]:
        """Yield the events, in which no broker tells an earlier leader after a move: the brokers that play them may
        have other epochs, so they can't tell which of two leaders is the earlier one.
        """
        for event in events:
            message = RecordedMessages(event)
            news = {each.of: each.to for each in moves if each.at <= event.at}
            if not news or message.api_key != ApiKey.METADATA or message.response is None:
                yield event
                continue
            for topic in message.response.topics:
                for each in topic.partitions:
                    new = news.get(TopicPartition(topic.name or "", each.partition_index))
                    if new is not None and 0 <= each.leader_epoch < new.leader_epoch:
                        each.leader_id, each.leader_epoch = new.node, new.leader_epoch
            yield message.rewritten()


def _is_of(event: Recorded, apis: Container[int]) -> bool:
    return bool(event.request) and int.from_bytes(event.request[:2], "big") in apis


class _Found:
    """The state before a recording, as far as all messages together tell it."""

    def __init__(self) -> None:
        self._names: dict[bytes, str] = {}
        self._topics: dict[str, int] = {}  # partitions, by name
        self._created: set[str] = set()
        self._committed: dict[
            tuple[str, PartitionKey], int | None
        ] = {}  # by group; None: committed within the recording
        self.first: dict[PartitionKey, int] = {}
        self.batches: dict[PartitionKey, dict[int, tuple[BatchHeader, memoryview]]] = {}
        self.produced: dict[PartitionKey, set[int]] = {}  # base offsets of what clients produce within the recording
        self.ending: set[int] = set()  # producers whose transactions end within it

    def note(self, message: RecordedMessages) -> None:
        """Take up what a message tells."""
        request, response = message.request, message.response
        if message.api_key == ApiKey.METADATA and response is not None:
            for topic in response.topics:
                if topic.name and not topic.error_code:
                    self._names[topic.topic_id] = topic.name
                    if not topic.is_internal:
                        self._topics.setdefault(topic.name, len(topic.partitions))
        elif message.api_key == ApiKey.END_TXN and request is not None:
            self.ending.add(request.producer_id)
        elif message.api_key == ApiKey.CREATE_TOPICS and response is not None:
            self._created |= {topic.name for topic in response.topics if not topic.error_code}
            self._names |= {topic.topic_id: topic.name for topic in response.topics}
        if message.api_key in _WITH_OFFSETS:
            for struct in (request, response):
                if struct is not None:
                    self.visit(struct, self._note_offset)
        if message.api_key in (ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT) and request is not None:
            self.visit(request, lambda struct, name, key: self._note_commit(request.group_id, key, None))
        elif message.api_key == ApiKey.OFFSET_FETCH and response is not None:
            for group in getattr(response, "groups", None) or [response]:
                self._note_fetched(getattr(group, "group_id", "") or getattr(request, "group_id", ""), group)

    def _note_offset(self, struct: Any, name: str, key: PartitionKey) -> None:
        if name == "records":
            with suppress(*_UNREADABLE):
                for header, batch in _batches_in(bytes(struct.records or b"")):
                    if not hasattr(struct, "high_watermark"):
                        continue  # of a producer: the broker chooses the offsets
                    self.batches.setdefault(key, {})[header.base_offset] = header, batch
                    self.first[key] = min(self.first.get(key, header.base_offset), header.base_offset)
        elif name in _NAMED_BY_CLIENTS:
            if name == "base_offset":
                self.produced.setdefault(key, set()).add(struct.base_offset)
            self.first[key] = min(self.first.get(key, getattr(struct, name)), getattr(struct, name))

    def _note_fetched(self, group_id: str, answer: Any) -> None:
        self.visit(answer, lambda struct, name, key: self._note_commit(group_id, key, struct.committed_offset))

    def _note_commit(self, group_id: str, key: PartitionKey, offset: int | None) -> None:
        self._committed.setdefault((group_id, key), offset)

    def visit(self, struct: Any, visit: Visit, topic: str = "", partition: int = -1) -> None:
        """Show each field with an offset or with records, and its partition."""
        names = struct.__match_args__
        for name in ("name", "topic", "topic_id"):
            if name in names and (value := getattr(struct, name)) and value != ZERO_UUID:
                topic = self._names.get(value, "") if isinstance(value, bytes) else value
        partition = next((getattr(struct, name) for name in _PARTITIONS if name in names), partition)
        for name in names:
            value = getattr(struct, name)
            if isinstance(value, Fields):
                self.visit(value, visit, topic, partition)
            elif isinstance(value, list):
                for each in value:
                    if isinstance(each, Fields):
                        self.visit(each, visit, topic, partition)
            elif name == "records" or (name in _OFFSETS and value >= 0):
                visit(struct, name, (topic, partition))

    def state(self) -> list[str]:
        """Return the topics and offsets that were there before, as lines for `seed`."""
        lines: list[dict[str, Any]] = [
            {"type": "topic", "name": name, "partitions": partitions}
            for name, partitions in sorted(self._topics.items())
            if name not in self._created
        ]
        for (group, (topic, partition)), offset in sorted(self._committed.items(), key=lambda each: each[0]):
            if offset is not None and topic in self._topics:
                offset -= self.first.get((topic, partition), 0)
                line = {"type": "offset", "group": group, "topic": topic, "partition": partition, "offset": offset}
                lines.append(line)
        return list(map(json.dumps, lines))


class _Played:
    """The partitions of a fresh broker, as far as the events have come. Offsets here are those of the recording."""

    def __init__(self, found: _Found, forgets_epochs: bool) -> None:
        self._found = found
        self._forgets_epochs = forgets_epochs  # where they can't be those of the recording
        self._ends = dict(found.first)
        self._wanted: dict[PartitionKey, int] = {}  # ends of what a Fetch gets that came before a Produce
        self._open: dict[int, set[PartitionKey]] = {}  # partitions of open transactions, by producer
        self._empty: dict[PartitionKey, int] = {}

    def event(self, message: RecordedMessages) -> Iterator[Recorded]:
        """Yield an event as it is played, after what must have been written before."""
        if message.api_key == ApiKey.FETCH and message.response is not None:
            ends: dict[PartitionKey, int] = {}

            def note(struct: Any, name: str, key: PartitionKey) -> None:
                if name == "records":
                    with suppress(*_UNREADABLE):
                        for header, _ in _batches_in(bytes(struct.records or b"")):
                            ends[key] = header.last_offset + 1

            self._found.visit(message.response, note)
            for key, end in ends.items():
                yield from self._write(key, end, message.event.at)
        elif message.api_key == ApiKey.PRODUCE and message.response is not None and message.request is not None:
            yield from self._produced(message)
        elif message.api_key == ApiKey.END_TXN and message.response is not None and not message.response.error_code:
            for key in self._open.pop(message.request.producer_id, ()):
                self._ends[key] += 1  # the marker
        if message.api_key in _WITH_OFFSETS:
            for struct in (message.request, message.response):
                if struct is not None:
                    self._found.visit(struct, self._count_from_0)
                    if self._forgets_epochs:
                        forget_epochs(struct)
            yield message.rewritten()
        else:
            yield message.event
        if message.api_key in (ApiKey.PRODUCE, ApiKey.END_TXN) and message.response is not None:
            for key, end in list(self._wanted.items()):
                del self._wanted[key]
                yield from self._write(key, end, message.event.answered + 1)

    def _produced(self, message: RecordedMessages) -> Iterator[Recorded]:
        bases: dict[PartitionKey, int] = {}

        def note_base(struct: Any, name: str, key: PartitionKey) -> None:
            if name == "base_offset":
                bases[key] = struct.base_offset

        headers: dict[PartitionKey, list[BatchHeader]] = {}

        def note_batches(struct: Any, name: str, key: PartitionKey) -> None:
            with suppress(*_UNREADABLE):
                headers[key] = [header for header, _ in _batches_in(bytes(struct.records or b""))]

        self._found.visit(message.response, note_base)
        self._found.visit(message.request, note_batches)
        for key, base in bases.items():
            yield from self._write(key, base, message.event.at)
            end = base + sum(header.count for header in headers.get(key, ()))
            self._ends[key] = max(self._ends.get(key, 0), end)
            for header in headers.get(key, ()):
                if header.is_transactional:
                    self._open.setdefault(header.producer_id, set()).add(key)

    def _write(self, key: PartitionKey, end: int, at: int) -> Iterator[Recorded]:
        """Yield calls that write what others had written to a partition, up to an offset, or to what is still to come
        within the recording: the client of a Fetch that waits may be the producer.
        """
        topic, partition = key
        known = self._found.batches.get(key, {})
        offset = self._ends.get(key, end)
        while topic and offset < end and self._empty.get(key, 0) <= _MOST_EMPTY:
            header, batch = known.get(offset, (None, None))
            comes = offset in self._found.produced.get(key, ())
            if comes or (header is not None and header.is_control and header.producer_id in self._found.ending):
                self._wanted[key] = max(end, self._wanted.get(key, 0))
                end = offset
                break
            records: list[dict[str, Any]] | None = None
            if header is not None and batch is not None and not header.is_control:
                with suppress(CorruptBatch):
                    records = [_as_given(each, partition) for each in iter_records(batch, header)]
                    offset = max(offset, header.last_offset) + 1
            if records is None:
                self._empty[key] = self._empty.get(key, 0) + 1
                records, offset = [{"partition": partition}], offset + 1
            body = json.dumps({"records": records})
            yield Recorded(at, at, 0, b"", None, ("POST", f"/topics/{in_path(topic)}/records", body))
        self._ends[key] = max(self._ends.get(key, 0), end)

    def _count_from_0(self, struct: Any, name: str, key: PartitionKey) -> None:
        first = self._found.first.get(key, 0)
        if name != "records":
            setattr(struct, name, max(0, getattr(struct, name) - first))
        elif hasattr(struct, "high_watermark") and struct.records:
            moved = bytearray()
            with suppress(*_UNREADABLE):  # what was fetched ends anywhere
                for header, batch in _batches_in(bytes(struct.records)):
                    moved += (header.base_offset - first).to_bytes(8, "big", signed=True) + bytes(batch[8:])
            struct.records = bytes(moved)


def _batches_in(data: bytes) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield the batches of a field; of a message set, which old clients write and read, a batch for each message."""
    if not is_message_set(data):
        yield from iter_batches(data)
        return
    for message in iter_messages(data):
        offset, message.offset = message.offset, 0
        builder = BatchBuilder()
        builder.extend([message])
        batch = builder.build()
        batch[:8] = offset.to_bytes(8, "big", signed=True)
        yield read_header(batch), memoryview(batch)


def _as_given(record: BatchRecord, partition: int) -> dict[str, Any]:
    """Return a record as the control API takes it."""
    headers = [{"name": name, "value_base64": in_base64(value)} for name, value in record.headers]
    given = {
        "key_base64": in_base64(record.key),
        "value_base64": in_base64(record.value),
        "timestamp": record.timestamp if record.timestamp >= 0 else None,
    }
    return {
        "partition": partition,
        "headers": headers,
        **{key: each for key, each in given.items() if each is not None},
    }


def forget_epochs(message: Message) -> None:
    """Let a request name no leader epochs."""
    for struct, name, _ in leaves(message):
        if name in _EPOCHS:
            setattr(struct, name, -1)
