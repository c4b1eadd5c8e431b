"""The logs as they are when somebody asks: a line for each batch.

Rule: an outline is of a partition that is led here all the time while it is read, up to the end of its log: what the
leader has is what there is, and followers may be behind. A log that can't be read, and the rest of very long ones, are
told as unread.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from pykafka_broker.broker.partitions.partition import NotLeader
from pykafka_broker.broker.services import Services
from pykafka_broker.cluster.image import NO_LEADER
from pykafka_broker.cluster.topic_names import INTERNAL_TOPICS
from pykafka_broker.control.reading import outcome_of
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.runtime import uuid_text
from pykafka_broker.records.control import AbortedBatches, read_end_transaction_marker
from pykafka_broker.records.errors import CorruptBatch
from pykafka_broker.records.header import (
    HEADER_SIZE,
    LOG_APPEND_TIME_BIT,
    BatchHeader,
    Buffer,
    batch_of,
    iter_batches,
    read_header,
)
from pykafka_broker.records.record import iter_records

_READ_BYTES = 1 << 20
_MOST_BATCHES = 500_000  # of all logs of a broker: some 200 MB where they are checked
LOG_ROWS = frozenset({"log", "unread", "topics"})  # kinds of rows
PLAIN, COMMITTED, ABORTED, OPEN, COMMIT_MARKER, ABORT_MARKER = "", "committed", "aborted", "open", "commit", "abort"
MARKERS = frozenset({COMMIT_MARKER, ABORT_MARKER})


class BatchOutline(NamedTuple):
    """A batch of a log. outcome: of its transaction, or which marker it is."""

    base: int
    last: int
    size: int
    records: int
    producer_id: int
    epoch: int
    sequence: int
    crc: int
    attributes: int
    outcome: str

    @property
    def is_as_sent(self) -> bool:
        """Return whether the CRC is the producer's."""
        return not self.attributes & LOG_APPEND_TIME_BIT


@dataclass
class Outline:
    """A partition's log.

    compacted: records may be missing anywhere; so they may where the topic is not compacted any more.
    high_watermark: the end of what consumers may read; -1 for the end of the log.
    """

    topic: str
    partition: int
    start: int
    end: int
    compacted: bool = False
    batches: list[BatchOutline] = field(default_factory=list)
    high_watermark: int = -1
    leader_epoch: int = -1

    @property
    def readable_end(self) -> int:
        """Return the end of what consumers may read."""
        return self.end if self.high_watermark < 0 else self.high_watermark

    @property
    def has_holes(self) -> bool:
        """Return whether the log lacks records between its start and its end."""
        reached = self.start
        for batch in self.batches:
            if batch.base > reached or batch.records < batch.last - batch.base + 1:
                return True
            reached = batch.last + 1
        return reached < self.end

    @cached_property
    def _bases(self) -> list[int]:
        return [each.base for each in self.batches]

    def index_of(self, offset: int) -> int | None:
        """Return the index of the batch with an offset, None where there is no such batch."""
        index = bisect_right(self._bases, offset) - 1
        return index if index >= 0 and self.batches[index].last >= offset else None

    def at(self, offset: int) -> BatchOutline | None:
        index = self.index_of(offset)
        return None if index is None else self.batches[index]

    def between(self, first: int, end: int) -> Iterator[BatchOutline]:
        """Yield the batches with an offset in [first, end)."""
        for index in range(max(0, bisect_right(self._bases, first) - 1), len(self.batches)):
            batch = self.batches[index]
            if batch.base >= end:
                return
            if batch.last >= first:
                yield batch

    def end_of(self, base: int, size: int) -> int | None:
        """Return the offset after `size` bytes of whole batches from the batch at `base` on.

        None where the batches have changed since: deleted, compacted, or told in another format.
        """
        index = self.index_of(base)
        while index is not None and index < len(self.batches) and size > 0:
            size -= self.batches[index].size
            index += 1
        return self.batches[index - 1].last + 1 if index and not size else None


def row_of_outline(outline: Outline) -> dict[str, Any]:
    """Return an outline as a value for JSON; a batch is a list there."""
    return {"kind": "log", **vars(outline)}


def outline_of_row(row: dict[str, Any]) -> Outline:
    """Return an outline from the row that `row_of_outline` made."""
    values = {name: value for name, value in row.items() if name != "kind"}
    return Outline(**{**values, "batches": [BatchOutline(*each) for each in values["batches"]]})


def row_of_topics(services: Services) -> dict[str, Any]:
    """Return the topics of clients as a value for JSON: their ids, and the leaders of their partitions."""
    topics = {
        each.name: {
            "id": uuid_text(each.id),
            "leaders": [partition.leader for _, partition in sorted(each.partitions.items())],
        }
        for each in services.image.topics.values()
        if each.name not in INTERNAL_TOPICS
    }
    return {"kind": "topics", "topics": topics}


async def log_rows(services: Callable[[], Services]) -> AsyncIterator[dict[str, Any]]:
    """Yield a row for each partition of clients' topics that is led here, or that nobody leads, and the topics that are
    there at the end. Clients are served in between.
    """
    room = _MOST_BATCHES
    topics = [(each.name, index) for each in services().image.topics.values() for index in sorted(each.partitions)]
    for topic, index in topics:
        if topic in INTERNAL_TOPICS:
            continue
        where = {"topic": topic, "partition": index}
        try:
            outline = await _outline(services, topic, index, room)
        except ApiError as error:
            state = services().image.partition(topic, index)
            if state is None or state.leader not in (NO_LEADER, services().node_id):
                continue  # it is deleted, or another broker leads it
            why = "it has no leader" if state.leader == NO_LEADER else f"its log can't be read: {error}"
            yield {"kind": "unread", **where, "why": why}
            continue
        if outline is None:
            yield {"kind": "unread", **where, "why": f"the logs have more than {_MOST_BATCHES} batches"}
            continue
        room -= len(outline.batches)
        yield row_of_outline(outline)
    yield row_of_topics(services())


async def _outline(services: Callable[[], Services], topic: str, index: int, room: int) -> Outline | None:
    """Return the outline of a log, None where it has more batches than `room`. Raises ApiError where the partition is
    not led here all the time.
    """
    partition = services().replicas.leader(topic, index)
    log, end, epoch = partition.log, partition.log.log_end_offset, partition.leader_epoch
    directory = services().logs.directory_of((topic, index))
    was_cleaned = directory is not None and (topic, index) in directory.cleaner_offsets
    made = Outline(topic, index, log.log_start_offset, end, was_cleaned or "compact" in log.config.cleanup_policy)
    made.high_watermark, made.leader_epoch = partition.high_watermark, epoch
    offset = made.start
    aborted = AbortedBatches(log.aborted_transactions(offset, end))
    while offset < end and (found := log.read(offset, _READ_BYTES, end)) is not None:
        for header, batch in iter_batches(found.records.read()):
            outcome: str = outcome_of(partition, header, aborted) or PLAIN
            if header.is_control:
                marker = read_end_transaction_marker(batch, header)
                outcome = COMMIT_MARKER if marker is None or marker.commit else ABORT_MARKER
                aborted.ends(header, batch)
            if header.attributes & LOG_APPEND_TIME_BIT and header.producer_id < 0:
                header = _as_sent(header, batch)
            made.batches.append(
                BatchOutline(
                    *(header.base_offset, header.last_offset, header.size, header.count),
                    *(header.producer_id, header.producer_epoch, header.base_sequence),
                    *(header.crc, header.attributes, outcome),
                )
            )
        if len(made.batches) > room:
            return None
        await asyncio.sleep(0)
        if services().replicas.leader(topic, index, epoch) is not partition:
            raise NotLeader(NO_LEADER, epoch)  # the topic was made anew
        made.start = log.log_start_offset  # records may have been deleted meanwhile
        offset = max(found.end_offset, made.start)
    return made


def _as_sent(header: BatchHeader, batch: Buffer) -> BatchHeader:
    """Return the header that a producer sent of a batch into which the broker has put its own time."""
    sent = replace(header, attributes=header.attributes & ~LOG_APPEND_TIME_BIT)
    try:
        newest = max(each.timestamp for each in iter_records(batch, sent))
    except (CorruptBatch, ValueError):
        return header
    return replace(sent, crc=read_header(batch_of(replace(sent, max_timestamp=newest), batch[HEADER_SIZE:])).crc)
