"""Groups of many members: a heartbeat takes as long as in a small group, and a target as long as what it shares out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from tests.coordinators.steps import steps_of

FEW, MANY = 50, 200  # members
PARTITIONS_A_MEMBER = 4.5  # 9,000 for 2,000
MOST_STEPS_OF_A_MEMBER = 3_000  # in the turn that makes a target: 2,000 members then take 40 to 80 ms


class Shape(NamedTuple):
    """Topics, and a member's subscription to them: names, or a pattern."""

    topics: int
    reads: Callable[[int, list[str]], list[str] | str]


SHAPES = {
    "one topic": Shape(1, lambda member, names: names),
    "many topics": Shape(20, lambda member, names: names),
    "a pattern": Shape(20, lambda member, names: "t.*"),
    "two kinds of members": Shape(2, lambda member, names: names[: 1 + member % 2]),
    "many kinds of members": Shape(20, lambda member, names: names[: 1 + member % 20]),
}


class Crowd:
    """The members of a group, and the steps of their heartbeats."""

    def __init__(self, machine: Any, shape: Shape, members: int, assignor: str) -> None:
        self.machine = machine
        self.assignor = assignor
        self.shape = shape
        self.counted = False  # steps, which takes its time
        partitions = int(PARTITIONS_A_MEMBER * members)
        self.names = [f"t{index}" for index in range(shape.topics)]
        for name in self.names:
            machine.topic(name, partitions // shape.topics)
        self.epochs: dict[int, int] = {}
        self.owned: dict[int, list[TopicPartitions]] = {}
        for member in range(members):
            self.join(member)

    def join(self, member: int) -> int:
        reads = self.shape.reads(member, self.names)
        return self._ask(
            member,
            0,
            rebalance_timeout_ms=60_000,
            topic_partitions=[],
            subscribed_topic_names=None if isinstance(reads, str) else reads,
            subscribed_topic_regex=reads if isinstance(reads, str) else None,
            server_assignor=self.assignor,
        )

    def beat(self, member: int) -> int:
        return self._ask(member, self.epochs[member], topic_partitions=self.owned.get(member, []))

    def leave(self, member: int) -> int:
        return self._ask(member, -1)

    def settle(self) -> list[int]:
        """Let the interval between two targets pass, and all members beat until everybody has the target."""
        steps = []
        for _ in range(3):
            self.machine.wait(1_000)
            steps += [self.beat(member) for member in self.epochs]
        return steps

    def _ask(self, member: int, epoch: int, **fields: Any) -> int:
        machine = self.machine
        request = ConsumerGroupHeartbeatRequest("g", f"m{member}", epoch, **fields)

        def turn() -> Any:
            effects = machine.coordinator.consumer_heartbeat(request, machine.caller(1), machine.now)
            for record in effects.records:
                machine.coordinator.replay(record, machine.now)
            return effects.reply

        reply, steps = steps_of(turn) if self.counted else (turn(), 0)
        assert reply.error_code == ErrorCode.NONE, reply.error_message
        self.epochs[member] = reply.member_epoch
        if reply.assignment is not None:
            self.owned[member] = reply.assignment.topic_partitions
        if epoch < 0:
            del self.epochs[member]
        return steps


@pytest.fixture
def crowd(new_machine: Callable[..., Any]) -> Callable[[str, int, str], Crowd]:
    def made(shape: str, members: int, assignor: str = "uniform") -> Crowd:
        return Crowd(new_machine(group_consumer_assignment_interval_ms="1000"), SHAPES[shape], members, assignor)

    return made


@pytest.mark.parametrize("shape", SHAPES)
def test_a_member_costs_no_more_in_a_large_group(crowd: Callable[..., Crowd], shape: str) -> None:
    few, many = crowd(shape, FEW), crowd(shape, MANY)
    for group in (few, many):
        group.settle()
        group.join(MANY)  # with a target: the next one is due in a second
        group.counted = True
    for act in (Crowd.leave, Crowd.join):
        costs = [max(act(group, member) for member in range(20)) for group in (few, many)]
        assert costs[1] <= costs[0] * 1.5, f"{act.__name__}: {costs} steps in groups of {FEW} and of {MANY}"


@pytest.mark.parametrize("assignor", ["uniform", "range"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_target_costs_what_it_shares_out(crowd: Callable[..., Crowd], shape: str, assignor: str) -> None:
    longest = {}
    for members in (FEW, MANY):
        group = crowd(shape, members, assignor)
        group.counted = True
        longest[members] = max(group.settle())
        assert sum(len(topic.partitions) for owned in group.owned.values() for topic in owned) >= members * 4
        assert longest[members] <= MOST_STEPS_OF_A_MEMBER * members, f"{longest} steps"
    assert longest[MANY] <= longest[FEW] * (MANY / FEW) * 1.3, f"{longest} steps"
