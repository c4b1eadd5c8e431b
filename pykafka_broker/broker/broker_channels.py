"""The channels to the other brokers of the cluster.

Rule: a broker is found where the metadata says that it listens for brokers (`inter.broker.listener.name`), in its
newest registration. A sender asks for the channel anew whenever it has something to send: a broker that has moved or
come back is another `Peer`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka_broker.peers import Address, Peer

if TYPE_CHECKING:
    from pykafka_broker.broker.node import Node
    from pykafka_broker.cluster.image import BrokerImage

_Found = tuple[Address, int]  # with the epoch of the registration


class BrokerChannels:
    """The channels of one node. A channel serves one purpose: its requests are answered in their order."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._open: dict[tuple[int, str], tuple[_Found, Peer]] = {}  # by broker and client id

    def peer(self, broker_id: int, client_id: str) -> Peer | None:
        """Return the channel to a broker for the purpose that `client_id` names; None if its address is not known."""
        key, found = (broker_id, client_id), self._find(broker_id)
        known = self._open.get(key)
        if known is not None and known[0] == found:
            return known[1]
        if known is not None:
            del self._open[key]
            known[1].close()
        if found is None or self._node.peers is None:
            return None
        peer = self._node.peers.open(found[0], client_id)
        self._open[key] = found, peer
        return peer

    def close(self) -> None:
        """Close all channels."""
        for _, peer in self._open.values():
            peer.close()
        self._open.clear()

    def _find(self, broker_id: int) -> _Found | None:
        broker = self._node.image.brokers.get(broker_id)
        address = None if broker is None else self._address(broker)
        return None if broker is None or address is None else (address, broker.epoch)

    def _address(self, broker: BrokerImage) -> Address | None:
        wanted = inter_broker_listener(self._node)
        for name, host, port, _ in broker.endpoints:
            if name == wanted:
                return Address(host, port, name)
        return None


def inter_broker_listener(node: Node) -> str:
    """Return the name of the listener where brokers talk to each other."""
    config = node.config
    return (config.inter_broker_listener_name or config.security_inter_broker_protocol).upper()
