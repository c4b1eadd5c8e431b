"""How a connection begins, by the protocol of its listener."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pykafka_broker.clock import Clock
from pykafka_broker.config import BrokerConfig
from pykafka_broker.server.connection import Connection
from pykafka_broker.server.doors import door_of
from pykafka_broker.server.listeners import Listener
from pykafka_broker.server.tls_listener import TlsListener
from pykafka_broker.server.transport import PlainTransport
from tests.security.tls.certificates import server_certificate


def test_behind_a_plain_listener_is_the_socket_itself() -> None:
    server: Any = SimpleNamespace(broker=SimpleNamespace(config=BrokerConfig()))
    door = door_of(Listener("PLAINTEXT", "127.0.0.1", 0), server)
    assert door.new_transport is PlainTransport
    assert door.new_connection is Connection


def test_behind_one_with_tls_a_client_has_the_name_of_its_certificate_or_that_of_its_login(tmp_path: Path) -> None:
    config = BrokerConfig(
        {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": server_certificate().write(tmp_path / "broker.pem"),
            "sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "listener.name.front.scram-sha-256.sasl.jaas.config": "ScramLoginModule required;",
        }
    )
    server: Any = SimpleNamespace(broker=SimpleNamespace(config=config), turns=SimpleNamespace(clock=Clock()))
    tls = door_of(Listener("FRONT", "127.0.0.1", 0, protocol="SSL"), server)
    assert isinstance(tls.new_connection.__self__, TlsListener)  # type: ignore[attr-defined]
    both = door_of(Listener("FRONT", "127.0.0.1", 0, protocol="SASL_SSL"), server)
    assert isinstance(both.new_transport.__self__, TlsListener)  # type: ignore[attr-defined]
    assert not isinstance(getattr(both.new_connection, "__self__", None), TlsListener)
