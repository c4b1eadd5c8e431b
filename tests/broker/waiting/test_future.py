"""Futures: one outcome, the callbacks that hear of it, and the objects that a cancelled wait releases."""

from __future__ import annotations

import gc
import weakref
from functools import partial
from typing import Any

import pytest

from pykafka_broker.broker.waiting.future import (
    DONE,
    Cancelled,
    Future,
    Lost,
    TooLate,
    all_of,
    completed,
    failed,
    then,
    when_committed,
)
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode

STORAGE, LEADER = ApiError(ErrorCode.KAFKA_STORAGE_ERROR), ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_a_future_has_one_outcome() -> None:
    future, heard = Future[str](), list[Future[str]]()
    future.add_done_callback(heard.append)
    assert not future.done
    future.complete("first")
    future.complete("second")
    future.fail(STORAGE)
    future.cancel()
    assert (future.result(), future.error, heard) == ("first", None, [future])
    future.add_done_callback(heard.append)
    assert heard == [future, future]


def test_an_error_is_raised_and_kept() -> None:
    future = failed(STORAGE)
    for _ in range(2):
        with pytest.raises(ApiError) as raised:
            future.result()
        assert raised.value is STORAGE
    assert (future.done, future.succeeded) == (True, False)


def test_a_defect_of_one_who_waits_keeps_nothing_from_the_others(caplog: pytest.LogCaptureFixture) -> None:
    def fail(future: Future[int]) -> None:
        raise RuntimeError("a defect")

    future, heard = Future[int](), list[int]()
    future.add_done_callback(fail)
    future.add_done_callback(lambda future: heard.append(future.result()))
    future.complete(7)
    assert heard == [7]
    assert "a defect while going on after a wait" in caplog.text


def test_a_cancelled_future_tells_nobody_and_ends_its_work_once() -> None:
    ended: list[str] = []
    future, heard = Future[str](lambda: ended.append("ended")), list[Any]()
    future.add_done_callback(heard.append)
    future.cancel()
    future.cancel()
    future.complete("late")
    assert (ended, heard) == (["ended"], [])


def test_a_cancelled_future_is_no_success_for_those_that_ask_afterwards() -> None:
    future, heard = Future[str](lambda: None), list[Exception | None]()
    future.cancel()
    assert (future.done, future.succeeded) == (True, False)
    with pytest.raises(Cancelled):
        future.result()
    future.add_done_callback(lambda future: heard.append(future.error))
    assert [type(error) for error in heard] == [Cancelled]
    assert isinstance(future.then(str.upper).error, Cancelled)
    both, other = all_of(future, pending := Future[None]()), all_of(future)
    pending.complete(None)
    assert isinstance(both.error, Cancelled)
    assert isinstance(other.error, Cancelled)
    answer = when_committed("answer", future.then(lambda _: None))
    assert isinstance(answer, Future)
    assert isinstance(answer.error, Lost)


def test_the_last_waiter_to_leave_cancels_what_can_be_cancelled() -> None:
    ended: list[str] = []
    shared, firm = Future[str](lambda: ended.append("shared")), Future[str]()
    first, second = shared.then(str.upper), shared.then(str.lower)
    first.cancel()
    assert ended == []
    second.cancel()
    assert ended == ["shared"]
    firm.then(str.upper).cancel()
    assert not firm.done


def test_what_is_made_of_a_result_is_made_after_the_wait() -> None:
    future = Future[str]()
    shouted = future.then(str.upper)
    assert not shouted.done
    future.complete("answer")
    assert shouted.result() == "ANSWER"
    assert then("answer", str.upper) == "ANSWER"
    found = then(completed("answer"), str.upper)
    assert isinstance(found, Future)
    assert found.result() == "ANSWER"


def test_a_function_may_lead_to_a_further_wait() -> None:
    first, second = Future[str](), Future[str]()
    both: Future[str] = first.then(lambda one: second.then(lambda other: one + other))
    first.complete("a")
    assert not both.done
    second.complete("b")
    assert both.result() == "ab"


def test_a_further_wait_ends_with_the_whole() -> None:
    ended: list[str] = []
    first, second = Future[str](), Future[str](lambda: ended.append("second"))
    both: Future[str] = first.then(lambda _: second)
    first.complete("a")
    both.cancel()
    assert ended == ["second"]


def test_what_a_function_raises_is_the_error() -> None:
    def refuse(_: str) -> str:
        raise STORAGE

    assert completed("answer").then(refuse).error is STORAGE
    assert failed(LEADER).then(refuse).error is LEADER
    assert failed(LEADER).then(refuse, lambda error: STORAGE).error is STORAGE


def test_what_is_settled_has_no_error() -> None:
    slow = Future[str]()
    settled = slow.settled()
    assert not settled.done
    slow.fail(STORAGE)
    assert settled.succeeded


def test_without_futures_all_are_done() -> None:
    assert all_of() is DONE
    assert all_of(completed(1), DONE) is DONE


def test_all_are_waited_for_and_the_first_error_is_told() -> None:
    first, second, third = Future[None](), Future[None](), Future[None]()
    whole = all_of(first, second, DONE, third)
    second.fail(STORAGE)
    third.fail(LEADER)
    assert not whole.done
    first.complete(None)
    assert whole.error is STORAGE
    assert all_of(second) is second


def test_the_end_of_the_whole_is_the_end_of_its_parts() -> None:
    ended: list[str] = []
    parts = [Future[None](partial(ended.append, name)) for name in "ab"]
    all_of(*parts).cancel()
    assert ended == ["a", "b"]


def test_what_is_committed_is_answered_at_once() -> None:
    assert when_committed("answer") == "answer"
    assert when_committed("answer", DONE, DONE) == "answer"


def test_what_is_not_committed_is_answered_then() -> None:
    committed = Future[None]()
    answer = when_committed("answer", DONE, committed)
    assert isinstance(answer, Future)
    committed.complete(None)
    assert answer.result() == "answer"


@pytest.mark.parametrize(
    ("error", "kind"),
    [(STORAGE, Lost), (TooLate(ErrorCode.COORDINATOR_NOT_AVAILABLE), TooLate), (KeyError("a defect"), KeyError)],
)
def test_what_will_not_be_committed_is_lost(error: Exception, kind: type[Exception]) -> None:
    answer = when_committed("answer", failed(error))
    assert isinstance(answer, Future)
    assert type(answer.error) is kind


class Request:
    """A large object."""


@pytest.mark.parametrize("end", ["complete", "fail", "raise", "cancel"])
def test_nothing_is_left_for_the_garbage_collector(end: str) -> None:
    request = Request()
    gone = weakref.ref(request)

    def answer(_: None, request: Request = request) -> str:
        if end == "raise":
            raise ApiError(ErrorCode.INVALID_REQUEST)
        return "answer"

    gc.collect()
    gc.disable()
    try:
        part, other = Future[None](), Future[None]()
        whole = all_of(part, other).then(answer)
        if end == "cancel":
            whole.cancel()
        elif end == "fail":
            part.fail(STORAGE)
        else:
            part.complete(None)
        other.complete(None)
        del request, answer, part, other, whole
        assert gone() is None
    finally:
        gc.enable()
