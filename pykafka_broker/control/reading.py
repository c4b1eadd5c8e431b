"""Records of a partition, decoded.

Rule: the records are those that a consumer of the isolation level would see: no control records, with read_committed
nothing of an aborted transaction and nothing beyond the last stable offset. The log may start within a batch
(DeleteRecords), and records of that batch below the log's start are deleted ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.records.control import read_end_transaction_marker
from pykafka_broker.records.header import BatchHeader, iter_batches
from pykafka_broker.records.record import BatchRecord, iter_records

IsolationLevel = Literal["read_uncommitted", "read_committed"]
Outcome = Literal["committed", "aborted", "open"]
_READ_BYTES = 1 << 20


class FoundRecord(NamedTuple):
    """A record, the batch, and the outcome of the transaction (None without a transaction)."""

    record: BatchRecord
    header: BatchHeader
    transaction: Outcome | None = None


def end_of(partition: Partition, isolation_level: IsolationLevel) -> int:
    """Return the offset behind the last record a consumer may see."""
    committed = isolation_level == "read_committed"
    return min(partition.high_watermark, partition.log.last_stable_offset) if committed else partition.high_watermark


def records_from(partition: Partition, offset: int, isolation_level: IsolationLevel) -> Iterator[FoundRecord]:
    """Yield the records from an offset on. Raises ApiError where the log can't be read."""
    for header, batch, transaction in _batches(partition, offset, isolation_level):
        first = max(offset, partition.log.log_start_offset)
        for record in iter_records(batch, header):
            if record.offset >= first:
                yield FoundRecord(record, header, transaction)


def batches_from(
    partition: Partition, offset: int, isolation_level: IsolationLevel
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield the batches with records from an offset on; the first may begin before the offset."""
    for header, batch, _ in _batches(partition, offset, isolation_level):
        yield header, batch


def _batches(
    partition: Partition, offset: int, isolation_level: IsolationLevel
) -> Iterator[tuple[BatchHeader, memoryview, Outcome | None]]:
    log, end = partition.log, end_of(partition, isolation_level)
    offset = max(offset, log.log_start_offset)
    aborted = Aborted(partition, offset, end)
    while offset < end and (found := log.read(offset, _READ_BYTES, end)) is not None:
        for header, batch in iter_batches(found.records.read()):
            if header.is_control:
                aborted.ends(header, batch)
                continue
            outcome = outcome_of(partition, header, aborted)
            if outcome != "aborted" or isolation_level == "read_uncommitted":
                yield header, batch, outcome
        offset = max(found.end_offset(), log.log_start_offset)  # records may have been deleted meanwhile


def count_from(header: BatchHeader, batch: memoryview, offset: int) -> int:
    """Return how many records of a batch lie at or above `offset`.

    Records are decoded only where the offset lies within the batch.
    """
    if header.base_offset >= offset:
        return header.count
    return sum(record.offset >= offset for record in iter_records(batch, header))


def outcome_of(partition: Partition, header: BatchHeader, aborted: Aborted) -> Outcome | None:
    """Return how the transaction of a batch has ended; None for a batch of no transaction."""
    if not header.is_transactional:
        return None
    if not header.is_control and aborted.has(header):
        return "aborted"
    undecided = not header.is_control and header.base_offset >= partition.log.last_stable_offset
    return "open" if undecided and partition.log.has_open_transaction(header) else "committed"


class Aborted:
    """The aborted transactions of a partition, followed batch by batch in the order of the log."""

    def __init__(self, partition: Partition, offset: int, end: int) -> None:
        found = partition.log.aborted_transactions(offset, end)
        self._to_come = sorted(((each.first_offset, each.producer_id) for each in found), reverse=True)
        self._open: set[int] = set()

    def has(self, header: BatchHeader) -> bool:
        self._begin(header)
        return header.is_transactional and header.producer_id in self._open

    def ends(self, header: BatchHeader, batch: memoryview) -> None:
        """Take in a marker: the producer's later batches are not aborted, until the next transaction."""
        self._begin(header)  # the marker may be the first batch that is read
        if read_end_transaction_marker(batch, header) is not None:
            self._open.discard(header.producer_id)

    def _begin(self, header: BatchHeader) -> None:
        """Take in all transactions beginning up to a batch."""
        while self._to_come and self._to_come[-1][0] <= header.last_offset:
            self._open.add(self._to_come.pop()[1])
