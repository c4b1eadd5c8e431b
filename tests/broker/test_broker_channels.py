"""Other brokers are found where the metadata says that they listen for brokers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.peers import Address, Peer
from pykafka_broker.protocol.stored.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from tests.broker.support import LightBroker


class Silent:
    """A peer that takes everything and answers nothing."""

    def __init__(self, address: Address, client_id: str) -> None:
        self.address, self.client_id = address, client_id
        self.closed = False

    def send(self, *_: Any, **__: Any) -> None: ...

    def served(self, api_key: int) -> tuple[int, int] | None: ...

    def close(self) -> None:
        self.closed = True


class Network:
    def open(self, address: Address, client_id: str) -> Peer:
        return Silent(address, client_id)


def registered(node: LightBroker, port: int, epoch: int) -> None:
    record = RegisterBrokerRecord(
        broker_id=2, broker_epoch=epoch, end_points=[BrokerEndpoint("PLAINTEXT", "other", port, 0)]
    )
    node.metadata.commit([ApiMessageAndVersion(record, 1)])


def test_a_neighbour_is_found_by_its_registration(tmp_path: Path) -> None:
    node = LightBroker(tmp_path)
    whole = node.whole.node
    whole.peers = Network()
    assert whole.neighbours.peer(2, "a") is None
    registered(node, 9, epoch=7)
    first = whole.neighbours.peer(2, "a")
    assert isinstance(first, Silent)
    assert first.address == Address("other", 9, "PLAINTEXT")
    again, other = whole.neighbours.peer(2, "a"), whole.neighbours.peer(2, "b")
    assert (again is first, other is first) == (True, False)
    registered(node, 10, epoch=8)
    second = whole.neighbours.peer(2, "a")
    assert isinstance(second, Silent)
    assert second.address.port == 10
    assert first.closed
    whole.neighbours.close()
    assert second.closed
