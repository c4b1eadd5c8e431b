"""Who is connected."""

from __future__ import annotations

from dataclasses import dataclass

from pykafka_broker.control.api.waits import DEFAULT_TIMEOUT_MS, NOT_IN_TIME, Count, TimeoutMs
from pykafka_broker.control.control import Control
from pykafka_broker.control.problems import Problem
from pykafka_broker.control.traffic.rule import pattern


@dataclass
class Connected:
    """A connection of a client. Before its first request its client id is not known; before it has said who it is, on a
    listener that asks, its principal is User:ANONYMOUS.
    """

    connection: int
    client_id: str | None
    principal: str
    software: str
    client: str
    listener: str


def connections(control: Control, client_id: str | None = None) -> list[Connected]:
    """The connections of clients, in the order in which they came. A client id may have a `*` for anything."""
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
    """Wait until there are at least so many connections of a client id; with `n` 0, until there is none. A client has
    several: to bootstrap, to the broker and to its coordinator."""

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
