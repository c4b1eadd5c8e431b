"""A partition as a share group reads it: who has which records, how often they were delivered, what is done (KIP-932).

Rule: all of this is soft. What must outlive the process goes as a `Change` to the share coordinator, and only when that
has it does the change take effect here. Records that were handed out and not heard of again are handed out again by the
next leader, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from pykafka_broker.coordinators.share.acquisition import Acquisition, LogBatch
from pykafka_broker.coordinators.share.delivery import RecordState, StateRun, joined
from pykafka_broker.coordinators.share.in_flight import InFlight, Run
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode

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
