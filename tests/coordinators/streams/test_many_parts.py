"""Topologies of very many subtopologies."""

from __future__ import annotations

import pytest

from pykafka_broker.coordinators.groups.group import Caller
from pykafka_broker.coordinators.groups.stored import value_bytes
from pykafka_broker.coordinators.streams.many_parts import has_many_parts, known
from pykafka_broker.coordinators.streams.topology import as_stored, mentioned_topics
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)
from pykafka_broker.steps import at_once
from tests.coordinators.machine import Machine


def of(count: int) -> Topology:
    return Topology(
        3, [Subtopology(f"{number}", [f"n{number}"], [], [TopicInfo(f"c{number}")]) for number in range(count)]
    )


@pytest.mark.parametrize("count", [1, 399, 400, 5000])
def test_all_that_is_found_in_steps_is_what_is_found_at_once(count: int) -> None:
    topology = of(count)
    found = at_once(known(topology))
    assert found.stored == as_stored(topology)
    assert found.encoded == value_bytes(found.stored, 0)
    assert found.names == mentioned_topics(topology)
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


def test_a_member_writes_the_same_records_with_either() -> None:
    def records(topology: Topology) -> object:
        request = StreamsGroupHeartbeatRequest(
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
        return Machine().coordinator.streams_heartbeat(request, Caller(0, "c", "/h"), 1).records

    assert records(at_once(known(of(100)))) == records(of(100))
