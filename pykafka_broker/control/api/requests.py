"""Which clients are connected, what they have asked, and what they were answered."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Annotated

from pykafka_broker.control.api.waits import DEFAULT_TIMEOUT_MS, NOT_IN_TIME, Count, TimeoutMs
from pykafka_broker.control.control import Control
from pykafka_broker.control.problems import Problem
from pykafka_broker.control.schema import ValueLimits
from pykafka_broker.control.traffic.exchange import Exchange, error_name
from pykafka_broker.control.traffic.faults import Action, Match, Rule, pattern
from pykafka_broker.control.traffic.readable import SeenRequestAnswer, api_keys, error_code, line, seen

Apis = str | list[str] | None
MostRequests = Annotated[int, ValueLimits(minimum=1, maximum=10_000)]
_LAST_SHOWN = 10


class Asked:
    """A filter of the request log."""

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
) -> list[SeenRequestAnswer]:
    """Return the last requests of clients, in the order of the answers; waiting requests come last. A name may have a
    `*` for anything. `since` is a time (milliseconds since 1970), `after` a request's `number`; of more than `limit`
    fitting requests the newest are returned. `bodies` decodes requests and responses.
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
) -> list[SeenRequestAnswer]:
    """Wait until the log has `n` fitting requests, answered or waiting, and return the requests. 408 otherwise."""
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
    """Return lines of requests as the end of a failure's text."""
    return "\nthe last requests:" + "".join(f"\n  {each}" for each in lines) if lines else "\nno requests at all"


@dataclass
class Connected:
    """A connection of a client. The client id is unknown before the first request; the principal is User:ANONYMOUS
    before it has authenticated.
    """

    connection: int
    client_id: str | None
    principal: str
    software: str
    client: str
    listener: str


def connections(control: Control, client_id: str | None = None) -> list[Connected]:
    """Return the connections of clients, in order of arrival. A client id may have a `*` for anything."""
    wanted = None if client_id is None else pattern(client_id)
    called = control.observing.log.client_ids()
    found = []
    for connection in control.server.connections:
        context = connection.context
        name = called.get(context.id)
        if wanted is None or (name is not None and wanted.fullmatch(name)):
            software = f"{context.software_name} {context.software_version}".strip()
            found.append(Connected(context.id, name, context.principal, software, connection.peer, context.listener))
    return found


async def wait_for_connections(
    control: Control, client_id: str | None = None, n: Count = 1, timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS
) -> list[Connected]:
    """Wait until there are at least `n` connections of a client id; with `n` 0, until there is none. A client has
    several: to bootstrap, to the broker and to its coordinator.
    """

    def holds() -> list[Connected] | None:
        found = connections(control, client_id)
        return found if (len(found) >= n if n else not found) else None

    found = await control.until(holds, timeout_ms / 1000)
    if found is None:
        all_of_them = connections(control)
        ids = ", ".join(sorted({str(each.client_id) for each in all_of_them})) or "none"
        count = len(connections(control, client_id))
        of = "" if client_id is None else f" of client id {client_id}"
        told = f"after {timeout_ms} ms {count} connections{of}, expected {n}; connected are: {ids}"
        raise Problem(NOT_IN_TIME, told)
    return found
