"""Acknowledgements, locks and sessions of share groups whose states another node keeps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.broker.waiting.future import Slices
from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from pykafka_broker.coordinators.share.state import ShareKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.share_acknowledge_request import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from pykafka_broker.protocol.messages.share_fetch_request import AcknowledgementBatch as FetchedBatch
from pykafka_broker.protocol.messages.share_fetch_request import FetchPartition, FetchTopic, ShareFetchRequest
from tests.broker.coordinators.share_nodes import (
    ACCEPT,
    GROUP,
    LOCK_MS,
    MEMBER,
    RELEASE,
    acknowledging,
    altered,
    fetching,
    got,
    kept,
    key,
    share_nodes,
    told,
    topic_id,
)
from tests.broker.neighbourhood import Neighbourhood, ask
from tests.broker.support import batch


@pytest.fixture
def nodes(tmp_path: Path) -> Neighbourhood:
    return share_nodes(tmp_path)


def test_what_is_acknowledged_is_kept_at_the_other_node(nodes: Neighbourhood) -> None:
    altered(nodes)
    nodes.asked(1, fetching(nodes, 0), 1)
    nodes.settle()
    answers = nodes.asked(1, acknowledging(nodes, 1, 0, 2, ACCEPT), 1)
    assert not answers, "it is not kept yet"
    nodes.settle()
    assert told(answers) == ErrorCode.NONE
    assert kept(nodes) == (0, [(0, 2, 2, 1)])


def test_one_change_waits_for_the_one_before_it(nodes: Neighbourhood) -> None:
    altered(nodes)
    nodes.asked(1, fetching(nodes, 0), 1)
    nodes.settle()
    first = nodes.asked(1, acknowledging(nodes, 1, 0, 1, ACCEPT), 1)
    again = nodes.asked(1, acknowledging(nodes, 2, 0, 1, ACCEPT), 1)
    second = nodes.asked(1, acknowledging(nodes, 3, 2, 2, RELEASE), 1)
    assert len(nodes.network.sent) == 1
    nodes.settle()
    assert [told(each) for each in (first, again, second)] == [
        ErrorCode.NONE,
        ErrorCode.NONE,  # the second request finds the work done
        ErrorCode.NONE,
    ]
    assert got(nodes.call(1, fetching(nodes, 4), 1)) == [(2, 2, 2)]


def test_a_lock_does_not_end_while_its_acknowledgement_waits(nodes: Neighbourhood) -> None:
    """Kafka accepts an acknowledgement when it comes; here it waits for the change before, longer than its lock."""
    later = slow_turns(nodes)
    altered(nodes)
    nodes.asked(1, fetching(nodes, 0), 1)
    nodes.settle()
    nodes.network.slow.add(2)
    nodes.asked(1, acknowledging(nodes, 1, 0, 1, ACCEPT), 1)
    waiting = nodes.asked(1, acknowledging(nodes, 2, 2, 2, ACCEPT), 1)
    nodes.wait(LOCK_MS)
    answer_all(nodes, later)
    assert told(waiting) == ErrorCode.NONE
    assert kept(nodes) == (3, [(3, 4, 0, 1)])


@pytest.mark.parametrize("with_a_fetch", [False, True])
def test_a_client_that_goes_while_its_acknowledgement_waits_has_acknowledged(
    nodes: Neighbourhood, with_a_fetch: bool
) -> None:
    """Kafka decides when the request comes; the rest of the member's records is free afterwards, for others."""
    later = slow_turns(nodes)
    altered(nodes)
    connection = ConnectionContext(1_000, "PLAINTEXT", ("127.0.0.1", 1), ("127.0.0.1", 50000))
    ask(nodes[1], connection, fetching(nodes, 0), 1, lambda _: None)
    nodes.settle()
    nodes.network.slow.add(2)
    ask(nodes[1], connection, acknowledging(nodes, 1, 0, 1, ACCEPT), 1, lambda _: None)
    request: ShareAcknowledgeRequest | ShareFetchRequest = acknowledging(nodes, 2, 2, 2, ACCEPT)
    if with_a_fetch:
        request = fetching(nodes, 2)
        request.topics = [FetchTopic(topic_id(nodes), [FetchPartition(0, 0, [FetchedBatch(2, 2, [ACCEPT])])])]
    answers: list[Any] = []
    waiting = ask(nodes[1], connection, request, 1, answers.append)
    assert waiting is not None
    nodes.settle()
    waiting.cancel()
    nodes[1].connection_closed(connection)
    nodes.settle()
    answer_all(nodes, later)
    assert not answers
    assert kept(nodes) == (3, [(3, 4, 0, 1)])
    assert shares_of(nodes) == []
    answers = nodes.asked(1, fetching(nodes, 0, member="two"), 1)
    answer_all(nodes, later)
    assert [got(answer) for answer in answers] == [[(3, 4, 2)]]


@pytest.mark.parametrize("end", ["lock", "session"])
def test_a_partition_behind_one_that_waits_keeps_its_records(nodes: Neighbourhood, end: str) -> None:
    later = slow_turns(nodes)
    nodes.add("u", 1)
    data = [PartitionProduceData(0, bytes(batch(b"a", b"b")))]
    nodes.call(1, ProduceRequest(None, -1, 1000, [TopicProduceData("u", partition_data=data)]), 11)
    other = ShareKey(GROUP, nodes[1].image.topics["u"].id, 0)
    altered(nodes)
    parts = [AlterShareGroupOffsetsRequestPartition(0, 0)]
    nodes.call(3, AlterShareGroupOffsetsRequest(GROUP, [AlterShareGroupOffsetsRequestTopic("u", parts)]), 0)
    both = fetching(nodes, 0)
    both.topics = [FetchTopic(each.topic_id, [FetchPartition(0)]) for each in (key(nodes), other)]
    nodes.asked(1, both, 1)
    nodes.settle()
    answer_all(nodes, later)
    both.share_session_epoch, both.topics = 1, []
    nodes.asked(1, both, 1)  # whichever topic was not known yet
    answer_all(nodes, later)
    nodes.network.slow.add(2)
    nodes.asked(1, acknowledging(nodes, 2, 0, 1, ACCEPT), 1)
    request = acknowledging(nodes, 3, 2, 2, ACCEPT)
    behind = AcknowledgePartition(0, [AcknowledgementBatch(0, 0, [ACCEPT])])
    request.topics.append(AcknowledgeTopic(other.topic_id, [behind]))
    waiting = nodes.asked(1, request, 1)
    if end == "lock":
        nodes.wait(LOCK_MS)
    else:
        nodes.asked(1, fetching(nodes, -1, wait_ms=0), 1)
    answer_all(nodes, later)
    [answer] = waiting
    assert [one.error_code for topic in answer.responses for one in topic.partitions] == [0, 0]
    state = nodes[2].shares.known(other).summary(other)
    assert state is not None
    assert (state.start_offset, *state.runs[-1][:3]) == (1, 1, 1, 0)


def test_locks_end_after_a_refused_acknowledgement_that_waited(nodes: Neighbourhood) -> None:
    later = slow_turns(nodes)
    altered(nodes)
    nodes.asked(1, fetching(nodes, 0), 1)
    nodes.settle()
    nodes.network.slow.add(2)
    nodes.asked(1, acknowledging(nodes, 1, 0, 1, ACCEPT), 1)
    waiting = nodes.asked(1, acknowledging(nodes, 2, 2, 9, ACCEPT), 1)
    nodes.wait(LOCK_MS)
    answer_all(nodes, later)
    assert told(waiting) == ErrorCode.INVALID_REQUEST
    answer_all(nodes, later)
    assert kept(nodes) == (2, [(2, 4, 0, 1)])


def slow_turns(nodes: Neighbourhood) -> list[Callable[[], None]]:
    """Let the slices of node 1 wait for `answer_all`; return what waits."""
    later: list[Callable[[], None]] = []
    services = nodes[1].whole.services
    services.slices = services.node.slices = Slices(later.append)
    return later


def answer_all(nodes: Neighbourhood, later: list[Callable[[], None]]) -> None:
    """Let slow nodes answer, and node 1 take its turns."""
    nodes.network.slow.clear()
    nodes.network.deliver()
    nodes.settle()
    for _ in range(10):
        due, later[:] = list(later), []
        for step in due:
            step()
        nodes.settle()


def shares_of(nodes: Neighbourhood) -> list[ShareKey]:
    return nodes[1].shares.partitions.of_group(GROUP)


def test_locks_that_end_are_told_to_the_other_node(nodes: Neighbourhood) -> None:
    altered(nodes)
    nodes.asked(1, fetching(nodes, 0), 1)
    nodes.settle()
    nodes.wait(LOCK_MS)
    assert kept(nodes) == (0, [(0, 4, 0, 1)])
    answers = nodes.asked(1, fetching(nodes, 0, member="two"), 1)
    nodes.settle()
    assert got(answers[0]) == [(0, 4, 2)]


def test_locks_that_end_while_nobody_can_be_told_end_later(nodes: Neighbourhood) -> None:
    altered(nodes)
    nodes.asked(1, fetching(nodes, 0), 1)
    nodes.settle()
    nodes.network.cut.add(2)
    nodes.wait(LOCK_MS)
    for _ in range(5):
        nodes.wait(1_000)
    assert kept(nodes) == (0, [])
    nodes.network.cut.clear()
    for _ in range(5):
        nodes.wait(1_000)
    assert kept(nodes) == (0, [(0, 4, 0, 1)])


@pytest.mark.parametrize("is_lock_over", [True, False])
def test_what_is_kept_here_is_acknowledged_though_the_rest_of_the_request_waits(
    tmp_path: Path, is_lock_over: bool
) -> None:
    nodes = Neighbourhood(tmp_path, brokers=3)
    nodes.add(CONSUMER_OFFSETS, 3)
    nodes.add("t", 1)
    nodes.add(SHARE_GROUP_STATE, 1, 2)
    nodes.add("u", *[1] * 8)
    topic = nodes[1].image.topics["u"]
    keepers = {nodes[1].shares.other_coordinator(ShareKey(GROUP, topic.id, index)): index for index in range(8)}
    here, elsewhere = keepers[None], keepers[2]
    data = [PartitionProduceData(index, bytes(batch(b"a"))) for index in (here, elsewhere)]
    nodes.call(1, ProduceRequest(None, -1, 1000, [TopicProduceData("u", partition_data=data)]), 11)
    parts = [AlterShareGroupOffsetsRequestPartition(index, 0) for index in (here, elsewhere)]
    nodes.call(3, AlterShareGroupOffsetsRequest(GROUP, [AlterShareGroupOffsetsRequestTopic("u", parts)]), 0)

    def fetched(epoch: int, member: str = MEMBER) -> list[tuple[int, int, int]]:
        request = fetching(nodes, epoch, member=member)
        request.topics = [FetchTopic(topic.id, [FetchPartition(index) for index in (here, elsewhere)])]
        answers = nodes.asked(1, request, 1)
        nodes.settle()
        nodes.wait(500)
        return got(answers[0])

    assert fetched(0) + fetched(1) == [(0, 0, 1)] * 2
    nodes.network.deaf.add(2)
    accepted = [AcknowledgePartition(index, [AcknowledgementBatch(0, 0, [ACCEPT])]) for index in (here, elsewhere)]
    acknowledgement = ShareAcknowledgeRequest(GROUP, MEMBER, 2, topics=[AcknowledgeTopic(topic.id, accepted)])
    answers = nodes.asked(1, acknowledgement, 1)
    nodes.network.run()
    if is_lock_over:
        nodes.wait(nodes[1].shares.partitions.limits(GROUP).lock_ms)
    else:
        nodes.asked(1, fetching(nodes, -1, wait_ms=0), 1)
    assert not answers, "the other node is silent"
    assert fetched(0, "two") == []


def test_what_a_member_had_is_free_when_its_session_ends(nodes: Neighbourhood) -> None:
    altered(nodes)
    nodes.asked(1, fetching(nodes, 0), 1)
    nodes.settle()
    nodes.asked(1, acknowledging(nodes, 1, 0, 0, ACCEPT), 1)  # under way while the session ends
    ending = nodes.asked(1, ShareAcknowledgeRequest(GROUP, MEMBER, -1), 1)
    nodes.settle()
    assert not ending[0].error_code
    answers = nodes.asked(1, fetching(nodes, 0, member="two"), 1)
    nodes.settle()
    assert got(answers[0]) == [(1, 4, 2)]
