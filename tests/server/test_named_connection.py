"""Clients that say nothing of who they are, and a class that names them all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from interop.raw import Closed, RawClient
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest
from pykafka_broker.testing import BrokerError, KafkaBroker

NAMING = """
class ByAddress:
    def build(self, client):
        assert (client.name, client.certificate, client.mechanism) == ("User:ANONYMOUS", None, "")
        if client.listener == "CLOSED":
            raise LookupError("nobody comes in here")
        return f"User:{client.listener}-{client.host}"
"""


@pytest.mark.parametrize("key", ["principal.builder.class", "listener.name.open.principal.builder.class"])
def test_a_class_names_clients_of_a_plain_listener(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    (tmp_path / "naming.py").write_text(NAMING)
    monkeypatch.chdir(tmp_path)
    config = {
        "listeners": "OPEN://127.0.0.1:0",
        "listener.security.protocol.map": "OPEN:PLAINTEXT",
        key: "naming:ByAddress",
    }
    with KafkaBroker(config) as broker, RawClient(broker.bootstrap_servers) as client:
        client.call(MetadataRequest(topics=[]))
        client.call(MetadataRequest(topics=[]))
        assert {each["principal"] for each in broker.requests("Metadata")} == {"User:OPEN-127.0.0.1"}


def test_one_that_it_refuses_is_disconnected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "naming.py").write_text(NAMING)
    monkeypatch.chdir(tmp_path)
    config = {
        "listeners": "CLOSED://127.0.0.1:0",
        "listener.security.protocol.map": "CLOSED:PLAINTEXT",
        "principal.builder.class": "naming:ByAddress",
    }
    with KafkaBroker(config) as broker, RawClient(broker.bootstrap_servers) as client:
        with pytest.raises(Closed):
            client.call(MetadataRequest(topics=[]))
        assert "nobody comes in here" in broker.log


@pytest.mark.parametrize(
    ("mechanism", "says"),
    [
        ("PLAIN", "listener FRONT: there is no login module for PLAIN: "),
        ("PLAN", "Invalid value PLAN for configuration sasl.enabled.mechanisms: listener FRONT: it must be one of "),
    ],
)
def test_a_listener_that_can_have_no_logins_is_named_once(mechanism: str, says: str) -> None:
    config = {
        "listeners": "FRONT://127.0.0.1:0",
        "listener.security.protocol.map": "FRONT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": mechanism,
    }
    with pytest.raises(BrokerError, match=f"cannot start: {says}"), KafkaBroker(config):
        pass
