"""Static members of streams groups (since Kafka 4.4): their place, their tasks, and how long both are kept.

The answers stand beside those of Kafka in `tests/broker/api/newest_release.json`.
"""

from __future__ import annotations

from typing import Any

import pytest

from pykafka_broker.coordinators.groups.epoch_group import LEAVE_STATIC_EPOCH
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.streams_group_heartbeat_request import (
    Endpoint,
    KeyValue,
    Subtopology,
    Topology,
)
from tests.coordinators.streams.support import Machine, told

SESSION_MS = 45_000
BOTH = {"0": [0, 1]}
LINES = Topology(0, [Subtopology("0", ["lines"])])


def with_member_away(release: str = "4.4") -> Machine:
    machine = Machine(pykafka_emulate=release)
    machine.topic("lines", 2)
    joined = machine.join("one", LINES, instance_id="i", process_id="p")
    assert told(joined.active_tasks) == BOTH
    assert machine.beat("one", LEAVE_STATIC_EPOCH, instance_id="i").error_code == ErrorCode.NONE
    return machine


def test_another_member_takes_the_place_and_the_tasks_also_after_a_restart() -> None:
    machine = with_member_away()
    machine.restart()
    epoch = machine.group().epoch
    back = machine.join("two", LINES, instance_id="i", process_id="p")
    assert (back.error_code, back.member_epoch, told(back.active_tasks)) == (ErrorCode.NONE, epoch, BOTH)
    assert machine.group().members.keys() == {"two"}
    assert machine.group().static_members == {"i": "two"}
    assert machine.beat("one", epoch, instance_id="i").error_code == ErrorCode.FENCED_INSTANCE_ID


def test_a_returning_member_whose_process_is_another_begins_an_epoch() -> None:
    machine = with_member_away()
    epoch = machine.group().epoch
    back = machine.join("two", LINES, instance_id="i", process_id="q")
    assert (back.member_epoch, told(back.active_tasks)) == (epoch + 1, BOTH)


@pytest.mark.parametrize("member_id", ["one", "two"])
@pytest.mark.parametrize(
    ("changed", "epochs"),
    [
        ({"user_endpoint": Endpoint("h", 1)}, 0),
        ({"rebalance_timeout_ms": 50_000}, 0),
        ({"client_tags": [KeyValue("a", "b")]}, 1),
        ({"rack_id": "r"}, 1),
        ({"topology": Topology(1, [Subtopology("0", ["lines"])])}, 1),
    ],
    ids=lambda each: next(iter(each)) if isinstance(each, dict) else str(each),
)
def test_a_returning_member_begins_an_epoch_for_what_tasks_depend_on(
    member_id: str, changed: dict[str, Any], epochs: int
) -> None:
    machine = Machine()
    machine.topic("lines", 2)
    newer = Topology(2, [Subtopology("0", ["lines"])])
    machine.join("one", newer, instance_id="i", process_id="p")
    machine.beat("one", LEAVE_STATIC_EPOCH, instance_id="i")
    epoch = machine.group().epoch
    topology = changed.get("topology", newer)
    others = {name: value for name, value in changed.items() if name != "topology"}
    back = machine.join(member_id, topology, instance_id="i", process_id="p", **others)
    assert (back.error_code, back.member_epoch) == (ErrorCode.NONE, epoch + epochs)


@pytest.mark.parametrize(("instance_id", "epochs"), [(None, 1), ("i", 0)])
def test_another_endpoint_begins_an_epoch_of_a_dynamic_member_alone(instance_id: str | None, epochs: int) -> None:
    machine = Machine()
    machine.topic("lines", 2)
    epoch = machine.join("one", LINES, instance_id=instance_id).member_epoch
    moved = machine.beat("one", epoch, instance_id=instance_id, user_endpoint=Endpoint("h", 1))
    assert moved.member_epoch == epoch + epochs


def test_the_place_is_kept_for_a_session_alone() -> None:
    machine = with_member_away()
    machine.wait(SESSION_MS - 1)
    assert machine.group().members.keys() == {"one"}
    machine.wait(1)
    group = machine.group()
    assert not group.members
    assert not group.static_members
    assert group.assignment_epoch == group.epoch


def test_an_instance_that_has_not_left_is_not_replaced() -> None:
    machine = with_member_away()
    machine.join("two", LINES, instance_id="i", process_id="p")
    assert machine.join("three", LINES, instance_id="i").error_code == ErrorCode.UNRELEASED_INSTANCE_ID


def test_a_release_before_4_4_has_none() -> None:
    machine = Machine(pykafka_emulate="4.3")
    machine.topic("lines", 2)
    answer = machine.join("one", LINES, instance_id="i")
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Static membership is not yet supported.",
    )
