"""Subscriptions of very many names."""

from __future__ import annotations

from typing import Any

from pykafka_broker.coordinators.effects import KeyValue
from pykafka_broker.coordinators.groups.group import Caller
from pykafka_broker.coordinators.groups.many_names import are_many, names_in_order, names_set, ordered
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from pykafka_broker.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from pykafka_broker.steps import at_once
from tests.coordinators.machine import Machine

NAMES = [f"n{number % 9000}" for number in range(10_000)]
MOST = 1 << 20
CALLER = Caller(1, "c", "/h")


def test_a_set_that_knows_its_order_is_the_set() -> None:
    found = at_once(ordered(NAMES, MOST))
    assert found == set(NAMES)
    assert names_in_order(found) == sorted(set(NAMES)) == names_in_order(frozenset(NAMES))
    assert names_set(found) is found
    assert names_set(NAMES) == found


def test_of_more_than_a_record_can_hold_only_the_size_is_told() -> None:
    found = at_once(ordered(NAMES, 1000))
    assert not found
    assert 1000 < found.size < 1010
    assert at_once(ordered(NAMES, MOST)).size == sum(len(name) + 1 for name in set(NAMES))


def test_what_a_group_knows_of_a_member_is_the_set_that_was_made() -> None:
    machine = Machine()
    request: Any = ConsumerGroupHeartbeatRequest(
        "g", "m" * 22, 0, rebalance_timeout_ms=1000, subscribed_topic_names=[], topic_partitions=[]
    )
    request.subscribed_topic_names = found = at_once(ordered(NAMES, MOST))
    machine.coordinator.replay_decided(machine.coordinator.consumer_heartbeat(request, CALLER, 1), 1, 0)
    group: Any = machine.coordinator.groups["g"]
    assert group.members["m" * 22].topic_names is found
    assert group.is_subscribed_to("n7")
    assert not group.is_subscribed_to("other")


def test_it_is_made_in_steps() -> None:
    assert sum(1 for _ in ordered(NAMES, MOST)) > 2
    assert are_many(NAMES)
    assert not are_many(NAMES[:100])


def test_a_consumer_writes_the_same_records_with_either() -> None:
    def records(names: Any) -> list[KeyValue]:
        request = ConsumerGroupHeartbeatRequest(
            "g", "m" * 22, 0, rebalance_timeout_ms=1000, subscribed_topic_names=names, topic_partitions=[]
        )
        return Machine().coordinator.consumer_heartbeat(request, CALLER, 1).records

    assert records(at_once(ordered(NAMES, MOST))) == records(NAMES)


def test_a_share_consumer_writes_the_same_records_with_either() -> None:
    def records(names: Any) -> list[KeyValue]:
        request = ShareGroupHeartbeatRequest("g", "m" * 22, 0, subscribed_topic_names=names)
        return Machine().coordinator.share.heartbeat(request, CALLER, 1).records

    assert records(at_once(ordered(NAMES, MOST))) == records(NAMES)
