"""Share groups whose states are kept by another node than the one that leads the partition or coordinates the group."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from pykafka_broker.broker.coordinators.share_host import INITIALIZE, READ, WRITE, StateRequest, StateRequests, _Attempt
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
from pykafka_broker.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from pykafka_broker.protocol.messages.write_share_group_state_request import StateBatch
from pykafka_broker.protocol.stored.share_group_state_partition_metadata_value import (
    ShareGroupStatePartitionMetadataValue,
)
from pykafka_broker.protocol.stored_keys import GROUP_RECORDS
from pykafka_broker.records.header import iter_batches
from pykafka_broker.records.record import iter_records
from tests.broker.coordinators.share_nodes import (
    ACCEPT,
    GROUP,
    MEMBER,
    acknowledging,
    altered,
    asked,
    fetching,
    got,
    kept,
    key,
    produce_five,
    share_nodes,
    told,
    topic_id,
)
from tests.broker.neighbourhood import Neighbourhood


@pytest.fixture
def nodes(tmp_path: Path) -> Neighbourhood:
    return share_nodes(tmp_path)


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
