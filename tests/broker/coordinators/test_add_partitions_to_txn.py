"""A partition's leader asks the coordinator at another node before it takes records of a transaction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.broker.coordinators.add_partitions_to_txn import (
    AddPartitionsToTxnManager,
    LocalVerdict,
    PartitionVerification,
)
from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from pykafka_broker.errors import FrameError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from pykafka_broker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from pykafka_broker.protocol.messages.end_txn_request import EndTxnRequest
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from pykafka_broker.protocol.messages.offset_fetch_request import OffsetFetchRequest
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.broker.neighbourhood import Neighbourhood
from tests.broker.support import batch

VERIFYING, JOINING = 11, 12  # versions of Produce
RETRY_MS = 20


@pytest.fixture
def nodes(tmp_path: Path) -> Neighbourhood:
    """Nodes of which node 1 coordinates all transactions and node 2 leads t and the offsets of all groups."""
    nodes = Neighbourhood(tmp_path)
    nodes.add(TRANSACTION_STATE, 1, replicas=(1, 2))
    nodes.add(CONSUMER_OFFSETS, 2)
    nodes.add("t", 2, 2, 2)
    made = nodes.call(1, InitProducerIdRequest("x", 60_000), 4)
    assert (made.error_code, made.producer_id, made.producer_epoch) == (ErrorCode.NONE, 0, 0)
    return nodes


def producing(*partitions: int, epoch: int = 0, acks: int = -1) -> ProduceRequest:
    data = [
        PartitionProduceData(
            partition, bytes(batch(b"v", producer_id=0, producer_epoch=epoch, base_sequence=0, transactional=True))
        )
        for partition in partitions
    ]
    return ProduceRequest("x", acks, 1000, [TopicProduceData("t", partition_data=data)])


def codes(response: Any) -> list[ErrorCode]:
    return [ErrorCode(one.error_code) for one in response.responses[0].partition_responses]


def added(nodes: Neighbourhood, *partitions: int, epoch: int = 0) -> None:
    topics = [AddPartitionsToTxnTopic("t", list(partitions))]
    answer = nodes.call(1, AddPartitionsToTxnRequest([], "x", 0, epoch, topics), 3)
    assert not answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code


def questions(nodes: Neighbourhood) -> list[tuple[bool, list[int]]]:
    """Return for each AddPartitionsToTxn request sent: whether it only verifies, and its partitions of t."""
    found = []
    for _, target, client_id, request in nodes.network.log:
        if isinstance(request, AddPartitionsToTxnRequest):
            assert (target, client_id) == (1, "AddPartitionsManager-client-2")
            [one] = request.transactions
            found.append((one.verify_only, one.topics[0].partitions))
    return found


@pytest.mark.parametrize("internal", [CONSUMER_OFFSETS, TRANSACTION_STATE])
def test_no_client_adds_an_internal_topic(nodes: Neighbourhood, internal: str) -> None:
    topics = [AddPartitionsToTxnTopic("t", [0]), AddPartitionsToTxnTopic(internal, [0])]
    answer = nodes.call(1, AddPartitionsToTxnRequest([], "x", 0, 0, topics), 3)
    found = [topic.results_by_partition[0].partition_error_code for topic in answer.results_by_topic_v3_and_below]
    assert found == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    transaction = nodes[1].transactions.transaction("x")
    assert transaction is not None
    assert not transaction.partitions


def test_producing_joins_at_the_other_node(nodes: Neighbourhood) -> None:
    assert codes(nodes.call(2, producing(0, 1), JOINING)) == [ErrorCode.NONE] * 2
    assert questions(nodes) == [(False, [0]), (False, [1])]
    assert nodes[1].transactions.transaction("x").partitions == {("t", 0), ("t", 1)}  # type: ignore[union-attr]


def test_an_open_transaction_needs_no_second_question(nodes: Neighbourhood) -> None:
    nodes.call(2, producing(0), JOINING)
    again = producing(0)
    again.topic_data[0].partition_data[0].records = batch(
        b"w", producer_id=0, producer_epoch=0, base_sequence=1, transactional=True
    )
    assert codes(nodes.asked(2, again, JOINING)[0]) == [ErrorCode.NONE]


def test_what_was_added_before_is_verified(nodes: Neighbourhood) -> None:
    added(nodes, 0)
    assert codes(nodes.call(2, producing(0), VERIFYING)) == [ErrorCode.NONE]
    assert questions(nodes) == [(True, [0])]


def test_each_partition_has_its_own_verdict(nodes: Neighbourhood) -> None:
    added(nodes, 1)
    told = codes(nodes.call(2, producing(0, 1, 2), VERIFYING))
    assert told == [ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE]


def test_a_fenced_producer_is_told_so(nodes: Neighbourhood) -> None:
    nodes.call(1, InitProducerIdRequest("x", 60_000), 4)
    assert codes(nodes.call(2, producing(0), JOINING)) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert nodes.log(2, "t", 0).log_end_offset == 0


def test_others_are_served_while_one_waits(nodes: Neighbourhood) -> None:
    waiting = nodes.asked(2, producing(0), JOINING)
    plain = ProduceRequest(
        None, -1, 1000, [TopicProduceData("t", partition_data=[PartitionProduceData(0, bytes(batch(b"p")))])]
    )
    assert codes(nodes.asked(2, plain, JOINING)[0]) == [ErrorCode.NONE]
    assert not waiting
    nodes.network.run()
    assert codes(waiting[0]) == [ErrorCode.NONE]


def test_questions_gather_while_one_is_open(nodes: Neighbourhood) -> None:
    waiting = [nodes.asked(2, producing(number), JOINING) for number in range(3)]
    assert len(nodes.network.sent) == 1
    nodes.network.run()
    assert questions(nodes) == [(False, [0]), (False, [1, 2])]
    assert [codes(one[0]) for one in waiting] == [[ErrorCode.NONE]] * 3


@pytest.mark.parametrize("trouble", ["cut", "deaf"])
def test_a_coordinator_out_of_reach_is_tried_again_by_the_producer(nodes: Neighbourhood, trouble: str) -> None:
    getattr(nodes.network, trouble).add(1)
    waiting = nodes.asked(2, producing(0), JOINING)
    nodes.network.run()
    nodes.move(TRANSACTION_STATE, 0, 2)
    assert codes(waiting[0]) == [ErrorCode.NOT_ENOUGH_REPLICAS]
    nodes.settle()
    assert codes(nodes.call(2, producing(0), JOINING)) == [ErrorCode.NONE], "node 2 is the coordinator now"


def test_a_verdict_does_not_outlive_the_transaction(nodes: Neighbourhood) -> None:
    """A verdict under way while its transaction ends lets nothing in: such records would never be decided."""
    added(nodes, 0)
    nodes.network.slow.add(1)
    late = nodes.asked(2, producing(0), VERIFYING)
    nodes.network.run()
    nodes.call(1, EndTxnRequest("x", 0, 0, False), 3)
    nodes.network.slow.clear()
    nodes.network.deliver()
    assert not late, "it asks again"
    nodes.network.run()
    assert codes(late[0]) == [ErrorCode.TRANSACTION_ABORTABLE]
    assert nodes.log(2, "t", 0).log_end_offset == 1, "the marker alone"


def test_a_verdict_holds_until_a_marker_comes(nodes: Neighbourhood) -> None:
    partition = nodes[2].partition("t", 0)
    verification = PartitionVerification(("x", 0, 0, True), partition, nodes.now)
    assert verification.holds(partition)
    added(nodes, 0)
    nodes.call(1, EndTxnRequest("x", 0, 0, False), 3)
    assert not verification.holds(partition)


def test_a_producer_that_wants_no_answer_is_refused(nodes: Neighbourhood) -> None:
    with pytest.raises(FrameError, match="CONCURRENT_TRANSACTIONS"):
        nodes.asked(2, producing(0, acks=0), JOINING)


def offsets() -> TxnOffsetCommitRequest:
    topic = TxnOffsetCommitRequestTopic("t", partitions=[TxnOffsetCommitRequestPartition(0, 5)])
    return TxnOffsetCommitRequest("x", "g", 0, 0, topics=[topic])


def test_offsets_join_at_the_other_node_too(nodes: Neighbourhood) -> None:
    answer = nodes.call(2, offsets(), 5)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert nodes[1].transactions.transaction("x").partitions == {(CONSUMER_OFFSETS, 0)}  # type: ignore[union-attr]
    nodes.call(1, EndTxnRequest("x", 0, 0, True), 3)
    nodes.settle()
    found = nodes.call(2, OffsetFetchRequest("g", None), 7)
    assert [one.committed_offset for one in found.topics[0].partitions] == [5]


def test_offsets_that_were_not_added_are_refused(nodes: Neighbourhood) -> None:
    answer = nodes.call(2, offsets(), 4)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.TRANSACTION_ABORTABLE
    assert not nodes.call(1, AddOffsetsToTxnRequest("x", 0, 0, "g"), 3).error_code
    answer = nodes.call(2, offsets(), 4)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


def not_here(asker: tuple[str, int, int, bool], partition: tuple[str, int]) -> LocalVerdict:
    raise AssertionError("another node is the coordinator")


def between_transactions(nodes: Neighbourhood, coordinator: int) -> None:
    """End a transaction whose marker for t-0 at node 2 has left and is not answered."""
    nodes.network.slow.add(2)
    assert nodes.call(coordinator, EndTxnRequest("x", 0, 0, True), 5).error_code == ErrorCode.NONE


def test_who_begins_anew_before_the_markers_are_answered_waits_a_moment(nodes: Neighbourhood) -> None:
    nodes.call(2, producing(0), JOINING)
    between_transactions(nodes, 1)
    waiting = nodes.asked(2, producing(1, epoch=1), JOINING)
    nodes.network.run()
    assert not waiting
    nodes.network.deliver()
    nodes.wait(RETRY_MS)
    assert codes(waiting[0]) == [ErrorCode.NONE]
    assert questions(nodes) == [(False, [0]), (False, [1]), (False, [1])]


def test_where_the_coordinator_leads_the_partition_itself_too(nodes: Neighbourhood) -> None:
    nodes.add("here", 1)
    nodes.call(2, producing(0), JOINING)
    between_transactions(nodes, 1)
    request = producing(0, epoch=1)
    request.topic_data[0].name = "here"
    waiting = nodes.asked(1, request, JOINING)
    assert not waiting
    nodes.network.deliver()
    nodes.wait(RETRY_MS)
    assert codes(waiting[0]) == [ErrorCode.NONE]


def test_no_longer_than_a_moment(nodes: Neighbourhood) -> None:
    nodes.call(2, producing(0), JOINING)
    between_transactions(nodes, 1)
    waiting = nodes.asked(2, producing(1, epoch=1), JOINING)
    for _ in range(5):
        assert not waiting
        nodes.wait(RETRY_MS)
    assert codes(waiting[0]) == [ErrorCode.CONCURRENT_TRANSACTIONS]


def test_two_epochs_of_one_id_are_not_asked_about_together(nodes: Neighbourhood) -> None:
    requests = AddPartitionsToTxnManager(nodes[2].whole.node, lambda name: 1, not_here)
    partition = nodes[2].partition("t", 0)
    asked = [requests.ask(("x", 0, epoch, False), partition) for epoch in (0, 0, 1)]
    nodes.network.run()
    assert [one.result() for one in asked] == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.PRODUCER_FENCED]
    assert len(questions(nodes)) == 3


def test_a_broker_that_nobody_knows_has_no_verdict(nodes: Neighbourhood) -> None:
    requests = AddPartitionsToTxnManager(nodes[2].whole.node, lambda name: 9, not_here)
    verification = requests.ask(("x", 0, 0, True), nodes[2].partition("t", 0))
    assert verification.result() is ErrorCode.NETWORK_EXCEPTION
