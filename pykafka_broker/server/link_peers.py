"""Links to other nodes, for machines that know no sockets (`peers.py`)."""

from __future__ import annotations

from pykafka_broker.peers import Address, Peer
from pykafka_broker.server.link import Link
from pykafka_broker.server.link_settings import LinkSettings
from pykafka_broker.server.turns import Turns


class LinkPeers:
    """Connections without security, as the listeners that they go to."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def open(self, address: Address, client_id: str) -> Peer:
        """A link of its own."""
        settings = LinkSettings(client_id=client_id)
        return Link(self._turns, address.host, address.port, settings)
