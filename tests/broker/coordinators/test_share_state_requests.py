"""Share groups whose states are kept by another node than the one that leads the partition or coordinates the group."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from pykafka_broker.broker.coordinators.share_host import INITIALIZE, READ, WRITE, StateRequest, StateRequests, _Attempt
from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.broker.waiting.future import Slices
from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from pykafka_broker.coordinators.record import decode
from pykafka_broker.coordinators.share.state import ShareKey
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from pykafka_broker.protocol.messages.delete_groups_request import DeleteGroupsRequest
from pykafka_broker.protocol.messages.delete_share_group_offsets_request import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from pykafka_broker.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from pykafka_broker.protocol.messages.list_offsets_request import ListOffsetsRequest
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.share_acknowledge_request import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from pykafka_broker.protocol.messages.share_fetch_request import AcknowledgementBatch as FetchedBatch
from pykafka_broker.protocol.messages.share_fetch_request import FetchPartition, FetchTopic, ShareFetchRequest
from pykafka_broker.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from pykafka_broker.protocol.messages.write_share_group_state_request import StateBatch
from pykafka_broker.protocol.stored.share_group_state_partition_metadata_value import (
    ShareGroupStatePartitionMetadataValue,
)
from pykafka_broker.protocol.stored_keys import GROUP_RECORDS
from pykafka_broker.records.header import iter_batches
from pykafka_broker.records.record import iter_records
from tests.broker.neighbourhood import Neighbourhood, ask
from tests.broker.support import batch

GROUP, MEMBER = "g", "one"
ACCEPT, RELEASE = 1, 2
LOCK_MS = 15_000


@pytest.fixture
def nodes(tmp_path: Path) -> Neighbourhood:
    """Nodes: node 1 leads t with five records, node 2 keeps the share states, node 3 coordinates the group."""
    nodes = Neighbourhood(
        tmp_path, brokers=3, group_share_record_lock_duration_ms=str(LOCK_MS), group_share_heartbeat_interval_ms="5000"
    )
    nodes.add(CONSUMER_OFFSETS, 3, replicas=(3, 1))
    nodes.add(SHARE_GROUP_STATE, 2, replicas=(2, 3))
    nodes.add("t", 1)
    produce_five(nodes)
    return nodes


def produce_five(nodes: Neighbourhood) -> None:
    data = [PartitionProduceData(0, bytes(batch(*(b"%d" % number for number in range(5)))))]
    produced = nodes.call(1, ProduceRequest(None, -1, 1000, [TopicProduceData("t", partition_data=data)]), 11)
    assert not produced.responses[0].partition_responses[0].error_code


def topic_id(nodes: Neighbourhood) -> bytes:
    return nodes[1].image.topics["t"].id


def key(nodes: Neighbourhood) -> ShareKey:
    return ShareKey(GROUP, topic_id(nodes), 0)


def altered(nodes: Neighbourhood, offset: int = 0, partition: int = 0) -> int:
    """Set the offset where the group begins; return the partition's error code."""
    topic = AlterShareGroupOffsetsRequestTopic("t", [AlterShareGroupOffsetsRequestPartition(partition, offset)])
    answer = nodes.call(3, AlterShareGroupOffsetsRequest(GROUP, [topic]), 0)
    assert not answer.error_code
    return int(answer.responses[0].partitions[0].error_code)


def fetching(nodes: Neighbourhood, epoch: int, *, wait_ms: int = 500, member: str = MEMBER) -> ShareFetchRequest:
    topics = [FetchTopic(topic_id(nodes), [FetchPartition(0)])] if epoch == 0 else []
    return ShareFetchRequest(
        GROUP, member, epoch, wait_ms, 1, max_bytes=1 << 20, max_records=100, batch_size=100, topics=topics
    )


def got(answer: Any) -> list[tuple[int, int, int]]:
    """Return first offset, last offset and delivery count of each run of records that was handed out."""
    assert not answer.error_code
    return [
        (run.first_offset, run.last_offset, run.delivery_count)
        for topic in answer.responses
        for one in topic.partitions
        for run in one.acquired_records
        if not one.error_code
    ]


def acknowledging(nodes: Neighbourhood, epoch: int, first: int, last: int, kind: int) -> ShareAcknowledgeRequest:
    partition = AcknowledgePartition(0, [AcknowledgementBatch(first, last, [kind])])
    return ShareAcknowledgeRequest(GROUP, MEMBER, epoch, topics=[AcknowledgeTopic(topic_id(nodes), [partition])])


def told(answers: list[Any]) -> int:
    [answer] = answers
    assert not answer.error_code
    return int(answer.responses[0].partitions[0].error_code)


def kept(nodes: Neighbourhood, node: int = 2) -> tuple[int, list[tuple[int, int, int, int]]]:
    """Return the share coordinator's state: the start offset, and the runs of records behind it."""
    state = nodes[node].shares.known(key(nodes)).summary(key(nodes))
    assert state is not None
    return state.start_offset, [tuple(run) for run in state.runs]  # type: ignore[misc]


def asked(nodes: Neighbourhood) -> list[tuple[int, int, str]]:
    found = [(source, target, type(request).__name__) for source, target, name, request in nodes.network.log]
    assert all(name == f"Persister-client-{source}" for source, _, name, _ in nodes.network.log)
    return found


@pytest.fixture
def before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Neighbourhood:
    """Nodes without a topic of share states, whose controller takes its time; node 3 coordinates the group."""
    nodes = Neighbourhood(tmp_path, brokers=3)
    nodes.add(CONSUMER_OFFSETS, 3)
    nodes.add("t", 1)
    monkeypatch.setattr(nodes[3].metadata, "create_topics", lambda *_: [])
    return nodes


def altering(offset: int) -> AlterShareGroupOffsetsRequest:
    topic = AlterShareGroupOffsetsRequestTopic("t", [AlterShareGroupOffsetsRequestPartition(0, offset)])
    return AlterShareGroupOffsetsRequest(GROUP, [topic])


@pytest.mark.parametrize("keeper", [2, 3])
def test_the_topic_of_states_is_waited_for(before: Neighbourhood, keeper: int) -> None:
    answers = before.asked(3, altering(3), 0)
    before.wait(1_000)
    assert not answers
    before.add(SHARE_GROUP_STATE, keeper, replicas=(2, 3))
    for _ in range(5):
        before.wait(100)
    assert told(answers) == ErrorCode.NONE
    assert kept(before, keeper)[0] == 3


def test_a_topic_of_states_that_is_never_made_is_told(before: Neighbourhood) -> None:
    answers = before.asked(3, altering(3), 0)
    before.wait(14_900)
    assert not answers
    before.wait(200)
    [answer] = answers
    codes = {answer.error_code, *(one.error_code for topic in answer.responses for one in topic.partitions)}
    assert ErrorCode.COORDINATOR_NOT_AVAILABLE in codes


def test_a_group_reads_where_its_state_says(nodes: Neighbourhood) -> None:
    assert altered(nodes, 2) == ErrorCode.NONE
    answers = nodes.asked(1, fetching(nodes, 0), 1)
    assert not answers, "it waits for the state"
    nodes.settle()
    assert got(answers[0]) == [(2, 4, 1)]
    assert asked(nodes) == [(3, 2, "InitializeShareGroupStateRequest"), (1, 2, "ReadShareGroupStateRequest")]


def test_a_node_that_keeps_the_state_itself_reads_it_once_others_have_heard_so(before: Neighbourhood) -> None:
    """A node that has been away takes itself for the keeper of a state that another node keeps since."""
    before.add(SHARE_GROUP_STATE, 1, replicas=(1, 3))
    produce_five(before)
    assert altered(before) == ErrorCode.NONE
    before.change(SHARE_GROUP_STATE, 0, isr=[1, 3])
    answers = before.asked(1, fetching(before, 0, wait_ms=5_000), 1)
    before.settle()
    assert not answers
    before.change(SHARE_GROUP_STATE, 0, isr=[1])
    before.settle()
    assert [got(answer) for answer in answers] == [[(0, 4, 1)]]


def test_a_change_that_has_not_left_when_the_keeper_moves_is_not_made_later(nodes: Neighbourhood) -> None:
    """A late change would undo what the next keeper was told, once the first one keeps the state again."""
    altered(nodes)
    nodes.asked(1, fetching(nodes, 0), 1)
    nodes.settle()
    nodes.asked(1, acknowledging(nodes, 1, 0, 2, ACCEPT), 1)
    assert [sent.line.target for sent in nodes.network.sent if sent.line.source == 1] == [2]
    nodes.move(SHARE_GROUP_STATE, 0, 3)
    assert not [sent for sent in nodes.network.sent if type(sent.request).__name__.startswith("WriteShare")]


def test_what_is_acknowledged_is_kept_at_the_other_node(nodes: Neighbourhood) -> None:
    altered(nodes)
    nodes.asked(1, fetching(nodes, 0), 1)
    nodes.settle()
    answers = nodes.asked(1, acknowledging(nodes, 1, 0, 2, ACCEPT), 1)
    assert not answers, "it is not kept yet"
    nodes.settle()
    assert told(answers) == ErrorCode.NONE
    assert kept(nodes) == (0, [(0, 2, 2, 1)])


def test_who_reads_after_all_have_left_begins_where_the_group_was_put(nodes: Neighbourhood) -> None:
    """The node that reads is told nothing of it: it has to forget the group, but not before its changes are kept."""
    altered(nodes)
    nodes.asked(1, fetching(nodes, 0), 1)
    nodes.settle()
    nodes.asked(1, acknowledging(nodes, 1, 0, 3, ACCEPT), 1)
    assert nodes.network.sent, "the change is on its way when the session ends"
    nodes.asked(1, fetching(nodes, -1, wait_ms=0), 1)
    nodes.settle()
    assert kept(nodes) == (4, [(4, 4, 0, 1)])
    assert altered(nodes, 1) == ErrorCode.NONE
    answers = nodes.asked(1, fetching(nodes, 0, member="two"), 1)
    nodes.settle()
    assert got(answers[0]) == [(1, 4, 1)]


def test_a_new_member_begins_where_the_group_was_put_though_an_old_session_is_open(nodes: Neighbourhood) -> None:
    """A member whose connection hangs may have a session for long after the group has ended it."""
    altered(nodes)
    nodes.asked(1, fetching(nodes, 0), 1)
    nodes.settle()
    assert told([nodes.call(1, acknowledging(nodes, 1, 0, 4, ACCEPT), 1)]) == ErrorCode.NONE
    altered(nodes, 2)
    answers = nodes.asked(1, fetching(nodes, 0, member="two"), 1)
    nodes.settle()
    assert got(answers[0]) == [(2, 4, 1)]


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
    before: Neighbourhood, is_lock_over: bool
) -> None:
    before.add(SHARE_GROUP_STATE, 1, 2)
    before.add("u", *[1] * 8)
    topic = before[1].image.topics["u"]
    keepers = {before[1].shares.other_coordinator(ShareKey(GROUP, topic.id, index)): index for index in range(8)}
    here, elsewhere = keepers[None], keepers[2]
    data = [PartitionProduceData(index, bytes(batch(b"a"))) for index in (here, elsewhere)]
    before.call(1, ProduceRequest(None, -1, 1000, [TopicProduceData("u", partition_data=data)]), 11)
    parts = [AlterShareGroupOffsetsRequestPartition(index, 0) for index in (here, elsewhere)]
    before.call(3, AlterShareGroupOffsetsRequest(GROUP, [AlterShareGroupOffsetsRequestTopic("u", parts)]), 0)

    def fetched(epoch: int, member: str = MEMBER) -> list[tuple[int, int, int]]:
        request = fetching(before, epoch, member=member)
        request.topics = [FetchTopic(topic.id, [FetchPartition(index) for index in (here, elsewhere)])]
        answers = before.asked(1, request, 1)
        before.settle()
        before.wait(500)
        return got(answers[0])

    assert fetched(0) + fetched(1) == [(0, 0, 1)] * 2
    before.network.deaf.add(2)
    accepted = [AcknowledgePartition(index, [AcknowledgementBatch(0, 0, [ACCEPT])]) for index in (here, elsewhere)]
    acknowledgement = ShareAcknowledgeRequest(GROUP, MEMBER, 2, topics=[AcknowledgeTopic(topic.id, accepted)])
    answers = before.asked(1, acknowledgement, 1)
    before.network.run()
    if is_lock_over:
        before.wait(before[1].shares.partitions.limits(GROUP).lock_ms)
    else:
        before.asked(1, fetching(before, -1, wait_ms=0), 1)
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


def test_a_change_that_is_fenced_makes_the_partition_anew(nodes: Neighbourhood) -> None:
    altered(nodes)
    nodes.asked(1, fetching(nodes, 0), 1)
    nodes.settle()
    nodes[2].shares.initialize(key(nodes), 7, 3)  # somebody has set the offsets anew
    assert told([nodes.call(1, acknowledging(nodes, 1, 0, 2, ACCEPT), 1)]) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert kept(nodes) == (3, [])
    answers = nodes.asked(1, fetching(nodes, 0, member="two"), 1)
    nodes.settle()
    assert got(answers[0]) == [(3, 4, 1)]


def test_a_coordinator_that_moves_is_found_again(nodes: Neighbourhood) -> None:
    altered(nodes)
    nodes.asked(1, fetching(nodes, 0), 1)
    nodes.settle()
    nodes.network.deaf.add(2)
    answers = nodes.asked(1, acknowledging(nodes, 1, 0, 2, ACCEPT), 1)
    nodes.network.run()
    nodes.move(SHARE_GROUP_STATE, 0, 3)
    nodes.wait(1_000)
    assert told(answers) == ErrorCode.NONE
    start, runs = kept(nodes, 3)
    assert (start, runs) == (0, [(0, 2, 2, 1)])


def test_a_coordinator_that_is_away_for_seconds_is_waited_for(nodes: Neighbourhood) -> None:
    altered(nodes)
    nodes.asked(1, fetching(nodes, 0), 1)
    nodes.settle()
    nodes.network.cut.add(2)
    answers = nodes.asked(1, acknowledging(nodes, 1, 0, 2, ACCEPT), 1)
    for _ in range(5):
        nodes.wait(1_000)
    nodes.network.cut.clear()
    for _ in range(5):
        nodes.wait(1_000)
    assert told(answers) == ErrorCode.NONE
    assert kept(nodes) == (0, [(0, 2, 2, 1)])


def test_a_coordinator_that_stays_away_is_an_error_and_nothing_is_lost(nodes: Neighbourhood) -> None:
    altered(nodes)
    nodes.asked(1, fetching(nodes, 0), 1)
    nodes.settle()
    nodes.network.cut.add(2)
    answers = nodes.asked(1, acknowledging(nodes, 1, 0, 2, ACCEPT), 1)
    for _ in range(130):  # for the time of all retries, which is shorter than the locks last
        nodes.wait(100)
    assert told(answers) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    nodes.network.cut.clear()
    assert told([nodes.call(1, acknowledging(nodes, 2, 0, 2, ACCEPT), 1)]) == ErrorCode.NONE


def test_a_fetch_of_a_group_without_a_state_is_told_so(nodes: Neighbourhood) -> None:
    answers = nodes.asked(1, fetching(nodes, 0), 1)
    nodes.settle()
    assert answers[0].responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_members_get_their_partitions_once_the_states_are_made(nodes: Neighbourhood) -> None:
    def beat(epoch: int) -> Any:
        return nodes.call(3, ShareGroupHeartbeatRequest(GROUP, MEMBER, epoch, None, ["t"] if not epoch else None), 1)

    joined = beat(0)
    assert not joined.error_code
    nodes.settle()
    assert nodes[2].shares.known(key(nodes)).summary(key(nodes)) is not None
    epoch, assigned = joined.member_epoch, joined.assignment
    for _ in range(4):
        nodes.wait(5_000)
        answer = beat(epoch)
        epoch, assigned = answer.member_epoch, answer.assignment or assigned
    assert [(one.topic_id, one.partitions) for one in assigned.topic_partitions] == [(topic_id(nodes), [0])]
    assert [name for *_, name in asked(nodes)] == ["InitializeShareGroupStateRequest"]


@pytest.fixture
def doubted(tmp_path: Path) -> Neighbourhood:
    """Nodes of which node 3 may no longer be the coordinator: node 1 has a replica of the log and fetches nothing."""
    nodes = Neighbourhood(tmp_path, brokers=3, group_share_heartbeat_interval_ms="5000")
    nodes.add(CONSUMER_OFFSETS, 3, replicas=(3, 1))
    nodes.add(SHARE_GROUP_STATE, 2, replicas=(2, 3))
    nodes.add("t", 1)
    altered(nodes, 1)
    nodes.change(CONSUMER_OFFSETS, isr=[3, 1])
    nodes.network.silent.add(1)
    nodes.network.log.clear()
    return nodes


def of_shares(nodes: Neighbourhood) -> list[Any]:
    """Return the requests sent to share coordinators."""
    return [request for _, _, name, request in nodes.network.log if name.startswith("Persister")]


def joining(nodes: Neighbourhood) -> ShareGroupHeartbeatRequest:
    nodes.add("u", 1)
    return ShareGroupHeartbeatRequest(GROUP, MEMBER, 0, None, ["u"])


@pytest.mark.parametrize(
    ("request_of", "version"),
    [
        (joining, 1),
        (lambda _: altering(0), 0),
        (lambda _: DeleteShareGroupOffsetsRequest(GROUP, [DeleteShareGroupOffsetsRequestTopic("t")]), 0),
        (lambda _: DeleteGroupsRequest([GROUP]), 2),
    ],
)
def test_only_who_still_coordinates_the_group_changes_states(
    doubted: Neighbourhood, request_of: Callable[[Neighbourhood], Any], version: int
) -> None:
    """A node that was away reset what members of the next coordinator had accepted."""
    answers = doubted.asked(3, request_of(doubted), version)
    doubted.wait(1_000)
    assert (answers, of_shares(doubted)) == ([], [])
    doubted.change(CONSUMER_OFFSETS, isr=[3])
    doubted.settle()
    assert len(answers) == len(of_shares(doubted)) == 1


def test_the_next_coordinator_initializes_under_a_later_epoch(nodes: Neighbourhood) -> None:
    """A request of the one before that arrives late is fenced: members may have begun to read."""
    nodes.network.deaf.add(2)
    joined = nodes.call(3, ShareGroupHeartbeatRequest(GROUP, MEMBER, 0, None, ["t"]), 1)
    nodes.move(CONSUMER_OFFSETS, 0, 1)
    beaten = nodes.call(1, ShareGroupHeartbeatRequest(GROUP, MEMBER, joined.member_epoch), 1)
    assert not beaten.error_code
    first, second = of_shares(nodes)
    epochs = [asked.topics[0].partitions[0].state_epoch for asked in (first, second)]
    assert epochs[0] < epochs[1]


def described(nodes: Neighbourhood) -> tuple[int, int, int, str | None]:
    """Return the start offset, the lag, and the error with its message."""
    request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(GROUP, None)])
    [group] = nodes.call(3, request, 1).groups
    assert not group.error_code
    [one] = [one for topic in group.topics for one in topic.partitions]
    return one.start_offset, one.lag, one.error_code, one.error_message


def test_offsets_are_described_with_what_two_other_nodes_say(nodes: Neighbourhood) -> None:
    altered(nodes, 1)
    assert described(nodes) == (1, 4, ErrorCode.NONE, None)
    nodes.network.cut.add(1)
    start, lag, error, words = described(nodes)
    assert (start, lag, error) == (0, -1, ErrorCode.NETWORK_EXCEPTION), "as Kafka 4.4.0 where the leader is silent"
    assert words == "The server disconnected before a response was received."


def test_silent_leaders_are_asked_at_once(nodes: Neighbourhood) -> None:
    """Wait for one time-out: asked one after the other, each leader would cost one."""
    nodes.move(SHARE_GROUP_STATE, 0, 3)
    nodes.add("u", 2)
    topics = [
        AlterShareGroupOffsetsRequestTopic(name, [AlterShareGroupOffsetsRequestPartition(0, 2)]) for name in ("t", "u")
    ]
    assert not nodes.call(3, AlterShareGroupOffsetsRequest(GROUP, topics), 0).error_code
    nodes.network.deaf |= {1, 2}
    nodes.network.log.clear()
    groups = [
        DescribeShareGroupOffsetsRequestGroup(GROUP, [DescribeShareGroupOffsetsRequestTopic(name, [0])])
        for name in ("t", "u")
    ]
    answers = nodes.asked(3, DescribeShareGroupOffsetsRequest(groups), 1)
    nodes.settle()
    ends = [
        (target, topic.name)
        for _, target, _, request in nodes.network.log
        if isinstance(request, ListOffsetsRequest)
        for topic in request.topics
    ]
    assert not answers
    assert sorted(ends) == [(1, "t"), (2, "u")]


def test_a_partition_without_a_leader_does_not_spoil_the_others(nodes: Neighbourhood) -> None:
    """Kafka 4.4.0 answers such a partition with this code and these words, and the others as always."""
    nodes.add("u", 1)
    topics = [
        AlterShareGroupOffsetsRequestTopic(name, [AlterShareGroupOffsetsRequestPartition(0, 2)]) for name in ("t", "u")
    ]
    assert not nodes.call(3, AlterShareGroupOffsetsRequest(GROUP, topics), 0).error_code
    nodes.change("t", leader=-1)
    request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(GROUP, None)])
    [group] = nodes.call(3, request, 1).groups
    told = {topic.topic_name: topic.partitions[0] for topic in group.topics}
    assert (group.error_code, told["t"].error_code) == (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE)
    assert (told["t"].start_offset, told["t"].lag) == (0, -1)
    assert str(told["t"].error_message).startswith("There is no leader for this topic-partition")
    assert (told["u"].error_code, told["u"].start_offset, told["u"].lag) == (ErrorCode.NONE, 2, -2)


def test_a_topic_that_is_named_twice_is_altered_in_all_its_partitions(nodes: Neighbourhood) -> None:
    """Kafka 4.4 answers a topic that is named twice once."""
    nodes.add("u", 1, 1)
    topics = [
        AlterShareGroupOffsetsRequestTopic("u", [AlterShareGroupOffsetsRequestPartition(index, 3 + index)])
        for index in range(2)
    ]
    answer = nodes.call(3, AlterShareGroupOffsetsRequest(GROUP, topics), 0)
    assert [[one.partition_index for one in topic.partitions] for topic in answer.responses] == [[0, 1]]
    request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(GROUP, None)])
    [group] = nodes.call(3, request, 1).groups
    [topic] = group.topics
    assert [(one.partition_index, one.start_offset) for one in topic.partitions] == [(0, 3), (1, 4)]
    twice = [DeleteShareGroupOffsetsRequestTopic("u")] * 2
    deleted = nodes.call(3, DeleteShareGroupOffsetsRequest(GROUP, twice), 0)
    assert [(topic.topic_name, topic.error_code) for topic in deleted.responses] == [("u", ErrorCode.NONE)]


def test_offsets_are_forgotten_at_the_other_node(nodes: Neighbourhood) -> None:
    altered(nodes)
    answer = nodes.call(3, DeleteShareGroupOffsetsRequest(GROUP, [DeleteShareGroupOffsetsRequestTopic("t")]), 0)
    assert not answer.responses[0].error_code
    assert nodes[2].shares.known(key(nodes)).summary(key(nodes)) is None


def test_a_group_goes_with_its_states(nodes: Neighbourhood) -> None:
    altered(nodes)
    assert [one.error_code for one in nodes.call(3, DeleteGroupsRequest([GROUP]), 2).results] == [ErrorCode.NONE]
    assert nodes[2].shares.known(key(nodes)).summary(key(nodes)) is None


def states_records(nodes: Neighbourhood) -> list[tuple[int, int, int]]:
    """Return for each state record of a group how many topics are being initialized, initialized, being deleted."""
    log = nodes[3].services.replicas.leader(CONSUMER_OFFSETS, 0).log
    read = log.read(0, 1 << 20, log.log_end_offset)
    assert read is not None
    records = [
        decode(record.key or b"", record.value, GROUP_RECORDS)
        for header, batch in iter_batches(read.records.read())
        for record in iter_records(batch, header)
    ]
    values = [each.value for each in records if each is not None]
    states = [each for each in values if isinstance(each, ShareGroupStatePartitionMetadataValue)]
    return [(len(each.initializing_topics), len(each.initialized_topics), len(each.deleting_topics)) for each in states]


def test_records_say_what_is_being_initialized_and_deleted(nodes: Neighbourhood) -> None:
    """Kafka's own records, asked, say the same."""
    joined = nodes.call(3, ShareGroupHeartbeatRequest(GROUP, MEMBER, 0, None, ["t"]), 1)
    assert states_records(nodes) == [(1, 0, 0), (0, 1, 0)]
    nodes.call(3, ShareGroupHeartbeatRequest(GROUP, MEMBER, -1), 1)
    assert joined.member_epoch
    altered(nodes)
    assert states_records(nodes)[2:] == [(1, 1, 0), (0, 1, 0)]
    nodes.call(3, DeleteShareGroupOffsetsRequest(GROUP, [DeleteShareGroupOffsetsRequestTopic("t")]), 0)
    assert states_records(nodes)[4:] == [(0, 0, 1), (0, 0, 0)]
    altered(nodes)
    nodes.call(3, DeleteGroupsRequest([GROUP]), 2)
    assert states_records(nodes)[8:] == [(0, 0, 1)]


def test_a_group_that_is_joined_while_it_is_deleted_begins_anew(nodes: Neighbourhood) -> None:
    altered(nodes, 3)
    nodes.network.cut.add(2)
    answers = nodes.asked(3, DeleteGroupsRequest([GROUP]), 2)
    joined = nodes.call(3, ShareGroupHeartbeatRequest(GROUP, MEMBER, 0, None, ["t"]), 1)
    assert not joined.assignment.topic_partitions, "its topic is being deleted"
    nodes.network.cut.clear()
    for _ in range(5):
        nodes.wait(1_000)
    assert [one.error_code for answer in answers for one in answer.results] == [ErrorCode.NON_EMPTY_GROUP]
    nodes.call(3, ShareGroupHeartbeatRequest(GROUP, MEMBER, joined.member_epoch), 1)
    nodes.settle()
    assert kept(nodes)[0] == -1


def test_what_can_not_be_begun_is_told(nodes: Neighbourhood) -> None:
    assert altered(nodes, 0, partition=9) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_partition_that_only_the_keeper_of_states_knows_yet_is_not_begun(nodes: Neighbourhood) -> None:
    del nodes[3].image.topics["t"].partitions[0]
    assert 0 in nodes[2].image.topics["t"].partitions
    assert altered(nodes) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert key(nodes) not in nodes[2].shares.coordinator.states


def requests(nodes: Neighbourhood) -> StateRequests:
    return StateRequests(nodes[1].whole.node, nodes[1].shares.other_coordinator)


def test_of_one_partition_things_are_asked_in_their_order(nodes: Neighbourhood) -> None:
    asking, one = requests(nodes), key(nodes)
    other = one._replace(group_id="h")
    questions: list[StateRequest] = [
        asking.ask(INITIALIZE, one, 1, 0),
        asking.ask(WRITE, one, 1, 0, 1, 0, []),
        asking.ask(INITIALIZE, other, 1, 0),
        asking.ask(READ, one, 0),
        asking.ask(WRITE, other, 1, 0, 2, 0, []),
    ]
    nodes.network.run()
    assert [type(request).__name__[:5] for *_, request in nodes.network.log] == [
        "Initi",
        "Write",
        "Initi",
        "ReadS",
        "Write",
    ]
    assert [question.error for question in questions] == [None] * 5
    assert questions[3].result().start_offset == 1


def test_who_keeps_the_state_itself_is_not_asked(nodes: Neighbourhood) -> None:
    asking = StateRequests(nodes[2].whole.node, nodes[2].shares.other_coordinator)
    question = asking.ask(READ, key(nodes), 0)
    assert isinstance(question.error, ApiError)
    assert question.error.code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("moves", [False, True])
def test_an_initialization_whose_outcome_is_unknown_is_not_sent_again(nodes: Neighbourhood, moves: bool) -> None:
    """The first copy arrived after the second one, and what members had accepted since was handed out again."""
    nodes.network.deaf.add(2)
    asking = requests(nodes)
    question = asking.ask(INITIALIZE, key(nodes), 1, 0)
    if moves:
        nodes.move(SHARE_GROUP_STATE, 0, 3)
        asking.forget_moved()
    else:
        nodes.network.deaf.clear()
        nodes.network.cut.add(2)
        nodes.network.run()
    for _ in range(5):
        nodes.wait(1_000)
    assert isinstance(question.error, ApiError)
    assert question.error.code in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
    assert asking.next_deadline() is None


def test_a_request_to_another_node_has_a_bounded_size() -> None:
    """A decoder takes no more than 65,536 elements, and would refuse the same request at each attempt."""
    requests = StateRequests(cast(Any, None), lambda key: 2)
    runs = [StateBatch(offset, offset, 0, 1) for offset in range(2_000)]
    keys = [ShareKey(GROUP, b"x" * 16, index) for index in range(5)]
    waiting = [
        _Attempt(StateRequest(WRITE, key, WRITE.partition(key.partition, 0, 0, 0, 0, of)))
        for key, of in zip([*keys, keys[2]], [runs, runs, runs * 10, [], runs, []], strict=True)
    ]
    sent = []
    while waiting:
        now, waiting = requests._choose(waiting)
        sent.append([(each.request.key.partition, len(each.request.asked.state_batches)) for each in now])
    assert sent == [[(0, 2_000), (1, 2_000), (3, 0)], [(2, 20_000)], [(4, 2_000), (2, 0)]]
