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
CALLER = Caller(1, "c", "/h")


def test_a_set_that_knows_its_order_is_the_set() -> None:
    found = at_once(ordered(NAMES))
    assert found == set(NAMES)
    assert names_in_order(found) == sorted(set(NAMES)) == names_in_order(frozenset(NAMES))
    assert names_set(found) is found
    assert names_set(NAMES) == found


def test_it_is_made_in_steps() -> None:
    assert sum(1 for _ in ordered(NAMES)) > 2
    assert are_many(NAMES)
    assert not are_many(NAMES[:100])


def test_a_consumer_writes_the_same_records_with_either() -> None:
    def records(names: Any) -> list[KeyValue]:
        request = ConsumerGroupHeartbeatRequest(
            "g", "m" * 22, 0, rebalance_timeout_ms=1000, subscribed_topic_names=names, topic_partitions=[]
        )
        return Machine().coordinator.consumer_heartbeat(request, CALLER, 1).records

    assert records(at_once(ordered(NAMES))) == records(NAMES)


def test_a_share_consumer_writes_the_same_records_with_either() -> None:
    def records(names: Any) -> list[KeyValue]:
        request = ShareGroupHeartbeatRequest("g", "m" * 22, 0, subscribed_topic_names=names)
        return Machine().coordinator.share.heartbeat(request, CALLER, 1).records

    assert records(at_once(ordered(NAMES))) == records(NAMES)
