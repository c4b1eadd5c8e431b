"""Requests that wait are answered exactly once."""

from __future__ import annotations

import weakref
from typing import Any

from pykafka_broker.broker.waiting.future import Parked, Purgatory


def waiting(
    purgatory: Purgatory, answers: list[object], *, deadline: int | None = 100, keys: tuple[str, ...] = ("p",)
) -> Parked:
    """Return a delayed request that is complete as soon as its box holds something."""
    box: list[object] = []
    parked = Parked(deadline, keys=keys, poll=lambda now: box[0] if box else None, expire=lambda now: ("expired", now))
    parked.add_done_callback(lambda done: answers.append(done.result()))
    parked.on_cancel = lambda: answers.append("cancelled")
    purgatory.park(parked)
    parked_boxes[id(parked)] = box
    return parked


parked_boxes: dict[int, list[object]] = {}


def test_a_touch_alone_polls_nobody_and_settle_polls_once_per_key() -> None:
    purgatory = Purgatory()
    answers: list[Any] = []
    parked = waiting(purgatory, answers)
    parked_boxes[id(parked)].append("full")
    purgatory.touch("p")
    purgatory.touch("p")
    assert answers == []
    purgatory.settle(1)
    purgatory.settle(2)
    assert answers == ["full"]
    assert len(purgatory) == 0


def test_a_poll_without_an_answer_goes_on_waiting() -> None:
    purgatory = Purgatory()
    answers: list[Any] = []
    waiting(purgatory, answers)
    purgatory.touch("p")
    purgatory.settle(1)
    assert answers == []
    assert purgatory.next_deadline() == 100


def test_the_deadline_answers_and_only_then() -> None:
    purgatory = Purgatory()
    answers: list[Any] = []
    waiting(purgatory, answers, deadline=100)
    waiting(purgatory, answers, deadline=50)
    purgatory.on_deadline(49)
    assert answers == []
    purgatory.on_deadline(50)
    assert answers == [("expired", 50)]
    assert purgatory.next_deadline() == 100
    purgatory.on_deadline(1000)
    assert answers == [("expired", 50), ("expired", 1000)]
    assert purgatory.next_deadline() is None


def test_one_that_watches_two_keys_is_answered_once() -> None:
    purgatory = Purgatory()
    answers: list[Any] = []
    parked = waiting(purgatory, answers, keys=("p", "q"))
    parked_boxes[id(parked)].append("full")
    purgatory.touch("p")
    purgatory.touch("q")
    purgatory.settle(1)
    assert answers == ["full"]


def test_a_cancelled_one_is_told_and_never_answered() -> None:
    purgatory = Purgatory()
    answers: list[Any] = []
    parked = waiting(purgatory, answers)
    purgatory.cancel(parked)
    purgatory.cancel(parked)
    purgatory.touch("p")
    purgatory.settle(1)
    purgatory.on_deadline(1000)
    parked.complete("late")
    assert answers == ["cancelled"]


def test_hurry_gives_what_there_is() -> None:
    purgatory = Purgatory()
    answers: list[Any] = []
    parked = waiting(purgatory, answers)
    purgatory.hurry(parked, 7)
    purgatory.hurry(parked, 8)
    assert answers == [("expired", 7)]


def test_a_token_without_deadline_waits_for_its_holder() -> None:
    purgatory = Purgatory()
    answers: list[Any] = []
    parked = Parked(None)
    parked.add_done_callback(lambda done: answers.append(done.result()))
    purgatory.park(parked)
    purgatory.on_deadline(10**15)
    assert answers == []
    parked.complete("joined")
    parked.complete("again")
    assert answers == ["joined"]


def test_an_answered_request_is_not_kept_until_its_deadline() -> None:
    class Answer:
        """An answer with many bytes."""

    purgatory, answers = Purgatory(), list[weakref.ref[Answer]]()
    for _ in range(5000):
        answer = Answer()
        answers.append(weakref.ref(answer))
        parked = Parked(30_000)
        purgatory.park(parked)
        parked.complete(answer)
    last = Parked(20_000)
    purgatory.park(last)
    assert sum(1 for each in answers if each() is not None) < 1100
    assert purgatory.next_deadline() == 20_000
