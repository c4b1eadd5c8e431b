"""Offsets, and what ends a member, are told by a group coordinator that has followers only once something is committed
anew: one that was away and has not heard that it is no longer the coordinator can't do that. And nobody waits for a
commit longer than `offsets.commit.timeout.ms`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.broker.api.classic_groups import heartbeat, join_group
from pykafka_broker.broker.api.consumer_group_heartbeat import consumer_group_heartbeat
from pykafka_broker.broker.api.group_admin import consumer_group_describe, delete_groups, describe_groups
from pykafka_broker.broker.api.group_offsets import offset_commit, offset_fetch
from pykafka_broker.broker.api.init_producer_id import init_producer_id
from pykafka_broker.broker.api.share_group_heartbeat import share_group_heartbeat
from pykafka_broker.broker.api.share_group_offsets import describe_share_group_offsets
from pykafka_broker.broker.api.share_group_state import initialize_state, read_state
from pykafka_broker.broker.api.transaction_admin import describe_transactions
from pykafka_broker.broker.waiting.future import Future, Lost, Slices, TooLate
from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from pykafka_broker.coordinators.groups.offsets import no_change_record
from pykafka_broker.coordinators.share.state import ShareKey
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from pykafka_broker.protocol.messages.delete_groups_request import DeleteGroupsRequest
from pykafka_broker.protocol.messages.describe_groups_request import DescribeGroupsRequest
from pykafka_broker.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from pykafka_broker.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from pykafka_broker.protocol.messages.heartbeat_request import HeartbeatRequest
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from pykafka_broker.protocol.messages.initialize_share_group_state_request import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
)
from pykafka_broker.protocol.messages.initialize_share_group_state_request import PartitionData as NewState
from pykafka_broker.protocol.messages.join_group_request import JoinGroupRequest
from pykafka_broker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykafka_broker.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from pykafka_broker.protocol.messages.read_share_group_state_request import (
    PartitionData,
    ReadShareGroupStateRequest,
    ReadStateData,
)
from pykafka_broker.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from tests.broker.support import ANOTHER_NODE, LightBroker

GROUP, MEMBER = "g", "m"
COMMITTED = 7


class Coordinator:
    """Node 1 coordinates all groups, one of which has committed an offset; another node follows."""

    def __init__(self, directory: Path, *, alone: bool = False, **topic: Any) -> None:
        self.broker = LightBroker(directory)
        both = (1,) if alone else (1, ANOTHER_NODE)
        self.broker.add(CONSUMER_OFFSETS, replicas=both, isr=both, **topic)
        self.topic_id = self.broker.add("t")
        self.log = self.broker.services.replicas.leader(CONSUMER_OFFSETS, 0)
        commit(self)
        self.acknowledge()
        self.records = self.log.log.log_end_offset

    def ask(self, handler: Any, key: ApiKey, request: Any, version: int) -> Any:
        """Call a handler with a request and return its result."""
        return handler(self.broker.services, self.broker.context(key, version), request)

    def acknowledge(self) -> None:
        """Let the follower fetch up to the end of the log."""
        if self.log.followers is not None:
            self.log.fetched_by(ANOTHER_NODE, self.log.log.log_end_offset, self.broker.now)


Asking = Callable[[Coordinator], Any]


@pytest.fixture
def coordinator(tmp_path: Path) -> Coordinator:
    return Coordinator(tmp_path)


def commit(coordinator: Coordinator, epoch: int = -1, member: str = "") -> Any:
    topics = [OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, COMMITTED)])]
    request = OffsetCommitRequest(GROUP, epoch, member, topics=topics)
    return coordinator.ask(offset_commit, ApiKey.OFFSET_COMMIT, request, 8)


def commit_of_a_stranger(coordinator: Coordinator) -> Any:
    return commit(coordinator, 3, MEMBER)


def offsets(coordinator: Coordinator) -> Any:
    return coordinator.ask(
        offset_fetch, ApiKey.OFFSET_FETCH, OffsetFetchRequest(groups=[OffsetFetchRequestGroup(GROUP, topics=None)]), 8
    )


def offsets_of_old(coordinator: Coordinator) -> Any:
    return coordinator.ask(offset_fetch, ApiKey.OFFSET_FETCH, OffsetFetchRequest(GROUP, None), 7)


def beat(coordinator: Coordinator) -> Any:
    return coordinator.ask(heartbeat, ApiKey.HEARTBEAT, HeartbeatRequest(GROUP, 3, MEMBER), 4)


def join(coordinator: Coordinator) -> Any:
    request = JoinGroupRequest(GROUP, 10_000, 10_000, MEMBER, None, "consumer")
    return coordinator.ask(join_group, ApiKey.JOIN_GROUP, request, 9)


def consumer_beat(coordinator: Coordinator) -> Any:
    request = ConsumerGroupHeartbeatRequest("c", MEMBER, 3)
    return coordinator.ask(consumer_group_heartbeat, ApiKey.CONSUMER_GROUP_HEARTBEAT, request, 1)


def share_beat(coordinator: Coordinator) -> Any:
    request = ShareGroupHeartbeatRequest("s", MEMBER, 3)
    return coordinator.ask(share_group_heartbeat, ApiKey.SHARE_GROUP_HEARTBEAT, request, 1)


ALL = [commit_of_a_stranger, offsets, offsets_of_old, beat, join, consumer_beat, share_beat]


def heard_of(answer: Any) -> list[Exception | None]:
    """Return a list that gets the answer's error, None for none, once the answer comes."""
    heard: list[Exception | None] = []
    assert isinstance(answer, Future)
    answer.add_done_callback(lambda future: heard.append(future.error))
    return heard


@pytest.mark.parametrize("ask", ALL)
def test_it_is_told_when_the_follower_has_agreed(coordinator: Coordinator, ask: Asking) -> None:
    heard = heard_of(ask(coordinator))
    assert heard == []
    coordinator.acknowledge()
    assert heard == [None]


@pytest.mark.parametrize("ask", ALL)
def test_who_is_deposed_tells_nothing(coordinator: Coordinator, ask: Asking) -> None:
    heard = heard_of(ask(coordinator))
    coordinator.broker.change(CONSUMER_OFFSETS, leader=ANOTHER_NODE)
    assert [type(each) for each in heard] == [Lost]


@pytest.mark.parametrize("ask", ALL)
def test_a_coordinator_without_followers_says_it_at_once(tmp_path: Path, ask: Asking) -> None:
    coordinator = Coordinator(tmp_path, alone=True)
    assert not isinstance(ask(coordinator), Future)
    assert coordinator.log.log.log_end_offset == coordinator.records


@pytest.mark.parametrize("ask", [offsets, beat])
def test_below_the_least_in_sync_it_is_told_as_it_is_known(tmp_path: Path, ask: Asking) -> None:
    coordinator = Coordinator(tmp_path, min_insync_replicas="2")
    coordinator.broker.change(CONSUMER_OFFSETS, isr=[1])
    assert not isinstance(ask(coordinator), Future)


NAMES = [GROUP] * 400  # more than a slice has room for


def descriptions(coordinator: Coordinator) -> Any:
    return coordinator.ask(describe_groups, ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest(NAMES), 6)


def consumer_descriptions(coordinator: Coordinator) -> Any:
    request = ConsumerGroupDescribeRequest(NAMES)
    return coordinator.ask(consumer_group_describe, ApiKey.CONSUMER_GROUP_DESCRIBE, request, 1)


def offsets_of_many(coordinator: Coordinator) -> Any:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(name, topics=None) for name in NAMES])
    return coordinator.ask(offset_fetch, ApiKey.OFFSET_FETCH, request, 8)


def share_offsets(coordinator: Coordinator) -> Any:
    request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(name, None) for name in NAMES])
    return coordinator.ask(describe_share_group_offsets, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, request, 1)


def deletions(coordinator: Coordinator) -> Any:
    request = DeleteGroupsRequest([GROUP, *(f"{GROUP}{number}" for number in range(60))])
    return coordinator.ask(delete_groups, ApiKey.DELETE_GROUPS, request, 2)


def transactions(coordinator: Coordinator) -> Any:
    broker, request = coordinator.broker, InitProducerIdRequest("x", 60_000)
    coordinator.ask(init_producer_id, ApiKey.INIT_PRODUCER_ID, request, 4)
    assert broker.transactions.transaction("x") is not None
    return coordinator.ask(
        describe_transactions, ApiKey.DESCRIBE_TRANSACTIONS, DescribeTransactionsRequest(["x"] * 400), 0
    )


def share_states(coordinator: Coordinator) -> Any:
    topic_id = coordinator.broker.add("shared", 150)
    states = [NewState(number, 1, 5) for number in range(150)]
    request = InitializeShareGroupStateRequest(GROUP, [InitializeStateData(topic_id, states)])
    return coordinator.ask(initialize_state, ApiKey.INITIALIZE_SHARE_GROUP_STATE, request, 0)


IN_SLICES = [
    descriptions,
    consumer_descriptions,
    offsets_of_many,
    share_offsets,
    deletions,
    transactions,
    share_states,
]


@pytest.mark.parametrize("ask", IN_SLICES)
def test_a_coordinator_deposed_between_two_slices_tells_nothing(coordinator: Coordinator, ask: Asking) -> None:
    broker, turns = coordinator.broker, list[Callable[[], None]]()
    topics, both = (CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE), (1, ANOTHER_NODE)
    for topic in topics[1:]:
        broker.add(topic, replicas=both, isr=both)
    commit(coordinator)
    broker.services.slices = Slices(turns.append)
    heard = heard_of(ask(coordinator).then(lambda response: response))
    assert turns, "a part of the answer is still to be made"
    for topic in topics:
        broker.change(topic, leader=ANOTHER_NODE)
    while turns:
        turns.pop()()
    assert [type(each) for each in heard] == [Lost]


def test_the_progress_of_a_share_group_is_not_told_by_who_may_lose_it(coordinator: Coordinator) -> None:
    broker, turns = coordinator.broker, list[Callable[[], None]]()
    broker.add(SHARE_GROUP_STATE, replicas=(1, ANOTHER_NODE), isr=(1, ANOTHER_NODE))
    broker.shares.initialize(ShareKey(GROUP, coordinator.topic_id, 0), 1, 5)
    broker.services.slices = Slices(turns.append)
    wanted = DescribeShareGroupOffsetsRequestGroup(GROUP, [DescribeShareGroupOffsetsRequestTopic("t", [0])])
    request = DescribeShareGroupOffsetsRequest([wanted] * 36)  # asked about in one slice, and told of in the next
    answer = coordinator.ask(describe_share_group_offsets, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, request, 1)
    heard = heard_of(answer.then(lambda response: response))
    assert turns
    broker.change(SHARE_GROUP_STATE, leader=ANOTHER_NODE)
    while turns:
        turns.pop()()
    assert [type(each) for each in heard] == [Lost]


def test_what_is_asked_at_once_shares_a_record(coordinator: Coordinator) -> None:
    for ask in ALL:
        assert isinstance(ask(coordinator), Future)
    assert coordinator.log.log.log_end_offset == coordinator.records + 1
    coordinator.broker.now += 1
    offsets(coordinator)
    assert coordinator.log.log.log_end_offset == coordinator.records + 2


def test_it_changes_nothing(coordinator: Coordinator) -> None:
    """A refused request changes nothing, neither here nor where the log is loaded anew."""
    beat(coordinator)
    coordinator.acknowledge()
    for leader in (ANOTHER_NODE, 1):
        coordinator.broker.change(CONSUMER_OFFSETS, leader=leader)
        coordinator.broker.on_deadline(coordinator.broker.now)
    groups = coordinator.broker.groups.coordinator.groups
    assert list(groups) == [GROUP]
    answer = offsets(coordinator)
    coordinator.acknowledge()
    [group] = answer.result().groups
    assert [one.committed_offset for topic in group.topics for one in topic.partitions] == [COMMITTED]


def test_a_commit_waits_for_its_time_and_no_longer(coordinator: Coordinator) -> None:
    heard = heard_of(commit(coordinator))
    due = coordinator.broker.groups.next_deadline()
    assert due == coordinator.broker.now + 5_000
    coordinator.broker.now = due - 1
    coordinator.broker.on_deadline(coordinator.broker.now)
    assert heard == []
    coordinator.broker.now = due
    coordinator.broker.on_deadline(coordinator.broker.now)
    [late] = heard
    assert isinstance(late, TooLate)
    assert late.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    coordinator.acknowledge()
    assert heard == [late]


def test_a_commit_that_is_there_in_time_is_not_refused(coordinator: Coordinator) -> None:
    heard = heard_of(commit(coordinator))
    coordinator.acknowledge()
    coordinator.broker.now += 5_000
    coordinator.broker.on_deadline(coordinator.broker.now)
    assert heard == [None]


def test_a_commit_that_another_leader_has_ended_is_not_refused_twice(coordinator: Coordinator) -> None:
    heard = heard_of(commit(coordinator))
    coordinator.broker.change(CONSUMER_OFFSETS, leader=ANOTHER_NODE)
    coordinator.broker.now += 5_000
    coordinator.broker.on_deadline(coordinator.broker.now)
    assert [type(each) for each in heard] == [Lost]


def codes(answer: Any) -> list[int]:
    response = answer.result() if isinstance(answer, Future) else answer
    return [one.error_code for topic in response.topics for one in topic.partitions]


def test_a_commit_above_the_topics_largest_batch_is_refused_as_by_kafka(tmp_path: Path) -> None:
    coordinator = Coordinator(tmp_path, alone=True, max_message_bytes="500")
    partitions = [OffsetCommitRequestPartition(number, 8, committed_metadata="x" * 100) for number in range(9)]
    coordinator.broker.add("many", partitions=9)
    request = OffsetCommitRequest(GROUP, -1, "", topics=[OffsetCommitRequestTopic("many", partitions=partitions)])
    answer = coordinator.ask(offset_commit, ApiKey.OFFSET_COMMIT, request, 8)
    assert codes(answer) == [ErrorCode.UNKNOWN_SERVER_ERROR] * 9
    assert coordinator.log.log.log_end_offset == coordinator.records
    assert codes(commit(coordinator)) == [ErrorCode.NONE]


def test_what_only_forgets_may_be_several_batches(tmp_path: Path) -> None:
    coordinator = Coordinator(tmp_path, alone=True, max_message_bytes="500")
    forget = [no_change_record(f"group {number}") for number in range(99)]
    coordinator.broker.groups.shards.append(0, forget)
    assert coordinator.log.log.log_end_offset == coordinator.records + 99


@pytest.mark.parametrize(("others", "rests"), [((ANOTHER_NODE,), True), ((), False)])
def test_a_share_state_is_read_by_who_still_keeps_it(tmp_path: Path, others: tuple[int, ...], rests: bool) -> None:
    broker = LightBroker(tmp_path)
    replicas = (1, *others)
    broker.add(SHARE_GROUP_STATE, replicas=replicas, isr=replicas)
    topic_id = broker.add("t")
    broker.shares.initialize(ShareKey("s", topic_id, 0), 1, 5)
    log = broker.services.replicas.leader(SHARE_GROUP_STATE, 0)
    if others:
        log.fetched_by(ANOTHER_NODE, log.log.log_end_offset, broker.now)
    request = ReadShareGroupStateRequest("s", [ReadStateData(topic_id, [PartitionData(0, 0)])])
    answer = read_state(broker.services, broker.context(ApiKey.READ_SHARE_GROUP_STATE, 0), request)
    assert (isinstance(answer, Future) and not answer.done) is rests
    if rests:
        log.fetched_by(ANOTHER_NODE, log.log.log_end_offset, broker.now)
    response = answer.result() if isinstance(answer, Future) else answer
    [told] = response.results[0].partitions
    assert (told.error_code, told.start_offset) == (ErrorCode.NONE, 5)
