"""The logs as they are when somebody asks: a line for each batch.

Rule: an outline is of a partition that is led here, up to its high watermark. What the leader has is what there is.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.broker.services import Services
from pykafka_broker.cluster.topic_names import INTERNAL_TOPICS
from pykafka_broker.control.reading import outcome_of
from pykafka_broker.errors import ApiError
from pykafka_broker.records.control import AbortedBatches, read_end_transaction_marker
from pykafka_broker.records.header import LOG_APPEND_TIME_BIT, iter_batches

_READ_BYTES = 1 << 20
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
    """A partition's log. compacted: records may be missing anywhere."""

    topic: str
    partition: int
    start: int
    end: int
    compacted: bool = False
    batches: list[BatchOutline] = field(default_factory=list)

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
        """Return the batch with an offset."""
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
    """Return an outline as a value for JSON."""
    own = {name: getattr(outline, name) for name in ("topic", "partition", "start", "end", "compacted")}
    return {"kind": "log", **own, "batches": [list(each) for each in outline.batches]}


def outline_of_row(row: dict[str, Any]) -> Outline:
    """Return an outline from the row that `row_of_outline` made."""
    values = {name: value for name, value in row.items() if name != "kind"}
    return Outline(**{**values, "batches": [BatchOutline(*each) for each in values["batches"]]})


async def outlines(services: Callable[[], Services]) -> AsyncIterator[Outline]:
    """Yield the outlines of all partitions of clients' topics that are led here. Clients are served in between."""
    topics = [(each.name, index) for each in services().image.topics.values() for index in sorted(each.partitions)]
    for topic, index in topics:
        if topic in INTERNAL_TOPICS:
            continue
        try:
            yield await _outline(services().replicas.leader(topic, index), topic, index)
        except ApiError:
            continue  # another broker leads it, or nobody


async def _outline(partition: Partition, topic: str, index: int) -> Outline:
    log, end = partition.log, partition.high_watermark
    made = Outline(topic, index, log.log_start_offset, end, "compact" in log.config.cleanup_policy)
    offset = made.start
    aborted = AbortedBatches(log.aborted_transactions(offset, end))
    while offset < end and (found := log.read(offset, _READ_BYTES, end)) is not None:
        for header, batch in iter_batches(found.records.read()):
            outcome: str = outcome_of(partition, header, aborted) or PLAIN
            if header.is_control:
                marker = read_end_transaction_marker(batch, header)
                outcome = COMMIT_MARKER if marker is None or marker.commit else ABORT_MARKER
                aborted.ends(header, batch)
            made.batches.append(
                BatchOutline(
                    *(header.base_offset, header.last_offset, header.size, header.count),
                    *(header.producer_id, header.producer_epoch, header.base_sequence),
                    *(header.crc, header.attributes, outcome),
                )
            )
        await asyncio.sleep(0)
        offset = max(found.end_offset(), log.log_start_offset)  # records may have been deleted meanwhile
    return made
