"""The assignor `uniform` gives members with different topics the partitions that a running Kafka gives them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pykafka_broker.coordinators.groups.consumer_group import ConsumerGroup
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from tests.coordinators.groups.assignments.record import RECORDED
from tests.coordinators.machine import Machine


def beat(machine: Machine, member_id: str, epoch: int, topics: list[str] | None = None) -> Any:
    request = ConsumerGroupHeartbeatRequest("g", member_id, epoch, None, None, 60_000, topics, topic_partitions=[])
    return machine.run(machine.coordinator.consumer_heartbeat(request, machine.caller(1), machine.now))


@pytest.mark.parametrize("history", json.loads(RECORDED.read_text(encoding="utf-8")))
def test_members_get_what_kafka_gives_them(machine: Machine, history: dict[str, Any]) -> None:
    names = {}
    for name, (topic_id, count) in history["topics"].items():
        names[machine.topic(name, count, bytes.fromhex(topic_id))] = name
    epochs: dict[str, int] = {}
    for member_id, topics, expected in history["steps"]:
        if topics is None:
            beat(machine, member_id, -1)
            del epochs[member_id]
            member_id = next(iter(epochs))
        epochs[member_id] = beat(machine, member_id, epochs.get(member_id, 0), topics).member_epoch
        group = machine.coordinator.groups["g"]
        assert isinstance(group, ConsumerGroup)
        found = {
            name: {names[id]: sorted(of) for id, of in target.items() if of} for name, target in group.targets.items()
        }
        assert found == expected
