"""The map for interactive queries: which member has which partitions, as Kafka 4.4.0 has answered it."""

from __future__ import annotations

from typing import Any

from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.streams_group_heartbeat_request import Endpoint, Subtopology, Topology
from tests.coordinators.streams.support import Machine, word_count

AT_ONCE = {"group.streams.initial.rebalance.delay.ms": "0"}
READS_LINES = Topology(0, [Subtopology("0", ["lines"])])


def listed(reply: Any) -> list[tuple[str, list[tuple[str, list[int]]]]]:
    return [
        (one.user_endpoint.host, [(topic.topic, topic.partitions) for topic in one.active_partitions])
        for one in reply.partitions_by_user_endpoint
    ]


def test_the_first_member_of_a_group_finds_itself() -> None:
    machine = Machine(**AT_ONCE)
    machine.topics.add("lines", 3)
    reply = machine.join("one", READS_LINES, user_endpoint=Endpoint("h", 9), endpoint_information_epoch=-1)
    assert listed(reply) == [("h", [("lines", [0, 1, 2])])]


def test_an_endpoint_while_source_topics_are_missing_is_what_kafka_fails_on() -> None:
    machine = Machine(**AT_ONCE)
    reply = machine.join("one", READS_LINES, user_endpoint=Endpoint("h", 9), endpoint_information_epoch=-1)
    assert reply.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "g" not in machine.coordinator.groups
    assert not machine.join("one", READS_LINES, endpoint_information_epoch=-1).error_code


def test_internal_topics_may_be_missing() -> None:
    machine = Machine(**AT_ONCE)
    machine.topics.add("lines", 2)
    reply = machine.join("one", word_count(), user_endpoint=Endpoint("h", 9), endpoint_information_epoch=-1)
    assert not reply.error_code
    assert listed(reply) == [("h", [])]


def test_the_member_that_asks_comes_last() -> None:
    machine = Machine(**AT_ONCE)
    machine.topics.add("lines", 2)
    epochs = {
        name: machine.join(name, READS_LINES, user_endpoint=Endpoint(name, 9)).member_epoch for name in ("one", "two")
    }
    for name, others in (("one", ["two"]), ("two", ["one"])):
        reply = machine.beat(name, epochs[name], endpoint_information_epoch=-1)
        assert [host for host, _ in listed(reply)] == [*others, name]


def test_a_topic_with_fewer_partitions_than_the_task_has_is_not_listed() -> None:
    machine = Machine(**AT_ONCE)
    machine.topics.add("lines", 2)
    machine.topics.add("few", 1)
    topology = Topology(0, [Subtopology("0", ["lines", "few"])])
    machine.join("one", topology, user_endpoint=Endpoint("one", 9))
    joined = machine.join("two", topology, user_endpoint=Endpoint("two", 9))
    told = machine.beat("one", machine.group().members["one"].epoch, {"0": [0]}, endpoint_information_epoch=-1)
    again = machine.beat("two", joined.member_epoch, endpoint_information_epoch=-1)
    assert listed(told)[-1] == ("one", [("lines", [0]), ("few", [0])])
    assert listed(again)[-1] == ("two", [("lines", [1])])
