"""Which variables are configs, and under which name."""

from __future__ import annotations

import pytest

from pykafka_broker.cli.environment import config_name, configs_of, is_ignored


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("KAFKA_LOG_RETENTION_MS", "log.retention.ms"),
        ("KAFKA_NODE_ID", "node.id"),
        ("KAFKA_LISTENER_NAME_MY__LISTENER_SSL_KEY_PASSWORD", "listener.name.my_listener.ssl.key.password"),
        ("KAFKA_LISTENER_NAME_SCRAM___SHA___256_X", "listener.name.scram-sha-256.x"),
        ("KAFKA_CFG_NUM_PARTITIONS", "num.partitions"),
    ],
)
def test_name(variable: str, name: str) -> None:
    assert config_name(variable) == name
    assert configs_of({variable: "v", "PATH": "/bin"}) == {name: "v"}


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("KAFKA_HEAP_OPTS", "-Xmx1g"),
        ("KAFKA_OPTS", ""),
        ("KAFKA_LOG4J_LOGGERS", "kafka=INFO"),
        ("KAFKA_JMX_PORT", "9999"),
        ("KAFKA_PORT", "tcp://10.0.0.1:9092"),
        ("KAFKA_PORT_9092_TCP_ADDR", "10.0.0.1"),
        ("KAFKA_SERVICE_HOST", "10.0.0.1"),
        ("KAFKA_UI_SERVICE_PORT_HTTP", "80"),
        ("KAFKA_UI_PORT", "tcp://10.0.0.1:80"),
    ],
)
def test_what_is_no_config_is_left_out(variable: str, value: str) -> None:
    assert is_ignored(variable, value)
    assert configs_of({variable: value}) == {}


def test_the_port_of_an_old_release_is_a_config() -> None:
    assert configs_of({"KAFKA_PORT": "9093"}) == {"port": "9093"}
