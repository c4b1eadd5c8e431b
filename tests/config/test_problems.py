"""Values that contradict each other are named in Kafka's words."""

from __future__ import annotations

import pytest

from pykafka_broker.config import BrokerConfig
from pykafka_broker.config.problems import problems


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({}, None),
        ({"log.retention.ms": "-5"}, None),
        ({"node.id": "1", "broker.id": "1"}, None),
        ({"node.id": "1", "broker.id": "2"}, "You must set `node.id` to the same value as `broker.id`."),
        ({"log.roll.ms": "0"}, "log.roll.ms must be greater than or equal to 1"),
        ({"log.roll.jitter.ms": "-1"}, "log.roll.jitter.ms must be greater than or equal to 0"),
        ({"log.retention.hours": "0"}, "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"),
        ({"connections.max.idle.ms": "-1"}, None),
        ({"connections.max.idle.ms": "101"}, None),
        (
            {"connections.max.idle.ms": "100"},
            (
                "connection.failed.authentication.delay.ms=100 should always be less than connections.max.idle.ms=100 "
                "to prevent failed authentication responses from timing out"
            ),
        ),
        (
            {"queued.max.request.bytes": "5"},
            "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
        ),
        (
            {"max.connections.per.ip": "0"},
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
        ),
        (
            {"group.consumer.heartbeat.interval.ms": "100"},
            (
                "group.consumer.heartbeat.interval.ms must be greater than or equal to "
                "group.consumer.min.heartbeat.interval.ms"
            ),
        ),
        (
            {"group.streams.num.standby.replicas": "9"},
            "group.streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas",
        ),
    ],
)
def test_values_that_contradict_each_other(settings: dict[str, str], sentence: str | None) -> None:
    assert list(problems(BrokerConfig(settings))) == ([] if sentence is None else [sentence])


def test_connection_overrides_name_host_and_count() -> None:
    (problem,) = problems(BrokerConfig({"max.connections.per.ip.overrides": "127.0.0.1:5, host"}))
    assert "host is not host:count" in problem
