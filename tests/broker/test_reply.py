"""Answers that say what they rest on."""

from __future__ import annotations

from pykafka_broker.broker.reply import NOTHING, Reply, Waiter, resting, then, when_all
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode

STORAGE, LEADER = ApiError(ErrorCode.KAFKA_STORAGE_ERROR), ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)


class Place:
    """Somewhere where records get committed, now (`at_once`) or when the test says so."""

    def __init__(self, *, at_once: bool = False) -> None:
        self._at_once = at_once
        self.waiting: list[tuple[int, Waiter]] = []

    def is_committed(self, offset: int) -> bool:
        return self._at_once

    def when_committed(self, offset: int, waiter: Waiter) -> None:
        if self._at_once:
            waiter(None)
        else:
            self.waiting.append((offset, waiter))

    def tell(self, error: ApiError | None = None) -> None:
        for _, waiter in self.waiting:
            waiter(error)


def test_what_rests_on_nothing_is_the_response_itself() -> None:
    assert resting("answer", NOTHING) == "answer"
    assert then("answer", str.upper) == "ANSWER"


def test_what_rests_on_something_waits_for_it() -> None:
    after = ((Place(), 3),)
    reply = resting("answer", after)
    assert isinstance(reply, Reply)
    assert (reply.after, reply.then()) == (after, "answer")


def test_what_is_made_of_a_response_is_made_after_the_wait() -> None:
    made: list[str] = []

    def shout(answer: str) -> str:
        made.append(answer)
        return answer.upper()

    reply = then(resting("answer", ((Place(), 3),)), shout)
    assert isinstance(reply, Reply)
    assert made == []
    assert reply.then() == "ANSWER"
    assert made == ["answer"]


def test_a_function_follows_through_several_waits() -> None:
    first, second = ((Place(), 1),), ((Place(), 2),)
    reply = then(Reply(first, lambda: resting("answer", second)), str.upper)
    assert isinstance(reply, Reply)
    assert reply.after == first
    again = reply.then()
    assert (again.after, again.then()) == (second, "ANSWER")


def test_without_places_it_is_told_at_once() -> None:
    told: list[ApiError | None] = []
    when_all((), told.append)
    assert told == [None]


def test_it_is_told_once_and_after_the_last() -> None:
    told: list[ApiError | None] = []
    slow, slower = Place(), Place()
    when_all(((Place(at_once=True), 1), (slow, 2), (slower, 3)), told.append)
    assert ([offset for offset, _ in slow.waiting], told) == ([2], [])
    slow.tell()
    assert told == []
    slower.tell()
    assert told == [None]


def test_the_first_error_is_told_and_all_are_waited_for() -> None:
    told: list[ApiError | None] = []
    first, second, third = Place(), Place(), Place()
    when_all(((first, 1), (second, 2), (third, 3)), told.append)
    second.tell(STORAGE)
    third.tell(LEADER)
    assert told == []
    first.tell()
    assert told == [STORAGE]
