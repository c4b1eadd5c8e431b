"""Policies are asked what Kafka asks them, and what they raise is what the client is told."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.config import BrokerConfig, ConfigError
from pykafka_broker.config.effects import refusals
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.enums import AlterConfigOp, ConfigResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages import alter_configs_request as legacy
from pykafka_broker.protocol.messages import incremental_alter_configs_request as incremental
from pykafka_broker.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pykafka_broker.security.hooks.policies import HookedPolicies, PolicyViolation
from tests.broker.api.real_broker import RealBroker

asked: list[Any] = []


class Strict:
    """A policy for topics and for configs in one class."""

    def validate(self, wish: Any) -> None:
        asked.append(wish)
        text = str(wish)
        if "bad" in text:
            raise PolicyViolation("No such things.")
        if "silent" in text:
            raise PolicyViolation
        if "other" in text:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "not so")
        if "broken" in text:
            raise LookupError("my defect")

    def close(self) -> None:
        asked.append("closed")


CONFIG = {
    "create.topic.policy.class.name": f"{__name__}:Strict",
    "alter.config.policy.class.name": f"{__name__}:Strict",
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RealBroker]:
    broker = RealBroker(tmp_path, **CONFIG)
    asked.clear()
    yield broker
    broker.stop()


def create(
    broker: RealBroker, *topics: CreatableTopic, timeout_ms: int = 10_000, validate_only: bool = False
) -> list[tuple[int, str | None]]:
    answer = broker.call(CreateTopicsRequest(list(topics), timeout_ms, validate_only), 7)
    return [(each.error_code, each.error_message) for each in answer.topics]


def alter(
    broker: RealBroker, name: str, *changes: tuple[str, int, str | None], kind: int = ConfigResourceType.TOPIC
) -> tuple[int, str | None]:
    configs = [incremental.AlterableConfig(*change) for change in changes]
    request = incremental.IncrementalAlterConfigsRequest([incremental.AlterConfigsResource(kind, name, configs)])
    found = broker.call(request, 1).responses[0]
    return found.error_code, found.error_message


def test_no_policy_is_asked_of_a_topic_that_is_given_no_time(broker: RealBroker) -> None:
    for timeout_ms in (0, -1):
        assert create(broker, CreatableTopic("t", 1, 1), timeout_ms=timeout_ms) == [(ErrorCode.REQUEST_TIMED_OUT, None)]
    assert not asked


def test_a_topic_is_told_with_its_defaults(broker: RealBroker) -> None:
    config = [CreatableTopicConfig("retention.ms", "1000")]
    assignments = [CreatableReplicaAssignment(0, [1]), CreatableReplicaAssignment(1, [1])]
    assert (
        create(
            broker,
            CreatableTopic("a", 3, 1, [], config),
            CreatableTopic("b", -1, -1),
            CreatableTopic("c", -1, -1, assignments),
        )
        == [(0, None)] * 3
    )
    assert [tuple(each) for each in asked] == [
        ("TOPIC", "a", {"retention.ms": "1000"}),
        ("a", 3, 1, None, {"retention.ms": "1000"}),
        ("b", 1, 1, None, {}),
        ("c", None, None, {0: [1], 1: [1]}, {}),
    ]


def test_what_it_raises_is_the_answer_for_that_topic(broker: RealBroker, caplog: pytest.LogCaptureFixture) -> None:
    names = ("bad", "good", "silent", "other", "broken")
    answers = dict(zip(names, create(broker, *(CreatableTopic(name, 1, 1) for name in names)), strict=True))
    assert answers == {
        "bad": (ErrorCode.POLICY_VIOLATION, "No such things."),
        "good": (0, None),
        "silent": (ErrorCode.POLICY_VIOLATION, None),
        "other": (ErrorCode.INVALID_TOPIC_EXCEPTION, "not so"),
        "broken": (ErrorCode.UNKNOWN_SERVER_ERROR, f"{__name__}:Strict has failed: LookupError: my defect"),
    }
    assert [record.levelno for record in caplog.records if "my defect" in record.message] == [logging.ERROR]
    again = create(broker, CreatableTopic("bad", 1, 1), CreatableTopic("good", 1, 1))
    assert [code for code, _ in again] == [ErrorCode.POLICY_VIOLATION, ErrorCode.TOPIC_ALREADY_EXISTS]


def test_it_is_asked_when_a_request_only_wants_to_know(broker: RealBroker) -> None:
    answers = create(broker, CreatableTopic("bad", 1, 1), CreatableTopic("good", 1, 1), validate_only=True)
    assert answers == [(ErrorCode.POLICY_VIOLATION, "No such things."), (0, None)]


def test_it_is_not_asked_about_what_is_refused_anyway(broker: RealBroker) -> None:
    create(broker, CreatableTopic("a", 1, 1))
    asked.clear()
    create(broker, CreatableTopic("a", 1, 1))
    create(broker, CreatableTopic("bad", 1, 5))
    create(broker, CreatableTopic("bad", 1, 1, [], [CreatableTopicConfig("retention.ms", "x")]))
    alter(broker, "bad", ("retention.ms", AlterConfigOp.SET, "1"))
    alter(broker, "a", ("retention.ms", AlterConfigOp.SET, "bad"))
    assert asked == []


def test_of_configs_it_is_told_what_changes(broker: RealBroker) -> None:
    create(broker, CreatableTopic("a", 1, 1))
    asked.clear()
    for changes in (
        [("retention.ms", AlterConfigOp.SET, "2000"), ("segment.ms", AlterConfigOp.SET, "5000")],
        [("retention.ms", AlterConfigOp.SET, "2000"), ("segment.ms", AlterConfigOp.SET, "6000")],
        [("retention.ms", AlterConfigOp.SET, "2000")],
        [("retention.ms", AlterConfigOp.DELETE, None)],
        [("flush.ms", AlterConfigOp.DELETE, None)],
        [("cleanup.policy", AlterConfigOp.APPEND, "compact")],
    ):
        assert alter(broker, "a", *changes) == (0, None)
    assert [each.configs for each in asked] == [
        {"retention.ms": "2000", "segment.ms": "5000"},
        {"segment.ms": "6000"},
        {},
        {"retention.ms": None},
        {},
        {"cleanup.policy": "delete,compact"},
    ]


def test_the_old_way_of_changing_configs_names_what_is_set(broker: RealBroker) -> None:
    create(broker, CreatableTopic("a", 1, 1, [], [CreatableTopicConfig("segment.ms", "6000")]))
    asked.clear()
    for value in ("4", "4", "5"):
        config = [legacy.AlterableConfig("flush.ms", value)]
        broker.call(legacy.AlterConfigsRequest([legacy.AlterConfigsResource(ConfigResourceType.TOPIC, "a", config)]), 2)
    assert [each.configs for each in asked] == [{"flush.ms": "4"}, {}, {"flush.ms": "5"}]


def test_configs_of_brokers_and_groups_are_asked_about_too(broker: RealBroker) -> None:
    for _ in range(2):
        alter(broker, "1", ("log.cleaner.threads", AlterConfigOp.SET, "2"), kind=ConfigResourceType.BROKER)
    refused = alter(
        broker, "bad", ("consumer.session.timeout.ms", AlterConfigOp.SET, "50000"), kind=ConfigResourceType.GROUP
    )
    assert refused == (ErrorCode.POLICY_VIOLATION, "No such things.")
    assert [tuple(each) for each in asked] == [
        ("BROKER", "1", {"log.cleaner.threads": "2"}),
        ("BROKER", "1", {"log.cleaner.threads": "2"}),
        ("GROUP", "bad", {"consumer.session.timeout.ms": "50000"}),
    ]


def test_policies_are_closed_with_the_broker(tmp_path: Path) -> None:
    broker = RealBroker(tmp_path, **CONFIG)
    asked.clear()
    broker.stop()
    assert asked == ["closed", "closed"]


def test_a_class_that_is_no_policy_ends_the_start() -> None:
    with pytest.raises(ConfigError, match="a CreateTopicPolicy must have the method validate"):
        HookedPolicies(BrokerConfig({"create.topic.policy.class.name": "collections:OrderedDict"}))


@pytest.mark.parametrize("key", CONFIG)
def test_a_java_class_is_refused(key: str) -> None:
    told = refusals(BrokerConfig({key: "org.example.Policy"}))
    assert [line.partition(": ")[0] for line in told] == [f"Invalid value org.example.Policy for configuration {key}"]
    assert refusals(BrokerConfig({key: "policies:Strict"})) == []
