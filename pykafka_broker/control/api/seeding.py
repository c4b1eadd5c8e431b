"""Topics, records and offsets of groups as lines of JSON, out and in.

A line is an object with a `type`:

    {"type": "topic", "name": "orders", "partitions": 2, "config": {"cleanup.policy": "compact"}}
    {"type": "record", "topic": "orders", "partition": 0, "timestamp": 1700000000000, "key": "a", "value": "b"}
    {"type": "offset", "group": "billing", "topic": "orders", "partition": 0, "offset": 1, "metadata": ""}

    {"type": "unreadable", "topic": "orders", "partition": 0, "offset": 7, "why": "..."}

The last one stands for the rest of a batch that no consumer can read; `seed` passes it over, as nobody could write it.

In the state of a recording a record has the number of its batch, too: neighbours with the same number are written as
one batch, so that a client that begins to read within the topic finds the same batches.

Rule: the records are the records for a consumer with read_committed. The partitions of a seeded broker begin at offset
0 and have no gaps, so an offset in a line is the number of records before it: it means the same record in both brokers.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from pykafka_broker.control.answers import Topic
from pykafka_broker.control.api.groups import all_groups, commit_offsets
from pykafka_broker.control.api.records import MOST_AT_ONCE, NewRecordInput, produce, shown, stored
from pykafka_broker.control.api.topics import Partitions, create_topic, topics
from pykafka_broker.control.control import Control, in_pauses
from pykafka_broker.control.operations import Lines, Text
from pykafka_broker.control.problems import Problem
from pykafka_broker.control.reading import FoundRecord, IsolationLevel, batches_from, count_from, records_of
from pykafka_broker.control.schema import Index, Offset, read, read_json, write
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.runtime import uuid_text
from pykafka_broker.records.record import Headers

_LINES_AT_ONCE = 100  # other requests are served after as many lines
_CONTENT = ("key", "value", "key_base64", "value_base64")
_COMMITTED: IsolationLevel = "read_committed"


@dataclass
class TopicLine:
    type: Literal["topic"]
    name: str
    partitions: Partitions = 1
    config: dict[str, str | int | float | bool] = field(default_factory=dict)


@dataclass(kw_only=True)
class RecordLine(NewRecordInput):
    type: Literal["record"]
    topic: str
    batch: Offset | None = None

    def stored(self) -> tuple[bytes | None, bytes | None, Headers]:
        """Return key, value and headers as they are stored. Raises `Problem` 400."""
        record = stored(self, 0)
        return record.key, record.value, record.headers


@dataclass
class OffsetLine:
    type: Literal["offset"]
    group: str
    topic: str
    partition: Index
    offset: Offset
    metadata: str = ""


@dataclass
class UnreadableLine:
    type: Literal["unreadable"]
    topic: str
    partition: Index
    offset: Offset
    why: str = ""


Line = TopicLine | RecordLine | OffsetLine | UnreadableLine


@dataclass
class Seeded:
    """How many topics, records and offsets were made."""

    topics: int = 0
    records: int = 0
    offsets: int = 0


_KINDS: dict[str, Any] = {
    "topic": TopicLine,
    "record": RecordLine,
    "offset": OffsetLine,
    "unreadable": UnreadableLine,
}


async def seed(control: Control, lines: Text) -> Seeded:
    """Make topics, records and offsets of groups from lines. Lines are taken in order; a wrong line ends the
    work, and earlier ones stay.
    """
    seeded, gathered = Seeded(), _Gathered(control)
    for number, text in enumerate(lines.text.split("\n"), 1):  # a record may have the other ends of `splitlines`
        if text.strip():
            try:
                line = read_line(text)
                if isinstance(line, RecordLine):
                    line.stored()
            except Problem as problem:
                await gathered.write()
                raise _of_lines(problem, number, number) from None
            await _take(control, number, line, gathered, seeded)
        if number % _LINES_AT_ONCE == 0:
            await asyncio.sleep(0)
    await gathered.write()
    return seeded


def _of_lines(problem: Problem, first: int, last: int) -> Problem:
    """Return a problem that says which lines it is about."""
    lines = f"line {first}" if first == last else f"lines {first} to {last}"
    return Problem(problem.status, f"{lines}: {problem.detail}", code=problem.code)


def read_line(text: str) -> Line:
    """Read a line. Raises `Problem` 400."""
    try:
        found = read_json(text)
    except (ValueError, RecursionError) as error:
        raise Problem(400, f"the line is not JSON: {error}") from None
    kind = found.get("type") if isinstance(found, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise Problem(400, "the line must be an object with a type: topic, record, offset or unreadable")
    line: Line = read(_KINDS[kind], found, kind)
    return line


async def _take(control: Control, number: int, line: Line, gathered: _Gathered, seeded: Seeded) -> None:
    if isinstance(line, RecordLine):
        await gathered.add(number, line)
        seeded.records += 1
        return
    await gathered.write()
    try:
        if isinstance(line, TopicLine):
            await create_topic(control, line.name, line.partitions, line.config)
            seeded.topics += 1
        elif isinstance(line, OffsetLine):
            await commit_offsets(control, line.group, line.topic, {line.partition: line.offset}, line.metadata)
            seeded.offsets += 1
    except Problem as problem:
        raise _of_lines(problem, number, number) from None


class _Gathered:
    """Records of a topic, written many at once."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._topic = ""
        self._batch: tuple[int | None, int | None] = None, None
        self._records: list[NewRecordInput] = []
        self._first = self._last = 0  # numbers of their lines

    async def add(self, number: int, line: RecordLine) -> None:
        batch = (None, None) if line.batch is None else (line.partition, line.batch)
        if line.topic != self._topic or batch != self._batch or len(self._records) >= MOST_AT_ONCE // 5:
            await self.write()
            self._topic, self._batch = line.topic, batch
        self._first, self._last = self._first if self._records else number, number
        self._records.append(line)

    async def write(self) -> None:
        records, self._records = self._records, []
        if records:
            try:
                await produce(self._control, self._topic, records)
            except Problem as problem:
                raise _of_lines(problem, self._first, self._last) from None


def dump(control: Control) -> Lines:
    """Return all topics with records and committed offsets, as lines for `seed`. A cluster of several brokers has
    none.
    """
    if len(control.services.image.brokers) > 1:
        raise Problem(409, "the node belongs to a cluster: a dump is of one broker, which leads all partitions")
    return Lines(dumped(control))


async def dumped(control: Control, batches: bool = False) -> AsyncIterator[str]:
    """Yield the lines of `dump`.

    Args:
        batches: each record has the number of its batch. Of a cluster partitions that another broker leads are left
            out, an offset of such a partition is the log's (`log_offset`), and Kafka's own topics are there too.
    """
    described = await topics(control)
    with_internal = batches and len(control.services.image.brokers) > 1
    for each in await topics(control, internal=True) if with_internal else described:
        yield _json({"type": "topic", "name": each["name"], "partitions": each["partitions"], "config": each["config"]})
    damaged: Batches = set()
    for each in described:
        lines = _records(control, each, batches, damaged)
        async for line in in_pauses(lines, _LINES_AT_ONCE):
            if line:
                yield line
    async for line in in_pauses(_offsets(control, batches, damaged), 1):
        yield line


Batches = set[tuple[str, int, int]]  # by topic, partition and base offset


def _records(control: Control, described: Topic, batches: bool, damaged: Batches) -> Iterator[str]:
    """Yield the lines of a topic's records, and an empty one in front of each partition. The other partitions of a
    topic that is deleted meanwhile are left out.

    damaged: takes up the batches that can't be read.
    """
    topic, services = described["name"], control.services
    for index in range(described["partitions"]):
        yield ""  # to find the leader may load the log
        found = services.image.topics.get(topic)
        if found is None or uuid_text(found.id) != described["topic_id"]:
            return
        try:
            leader = control.services.replicas.leader(topic, index)
        except ApiError:
            if batches:
                continue
            raise
        for header, batch in batches_from(leader, 0, _COMMITTED):
            offset = max(header.base_offset, leader.log.log_start_offset)
            try:
                for record in records_of(batch, header):
                    if record.offset >= offset:
                        offset = record.offset + 1
                        yield _record(topic, index, FoundRecord(record, header), batches)
            except ApiError as damage:
                damaged.add((topic, index, header.base_offset))
                told = {"topic": topic, "partition": index, "offset": offset, "why": damage.message}
                yield _json({"type": "unreadable", **told})


def _record(topic: str, index: int, found: FoundRecord, batches: bool) -> str:
    record = write(shown(topic, index, found))
    line = {"type": "record", "topic": topic, "partition": index}
    if record["timestamp_type"] == "CreateTime" and record["timestamp"] >= 0:
        line["timestamp"] = record["timestamp"]  # LogAppendTime is set anew when seeded
    if batches:
        line["batch"] = found.header.base_offset
    line |= {name: record[name] for name in _CONTENT if record[name] is not None}
    if record["headers"]:
        line["headers"] = [
            {name: value for name, value in header.items() if value is not None} for header in record["headers"]
        ]
    return _json(line)


def _offsets(control: Control, batches: bool, damaged: Batches) -> Iterator[str]:
    for group in all_groups(control.services):
        offsets = control.services.groups.coordinator.offsets.partitions(group.group_id)
        for topic, index, committed in sorted(offsets, key=lambda each: each[:2]):
            line = {"type": "offset", "group": group.group_id, "topic": topic, "partition": index}
            before = _records_before(control, topic, index, committed.offset, damaged)
            if before is None and batches:
                line["log_offset"] = committed.offset
            else:
                line["offset"] = before or 0
            yield _json({**line, "metadata": committed.metadata})


def _records_before(control: Control, topic: str, index: int, offset: int, damaged: Batches) -> int | None:
    """Return the number of readable records before an offset; None where this broker does not lead the partition."""
    try:
        partition = control.services.replicas.leader(topic, index)
    except ApiError:
        return None
    count, start = 0, partition.log.log_start_offset
    for header, batch in batches_from(partition, 0, _COMMITTED):
        is_last = header.last_offset >= offset
        if is_last or (topic, index, header.base_offset) in damaged:
            with suppress(ApiError):
                for record in records_of(batch, header):
                    count += start <= record.offset < offset
        else:
            count += count_from(header, batch, start)
        if is_last:
            break
    return count


def _json(line: dict[str, Any]) -> str:
    return json.dumps(line, ensure_ascii=False, separators=(",", ":"))
