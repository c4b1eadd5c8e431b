"""The wall clock is set forward and back, by minutes and years: what is under way goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.broker.requests.router import PendingReply
from pykafka_broker.clock import Clock
from pykafka_broker.coordinators.share.state import ShareKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from pykafka_broker.protocol.messages.heartbeat_request import HeartbeatRequest
from pykafka_broker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykafka_broker.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from pykafka_broker.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from pykafka_broker.protocol.runtime import Message
from tests.broker import driven
from tests.broker.api.real_broker import RealBroker
from tests.broker.api.test_pitfalls import joined
from tests.broker.damaged import begin_transaction, key_in

MINUTE, DAY = 60_000, 86_400_000
STEPS = [5 * MINUTE, 365 * DAY, -5 * MINUTE, -20 * 365 * DAY]
SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
}


class SteppedClock(Clock):
    """A clock whose wall clock is ahead of the steady clock, or behind."""

    __slots__ = ()
    ahead = 0

    def set(self, now: int, wall: int | None = None) -> None:
        super().set(now, now + SteppedClock.ahead)


class Node(RealBroker):
    def step(self, by: int) -> None:
        """Set the wall clock."""
        SteppedClock.ahead += by
        self.broker.clock.set(self.now)

    def pass_time(self, ms: int, slices: int = 10) -> None:
        for _ in range(slices):
            self.now += ms // slices
            self.broker.on_deadline(self.now)
            self.broker.settle(self.now)

    def restart_by_the_wall(self) -> None:
        """Start a new process, whose steady clock begins with the time of the wall clock."""
        self.broker.stop(self.now)
        self.now += SteppedClock.ahead
        SteppedClock.ahead = 0
        self.start()

    def parked(self, request: Message, version: int) -> list[Any]:
        """Send a request that has to wait; return a list that gets the answer once it comes."""
        answer = self.broker.dispatch(self.connection, self.frame(request, version), self.now)
        assert isinstance(answer, PendingReply)
        replies: list[Any] = []
        answer.future.add_done_callback(lambda _: replies.append(answer.response()))
        return replies


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    monkeypatch.setattr(driven, "Clock", SteppedClock)
    monkeypatch.setattr(SteppedClock, "ahead", 0)
    node = Node(tmp_path, **SETTINGS)
    assert node.call(CreateTopicsRequest([CreatableTopic("t", 1, 1)]), 7).topics[0].error_code == 0
    return node


def state_of(node: Node, transactional_id: str) -> str:
    state: str = node.call(DescribeTransactionsRequest([transactional_id]), 0).transaction_states[0].transaction_state
    return state


def commit(node: Node, group_id: str) -> None:
    wanted = [OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 7)])]
    assert node.call(OffsetCommitRequest(group_id, topics=wanted), 8).topics[0].partitions[0].error_code == 0


def committed(node: Node, group_id: str) -> list[int]:
    group = node.call(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id, topics=None)]), 8).groups[0]
    return [each.committed_offset for topic in group.topics for each in topic.partitions]


@pytest.mark.parametrize("step", STEPS)
def test_a_parked_fetch_waits_as_long_as_it_said(node: Node, step: int) -> None:
    wanted = [FetchTopic("t", partitions=[FetchPartition(0, fetch_offset=0)])]
    replies = node.parked(FetchRequest(topics=wanted, max_wait_ms=500, min_bytes=1, max_bytes=1 << 20), 11)
    node.step(step)
    node.pass_time(499, 1)
    assert replies == []
    node.pass_time(1, 1)
    assert len(replies) == 1


@pytest.mark.parametrize("step", STEPS)
def test_members_of_every_protocol_keep_their_sessions(node: Node, step: int) -> None:
    member_id = joined(node, "classic")
    classic = HeartbeatRequest("classic", 1, member_id)
    consumer = node.call(
        ConsumerGroupHeartbeatRequest(
            "consumer", "m", 0, rebalance_timeout_ms=9_000, subscribed_topic_names=["t"], topic_partitions=[]
        ),
        1,
    )
    share = node.call(ShareGroupHeartbeatRequest("share", "m", 0, subscribed_topic_names=["t"]), 1)
    assert consumer.error_code == share.error_code == 0
    due = node.broker.next_deadline()
    node.step(step)
    assert node.broker.next_deadline() == due
    node.pass_time(29_000)
    assert node.call(classic, 4).error_code == 0
    assert [*node.broker.groups.coordinator.groups["consumer"].members] == ["m"]
    assert [*node.broker.groups.coordinator.groups["share"].members] == ["m"]
    node.step(-step)
    node.pass_time(60_000, 60)
    assert node.call(classic, 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert not node.broker.groups.coordinator.groups["consumer"].members
    assert not node.broker.groups.coordinator.groups["share"].members


@pytest.mark.parametrize("step", STEPS)
def test_a_transaction_has_its_time(node: Node, step: int) -> None:
    begin_transaction(node, "x")
    node.step(step)
    node.pass_time(59_000)
    assert state_of(node, "x") == "Ongoing"
    node.pass_time(22_000)
    assert state_of(node, "x") == "CompleteAbort"


def test_a_transaction_that_another_run_has_dated_ahead_times_out(node: Node) -> None:
    begin_transaction(node, "x")
    node.step(-365 * DAY)
    node.restart_by_the_wall()
    node.pass_time(50_000)
    assert state_of(node, "x") == "Ongoing"
    node.pass_time(30_000)
    assert state_of(node, "x") == "CompleteAbort"


def test_offsets_are_dated_by_the_wall_clock(node: Node) -> None:
    """A machine that sleeps has a steady clock that sleeps too: what was committed last is not old for that."""
    node.broker.create_missing_topics(["__consumer_offsets"])
    commit(node, key_in(0, "before"))
    node.step(8 * DAY)
    commit(node, key_in(0, "after"))
    member_id = joined(node, key_in(1, "left"))
    commit_as_member = OffsetCommitRequest(
        key_in(1, "left"),
        1,
        member_id,
        topics=[OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 7)])],
    )
    assert node.call(commit_as_member, 8).topics[0].partitions[0].error_code == 0
    node.pass_time(60_000, 60)  # its session ends: the group is empty from now on
    node.restart_by_the_wall()
    node.pass_time(11 * MINUTE)
    assert committed(node, key_in(0, "before")) == []
    assert committed(node, key_in(0, "after")) == [7]
    assert committed(node, key_in(1, "left")) == [7]
    node.step(-365 * DAY)
    node.pass_time(11 * MINUTE)
    assert committed(node, key_in(0, "after")) == [7]


def test_a_share_partition_that_another_run_has_dated_ahead_gets_its_snapshot(node: Node) -> None:
    shares = node.broker.shares
    key = ShareKey("g", node.broker.image.topics["t"].id, 0)
    shares.initialize(key, 1, 5)
    shares.apply(shares.known(key).write(key, 1, 0, 6, 0, [], node.now))
    node.step(-365 * DAY)
    node.restart_by_the_wall()
    assert node.broker.shares.coordinator.states[key].updates == 1
    node.pass_time(20 * MINUTE)
    assert node.broker.shares.coordinator.states[key].updates == 0
