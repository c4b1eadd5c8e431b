"""Groups, transactions and shares go with the leader of their partition: to another node, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from pykafka_broker.protocol.messages.end_txn_request import EndTxnRequest
from pykafka_broker.protocol.messages.heartbeat_request import HeartbeatRequest
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from pykafka_broker.protocol.messages.initialize_share_group_state_request import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
)
from pykafka_broker.protocol.messages.initialize_share_group_state_request import PartitionData as NewState
from pykafka_broker.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from pykafka_broker.protocol.messages.list_transactions_request import ListTransactionsRequest
from pykafka_broker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykafka_broker.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from pykafka_broker.protocol.messages.read_share_group_state_request import (
    PartitionData as WantedState,
)
from pykafka_broker.protocol.messages.read_share_group_state_request import (
    ReadShareGroupStateRequest,
    ReadStateData,
)
from pykafka_broker.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from pykafka_broker.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pykafka_broker.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.broker.neighbourhood import Neighbourhood

BOTH = (1, 2)
SESSION_MS, DELAY_MS = 10_000, 3_000
NONE = -1  # no offset


@pytest.fixture
def nodes(tmp_path: Path) -> Neighbourhood:
    """Nodes with all coordinators on node 1."""
    nodes = Neighbourhood(tmp_path)
    nodes.add(CONSUMER_OFFSETS, 1, replicas=BOTH)
    nodes.add(TRANSACTION_STATE, 1, replicas=BOTH)
    nodes.add(SHARE_GROUP_STATE, 1, replicas=BOTH)
    nodes.add("t", 1)
    return nodes


def move(nodes: Neighbourhood, topic: str, to: int) -> None:
    """Move a coordinator's partition to another leader and let it load the log."""
    nodes.move(topic, 0, to)
    nodes.settle()


def joining(member_id: str = "") -> JoinGroupRequest:
    return JoinGroupRequest("g", SESSION_MS, 60_000, member_id, None, "consumer", [JoinGroupRequestProtocol("p", b"")])


def member(nodes: Neighbourhood) -> str:
    """Make a stable group of one member on node 1; return the member's id."""
    [joined] = joined_later(nodes, wait_ms=DELAY_MS)
    assignment = [SyncGroupRequestAssignment(joined.member_id, b"mine")]
    synced = nodes.call(1, SyncGroupRequest("g", 1, joined.member_id, None, "consumer", "p", assignment), 5)
    assert (synced.error_code, synced.assignment) == (ErrorCode.NONE, b"mine")
    return str(joined.member_id)


def joined_later(nodes: Neighbourhood, wait_ms: int = 0) -> list[Any]:
    named = nodes.call(1, joining(), 5)
    assert named.error_code == ErrorCode.MEMBER_ID_REQUIRED
    answers = nodes.asked(1, joining(named.member_id), 5)
    assert not answers
    if wait_ms:
        nodes.wait(wait_ms)
    return answers


def commit(nodes: Neighbourhood, node: int, offset: int) -> int:
    topic = OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, offset)])
    answer = nodes.call(node, OffsetCommitRequest("simple", -1, "", topics=[topic]), 8)
    return int(answer.topics[0].partitions[0].error_code)


def committed(nodes: Neighbourhood, node: int, group: str = "simple") -> Any:
    """Return the committed offset, or the error."""
    wanted = [OffsetFetchRequestTopic("t", [0])]
    answer = nodes.call(node, OffsetFetchRequest(group, wanted, require_stable=True), 7)
    found = answer if answer.error_code else answer.topics[0].partitions[0]
    return ErrorCode(found.error_code) if found.error_code else found.committed_offset


def ends(nodes: Neighbourhood, topic: str) -> dict[int, int]:
    return {node: nodes.log(node, topic, 0).log_end_offset for node in BOTH}


def test_offsets_go_along_and_come_back(nodes: Neighbourhood) -> None:
    assert commit(nodes, 1, 5) == ErrorCode.NONE
    move(nodes, CONSUMER_OFFSETS, 2)
    assert (committed(nodes, 1), committed(nodes, 2)) == (ErrorCode.NOT_COORDINATOR, 5)
    assert (commit(nodes, 1, 6), commit(nodes, 2, 7)) == (ErrorCode.NOT_COORDINATOR, ErrorCode.NONE)
    move(nodes, CONSUMER_OFFSETS, 1)
    assert (committed(nodes, 1), committed(nodes, 2)) == (7, ErrorCode.NOT_COORDINATOR)


def test_nobody_is_answered_before_the_log_is_read(nodes: Neighbourhood) -> None:
    commit(nodes, 1, 5)
    assert commit(nodes, 2, 5) == ErrorCode.NOT_COORDINATOR
    nodes.move(CONSUMER_OFFSETS, 0, 2)
    assert committed(nodes, 2) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    nodes.settle()
    assert committed(nodes, 2) == 5


def test_who_waits_to_join_is_sent_away(nodes: Neighbourhood) -> None:
    waiting = joined_later(nodes)
    nodes.move(CONSUMER_OFFSETS, 0, 2)
    assert [one.error_code for one in waiting] == [ErrorCode.NOT_COORDINATOR]


def test_who_waits_for_the_leader_of_the_group_is_sent_away(nodes: Neighbourhood) -> None:
    first, second = joined_later(nodes), joined_later(nodes)
    nodes.wait(DELAY_MS)
    nodes.wait(DELAY_MS)  # the second one has made it longer
    follower = next(one.member_id for one in (*first, *second) if one.member_id != one.leader)
    waiting = nodes.asked(1, SyncGroupRequest("g", 1, follower, None, "consumer", "p"), 5)
    assert not waiting
    nodes.move(CONSUMER_OFFSETS, 0, 2)
    assert [one.error_code for one in waiting] == [ErrorCode.NOT_COORDINATOR]


def test_a_stable_group_goes_on_at_the_next_coordinator(nodes: Neighbourhood) -> None:
    name = member(nodes)
    move(nodes, CONSUMER_OFFSETS, 2)
    assert nodes.call(1, HeartbeatRequest("g", 1, name), 4).error_code == ErrorCode.NOT_COORDINATOR
    nodes.wait(SESSION_MS - 1)
    assert nodes.call(2, HeartbeatRequest("g", 1, name), 4).error_code == ErrorCode.NONE, "its session began anew"
    move(nodes, CONSUMER_OFFSETS, 1)
    assert nodes.call(1, HeartbeatRequest("g", 1, name), 4).error_code == ErrorCode.NONE


def test_a_coordinator_that_was_has_no_timers(nodes: Neighbourhood) -> None:
    name = member(nodes)
    move(nodes, CONSUMER_OFFSETS, 2)
    there = ends(nodes, CONSUMER_OFFSETS)
    for _ in range(5):
        nodes.wait(SESSION_MS // 2)
        assert nodes.call(2, HeartbeatRequest("g", 1, name), 4).error_code == ErrorCode.NONE
    assert ends(nodes, CONSUMER_OFFSETS) == there
    assert not nodes[1].groups.coordinator.groups


def test_a_member_of_the_new_protocol_keeps_its_epoch(nodes: Neighbourhood) -> None:
    def beat(node: int, epoch: int) -> Any:
        request = ConsumerGroupHeartbeatRequest("c", "m", epoch, rebalance_timeout_ms=60_000)
        if epoch == 0:
            request.subscribed_topic_names, request.topic_partitions = ["t"], []
        return nodes.call(node, request, 1)

    joined = beat(1, 0)
    assert joined.error_code == ErrorCode.NONE
    move(nodes, CONSUMER_OFFSETS, 2)
    assert beat(1, joined.member_epoch).error_code == ErrorCode.NOT_COORDINATOR
    again = beat(2, joined.member_epoch)
    assert (again.error_code, again.member_epoch) == (ErrorCode.NONE, joined.member_epoch)


def test_what_is_not_committed_is_no_answer(nodes: Neighbourhood) -> None:
    """The records wait for another replica when the leader changes: they may be lost."""
    nodes.change(CONSUMER_OFFSETS, isr=[1, 2])
    topic = OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 5)])
    waiting = nodes.asked(1, OffsetCommitRequest("simple", -1, "", topics=[topic]), 8)
    asking = nodes.asked(1, OffsetFetchRequest("simple", None), 7)
    assert (waiting, asking) == ([], [])
    nodes.change(CONSUMER_OFFSETS, leader=2, isr=[2])
    assert waiting[0].topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    assert asking[0].error_code == ErrorCode.NOT_COORDINATOR
    nodes.settle()
    assert committed(nodes, 2) == NONE


def begun(nodes: Neighbourhood) -> None:
    made = nodes.call(1, InitProducerIdRequest("x", SESSION_MS), 4)
    assert (made.error_code, made.producer_id, made.producer_epoch) == (ErrorCode.NONE, 0, 0)


def offsets_of_transaction(nodes: Neighbourhood) -> None:
    begun(nodes)
    topic = TxnOffsetCommitRequestTopic("t", partitions=[TxnOffsetCommitRequestPartition(0, 9)])
    answer = nodes.call(1, TxnOffsetCommitRequest("x", "simple", 0, 0, topics=[topic]), 5)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize(("commits", "told"), [(True, 9), (False, NONE)])
def test_offsets_of_a_transaction_are_decided_wherever_they_wait(
    nodes: Neighbourhood, commits: bool, told: int
) -> None:
    offsets_of_transaction(nodes)
    move(nodes, CONSUMER_OFFSETS, 2)
    assert committed(nodes, 2) == ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert nodes.call(1, EndTxnRequest("x", 0, 0, commits), 3).error_code == ErrorCode.NONE
    nodes.settle()
    assert committed(nodes, 2) == told
    move(nodes, CONSUMER_OFFSETS, 1)
    assert committed(nodes, 1) == told, "nothing is left of what waited here"


def test_an_outcome_that_comes_while_the_log_is_read_is_not_forgotten(nodes: Neighbourhood) -> None:
    offsets_of_transaction(nodes)
    assert committed(nodes, 2) == ErrorCode.NOT_COORDINATOR
    nodes.move(CONSUMER_OFFSETS, 0, 2)
    nodes[2].groups.shards.read_on(1)
    marker = WritableTxnMarker(0, 0, True, [WritableTxnMarkerTopic(CONSUMER_OFFSETS, [0])])
    nodes.asked(2, WriteTxnMarkersRequest([marker]), 1)
    assert committed(nodes, 2) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    nodes.settle()
    assert committed(nodes, 2) == 9


def ongoing(nodes: Neighbourhood) -> None:
    begun(nodes)
    nodes.call(1, AddPartitionsToTxnRequest([], "x", 0, 0, [AddPartitionsToTxnTopic("t", [0])]), 3)


def states(nodes: Neighbourhood, node: int) -> list[str]:
    return [one.transaction_state for one in nodes.call(node, ListTransactionsRequest(), 1).transaction_states]


def test_an_open_transaction_goes_along(nodes: Neighbourhood) -> None:
    ongoing(nodes)
    move(nodes, TRANSACTION_STATE, 2)
    assert (states(nodes, 1), states(nodes, 2)) == ([], ["Ongoing"])
    assert nodes.call(1, EndTxnRequest("x", 0, 0, True), 3).error_code == ErrorCode.NOT_COORDINATOR
    assert nodes.call(2, EndTxnRequest("x", 0, 0, True), 3).error_code == ErrorCode.NONE
    nodes.settle()
    move(nodes, TRANSACTION_STATE, 1)
    assert (states(nodes, 1), states(nodes, 2)) == (["CompleteCommit"], [])


def test_the_next_coordinator_gives_up_what_has_been_open_too_long(nodes: Neighbourhood) -> None:
    ongoing(nodes)
    move(nodes, TRANSACTION_STATE, 2)
    nodes.wait(2 * SESSION_MS)
    assert states(nodes, 2) == ["CompleteAbort"]
    assert not nodes[1].transactions._coordinators


def test_the_state_of_shares_goes_along(nodes: Neighbourhood) -> None:
    topic_id = nodes[1].image.topics["t"].id
    new = InitializeShareGroupStateRequest("s", [InitializeStateData(topic_id, [NewState(0, 1, 4)])])
    assert not nodes.call(1, new, 0).results[0].partitions[0].error_code
    move(nodes, SHARE_GROUP_STATE, 2)
    wanted = ReadShareGroupStateRequest("s", [ReadStateData(topic_id, [WantedState(0, 0)])])

    def read(node: int) -> Any:
        return nodes.call(node, wanted, 0).results[0].partitions[0]

    assert read(1).error_code == ErrorCode.NOT_COORDINATOR
    assert (read(2).error_code, read(2).start_offset) == (ErrorCode.NONE, 4)
    move(nodes, SHARE_GROUP_STATE, 1)
    assert (read(1).error_code, read(1).start_offset) == (ErrorCode.NONE, 4)


@pytest.mark.parametrize("topic", [CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE])
def test_a_deleted_topic_leaves_no_coordinator(nodes: Neighbourhood, topic: str) -> None:
    commit(nodes, 1, 5)
    ongoing(nodes)
    assert nodes[1].shares.shards.count == 1
    nodes.remove(topic)
    shards = {host.shards.topic: host.shards for host in (nodes[1].groups, nodes[1].transactions, nodes[1].shares)}
    assert {name for name, each in shards.items() if each.refusal("x") == ErrorCode.NOT_COORDINATOR} == {topic}
