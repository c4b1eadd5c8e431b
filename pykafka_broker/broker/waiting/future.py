"""The one way to wait: futures, requests that are tried again, and long work in slices.

Rule: a handler returns its response, a `Future` of the response, or a delayed operation (`Parked`, a future that is
tried again). A future is done once: with a result, with an error, or cancelled. No IO and no clock: callbacks run in
the call that ends the future. A future without waiters is cancelled, unless it goes on by itself.

An answer that tells of records is given `when_committed`: no client hears of records that a crash or another leader
could take back. If the records will never be committed, the answer is `Lost`, with the error of `Route.when_lost`.

A parked request is data. It is answered exactly once: by `poll` when a watched key has moved, by `expire` at its
deadline, by `complete`, or never if its connection has gone. `touch` only notes a key; `settle` polls. So the request
that moved the key is answered before the requests that waited for it.

Long work is a generator, and each step up to a `yield` takes about a millisecond. Works take turns, a few slices in
each turn of the loop, and all sockets are served in between. A result or an exception of a work belongs to its request
alone, so `except Exception` stands here too; exceptions of work without a request (`unasked`) are logged. Work whose
client has gone is ended where it is. A handler whose answer takes long returns `services.slices.reply(steps)`, or is a
generator itself (`handles_in_steps`); the response is what the generator returns in the end. Work that yields a
`Future` goes on with the result when the future is done, or has the error raised in it. A handler serves the partitions
of a request in `shares`.
"""

from __future__ import annotations

import heapq
import logging
from collections import deque
from collections.abc import Callable, Collection, Generator, Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

SLICES_A_TURN = 4
PARTITIONS_A_SLICE = 16  # a quarter of a millisecond each, if the log is loaded or gets its first record
_FEWEST_PURGED = 1_000  # as in Kafka (`producer.purgatory.purge.interval.requests`)
R = TypeVar("R")
S = TypeVar("S")
G = TypeVar("G")
T = TypeVar("T")


class TooLate(ApiError):
    """An answer whose records were not committed in time, and may be still; the client gets the code."""


class Lost(ApiError):
    """An answer that is not given, since its records will not be committed."""


class Cancelled(ApiError):
    """The error of a cancelled future, for those that ask afterwards (Kafka: CancellationException)."""


class Future(Generic[R]):
    """A result or an error that comes later (Kafka: CompletableFuture).

    on_cancel: called once if the future is cancelled. A future without `on_cancel` goes on when its last waiter leaves.
    error: the reason for the absence of a result, once the future is done; `Cancelled` after a cancellation.
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
        """Return whether the result is known."""
        return self.done and self.error is None

    @property
    def awaited(self) -> bool:
        """Return whether a callback waits for the result."""
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
            try:
                callback(self)
            except Exception:  # a defect of a callback stops neither the others nor the caller
                logger.exception("a defect while going on after a wait")

    def add_done_callback(self, callback: Callable[[Future[R]], None]) -> None:
        """Call `callback` with the future when done, at once if done already; a later cancellation calls nothing."""
        if self.done:
            callback(self)
        else:
            self._callbacks.append(callback)

    def leave(self, callback: Callable[[Any], None]) -> None:
        """Take a callback back. The last callback to leave cancels the future if there is an `on_cancel`."""
        if callback in self._callbacks:
            self._callbacks.remove(callback)
        if not self._callbacks and self.on_cancel is not None:
            self.cancel()

    def cancel(self) -> None:
        """End without a result: no callback is called."""
        if self.done:
            return
        self.done, self.error = True, Cancelled(ErrorCode.REQUEST_TIMED_OUT)  # what was asked for may be done still
        self._callbacks = []
        on_cancel, self.on_cancel = self.on_cancel, None
        if on_cancel is not None:
            on_cancel()

    def then(
        self, function: Callable[[R], S | Future[S]], on_error: Callable[[Exception], Exception] | None = None
    ) -> Future[S]:
        """Return the future of `function(result)`, which may return a future again.

        on_error: returns the error that takes the place of the future's.
        """
        following: Future[S] = Future()
        self._lead_to(following, partial(_go_on, following, function, on_error))
        return following

    def settled(self) -> Future[None]:
        """Return a future without an error, done together with the future whatever the outcome."""
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
    """Return an error as a future keeps it: an ApiError without its frames.

    The frames lead back to the future, and the request would live until the garbage collector comes by. A defect keeps
    its frames for the log.
    """
    if isinstance(error, ApiError):
        error.__traceback__ = error.__context__ = error.__cause__ = None
    return error


def completed(result: R) -> Future[R]:
    future: Future[R] = Future()
    future.complete(result)
    return future


def failed(error: Exception) -> Future[Any]:
    """Return a future with an error."""
    future: Future[Any] = Future()
    future.fail(error)
    return future


DONE: Future[None] = completed(None)


def all_of(*futures: Future[Any]) -> Future[None]:
    """Return a future done when all `futures` are, with the first error."""
    unfinished = [future for future in futures if not future.succeeded]
    if not unfinished:
        return DONE
    if len(unfinished) == 1:
        return unfinished[0]
    left = len(unfinished)
    first: Exception | None = None
    whole: Future[None] = Future()

    def finished(future: Future[Any]) -> None:
        nonlocal left, first
        first = first or future.error
        left -= 1
        if not left and first is not None:
            whole.fail(first)
        elif not left:
            whole.complete(None)

    def leave() -> None:
        for future in unfinished:
            future.leave(finished)

    whole.on_cancel = leave
    for future in unfinished:
        future.add_done_callback(finished)
    return whole


def when_committed(response: R, *committed: Future[None]) -> Answer[R]:
    """Return the response, to be given when all `committed` are done; `Lost` if a future fails."""
    future = all_of(*committed)
    return response if future.succeeded else future.then(lambda _: response, lost)


def lost(error: Exception) -> Exception:
    """Return the error of an answer whose records are not committed because of `error`."""
    return Lost(error.code, error.message) if isinstance(error, ApiError) and not isinstance(error, TooLate) else error


def then(reply: Answer[R], function: Callable[[R], Answer[S]]) -> Answer[S]:
    """Return `function(response)`, now or when the response comes."""
    return reply.then(function) if isinstance(reply, Future) else function(reply)


class Parked(Future[Any]):
    """A request that waits for a key to move (Kafka: DelayedOperation).

    keys: watched; each `Purgatory.touch` of a key leads to a `poll(now)`, which answers or returns None.
    deadline: epoch milliseconds, or None where only `complete` ends the wait. `expire(now)` gives the answer at the
    deadline. An exception of `poll` or `expire` is the request's error.
    yields: may be answered early by `expire` when another request arrives on the same connection (a fetch may always
    return less).
    on_cancel: called once if the connection goes away first.
    """

    __slots__ = ("deadline", "expire", "keys", "poll", "yields")

    def __init__(
        self,
        deadline: int | None,
        *,
        keys: Iterable[Hashable] = (),
        poll: Callable[[int], Any | None] | None = None,
        expire: Callable[[int], Any] | None = None,
        yields: bool = False,
    ) -> None:
        super().__init__()
        self.deadline = deadline
        self.keys = tuple(keys)
        self.poll = poll
        self.expire = expire
        self.yields = yields

    def attempt(self, step: Callable[[int], Any], now: int) -> Any:
        """Return the answer of `poll` or `expire`; None after an exception, which is the request's error then."""
        try:
            return step(now)
        except Exception as error:
            if not self.awaited:
                raise
            self.fail(caught(error))
            return None


class Purgatory:
    """The parked requests of a broker, by key and by deadline (Kafka: DelayedOperationPurgatory)."""

    def __init__(self) -> None:
        self._watching: dict[Hashable, dict[int, Parked]] = {}
        self._deadlines: list[tuple[int, int, Parked]] = []
        self._purge_at = _FEWEST_PURGED  # deadlines; then those of answered requests are dropped
        self._sequence = 0
        self._moved: list[Hashable] = []

    def __len__(self) -> int:
        return len({id(parked) for watchers in self._watching.values() for parked in watchers.values()})

    def park(self, parked: Parked) -> None:
        for key in parked.keys:
            self._watching.setdefault(key, {})[id(parked)] = parked
        if parked.deadline is not None:
            if len(self._deadlines) >= self._purge_at:
                self._purge()
            self._sequence += 1
            heapq.heappush(self._deadlines, (parked.deadline, self._sequence, parked))

    def _purge(self) -> None:
        """Drop answered requests: each would stay in memory, with its answer, until its deadline."""
        heap = self._deadlines
        heap[:] = [each for each in heap if not each[2].done]
        heapq.heapify(heap)
        self._purge_at = max(_FEWEST_PURGED, 2 * len(heap))

    def touch(self, key: Hashable) -> None:
        """Have the requests that watch `key` polled at the next `settle`."""
        if key in self._watching:
            self._moved.append(key)

    def settle(self, now: int) -> None:
        """Poll the requests that watch keys touched since the last call."""
        while self._moved:
            moved, self._moved = self._moved, []
            watching = self._watching.get
            # Each request once, however many of its keys have moved.
            for parked in {at: each for key in moved for at, each in watching(key, {}).items()}.values():
                if parked.poll is not None and not parked.done:
                    reply = parked.attempt(parked.poll, now)
                    if reply is not None or parked.done:
                        self._answer(parked, reply)

    def hurry(self, parked: Parked, now: int) -> None:
        """Answer a request now, as at its deadline."""
        if not parked.done and parked.expire is not None:
            self._answer(parked, parked.attempt(parked.expire, now))

    def cancel(self, future: Future[Any]) -> None:
        """End a wait whose connection has gone."""
        if future.done:
            return
        if isinstance(future, Parked):
            self.forget(future)
        future.cancel()

    def next_deadline(self) -> int | None:
        """Return the earliest deadline of a waiting request, in epoch milliseconds."""
        heap = self._deadlines
        while heap and heap[0][2].done:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def on_deadline(self, now: int) -> None:
        """Answer all due requests."""
        heap = self._deadlines
        while heap and (heap[0][2].done or heap[0][0] <= now):
            self.hurry(heapq.heappop(heap)[2], now)

    def answer_all(self, now: int) -> None:
        """Answer all requests that may be answered early: nothing will happen any more."""
        self.settle(now)
        watching = [parked for watchers in self._watching.values() for parked in watchers.values()]
        for parked in [*watching, *(parked for _, _, parked in self._deadlines)]:
            self.hurry(parked, now)

    def forget(self, parked: Parked) -> None:
        """Stop watching; the entry in the heap is dropped at the top of the heap, or by `_purge`."""
        for key in parked.keys:
            watchers = self._watching.get(key)
            if watchers is not None:
                watchers.pop(id(parked), None)
                if not watchers:
                    del self._watching[key]
        parked.poll = parked.expire = None

    def _answer(self, parked: Parked, reply: Any) -> None:
        self.forget(parked)
        parked.complete(reply)


Steps = Generator[Future[Any] | None, Any, R]
Later = Callable[[Callable[[], None]], object]
_UNMEASURED: tuple[Callable[[], None], Callable[[], None]] = lambda: None, lambda: None


class Work(Future[R]):
    """The future of a generator's return value.

    waits: for another future, and must not be stepped. measure: called before each further slice and after it, where
    the time of slices is measured.
    """

    __slots__ = ("_awaits", "_resume", "_running", "_steps", "measure", "waits")

    def __init__(self, steps: Steps[R], resume: Callable[[Work[Any]], None], *, outlives_client: bool = False) -> None:
        """Make the work of `steps`; `resume` is called when the work need not wait any more.

        outlives_client: the work is done to its end even if its client has gone.
        """
        super().__init__(None if outlives_client else self._close)
        self._steps = steps
        self._resume = resume
        self._awaits: Future[Any] | None = None
        self._running = self.waits = False
        self.measure = _UNMEASURED

    def _close(self) -> None:
        if not self._running:  # else the work itself has just closed the connection of its client
            self._steps.close()
            if self._awaits is not None:
                self._awaits.leave(self._go_on)

    def abandon(self) -> None:
        """End the work where it is."""
        self.on_cancel = self._close
        self.cancel()

    def lose(self, error: ApiError) -> None:
        """End the work with an error for its waiters."""
        if not self.done:
            self._steps.close()
            self.fail(error)

    def step(self) -> None:
        if not self.done:
            awaits, self._awaits = self._awaits, None
            begin, end = self.measure
            begin()
            try:
                self._run(awaits)
            finally:
                end()

    def began(self, awaits: Future[Any] | None) -> None:
        """Go on after the first slice, done by the caller, which has yielded `awaits`."""
        if awaits is not None and awaits.done:
            self._run(awaits)
        elif awaits is not None:
            self._wait(awaits)

    def _run(self, awaits: Future[Any] | None) -> None:
        steps, self._running = self._steps, True
        try:
            while True:
                if awaits is None:
                    awaits = next(steps)
                elif awaits.error is not None:
                    awaits = steps.throw(awaits.error)
                else:
                    awaits = steps.send(awaits.result())
                if awaits is None or not awaits.done:
                    break
        except StopIteration as end:
            self._running, result = False, end.value
        except Exception as error:
            self._running = False
            self.fail(caught(error))
            return
        else:
            self._running = False
            if awaits is not None:
                self._wait(awaits)
            return
        self.complete(result)

    def _wait(self, awaits: Future[Any]) -> None:
        self.waits, self._awaits = True, awaits
        awaits.add_done_callback(self._go_on)

    def _go_on(self, _: Future[Any]) -> None:
        self.waits = False
        if not self.done:
            self._resume(self)


class Slices:
    """The works of a broker.

    later: calls its argument in the next turn of the loop; without `later`, work is done where it arises.
    """

    def __init__(self, later: Later | None) -> None:
        self._later = later
        self._works: deque[Work[Any]] = deque()
        self._will_go_on = False

    def __len__(self) -> int:
        return len(self._works)

    def begin(self, steps: Steps[R], *, outlives_client: bool = False) -> Work[R]:
        """Return a new work, whose first slice is done at once."""
        work = Work(steps, self._take, outlives_client=outlives_client)
        work.step()
        if not (work.done or work.waits):
            self._take(work)
        return work

    def _take(self, work: Work[Any]) -> None:
        if self._later is None:
            while not (work.done or work.waits):
                work.step()
        else:
            self._works.append(work)
            self._go_on_later()

    def unasked(self, steps: Steps[object]) -> Future[None]:
        """Do work that follows from a change, without a request that waits; return a future of its end."""
        return self.begin(_logged(steps), outlives_client=True)

    def reply(self, steps: Steps[Answer[R]], *, outlives_client: bool = False) -> Answer[R]:
        """Return the response, or a future of the response, that the work returns in the end; for handlers."""
        try:
            awaits = next(steps)
        except StopIteration as end:  # nearly always
            response: Answer[R] = end.value
            return response
        work = Work(steps, self._take, outlives_client=outlives_client)
        work.began(awaits)
        if not (work.done or work.waits):
            self._take(work)
        later: Any = work  # the result may be a further future: the router follows it
        return work.result() if work.done else later

    def _go_on_later(self) -> None:
        if self._works and self._later is not None and not self._will_go_on:
            self._will_go_on = True
            self._later(self._go_on)

    def _go_on(self) -> None:
        self._will_go_on = False
        works = self._works
        for _ in range(min(SLICES_A_TURN, len(works))):
            work = works.popleft()
            work.step()
            if not (work.done or work.waits):
                works.append(work)
        self._go_on_later()

    def lose(self, error: ApiError) -> None:
        """End all works with an error for their waiters: another broker takes over."""
        while self._works:
            self._works.popleft().lose(error)

    def stop(self) -> None:
        """End all works: the broker ends."""
        while self._works:
            self._works.popleft().abandon()


def _logged(steps: Steps[object]) -> Steps[None]:
    try:
        yield from steps
    except ApiError as error:
        logger.error("what follows from a change was not done: %s", error)
    except Exception:
        logger.exception("a defect in what follows from a change")


def are_many(groups: Iterable[Collection[object]]) -> bool:
    """Return whether the partitions of these topics are too many for one slice."""
    return sum(map(len, groups)) > PARTITIONS_A_SLICE


def shares(groups: Iterable[tuple[G, Sequence[T]]]) -> Iterator[list[tuple[G, Sequence[T]]]]:
    """Yield the partitions of several topics in their order, as many at a time as are served in one slice.

    A topic without partitions comes too, and counts as a partition.
    """
    share: list[tuple[G, Sequence[T]]] = []
    room = PARTITIONS_A_SLICE
    for group, items in groups:
        start = 0
        while True:
            some = items[start : start + room]
            share.append((group, some))
            start += len(some)
            room -= max(1, len(some))
            if room <= 0:
                yield share
                share, room = [], PARTITIONS_A_SLICE
            if start >= len(items):
                break
    if share:
        yield share
