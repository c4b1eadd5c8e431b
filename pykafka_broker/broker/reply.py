"""What an answer rests on.

Rule: an answer says so itself, as a value. A handler that has relied on records which may not be committed yet returns
`resting(response, after)`; the router lets the answer go when they are committed, and answers with an error if they
never will be. So nobody is told of what a crash or another leader could take back. What comes after a wait is a plain
function, `then`: no request is served twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from pykafka_broker.errors import ApiError

R = TypeVar("R")
S = TypeVar("S")
Waiter = Callable[[ApiError | None], None]


class TooLate(ApiError):
    """It was not committed in the time that an answer waits; it may be still. The client is told this very error."""


class Committing(Protocol):
    """Where records get committed: a partition, or the metadata."""

    def is_committed(self, offset: int) -> bool:
        """Whether all that lies below `offset` is committed."""

    def when_committed(self, offset: int, waiter: Waiter) -> None:
        """`waiter` hears when that is so, maybe at once; or why it will not be."""


After = tuple[tuple[Committing, int], ...]  # the end offset in each place: all below it has to be committed
NOTHING: After = ()


class Reply:
    """What a handler returns whose answer has to wait: `then()` gives the answer once all of `after` is committed, a
    response or another wait.
    """

    __slots__ = ("after", "then")

    def __init__(self, after: After, then: Callable[[], Any]) -> None:
        self.after = after
        self.then = then


def resting(response: R, after: After) -> R | Reply:
    """The response, to be sent when all that it rests on is committed."""
    return Reply(after, lambda: response) if after else response


def then(reply: R | Reply, function: Callable[[R], S | Reply]) -> S | Reply:
    """What `function` makes of the response, now or when it is there."""
    if isinstance(reply, Reply):
        earlier = reply.then
        return Reply(reply.after, lambda: then(earlier(), function))
    return function(reply)


def when_all(after: Iterable[tuple[Committing, int]], waiter: Waiter) -> None:
    """Call `waiter` when all of them are committed, or with the first error; at once if there are none."""
    waiting = 1
    first: ApiError | None = None

    def committed(error: ApiError | None) -> None:
        nonlocal waiting, first
        first = first or error
        waiting -= 1
        if not waiting:
            waiter(first)

    for place, offset in after:
        waiting += 1
        place.when_committed(offset, committed)
    committed(None)
