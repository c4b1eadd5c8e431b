"""Whether the broker is there, and which one it is."""

from __future__ import annotations

from dataclasses import dataclass

from pykafka_broker import __version__
from pykafka_broker.control.control import Control
from pykafka_broker.control.problems import Problem


@dataclass
class Health:
    status: str


@dataclass
class BrokerInfo:
    """The broker behind this door."""

    version: str
    cluster_id: str
    node_id: int
    listeners: dict[str, str]
    bootstrap_servers: str
    connections: int


def health(control: Control) -> Health:
    """Whether the process serves."""
    return Health("ok")


def ready(control: Control) -> Health:
    """Whether clients are served, coordinators included. 503 while logs of groups or transactions are being read."""
    loading = control.services.loading()
    if loading:
        raise Problem(503, f"still being read: {', '.join(loading)}")
    return Health("ready")


def broker(control: Control) -> BrokerInfo:
    """Which broker this is, and where clients find it."""
    addresses = {
        each.name: f"[{each.host}]:{each.port}" if ":" in each.host else f"{each.host}:{each.port}"
        for each in control.listeners
    }
    return BrokerInfo(
        version=__version__,
        cluster_id=control.services.cluster_id,
        node_id=control.services.node_id,
        listeners=addresses,
        bootstrap_servers=next(iter(addresses.values())),
        connections=control.server.connection_count,
    )
