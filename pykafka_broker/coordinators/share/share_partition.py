"""A partition as a share group reads it: which member has which records, how often they were delivered, which are done.

Rule: the state of a share partition is soft (KIP-932). A change that must outlive the process goes as a `Change` to the
share coordinator, and takes effect here only when the coordinator has it. The next leader hands out again the records
whose acknowledgement has not been stored.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from pykafka_broker.coordinators.share.state import TERMINAL, RecordState, StateRun, joined
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode

# Records under way


class Run:
    """Neighbouring offsets with the same fate."""

    __slots__ = ("deadline", "deliveries", "first", "last", "member", "state")

    def __init__(
        self, first: int, last: int, state: RecordState, deliveries: int, member: str = "", deadline: int = 0
    ) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.deliveries = deliveries  # how often it has been delivered
        self.member = member  # who has it, while ACQUIRED
        self.deadline = deadline  # until when, in epoch milliseconds

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __repr__(self) -> str:
        return f"Run({self.first}-{self.last} {self.state.name} x{self.deliveries} {self.member})"

    def set(self, state: RecordState, deliveries: int, member: str = "", deadline: int = 0) -> None:
        self.state = state
        self.deliveries = deliveries
        self.member = member
        self.deadline = deadline

    def stored(self) -> StateRun:
        return StateRun(self.first, self.last, self.state, self.deliveries)


class Batch:
    """The extent of an acquisition, and what has become of its offsets."""

    __slots__ = ("first", "last", "runs")

    def __init__(self, first: int, last: int, runs: list[Run]) -> None:
        self.first = first
        self.last = last
        self.runs = runs

    def __len__(self) -> int:
        return self.last - self.first + 1

    @property
    def is_done(self) -> bool:
        return all(run.state in TERMINAL for run in self.runs)

    def cut(self, offset: int) -> None:
        """Let a run begin at this offset."""
        for index, run in enumerate(self.runs):
            if run.first < offset <= run.last:
                rest = Run(offset, run.last, run.state, run.deliveries, run.member, run.deadline)
                run.last = offset - 1
                self.runs.insert(index + 1, rest)
                return

    def tidy(self) -> None:
        """Join neighbours that have become the same."""
        tidy = [self.runs[0]]
        for run in self.runs[1:]:
            before = tidy[-1]
            same = before.state is run.state and before.deliveries == run.deliveries and before.member == run.member
            if same and before.deadline == run.deadline:
                before.last = run.last
            else:
                tidy.append(run)
        self.runs = tidy


class InFlight:
    """The batches of records under way, from the start offset to the last record that was read, in order.

    Batches follow each other without a hole, and so do the runs in a batch. A batch is what one acquisition took when
    the records were new; it keeps its extent, by which the deliveries of a batch that fails again are cut down.
    """

    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def __bool__(self) -> bool:
        return bool(self.batches)

    def add(
        self, first: int, last: int, state: RecordState, deliveries: int, member: str = "", deadline: int = 0
    ) -> None:
        """A new batch at the end."""
        self.batches.append(Batch(first, last, [Run(first, last, state, deliveries, member, deadline)]))

    def overlapping(self, first: int, last: int) -> Iterator[Batch]:
        """The batches that have one of these offsets."""
        batches = self.batches
        index = max(0, bisect_right(batches, first, key=_first_of) - 1)
        while index < len(batches) and batches[index].first <= last:
            if batches[index].last >= first:
                yield batches[index]
            index += 1

    def runs(self) -> Iterator[Run]:
        for batch in self.batches:
            yield from batch.runs

    def between(self, first: int, last: int) -> list[Run]:
        """The runs of exactly these offsets; those at the ends are cut. What is not under way is left out."""
        found: list[Run] = []
        for batch in list(self.overlapping(first, last)):
            batch.cut(first)
            batch.cut(last + 1)
            found += [run for run in batch.runs if first <= run.first and run.last <= last]
        return found

    def tidy(self, first: int, last: int) -> None:
        """Join what has become the same around these offsets."""
        for batch in self.overlapping(first, last):
            batch.tidy()

    def drop_done(self) -> int | None:
        """Forget what is done at the front; returns the offset of the first that is not, None if all of it is."""
        done = 0
        for batch in self.batches:
            if not batch.is_done:
                break
            done += 1
        del self.batches[:done]
        if not self.batches:
            return None
        return next(run.first for run in self.batches[0].runs if run.state not in TERMINAL)

    def done_count(self, from_offset: int) -> int:
        """How many records are done from this offset on."""
        return sum(
            run.last - max(run.first, from_offset) + 1
            for run in self.runs()
            if run.state in TERMINAL and run.last >= from_offset
        )


def _first_of(batch: Batch) -> int:
    return batch.first


# Handing records out


class LogBatch(NamedTuple):
    """A batch that was read. `has_data` is False for what was aborted."""

    first: int
    last: int
    has_data: bool = True


class Acquisition:
    """One member's share of one read: first the records that have come back, then new ones.

    A log batch is handed out whole unless the member wants exactly so many records. A batch that comes back again and
    again may contain a record that kills its reader: from the half of its deliveries on the batch is cut in half, and a
    record with one delivery left goes out alone.
    """

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


# The share partition


GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)  # acknowledge types
_BEFORE_ALL = -2  # offset -1 is taken too, and means nothing
_NOT_ACQUIRED = "The offset cannot be acknowledged. The offset is not acquired."


class Limits(NamedTuple):
    """The group's settings, as they are at the time of a call."""

    lock_ms: int
    deliveries: int
    locks: int
    may_renew: bool


class AckBatch(NamedTuple):
    """One batch of acknowledgements: one type for all offsets, or one for each."""

    first: int
    last: int
    types: Sequence[int]


class Change(NamedTuple):
    """What is to be stored: `runs`, at this start offset."""

    start_offset: int
    complete_count: int
    runs: list[StateRun]


Store = Callable[[Change], None]  # raises ApiError if it can't be stored


class SharePartition:
    """Made from what the share coordinator has stored, or from a start offset alone."""

    def __init__(self, start_offset: int, stored: Iterable[StateRun], state_epoch: int) -> None:
        self.start_offset = start_offset
        self.end_offset = start_offset - 1  # the last one that is under way
        self.state_epoch = state_epoch
        self.in_flight = InFlight()
        self.due: int | None = None  # no lock ends before
        self._may_redeliver = False  # there may be available records before the end
        for run in stored:
            self._restore(run)
        self._advance()

    def _restore(self, run: StateRun) -> None:
        if run.last < self.start_offset:
            return
        first = max(run.first, self.start_offset)
        if first > self.end_offset + 1:
            # Handed out by an earlier leader and not heard of again.
            self.in_flight.add(self.end_offset + 1, first - 1, RecordState.AVAILABLE, 0)
        state = RecordState.AVAILABLE if run.state == RecordState.ACQUIRED else RecordState(run.state)
        self.in_flight.add(first, run.last, state, run.deliveries)
        self.end_offset = run.last
        self._may_redeliver = True

    # Reading

    @property
    def next_fetch_offset(self) -> int:
        """Where the next read begins: at the first record that is free to be delivered again, or behind all."""
        if self._may_redeliver:
            for run in self.in_flight.runs():
                if run.state is RecordState.AVAILABLE:
                    return run.first
            self._may_redeliver = False
        return self.end_offset + 1

    def can_acquire(self, limits: Limits) -> bool:
        """Whether there is room, or something to be delivered again."""
        return self.next_fetch_offset <= self.end_offset or self.room(limits) > 0

    def room(self, limits: Limits) -> int:
        """How many new records may be under way."""
        return limits.locks - (self.end_offset - self.start_offset + 1)

    def acquire(
        self,
        member: str,
        batches: Sequence[LogBatch],
        max_records: int,
        batch_size: int,
        exactly: bool,
        limits: Limits,
        now: int,
    ) -> list[StateRun]:
        """Hand out what has been read from `next_fetch_offset` on; returns what the member has got. `exactly`: not
        one more than `max_records`, where else the last batch may be whole."""
        if max_records <= 0 or not batches:
            return []
        asked_from = self.next_fetch_offset
        self._drop_what_is_gone(asked_from, batches)
        deadline = now + limits.lock_ms
        acquisition = Acquisition(self.in_flight, member, deadline, limits.deliveries, max_records, exactly)
        acquisition.again(asked_from, min(self.end_offset, batches[-1].last))
        new = [batch for batch in batches if batch.last > self.end_offset]
        if new:
            self.end_offset = acquisition.fresh(self.end_offset + 1, new, self.room(limits), batch_size)
        if acquisition.acquired:
            self.due = deadline if self.due is None else min(self.due, deadline)
        self._advance()
        return joined(acquisition.acquired)

    def _drop_what_is_gone(self, asked_from: int, batches: Sequence[LogBatch]) -> None:
        """Compaction and aborted transactions leave offsets with nothing to deliver."""
        position = asked_from
        for batch in batches:
            self._archive_available(position, batch.first - 1)
            if not batch.has_data:
                self._archive_available(batch.first, batch.last)
            position = batch.last + 1

    def _archive_available(self, first: int, last: int) -> None:
        if first > last or first > self.end_offset:
            return
        for run in self.in_flight.between(first, last):
            if run.state is RecordState.AVAILABLE:
                run.set(RecordState.ARCHIVED, run.deliveries)
        self.in_flight.tidy(first, last)

    def log_starts_at(self, offset: int) -> None:
        """Records before this offset are gone. Those that somebody has may still be acknowledged."""
        if offset <= self.start_offset:
            return
        self._archive_available(self.start_offset, offset - 1)
        if offset > self.end_offset and all(run.state is not RecordState.ACQUIRED for run in self.in_flight.runs()):
            self.in_flight.batches.clear()
            self.start_offset, self.end_offset = offset, offset - 1
        self._advance()

    # Acknowledging

    def acknowledge(
        self, member: str, batches: Sequence[AckBatch], limits: Limits, now: int, store: Store
    ) -> Callable[[], None]:
        """Take all of it or, raising what is wrong, nothing. It is stored, and shows when the result is called."""
        decided: list[StateRun] = []
        renewed: list[Run] = []
        reached = _BEFORE_ALL
        for batch in batches:
            self._check_known(batch)
            if batch.first <= reached:
                raise ApiError(ErrorCode.INVALID_RECORD_STATE, _NOT_ACQUIRED)
            reached = batch.last
            for first, last, kind in _by_type(batch):
                for run in self.in_flight.between(max(first, self.start_offset), last):
                    self._check_owner(run, member)
                    if kind == RENEW:
                        renewed.append(run)
                    else:
                        decided.append(_decision(run, kind, limits))
        if renewed and not limits.may_renew:
            raise ApiError(ErrorCode.INVALID_RECORD_STATE, "Renewing acquisition locks is not enabled for the group.")
        self._store(decided, store)
        for run in renewed:
            run.deadline = now + limits.lock_ms
        return partial(self._settle, decided)

    def _check_known(self, batch: AckBatch) -> None:
        if batch.last < self.start_offset:
            return
        if not self.in_flight:
            raise ApiError(
                ErrorCode.INVALID_RECORD_STATE,
                "Batch record not found. The request batch offsets are not found in the cache.",
            )
        for name, offset in (("first", batch.first), ("last", batch.last)):
            if offset > self.end_offset:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"Batch record not found. The {name} offset in request is past acquired records.",
                )

    def _check_owner(self, run: Run, member: str) -> None:
        if run.state is not RecordState.ACQUIRED:
            raise ApiError(ErrorCode.INVALID_RECORD_STATE, _NOT_ACQUIRED)
        if run.member != member:
            raise ApiError(ErrorCode.INVALID_RECORD_STATE, "Member is not the owner of batch record")

    def release(self, member: str, limits: Limits, store: Store) -> Callable[[], None] | None:
        """The member's session has ended: what it has is free again, once the result is called. None if it has
        nothing.
        """
        return self._free([run for run in self._acquired() if run.member == member], limits, store)

    def on_deadline(self, limits: Limits, now: int, store: Store) -> Callable[[], None] | None:
        """Free what has been locked for too long, in the same way."""
        freed = self._free([run for run in self._acquired() if run.deadline <= now], limits, store)
        if freed is None:
            self._look_at_locks()
        return freed

    def _look_at_locks(self) -> None:
        self.due = min((run.deadline for run in self._acquired()), default=None)

    @property
    def has_locks(self) -> bool:
        """Return whether a member has records, or has let their locks run out unseen."""
        return bool(self._acquired())

    def _acquired(self) -> list[Run]:
        return [run for run in self.in_flight.runs() if run.state is RecordState.ACQUIRED]

    def _free(self, runs: list[Run], limits: Limits, store: Store) -> Callable[[], None] | None:
        if not runs:
            return None
        decided = [_decision(run, RELEASE, limits) for run in runs]
        self._store(decided, store)

        def settle() -> None:
            self._settle(decided)
            self._look_at_locks()

        return settle

    # One change

    def _store(self, decided: list[StateRun], store: Store) -> None:
        if not decided:
            return
        done = sum(one.last - one.first + 1 for one in decided if one.state != RecordState.AVAILABLE)
        store(Change(self.start_offset, self.in_flight.done_count(self.start_offset) + done, joined(decided)))

    def _settle(self, decided: list[StateRun]) -> None:
        """Let it be so. Runs may have been cut or joined since; one that was delivered again is another's business."""
        if decided:
            first, last = decided[0].first, decided[-1].last
            runs = {(run.first, run.last): run for run in self.in_flight.between(first, last)}
            for one in decided:
                same = runs.get((one.first, one.last))
                for run in [same] if same is not None else self.in_flight.between(one.first, one.last):
                    if run.state is RecordState.ACQUIRED and run.deliveries == one.deliveries:
                        run.set(RecordState(one.state), run.deliveries)
                        self._may_redeliver |= one.state == RecordState.AVAILABLE
            self.in_flight.tidy(first, last)
        self._advance()

    def _advance(self) -> None:
        """Leave behind what is done."""
        if self.in_flight:
            first = self.in_flight.drop_done()
            self.start_offset = self.end_offset + 1 if first is None else max(first, self.start_offset)


def _by_type(batch: AckBatch) -> list[tuple[int, int, int]]:
    """Runs of offsets with one type."""
    if len(batch.types) == 1:
        return [(batch.first, batch.last, batch.types[0])]
    runs: list[tuple[int, int, int]] = []
    for offset, kind in enumerate(batch.types, batch.first):
        if runs and runs[-1][2] == kind:
            runs[-1] = (runs[-1][0], offset, kind)
        else:
            runs.append((offset, offset, kind))
    return runs


def _decision(run: Run, kind: int, limits: Limits) -> StateRun:
    """What becomes of it."""
    state = RecordState.ARCHIVED
    if kind == ACCEPT:
        state = RecordState.ACKNOWLEDGED
    elif kind == RELEASE and run.deliveries < limits.deliveries:
        state = RecordState.AVAILABLE
    return StateRun(run.first, run.last, state, run.deliveries)


# `share.auto.offset.reset` with a duration, as in "by_duration:P1DT2H"


BY_DURATION = "by_duration:"
_DURATION = re.compile(
    r"P(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d{1,9})?)S)?)?", re.IGNORECASE
)
_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000}


def reset_time(reset: str, now: int) -> int:
    """Return the time from which on a group wants records.

    The duration is ISO 8601 as Java's Duration reads it: months and years have no fixed length and are refused.
    """
    match = _DURATION.fullmatch(reset.removeprefix(BY_DURATION))
    if match is None:
        return now
    return now - int(sum(float(match[unit]) * ms for unit, ms in _MS.items() if match[unit]))
