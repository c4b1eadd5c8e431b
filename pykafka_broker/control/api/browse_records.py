"""Records for the web page, a bounded piece of a log at a time.

Rule: every record is shown, control records and records of aborted and open transactions too, with their kind. No log
is read whole: the work of one request is bounded, long keys and values are cut, and between two reads the
broker serves its clients. The answer says where reading stopped, so that the next request can go on there. Compressed
batches are bounded by what comes out of them, and clients are served while one is unpacked. A batch that can't be read
is shown as one record with the reason, and reading goes on behind the batch.
"""

from __future__ import annotations

import asyncio
import base64
import codecs
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.control.api.topics import listed_offsets, topic_image
from pykafka_broker.control.control import Control, Decode
from pykafka_broker.control.problems import Problem
from pykafka_broker.control.reading import Outcome, outcome_of, unreadable
from pykafka_broker.control.schema import Index, Offset, ValueLimits
from pykafka_broker.records.control import ABORT, COMMIT, AbortedBatches, read_control_type
from pykafka_broker.records.errors import CorruptBatch
from pykafka_broker.records.header import BatchHeader, iter_batches
from pykafka_broker.records.record import BatchRecord, header_name, iter_records_in_steps

_READ_BYTES = 1 << 20
_LONGEST_STRETCH = 5_000  # offsets
_MUCH = 1 << 62
_CODECS = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
_CONTROL_NAMES: dict[int, str] = {ABORT: "ABORT", COMMIT: "COMMIT"}


@dataclass
class Shown:
    """Bytes, or the beginning of them (`cut`); as text where the bytes are UTF-8, else in base64. `size` is the full
    size.
    """

    size: int
    cut: bool
    text: str | None = None
    base64: str | None = None


@dataclass
class ShownHeader:
    name: str
    value: Shown | None


@dataclass
class Decoded:
    """A key or value as JSON, and the schema."""

    schema_id: int
    schema_type: str
    json: str


@dataclass
class BrowsedRecord:
    """A record with facts of the batch. `control` names the kind of a control record, `transaction` is the outcome of
    the record's transaction; both are null for other records. `decoded` is the beginning of the value by its schema,
    where that was asked for. `unreadable` says why the records of a batch can't be shown: the record then stands for
    the batch, without key and value.
    """

    partition: int
    offset: int
    timestamp: int
    timestamp_type: str
    key: Shown | None
    value: Shown | None
    headers: list[ShownHeader]
    control: str | None
    transaction: Outcome | None
    producer_id: int
    producer_epoch: int
    leader_epoch: int
    codec: str
    decoded: Decoded | None = None
    unreadable: str | None = None


class Sought(NamedTuple):
    """A header or a field of JSON with the wanted value; None for any value."""

    name: str
    value: str | None

    @classmethod
    def of(cls, text: str) -> Sought | None:
        """Read "name" or "name=value"; None for an empty text."""
        name, equals, value = text.partition("=")
        return cls(name.strip(), value.strip() if equals else None) if text.strip() else None


class RecordFilter(NamedTuple):
    """A filter: texts in key and value, a header, a field of JSON; control records only if asked for.

    decode: the reader of values by their schemas; without it a value is JSON or has no fields.
    """

    key: bytes = b""
    value: bytes = b""
    control: bool = True
    header: Sought | None = None
    json_field: Sought | None = None
    decode: Decode | None = None

    async def fits(self, record: BatchRecord, header: BatchHeader) -> bool:
        if header.is_control:
            return self.control and not (self.key or self.value or self.header or self.json_field)
        if self.key not in (record.key or b"") or not self._has_header(record):
            return False
        plain = self.value in (record.value or b"")
        if not self.looks_inside or (plain and self.json_field is None):
            return plain
        return (
            record.value is not None and len(record.value) <= _MOST_BYTES_SEARCHED and await self._fits_inside(record)
        )

    @property
    def looks_inside(self) -> bool:
        """Return whether values may have to be read by their schema, or as JSON."""
        return self.json_field is not None or (self.decode is not None and self.value != b"")

    def _has_header(self, record: BatchRecord) -> bool:
        if self.header is None:
            return True
        name, value = self.header
        values = [data for each, data in record.headers if header_name(each) == name]
        return bool(values) if value is None else any(value.encode() in (data or b"") for data in values)

    async def _fits_inside(self, record: BatchRecord) -> bool:
        """Return whether the value, read by its schema or as JSON, has the text and the field."""
        text = bytes(record.value or b"")
        if self.decode is not None:
            schema_id = dict(record.headers).get(_SCHEMA_ID_HEADER)
            if schema_id is not None or text.startswith(b"\0"):
                with suppress(ValueError):  # not of its schema: searched as it is
                    found = await self.decode(text, None if schema_id is None else bytes(schema_id))
                    text = text if found is None else found[2].encode()
        await asyncio.sleep(0)  # one value may take a millisecond
        return self.value in text and (self.json_field is None or _has_field(text, *self.json_field))


def _has_field(text: bytes, path: str, wanted: str | None) -> bool:
    """Return whether JSON has a field at a path, "order.items.0.sku", with a value: text, or else JSON."""
    try:
        at = json.loads(text)
        for step in path.split("."):
            at = at[int(step) if isinstance(at, list) and step.isdecimal() else step]
    except (ValueError, LookupError, TypeError, RecursionError):
        return False
    if wanted is None:
        return True
    return wanted == at if isinstance(at, str) else wanted == json.dumps(at, ensure_ascii=False)


class ReadBudget:
    """The records and bytes a request may still read."""

    def __init__(self, records: int, size_bytes: int) -> None:
        self.records = records
        self.size_bytes = size_bytes

    @property
    def spent(self) -> bool:
        return self.records <= 0 or self.size_bytes <= 0

    def share(self, among: int) -> ReadBudget:
        """Return the part for a partition among `among`."""
        return ReadBudget(max(1, self.records // among), max(1, self.size_bytes // among))


class Scanned(NamedTuple):
    """Found records, the next offset, and whether the log has ended."""

    records: list[BrowsedRecord]
    next_offset: int
    at_end: bool


async def scan(
    partition: Partition,
    offset: int,
    wanted: RecordFilter,
    limit: int,
    cut_bytes: int,
    budget: ReadBudget,
    before: int | None = None,
) -> Scanned:
    """Return up to `limit` fitting records from an offset on, up to the offset `before`.

    Raises ApiError where the log can't be read.
    """
    log, end = partition.log, partition.high_watermark
    offset = max(offset, log.log_start_offset)
    aborted = AbortedBatches(partition.log.aborted_transactions(offset, end))
    records: list[BrowsedRecord] = []
    while offset < end and not budget.spent:
        found = log.read(offset, min(_READ_BYTES, budget.size_bytes), end)
        if found is None:
            break
        content = found.records.read()
        budget.size_bytes -= len(content)
        for header, batch in iter_batches(content):
            outcome = outcome_of(partition, header, aborted)
            async for each in _in_batch(partition.index, batch, header, offset, outcome, wanted, cut_bytes, budget):
                if before is not None and each.offset >= before:
                    return Scanned(records, before, before >= end)
                if each.shown is not None:
                    records.append(each.shown)
                    if len(records) == limit:
                        return Scanned(records, each.next_offset, each.next_offset >= end)
            if budget.spent:
                return Scanned(records, header.next_offset, header.next_offset >= end)
            if header.is_control:
                aborted.ends(header, batch)
        await asyncio.sleep(0)
        offset = max(found.end_offset, log.log_start_offset)  # records may have been deleted meanwhile
    return Scanned(records, offset, offset >= end)


class _LookedAt(NamedTuple):
    """A record, or the rest of a batch that can't be read. shown: None for a record that is not wanted."""

    offset: int
    next_offset: int
    shown: BrowsedRecord | None


async def _in_batch(
    index: int,
    batch: memoryview,
    header: BatchHeader,
    offset: int,
    outcome: Outcome | None,
    wanted: RecordFilter,
    cut_bytes: int,
    budget: ReadBudget,
) -> AsyncIterator[_LookedAt]:
    """Yield the records of a batch from an offset on; in the place of those that can't be read, one with the reason."""
    following = max(offset, header.base_offset)
    try:
        size_bytes, unpacked = await _unpacked(batch, header)
        budget.size_bytes -= max(0, size_bytes - len(batch))
        for record in unpacked:
            if record.offset >= offset:
                following = record.offset + 1
                budget.records -= 1
                fits = await wanted.fits(record, header)
                found = _browsed(index, record, header, outcome, cut_bytes) if fits else None
                yield _LookedAt(record.offset, following, found)
    except CorruptBatch as damage:
        yield _LookedAt(following, header.next_offset, _unreadable_batch(index, following, header, damage))


async def _unpacked(batch: memoryview, header: BatchHeader) -> tuple[int, Iterator[BatchRecord]]:
    """Return the size of a batch's records, uncompressed, and the records.

    Raises CorruptBatch, here or with a record, also for a batch that grows beyond any sensible size.
    """
    steps = iter_records_in_steps(batch, header)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: tuple[int, Iterator[BatchRecord]] = end.value
            return found
        await asyncio.sleep(0)


async def scan_back(
    partition: Partition, before: int, wanted: RecordFilter, limit: int, cut_bytes: int, budget: ReadBudget
) -> Scanned:
    """Return the last `limit` fitting records before an offset, in order.

    `next_offset` is where to go on backwards, and `at_end` whether the log begins there. Stretches of the log are read
    one after the other, each longer than the one before.
    """
    log, begin, width = partition.log, min(before, partition.high_watermark), limit
    found: list[BrowsedRecord] = []
    while begin > log.log_start_offset and len(found) < limit and not budget.spent:
        end, begin = begin, max(log.log_start_offset, begin - width)
        own = ReadBudget(_MUCH, _MUCH)  # a stretch is read to its end: its last records are wanted
        part = (await scan(partition, begin, wanted, width, cut_bytes, own, end)).records
        budget.records -= _MUCH - own.records
        budget.size_bytes -= _MUCH - own.size_bytes
        wanting = limit - len(found)
        if len(part) > wanting:
            part = part[-wanting:]
            begin = part[0].offset
        found = part + found
        if (_MUCH - own.size_bytes) * 8 < budget.size_bytes:
            width = min(4 * width, _LONGEST_STRETCH)
    return Scanned(found, begin, begin <= log.log_start_offset)


def _browsed(
    index: int, record: BatchRecord, header: BatchHeader, outcome: Outcome | None, cut_bytes: int
) -> BrowsedRecord:
    control = None
    if header.is_control:
        kind = read_control_type(record)
        control, outcome = _CONTROL_NAMES.get(kind, f"control record of type {kind}"), None
    browsed = _of_batch(index, record.offset, header)
    if not header.log_append_time:
        browsed.timestamp = record.timestamp
    browsed.key, browsed.value = shown(record.key, cut_bytes), shown(record.value, cut_bytes)
    browsed.headers = [ShownHeader(header_name(name), shown(value, cut_bytes)) for name, value in record.headers]
    browsed.control, browsed.transaction = control, outcome
    return browsed


def _unreadable_batch(index: int, offset: int, header: BatchHeader, damage: CorruptBatch) -> BrowsedRecord:
    """Return what stands for the records of a batch that can't be read, from an offset on."""
    browsed = _of_batch(index, offset, header)
    browsed.unreadable = f"the records from here to offset {header.last_offset} can't be read: {damage}"
    return browsed


def _of_batch(index: int, offset: int, header: BatchHeader) -> BrowsedRecord:
    """Return a record of a batch, with what the batch says of it and without its content."""
    return BrowsedRecord(
        index,
        offset,
        header.max_timestamp,
        "LogAppendTime" if header.log_append_time else "CreateTime",
        key=None,
        value=None,
        headers=[],
        control=None,
        transaction=None,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        leader_epoch=header.partition_leader_epoch,
        codec=_CODECS.get(header.codec, str(header.codec)),
    )


def shown(data: bytes | memoryview | None, cut_bytes: int) -> Shown | None:
    """Return the beginning of a key or value."""
    if data is None:
        return None
    head = bytes(data[:cut_bytes])
    cut = len(data) > len(head)
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head, final=not cut)
    except UnicodeDecodeError:
        return Shown(len(data), cut, base64=base64.b64encode(head).decode())
    return Shown(len(data), cut, text=text)


_MOST_RECORDS = 50_000
_MOST_RECORDS_INSIDE = 5_000  # where each value is decoded
_MOST_BYTES = 128 << 20
_MOST_PARTITIONS = 500
_MOST_BYTES_OF_A_PIECE = 1 << 20
_MOST_BYTES_DECODED = 4 << 20
_MOST_BYTES_SEARCHED = 1 << 20  # of a value, for its fields
_SCHEMA_ID_HEADER = "__value_schema_id"
_FROM_THE_END = -1


@dataclass
class BrowsedPage:
    """Records in the order of the timestamps, and within a partition of the offsets. `next_offsets` is where to go
    on, to be handed back as `offsets`; `more` says whether anything is left; `looked_at` counts the records that were
    read. For the `newest` records `earlier_offsets` is where to go back, to be handed back as `before`; it is null
    where nothing is left.
    """

    records: list[BrowsedRecord]
    next_offsets: str
    more: bool
    looked_at: int
    earlier_offsets: str | None = None


@dataclass
class BytesPiece:
    """A piece of a key or value, in base64; `size` is the whole size, null for a tombstone."""

    size: int | None
    from_byte: int
    base64: str


async def browse_records(
    control: Control,
    topic: str,
    partition: Index | None = None,
    from_offset: Offset | None = None,
    from_time: Offset | None = None,
    offsets: str | None = None,
    newest: bool = False,
    before: str | None = None,
    key: str = "",
    value: str = "",
    header: str = "",
    field: str = "",
    control_records: bool = True,
    decode: bool = False,
    limit: Annotated[int, ValueLimits(minimum=1, maximum=500)] = 100,
    cut_bytes: Annotated[int, ValueLimits(minimum=1, maximum=1 << 16)] = 1024,
) -> BrowsedPage:
    """Return a page of a topic's records, of a partition or of all. The page begins at an offset, at a time (epoch
    milliseconds), or where the page before ended (`offsets`, as "partition:offset,..."); or the page has the `newest`
    records, or the records `before` such offsets. `key` and `value` are texts that the records have to contain,
    `header` is "name" or "name=text", `field` a path in the JSON of the value, "order.id" or "order.items.0.sku=A7".
    With `decode` each value that names a schema of the registry is shown and searched by its schema too.
    """
    image = topic_image(control, topic, partition)
    indexes = sorted(image.partitions) if partition is None else [partition]
    wanted = RecordFilter(
        key.encode(),
        value.encode(),
        control_records,
        Sought.of(header),
        Sought.of(field),
        control.decode if decode else None,
    )
    begin: dict[int, int] = {}
    ends: dict[int, int] | None = None
    if offsets is not None:
        begin = {index: at for index, at in _parse(offsets).items() if index in image.partitions}
    elif before is not None:
        ends = {index: at for index, at in _parse(before).items() if index in image.partitions}
    elif len(indexes) > _MOST_PARTITIONS:
        raise Problem(400, f"{topic} has {len(indexes)} partitions: name one of them, at most {_MOST_PARTITIONS} fit")
    elif newest:
        ends = {index: control.services.replicas.readable(topic, index).high_watermark for index in indexes}
    elif from_time is not None:
        begin = await _at_time(control, topic, indexes, from_time)
    else:
        begin = dict.fromkeys(indexes, from_offset or 0)
    if ends is None:
        page = await _page(control, topic, begin, wanted, limit, cut_bytes)
    else:
        page = await _page_back(control, topic, ends, wanted, limit, cut_bytes)
    if decode and control.decode is not None:
        for each in page.records:
            each.decoded = await _decoded_value(control, topic, each, cut_bytes)
    return page


async def _decoded_value(control: Control, topic: str, record: BrowsedRecord, cut_bytes: int) -> Decoded | None:
    """Return the beginning of a value by its schema, None for a value without one."""
    named = any(each.name == _SCHEMA_ID_HEADER for each in record.headers)
    if record.control or record.value is None or not (named or _may_name_schema(record.value)):
        return None
    try:
        found = await browse_decoded(control, topic, record.partition, record.offset)
    except Problem:  # no such schema, or not of it: the bytes are shown
        return None
    found.json = found.json[:cut_bytes]
    return found


def _may_name_schema(value: Shown) -> bool:
    """Return whether a value begins with a zero, as serializers write values with a schema's id."""
    return value.text.startswith("\0") if value.text is not None else (value.base64 or "").startswith("AA")


async def _scan_all(
    control: Control,
    topic: str,
    offsets: dict[int, int],
    read: Callable[..., Awaitable[Scanned]],
    wanted: RecordFilter,
    *how: object,
) -> tuple[dict[int, Scanned], list[BrowsedRecord], int]:
    """Read each partition from an offset on, with an equal share of the budget.

    Returns:
        The readings by partition, all records by time, and how many records were read.
    """
    budget = ReadBudget(_MOST_RECORDS_INSIDE if wanted.looks_inside else _MOST_RECORDS, _MOST_BYTES)
    looked_at = 0
    scanned: dict[int, Scanned] = {}
    for index, offset in sorted(offsets.items()):
        share = budget.share(len(offsets))
        given = share.records
        scanned[index] = await read(control.services.replicas.readable(topic, index), offset, wanted, *how, share)
        looked_at += given - share.records
    found = sorted((each for part in scanned.values() for each in part.records), key=_by_time)
    return scanned, found, looked_at


async def _page_back(
    control: Control, topic: str, ends: dict[int, int], wanted: RecordFilter, limit: int, cut_bytes: int
) -> BrowsedPage:
    """Return the last records before the given offsets."""
    scanned, found, looked_at = await _scan_all(control, topic, ends, scan_back, wanted, limit, cut_bytes)
    counts = Counter(each.partition for each in found[-limit:])
    taken, earlier, at_start = [], {}, True
    for index, part in scanned.items():
        count = counts[index]  # the last records of each partition, as timestamps may go back within one
        taken += part.records[len(part.records) - count :]
        all_taken = count == len(part.records)
        earlier[index] = part.next_offset if all_taken else part.records[-count].offset if count else ends[index]
        at_start = at_start and all_taken and part.at_end
    taken.sort(key=_by_time)
    return BrowsedPage(taken, _offsets_text(ends), False, looked_at, None if at_start else _offsets_text(earlier))


async def _page(
    control: Control, topic: str, begin: dict[int, int], wanted: RecordFilter, limit: int, cut_bytes: int
) -> BrowsedPage:
    scanned, found, looked_at = await _scan_all(control, topic, begin, scan, wanted, limit, cut_bytes)
    taken = _whole_runs(found, limit)
    next_offsets = {index: part.next_offset for index, part in scanned.items()}
    kept = {(each.partition, each.offset) for each in taken}
    for each in found:
        if (each.partition, each.offset) not in kept:
            next_offsets[each.partition] = min(next_offsets[each.partition], each.offset)
    more = len(found) > len(taken) or not all(part.at_end for part in scanned.values())
    return BrowsedPage(taken, _offsets_text(next_offsets), more, looked_at)


def _by_time(each: BrowsedRecord) -> tuple[int, int, int]:
    return each.timestamp, each.partition, each.offset


def _offsets_text(offsets: dict[int, int]) -> str:
    return ",".join(f"{index}:{offset}" for index, offset in sorted(offsets.items()))


def _whole_runs(found: list[BrowsedRecord], limit: int) -> list[BrowsedRecord]:
    """Return the first `limit` records, keeping each partition's records in order.

    Timestamps may go back within a partition.
    """
    by_partition: dict[int, list[BrowsedRecord]] = {}
    for each in found:
        by_partition.setdefault(each.partition, []).append(each)
    counts = Counter(each.partition for each in found[:limit])
    taken: list[BrowsedRecord] = []
    for index, records in by_partition.items():
        taken += sorted(records, key=lambda each: each.offset)[: counts[index]]
    return sorted(taken, key=_by_time)


def _parse(offsets: str) -> dict[int, int]:
    if not re.fullmatch(r"\d{1,10}:\d{1,19}(,\d{1,10}:\d{1,19})*", offsets, re.ASCII):
        raise Problem(400, "offsets must have the form of next_offsets: partition:offset,...")
    return {int(index): int(at) for index, at in (each.split(":") for each in offsets.split(","))}


async def _at_time(control: Control, topic: str, indexes: list[int], time_ms: int) -> dict[int, int]:
    """Return the first offset of a time in each partition, or the partition's end."""
    begin = await listed_offsets(control, topic, indexes, time_ms)
    for index, offset in begin.items():
        if offset == _FROM_THE_END:
            begin[index] = control.services.replicas.readable(topic, index).high_watermark
    return begin


async def browse_decoded(
    control: Control, topic: str, partition: Index, offset: Offset, part: Literal["key", "value"] = "value"
) -> Decoded:
    """Return a record's key or value as JSON, by the schema named in the first bytes, or in the header
    `__value_schema_id` (of a key `__key_schema_id`). 404 where the schema registry has no such schema.
    """
    record = await _record(control, topic, partition, offset)
    data = record.key if part == "key" else record.value
    if control.decode is None:
        raise Problem(404, "this broker knows no schema registry (--schema-registry, --schema-registry-url)")
    if data is not None and len(data) > _MOST_BYTES_DECODED:
        raise Problem(400, f"at most {_MOST_BYTES_DECODED} bytes are decoded")
    header = dict(record.headers).get(f"__{part}_schema_id")
    try:
        found = None if data is None else await control.decode(bytes(data), None if header is None else bytes(header))
    except ValueError as error:
        raise Problem(400, str(error)) from None
    if found is None:
        raise Problem(404, f"the {part} names no schema of the registry")
    return Decoded(*found)


async def _record(control: Control, topic: str, partition: int, offset: int) -> BatchRecord:
    """Return the record at an offset. Raises `Problem` 404, and ApiError where the batch can't be read."""
    replica = control.services.replicas.readable(topic, partition)
    is_there = replica.log.log_start_offset <= offset < replica.high_watermark
    found = replica.log.read(offset, 1, replica.high_watermark) if is_there else None
    for header, batch in () if found is None else iter_batches(found.records.read()):
        try:
            for each in (await _unpacked(batch, header))[1]:
                if each.offset == offset:
                    return each
        except CorruptBatch as damage:
            raise unreadable(header, damage) from damage
    raise Problem(404, f"{topic}-{partition} has no record of offset {offset}")


async def browse_record(
    control: Control,
    topic: str,
    partition: Index,
    offset: Offset,
    part: Literal["key", "value"] = "value",
    from_byte: Index = 0,
    max_bytes: Annotated[int, ValueLimits(minimum=1, maximum=_MOST_BYTES_OF_A_PIECE)] = 1 << 16,
) -> BytesPiece:
    """Return a piece of a record's key or value, of any length."""
    record = await _record(control, topic, partition, offset)
    data = record.key if part == "key" else record.value
    if data is None:
        return BytesPiece(None, 0, "")
    piece = bytes(data[from_byte : from_byte + max_bytes])
    return BytesPiece(len(data), from_byte, base64.b64encode(piece).decode())
