"""Runs of offsets, and how newer ones are laid over older ones."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from pykafka_broker.coordinators.share.state import RecordState, StateRun, coalesced, overlaid
from tests.coordinators.steps import steps_of

AVAILABLE, ACKNOWLEDGED, ARCHIVED = RecordState.AVAILABLE, RecordState.ACKNOWLEDGED, RecordState.ARCHIVED


def test_the_one_that_was_delivered_more_often_counts() -> None:
    known = [StateRun(6, 9, ACKNOWLEDGED, 1), StateRun(10, 12, AVAILABLE, 1)]
    assert overlaid(known, [StateRun(8, 10, AVAILABLE, 2)], 6) == [
        StateRun(6, 7, ACKNOWLEDGED, 1),
        StateRun(8, 10, AVAILABLE, 2),
        StateRun(11, 12, AVAILABLE, 1),
    ]


def test_at_the_same_count_the_one_that_is_further_on() -> None:
    known = [StateRun(10, 10, AVAILABLE, 2), StateRun(11, 12, AVAILABLE, 1)]
    assert overlaid(known, [StateRun(10, 12, ARCHIVED, 1)], 10) == [
        StateRun(10, 10, AVAILABLE, 2),
        StateRun(11, 12, ARCHIVED, 1),
    ]


def test_what_lies_before_the_start_is_left_out() -> None:
    assert overlaid([StateRun(0, 3, ARCHIVED, 1), StateRun(4, 9, AVAILABLE, 1)], [], 6) == [
        StateRun(6, 9, AVAILABLE, 1)
    ]


def test_a_run_that_ends_before_it_begins_is_left_out() -> None:
    assert overlaid([], [StateRun(5, 3, AVAILABLE, 1)], 0) == []


def test_neighbours_that_say_the_same_become_one() -> None:
    assert coalesced(
        [StateRun(0, 1, ACKNOWLEDGED, 1), StateRun(2, 2, ACKNOWLEDGED, 1), StateRun(4, 4, ACKNOWLEDGED, 1)]
    ) == [
        StateRun(0, 2, ACKNOWLEDGED, 1),
        StateRun(4, 4, ACKNOWLEDGED, 1),
    ]


RUNS = st.builds(
    lambda first, length, state, count: StateRun(first, first + length, state, count),
    st.integers(0, 30),
    st.integers(0, 8),
    st.sampled_from([0, 2, 4]),
    st.integers(1, 4),
)


def by_offset(writes: list[list[StateRun]], start: int) -> dict[int, tuple[int, int]]:
    said: dict[int, tuple[int, int]] = {}
    for write in writes:
        for run in write:
            for offset in range(max(run.first, start), run.last + 1):
                said[offset] = max(said.get(offset, (0, 0)), (run.deliveries, run.state))
    return said


@given(st.lists(st.lists(RUNS, max_size=4), max_size=6), st.integers(0, 20))
def test_laid_over_offset_by_offset(writes: list[list[StateRun]], start: int) -> None:
    known: list[StateRun] = []
    for write in writes:
        known = overlaid(known, write, start)
    assert by_offset([known], start) == by_offset(writes, start)
    assert all(one.last < other.first for one, other in itertools.pairwise(known))


def test_runs_inside_each_other_are_looked_at_once() -> None:
    """A hundred thousand of them, which fit into one request, took half an hour when each was laid over all others."""
    count = 500
    runs = [StateRun(n, 2 * count - n, ACKNOWLEDGED, n) for n in range(count)]
    found, steps = steps_of(lambda: overlaid([], runs, 0))
    assert len(found) == 2 * count - 1
    assert steps < 600 * count
