"""Layers of static settings: development default < file < environment < command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka_broker.cli.serve import check_file
from pykafka_broker.cli.settings import (
    DEVELOPMENT_LISTENER,
    QUICK_GROUPS,
    UsageError,
    config_name,
    configs_of,
    is_ignored,
    static_settings,
)
from pykafka_broker.config import BrokerConfig
from pykafka_broker.config.problems import problems
from pykafka_broker.server.listeners import listeners_of


def test_nothing_set_is_a_broker_for_development() -> None:
    settings = static_settings(None, {}, [], [], None)
    config = BrokerConfig(settings)
    assert config.listeners == [DEVELOPMENT_LISTENER]
    assert config.group_initial_rebalance_delay_ms == 0
    assert config.node_id == config.broker_id == 1
    assert config.data_dirs == ["/tmp/kafka-logs"]


def test_the_stronger_layer_wins(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=1\nmessage.max.bytes=1\nlog.retention.ms=1\nlisteners=PLAINTEXT://:1\n")
    environment = {"KAFKA_MESSAGE_MAX_BYTES": "2", "KAFKA_LOG_RETENTION_MS": "2"}
    settings = static_settings(str(file), environment, ["log.retention.ms = 3"], ["127.0.0.1:0"], str(tmp_path))
    assert settings["num.partitions"] == "1"
    assert settings["message.max.bytes"] == "2"
    assert settings["log.retention.ms"] == " 3"
    assert settings["listeners"] == "PLAINTEXT://127.0.0.1:0"
    assert settings["log.dirs"] == str(tmp_path)


@pytest.mark.parametrize("name", ["listeners", "port", "host.name"])
def test_a_listener_of_the_operator_is_kept(name: str) -> None:
    assert static_settings(None, {}, [f"{name}=x"], [], None).get("listeners", "x") == "x"


@pytest.mark.parametrize("name", ["node.id", "broker.id"])
def test_an_id_of_the_operator_is_kept(name: str) -> None:
    assert BrokerConfig(static_settings(None, {}, [f"{name}=7"], [], None)).node == 7


@pytest.mark.parametrize("override", ["retention", "=5", " =5"])
def test_override_needs_key_and_value(override: str) -> None:
    with pytest.raises(UsageError, match="must be KEY=VALUE"):
        static_settings(None, {}, [override], [], None)


@pytest.mark.parametrize("listen", ["", "host", "host:", "host:port", ":-1", "PLAINTEXT://host:9092"])
def test_listen_needs_a_port(listen: str) -> None:
    with pytest.raises(UsageError, match="must be HOST:PORT"):
        static_settings(None, {}, [], [listen], None)


@pytest.mark.parametrize(
    ("listen", "host"), [("9092", "127.0.0.1"), (":9092", "0.0.0.0"), ("[::1]:9092", "::1"), ("me:9092", "me")]
)
def test_a_port_alone_is_on_loopback_and_a_colon_before_it_opens_all_interfaces(listen: str, host: str) -> None:
    (listener,) = listeners_of(BrokerConfig(static_settings(None, {}, [], [listen], None)))
    assert (listener.name, listener.host, listener.port) == ("PLAINTEXT", host, 9092)


@pytest.mark.parametrize("map_key", [[], ["listener.security.protocol.map=INSIDE:PLAINTEXT"]])
def test_every_listen_is_a_listener(map_key: list[str]) -> None:
    listen = ["127.0.0.1:1", "[::1]:2", ":3"]
    config = BrokerConfig(static_settings(None, {}, [*map_key, "listeners=INSIDE://:4"], listen, None))
    assert [(each.name, each.host, each.port) for each in listeners_of(config)] == [
        ("PLAINTEXT", "127.0.0.1", 1),
        ("PLAINTEXT_2", "::1", 2),
        ("PLAINTEXT_3", "0.0.0.0", 3),
    ]


def test_a_file_that_can_not_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read /no/such/file: No such file"):
        static_settings("/no/such/file", {}, [], [], None)
    (file := tmp_path / "server.properties").write_text("num.partitions=7\n", encoding="utf-16")
    with pytest.raises(UsageError, match=r"cannot read .*server\.properties: it is UTF-16"):
        static_settings(str(file), {}, [], [], None)


@pytest.mark.parametrize(
    ("word", "complaint"),
    [
        ("confgis", "confgis is neither a command nor a file: did you mean configs?"),
        ("Log", "Log is neither a command nor a file: did you mean log?"),
        (
            "serve",
            "serve is neither a command nor a file: pykafka-broker [server.properties] serves, without a command",
        ),
    ],
)
def test_a_command_that_is_mistyped_is_told(word: str, complaint: str) -> None:
    with pytest.raises(UsageError) as told:
        check_file(word)
    assert str(told.value) == complaint


def quick(*overrides: str) -> BrokerConfig:
    config = BrokerConfig(static_settings(None, {}, overrides, [], None, quick_groups=True))
    assert list(problems(config)) == []
    return config


@pytest.mark.parametrize("protocol", ["consumer", "share", "streams"])
def test_groups_for_tests_are_quick_unless_told_otherwise(protocol: str) -> None:
    interval, least = f"group.{protocol}.heartbeat.interval.ms", f"group.{protocol}.min.heartbeat.interval.ms"
    assert quick()[interval] == quick()[least] == 100
    assert quick(f"{interval}=700")[interval] == 700
    assert (quick(f"{least}=3000")[interval], quick(f"{least}=3000")[least]) == (5000, 3000)
    assert quick()[f"group.{protocol}.assignment.interval.ms"] == 0
    assert quick(f"group.{protocol}.session.timeout.ms=2000")[f"group.{protocol}.session.timeout.ms"] == 2000


def test_other_brokers_keep_kafkas_intervals() -> None:
    assert not QUICK_GROUPS.keys() & static_settings(None, {}, [], [], None).keys()


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
