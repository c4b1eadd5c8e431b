"""Requests that wait or fail.

Rule: what a handler raises becomes the answer of its own request, whenever it raises it. What a request raises that has
waited is not the trouble of whoever woke it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.failure import whole_request_failure
from pykafka_broker.broker.purgatory import Parked, Purgatory
from pykafka_broker.broker.reply import After, Reply, TooLate, when_all
from pykafka_broker.broker.slices import Work
from pykafka_broker.errors import ApiError, FrameError
from pykafka_broker.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from pykafka_broker.broker.router import Endpoint

log = logging.getLogger(__name__)


class Held:
    """An answer that comes when the records that it rests on are committed, or says that they will not be. Nothing more
    is done for a connection that has gone meanwhile, and a further wait ends with it.

    Its methods are no closures: those would hold each other, and the request with them, until the garbage collector
    comes by.
    """

    __slots__ = ("_context", "_endpoint", "_purgatory", "_request", "parked")

    def __init__(self, purgatory: Purgatory, endpoint: Endpoint, context: RequestContext, request: Any) -> None:
        self._purgatory = purgatory
        self._endpoint = endpoint
        self._context = context
        self._request = request
        self.parked = Parked(None)

    def rest_on(self, reply: Reply) -> None:
        self.parked.cancelled = partial(_abandon, reply.after)
        when_all(reply.after, partial(self._go_on, reply))

    def _go_on(self, held: Reply, error: ApiError | None) -> None:
        if self.parked.done:
            return
        if error is not None:
            self.parked.complete(self._told(_unanswered(self._endpoint, error)))
            return
        try:
            then = held.then()
        except Exception as raised:
            then = self._told(raised)
        self._arrived(then)

    def _arrived(self, then: Any) -> None:
        """The answer, or what it has to wait for next."""
        parked = self.parked
        if isinstance(then, Reply):
            self.rest_on(then)
        elif isinstance(then, Parked) and not then.done:
            guard(then, self._endpoint, self._context, self._request)
            then.on_reply = self._arrived
            self._purgatory.park(then)
            parked.cancelled = partial(self._purgatory.cancel, then)
        else:
            parked.complete(then.reply if isinstance(then, Parked) else then)

    def _told(self, error: Exception) -> Any:
        return told(self._endpoint, self._context, self._request, error)


def _abandon(after: After) -> None:
    """Nobody waits for what rests on these any more: work that is done for the answer ends."""
    for place, _ in after:
        if isinstance(place, Work) and not place.outlives_client:
            place.abandon()


def _unanswered(endpoint: Endpoint, error: ApiError) -> ApiError:
    """What is told instead of an answer whose records are not committed."""
    return error if isinstance(error, TooLate) else ApiError(endpoint.when_lost)


def failure(endpoint: Endpoint, context: RequestContext, request: Any, error: Exception) -> Any:
    """The answer to a request whose handler raised."""
    if isinstance(error, ApiError):
        code, message = error.code, error.message
    else:
        log.error("a defect while serving %s: %r", endpoint.api_key.name, context, exc_info=error)
        code, message = ErrorCode.UNKNOWN_SERVER_ERROR, None
    return whole_request_failure(endpoint.response_type, code, message, request, context.api_version)


def told(endpoint: Endpoint, context: RequestContext, request: Any, error: Exception) -> Any:
    """The answer to a request that has waited and failed."""
    if isinstance(error, FrameError):
        return _NoAnswer(error)
    try:
        return failure(endpoint, context, request, error)
    except FrameError as refused:
        return _NoAnswer(refused)


class _NoAnswer:
    """Stands for an answer that there is not: whoever waits for it has its connection closed."""

    __slots__ = ("_error",)

    def __init__(self, error: FrameError) -> None:
        self._error = error

    def write(self, version: int, w: Callable[[Any], object]) -> None:
        raise self._error


def guard(parked: Parked, endpoint: Endpoint, context: RequestContext, request: Any) -> None:
    """What a parked request raises later is its own answer, not the trouble of whoever woke it."""

    def guarded(step: Callable[[int], Any]) -> Callable[[int], Any]:
        def take(now: int) -> Any:
            try:
                return step(now)
            except Exception as error:
                return told(endpoint, context, request, error)

        return take

    if parked.poll is not None:
        parked.poll = guarded(parked.poll)
    if parked.expire is not None:
        parked.expire = guarded(parked.expire)


__all__ = ["Held", "failure", "guard"]
