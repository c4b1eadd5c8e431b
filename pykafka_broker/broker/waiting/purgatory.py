"""Requests that wait.

Rule: a parked request is data. It is answered exactly once: by `poll` when something that it watches has moved, by
`expire` at its deadline, by `complete` from whoever holds it as a token, or never if its connection has gone. `touch`
only notes what has moved; `settle` polls. So the request that moved it is answered before those that waited for it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from pykafka_broker.broker.waiting.future import Future, caught


class Parked(Future[Any]):
    """A request that waits for something to move (Kafka: DelayedOperation).

    keys: what it watches; each `Purgatory.touch` of one of them leads to a `poll(now)`, which answers or returns None.
    deadline: epoch milliseconds, or None for one that only `complete` ends. `expire(now)` gives the answer at the
    deadline. What either of them raises is the request's error.
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
        on_cancel: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(on_cancel)
        self.deadline = deadline
        self.keys = tuple(keys)
        self.poll = poll
        self.expire = expire
        self.yields = yields

    def attempt(self, step: Callable[[int], Any], now: int) -> Any:
        """Return what `poll` or `expire` gives; None if it raises, which is the request's error then."""
        try:
            return step(now)
        except Exception as error:
            if not self.awaited:
                raise
            self.fail(caught(error))
            return None


class Purgatory:
    """All parked requests of one broker, found by key and by deadline."""

    def __init__(self) -> None:
        self._watching: dict[Hashable, dict[int, Parked]] = {}
        self._deadlines: list[tuple[int, int, Parked]] = []
        self._sequence = 0
        self._moved: list[Hashable] = []

    def __len__(self) -> int:
        return len({id(parked) for watchers in self._watching.values() for parked in watchers.values()})

    def park(self, parked: Parked) -> None:
        for key in parked.keys:
            self._watching.setdefault(key, {})[id(parked)] = parked
        if parked.deadline is not None:
            self._sequence += 1
            heapq.heappush(self._deadlines, (parked.deadline, self._sequence, parked))

    def touch(self, key: Hashable) -> None:
        """Something happened under this key; whoever watches it is polled at the next `settle`."""
        if key in self._watching:
            self._moved.append(key)

    def settle(self, now: int) -> None:
        """Poll whoever watches what was touched since the last call."""
        while self._moved:
            moved, self._moved = self._moved, []
            watching = self._watching.get
            # Each once, however many of the things that it watches have moved.
            for parked in {at: each for key in moved for at, each in watching(key, {}).items()}.values():
                if parked.poll is not None and not parked.done:
                    reply = parked.attempt(parked.poll, now)
                    if reply is not None or parked.done:
                        self._answer(parked, reply)

    def hurry(self, parked: Parked, now: int) -> None:
        """Answer one that yields with what there is."""
        if not parked.done and parked.expire is not None:
            self._answer(parked, parked.attempt(parked.expire, now))

    def cancel(self, future: Future[Any]) -> None:
        """End a wait whose connection has gone: nobody waits for the answer."""
        if future.done:
            return
        if isinstance(future, Parked):
            self.forget(future)
        future.cancel()

    def next_deadline(self) -> int | None:
        """Epoch milliseconds of the earliest waiting deadline."""
        heap = self._deadlines
        while heap and heap[0][2].done:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def on_deadline(self, now: int) -> None:
        """Answer all that are due."""
        heap = self._deadlines
        while heap and (heap[0][2].done or heap[0][0] <= now):
            parked = heapq.heappop(heap)[2]
            if not parked.done and parked.expire is not None:
                self._answer(parked, parked.attempt(parked.expire, now))

    def answer_all(self, now: int) -> None:
        """Nothing will happen any more: whoever may be answered before its time is, with what there is."""
        self.settle(now)
        watching = [parked for watchers in self._watching.values() for parked in watchers.values()]
        for parked in [*watching, *(parked for _, _, parked in self._deadlines)]:
            self.hurry(parked, now)

    def forget(self, parked: Parked) -> None:
        """Stop watching; the entry in the heap is dropped when it comes to the top."""
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
