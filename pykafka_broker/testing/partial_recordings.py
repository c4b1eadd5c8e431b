"""Recordings of brokers that were there before, completed so that a fresh broker can play them.

Rule: a capture or a proxy tells nothing of what was there before. So topics are made as metadata told them, and what
clients read is written before they read it. Partitions begin at 0 on a fresh broker: offsets are counted from the first
one that a client named. Of an offset that nobody has read there is an empty record, up to a bound. What only such a
broker can know (epochs of leaders, ends of partitions, replicas) is not compared.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.runtime import ZERO_UUID, Fields, Message, leaves
from pykafka_broker.records.errors import CorruptBatch
from pykafka_broker.records.header import BatchHeader, iter_batches
from pykafka_broker.records.record import BatchRecord, iter_records
from pykafka_broker.testing.control_client import in_path
from pykafka_broker.testing.recorded_messages import RecordedMessages
from pykafka_broker.testing.recording import Recorded, Recording

_MOST_EMPTY = 10_000  # records of a partition that nobody has read
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
_LOGINS = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
_PARTITIONS = ("partition_index", "partition", "index")
Place = tuple[str, int]
Visit = Callable[[Any, str, Place], None]  # a struct, the name of a field with an offset or with records, and where


def completed(recording: Recording) -> Recording:
    """Return a recording of which a fresh broker can play all events."""
    messages = [RecordedMessages(each) for each in recording.events if not _is_login(each)]
    found = _Found()
    for each in messages:
        found.note(each)
    played = _Played(found)
    state = found.state()
    told: list[Recorded] = []
    for each in messages:
        told += played.event(each)
    return recording._replace(state=state, events=told)


def _is_login(event: Recorded) -> bool:
    return bool(event.request) and int.from_bytes(event.request[:2], "big") in _LOGINS


class _Found:
    """The state before a recording, as far as all messages together tell it."""

    def __init__(self) -> None:
        self._names: dict[bytes, str] = {}
        self._topics: dict[str, int] = {}  # partitions, by name
        self._created: set[str] = set()
        self._committed: dict[tuple[str, Place], int | None] = {}  # by group; None: committed within the recording
        self.first: dict[Place, int] = {}
        self.batches: dict[Place, dict[int, tuple[BatchHeader, memoryview]]] = {}

    def note(self, message: RecordedMessages) -> None:
        """Take up what a message tells."""
        request, response = message.request, message.response
        if message.api_key == ApiKey.METADATA and response is not None:
            for topic in response.topics:
                if topic.name and not topic.error_code:
                    self._names[topic.topic_id] = topic.name
                    if not topic.is_internal:
                        self._topics.setdefault(topic.name, len(topic.partitions))
        elif message.api_key == ApiKey.CREATE_TOPICS and response is not None:
            self._created |= {topic.name for topic in response.topics if not topic.error_code}
            self._names |= {topic.topic_id: topic.name for topic in response.topics}
        if message.api_key in _WITH_OFFSETS:
            for struct in (request, response):
                if struct is not None:
                    self.visit(struct, self._note_offset)
        if message.api_key in (ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT) and request is not None:
            self.visit(request, lambda struct, name, place: self._note_commit(request.group_id, place, None))
        elif message.api_key == ApiKey.OFFSET_FETCH and response is not None:
            for group in getattr(response, "groups", None) or [response]:
                self._note_fetched(getattr(group, "group_id", "") or getattr(request, "group_id", ""), group)

    def _note_offset(self, struct: Any, name: str, place: Place) -> None:
        if name == "records":
            with suppress(CorruptBatch):
                for header, batch in iter_batches(bytes(struct.records or b"")):
                    if not hasattr(struct, "high_watermark"):
                        continue  # of a producer: the broker chooses the offsets
                    self.batches.setdefault(place, {})[header.base_offset] = header, batch
                    self.first[place] = min(self.first.get(place, header.base_offset), header.base_offset)
        elif name in _NAMED_BY_CLIENTS:
            self.first[place] = min(self.first.get(place, getattr(struct, name)), getattr(struct, name))

    def _note_fetched(self, group_id: str, answer: Any) -> None:
        self.visit(answer, lambda struct, name, place: self._note_commit(group_id, place, struct.committed_offset))

    def _note_commit(self, group_id: str, place: Place, offset: int | None) -> None:
        self._committed.setdefault((group_id, place), offset)

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

    def __init__(self, found: _Found) -> None:
        self._found = found
        self._ends = dict(found.first)
        self._open: dict[int, set[Place]] = {}  # partitions of open transactions, by producer
        self._empty: dict[Place, int] = {}

    def event(self, message: RecordedMessages) -> Iterator[Recorded]:
        """Yield an event as it is played, after what must have been written before."""
        if message.api_key == ApiKey.FETCH and message.response is not None:
            ends: dict[Place, int] = {}

            def note(struct: Any, name: str, place: Place) -> None:
                if name == "records":
                    with suppress(CorruptBatch):
                        for header, _ in iter_batches(bytes(struct.records or b"")):
                            ends[place] = header.last_offset + 1

            self._found.visit(message.response, note)
            for place, end in ends.items():
                yield from self._write(place, end, message.event.at)
        elif message.api_key == ApiKey.PRODUCE and message.response is not None and message.request is not None:
            yield from self._produced(message)
        elif message.api_key == ApiKey.END_TXN and message.response is not None and not message.response.error_code:
            for place in self._open.pop(message.request.producer_id, ()):
                self._ends[place] += 1  # the marker
        if message.api_key in _WITH_OFFSETS:
            for struct in (message.request, message.response):
                if struct is not None:
                    self._found.visit(struct, self._count_from_0)
                    _forget_epochs(struct)
            yield message.rewritten()
        else:
            yield message.event

    def _produced(self, message: RecordedMessages) -> Iterator[Recorded]:
        bases: dict[Place, int] = {}

        def note_base(struct: Any, name: str, place: Place) -> None:
            if name == "base_offset":
                bases[place] = struct.base_offset

        headers: dict[Place, list[BatchHeader]] = {}

        def note_batches(struct: Any, name: str, place: Place) -> None:
            with suppress(CorruptBatch):
                headers[place] = [header for header, _ in iter_batches(bytes(struct.records or b""))]

        self._found.visit(message.response, note_base)
        self._found.visit(message.request, note_batches)
        for place, base in bases.items():
            yield from self._write(place, base, message.event.at)
            end = base + sum(header.count for header in headers.get(place, ()))
            self._ends[place] = max(self._ends.get(place, 0), end)
            for header in headers.get(place, ()):
                if header.is_transactional:
                    self._open.setdefault(header.producer_id, set()).add(place)

    def _write(self, place: Place, end: int, at: int) -> Iterator[Recorded]:
        """Yield calls that write what others had written to a partition, up to an offset."""
        topic, partition = place
        known = self._found.batches.get(place, {})
        offset = self._ends.get(place, end)
        while topic and offset < end:
            if offset in known and not known[offset][0].is_control:
                header, batch = known[offset]
                records = [_as_given(each, partition) for each in iter_records(batch, header)]
                offset = header.last_offset + 1
            else:
                self._empty[place] = self._empty.get(place, 0) + 1
                if self._empty[place] > _MOST_EMPTY:
                    break
                records, offset = [{"partition": partition}], offset + 1
            body = json.dumps({"records": records})
            yield Recorded(at, at, 0, b"", None, ("POST", f"/topics/{in_path(topic)}/records", body))
        self._ends[place] = max(self._ends.get(place, 0), end)

    def _count_from_0(self, struct: Any, name: str, place: Place) -> None:
        first = self._found.first.get(place, 0)
        if name != "records":
            setattr(struct, name, max(0, getattr(struct, name) - first))
        elif hasattr(struct, "high_watermark") and struct.records:
            data = bytes(struct.records)
            with suppress(CorruptBatch):
                moved = [
                    (header.base_offset - first).to_bytes(8, "big") + bytes(batch[8:])
                    for header, batch in iter_batches(data)
                ]
                struct.records = b"".join(moved)


def _as_given(record: BatchRecord, partition: int) -> dict[str, Any]:
    """Return a record as the control API takes it."""
    headers = [{"name": name, "value_base64": _base64(value)} for name, value in record.headers]
    given = {"key_base64": _base64(record.key), "value_base64": _base64(record.value), "timestamp": record.timestamp}
    return {
        "partition": partition,
        "headers": headers,
        **{key: each for key, each in given.items() if each is not None},
    }


def _base64(value: bytes | None) -> str | None:
    return None if value is None else b64encode(value).decode()


def _forget_epochs(message: Message) -> None:
    for struct, name, _ in leaves(message):
        if name in _EPOCHS:
            setattr(struct, name, -1)
