"""Topics by the control API."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka_broker.control.api import topics
from pykafka_broker.control.problems import Problem
from pykafka_broker.protocol.messages.create_topics_request import CreateTopicsRequest
from pykafka_broker.testing import ControlError, KafkaBroker


def test_a_topic_is_made_looked_at_and_deleted(broker: KafkaBroker) -> None:
    config = {"retention.ms": 1000, "preallocate": True, "segment.bytes": 1 << 20}
    made = broker.create_topic("made", partitions=3, config=config)
    assert made == broker.topic("made")
    assert (made["name"], made["partitions"], made["internal"]) == ("made", 3, False)
    assert made["config"] == {"retention.ms": "1000", "preallocate": "true", "segment.bytes": "1048576"}
    assert [each["name"] for each in broker.topics()].count("made") == 1
    broker.delete_topic("made")
    with pytest.raises(ControlError, match="there is no topic made") as refused:
        broker.topic("made")
    assert (refused.value.status, refused.value.code) == (404, "UNKNOWN_TOPIC_OR_PARTITION")


def test_what_kafka_refuses_is_told_in_its_words(broker: KafkaBroker) -> None:
    broker.create_topic("twice")
    with pytest.raises(ControlError, match=r"Topic 'twice' already exists\. create_topic with exist_ok") as refused:
        broker.create_topic("twice")
    assert refused.value.status == 409
    with pytest.raises(ControlError, match=r"Unknown topic config name: no\.such"):
        broker.create_topic("odd", config={"no.such": 1})
    for near in ("retention", "retention_ms"):
        with pytest.raises(ControlError, match=rf"Unknown topic config name: {near}; did you mean .*retention\.ms"):
            broker.create_topic("odd", config={near: 1})
    with pytest.raises(ControlError, match="INVALID_TOPIC_EXCEPTION"):
        broker.create_topic("a b")
    with pytest.raises(ControlError, match="partitions must be at least 1"):
        broker.create_topic("none", partitions=0)


def test_a_topic_may_be_there_already_if_it_is_as_it_should_be(broker: KafkaBroker) -> None:
    made = broker.create_topic("exists", 4, {"cleanup.policy": "compact"})
    assert broker.create_topic("exists", exist_ok=True) == made
    assert broker.create_topic("exists", 4, {"cleanup.policy": "compact"}, exist_ok=True) == made
    with pytest.raises(ControlError, match="topic exists exists with 4 partitions, not 3"):
        broker.create_topic("exists", 3, exist_ok=True)
    with pytest.raises(ControlError, match=r"exists with cleanup\.policy=compact, not cleanup\.policy=delete"):
        broker.create_topic("exists", config={"cleanup.policy": "delete"}, exist_ok=True)
    with pytest.raises(ControlError, match=r"exists with no retention\.ms of its own, not retention\.ms=1") as refused:
        broker.create_topic("exists", config={"retention.ms": 1}, exist_ok=True)
    assert refused.value.status == 409
    assert broker.create_topic("exists-not", 2, exist_ok=True)["partitions"] == 2


def test_configs_are_set_and_taken_back(broker: KafkaBroker) -> None:
    broker.create_topic("altered", config={"retention.ms": 1000})
    changed = broker.alter_config("altered", {"cleanup.policy": "compact", "retention.ms": None, "preallocate": True})
    assert changed == broker.topic("altered")
    assert changed["config"] == {"cleanup.policy": "compact", "preallocate": "true"}
    with pytest.raises(ControlError, match=r"Unknown topic config name: no\.such"):
        broker.alter_config("altered", {"no.such": 1})
    with pytest.raises(
        ControlError, match=r"Unknown topic config name: cleanup_policy; did you mean cleanup\.policy\?"
    ):
        broker.alter_config("altered", {"cleanup_policy": "compact"})


def test_partitions_are_added(broker: KafkaBroker) -> None:
    broker.create_topic("grown", 2)
    assert broker.add_partitions("grown", total=5)["partitions"] == 5
    broker.produce("grown", [{"value": "v", "partition": 4}])
    with pytest.raises(ControlError, match="currently has 5 partition"):
        broker.add_partitions("grown", total=3)


@pytest.mark.parametrize(
    "ask",
    [
        lambda broker: broker.topic("mistypd"),
        lambda broker: broker.delete_topic("mistypd"),
        lambda broker: broker.alter_config("mistypd", {"retention.ms": 1}),
        lambda broker: broker.add_partitions("mistypd", total=3),
        lambda broker: broker.records("mistypd"),
        lambda broker: broker.delete_records("mistypd"),
        lambda broker: broker.commit("group", "mistypd", 0),
        lambda broker: broker.reset_offsets("group", "mistypd"),
        lambda broker: broker.assert_records("mistypd", []),
        lambda broker: broker.assert_records("mistypd", ["1"], timeout=0.05),
        lambda broker: broker.assert_contains("mistypd", ["1"]),
        lambda broker: broker.assert_contains("mistypd", ["1"], timeout=0.05),
        lambda broker: broker.assert_no_more("mistypd", within_ms=1),
    ],
)
def test_a_mistyped_topic_is_an_error_that_names_what_is_like_it(
    broker: KafkaBroker, ask: Callable[[KafkaBroker], object]
) -> None:
    broker.create_topic("mistyped", exist_ok=True)
    with pytest.raises(ControlError, match=r"^there is no topic mistypd; did you mean mistyped\?$") as refused:
        ask(broker)
    assert (refused.value.status, refused.value.code) == (404, "UNKNOWN_TOPIC_OR_PARTITION")


def test_of_two_that_make_a_topic_at_the_same_time_both_have_it() -> None:
    """Another node is the controller, so the topic may be made between the look and the request."""
    image = SimpleNamespace(topics={}, topic_config=lambda topic: {})

    async def ask(request: object) -> object:
        image.topics["meanwhile"] = object()
        if isinstance(request, CreateTopicsRequest):
            return SimpleNamespace(topics=[SimpleNamespace(error_code=36, error_message="it exists")])
        found = {"name": "meanwhile", "topic_id": bytes(16), "partitions": [0, 1], "is_internal": False}
        return SimpleNamespace(topics=[SimpleNamespace(error_code=0, **found)])

    async def until(holds: Callable[[], object], timeout_s: float) -> object:
        return holds()

    control: Any = SimpleNamespace(services=SimpleNamespace(image=image), inside=SimpleNamespace(ask=ask), until=until)
    assert asyncio.run(topics.create_topic(control, "meanwhile", 2, exist_ok=True))["partitions"] == 2
    image.topics.clear()
    with pytest.raises(Problem, match="exists with 2 partitions, not 3"):
        asyncio.run(topics.create_topic(control, "meanwhile", 3, exist_ok=True))
    image.topics.clear()
    with pytest.raises(Problem, match="TOPIC_ALREADY_EXISTS"):
        asyncio.run(topics.create_topic(control, "meanwhile", 2))


def test_a_name_that_no_request_has_room_for_is_refused(broker: KafkaBroker) -> None:
    with pytest.raises(ControlError, match="a string of 40000 bytes is too long") as refused:
        broker.create_topic("x" * 40_000)
    assert refused.value.status == 400
