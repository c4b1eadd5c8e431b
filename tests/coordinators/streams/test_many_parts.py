"""Topologies of very many subtopologies."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka_broker.coordinators.groups.group import Caller
from pykafka_broker.coordinators.groups.stored import value_bytes
from pykafka_broker.coordinators.streams.many_parts import KnownTopology, has_many_parts, known
from pykafka_broker.coordinators.streams.topology import as_stored, required_topics
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.streams_group_heartbeat_request import (
    CopartitionGroup,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)
from pykafka_broker.steps import at_once
from tests.coordinators.machine import Machine

CALLER = Caller(0, "c", "/h")


def of(count: int) -> Topology:
    return Topology(
        3, [Subtopology(f"{number}", [f"n{number}"], [], [TopicInfo(f"c{number}")]) for number in range(count)]
    )


def heartbeat(topology: Topology) -> StreamsGroupHeartbeatRequest:
    return StreamsGroupHeartbeatRequest(
        "g",
        "m" * 22,
        0,
        rebalance_timeout_ms=1000,
        topology=topology,
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="p",
    )


@pytest.mark.parametrize("count", [1, 399, 400, 5000])
def test_all_that_is_found_in_steps_is_what_is_found_at_once(count: int) -> None:
    topology = of(count)
    found = at_once(known(topology))
    assert found.stored == as_stored(topology)
    assert found.encoded == value_bytes(found.stored, 0)
    assert found.stored.required == required_topics(found.stored)
    assert found == topology


def test_what_kafka_fails_on_is_refused() -> None:
    with pytest.raises(ApiError) as refused:
        at_once(known(Topology(0, [Subtopology("0"), Subtopology("0")])))
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_it_is_done_in_steps_where_there_are_many() -> None:
    assert sum(1 for _ in known(of(5000))) > 50
    assert has_many_parts(of(5000))
    assert has_many_parts(Topology(0, [Subtopology("0", ["n"] * 5000)]))
    assert not has_many_parts(of(10))
    assert not has_many_parts(None)


def test_a_group_is_told_what_was_found_out_before() -> None:
    def topology() -> KnownTopology:
        return at_once(known(Topology(0, [Subtopology(f"{number}", ["n"]) for number in range(2001)])))

    machine, first, again = Machine(), topology(), topology()
    machine.topic("n", 3)
    at_once(machine.coordinator.streams.find_out("g", first))
    machine.run(machine.coordinator.streams_heartbeat(heartbeat(first), CALLER, 1))
    group: Any = machine.coordinator.groups["g"]
    assert group.topology is first.stored
    assert group.configured is first.stored.configured
    machine.topic("n", 4)
    assert len([*machine.coordinator.streams.find_out("g", again)]) > 10
    assert again.is_other == (first.stored, False)
    fitted = group.configured
    assert set(fitted.task_counts.values()) == {4}
    machine.run(machine.coordinator.streams_heartbeat(heartbeat(again), CALLER, 1))
    assert group.configured is fitted


def test_another_topology_is_refused_however_it_is_compared() -> None:
    machine = Machine()
    machine.run(machine.coordinator.streams_heartbeat(heartbeat(of(3)), CALLER, 1))
    other = at_once(known(of(4)))
    at_once(machine.coordinator.streams.find_out("g", other))
    group: Any = machine.coordinator.groups["g"]
    assert other.is_other == (group.topology, True)
    for told in (other, of(4)):
        effects = machine.coordinator.streams_heartbeat(heartbeat(told), CALLER, 1)
        assert effects.reply.error_code == ErrorCode.INVALID_REQUEST


def test_one_that_can_never_run_is_told_where_it_is_its_turn() -> None:
    broken = at_once(known(Topology(0, [Subtopology("0", ["n0"], copartition_groups=[CopartitionGroup([7])])])))
    machine = Machine()
    machine.topic("n0", 1)
    at_once(machine.coordinator.streams.find_out("g", broken))
    effects = machine.coordinator.streams_heartbeat(heartbeat(broken), CALLER, 1)
    assert effects.reply.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "g" not in machine.coordinator.groups


def test_a_member_writes_the_same_records_with_either() -> None:
    def records(topology: Topology) -> object:
        return Machine().coordinator.streams_heartbeat(heartbeat(topology), CALLER, 1).records

    assert records(at_once(known(of(100)))) == records(of(100))
