"""What cleaning must know of transactions.

Rule: records of aborted transactions go. A marker goes only when no batch of its transaction is left, and then not at
once but after `delete.retention.ms`, so that a reader in the middle of the transaction still meets its end.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from pykafka_broker.log.index import AbortedTransaction
from pykafka_broker.records.control import ABORT, COMMIT, read_control_type
from pykafka_broker.records.header import BatchHeader
from pykafka_broker.records.record import iter_records


class CleanedTransactions:
    """Follows the batches of a log in order; `kept_aborts` are those whose marker stays, in order."""

    def __init__(self) -> None:
        self.kept_aborts: list[AbortedTransaction] = []
        self._coming: list[tuple[int, AbortedTransaction]] = []
        self._aborted: dict[int, AbortedTransaction] = {}  # open here and later aborted, by producer
        self._seen: set[int] = set()  # of those, the ones that had a batch
        self._committed: set[int] = set()  # open here, had a batch, and later committed

    def add_aborted(self, aborted: Iterable[AbortedTransaction]) -> None:
        for transaction in aborted:
            heapq.heappush(self._coming, (transaction.first_offset, transaction))

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether this batch of records belongs to an aborted transaction."""
        self._open_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._seen.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def ends_nothing(self, header: BatchHeader, batch: memoryview) -> bool:
        """Whether this control batch ends a transaction of which no batch is left."""
        self._open_up_to(header.last_offset)
        record = next(iter_records(batch, header), None)
        if record is None:  # emptied by an earlier cleaning
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
