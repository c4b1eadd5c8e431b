"""The broker's configuration: layers, aliases, and decisions that several keys make together."""

from __future__ import annotations

import pytest

from pykafka_broker.config import BrokerConfig, ConfigErrors


def test_value_is_typed_by_name_and_by_attribute() -> None:
    config = BrokerConfig({"log.retention.ms": " 5000 ", "auto.create.topics.enable": "False"})
    assert config["log.retention.ms"] == config.log_retention_ms == 5000
    assert config.auto_create_topics_enable is False
    assert config.log_flush_interval_ms is None
    assert config.log_cleanup_policy == ["delete"]
    assert config.log_cleaner_min_cleanable_ratio == 0.5


def test_every_bad_value_is_named_at_once() -> None:
    with pytest.raises(ConfigErrors) as caught:
        BrokerConfig({"num.partitions": "0", "log.retention.ms": "week", "num.io.threads": "4"})
    assert [str(error) for error in caught.value.errors] == [
        "Invalid value 0 for configuration num.partitions: Value must be at least 1",
        "Invalid value week for configuration log.retention.ms: Not a number of type LONG",
    ]


def test_unknown_names_are_listed_but_not_those_of_listeners_and_plugins() -> None:
    config = BrokerConfig({"no.such.key": "1", "listener.name.tls.ssl.keystore.location": "/k", "rsm.config.x": "y"})
    assert config.unknown == ["no.such.key"]
    assert config.extras == {"listener.name.tls.ssl.keystore.location": "/k", "rsm.config.x": "y"}
    default, own = {"rsm.config.x": "default", "rsm.config.y": "default"}, {"rsm.config.x": "own"}
    assert config.with_dynamic(default, own).extras == config.extras | default | own


def test_dynamic_layers_go_on_top_and_come_off_again() -> None:
    static = BrokerConfig({"message.max.bytes": "1000"})
    both = static.with_dynamic({"message.max.bytes": "2000", "log.retention.ms": "7"}, {"message.max.bytes": "3000"})
    assert (both.message_max_bytes, both.log_retention_ms) == (3000, 7)
    default_only = both.with_dynamic({"message.max.bytes": "2000"}, {})
    assert (default_only.message_max_bytes, default_only.log_retention_ms) == (2000, None)
    assert default_only.with_dynamic({}, {}).message_max_bytes == static.message_max_bytes == 1000


def test_unreadable_dynamic_value_is_logged_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    config = BrokerConfig().with_dynamic({}, {"message.max.bytes": "much"})
    assert config.message_max_bytes == 1048588
    assert "Invalid value much for configuration message.max.bytes" in caplog.text


@pytest.mark.parametrize("name", ["node.id", "broker.id"])
def test_node_and_broker_id_stand_for_each_other(name: str) -> None:
    config = BrokerConfig({name: "7"})
    assert config.node == config.node_id == config.broker_id == 7


def test_node_without_an_id_is_1() -> None:
    assert BrokerConfig().node == 1


def test_log_dirs_wins_over_log_dir() -> None:
    assert BrokerConfig().data_dirs == ["/tmp/kafka-logs"]
    assert BrokerConfig({"log.dir": "/a"}).data_dirs == ["/a"]
    config = BrokerConfig({"log.dir": "/a", "log.dirs": "/b, /c"})
    assert config.data_dirs == ["/b", "/c"]
    assert config.cordoned_dirs == []
    for cordoned, dirs in (("/c", ["/c"]), ("*", ["/b", "/c"])):
        assert config.with_dynamic({}, {"cordoned.log.dirs": cordoned}).cordoned_dirs == dirs


def test_host_name_and_port_of_old_files_become_listeners() -> None:
    config = BrokerConfig({"host.name": "0.0.0.0", "port": "9999", "advertised.host.name": "me"})
    assert config.listeners == ["PLAINTEXT://0.0.0.0:9999"]
    assert config.advertised_listeners == ["PLAINTEXT://me:9999"]
    assert BrokerConfig({"listeners": "PLAINTEXT://:1", "port": "2"}).listeners == ["PLAINTEXT://:1"]
    config = BrokerConfig({"host.name": "me", "advertised.port": "9999"})
    assert config.advertised_listeners == ["PLAINTEXT://me:9999"]


def test_replication_of_internal_topics_fits_the_cluster_unless_set() -> None:
    name = "offsets.topic.replication.factor"
    assert [BrokerConfig().replication_factor(name, brokers) for brokers in (0, 1, 2, 5)] == [1, 1, 2, 3]
    assert BrokerConfig({name: "3"}).replication_factor(name, 1) == 3
