"""A comparison of a transaction index with the markers in the log.

Rule: an entry names an ABORT marker of its segment, and every aborted transaction with records has an entry that
reaches back to its first record. This holds whatever retention and compaction have taken away.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pykafka_broker.log.index import AbortedTransaction
from pykafka_broker.log.scan import ScannedBatch
from pykafka_broker.records.control import read_end_transaction_marker


class _Abort(NamedTuple):
    first_offset: int | None  # of the remaining records, None without any
    last_stable_offset: int  # an upper bound


class AbortMarkers:
    """The ABORT markers of a log, batch by batch in order."""

    def __init__(self) -> None:
        self._open: dict[int, int] = {}  # by producer: its transaction's first offset
        self._aborts: dict[tuple[int, int], _Abort] = {}  # aborts of this segment, by producer and offset of the marker

    def begin_segment(self) -> None:
        self._aborts.clear()

    def lost_track(self) -> None:
        """Forget open transactions: some batches can't be read."""
        self._open.clear()

    def learn(self, batch: ScannedBatch) -> None:
        header = batch.header
        if header.is_control:
            marker = read_end_transaction_marker(batch.data, header)
            if marker is None:
                return
            first_offset = self._open.pop(marker.producer_id, None)
            if not marker.commit:
                limit = min(self._open.values(), default=marker.offset + 1)
                self._aborts[marker.producer_id, marker.offset] = _Abort(first_offset, limit)
        elif header.is_transactional and header.count:  # emptied batches have no visible records
            self._open.setdefault(header.producer_id, header.base_offset)

    def problem(self, entries: Iterable[AbortedTransaction]) -> str | None:
        """Return a fault of the segment's transaction index, or None."""
        missing = {key: abort for key, abort in self._aborts.items() if abort.first_offset is not None}
        for entry in entries:
            abort = self._aborts.get((entry.producer_id, entry.last_offset))
            if abort is None:
                return f"names an abort of producer {entry.producer_id} at offset {entry.last_offset}; there is none"
            if abort.first_offset is not None and entry.first_offset > abort.first_offset:
                return (
                    f"says that what producer {entry.producer_id} aborted at offset {entry.last_offset} begins at "
                    f"{entry.first_offset}, but it begins at {abort.first_offset}"
                )
            if entry.last_stable_offset > abort.last_stable_offset:
                return (
                    f"says that all was decided up to {entry.last_stable_offset} when producer {entry.producer_id} "
                    f"aborted at offset {entry.last_offset}, but it was only up to {abort.last_stable_offset}"
                )
            missing.pop((entry.producer_id, entry.last_offset), None)
        for producer_id, offset in missing:
            return f"does not name the abort of producer {producer_id} at offset {offset}"
        return None
