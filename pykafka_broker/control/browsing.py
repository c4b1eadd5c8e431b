"""Records of a partition as somebody looks at them who wants to see everything.

Rule: nothing is left out (control records, aborted and undecided transactions are there and say what they are), and
nothing is read whole: what is looked through in one go is bounded, long keys and values are cut, and between two reads
the broker serves its clients.
"""

from __future__ import annotations

import asyncio
import base64
import codecs
from dataclasses import dataclass
from typing import NamedTuple

from pykafka_broker.broker.partition import Partition
from pykafka_broker.control.reading import Aborted, Outcome, outcome_of
from pykafka_broker.records.control import ABORT, COMMIT, read_control_type
from pykafka_broker.records.header import BatchHeader, iter_batches
from pykafka_broker.records.record import Record, iter_records

_READ_BYTES = 1 << 20
_LONGEST_STRETCH = 5_000  # offsets
_MUCH = 1 << 62
_CODECS = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
_CONTROL_NAMES = {ABORT: "ABORT", COMMIT: "COMMIT"}


@dataclass
class Shown:
    """Bytes, or the beginning of them (`cut`); as text where they are UTF-8, else in base64. `size` is of all."""

    size: int
    cut: bool
    text: str | None = None
    base64: str | None = None


@dataclass
class ShownHeader:
    name: str
    value: Shown | None


@dataclass
class BrowsedRecord:
    """A record with what its batch says of it. `control` names what a control record tells, `transaction` how the
    transaction that the record is of has ended; both are null for others.
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


class Wanted(NamedTuple):
    """Which records: those whose key and value hold these bytes, control records only if they are asked for."""

    key: bytes = b""
    value: bytes = b""
    control: bool = True

    def fits(self, record: Record, header: BatchHeader) -> bool:
        if header.is_control:
            return self.control and not self.key and not self.value
        return self.key in (record.key or b"") and self.value in (record.value or b"")


class Budget:
    """What one look may still go through."""

    def __init__(self, records: int, size_bytes: int) -> None:
        self.records = records
        self.size_bytes = size_bytes

    @property
    def spent(self) -> bool:
        return self.records <= 0 or self.size_bytes <= 0

    def share(self, among: int) -> Budget:
        """What one of so many has of it."""
        return Budget(max(1, self.records // among), max(1, self.size_bytes // among))


class Scanned(NamedTuple):
    """What was found, where to go on, and whether that was the end."""

    records: list[BrowsedRecord]
    next_offset: int
    at_end: bool


async def scan(
    partition: Partition,
    offset: int,
    wanted: Wanted,
    limit: int,
    cut_bytes: int,
    budget: Budget,
    before: int | None = None,
) -> Scanned:
    """Up to `limit` such records from that offset on, up to the offset `before`. Raises ApiError where the log can't be
    read."""
    log, end = partition.log, partition.high_watermark
    offset = max(offset, log.log_start_offset)
    aborted = Aborted(partition, offset, end)
    records: list[BrowsedRecord] = []
    while offset < end and len(records) < limit and not budget.spent:
        found = log.read(offset, min(_READ_BYTES, budget.size_bytes), end)
        if found is None:
            break
        content = found.records.read()
        budget.size_bytes -= len(content)
        for header, batch in iter_batches(content):
            outcome = outcome_of(partition, header, aborted)
            for record in iter_records(batch, header):
                if record.offset < offset:
                    continue
                if before is not None and record.offset >= before:
                    return Scanned(records, before, before >= end)
                budget.records -= 1
                if wanted.fits(record, header):
                    records.append(_browsed(partition.number, record, header, outcome, cut_bytes))
                    if len(records) == limit:
                        return Scanned(records, record.offset + 1, record.offset + 1 >= end)
            if header.is_control:
                aborted.ends(header, batch)
        await asyncio.sleep(0)
        offset = max(found.end_offset(), log.log_start_offset)  # some may have been deleted meanwhile
    return Scanned(records, offset, offset >= end)


async def scan_back(
    partition: Partition, before: int, wanted: Wanted, limit: int, cut_bytes: int, budget: Budget
) -> Scanned:
    """The last `limit` such records before that offset, in their order; `next_offset` is before which to go on, and
    `at_end` whether the log begins there. It looks at one stretch after the other, each longer than the one before."""
    log, begin, width = partition.log, min(before, partition.high_watermark), limit
    found: list[BrowsedRecord] = []
    while begin > log.log_start_offset and len(found) < limit and not budget.spent:
        end, begin = begin, max(log.log_start_offset, begin - width)
        own = Budget(_MUCH, _MUCH)  # a stretch is read to its end, since its end is what is wanted
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


def find(partition: Partition, offset: int) -> Record | None:
    """The record of that offset; None where there is none (any more)."""
    log = partition.log
    if not log.log_start_offset <= offset < partition.high_watermark:
        return None
    found = log.read(offset, 1, partition.high_watermark)
    if found is None:
        return None
    batches = iter_batches(found.records.read())
    return next(
        (each for header, batch in batches for each in iter_records(batch, header) if each.offset == offset), None
    )


def _browsed(
    number: int, record: Record, header: BatchHeader, outcome: Outcome | None, cut_bytes: int
) -> BrowsedRecord:
    control = None
    if header.is_control:
        control, outcome = _control_name(record), None
    return BrowsedRecord(
        number,
        record.offset,
        header.max_timestamp if header.log_append_time else record.timestamp,
        "LogAppendTime" if header.log_append_time else "CreateTime",
        shown(record.key, cut_bytes),
        shown(record.value, cut_bytes),
        [ShownHeader(_text(name), shown(value, cut_bytes)) for name, value in record.headers],
        control,
        outcome,
        header.producer_id,
        header.producer_epoch,
        header.partition_leader_epoch,
        _CODECS.get(header.codec, str(header.codec)),
    )


def _control_name(record: Record) -> str:
    kind = read_control_type(record)
    return _CONTROL_NAMES.get(kind, f"control record of type {kind}")


def _text(header: str) -> str:
    return header.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def shown(data: bytes | memoryview | None, cut_bytes: int) -> Shown | None:
    """The beginning of it."""
    if data is None:
        return None
    head = bytes(data[:cut_bytes])
    cut = len(data) > len(head)
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head, final=not cut)
    except UnicodeDecodeError:
        return Shown(len(data), cut, base64=base64.b64encode(head).decode())
    return Shown(len(data), cut, text=text)
