"""Records as the page shows them: with all that a log holds, and never more than a page of it.

Rule: what one request goes through is bounded; where it stopped is said, so that the next one goes on there.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Literal

from pykafka_broker.control.api.topics import raise_if
from pykafka_broker.control.browsing import BrowsedRecord, Budget, Scanned, Wanted, find, scan, scan_back
from pykafka_broker.control.control import Control
from pykafka_broker.control.problems import Problem
from pykafka_broker.control.schema import Limits
from pykafka_broker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pykafka_broker.records.record import Record

Number = Annotated[int, Limits(minimum=0, maximum=2**31 - 1)]
Offset = Annotated[int, Limits(minimum=0, maximum=2**63 - 1)]
_MOST_RECORDS = 50_000
_MOST_BYTES = 128 << 20
_MOST_PARTITIONS = 500
_MOST_BYTES_OF_A_PIECE = 1 << 20
_MOST_BYTES_DECODED = 4 << 20
_FROM_THE_END = -1


@dataclass
class BrowsedPage:
    """Records in the order of their timestamps, those of one partition in that of their offsets. `next_offsets` is
    where to go on, to be handed back as `offsets`; `more` says whether anything is left; `looked_at` is how many
    records were looked at. Of the `newest` ones `earlier_offsets` is where to go back from, to be handed back as
    `before`; it is null where nothing is left there."""

    records: list[BrowsedRecord]
    next_offsets: str
    more: bool
    looked_at: int
    earlier_offsets: str | None = None


@dataclass
class BytesPiece:
    """A piece of a key or value, in base64; `size` is of the whole, null where there is none (a tombstone)."""

    size: int | None
    from_byte: int
    base64: str


@dataclass
class Decoded:
    """A key or value as JSON, and the schema that it was written with."""

    schema_id: int
    schema_type: str
    json: str


async def browse_records(
    control: Control,
    topic: str,
    partition: Number | None = None,
    from_offset: Offset | None = None,
    from_time: Offset | None = None,
    offsets: str | None = None,
    newest: bool = False,
    before: str | None = None,
    key: str = "",
    value: str = "",
    control_records: bool = True,
    limit: Annotated[int, Limits(minimum=1, maximum=500)] = 100,
    cut_bytes: Annotated[int, Limits(minimum=1, maximum=1 << 16)] = 1024,
) -> BrowsedPage:
    """A page of a topic's records, of one partition or of all. It begins at an offset, at a time (epoch milliseconds),
    or where the page before ended (`offsets`, as "partition:offset,..."); or it has the `newest` ones, or those
    `before` such offsets. `key` and `value` are what they have to contain."""
    image = control.services.image.topics.get(topic)
    if image is None:
        raise Problem(404, f"there is no topic {topic}", code="UNKNOWN_TOPIC_OR_PARTITION")
    if partition is not None and partition not in image.partitions:
        raise Problem(404, f"topic {topic} has partitions 0 to {len(image.partitions) - 1}, not {partition}")
    numbers = sorted(image.partitions) if partition is None else [partition]
    wanted = Wanted(key.encode(), value.encode(), control_records)
    if offsets is not None:
        begin = {number: at for number, at in _parse(offsets).items() if number in image.partitions}
    elif before is not None:
        ends = {number: at for number, at in _parse(before).items() if number in image.partitions}
        return await _page_back(control, topic, ends, wanted, limit, cut_bytes)
    elif len(numbers) > _MOST_PARTITIONS:
        raise Problem(400, f"{topic} has {len(numbers)} partitions: name one of them, at most {_MOST_PARTITIONS} fit")
    elif newest:
        ends = {number: control.services.replicas.readable(topic, number).high_watermark for number in numbers}
        return await _page_back(control, topic, ends, wanted, limit, cut_bytes)
    elif from_time is not None:
        begin = await _at_time(control, topic, numbers, from_time)
    else:
        begin = dict.fromkeys(numbers, from_offset or 0)
    return await _page(control, topic, begin, wanted, limit, cut_bytes)


async def _page_back(
    control: Control, topic: str, ends: dict[int, int], wanted: Wanted, limit: int, cut_bytes: int
) -> BrowsedPage:
    """The last ones before those offsets."""
    budget, looked_at = Budget(_MOST_RECORDS, _MOST_BYTES), 0
    scanned: dict[int, Scanned] = {}
    for number, end in sorted(ends.items()):
        share = budget.share(len(ends))
        given = share.records
        scanned[number] = await scan_back(
            control.services.replicas.readable(topic, number), end, wanted, limit, cut_bytes, share
        )
        looked_at += given - share.records
    found = sorted((each for part in scanned.values() for each in part.records), key=_by_time)
    counts = Counter(each.partition for each in found[-limit:])
    taken, earlier, at_start = [], {}, True
    for number, part in scanned.items():
        count = counts[number]  # the last of each partition, as timestamps may go back within one
        taken += part.records[len(part.records) - count :]
        all_taken = count == len(part.records)
        earlier[number] = part.next_offset if all_taken else part.records[-count].offset if count else ends[number]
        at_start = at_start and all_taken and part.at_end
    taken.sort(key=_by_time)
    return BrowsedPage(taken, _told(ends), False, looked_at, None if at_start else _told(earlier))


async def _page(
    control: Control, topic: str, begin: dict[int, int], wanted: Wanted, limit: int, cut_bytes: int
) -> BrowsedPage:
    budget, looked_at = Budget(_MOST_RECORDS, _MOST_BYTES), 0
    scanned: dict[int, Scanned] = {}
    for number, offset in sorted(begin.items()):
        partition = control.services.replicas.readable(topic, number)
        share = budget.share(len(begin))
        given = share.records
        scanned[number] = await scan(partition, offset, wanted, limit, cut_bytes, share)
        looked_at += given - share.records
    found = sorted((each for part in scanned.values() for each in part.records), key=_by_time)
    taken = _whole_runs(found, limit)
    next_offsets = {number: part.next_offset for number, part in scanned.items()}
    kept = {(each.partition, each.offset) for each in taken}
    for each in found:
        if (each.partition, each.offset) not in kept:
            next_offsets[each.partition] = min(next_offsets[each.partition], each.offset)
    more = len(found) > len(taken) or not all(part.at_end for part in scanned.values())
    return BrowsedPage(taken, _told(next_offsets), more, looked_at)


def _by_time(each: BrowsedRecord) -> tuple[int, int, int]:
    return each.timestamp, each.partition, each.offset


def _told(offsets: dict[int, int]) -> str:
    return ",".join(f"{number}:{offset}" for number, offset in sorted(offsets.items()))


def _whole_runs(found: list[BrowsedRecord], limit: int) -> list[BrowsedRecord]:
    """The first of them, such that of no partition a later record is taken before an earlier one: timestamps may go
    back within a partition."""
    by_partition: dict[int, list[BrowsedRecord]] = {}
    for each in found:
        by_partition.setdefault(each.partition, []).append(each)
    counts = dict.fromkeys(by_partition, 0)
    for each in found[:limit]:
        counts[each.partition] += 1
    for number, those in by_partition.items():
        those.sort(key=lambda each: each.offset)
        by_partition[number] = those[: counts[number]]
    taken = [each for those in by_partition.values() for each in those]
    taken.sort(key=_by_time)
    return taken


def _parse(offsets: str) -> dict[int, int]:
    if not re.fullmatch(r"\d{1,10}:\d{1,18}(,\d{1,10}:\d{1,18})*", offsets, re.ASCII):
        raise Problem(400, "offsets must be as next_offsets told them: partition:offset,...")
    return {int(number): int(at) for number, at in (each.split(":") for each in offsets.split(","))}


async def _at_time(control: Control, topic: str, numbers: list[int], time_ms: int) -> dict[int, int]:
    """The first offset of that time in each partition; the end of it where there is none."""
    asked = [ListOffsetsPartition(partition_index=each, timestamp=time_ms) for each in numbers]
    answer = await control.inside.ask(ListOffsetsRequest(-1, topics=[ListOffsetsTopic(topic, asked)]))
    begin = {}
    for each in answer.topics[0].partitions:
        raise_if(each.error_code)
        end = control.services.replicas.readable(topic, each.partition_index).high_watermark
        begin[each.partition_index] = end if each.offset == _FROM_THE_END else each.offset
    return begin


async def browse_decoded(
    control: Control, topic: str, partition: Number, offset: Offset, part: Literal["key", "value"] = "value"
) -> Decoded:
    """One record's key or value as JSON, by the schema that its first bytes name, or its header `__value_schema_id` (of
    a key `__key_schema_id`). 404 where they name none that the schema registry has."""
    record = _record(control, topic, partition, offset)
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


def _record(control: Control, topic: str, partition: int, offset: int) -> Record:
    record = find(control.services.replicas.readable(topic, partition), offset)
    if record is None:
        raise Problem(404, f"{topic}-{partition} has no record of offset {offset}")
    return record


def browse_record(
    control: Control,
    topic: str,
    partition: Number,
    offset: Offset,
    part: Literal["key", "value"] = "value",
    from_byte: Number = 0,
    max_bytes: Annotated[int, Limits(minimum=1, maximum=_MOST_BYTES_OF_A_PIECE)] = 1 << 16,
) -> BytesPiece:
    """A piece of one record's key or value, however long it is."""
    record = _record(control, topic, partition, offset)
    data = record.key if part == "key" else record.value
    if data is None:
        return BytesPiece(None, 0, "")
    piece = bytes(data[from_byte : from_byte + max_bytes])
    return BytesPiece(len(data), from_byte, base64.b64encode(piece).decode())
