from __future__ import annotations

from pykafka_broker.server.server import Muting


class Muted:
    def __init__(self) -> None:
        self.muted = False
        self.told = 0

    def mute(self) -> None:
        self.muted = True
        self.told += 1

    def unmute(self) -> None:
        self.muted = False


def test_each_goes_on_when_its_time_is_over() -> None:
    muting, first, second = Muting(), Muted(), Muted()
    muting.mute(1, first, 2000)
    muting.mute(2, second, 1000)
    assert muting.next_deadline == 1000
    muting.on_deadline(1000)
    assert (first.muted, second.muted) == (True, False)
    assert muting.next_deadline == 2000
    muting.on_deadline(5000)
    assert not first.muted
    assert muting.next_deadline is None


def test_the_longer_of_two_times_counts() -> None:
    muting, one = Muting(), Muted()
    muting.mute(1, one, 1000)
    muting.mute(1, one, 3000)
    muting.mute(1, one, 2000)
    assert one.told == 2
    muting.on_deadline(2999)
    assert one.muted
    muting.on_deadline(3000)
    assert not one.muted
    assert len(muting) == 0


def test_one_that_has_gone_is_not_told() -> None:
    muting, one = Muting(), Muted()
    muting.mute(1, one, 1000)
    muting.forget(1)
    assert muting.next_deadline is None
    muting.on_deadline(1000)
    assert one.muted


def test_those_who_go_and_come_again_leave_nothing_behind() -> None:
    muting = Muting()
    for number in range(10_000):
        muting.mute(number, Muted(), 10**15)
        muting.forget(number)
    assert len(muting._queue) < 200


def test_all_may_be_let_go() -> None:
    muting, ones = Muting(), [Muted() for _ in range(3)]
    for number, one in enumerate(ones):
        muting.mute(number, one, 1000)
    muting.release_all()
    assert not any(one.muted for one in ones)
    assert muting.next_deadline is None
