"""Groups with so many tasks that their targets are computed in steps, while members go on to talk."""

from __future__ import annotations

from collections import Counter

import pytest

from pykafka_broker.coordinators.streams import protocol
from pykafka_broker.coordinators.streams.group import pairs
from pykafka_broker.protocol.messages.streams_group_heartbeat_request import Subtopology, Topology
from tests.coordinators.streams.support import Machine, told

TASKS = 1_000
TOPOLOGY = Topology(0, [Subtopology("0", ["lines"])])


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A group with one member, whose assignment has begun."""
    monkeypatch.setattr(protocol, "STEPS_AT_ONCE", 1)
    machine = Machine()
    machine.topic("lines", TASKS)
    assert told(machine.join("one", TOPOLOGY, instance_id="i").active_tasks) == {}
    machine.begin()
    return machine


def everything_is_assigned_once(machine: Machine) -> bool:
    group = machine.group()
    tasks = Counter(task for target in group.targets.values() for task in pairs(target.active))
    return tasks == dict.fromkeys((("0", index) for index in range(TASKS)), 1) and group.epoch == group.assignment_epoch


def epoch_of(machine: Machine, member_id: str) -> int:
    return machine.group().members[member_id].epoch


def test_a_later_heartbeat_brings_the_tasks(machine: Machine) -> None:
    group = machine.group()
    assert group.state_name == "Assigning"
    assert machine.beat("one", epoch_of(machine, "one")).active_tasks is None
    assert len(machine.later) == 1, "one work at a time"
    machine.go_on()
    assert told(machine.beat("one", epoch_of(machine, "one")).active_tasks) == {"0": list(range(TASKS))}
    assert group.state_name == "Stable"
    assert everything_is_assigned_once(machine)


def test_few_tasks_are_assigned_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    machine.topic("lines", TASKS)
    assert told(machine.join("one", TOPOLOGY).active_tasks) == {"0": list(range(TASKS))}
    assert not machine.later


def test_members_come_and_go_meanwhile(machine: Machine) -> None:
    group = machine.group()
    machine.join("two", TOPOLOGY)
    machine.join("three", TOPOLOGY)
    machine.go_on()
    assert group.targets.keys() == {"one"}
    machine.beat("two", epoch_of(machine, "two"))
    machine.begin()
    machine.beat("one", -1, instance_id="i")
    machine.go_on()
    assert group.targets.keys() == {"two", "three"}
    assert group.assignment_epoch == group.epoch - 1
    machine.beat("two", epoch_of(machine, "two"))
    machine.go_on()
    assert everything_is_assigned_once(machine)


def test_a_static_member_returns_under_another_id_meanwhile(machine: Machine) -> None:
    machine.beat("one", -2, instance_id="i")
    machine.join("two", TOPOLOGY, process_id="process-one", instance_id="i")
    machine.go_on()
    assert machine.group().state_name == "Assigning"
    machine.beat("two", epoch_of(machine, "two"), instance_id="i")
    machine.go_on()
    assert everything_is_assigned_once(machine)


@pytest.mark.parametrize("comes_back", [True, False])
def test_the_last_member_leaves_meanwhile(machine: Machine, comes_back: bool) -> None:
    machine.beat("one", -1, instance_id="i")
    if comes_back:
        machine.join("one", TOPOLOGY)
        machine.go_on()
        machine.beat("one", epoch_of(machine, "one"))
    machine.go_on()
    assert everything_is_assigned_once(machine) is comes_back
    assert bool(machine.group().targets) is comes_back
    assert machine.group().epoch == machine.group().assignment_epoch


def test_the_group_goes_meanwhile(machine: Machine) -> None:
    machine.coordinator.unload(["g"])
    written = len(machine.log)
    machine.go_on()
    assert len(machine.log) == written
    machine.restart()
    machine.beat("one", epoch_of(machine, "one"), instance_id="i")
    machine.go_on()
    assert everything_is_assigned_once(machine)


def test_work_that_is_given_up_is_begun_anew(machine: Machine) -> None:
    machine.later.clear()
    machine.beat("one", epoch_of(machine, "one"))
    machine.go_on()
    assert everything_is_assigned_once(machine)


def test_the_first_members_wait_for_more_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "STEPS_AT_ONCE", 1)
    machine = Machine(group_streams_initial_rebalance_delay_ms="3000")
    machine.topic("lines", TASKS)
    machine.join("one", TOPOLOGY)
    machine.join("two", TOPOLOGY)
    assert not machine.later
    machine.wait(3_000)
    machine.go_on()
    assert everything_is_assigned_once(machine)
