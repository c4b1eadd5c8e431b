"""Events of a recording as people read them: a line each, and an exchange with its decoded bodies.

Rule: requests have numbers from 1 on, in the order in which they came; nothing else has one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.control.history.findings import clock
from pykafka_broker.control.traffic.exchange import Exchange, Mark
from pykafka_broker.control.traffic.readable import line, seen
from pykafka_broker.testing.recorded_coordinators import QUESTIONS, moved_coordinator
from pykafka_broker.testing.recording import COORDINATOR, PROCESS, Recorded, Recording

_OTHER = " " * 7  # in the place of a request's number


def lines(recording: Recording) -> Iterator[str]:
    """Yield what happened, with the time since the beginning and the number of each request."""
    number = 0
    for each in recording.events:
        number += bool(each.request)
        yield f"{number:6} {line_of(each, number)}" if each.request else _OTHER + line_of(each)


def line_of(event: Recorded, number: int = 0) -> str:
    """Return a line about an event. number: of a request."""
    node = f" (node {event.node})" if event.node else ""
    if event.request:
        return f"{line(seen(_exchange(event, number), False))}{node}"
    if event.call is None:
        return f"{clock(event.at // 1000)} connection:{event.connection} is closed{node}"
    method, target, body = event.call
    what = f"control API: {method} {target} {body}"
    if method == PROCESS:
        what = f"broker {target.strip('/')}"
    elif method == COORDINATOR:
        one, other = moved_coordinator(event)
        what = f"broker {other} becomes the coordinator of {QUESTIONS[one.kind].replace('_', ' ')} {one.key}"
    return f"{clock(event.at // 1000)} {what}".rstrip() + node


def bodies_of(event: Recorded, number: int) -> tuple[Any, Any]:
    """Return the request and the response of an exchange as values for JSON."""
    found = seen(_exchange(event, number), True, True)
    return found["request"], found["response"]


def _exchange(event: Recorded, number: int) -> Exchange:
    context = ConnectionContext(event.connection, "", ("", 0), ("connection", event.connection))
    answer = None if event.response is None else (len(event.response).to_bytes(4, "big"), event.response)
    took_ns = 0 if answer is None else (event.answered - event.at) * 1000
    mark = Mark(len(event.request), event.fault)
    return Exchange((event.at // 1000, context, event.request, answer, took_ns), number, mark)
