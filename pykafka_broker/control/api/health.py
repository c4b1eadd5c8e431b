"""The broker's health, identity and clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pykafka_broker import __version__
from pykafka_broker.addresses import address_text
from pykafka_broker.control.control import Control
from pykafka_broker.control.problems import Problem
from pykafka_broker.control.schema import ValueLimits


@dataclass
class Health:
    status: str


@dataclass
class BrokerInfo:
    """The broker behind the API. `schema_registry_url` is null where the process has no schema registry."""

    version: str
    cluster_id: str
    node_id: int
    listeners: dict[str, str]
    bootstrap_servers: str
    schema_registry_url: str | None
    connections: int


def health(control: Control) -> Health:
    """Return whether the process serves."""
    return Health("ok")


def ready(control: Control) -> Health:
    """Return whether clients are served, coordinators included. 503 while logs of groups or transactions are being
    read.
    """
    loading = control.services.loading()
    if loading:
        raise Problem(503, f"still being read: {', '.join(loading)}")
    return Health("ready")


def broker(control: Control) -> BrokerInfo:
    """Return the identity of the broker, and the addresses for clients."""
    addresses = {each.name: address_text(each.host, each.port) for each in control.listeners}
    return BrokerInfo(
        version=__version__,
        cluster_id=control.services.cluster_id,
        node_id=control.services.node_id,
        listeners=addresses,
        bootstrap_servers=next(iter(addresses.values())),
        schema_registry_url=control.schema_registry_url,
        connections=control.server.connection_count,
    )


_YEAR_MS = 366 * 24 * 3_600_000
_LATEST_MS = 253_402_300_799_999  # the end of the year 9999
Milliseconds = Annotated[int, ValueLimits(minimum=0, maximum=10 * _YEAR_MS, says="milliseconds, at most ten years")]


@dataclass
class Time:
    """The broker's time, in epoch milliseconds, and whether the clock is stopped. In a cluster `note` says that this is
    one node's clock; a broker alone has null.
    """

    now_ms: int
    frozen: bool
    note: str | None


def clock(control: Control) -> Time:
    """Return the broker's time."""
    node, note = control.broker.node, None
    if not node.roles.alone:
        note = f"the clock of node {node.id} alone; a node whose clock runs ahead of the others' may be fenced"
    return Time(control.time.clock.wall, control.time.frozen, note)


async def advance_clock(control: Control, ms: Milliseconds) -> Time:
    """Move the clock forwards. Everything due on the way is done before the answer, in order, each step at its own
    time: retention, compaction, timeouts of sessions and transactions, waiting requests, idle connections.
    """
    await control.time.advance(ms)
    return clock(control)


def freeze_clock(control: Control) -> Time:
    """Stop the clock. Everything waiting for a time waits until the clock is moved or resumed."""
    control.time.freeze()
    return clock(control)


def resume_clock(control: Control) -> Time:
    """Let a stopped clock run on from the shown time."""
    control.time.resume()
    return clock(control)


async def set_clock(
    control: Control, now_ms: Annotated[int, ValueLimits(minimum=0, maximum=_LATEST_MS, says="epoch milliseconds")]
) -> Time:
    """Set the clock. Forwards, everything happens as if the time had passed. Backwards, only the timestamps of new
    records go back, and no deadline comes later.
    """
    await control.time.set_wall(now_ms)
    return clock(control)
