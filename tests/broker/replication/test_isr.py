"""Requests to the controller for changes of ISRs, and the time when they are sent."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.broker.replication import node_replication
from pykafka_broker.broker.replication.node_replication import AlterPartitionManager, NodeReplication
from pykafka_broker.peers import LinkClosed, OnReply
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.alter_partition_request import AlterPartitionRequest
from pykafka_broker.protocol.messages.alter_partition_response import AlterPartitionResponse, PartitionData, TopicData
from pykafka_broker.protocol.runtime import Message
from tests.broker.support import ANOTHER_NODE, NOW, LightBroker


class Asked:
    """A node whose partitions 0 and 1 of `t` have a follower that may join."""

    def __init__(self, path: Path) -> None:
        self.broker = LightBroker(path)
        self.topic_id = self.broker.add("t", 2, replicas=(1, 2))
        self.requests: list[AlterPartitionRequest] = []
        self.on_reply: OnReply | None = None
        self.changes = AlterPartitionManager(NodeReplication(self.broker.whole.node), self._ask)

    def _ask(self, request: Message, on_reply: OnReply, timeout_ms: int) -> None:
        assert isinstance(request, AlterPartitionRequest)
        assert self.on_reply is None, "one at a time"
        self.requests.append(request)
        self.on_reply = on_reply

    def partition(self, number: int) -> Partition:
        return self.broker.partition("t", number)

    def wish(self, number: int) -> Partition:
        partition = self.partition(number)
        assert partition.followers is not None
        partition.followers.proposed_isr = (1, 2)
        self.changes.submit(partition)
        return partition

    def done(self, number: int) -> PartitionData:
        """Return the controller's answer that the proposed ISR holds."""
        return PartitionData(number, 0, 1, 0, [1, 2], 0, self.partition(number).state.partition_epoch + 1)

    def send(self) -> list[int]:
        """Send the changes if they are due; return the partitions of the newest request."""
        if self.changes.due is not None and self.changes.due <= self.broker.now:
            self.changes.send()
        return [each.partition_index for topic in self.requests[-1].topics for each in topic.partitions]

    def answer(self, *answers: PartitionData, code: ErrorCode = ErrorCode.NONE) -> None:
        topics = [TopicData(topic_id=self.topic_id, partitions=list(answers))]
        self.reply(AlterPartitionResponse(error_code=code, topics=topics))

    def reply(self, reply: Message | LinkClosed) -> None:
        on_reply, self.on_reply = self.on_reply, None
        assert on_reply is not None
        on_reply(reply)


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    return Asked(tmp_path)


def test_all_that_wish_are_asked_for_together(asked: Asked) -> None:
    asked.wish(0)
    asked.wish(1)
    assert asked.send() == [0, 1]
    first = asked.requests[0].topics[0].partitions[0]
    assert [each.broker_id for each in first.new_isr_with_epochs] == [1, 2]
    epoch = asked.partition(0).state.partition_epoch
    assert (first.leader_epoch, first.partition_epoch, first.new_isr) == (0, epoch, [])


def test_a_follower_is_named_with_the_broker_epoch_of_its_fetches(asked: Asked) -> None:
    """A broker that has registered anew may have lost what it had fetched: the controller refuses the former epoch."""
    partition = asked.wish(0)
    assert partition.followers is not None
    follower = partition.followers.get(2)
    assert follower is not None
    follower.broker_epoch = asked.changes._node.epoch_of(2) + 100
    asked.send()
    (_, named) = asked.requests[0].topics[0].partitions[0].new_isr_with_epochs
    assert (named.broker_id, named.broker_epoch) == (2, follower.broker_epoch)


def test_who_wishes_while_an_answer_is_waited_for_is_next(asked: Asked) -> None:
    first = asked.wish(0)
    epoch = first.state.partition_epoch
    assert asked.send() == [0]
    second = asked.wish(1)
    assert (asked.send(), asked.changes.is_pending(second)) == ([0], True)
    asked.answer(asked.done(0))
    assert (first.isr, first.state.partition_epoch) == ((1, 2), epoch + 1), (
        "the answer says so before the metadata does"
    )
    assert asked.send() == [1]


def test_a_partition_that_was_closed_before_the_answer_stays_closed(asked: Asked) -> None:
    partition = asked.wish(0)
    asked.send()
    asked.broker.whole.node.replicas.offline([("t", 0)])
    asked.answer(asked.done(0))
    assert (partition.is_leader, partition.followers) == (False, None)


def test_very_many_are_asked_for_in_several_requests(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_replication, "_PARTITIONS_PER_REQUEST", 1)
    asked.wish(0)
    asked.wish(1)
    assert asked.send() == [0]
    asked.answer(asked.done(0))
    assert asked.send() == [1]
    asked.answer(asked.done(1))
    assert asked.changes.due is None


def test_those_that_want_nothing_any_more_hold_nobody_up(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_replication, "_PARTITIONS_PER_REQUEST", 1)
    first = asked.wish(0)
    asked.wish(1)
    first.isr_refused(NOW)
    asked.changes.send()
    assert (asked.requests, asked.changes.due) == ([], NOW)
    assert asked.send() == [1]


@pytest.mark.parametrize("code", [ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH, None])
def test_what_nobody_has_decided_is_asked_again(asked: Asked, code: ErrorCode | None) -> None:
    partition = asked.wish(0)
    asked.send()
    if code is None:
        asked.reply(LinkClosed("gone"))
    else:
        asked.answer(code=code)
    assert len(asked.requests) == 1
    assert asked.changes.due is not None
    assert NOW < asked.changes.due <= NOW + 1_000
    asked.broker.now = asked.changes.due
    assert asked.send() == [0]
    assert partition.followers is not None
    assert partition.followers.proposed_isr == (1, 2)


@pytest.mark.parametrize(
    ("code", "proposed"),
    [
        (ErrorCode.INELIGIBLE_REPLICA, None),
        (ErrorCode.INVALID_UPDATE_VERSION, (1, 2)),
        (ErrorCode.FENCED_LEADER_EPOCH, (1, 2)),
        (ErrorCode.NEW_LEADER_ELECTED, (1, 2)),
    ],
)
def test_only_what_is_refused_for_certain_is_taken_back(
    asked: Asked, code: ErrorCode, proposed: tuple[int, ...] | None
) -> None:
    partition = asked.wish(0)
    asked.send()
    asked.answer(PartitionData(0, code))
    assert partition.followers is not None
    assert (partition.followers.proposed_isr, partition.isr) == (proposed, (1,))
    assert asked.changes.due is None, "the metadata is to tell"


def test_a_late_refusal_takes_back_no_newer_wish(asked: Asked) -> None:
    partition = asked.wish(0)
    asked.send()
    asked.broker.change("t", 0, isr=[1])
    asked.wish(0)
    asked.answer(PartitionData(0, ErrorCode.INELIGIBLE_REPLICA))
    assert partition.followers is not None
    assert partition.followers.proposed_isr == (1, 2)
    assert asked.send() == [0]


def test_an_isr_of_another_leader_epoch_is_left_to_the_metadata(asked: Asked) -> None:
    partition = asked.wish(0)
    asked.send()
    asked.answer(PartitionData(0, 0, 1, 1, [1, 2], 0, partition.state.partition_epoch + 1))
    assert (partition.isr, partition.leader_epoch) == ((1,), 0)


@pytest.mark.parametrize("code", [ErrorCode.NEW_LEADER_ELECTED, ErrorCode.INELIGIBLE_REPLICA])
def test_what_ended_a_reassignment_is_not_told_as_a_refusal(
    asked: Asked, code: ErrorCode, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    asked.wish(0)
    asked.send()
    asked.answer(PartitionData(0, code))
    told = [record.message for record in caplog.records if "did not get the ISR" in record.message]
    assert len(told) == (0 if code is ErrorCode.NEW_LEADER_ELECTED else 1)


def test_isrs_that_have_changed_are_counted(asked: Asked) -> None:
    asked.wish(0)
    asked.send()
    asked.answer(PartitionData(0, ErrorCode.INELIGIBLE_REPLICA))
    assert (asked.changes.expanded, asked.changes.shrunk) == (0, 0)
    asked.wish(0)
    asked.send()
    asked.answer(asked.done(0))
    assert (asked.changes.expanded, asked.changes.shrunk) == (1, 0)


def test_a_partition_that_has_another_leader_by_now_wishes_for_nothing(asked: Asked) -> None:
    asked.wish(0)
    asked.wish(1)
    asked.broker.change("t", 0, leader=ANOTHER_NODE)
    assert asked.send() == [1]


def test_what_the_controller_says_nothing_of_is_asked_again(asked: Asked) -> None:
    asked.wish(0)
    asked.wish(1)
    asked.send()
    asked.answer(asked.done(1))
    assert asked.send() == [0]


def test_what_is_so_already_is_no_wish_any_more(asked: Asked) -> None:
    partition = asked.wish(0)
    asked.send()
    asked.answer(PartitionData(0, 0, 1, 0, [1], 0, partition.state.partition_epoch))
    assert partition.followers is not None
    assert partition.followers.proposed_isr is None
