"""Work in slices: the order in which requests have their turns, and the ways in which work ends."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial

import pytest

from pykafka_broker.broker.waiting.future import SLICES_A_TURN, Future, Slices, completed, failed
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode


class Turns:
    """An event loop that the test moves on, one turn at a time."""

    def __init__(self) -> None:
        self.next: list[Callable[[], None]] = []
        self.slices = Slices(self.next.append)

    def turn(self) -> None:
        steps, self.next[:] = list(self.next), []
        for step in steps:
            step()


def counted(name: str, slices: int, done: list[str]) -> Generator[None, None, str]:
    try:
        for _ in range(slices - 1):
            done.append(name)
            yield
        done.append(name)
    finally:
        done.append(f"{name} ends")
    return name


def test_work_of_one_slice_is_done_at_once() -> None:
    turns = Turns()
    assert turns.slices.reply(counted("a", 1, [])) == "a"
    assert not turns.next


def test_a_turn_does_a_few_slices_and_asks_for_the_next_one() -> None:
    turns, done = Turns(), list[str]()
    reply = turns.slices.reply(counted("a", 3, done))
    assert isinstance(reply, Future)
    for slices in (2, 3):
        turns.turn()
        assert done.count("a") == slices
    assert reply.result() == "a"
    assert not turns.next


def test_many_works_take_turns_and_a_turn_is_no_longer_for_them() -> None:
    turns, done = Turns(), list[str]()
    for name in "abcdef":
        turns.slices.begin(counted(name, 3, done))
    done.clear()
    turns.turn()
    assert done == list("abcdef")[:SLICES_A_TURN]
    turns.turn()
    assert done[SLICES_A_TURN : SLICES_A_TURN + 2] == ["e", "f"]


def test_whoever_waits_hears_when_it_is_done() -> None:
    turns, heard = Turns(), list[str]()
    work = turns.slices.begin(counted("a", 2, []))
    work.add_done_callback(lambda done: heard.append(done.result()))
    assert not work.done
    assert heard == []
    turns.turn()
    assert heard == ["a"]
    work.add_done_callback(lambda done: heard.append(done.result()))
    assert heard == ["a", "a"]


def awaiting(future: Future[str]) -> Generator[Future[str], str, str]:
    try:
        found = yield future
    except ApiError as error:
        return error.code.name
    return found


def test_work_goes_on_with_what_it_waits_for() -> None:
    turns, slow = Turns(), Future[str]()
    assert turns.slices.reply(awaiting(completed("there"))) == "there"
    assert turns.slices.reply(awaiting(failed(ApiError(ErrorCode.INVALID_REQUEST)))) == "INVALID_REQUEST"
    work = turns.slices.reply(awaiting(slow))
    assert isinstance(work, Future)
    turns.turn()
    assert not work.done
    slow.complete("at last")
    turns.turn()
    assert work.result() == "at last"


def test_work_whose_waiter_leaves_ends_unless_it_outlives_its_client() -> None:
    turns, done = Turns(), list[str]()
    for name, outlives in (("a", False), ("b", True)):
        work = turns.slices.begin(counted(name, 2, done), outlives_client=outlives)
        work.add_done_callback(print)
        work.leave(print)
    turns.turn()
    assert done == ["a", "a ends", "b", "b", "b ends"]


def test_work_whose_client_has_gone_leaves_the_future_it_waits_for() -> None:
    turns, ended = Turns(), list[str]()
    for name, outlives in (("a", False), ("b", True)):
        slow = Future[str](partial(ended.append, name))
        work = turns.slices.begin(awaiting(slow), outlives_client=outlives)
        work.add_done_callback(print)
        work.leave(print)
    assert ended == ["a"]


def test_what_it_raises_is_the_answer() -> None:
    def fails() -> Generator[None, None, str]:
        yield
        raise ApiError(ErrorCode.INVALID_REQUEST)

    turns = Turns()
    reply = turns.slices.reply(fails())
    assert isinstance(reply, Future)
    turns.turn()
    with pytest.raises(ApiError) as raised:
        reply.result()
    assert raised.value.code is ErrorCode.INVALID_REQUEST


def test_work_that_nobody_waits_for_ends_where_it_is() -> None:
    turns, done, heard = Turns(), list[str](), list[object]()
    work = turns.slices.begin(counted("a", 9, done))
    work.add_done_callback(heard.append)
    work.abandon()
    assert done == ["a", "a ends"]
    turns.turn()
    turns.turn()
    assert (done, heard, turns.next) == (["a", "a ends"], [], [])


def test_work_may_be_abandoned_by_what_it_does() -> None:
    turns = Turns()

    def closes_its_client() -> Generator[None, None, None]:
        yield
        work.abandon()
        yield

    work = turns.slices.begin(closes_its_client())
    turns.turn()
    assert not len(turns.slices)


def test_the_end_of_the_broker_ends_all() -> None:
    turns, done = Turns(), list[str]()
    for name in "ab":
        turns.slices.begin(counted(name, 9, done))
    turns.slices.stop()
    turns.turn()
    assert done == ["a", "b", "a ends", "b ends"]


def test_without_a_loop_work_is_done_where_it_arises() -> None:
    assert Slices(None).reply(counted("a", 9, [])) == "a"


@pytest.mark.parametrize("error", [ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is gone"), KeyError("a defect")])
def test_what_nobody_waits_for_is_told_to_the_log(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    turns = Turns()

    def fails() -> Generator[None, None, None]:
        yield
        raise error

    turns.slices.unasked(fails())
    turns.turn()
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert bool(record.exc_info) is not isinstance(error, ApiError)
