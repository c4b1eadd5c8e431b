"""What clients have asked and were answered."""

from __future__ import annotations

from collections import deque
from typing import Annotated

from pykafka_broker.control.control import Control
from pykafka_broker.control.problems import Problem
from pykafka_broker.control.schema import Limits
from pykafka_broker.control.traffic.exchange import Exchange
from pykafka_broker.control.traffic.frames import error_name
from pykafka_broker.control.traffic.names import api_keys, error_code
from pykafka_broker.control.traffic.readable import SeenRequest, line, seen
from pykafka_broker.control.traffic.rule import Action, Match, Rule

Apis = str | list[str] | None
MostRequests = Annotated[int, Limits(minimum=1, maximum=10_000)]
TimeoutMs = Annotated[int, Limits(minimum=0, maximum=3_600_000, says="milliseconds of real time")]
_LAST_SHOWN = 10


class Asked:
    """What whoever looks into the log wants to see."""

    def __init__(self, control: Control, match: Match, error: str | None, since: int | None) -> None:
        self._rule = Rule(0, match, Action())
        self._known = control.observing.known
        self._error = None if error is None else error_name(error_code(error))
        self._since = since

    def fits(self, exchange: Exchange) -> bool:
        if self._since is not None and exchange.wall_ms < self._since:
            return False
        if not self._rule.fits(exchange, self._known):
            return False
        return self._error is None or self._error in exchange.errors


def requests(
    control: Control,
    api: str | None = None,
    version: int | None = None,
    client_id: str | None = None,
    principal: str | None = None,
    connection: int | None = None,
    topic: str | None = None,
    group: str | None = None,
    transactional_id: str | None = None,
    error: str | None = None,
    since: int | None = None,
    after: int = 0,
    waiting: bool = True,
    bodies: bool = False,
    limit: MostRequests = 1000,
) -> list[SeenRequest]:
    """The last requests of clients, in the order of their answers; those that wait for one come last. A name may have
    a `*` for anything. `since` is a time (milliseconds since 1970), `after` a request's `number`; of more than `limit`
    that fit the newest are returned. `bodies` decodes requests and responses.
    """
    names = (connection, None, topic, None, group, transactional_id)
    match = Match(api_keys(api), version, client_id, *names, principal=principal)
    asked = Asked(control, match, error, since)
    found: deque[Exchange] = deque(filter(asked.fits, control.observing.log.since(after)), limit)
    if waiting:
        found.extend(filter(asked.fits, control.observing.log.unanswered()))
    return [seen(each, bodies) for each in found]


def clear_requests(control: Control) -> None:
    """Empty the request log."""
    control.observing.log.clear()


async def wait_for_request(
    control: Control,
    api: Apis = None,
    version: int | None = None,
    client_id: str | None = None,
    principal: str | None = None,
    connection: int | None = None,
    topic: str | None = None,
    group: str | None = None,
    transactional_id: str | None = None,
    error: str | None = None,
    since: int | None = None,
    after: int = 0,
    waiting: bool = True,
    n: MostRequests = 1,
    bodies: bool = False,
    timeout_ms: TimeoutMs = 10_000,
) -> list[SeenRequest]:
    """Wait until the log has so many such requests, answered or waiting; returns them. 408 if they do not come."""
    names = (connection, None, topic, None, group, transactional_id)
    match = Match(api_keys(api), version, client_id, *names, principal=principal)
    asked, log = Asked(control, match, error, since), control.observing.log
    answered: list[Exchange] = []
    looked_at = after

    def enough() -> list[Exchange] | None:
        nonlocal looked_at
        answered.extend(filter(asked.fits, log.since(looked_at)))
        looked_at = max(looked_at, log.last_number)
        found = answered
        if waiting and len(found) < n:
            found = answered + list(filter(asked.fits, log.unanswered()))
        return found if len(found) >= n else None

    found = await control.until(enough, timeout_ms / 1000)
    if found is None:
        last = last_requests(control)
        told = f"after {timeout_ms} ms {len(answered)} such requests, expected {n}{told_requests(last)}"
        raise Problem(408, told, more={"last_requests": last})
    return [seen(each, bodies) for each in found]


def last_requests(control: Control) -> list[str]:
    """Return the last requests of all clients, a line each."""
    log = control.observing.log
    return [line(seen(each, bodies=False)) for each in deque([*log.since(), *log.unanswered()], _LAST_SHOWN)]


def told_requests(lines: list[str]) -> str:
    """Return such lines as the end of a failure's text."""
    return "\nthe last requests:" + "".join(f"\n  {each}" for each in lines) if lines else "\nno requests at all"
