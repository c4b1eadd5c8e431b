"""Produce that waits: for a sync here, for the other replicas in sync, or until the client's time is over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pykafka_broker.broker.requests.router import PendingReply
from pykafka_broker.broker.waiting.future import PARTITIONS_A_SLICE, Slices
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.log.manager import LogManager
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse
from pykafka_broker.protocol.stored.remove_topic_record import RemoveTopicRecord
from tests.broker.api.real_broker import RealBroker
from tests.broker.support import ANOTHER_NODE, NOW, LightBroker, batch

TIMEOUT_MS = 1_000


@pytest.fixture
def broker(tmp_path: Path) -> LightBroker:
    return LightBroker(tmp_path)


class Producing:
    """One request through the router, as a connection sends it."""

    def __init__(self, broker: LightBroker, *partitions: int, acks: int = -1, timeout_ms: int = TIMEOUT_MS) -> None:
        data = [PartitionProduceData(number, bytes(batch(b"v"))) for number in partitions or (0,)]
        request = ProduceRequest(None, acks, timeout_ms, [TopicProduceData("t", partition_data=data)])
        frame = RealBroker.frame(request, 10)
        self.broker = broker
        context = broker.context(ApiKey.PRODUCE, 10).connection
        found = broker.dispatch(context, frame, broker.now)
        self.parked = found if isinstance(found, PendingReply) else None

    @property
    def waits(self) -> bool:
        return self.parked is not None and not self.parked.future.done

    @property
    def response(self) -> ProduceResponse:
        assert self.parked is not None
        assert self.parked.future.done
        reply: ProduceResponse = self.parked.response()
        return reply

    @property
    def answers(self) -> list[PartitionProduceResponse]:
        return self.response.responses[0].partition_responses

    @property
    def codes(self) -> list[int]:
        return [one.error_code for one in self.answers]


@pytest.fixture
def pair(broker: LightBroker) -> LightBroker:
    """A broker whose topic t has a second replica in sync, which never fetches."""
    broker.add("t", 2, replicas=(1, 2), isr=(1, 2))
    return broker


def test_acks_1_does_not_ask_for_the_others(pair: LightBroker) -> None:
    assert not Producing(pair, acks=1).waits
    assert pair.partition_log("t", 0).log_end_offset == 1


def test_acks_all_waits_for_the_others_until_the_time_is_over(pair: LightBroker) -> None:
    producing = Producing(pair, 0, 1)
    assert producing.waits
    assert pair.next_deadline() == NOW + TIMEOUT_MS
    pair.on_deadline(NOW + TIMEOUT_MS - 1)
    assert producing.waits
    pair.partition("t", 1).fetched_by(ANOTHER_NODE, 1, NOW)
    pair.on_deadline(NOW + TIMEOUT_MS)
    assert producing.codes == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE]
    assert [one.base_offset for one in producing.answers] == [0, 0]


def test_without_any_time_it_is_over_at_once(pair: LightBroker) -> None:
    producing = Producing(pair, timeout_ms=0)
    assert pair.next_deadline() == NOW
    pair.on_deadline(NOW)
    assert producing.codes == [ErrorCode.REQUEST_TIMED_OUT]


def test_it_is_answered_when_the_last_of_them_has_it(pair: LightBroker) -> None:
    producing = Producing(pair, 0, 1)
    pair.partition("t", 0).fetched_by(ANOTHER_NODE, 1, NOW)
    assert producing.waits
    pair.partition("t", 1).fetched_by(ANOTHER_NODE, 1, NOW)
    assert producing.codes == [0, 0]


def test_it_is_answered_when_the_others_leave_the_isr(pair: LightBroker) -> None:
    producing = Producing(pair)
    pair.change("t", isr=[1])
    assert producing.codes == [0]


def test_with_too_few_in_sync_after_the_append_its_time_runs_out(broker: LightBroker) -> None:
    broker.add("t", replicas=(1, 2), isr=(1, 2), min_insync_replicas="2")
    producing = Producing(broker)
    broker.change("t", isr=[1])
    assert producing.waits, "nothing is committed now (KIP-966)"
    broker.on_deadline(NOW + TIMEOUT_MS)
    assert producing.codes == [ErrorCode.REQUEST_TIMED_OUT]


def test_another_leader_is_named(pair: LightBroker) -> None:
    pair.register_another_node()
    producing = Producing(pair, 0, 1)
    pair.change("t", 0, leader=ANOTHER_NODE)
    assert producing.waits, "the other partition is still waited for"
    pair.change("t", 1, leader=1, isr=[1])
    first, second = producing.answers
    assert (first.error_code, second.error_code) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE)
    assert (first.base_offset, first.error_message) == (0, None)
    assert (first.current_leader.leader_id, first.current_leader.leader_epoch) == (ANOTHER_NODE, 1)
    assert second.current_leader.leader_id == -1
    assert [node.node_id for node in producing.response.node_endpoints] == [ANOTHER_NODE]


def test_a_deleted_topic_is_told(pair: LightBroker) -> None:
    producing = Producing(pair)
    pair.commit_metadata([ApiMessageAndVersion(RemoveTopicRecord(pair.image.topics["t"].id), 0)])
    assert producing.codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    # A Kafka 4.4.0 whose topic is deleted meanwhile tells the offset of the append, and no text.
    assert [(each.base_offset, each.error_message) for each in producing.answers] == [(0, None)]


def test_records_that_another_leader_replaces_between_two_slices_are_not_acknowledged(broker: LightBroker) -> None:
    count = PARTITIONS_A_SLICE + 1
    broker.add("t", count, replicas=(1, 2), isr=(1, 2))
    turns: list[Callable[[], None]] = []
    broker.services.slices = Slices(turns.append)
    producing = Producing(broker, *range(count))
    assert len(turns) == 1, "the last partition is still to be written"
    replaced = broker.services.replicas.replica("t", 0)
    broker.change("t", 0, leader=ANOTHER_NODE)
    replaced.log.truncate_to(0)
    replaced.log.append_fetched(batch(b"another", partition_leader_epoch=1), NOW)
    replaced.know_committed(1)
    turns.pop()()
    for index in range(1, count):
        broker.partition("t", index).fetched_by(ANOTHER_NODE, 1, NOW)
    assert producing.codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER, *[ErrorCode.NONE] * (count - 1)]


def gone(producing: Producing) -> None:
    assert producing.parked is not None
    producing.broker.purgatory.cancel(producing.parked.future)


def timed_out(producing: Producing) -> None:
    producing.broker.on_deadline(NOW + TIMEOUT_MS)


@pytest.mark.parametrize("end", [gone, timed_out])
def test_nothing_is_left_of_a_wait_that_is_over(pair: LightBroker, end: Callable[[Producing], None]) -> None:
    producing = Producing(pair, 0, 1)
    end(producing)
    assert [len(pair.partition("t", number)._waiting) for number in (0, 1)] == [0, 0]
    assert pair.purgatory.next_deadline() is None


@pytest.mark.parametrize(("acks", "replicas"), [(1, (1,)), (-1, (1,)), (1, (1, 2))])
def test_a_sync_here_takes_as_long_as_it_takes(
    broker: LightBroker, monkeypatch: pytest.MonkeyPatch, acks: int, replicas: tuple[int, ...]
) -> None:
    monkeypatch.setattr(LogManager, "must_sync", lambda *arguments: None)
    broker.add("t", replicas=replicas, isr=replicas, flush_messages="1")
    producing = Producing(broker, acks=acks, timeout_ms=0)
    broker.on_deadline(NOW + TIMEOUT_MS)
    assert producing.waits
    broker.partition_log("t", 0).synced_to(1, NOW)
    assert producing.codes == [0]
