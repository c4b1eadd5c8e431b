"""The part of a batch that stays after a cleaning, and the transactions that decide it.

Rule: offsets stay. A batch whose records all stay is copied as it is. A batch that loses some records keeps its
header's offsets and sequence numbers. A batch that loses all records goes, unless it is the last of its producer in
this round or the last of the round: an empty batch stays then. Where the marks of its records tell enough, a batch is
not read again. Tombstones and markers get a delete horizon when they are first met and go when it has passed (KIP-534).

Records of aborted transactions go. A marker goes only when no batch of its transaction is left, and then not at once
but after `delete.retention.ms`, so that a reader in the middle of the transaction still meets its end.

A producer's later batches, behind the round, do not count: they may not be committed, and a truncation or a follower
that copies only committed records would leave the producer with an older sequence number than its own.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from pykafka_broker.log.compaction.latest import (
    GONE,
    TOMBSTONE,
    UNKNOWN,
    VALUE,
    KeptRecords,
    LatestRecords,
    Span,
    iter_spans,
    kept_spans,
    marked_records,
    records_bytes,
    records_place,
)
from pykafka_broker.log.compaction.request import LastBatches, UnpackingLimits
from pykafka_broker.log.filesystem import Buffer
from pykafka_broker.log.index import AbortedTransaction
from pykafka_broker.log.scan import ScannedBatch
from pykafka_broker.records.builder import varint
from pykafka_broker.records.compression import NONE, compress
from pykafka_broker.records.control import ABORT, COMMIT, read_control_type
from pykafka_broker.records.header import (
    CODEC_MASK,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    NO_TIMESTAMP,
    BatchHeader,
    write_crc,
)
from pykafka_broker.records.record import iter_records, read_varint, wrap_int64

_ONE_BYTE = [varint(delta) for delta in range(-64, 64)]


class CleanedTransactions:
    """The transactions of a log, batch by batch in order; `kept_aborts` are the transactions with a kept marker."""

    def __init__(self) -> None:
        self.kept_aborts: list[AbortedTransaction] = []
        self._coming: list[tuple[int, AbortedTransaction]] = []
        self._aborted: dict[int, AbortedTransaction] = {}  # open here and later aborted, by producer
        self._seen: set[int] = set()  # producers of `_aborted` that had a batch
        self._committed: set[int] = set()  # open here, had a batch, and later committed

    def add_aborted(self, aborted: Iterable[AbortedTransaction]) -> None:
        for transaction in aborted:
            heapq.heappush(self._coming, (transaction.first_offset, transaction))

    def is_aborted(self, header: BatchHeader) -> bool:
        """Return whether a batch of records belongs to an aborted transaction."""
        self._open_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._seen.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def ends_nothing(self, header: BatchHeader, batch: memoryview) -> bool:
        """Return whether a control batch ends a transaction without any batch left."""
        self._open_up_to(header.last_offset)
        record = next(iter_records(batch, header), None)
        if record is None:  # an earlier cleaning has emptied the batch
            return True
        kind = read_control_type(record)
        producer_id = header.producer_id
        if kind == COMMIT:
            had_batch = producer_id in self._committed
            self._committed.discard(producer_id)
            return not had_batch
        if kind != ABORT:
            return False
        transaction = self._aborted.pop(producer_id, None)
        if transaction is None or producer_id not in self._seen:
            return True
        self._seen.discard(producer_id)
        self.kept_aborts.append(transaction)
        return False

    def _open_up_to(self, offset: int) -> None:
        while self._coming and self._coming[0][0] <= offset:
            transaction = heapq.heappop(self._coming)[1]
            self._aborted.setdefault(transaction.producer_id, transaction)


class BatchFilter:
    """Decisions on batches, in the order of the log.

    last_learned: where the last data batch of each of the `producers` ends in the dirty part, if there is one.
    round_end: where this round of cleaning ends.
    """

    def __init__(
        self,
        latest: LatestRecords,
        transactions: CleanedTransactions,
        producers: dict[int, LastBatches],
        last_learned: dict[int, int],
        round_end: int,
        wall: int,
        delete_retention_ms: int,
        unpacking: UnpackingLimits,
    ) -> None:
        self.dropped_keyless = 0
        self._unpacking = unpacking
        self._latest = latest
        self._transactions = transactions
        self._producers = producers
        self._last_learned = last_learned
        self._round_end = round_end
        self._wall = wall
        self._new_horizon = wall + delete_retention_ms

    def keep(self, scanned: ScannedBatch) -> Buffer | None:
        """Return the batch for the cleaned log; None if nothing of the batch stays."""
        header, batch = scanned.header, scanned.data
        if header.is_control:
            return self._keep_control(header, batch)
        if self._transactions.is_aborted(header):
            return self._emptied(header)
        marks = self._latest.marks_of(header.base_offset)
        if marks is None or TOMBSTONE in marks or UNKNOWN in marks:
            return self._keep_spans(header, batch, marks)
        if VALUE not in marks:
            return self._emptied(header)
        if GONE not in marks:
            return batch
        data, begin, _ = records_place(scanned, self._unpacking)
        return rewrite(header, marked_records(data, marks, begin), header.delete_horizon_ms)

    def _keep_spans(self, header: BatchHeader, batch: memoryview, marks: bytearray | None) -> Buffer | None:
        data = records_bytes(batch, header, self._unpacking)
        spans = list(iter_spans(data, header.count))
        kept = self._kept(header, spans, marks)
        if not kept:
            return self._emptied(header)
        needs_horizon = header.delete_horizon_ms is None and not all(has_value for *_, has_value in kept)
        if len(kept) == len(spans) and not needs_horizon:
            return batch
        return rewrite(header, kept_spans(data, kept), self._new_horizon if needs_horizon else header.delete_horizon_ms)

    def _keep_control(self, header: BatchHeader, batch: memoryview) -> Buffer | None:
        ends_nothing = self._transactions.ends_nothing(header, batch)
        horizon = header.delete_horizon_ms
        if not header.count or (ends_nothing and horizon is not None and horizon <= self._wall):
            return self._emptied(header)
        if not ends_nothing or horizon is not None:
            return batch
        data = records_bytes(batch, header, self._unpacking)
        return rewrite(header, kept_spans(data, iter_spans(data, header.count)), self._new_horizon)

    def _kept(self, header: BatchHeader, spans: list[Span], marks: bytearray | None) -> list[Span]:
        """Return the records without a later record of the same key, for a batch not learned, or not wholly."""
        latest = self._latest
        horizon = header.delete_horizon_ms
        tombstones_stay = horizon is None or self._wall < horizon
        if marks is None and header.last_offset >= latest.first_offset:
            return spans  # behind this round of cleaning
        kept = []
        for span, mark in zip(spans, marks or bytes([UNKNOWN]) * len(spans), strict=True):
            key, has_value = span[4:]
            if key is None:
                self.dropped_keyless += marks is None  # learned batches were counted already
            elif (key not in latest if mark == UNKNOWN else mark != GONE) and (tombstones_stay or has_value):
                kept.append(span)
        return kept

    def _emptied(self, header: BatchHeader) -> Buffer | None:
        if header.next_offset == self._round_end or self._is_last_of_producer(header):
            return empty_batch(header)
        return None

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        """Return whether the batch holds the last sequence number, or if a marker has begun anew, the epoch of an
        active producer, as of the end of this round. In doubt the batch is kept until the next round.
        """
        producer = self._producers.get(header.producer_id) if header.has_producer_id else None
        if producer is None:
            return False
        if not producer.offsets:
            return header.is_control and header.producer_epoch == producer.epoch
        if header.is_control:
            return False
        last = producer.newest_below(self._round_end)
        if last is None:
            last = self._last_learned.get(header.producer_id)
        return last is None or header.last_offset == last


def rewrite(header: BatchHeader, kept: KeptRecords, horizon: int | None) -> bytearray:
    """Return the batch with only the kept records; a delete horizon takes the place of the base timestamp."""
    records, deltas = kept
    base_timestamp, max_timestamp = header.base_timestamp + deltas[0], header.base_timestamp + max(deltas)
    if header.log_append_time:
        base_timestamp = max_timestamp = header.max_timestamp
    if horizon is not None:
        base_timestamp = horizon
    if header.log_append_time:
        records = [_restamped(record, max_timestamp - base_timestamp) for record in records]
    elif base_timestamp != header.base_timestamp:
        shift = header.base_timestamp - base_timestamp
        records = [_restamped(record, shift + delta) for record, delta in zip(records, deltas, strict=True)]
    if header.codec != NONE:
        records = [compress(header.codec, b"".join(records))]
    attributes = header.attributes | (DELETE_HORIZON_BIT if horizon is not None else 0)
    return _batch(header, attributes, base_timestamp, max_timestamp, len(deltas), records)


def _batch(
    header: BatchHeader, attributes: int, base_timestamp: int, max_timestamp: int, count: int, records: list[bytes]
) -> bytearray:
    """Return a batch with some fields of the header replaced; `dataclasses.replace` would take as long as the rest."""
    batch = bytearray().join([bytes(HEADER_SIZE), *records])
    HEADER.pack_into(
        batch,
        0,
        header.base_offset,
        len(batch) - LENGTH_OVERHEAD,
        header.partition_leader_epoch,
        header.magic,
        0,
        attributes,
        header.last_offset_delta,
        base_timestamp,
        max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        count,
    )
    write_crc(batch)
    return batch


def empty_batch(header: BatchHeader) -> bytearray:
    """Return a batch without records, with the header's offsets, producer and time."""
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT)
    return _batch(header, attributes, NO_TIMESTAMP, header.max_timestamp, 0, [])


def _restamped(record: bytes, timestamp_delta: int) -> bytes:
    """Return the record with another timestamp delta, and attributes of 0."""
    attributes = 1 if record[0] < 128 else 2 if record[1] < 128 else read_varint(record, 0)[1]
    if -64 <= timestamp_delta < 64 and record[attributes + 1] < 128 and not record[attributes]:
        # another delta of one byte leaves the length as it is
        return record[: attributes + 1] + _ONE_BYTE[timestamp_delta + 64] + record[attributes + 2 :]
    rest = record[read_varint(record, attributes + 1, 64)[1] :]
    stamp = b"\0" + varint(wrap_int64(timestamp_delta))
    return varint(len(stamp) + len(rest)) + stamp + rest
