"""TLS on one listener: what is wrong with it is told when it is bound."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka_broker.config import BrokerConfig, ConfigError
from pykafka_broker.server.listeners import SSL, Listener
from pykafka_broker.server.tls_listener import TlsListener


def test_a_listener_whose_key_is_not_there_is_refused() -> None:
    no_turns: Any = None
    with pytest.raises(ConfigError, match="listener FRONT has no key"):
        TlsListener(
            Listener("FRONT", "127.0.0.1", 0, protocol=SSL), BrokerConfig({"ssl.keystore.type": "PEM"}), no_turns
        )
