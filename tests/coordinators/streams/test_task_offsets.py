"""Reported offsets of tasks: which of them count, and how long; all outcomes as a running 4.4.0 has them.

One member has six tasks, two more join; of the four tasks that the first one loses each of the others gets two.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pykafka_broker.coordinators.groups.epoch_group import LEAVE_STATIC_EPOCH
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.streams_group_heartbeat_request import (
    Endpoint,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)
from tests.coordinators.streams.support import Machine

TOPOLOGY = Topology(0, [Subtopology("0", ["lines"], state_changelog_topics=[TopicInfo("counts")])])
Outcome = tuple[set[int], set[int]]  # the tasks of "m2" and "m3"
PLAIN: Outcome = ({2, 4}, {3, 5})
BY_OFFSETS: Outcome = ({4, 5}, {2, 3})  # where "m2" has reported offsets of 4 and 5


def offsets(*tasks: int, offset: int = 4) -> list[TaskOffset]:
    return [TaskOffset("0", task, offset) for task in tasks]


class Group(Machine):
    def __init__(self) -> None:
        super().__init__()
        self.topic("lines", 6)
        self.topic("counts", 6)
        self.enter("m1")

    def enter(self, member_id: str, process_id: str = "", **fields: object) -> None:
        joined = self.join(member_id, TOPOLOGY, process_id=process_id or f"P{member_id}", **fields)
        assert joined.error_code == ErrorCode.NONE

    def stay(self, member_id: str, **fields: object) -> ErrorCode:
        fields.setdefault("member_epoch", self.group().members[member_id].epoch)
        answer = self.beat(member_id, fields.pop("member_epoch"), **fields)  # type: ignore[arg-type]
        return ErrorCode(answer.error_code)

    def outcome(self, *members: str) -> Outcome:
        one, other = (set(self.group().targets[member].active.get("0", ())) for member in members or ("m2", "m3"))
        return one, other


@pytest.mark.parametrize(
    ("second", "third", "outcome"),
    [
        (None, None, PLAIN),
        (offsets(4, 5), None, BY_OFFSETS),
        (offsets(4, 5, offset=-1), None, BY_OFFSETS),
        (None, offsets(2, 3, 4, 5), ({4, 5}, {2, 3})),
        (None, offsets(0, 1, offset=10**9), PLAIN),
        (offsets(2), offsets(2, offset=5), ({3, 5}, {2, 4})),
        ([*offsets(2, offset=100), *offsets(3, offset=200)], offsets(3, offset=50), PLAIN),
        ([*offsets(4, 5, 77), TaskOffset("9", 1, 5)], None, BY_OFFSETS),
    ],
)
def test_offsets_that_come_with_a_join(
    second: list[TaskOffset] | None, third: list[TaskOffset] | None, outcome: Outcome
) -> None:
    group = Group()
    group.enter("m2", task_offsets=second)
    group.enter("m3", task_offsets=third)
    assert group.outcome() == outcome


def _away_and_back(group: Group, member_id: str, **fields: object) -> None:
    group.beat("m2", LEAVE_STATIC_EPOCH, instance_id="i")
    group.enter(member_id, "Pm2", instance_id="i", **fields)


@pytest.mark.parametrize(
    ("then", "outcome"),
    [
        (lambda group: group.stay("m2"), BY_OFFSETS),
        (lambda group: group.stay("m2", task_offsets=[]), PLAIN),
        (lambda group: group.stay("m2", task_offsets=offsets(5)), ({3, 5}, {2, 4})),
        (lambda group: group.stay("m2", task_offsets=offsets(3), member_epoch=99), BY_OFFSETS),
        (lambda group: group.stay("m2", owned={"7": [1]}, task_offsets=offsets(3)), BY_OFFSETS),
        (lambda group: group.enter("m2", instance_id="i"), None),
        (lambda group: group.beat("m2", LEAVE_STATIC_EPOCH, instance_id="i"), BY_OFFSETS),
        (lambda group: _away_and_back(group, "m2"), PLAIN),
        (lambda group: _away_and_back(group, "m2", task_offsets=offsets(4, 5)), PLAIN),
        (lambda group: (group.beat("m2", -1), group.enter("m2", instance_id="i")), PLAIN),
    ],
)
def test_offsets_are_kept_until_others_come_or_the_member_is_gone(
    then: Callable[[Group], object], outcome: Outcome | None
) -> None:
    group = Group()
    group.enter("m2", instance_id="i", task_offsets=offsets(4, 5))
    if outcome is None:  # whose instance id is in use is refused
        with pytest.raises(AssertionError):
            then(group)
        outcome = BY_OFFSETS
    else:
        then(group)
    group.enter("m3")
    assert group.outcome() == outcome


def test_a_dynamic_member_that_joins_again_keeps_its_offsets() -> None:
    group = Group()
    group.enter("m2", task_offsets=offsets(4, 5))
    group.enter("m2")
    group.enter("m3")
    assert group.outcome() == BY_OFFSETS


@pytest.mark.parametrize(("reported", "outcome"), [(None, ({2, 4}, {3, 5})), (offsets(4, 5), ({4, 5}, {2, 3}))])
def test_a_successor_of_a_static_member_has_the_offsets_of_its_own(
    reported: list[TaskOffset] | None, outcome: Outcome
) -> None:
    group = Group()
    group.enter("m2", instance_id="i", task_offsets=offsets(3))
    _away_and_back(group, "n2", task_offsets=reported)
    group.enter("m3")
    assert group.outcome("n2", "m3") == outcome


def test_the_join_that_makes_the_group_tells_no_offsets() -> None:
    group = Machine()
    group.topic("lines", 6)
    group.topic("counts", 6)
    group.join("m1", TOPOLOGY, task_offsets=offsets(3, 4))
    assert group.group().task_offsets == {}
    group.beat("m1", group.group().members["m1"].epoch, task_offsets=offsets(3))
    assert group.group().task_offsets == {"m1": {("0", 3): 4}}


def test_offsets_of_joins_that_are_refused_are_not_kept_for_long() -> None:
    group = Machine()
    group.join("m1", TOPOLOGY)  # a topic is missing, so a member with an endpoint is refused
    for number in range(9):
        endpoint = Endpoint("host", number)
        reported = {"task_offsets": offsets(3), "task_end_offsets": offsets(4)}
        refused = group.join(f"x{number}", TOPOLOGY, user_endpoint=endpoint, **reported)
        assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert group.group().members.keys() == {"m1"}
    assert len(group.group().task_offsets) + len(group.group().task_end_offsets) <= 4


def test_end_offsets_racks_and_tags_change_nothing() -> None:
    group = Group()
    group.group_config = {"streams.rack.aware.assignment.tags": "zone", "streams.num.warmup.replicas": "5"}
    group.enter("m2", rack_id="r", task_end_offsets=offsets(4, 5), client_tags=[])
    group.enter("m3", rack_id="s")
    assert group.outcome() == PLAIN
    assert not any(target.warmup for target in group.group().targets.values())


def test_unknown_tasks_are_refused_with_the_offsets() -> None:
    group = Group()
    group.enter("m2")
    owned = [TaskIds("7", [1])]
    fields = {"active_tasks": owned, "standby_tasks": [], "warmup_tasks": []}
    assert group.stay("m2", task_offsets=offsets(4, 5), **fields) == ErrorCode.INVALID_REQUEST
    assert group.group().task_offsets == {}
