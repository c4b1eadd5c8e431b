"""Links to other nodes, for machines that know no sockets (`peers.py`).

Rule: a test may cut this node off from others; each node does so for the connections that it makes itself. Imported by
a node in a cluster.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial

from pykafka_broker.config import BrokerConfig
from pykafka_broker.config.roles import roles_of
from pykafka_broker.peers import Address, Peer
from pykafka_broker.server.event_loop import EventLoop
from pykafka_broker.server.link import PLAIN, Link, LinkSettings, TransportSecurity
from pykafka_broker.server.listeners import PLAINTEXT, security_protocol_of


class LinkPeers:
    """Links to other nodes.

    `admits` says whether an address may be dialled; after a change of it, `cut` closes connections.
    """

    def __init__(self, turns: EventLoop, config: BrokerConfig | None = None) -> None:
        self._turns = turns
        self._links: weakref.WeakKeyDictionary[Link, Address] = weakref.WeakKeyDictionary()
        self._securities: dict[str, TransportSecurity] = {}  # by the name of the listener
        self._config = config
        self.admits: Callable[[Address], bool] = lambda address: True

    def check(self) -> None:
        """Check that the node, as a broker, can log in at every listener of others. Raises ConfigError."""
        config = self._config
        if config is not None and roles_of(config).broker:
            others = config.inter_broker_listener_name or config.security_inter_broker_protocol
            for listener in (others, *(config.controller_listener_names or ())):
                self._security_of(listener.upper())

    def open(self, address: Address, client_id: str) -> Peer:
        """Return a new link to an address."""
        settings = LinkSettings(client_id=client_id)
        admitted = partial(self._is_admitted, address)
        security = self._security_of(address.listener)
        link = Link(self._turns, address.host, address.port, settings, security=security, admits=admitted)
        self._links[link] = address
        return link

    def _security_of(self, listener: str) -> TransportSecurity:
        if self._config is None:
            return PLAIN
        if listener not in self._securities:
            self._securities[listener] = self._made(self._config, listener)
        return self._securities[listener]

    @staticmethod
    def _made(config: BrokerConfig, listener: str) -> TransportSecurity:
        if security_protocol_of(config, listener) == PLAINTEXT:
            return PLAIN
        from pykafka_broker.server.link_security import LinkSecurity  # brings OpenSSL

        return LinkSecurity(config, listener)

    def _is_admitted(self, address: Address) -> bool:
        return self.admits(address)

    def cut(self) -> None:
        """Drop the connections to addresses not admitted any more."""
        for link, address in list(self._links.items()):
            if not self.admits(address):
                link.cut()
