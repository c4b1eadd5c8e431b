"""How a connection begins, by the protocol of its listener."""

from __future__ import annotations

from typing import Any

from pykafka_broker.config import BrokerConfig
from pykafka_broker.server.connection import Connection
from pykafka_broker.server.doors import door_of
from pykafka_broker.server.listeners import Listener
from pykafka_broker.server.transport import PlainTransport


def test_behind_a_plain_listener_is_the_socket_itself() -> None:
    no_server: Any = None
    door = door_of(Listener("PLAINTEXT", "127.0.0.1", 0), BrokerConfig(), no_server)
    assert door.new_transport is PlainTransport
    assert door.new_connection is Connection
