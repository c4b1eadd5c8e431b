"""The broker's wall clock and monotonic clock."""

import pytest

from pykafka_broker.clock import Clock, earliest_deadline


def test_both_are_the_same_until_the_wall_clock_is_set() -> None:
    clock = Clock(1_000)
    assert (clock.now, clock.wall) == (1_000, 1_000)
    clock.set(1_500)
    assert (clock.now, clock.wall) == (1_500, 1_500)


def test_a_wall_clock_that_is_set_back_leaves_the_other_alone() -> None:
    clock = Clock(1_000)
    clock.set(1_010, wall=400)
    assert (clock.now, clock.wall) == (1_010, 400)


class Machine:
    def __init__(self, due: int | None) -> None:
        self.due = due

    def next_deadline(self) -> int | None:
        return self.due

    def on_deadline(self, now: int) -> None: ...


@pytest.mark.parametrize(("due", "first"), [((), None), ((None, None), None), ((None, 7, 0, 3), 0)])
def test_the_first_deadline_of_machines(due: tuple[int | None, ...], first: int | None) -> None:
    assert earliest_deadline(map(Machine, due)) == first
