"""Layers of static settings: development default < file < environment < command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka_broker.cli.settings import DEVELOPMENT_LISTENER, UsageError, static_settings
from pykafka_broker.config import BrokerConfig


def test_nothing_set_is_a_broker_for_development() -> None:
    settings = static_settings(None, {}, [], None, None)
    config = BrokerConfig(settings)
    assert config.listeners == [DEVELOPMENT_LISTENER]
    assert config.group_initial_rebalance_delay_ms == 0
    assert config.node_id == config.broker_id == 1
    assert config.data_dirs == ["/tmp/kafka-logs"]


def test_the_stronger_layer_wins(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=1\nmessage.max.bytes=1\nlog.retention.ms=1\nlisteners=PLAINTEXT://:1\n")
    environment = {"KAFKA_MESSAGE_MAX_BYTES": "2", "KAFKA_LOG_RETENTION_MS": "2"}
    settings = static_settings(str(file), environment, ["log.retention.ms = 3"], "127.0.0.1:0", str(tmp_path))
    assert settings["num.partitions"] == "1"
    assert settings["message.max.bytes"] == "2"
    assert settings["log.retention.ms"] == " 3"
    assert settings["listeners"] == "PLAINTEXT://127.0.0.1:0"
    assert settings["log.dirs"] == str(tmp_path)


@pytest.mark.parametrize("name", ["listeners", "port", "host.name"])
def test_a_listener_of_the_operator_is_kept(name: str) -> None:
    assert static_settings(None, {}, [f"{name}=x"], None, None).get("listeners", "x") == "x"


@pytest.mark.parametrize("name", ["node.id", "broker.id"])
def test_an_id_of_the_operator_is_kept(name: str) -> None:
    assert BrokerConfig(static_settings(None, {}, [f"{name}=7"], None, None)).node == 7


@pytest.mark.parametrize("override", ["retention", "=5", " =5"])
def test_override_needs_key_and_value(override: str) -> None:
    with pytest.raises(UsageError, match="must be key=value"):
        static_settings(None, {}, [override], None, None)


@pytest.mark.parametrize("listen", ["9092", "host:", "host:port", "PLAINTEXT://host:9092"])
def test_listen_needs_host_and_port(listen: str) -> None:
    with pytest.raises(UsageError, match="must be HOST:PORT"):
        static_settings(None, {}, [], listen, None)


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(UsageError, match=r"cannot read /no/such/file: No such file"):
        static_settings("/no/such/file", {}, [], None, None)
