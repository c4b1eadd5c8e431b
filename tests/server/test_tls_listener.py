"""TLS on one listener: what is wrong with it is told when it is bound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.config import BrokerConfig, ConfigError
from pykafka_broker.server.tls_listener import TlsListener
from tests.security.tls.certificates import server_certificate

NO_SERVER: Any = None


def test_a_listener_whose_key_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="listener FRONT has no key"):
        TlsListener("FRONT", BrokerConfig({"ssl.keystore.type": "PEM"}), NO_SERVER)


def test_rules_that_can_not_be_read_are_refused(tmp_path: Path) -> None:
    config = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": server_certificate().write(tmp_path / "broker.pem"),
        "listener.name.front.ssl.principal.mapping.rules": "RULE:[/x/",
    }
    with pytest.raises(
        ConfigError, match=r"configuration listener\.name\.front\.ssl\.principal\.mapping\.rules: listener"
    ):
        TlsListener("FRONT", BrokerConfig(config), NO_SERVER)
