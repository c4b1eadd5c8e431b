"""A share partition: delivery, acknowledgement, and the state for the next leader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pykafka_broker.coordinators.share.dead_letters import EXCEEDED, REJECTED, DeadLetters
from pykafka_broker.coordinators.share.share_partition import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    AckBatch,
    Change,
    LogBatch,
    SharePartition,
    SharePartitionLimits,
)
from pykafka_broker.coordinators.share.state import TERMINAL, RecordState, StateRun, overlaid
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode

LIMITS = SharePartitionLimits(lock_ms=30_000, deliveries=5, locks=2000, may_renew=True)


class Reader:
    """A share partition over a log of batches, with the states that it has stored."""

    def __init__(self, *batches: LogBatch, start: int = 0, stored: list[StateRun] | None = None) -> None:
        self.log = list(batches)
        self.share = SharePartition(start, stored or [], 1)
        self.changes: list[Change] = []
        self.now = 0

    def fetch(
        self, member: str = "one", records: int = 500, exactly: bool = False, limits: SharePartitionLimits = LIMITS
    ) -> list[tuple[int, int, int]]:
        offset = self.share.next_fetch_offset
        batches = [batch for batch in self.log if batch.last >= offset]
        got = self.share.acquire(member, batches, records, 500, exactly, limits, self.now)
        return [(run.first, run.last, run.deliveries) for run in got]

    def ack(
        self, first: int, last: int, *types: int, member: str = "one", limits: SharePartitionLimits = LIMITS
    ) -> None:
        self.acked_at_last(first, last, *types, member=member, limits=limits)()

    def time_is(self, now: int) -> bool:
        """Let the time be `now` and return whether any locks have ended."""
        show = self.share.on_deadline(now, (), LIMITS, self.changes.append)
        if show is not None:
            show()
        return show is not None

    def acked_at_last(
        self, first: int, last: int, *types: int, member: str = "one", limits: SharePartitionLimits = LIMITS
    ) -> Callable[[], None]:
        """Not yet to be seen."""
        batches = [AckBatch(first, last, types)]
        return self.share.acknowledge(member, batches, limits, self.now, self.changes.append)


def test_the_last_batch_is_whole_unless_told_otherwise() -> None:
    reader = Reader(LogBatch(0, 2), LogBatch(3, 5))
    assert reader.fetch(records=1) == [(0, 2, 1)]
    assert reader.fetch(records=2, exactly=True) == [(3, 4, 1)]
    assert reader.fetch() == [(5, 5, 1)]
    assert reader.fetch() == []


def test_what_is_acknowledged_is_locked_until_it_is_shown() -> None:
    reader = Reader(LogBatch(0, 3), LogBatch(4, 5))
    reader.fetch(records=1)
    released = reader.acked_at_last(0, 1, RELEASE)
    assert reader.changes == [Change(0, 0, [StateRun(0, 1, RecordState.AVAILABLE, 1)])]
    assert reader.fetch() == [(4, 5, 1)]
    released()
    assert reader.fetch() == [(0, 1, 2)]


def test_locks_that_are_joined_meanwhile_are_told_apart_again() -> None:
    reader = Reader(LogBatch(0, 3))
    reader.fetch()
    reader.ack(0, 0, RELEASE)
    accepted = reader.acked_at_last(2, 3, ACCEPT)
    assert reader.fetch() == [(0, 0, 2)]  # which makes one run of 1 to 3
    accepted()
    reader.ack(0, 1, ACCEPT, RELEASE)
    assert reader.fetch() == [(1, 1, 2)]


@pytest.mark.parametrize(("first", "last"), [(0, 0), (2, 2), (0, 5)])
def test_where_nothing_is_under_way_nothing_is_acquired(first: int, last: int) -> None:
    reader = Reader(LogBatch(0, 1))
    with pytest.raises(ApiError) as caught:
        reader.ack(first, last, ACCEPT)
    assert caught.value.code is ErrorCode.INVALID_RECORD_STATE
    reader.fetch()
    with pytest.raises(ApiError) as caught:
        reader.ack(2, 2, ACCEPT)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    reader.ack(-1, 0, ACCEPT)
    reader.ack(-1, -1, ACCEPT)


def test_what_is_done_at_the_front_is_left_behind() -> None:
    reader = Reader(LogBatch(0, 5))
    reader.fetch()
    reader.ack(1, 2, ACCEPT)
    assert reader.share.start_offset == 0
    reader.ack(0, 0, REJECT)
    assert reader.share.start_offset == 3
    # The start offset that was written with a change is the one before it.
    assert [(change.start_offset, change.complete_count) for change in reader.changes] == [(0, 2), (0, 3)]


def test_one_wrong_acknowledgement_spoils_all_of_its_partition() -> None:
    reader = Reader(LogBatch(0, 1), LogBatch(2, 3))
    reader.fetch("one", records=1)
    reader.fetch("two")
    with pytest.raises(ApiError) as caught:
        reader.ack(0, 2, ACCEPT)
    assert caught.value.code is ErrorCode.INVALID_RECORD_STATE
    assert not reader.changes
    reader.ack(0, 1, ACCEPT)


def test_where_nothing_was_handed_out_nothing_can_be_acknowledged() -> None:
    reader = Reader(LogBatch(0, 2))
    with pytest.raises(ApiError) as refused:
        reader.ack(0, 0, ACCEPT)
    assert refused.value.code is ErrorCode.INVALID_RECORD_STATE


def test_nothing_happens_if_it_can_not_be_stored() -> None:
    reader = Reader(LogBatch(0, 1))
    reader.fetch()

    def refuse(change: Change) -> None:
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    for types in ([ACCEPT], [ACCEPT, RENEW]):
        with pytest.raises(ApiError):
            reader.share.acknowledge("one", [AckBatch(0, 1, types)], LIMITS, 20_000, refuse)
    reader.ack(0, 0, ACCEPT)
    assert reader.time_is(30_000), "the lock was not renewed"


def test_compacted_offsets_and_aborted_batches_are_nobodys() -> None:
    reader = Reader(LogBatch(2, 3), LogBatch(4, 4, has_data=False), LogBatch(7, 8))
    assert reader.fetch() == [(2, 3, 1), (7, 8, 1)]
    reader.ack(2, 3, ACCEPT)
    assert reader.share.start_offset == 7


def test_offsets_that_compaction_took_since_are_not_waited_for() -> None:
    reader = Reader(LogBatch(0, 3), LogBatch(4, 5))
    reader.fetch()
    reader.ack(0, 5, RELEASE)
    reader.log = [LogBatch(4, 5)]
    assert reader.fetch() == [(4, 5, 2)]
    assert reader.share.start_offset == 4


def test_aborted_batches_alone_move_the_start() -> None:
    reader = Reader(LogBatch(0, 0, has_data=False))
    assert reader.fetch() == []
    assert (reader.share.start_offset, reader.share.next_fetch_offset) == (1, 1)


def test_locks_end_one_by_one() -> None:
    reader = Reader(LogBatch(0, 1), LogBatch(2, 3))
    reader.fetch("one", records=1)
    reader.now = 10_000
    reader.fetch("two")
    assert reader.share.due == 30_000
    assert reader.time_is(30_000)
    assert reader.share.due == 40_000
    assert reader.fetch("two") == [(0, 1, 2)]


def test_without_locks_no_deadline_is_left() -> None:
    reader = Reader(LogBatch(0, 1))
    reader.fetch()
    reader.ack(0, 1, ACCEPT)
    assert not reader.time_is(30_000)
    assert reader.share.due is None


def test_a_renewed_lock_lasts() -> None:
    reader = Reader(LogBatch(0, 1))
    reader.fetch()
    reader.now = 20_000
    reader.ack(0, 0, RENEW)
    assert not reader.changes  # nothing to store
    assert reader.time_is(30_000)
    assert reader.changes[-1].runs == [StateRun(1, 1, RecordState.AVAILABLE, 1)]
    reader.ack(0, 0, ACCEPT)


def test_the_last_delivery_ends_archived() -> None:
    reader = Reader(LogBatch(0, 0))
    for count in range(1, 6):
        assert reader.fetch() == [(0, 0, count)]
        reader.ack(0, 0, RELEASE)
    assert reader.changes[-1].runs == [StateRun(0, 0, RecordState.ARCHIVED, 5)]
    assert reader.fetch() == []


@pytest.mark.parametrize("base", [0, 1000])
def test_a_batch_that_fails_again_and_again_is_cut_down(base: int) -> None:
    reader = Reader(LogBatch(base, base + 7), LogBatch(base + 8, base + 9), start=base)
    for _ in range(3):
        assert reader.fetch(records=8)[0][:2] == (base, base + 7)
        reader.ack(base, base + 7, RELEASE)
    assert reader.fetch() == [(base, base + 3, 4)]
    assert reader.fetch() == [(base + 4, base + 7, 4)]
    reader.ack(base, base + 1, RELEASE)
    assert reader.fetch() == [(base, base, 5)]


def test_room_for_locks() -> None:
    reader = Reader(*(LogBatch(first, first + 9) for first in range(0, 200, 10)))
    limits = LIMITS._replace(locks=100)
    assert reader.fetch(limits=limits) == [(0, 99, 1)]
    assert not reader.share.can_acquire(limits)
    reader.ack(0, 9, ACCEPT)
    assert reader.fetch(limits=limits) == [(100, 109, 1)]


def test_a_new_leader_hands_out_what_nobody_has_heard_of() -> None:
    stored = [StateRun(1, 1, RecordState.ACKNOWLEDGED, 1), StateRun(3, 4, RecordState.AVAILABLE, 2)]
    reader = Reader(LogBatch(0, 5), start=0, stored=stored)
    assert reader.fetch() == [(0, 0, 1), (2, 2, 1), (3, 4, 3), (5, 5, 1)]


def test_the_log_may_start_later() -> None:
    reader = Reader(LogBatch(0, 3), LogBatch(4, 7))
    reader.fetch(records=1)
    reader.ack(0, 1, RELEASE)
    reader.share.log_starts_at(6)
    assert reader.share.start_offset == 2  # somebody still has it
    reader.ack(2, 3, ACCEPT)
    reader.share.log_starts_at(6)
    assert (reader.share.start_offset, reader.share.next_fetch_offset) == (6, 6)


WITH_LETTERS = LIMITS._replace(deliveries=2, has_dead_letters=True)


def test_records_with_dead_letters_are_archived_in_two_steps() -> None:
    reader = Reader(LogBatch(0, 4))
    reader.fetch()
    reader.ack(0, 4, REJECT, ACCEPT, GAP, RELEASE, REJECT, limits=WITH_LETTERS)
    letters = [DeadLetters(0, 0, 1, REJECTED), DeadLetters(4, 4, 1, REJECTED)]
    assert reader.share.take_given_up() == letters
    assert reader.share.take_given_up() == []
    assert reader.changes[-1].complete_count == 2
    assert reader.share.start_offset == 0
    reader.share.archive(letters[::-1], reader.changes.append)()
    archived = RecordState.ARCHIVED
    assert reader.changes[-1] == Change(0, 4, [StateRun(0, 0, archived, 1), StateRun(4, 4, archived, 1)])
    assert reader.share.start_offset == 3


def test_the_last_delivery_gives_up_whoever_ends_it() -> None:
    reader = Reader(LogBatch(0, 3), stored=[StateRun(0, 3, RecordState.AVAILABLE, 1)])
    reader.fetch(limits=WITH_LETTERS)
    reader.ack(0, 1, RELEASE, REJECT, limits=WITH_LETTERS)
    reader.fetch(limits=WITH_LETTERS)
    show = reader.share.on_deadline(30_000, (), WITH_LETTERS, reader.changes.append)
    assert show is not None
    show()
    assert reader.share.take_given_up() == [
        DeadLetters(0, 0, 2, EXCEEDED),
        DeadLetters(1, 1, 2, REJECTED),
        DeadLetters(2, 3, 2, EXCEEDED),
    ]


def test_the_next_leader_gives_up_again() -> None:
    archiving = RecordState.ARCHIVING
    reader = Reader(LogBatch(0, 5), stored=[StateRun(0, 1, archiving, 1), StateRun(3, 4, archiving, 2)])
    reader.share.give_up_again(WITH_LETTERS)
    letters = [DeadLetters(0, 1, 1, REJECTED), DeadLetters(3, 4, 2, EXCEEDED)]
    assert reader.share.take_given_up() == letters
    assert reader.fetch() == [(2, 2, 1), (5, 5, 1)]
    reader.ack(2, 2, ACCEPT)
    reader.share.archive(letters, reader.changes.append)()
    assert reader.share.start_offset == 5


class AnyOrder(RuleBasedStateMachine):
    """Two members act at random: each record is accepted at most once, and the stored state suffices to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.reader = Reader(*(LogBatch(first, first + 3) for first in range(0, 40, 4)))
        self.held: dict[int, str] = {}
        self.done: set[int] = set()

    @rule(member=st.sampled_from(["one", "two"]), records=st.integers(1, 9), exactly=st.booleans())
    def fetch(self, member: str, records: int, exactly: bool) -> None:
        got = self.reader.fetch(member, records, exactly, LIMITS._replace(deliveries=100))
        for first, last, _ in got:
            for offset in range(first, last + 1):
                assert offset not in self.held
                assert offset not in self.done
                self.held[offset] = member
        if exactly:
            assert sum(last - first + 1 for first, last, _ in got) <= records

    @rule(data=st.data(), kind=st.sampled_from([GAP, ACCEPT, RELEASE, REJECT]))
    def acknowledge(self, data: Any, kind: int) -> None:
        if not self.held:
            return
        offset = data.draw(st.sampled_from(sorted(self.held)))
        self.reader.ack(offset, offset, kind, member=self.held.pop(offset), limits=LIMITS._replace(deliveries=100))
        if kind != RELEASE:
            self.done.add(offset)

    @rule(member=st.sampled_from(["one", "two"]))
    def leave(self, member: str) -> None:
        show = self.reader.share.release(member, LIMITS._replace(deliveries=100), self.reader.changes.append)
        if show is not None:
            show()
        self.held = {offset: owner for offset, owner in self.held.items() if owner != member}

    @invariant()
    def runs_follow_each_other(self) -> None:
        share = self.reader.share
        position = None
        for run in share.in_flight.runs():
            assert run.first <= run.last
            assert position is None or run.first == position
            position = run.last + 1
        assert position is None or position == share.end_offset + 1
        assert share.start_offset == min((o for o in range(41) if o not in self.done), default=40)

    @invariant()
    def what_is_stored_says_what_is_done(self) -> None:
        stored: list[StateRun] = []
        start = 0
        for change in self.reader.changes:
            start = change.start_offset
            stored = overlaid(stored, change.runs, start)
        done = {offset for run in stored if run.state in TERMINAL for offset in range(run.first, run.last + 1)}
        assert done | set(range(start)) == self.done


AnyOrder.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestAnyOrder = AnyOrder.TestCase
