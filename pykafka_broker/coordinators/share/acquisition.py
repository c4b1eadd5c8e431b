"""Handing records out: those that have come back, then new ones.

Rule: a log batch is handed out whole unless the member wants exactly so many records. A batch that comes back again and
again may have a record in it that kills its reader: it is cut in half from the half of its deliveries on, and a record
that has one delivery left goes out alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pykafka_broker.coordinators.share.delivery import RecordState, StateRun
from pykafka_broker.coordinators.share.in_flight import Batch, InFlight, Run


class LogBatch(NamedTuple):
    """A batch that was read. `has_data` is False for what was aborted."""

    first: int
    last: int
    has_data: bool = True


class Acquisition:
    """One member's share of one read."""

    def __init__(
        self, in_flight: InFlight, member: str, deadline: int, deliveries: int, max_records: int, exactly: bool
    ) -> None:
        self._in_flight = in_flight
        self._member = member
        self._deadline = deadline
        self._deliveries = deliveries
        self._throttled_from = max(2, -(-deliveries // 2))
        self._exactly = exactly
        self._left = max_records
        self._closed = False  # no more in this fetch
        self.acquired: list[StateRun] = []

    # Again

    def again(self, first: int, last: int) -> None:
        """Take what is available among these offsets, batch after batch."""
        for batch in self._in_flight.overlapping(first, last):
            if self._left <= 0 or self._closed:
                return
            worn = max((run.deliveries for run in batch.runs if run.state is RecordState.AVAILABLE), default=-1)
            if worn < 0:
                continue
            if worn >= self._throttled_from and self.acquired:
                self._closed = True  # so that nothing else is drawn into what may fail again
                return
            batch.cut(first)
            batch.cut(last + 1)
            self._take_from(batch, first, last)
            batch.tidy()

    def _take_from(self, batch: Batch, first: int, last: int) -> None:
        allowed: int | None = self._left if self._exactly else None
        taken = 0
        for run in list(batch.runs):
            if run.state is not RecordState.AVAILABLE or run.first < first or run.last > last:
                continue
            if run.deliveries >= self._throttled_from and not self._closed:
                half = max(1, len(batch) >> (run.deliveries - self._throttled_from + 1))
                allowed = half if allowed is None else min(allowed, half)
                self._closed = True
            if run.deliveries == self._deliveries - 1 and self._deliveries > 2:
                if taken:
                    return
                allowed = 1
                self._closed = True
            if allowed is not None and allowed - taken < len(run):
                if allowed <= taken:
                    return
                batch.cut(run.first + allowed - taken)
                run = next(one for one in batch.runs if one.first == run.first)
            taken += len(run)
            self._take(run)
            if allowed is not None and taken >= allowed:
                return

    def _take(self, run: Run) -> None:
        run.set(RecordState.ACQUIRED, run.deliveries + 1, self._member, self._deadline)
        self.acquired.append(run.stored())
        self._left -= len(run)

    # New

    def fresh(self, position: int, batches: Sequence[LogBatch], room: int, batch_size: int) -> int:
        """Take new records, as many as there is room for; returns the last offset that is under way now."""
        budget = min(self._left, room)
        if budget <= 0 or self._closed:
            return position - 1
        pending: tuple[int, int] | None = None  # neighbours that become one batch
        for batch in batches:
            first, last = max(batch.first, position), batch.last
            if not batch.has_data or first > position:
                self._add(pending)
                pending = None
                hole_until = last if not batch.has_data else first - 1
                self._in_flight.add(position, hole_until, RecordState.ARCHIVED, 0)
                position = hole_until + 1
                if not batch.has_data:
                    continue
            if budget <= 0:
                break
            if self._exactly:
                last = min(last, first + budget - 1)
            if pending is not None and last - pending[0] + 1 > batch_size:
                self._add(pending)
                pending = None
            pending = (first if pending is None else pending[0], last)
            budget -= last - first + 1
            position = last + 1
            if last < batch.last:
                break
        self._add(pending)
        return position - 1

    def _add(self, pending: tuple[int, int] | None) -> None:
        if pending is not None:
            first, last = pending
            self._in_flight.add(first, last, RecordState.ACQUIRED, 1, self._member, self._deadline)
            self.acquired.append(StateRun(first, last, RecordState.ACQUIRED, 1))
            self._left -= last - first + 1
