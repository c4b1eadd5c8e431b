"""A partition as a share group reads it: which member has which records, how often they were delivered, which are done.

Rule: the state of a share partition is soft (KIP-932). A change that must outlive the process goes as a `Change` to the
share coordinator, and takes effect here only when the coordinator has it. Until then records may be handed out, but the
owner of the share partition asks for no other change: the end of a lock would free a record whose acknowledgement is
being stored. The next leader hands out again the records whose acknowledgement has not been stored.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import takewhile
from typing import NamedTuple

from pykafka_broker.coordinators.share.dead_letters import EXCEEDED, REJECTED, DeadLetters
from pykafka_broker.coordinators.share.state import TERMINAL, RecordState, StateRun, coalesced
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode

# Records under way


class Run:
    """Neighbouring offsets in the same state."""

    __slots__ = ("deadline", "deliveries", "first", "last", "member", "state")

    def __init__(
        self, first: int, last: int, state: RecordState, deliveries: int, member: str = "", deadline: int = 0
    ) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.deliveries = deliveries  # how often the offsets have been delivered
        self.member = member  # the owner while ACQUIRED
        self.deadline = deadline  # the end of the lock, in epoch milliseconds

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


class InFlightBatch:
    """The extent of an acquisition, and the runs of the batch's offsets."""

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
        """Split the run around `offset` in two, before `offset`."""
        for index, run in enumerate(self.runs):
            if run.first < offset <= run.last:
                rest = Run(offset, run.last, run.state, run.deliveries, run.member, run.deadline)
                run.last = offset - 1
                self.runs.insert(index + 1, rest)
                return

    def tidy(self) -> None:
        """Join neighbouring runs in the same state."""
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
    """The batches of records under way, from the start offset to the end offset, in order.

    Batches follow each other without a hole, and so do the runs in a batch. A batch has the new records of one
    acquisition, and keeps its extent: a repeated delivery is cut down by this size.
    """

    def __init__(self) -> None:
        self.batches: list[InFlightBatch] = []

    def __bool__(self) -> bool:
        return bool(self.batches)

    def add(
        self, first: int, last: int, state: RecordState, deliveries: int, member: str = "", deadline: int = 0
    ) -> None:
        """Add a batch at the end."""
        self.batches.append(InFlightBatch(first, last, [Run(first, last, state, deliveries, member, deadline)]))

    def overlapping(self, first: int, last: int) -> Iterator[InFlightBatch]:
        """Yield the batches with an offset in the range."""
        batches = self.batches
        index = max(0, bisect_right(batches, first, key=lambda batch: batch.first) - 1)
        while index < len(batches) and batches[index].first <= last:
            if batches[index].last >= first:
                yield batches[index]
            index += 1

    def runs(self) -> Iterator[Run]:
        for batch in self.batches:
            yield from batch.runs

    def between(self, first: int, last: int) -> list[Run]:
        """Return the runs of exactly the range, cut at the ends; offsets outside of all batches are left out."""
        found: list[Run] = []
        for batch in list(self.overlapping(first, last)):
            batch.cut(first)
            batch.cut(last + 1)
            found += [run for run in batch.runs if first <= run.first and run.last <= last]
        return found

    def tidy(self, first: int, last: int) -> None:
        """Join equal neighbouring runs around the range."""
        for batch in self.overlapping(first, last):
            batch.tidy()

    def drop_done(self) -> int | None:
        """Forget done batches at the front. Returns the offset of the first record left, or None."""
        done = sum(1 for _ in takewhile(lambda batch: batch.is_done, self.batches))
        del self.batches[:done]
        if not self.batches:
            return None
        return next(run.first for run in self.batches[0].runs if run.state not in TERMINAL)

    def done_count(self, from_offset: int) -> int:
        return sum(
            run.last - max(run.first, from_offset) + 1
            for run in self.runs()
            if run.state in TERMINAL and run.last >= from_offset
        )


# Handing records out


class LogBatch(NamedTuple):
    """A batch of the log. `has_data` is False for aborted records."""

    first: int
    last: int
    has_data: bool = True


class Acquisition:
    """A member's share of a read: first records for another delivery, then new records.

    A log batch is handed out whole unless the member wants an exact number of records. A batch that comes back again
    and again may contain a record that kills its reader. So after half of the allowed deliveries a batch is cut in half
    at each delivery, and a record with one delivery left goes out alone.
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
        self._closed = False  # True: no more records in this fetch
        self.acquired: list[StateRun] = []

    # Records for another delivery

    def acquire_available(self, first: int, last: int) -> None:
        """Take available records in the range, batch after batch."""
        for batch in self._in_flight.overlapping(first, last):
            if self._left <= 0 or self._closed:
                return
            worn = max((run.deliveries for run in batch.runs if run.state is RecordState.AVAILABLE), default=-1)
            if worn < 0:
                continue
            if worn >= self._throttled_from and self.acquired:
                self._closed = True  # keeps other records out of a delivery that may fail again
                return
            batch.cut(first)
            batch.cut(last + 1)
            self._take_from(batch, first, last)
            batch.tidy()

    def _take_from(self, batch: InFlightBatch, first: int, last: int) -> None:
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
                run = next(cut for cut in batch.runs if cut.first == run.first)
            taken += len(run)
            self._take(run)
            if allowed is not None and taken >= allowed:
                return

    def _take(self, run: Run) -> None:
        run.set(RecordState.ACQUIRED, run.deliveries + 1, self._member, self._deadline)
        self.acquired.append(run.stored())
        self._left -= len(run)

    # New records

    def acquire_new(self, position: int, batches: Sequence[LogBatch], room: int, batch_size: int) -> int:
        """Take new records, up to `room`. Returns the last offset under way."""
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
_BEFORE_ALL = -2  # offset -1 is accepted, and means nothing
_NOT_ACQUIRED = "The offset cannot be acknowledged. The offset is not acquired."


class SharePartitionLimits(NamedTuple):
    """The group's settings at the time of a call. has_dead_letters: the group has a dead-letter topic."""

    lock_ms: int
    deliveries: int
    locks: int
    may_renew: bool
    has_dead_letters: bool = False


class AckBatch(NamedTuple):
    """A batch of acknowledgements: a single type for all offsets, or a type for each offset."""

    first: int
    last: int
    types: Sequence[int]


class Change(NamedTuple):
    """A change to store: `runs`, at the start offset."""

    start_offset: int
    complete_count: int
    runs: list[StateRun]


Store = Callable[[Change], None]  # raises ApiError if the change can't be stored


class SharePartition:
    """The state of a partition for a share group, from the share coordinator's state or a start offset alone."""

    def __init__(self, start_offset: int, stored: Iterable[StateRun], state_epoch: int) -> None:
        self.start_offset = start_offset
        self.end_offset = start_offset - 1  # the last offset under way
        self.state_epoch = state_epoch
        self.in_flight = InFlight()
        self.due: int | None = None  # no lock ends before this time
        self._given_up: list[DeadLetters] = []  # not yet taken by `take_given_up`
        self._may_redeliver = False  # there may be available records before the end
        for run in stored:
            self._restore(run)
        self._advance()

    def _restore(self, run: StateRun) -> None:
        if run.last < self.start_offset:
            return
        first = max(run.first, self.start_offset)
        if first > self.end_offset + 1:
            # An earlier leader handed these out, and the acknowledgement has not been stored.
            self.in_flight.add(self.end_offset + 1, first - 1, RecordState.AVAILABLE, 0)
        state = RecordState.AVAILABLE if run.state == RecordState.ACQUIRED else RecordState(run.state)
        self.in_flight.add(first, run.last, state, run.deliveries)
        self.end_offset = run.last
        self._may_redeliver = True

    # Reading

    @property
    def next_fetch_offset(self) -> int:
        """Return where the next read begins: at the first available record, or behind all records."""
        if self._may_redeliver:
            for run in self.in_flight.runs():
                if run.state is RecordState.AVAILABLE:
                    return run.first
            self._may_redeliver = False
        return self.end_offset + 1

    def can_acquire(self, limits: SharePartitionLimits) -> bool:
        """Return whether a record is available again, or room for new records left."""
        return self.next_fetch_offset <= self.end_offset or self.room(limits) > 0

    def room(self, limits: SharePartitionLimits) -> int:
        """Return how many new records may be under way."""
        return limits.locks - (self.end_offset - self.start_offset + 1)

    def acquire(
        self,
        member: str,
        batches: Sequence[LogBatch],
        max_records: int,
        batch_size: int,
        exactly: bool,
        limits: SharePartitionLimits,
        now: int,
    ) -> list[StateRun]:
        """Hand out records of a read from `next_fetch_offset` on.

        Args:
            exactly: Hand out at most `max_records`; else the last batch may be whole.

        Returns:
            The runs of the member's records.
        """
        if max_records <= 0 or not batches:
            return []
        asked_from = self.next_fetch_offset
        self._archive_gaps(asked_from, batches)
        deadline = now + limits.lock_ms
        acquisition = Acquisition(self.in_flight, member, deadline, limits.deliveries, max_records, exactly)
        acquisition.acquire_available(asked_from, min(self.end_offset, batches[-1].last))
        new = [batch for batch in batches if batch.last > self.end_offset]
        if new:
            self.end_offset = acquisition.acquire_new(self.end_offset + 1, new, self.room(limits), batch_size)
        if acquisition.acquired:
            self.due = deadline if self.due is None else min(self.due, deadline)
        self._advance()
        return coalesced(acquisition.acquired)

    def _archive_gaps(self, asked_from: int, batches: Sequence[LogBatch]) -> None:
        """Archive offsets without a record: compaction and aborted transactions leave such offsets."""
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
        """Archive available records before `offset`. A member may still acknowledge acquired records."""
        if offset <= self.start_offset:
            return
        self._archive_available(self.start_offset, offset - 1)
        if offset > self.end_offset and not self.has_locks:
            self.in_flight.batches.clear()
            self.start_offset, self.end_offset = offset, offset - 1
        self._advance()

    # Acknowledging

    def acknowledge(
        self, member: str, batches: Sequence[AckBatch], limits: SharePartitionLimits, now: int, store: Store
    ) -> Callable[[], None]:
        """Check and store acknowledgements; calling the result puts the change into effect.

        Raises ApiError: An acknowledgement is wrong, and no acknowledgement has an effect.
        """
        decided: list[StateRun] = []
        rejected: set[StateRun] = set()
        renewed: list[Run] = []
        reached = _BEFORE_ALL
        for batch in batches:
            if batch.last < self.start_offset:
                continue  # the group is done with these records
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
                        if kind == REJECT:
                            rejected.add(decided[-1])
        if renewed and not limits.may_renew:
            raise ApiError(ErrorCode.INVALID_RECORD_STATE, "Renewing acquisition locks is not enabled for the group.")
        self._store(decided, store)
        for run in renewed:
            run.deadline = now + limits.lock_ms
        return partial(self._settle, decided, rejected)

    def _check_known(self, batch: AckBatch) -> None:
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

    def release(self, member: str, limits: SharePartitionLimits, store: Store) -> Callable[[], None] | None:
        """Free the records of a member after the end of the session; calling the result puts the change into effect.

        Returns:
            None if the member has no records.
        """
        return self._free([run for run in self._acquired() if run.member == member], limits, store)

    def on_deadline(
        self, now: int, waiting: Collection[str], limits: SharePartitionLimits, store: Store
    ) -> Callable[[], None] | None:
        """Free records after the end of the lock; calling the result puts the change into effect.

        waiting: The ids of members with an acknowledgement that waits; their records stay.
        """
        over = [run for run in self._acquired() if run.deadline <= now and run.member not in waiting]
        freed = self._free(over, limits, store)
        if freed is None:
            self._look_at_locks()
        return freed

    def _look_at_locks(self) -> None:
        self.due = min((run.deadline for run in self._acquired()), default=None)

    @property
    def has_locks(self) -> bool:
        """Return whether a member has records. A lock that has run out counts until `on_deadline`."""
        return bool(self._acquired())

    def _acquired(self) -> list[Run]:
        return [run for run in self.in_flight.runs() if run.state is RecordState.ACQUIRED]

    def _free(self, runs: list[Run], limits: SharePartitionLimits, store: Store) -> Callable[[], None] | None:
        if not runs:
            return None
        decided = [_decision(run, RELEASE, limits) for run in runs]
        self._store(decided, store)

        def settle() -> None:
            self._settle(decided)
            self._look_at_locks()

        return settle

    # Giving up

    def take_given_up(self) -> list[DeadLetters]:
        """Take out the records given up since the last call, which are to be copied to the dead-letter topic."""
        taken, self._given_up = self._given_up, []
        return taken

    def give_up_again(self, limits: SharePartitionLimits) -> None:
        """Give up again all records that this or an earlier leader has given up and not archived."""
        self._given_up = [
            DeadLetters(
                run.first, run.last, run.deliveries, EXCEEDED if run.deliveries >= limits.deliveries else REJECTED
            )
            for run in self.in_flight.runs()
            if run.state is RecordState.ARCHIVING
        ]

    def archive(self, letters: Iterable[DeadLetters], store: Store) -> Callable[[], None]:
        """Archive given-up records; calling the result puts the change into effect."""
        decided = [
            StateRun(run.first, run.last, RecordState.ARCHIVED, run.deliveries)
            for each in sorted(letters)
            for run in self.in_flight.between(each.first, each.last)
            if run.state is RecordState.ARCHIVING
        ]
        self._store(decided, store)
        return partial(self._settle, decided)

    # Changes

    def _store(self, decided: list[StateRun], store: Store) -> None:
        if not decided:
            return
        done = sum(run.last - run.first + 1 for run in decided if run.state in TERMINAL)
        store(Change(self.start_offset, self.in_flight.done_count(self.start_offset) + done, coalesced(decided)))

    def _settle(self, decided: list[StateRun], rejected: Collection[StateRun] = ()) -> None:
        """Put decided states into effect, with the runs cut or joined anew since the decision.

        Args:
            rejected: The decisions about records that a member has rejected.
        """
        if decided:
            first, last = decided[0].first, decided[-1].last
            runs = {(run.first, run.last): run for run in self.in_flight.between(first, last)}
            for decision in decided:
                same = runs.get((decision.first, decision.last))
                for run in [same] if same is not None else self.in_flight.between(decision.first, decision.last):
                    run.set(RecordState(decision.state), run.deliveries)
                    self._may_redeliver |= decision.state == RecordState.AVAILABLE
                    if decision.state == RecordState.ARCHIVING:
                        cause = REJECTED if decision in rejected else EXCEEDED
                        self._given_up.append(DeadLetters(run.first, run.last, run.deliveries, cause))
            self.in_flight.tidy(first, last)
        self._advance()

    def _advance(self) -> None:
        """Move the start offset behind done records."""
        if self.in_flight:
            first = self.in_flight.drop_done()
            self.start_offset = self.end_offset + 1 if first is None else max(first, self.start_offset)


def _by_type(batch: AckBatch) -> list[tuple[int, int, int]]:
    """Return runs of offsets with the same type."""
    if len(batch.types) == 1:
        return [(batch.first, batch.last, batch.types[0])]
    runs: list[tuple[int, int, int]] = []
    for offset, kind in enumerate(batch.types, batch.first):
        if runs and runs[-1][2] == kind:
            runs[-1] = (runs[-1][0], offset, kind)
        else:
            runs.append((offset, offset, kind))
    return runs


def _decision(run: Run, kind: int, limits: SharePartitionLimits) -> StateRun:
    """Return the state after an acknowledgement of type `kind`."""
    state = RecordState.ARCHIVED
    if kind == ACCEPT:
        state = RecordState.ACKNOWLEDGED
    elif kind == RELEASE and run.deliveries < limits.deliveries:
        state = RecordState.AVAILABLE
    elif kind != GAP and limits.has_dead_letters:
        state = RecordState.ARCHIVING
    return StateRun(run.first, run.last, state, run.deliveries)
