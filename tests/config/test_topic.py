"""A topic's configuration: overrides over the broker's synonyms, in Kafka's order."""

from __future__ import annotations

import pytest

from pykafka_broker.config import BrokerConfig, ConfigError, TopicConfig
from pykafka_broker.config.topic import live_keys


def test_every_live_key_has_its_attribute() -> None:
    live = {key.name.replace(".", "_") for key in live_keys(BrokerConfig())}
    assert live == set(TopicConfig.__annotations__)


@pytest.mark.parametrize(
    ("static", "retention_ms"),
    [
        ({}, 604_800_000),
        ({"log.retention.hours": "1"}, 3_600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2"}, 120_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2", "log.retention.ms": "3"}, 3),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_retention_comes_from_the_finest_unit_that_is_set(static: dict[str, str], retention_ms: int) -> None:
    assert TopicConfig.resolve(BrokerConfig(static), {}).retention_ms == retention_ms


def test_flush_ms_falls_back_to_the_scheduler_interval() -> None:
    broker = BrokerConfig({"log.flush.scheduler.interval.ms": "4"})
    assert broker.topic_defaults.flush_ms == 4
    broker = BrokerConfig({"log.flush.scheduler.interval.ms": "4", "log.flush.interval.ms": "3"})
    assert broker.topic_defaults.flush_ms == 3


def test_override_wins_over_every_layer_of_the_broker() -> None:
    broker = BrokerConfig({"message.max.bytes": "1000"}).with_dynamic({"log.roll.ms": "50"}, {"log.roll.ms": "60"})
    topic = TopicConfig.resolve(broker, {"max.message.bytes": "7", "cleanup.policy": "compact, delete"})
    assert (topic.max_message_bytes, topic.segment_ms, topic.cleanup_policy) == (7, 60, ["compact", "delete"])


def test_internal_segment_bytes_goes_below_the_limit_of_segment_bytes() -> None:
    broker = BrokerConfig()
    assert TopicConfig.resolve(broker, {"internal.segment.bytes": "100"}).segment_bytes == 100
    with pytest.raises(ConfigError, match="must be at least 1048576"):
        TopicConfig.resolve(broker, {"segment.bytes": "100"})


def test_one_object_for_all_topics_alike() -> None:
    broker = BrokerConfig()
    assert TopicConfig.resolve(broker, {}) is TopicConfig.resolve(broker, {})
    first = TopicConfig.resolve(broker, {"retention.ms": "1", "flush.ms": "2"})
    assert TopicConfig.resolve(broker, {"flush.ms": "2", "retention.ms": "1"}) is first
    assert TopicConfig.resolve(broker.with_dynamic({}, {}), {"flush.ms": "2", "retention.ms": "1"}) is not first


@pytest.mark.parametrize("name", ["no.such.key", "message.format.version", "message.timestamp.difference.max.ms"])
def test_unknown_and_removed_names_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"Unknown topic config name: {name}"):
        TopicConfig.resolve(BrokerConfig(), {name: "1"})
