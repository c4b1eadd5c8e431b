"""The one way to wait: a value that is not there yet.

Rule: a handler returns its response, a `Future` of it, or a delayed operation (`purgatory.Parked`, a future that is
tried again). A future is done once: with a result, with an error, or cancelled. It does no IO and knows no clock;
callbacks run in the call that ends it. What nobody waits for any more is cancelled, unless it goes on by itself.

An answer that tells of records is given `when_committed`: nobody hears of what a crash or another leader could take
back. If they never will be committed, the answer is `Lost`, and its API says with which error (`Route.when_lost`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from pykafka_broker.errors import ApiError

R = TypeVar("R")
S = TypeVar("S")


class TooLate(ApiError):
    """Records that were not committed in the time that an answer waits, and may be still. The client gets this code."""


class Lost(ApiError):
    """An answer that is not given, since records that it tells of will not be committed."""


class Future(Generic[R]):
    """A result or an error that comes later (Kafka: CompletableFuture).

    on_cancel: called once if the future is cancelled. One without it goes on when its last waiter leaves.
    error: why there is no result, once it is done.
    """

    __slots__ = ("_callbacks", "_result", "done", "error", "on_cancel")

    def __init__(self, on_cancel: Callable[[], None] | None = None) -> None:
        self.done = False
        self.error: Exception | None = None
        self.on_cancel = on_cancel
        self._result: Any = None
        self._callbacks: list[Callable[[Any], None]] = []

    @property
    def succeeded(self) -> bool:
        """Whether the result is there."""
        return self.done and self.error is None

    @property
    def awaited(self) -> bool:
        """Whether anybody waits for the result."""
        return bool(self._callbacks)

    def result(self) -> R:
        """Return the result of a future that is done. Raises its error."""
        if self.error is not None:
            try:
                raise self.error
            finally:
                del self  # the error knows this frame, and must not lead back to itself
        result: R = self._result
        return result

    def complete(self, result: R) -> None:
        """End with a result; a second end, and one of a cancelled future, is dropped."""
        if not self.done:
            self._result = result
            self._end()

    def fail(self, error: Exception) -> None:
        """End with an error; a second end is dropped."""
        if not self.done:
            self.error = error
            self._end()

    def _end(self) -> None:
        self.done, self.on_cancel = True, None
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    def add_done_callback(self, callback: Callable[[Future[R]], None]) -> None:
        """Call `callback` with this future when it is done, at once if it is; never if it is cancelled first."""
        if self.done:
            callback(self)
        else:
            self._callbacks.append(callback)

    def leave(self, callback: Callable[[Any], None]) -> None:
        """Take a callback back. The last one to leave cancels the future if there is an `on_cancel`."""
        if callback in self._callbacks:
            self._callbacks.remove(callback)
        if not self._callbacks and self.on_cancel is not None:
            self.cancel()

    def cancel(self) -> None:
        """End without an outcome: no callback is called."""
        if self.done:
            return
        self.done = True
        self._callbacks = []
        on_cancel, self.on_cancel = self.on_cancel, None
        if on_cancel is not None:
            on_cancel()

    def then(
        self, function: Callable[[R], S | Future[S]], on_error: Callable[[Exception], Exception] | None = None
    ) -> Future[S]:
        """Return a future of what `function` makes of the result, which may be a future again.

        on_error: says which error takes the place of this future's.
        """
        following: Future[S] = Future()
        self._lead_to(following, partial(_go_on, following, function, on_error))
        return following

    def settled(self) -> Future[None]:
        """Return a future that has no error and is done as soon as this one is, whatever its outcome."""
        following: Future[None] = Future()
        self._lead_to(following, lambda _: following.complete(None))
        return following

    def _lead_to(self, following: Future[Any], callback: Callable[[Future[R]], None]) -> None:
        following.on_cancel = partial(self.leave, callback)
        self.add_done_callback(callback)


Answer: TypeAlias = R | Future[R]  # what a handler gives: a response, now or later


def _go_on(
    following: Future[S],
    function: Callable[[R], S | Future[S]],
    on_error: Callable[[Exception], Exception] | None,
    future: Future[R],
) -> None:
    if future.error is not None:
        following.fail(future.error if on_error is None else on_error(future.error))
        return
    try:
        found = function(future.result())
    except Exception as error:
        following.fail(caught(error))
        return
    if isinstance(found, Future):
        found._lead_to(following, partial(_copy, following))
    else:
        following.complete(found)


def _copy(following: Future[R], future: Future[R]) -> None:
    if future.error is not None:
        following.fail(future.error)
    else:
        following.complete(future.result())


def caught(error: Exception) -> Exception:
    """Return an error as a future keeps it: an ApiError without the frames that it knows. Those lead back to the
    future, and the request would live until the garbage collector comes by. A defect keeps them for the log.
    """
    if isinstance(error, ApiError):
        error.__traceback__ = error.__context__ = error.__cause__ = None
    return error


def completed(result: R) -> Future[R]:
    """Return a future that has its result."""
    future: Future[R] = Future()
    future.complete(result)
    return future


def failed(error: Exception) -> Future[Any]:
    """Return a future that has its error."""
    future: Future[Any] = Future()
    future.fail(error)
    return future


DONE: Future[None] = completed(None)


def all_of(*futures: Future[Any]) -> Future[None]:
    """Return a future that is done when all of these are, with the first error."""
    open_ones = [future for future in futures if not future.succeeded]
    if not open_ones:
        return DONE
    if len(open_ones) == 1:
        return open_ones[0]
    return _all_of(open_ones)


def _all_of(futures: Sequence[Future[Any]]) -> Future[None]:
    left = len(futures)
    first: Exception | None = None
    whole: Future[None] = Future()

    def one_done(future: Future[Any]) -> None:
        nonlocal left, first
        first = first or future.error
        left -= 1
        if not left and first is not None:
            whole.fail(first)
        elif not left:
            whole.complete(None)

    def leave() -> None:
        for future in futures:
            future.leave(one_done)

    whole.on_cancel = leave
    for future in futures:
        future.add_done_callback(one_done)
    return whole


def when_committed(response: R, *committed: Future[None]) -> Answer[R]:
    """Return the response, to be given when all of these are done; it is `Lost` if one of them fails."""
    future = all_of(*committed)
    return response if future.succeeded else future.then(lambda _: response, lost)


def lost(error: Exception) -> Exception:
    """Return the error of an answer whose records are not committed for this reason."""
    return Lost(error.code, error.message) if isinstance(error, ApiError) and not isinstance(error, TooLate) else error


def then(reply: Answer[R], function: Callable[[R], Answer[S]]) -> Answer[S]:
    """Return what `function` makes of a response, now or when it is there."""
    return reply.then(function) if isinstance(reply, Future) else function(reply)
