"""Values that contradict each other are named in Kafka's words."""

from __future__ import annotations

import pytest

from pykafka_broker.config import BrokerConfig
from pykafka_broker.config.problems import RACK_AWARE, problems


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
        (
            {"group.streams.num.warmup.replicas": "21"},
            "group.streams.num.warmup.replicas must be less than or equal to group.streams.max.warmup.replicas",
        ),
        ({"group.streams.assignors": "sticky"}, None),
        (
            {"group.streams.assignors": "sticky,other"},
            "Invalid value other for configuration group.streams.assignors: Class cannot be found",
        ),
        (
            {"group.consumer.assignors": "uniform,sticky"},
            "Invalid value sticky for configuration group.consumer.assignors: Class cannot be found",
        ),
        (
            {"group.share.assignors": "other"},
            "Invalid value other for configuration group.share.assignors: Class cannot be found",
        ),
        ({"group.consumer.assignors": "org.apache.kafka.coordinator.group.assignor.RangeAssignor"}, None),
    ],
)
def test_values_that_contradict_each_other(settings: dict[str, str], sentence: str | None) -> None:
    assert list(problems(BrokerConfig(settings))) == ([] if sentence is None else [sentence])


@pytest.mark.parametrize("wrong", ["host", "host:\u00b2"])
def test_connection_overrides_name_host_and_count(wrong: str) -> None:
    (problem,) = problems(BrokerConfig({"max.connections.per.ip.overrides": f"127.0.0.1:5, {wrong}"}))
    assert f"{wrong} is not host:count" in problem


MEMBER = {
    "process.roles": "broker",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "101@127.0.0.1:9093",
    "listeners": "PLAINTEXT://127.0.0.1:9092",
}
NO_QUORUM = (
    "If using process.roles, either controller.quorum.bootstrap.servers must contain the set of bootstrap "
    "controllers or controller.quorum.voters must contain a parseable set of controllers."
)
VOTER = (
    "If process.roles contains just the 'broker' role, the node id 1 must not be included in the set of "
    "voters controller.quorum.voters=Set(1, 2)"
)
BOUND = (
    "controller.listener.names must not contain a value appearing in the 'listeners' configuration when "
    "running KRaft with just the broker role"
)
UNROUTABLE = "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address."
WITH_OTHER = "OTHER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
NO_LISTENER = (
    "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid options "
    "based on currently configured listeners are PLAINTEXT"
)


@pytest.mark.parametrize(
    ("settings", "sentences"),
    [
        ({}, []),
        ({"listeners": "PLAINTEXT://0.0.0.0:9092", "advertised.listeners": "PLAINTEXT://example.com:9092"}, []),
        ({"listeners": "PLAINTEXT://:9092"}, []),
        ({"controller.quorum.voters": "", "controller.quorum.bootstrap.servers": "127.0.0.1:9093"}, []),
        ({"controller.quorum.voters": ""}, [NO_QUORUM]),
        ({"controller.quorum.voters": "2@h:1,1@h:2"}, [VOTER]),
        ({"listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"}, [BOUND]),
        ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, [UNROUTABLE]),
        ({"inter.broker.listener.name": "OTHER", "listener.security.protocol.map": WITH_OTHER}, [NO_LISTENER]),
    ],
)
def test_a_broker_finds_its_controllers_and_is_found(settings: dict[str, str], sentences: list[str]) -> None:
    """The sentences are those of a 4.4.0 that was started with these files."""
    assert list(problems(BrokerConfig(MEMBER | settings))) == sentences


def test_a_broker_that_is_a_controller_too_has_the_listener_that_others_find_it_by() -> None:
    combined = MEMBER | {
        "process.roles": "broker,controller",
        "controller.quorum.voters": "1@127.0.0.1:9093",
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "listener.security.protocol.map": WITH_OTHER,
    }
    assert list(problems(BrokerConfig(combined | {"inter.broker.listener.name": "plaintext"}))) == []
    for name in ("OTHER", "CONTROLLER"):
        assert list(problems(BrokerConfig(combined | {"inter.broker.listener.name": name}))) == [NO_LISTENER]


def test_a_replica_selector_that_is_not_there_is_no_setting() -> None:
    assert list(problems(BrokerConfig({"replica.selector.class": RACK_AWARE}))) == []
    found = list(problems(BrokerConfig({"replica.selector.class": "com.example.Nearest"})))
    assert found == ["replica.selector.class: class com.example.Nearest cannot be found"]
    controller = {
        "process.roles": "controller",
        "controller.listener.names": "CONTROLLER",
        "listeners": "CONTROLLER://127.0.0.1:9093",
        "replica.selector.class": "com.example.Nearest",
    }
    assert list(problems(BrokerConfig(controller))) == []
