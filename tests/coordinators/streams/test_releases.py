"""Rules of streams groups that Kafka 4.4 has changed, as a running 4.3.1 and a running 4.4.0 show them.

The scenarios of `tests/scenarios/groups` play the same in full against one of them.
"""

from __future__ import annotations

import pytest

from pykafka_broker.coordinators.groups.group import Caller
from pykafka_broker.coordinators.streams.group import describe
from pykafka_broker.coordinators.streams.topology import MISSING_CLIENT_TAGS
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.streams_group_heartbeat_request import (
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskOffset,
    TopicInfo,
    Topology,
)
from tests.coordinators.streams.support import Machine, Tasks, told

ONE_STEP = Topology(0, [Subtopology("0", ["lines"])])
STATEFUL = Topology(0, [Subtopology("0", ["lines"], state_changelog_topics=[TopicInfo("counts")])])


def with_topics(release: str, partitions: int, **config: str) -> Machine:
    machine = Machine(pykafka_emulate=release, **config)
    machine.topic("lines", partitions)
    machine.topic("counts", partitions)
    return machine


@pytest.mark.parametrize(("release", "kept"), [("4.3", {"0": [3, 4]}), ("4.4", {"0": [3, 5]})])
def test_the_assignor_leaves_members_their_target_or_what_they_have(release: str, kept: Tasks) -> None:
    machine = with_topics(release, 6)
    machine.join("one", ONE_STEP)
    machine.join("two", ONE_STEP)  # its target is 3 to 5, and it has nothing yet
    machine.beat("one", 2)
    machine.join("three", ONE_STEP)
    machine.beat("one", 2, {"0": [0, 1, 2]})
    machine.beat("one", 3, {"0": [0, 1]})
    assert told(machine.beat("two", 3).active_tasks) == kept


@pytest.mark.parametrize(("release", "standby"), [("4.3", {}), ("4.4", {"0": [1]})])
def test_a_task_becomes_a_standby_before_or_after_it_is_given_back(release: str, standby: Tasks) -> None:
    machine = with_topics(release, 2, group_streams_num_standby_replicas="1")
    machine.join("one", STATEFUL)
    machine.join("two", STATEFUL)
    one = machine.beat("one", 2)
    assert (told(one.active_tasks), told(one.standby_tasks), one.member_epoch) == ({"0": [0]}, standby, 2)
    machine.beat("one", 2, {"0": [0]}, standby=standby)
    machine.beat("one", 3)
    assert machine.group().members["one"].assigned.standby == {"0": frozenset([1])}


def test_a_standby_stays_until_its_task_is_active() -> None:
    machine = with_topics("4.4", 2, group_streams_num_standby_replicas="1")
    machine.join("one", STATEFUL)
    machine.join("two", STATEFUL)
    machine.beat("one", 2)
    machine.beat("one", 2, {"0": [0]}, standby={"0": [1]})
    machine.beat("two", 3)
    assert machine.group().members["two"].assigned.without_epochs().standby == {"0": frozenset([0])}
    machine.beat("one", -1)
    two = machine.beat("two", 3)
    assert (told(two.active_tasks), told(two.standby_tasks)) == ({"0": [0, 1]}, {})


@pytest.mark.parametrize(("release", "epoch"), [("4.3", 0), ("4.4", 1)])
def test_a_new_endpoint_is_news_for_the_members(release: str, epoch: int) -> None:
    machine = with_topics(release, 2)
    machine.join("one", ONE_STEP)
    machine.beat("one", 2, user_endpoint=Endpoint("host", 1))
    assert machine.group().endpoint_epoch == epoch
    machine.beat("one", 3, user_endpoint=Endpoint("host", 1))
    assert machine.group().endpoint_epoch == epoch


def test_joining_again_is_news_where_the_endpoint_is_another() -> None:
    machine = with_topics("4.4", 2)
    machine.join("zero", ONE_STEP)  # the epochs begin with a group's first record
    found = []
    for endpoint in (Endpoint("host", 1), Endpoint("host", 1), None):
        machine.join("one", ONE_STEP, user_endpoint=endpoint)
        found.append(machine.group().endpoint_epoch)
    assert found == [1, 1, 2]


@pytest.mark.parametrize(("release", "kept"), [("4.3", True), ("4.4", False)])
def test_a_member_that_joins_again_without_an_endpoint(release: str, kept: bool) -> None:
    machine = with_topics(release, 2)
    machine.join("one", ONE_STEP, user_endpoint=Endpoint("host", 1))
    assert machine.join("one", ONE_STEP).member_epoch == (2 if kept else 3)
    assert (machine.group().members["one"].endpoint is not None) is kept


@pytest.mark.parametrize(("release", "code"), [("4.3", ErrorCode.GROUP_MAX_SIZE_REACHED), ("4.4", ErrorCode.NONE)])
def test_a_member_that_comes_back_to_a_full_group(release: str, code: ErrorCode) -> None:
    machine = with_topics(release, 2, group_streams_max_size="1")
    machine.join("one", ONE_STEP)
    assert machine.join("one", ONE_STEP).error_code == code
    assert machine.join("two", ONE_STEP).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_static_member_has_its_room_under_another_id() -> None:
    machine = with_topics("4.4", 2, group_streams_max_size="1")
    machine.join("one", ONE_STEP, instance_id="i")
    machine.beat("one", -2, instance_id="i")
    assert machine.join("two", ONE_STEP, instance_id="i").error_code == ErrorCode.NONE


@pytest.mark.parametrize(("release", "version", "missing"), [("4.3", 0, None), ("4.4", 0, None), ("4.4", 1, "[k, l]")])
def test_a_member_is_told_which_tags_it_lacks(release: str, version: int, missing: str | None) -> None:
    machine = Machine(pykafka_emulate=release, group_streams_rack_aware_assignment_tags="k,x,l")
    machine.topic("lines", 2)
    request = StreamsGroupHeartbeatRequest(
        "g",
        "one",
        0,
        rebalance_timeout_ms=10_000,
        process_id="p",
        topology=Topology(0, [Subtopology("0", ["lines"])]),
        client_tags=[KeyValue("x", "1")],
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )
    caller = Caller(version, "client", "/127.0.0.1")
    reply = machine.run(machine.coordinator.streams.heartbeat(request, caller, machine.now))
    told = [each.status_detail for each in reply.status if each.status_code == MISSING_CLIENT_TAGS]
    assert [text.partition(": ")[2].partition(".")[0] for text in told] == ([] if missing is None else [missing])


@pytest.mark.parametrize(("release", "epochs"), [("4.3", 0), ("4.4", 1)])
def test_other_tags_begin_an_epoch(release: str, epochs: int) -> None:
    machine = Machine(pykafka_emulate=release)
    machine.topic("lines", 2)
    epoch = machine.join("one", Topology(0, [Subtopology("0", ["lines"])])).member_epoch
    machine.group_config["streams.rack.aware.assignment.tags"] = "k,l"
    assert machine.beat("one", epoch).member_epoch == epoch + epochs
    assert machine.group().assignment_configs.get("rack.aware.assignment.tags") == ("k,l" if epochs else None)


def test_reported_offsets_are_described_in_order() -> None:
    machine = Machine()
    machine.topic("lines", 2)
    epoch = machine.join("one", Topology(0, [Subtopology("0", ["lines"])])).member_epoch
    offsets = [TaskOffset("1", 1, 5), TaskOffset("0", 1, 7), TaskOffset("0", 0, -1)]
    machine.beat("one", epoch, task_offsets=offsets, task_end_offsets=offsets[:1])
    [member] = describe(machine.group()).members
    assert [(each.subtopology_id, each.partition, each.offset) for each in member.task_offsets] == [
        ("0", 0, -1),
        ("0", 1, 7),
        ("1", 1, 5),
    ]
    assert [each.offset for each in member.task_end_offsets] == [5]
