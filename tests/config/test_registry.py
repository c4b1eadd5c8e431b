"""The configs of an emulated release: what it shows, takes and has by default."""

from __future__ import annotations

import pytest

from pykafka_broker.config import BrokerConfig, ConfigError, TopicConfig
from pykafka_broker.config.describe import describe_broker, describe_topic
from pykafka_broker.config.registry import broker_keys
from pykafka_broker.config.topic import readable_overrides
from pykafka_broker.protocol.enums import ConfigSource
from pykafka_broker.releases.release import release, release_names

ONLY_AT_RUN_TIME = {
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
}


def emulating(name: str, **settings: str) -> BrokerConfig:
    return BrokerConfig({"pykafka.emulate": name, **{key.replace("_", "."): text for key, text in settings.items()}})


@pytest.mark.parametrize("name", release_names())
def test_the_broker_shows_the_keys_of_its_release(name: str) -> None:
    shown = {entry.name for entry in describe_broker(emulating(name))}
    assert shown == release(name).broker.keys() - ONLY_AT_RUN_TIME


@pytest.mark.parametrize("name", release_names())
def test_a_topic_shows_the_keys_of_its_release(name: str) -> None:
    assert {entry.name for entry in describe_topic(emulating(name), {})} == release(name).topic.keys()


def test_its_defaults_hold_and_are_shown() -> None:
    old, new = emulating("0.11"), emulating("1.0")
    assert (old.delete_topic_enable, new.delete_topic_enable) == (False, True)
    [entry] = [entry for entry in describe_broker(old) if entry.name == "delete.topic.enable"]
    assert (entry.value, entry.source, entry.synonyms[0].value) == ("false", ConfigSource.DEFAULT_CONFIG, "false")


def test_what_came_later_keeps_its_default_unseen() -> None:
    config = emulating("0.10.2", node_id="1")
    assert config.max_incremental_fetch_session_cache_slots == 1000
    assert "node.id" not in {entry.name for entry in describe_broker(config)}
    assert isinstance(TopicConfig.of_broker(config), TopicConfig)


def test_a_topic_takes_what_its_release_took() -> None:
    overrides = {"message.format.version": "0.10.2"}
    old = emulating("2.8")
    assert TopicConfig.resolve(old, overrides).retention_ms == 604_800_000
    assert readable_overrides(old, overrides) == overrides
    [entry] = [entry for entry in describe_topic(old, overrides) if entry.name == "message.format.version"]
    assert (entry.value, entry.source) == ("0.10.2", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    with pytest.raises(ConfigError, match=r"Unknown topic config name: message\.format\.version"):
        TopicConfig.resolve(emulating("4.0"), overrides)
    assert readable_overrides(BrokerConfig(), overrides) == {}


def test_a_type_that_has_changed_is_read_as_it_is_now() -> None:
    assert release("2.8").broker["log.dirs"][0] == "string"
    assert emulating("2.8", log_dirs="/a,/b").data_dirs == ["/a", "/b"]
    assert broker_keys("2.8")["zookeeper.connect"].type.name == "STRING"
