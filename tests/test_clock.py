"""The broker's wall clock and monotonic clock."""

from pykafka_broker.clock import Clock


def test_both_are_the_same_until_the_wall_clock_is_set() -> None:
    clock = Clock(1_000)
    assert (clock.now, clock.wall) == (1_000, 1_000)
    clock.set(1_500)
    assert (clock.now, clock.wall) == (1_500, 1_500)


def test_a_wall_clock_that_is_set_back_leaves_the_other_alone() -> None:
    clock = Clock(1_000)
    clock.set(1_010, wall=400)
    assert (clock.now, clock.wall) == (1_010, 400)
