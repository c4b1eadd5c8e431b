"""The share coordinator's host: states come and go with the leadership of their log."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.broker.coordinators.shards import CoordinatorShards
from pykafka_broker.broker.coordinators.share_host import ShareHost, is_enabled
from pykafka_broker.broker.waiting.future import DONE, Future
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from pykafka_broker.coordinators.share.share_partition import Change, LogBatch, SharePartition
from pykafka_broker.coordinators.share.state import UNINITIALIZED, ShareKey
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from pykafka_broker.protocol.stored.partition_record import PartitionRecord
from pykafka_broker.protocol.stored.remove_topic_record import RemoveTopicRecord
from tests.broker.neighbourhood import Neighbourhood
from tests.broker.support import ANOTHER_NODE, LightBroker
from tests.broker.test_synced_answers import SyncedBroker


@pytest.fixture
def broker(tmp_path: Path) -> LightBroker:
    return LightBroker(tmp_path, share_coordinator_state_topic_num_partitions="2")


@pytest.fixture
def key(broker: LightBroker) -> ShareKey:
    """The key of a partition of which group g has read nothing yet."""
    return ShareKey("g", broker.add("t"), 0)


@pytest.fixture
def host(broker: LightBroker, key: ShareKey) -> ShareHost:
    broker.shares.initialize(key, 1, 5)
    return broker.shares


def start_of(host: ShareHost, key: ShareKey) -> int:
    state = host.known(key).summary(key)
    assert state is not None
    return state.start_offset


def remove(broker: LightBroker, topic_id: bytes) -> None:
    broker.commit_metadata([ApiMessageAndVersion(RemoveTopicRecord(topic_id), 0)])


@pytest.mark.parametrize(
    ("features", "enabled"), [({}, False), ({"share.version": 0}, False), ({"share.version": 1}, True)]
)
def test_a_feature_of_the_cluster_enables_share_groups(features: dict[str, int], enabled: bool) -> None:
    assert is_enabled(features) is enabled


def test_the_topic_of_states_is_made_at_its_first_use(broker: LightBroker, host: ShareHost, key: ShareKey) -> None:
    assert len(broker.image.topics[SHARE_GROUP_STATE].partitions) == 2
    assert start_of(host, key) == 5


def test_states_are_there_again_after_a_restart(
    tmp_path: Path, host: ShareHost, key: ShareKey, broker: LightBroker
) -> None:
    broker.stop(broker.now)
    assert start_of(LightBroker(tmp_path).shares, key) == 5


def test_states_go_with_the_leadership_and_come_back_with_it(
    broker: LightBroker, host: ShareHost, key: ShareKey
) -> None:
    partition = host.partitions.get(key)
    broker.elect(SHARE_GROUP_STATE, ANOTHER_NODE)
    assert host.coordinator.states == {}
    with pytest.raises(ApiError) as caught:
        host.known(key)
    assert caught.value.code is ErrorCode.NOT_COORDINATOR
    broker.elect(SHARE_GROUP_STATE, 1)
    assert start_of(host, key) == 5, "those who read can't be told to come again: it is read at once"
    assert host.partitions.get(key) is not partition, "made anew from what the coordinator knows"


def test_nothing_is_left_of_a_deleted_topic(
    broker: LightBroker, host: ShareHost, key: ShareKey, tmp_path: Path
) -> None:
    host.partitions.get(key)
    remove(broker, key.topic_id)
    assert host.coordinator.states == {}
    assert key not in host.partitions._partitions
    broker.stop(broker.now)
    assert LightBroker(tmp_path).shares.coordinator.states == {}


def test_a_log_that_refuses_keeps_no_state_from_being_forgotten(
    broker: LightBroker,
    host: ShareHost,
    key: ShareKey,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    other = ShareKey("h", key.topic_id, 0)
    host.initialize(other, 1, 7)
    append = CoordinatorShards.append
    refused: list[Any] = []

    def refusing_first(shards: CoordinatorShards, *arguments: Any, **options: Any) -> Any:
        if not refused:
            refused.append(arguments)
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return append(shards, *arguments, **options)

    monkeypatch.setattr(CoordinatorShards, "append", refusing_first)
    remove(broker, key.topic_id)
    assert list(host.coordinator.states) == [key]
    assert "is not forgotten" in caplog.text
    assert "a defect" not in caplog.text


def test_an_answer_rests_on_a_topic_that_was_just_made_for_it(tmp_path: Path) -> None:
    node = SyncedBroker(tmp_path, **{"share.coordinator.state.topic.num.partitions": "1"})
    node.sync()
    node.broker.create_missing_topics(["t"])
    node.sync()
    key = ShareKey("g", node.broker.image.topics["t"].id, 0)
    node.broker.shares.initialize(key, 1, 5)
    committed = node.broker.shares.committed([key])
    assert not node.broker.metadata.committed().done
    assert not committed.done
    node.sync()
    assert committed.succeeded
    assert node.broker.shares.committed([key]) is DONE


def test_the_commit_of_a_state_is_asked_for_with_its_append(
    broker: LightBroker, host: ShareHost, key: ShareKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another node may take the log over, without the record, while the states of other nodes are waited for."""
    topic_id = broker.add("both", 2)
    elsewhere, here = ShareKey("h", topic_id, 0), ShareKey("h", topic_id, 1)
    told: Future[None] = Future()
    commits: dict[ShareKey, Future[None]] = {}

    def committed(keys: Iterable[ShareKey]) -> Future[None]:
        (asked,) = keys
        return commits.setdefault(asked, Future())

    monkeypatch.setattr(host, "committed", committed)
    monkeypatch.setattr(host, "other_coordinator", lambda key: ANOTHER_NODE if key == elsewhere else None)
    monkeypatch.setattr(host._requests, "ask", lambda *_: told)
    steps = host.initialize_topics("h", 1, {topic_id: ("both", frozenset({0, 1}))}, ())
    assert next(steps) is told
    assert list(commits) == [here]
    assert steps.send(None) is commits[here]
    with pytest.raises(StopIteration) as ended:
        steps.throw(ApiError(ErrorCode.NOT_COORDINATOR))
    assert ended.value.value == {topic_id: ("both", frozenset({0}))}
    for begun in (host.begin(here, 2, 5), host.forget(here)):
        commits.clear()
        assert next(begun) is commits[here]


def test_sessions_end_with_their_connection_at_the_next_deadline(broker: LightBroker, host: ShareHost) -> None:
    connection = broker.context(ApiKey.SHARE_FETCH, 2).connection
    member = ("g", "m")
    host.sessions.open(member, connection.id)
    due = host.next_deadline()
    broker.connection_closed(connection)
    assert (due != 0, host.next_deadline()) == (True, 0)
    host.on_deadline(broker.now)
    with pytest.raises(ApiError) as caught:
        host.sessions.require(member)
    assert caught.value.code is ErrorCode.SHARE_SESSION_NOT_FOUND


def test_states_may_go_while_what_a_member_has_is_released(
    broker: LightBroker, host: ShareHost, key: ShareKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fails while the first release is stored: the leadership of the states goes with it."""
    broker.add("u")
    other = ShareKey("g", broker.image.topics["u"].id, 0)
    host.initialize(other, 1, 0)
    released = []

    def failing(partition: SharePartition, *arguments: object) -> bool:
        released.append(partition)
        broker.elect(SHARE_GROUP_STATE, ANOTHER_NODE)
        raise ApiError(ErrorCode.NOT_COORDINATOR)

    both = [host.partitions.get(each) for each in (key, other)]
    monkeypatch.setattr(SharePartition, "release", failing)
    session = host.sessions.open(("g", "m"), 1)
    for each in (key, other):
        session.add((each.topic_id, each.partition), True)
    host.partitions.release(session, broker.now)
    assert released == both
    assert host.partitions._partitions == {}


def test_what_a_session_has_left_is_not_released_with_it(
    broker: LightBroker, host: ShareHost, key: ShareKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.add("u")
    other = ShareKey("g", broker.image.topics["u"].id, 0)
    host.initialize(other, 1, 0)
    stays, left = (host.partitions.get(each) for each in (key, other))
    released = []
    monkeypatch.setattr(SharePartition, "release", lambda partition, *_: released.append(partition))
    session = host.sessions.open(("g", "m"), 1)
    for each in (key, other):
        session.add((each.topic_id, each.partition), True)
    session.forget((other.topic_id, other.partition))
    host.partitions.release(session, broker.now)
    assert released == [stays]
    assert left is not stays


def test_a_log_that_can_not_be_tidied_yet_does_not_keep_the_others_from_it(
    broker: LightBroker, host: ShareHost, key: ShareKey
) -> None:
    topic_id = broker.add("many", 8)
    keys = [key, *(ShareKey("g", topic_id, index) for index in range(8))]
    for one in keys:
        host.initialize(one, 2, 5)
        host.write(one, 2, 0, Change(6, 0, []), broker.now)
    index = host._index_of(key)
    logs = {number: broker.partition_log(SHARE_GROUP_STATE, number) for number in range(2)}
    before = {number: log.log_end_offset for number, log in logs.items()}
    start = logs[index].log_start_offset
    broker.change(SHARE_GROUP_STATE, index, replicas=[1, 2], isr=[1, 2])  # the other replica never fetches
    host.write(key, 2, 0, Change(7, 0, []), broker.now)
    due = host._tidy_at
    assert due is not None
    broker.now = due
    host.on_deadline(due)
    assert host._needed_from()[index] > logs[index].high_watermark, "its snapshots are not committed"
    assert logs[index].log_start_offset == start < logs[index].high_watermark == before[index]
    assert logs[1 - index].log_start_offset == before[1 - index] < logs[1 - index].log_end_offset
    assert start_of(host, key) == 7
    needed = host._needed_from()[index]
    broker.partition(SHARE_GROUP_STATE, index).fetched_by(ANOTHER_NODE, logs[index].log_end_offset, broker.now)
    assert logs[index].log_start_offset == needed


def test_states_are_tidied_between_requests(broker: LightBroker, host: ShareHost, key: ShareKey) -> None:
    topic_id = broker.add("many", 40)
    keys = [ShareKey("g", topic_id, index) for index in range(40)]
    for one in keys:
        host.initialize(one, 1, 5)
        host.write(one, 1, 0, Change(6, 0, []), broker.now)
    later: list[Any] = []
    broker.services.slices._later = later.append
    assert host._tidy_at is not None
    broker.now = host._tidy_at
    host.on_deadline(broker.now)
    host.write(keys[-1], 1, 0, Change(9, 0, []), broker.now)
    assert later, "many snapshots are written in slices"
    while later:
        later.pop()()
    assert start_of(host, keys[-1]) == 9
    assert all(not host.coordinator.states[one].updates for one in keys[:-1])


def test_a_share_partition_is_made_anew_in_each_leader_epoch(
    broker: LightBroker, host: ShareHost, key: ShareKey
) -> None:
    made = host.partitions.get(key)
    assert host.partitions.get(key) is made
    broker.elect("t", 1)
    again = host.partitions.get(key)
    assert again is not made
    assert host.partitions.get(key) is again
    broker.elect("t", ANOTHER_NODE)
    with pytest.raises(ApiError) as caught:
        host.partitions.get(key)
    assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_partition_that_another_node_leads_has_no_locks_here(
    broker: LightBroker, host: ShareHost, key: ShareKey, caplog: pytest.LogCaptureFixture
) -> None:
    made = host.partitions.get(key)
    made.acquire("m", [LogBatch(5, 6)], 10, 10, False, host.partitions.limits("g"), broker.now)
    host.partitions.acquired(made)
    broker.elect("t", ANOTHER_NODE)
    host.on_deadline(broker.now + 3_600_000)
    assert host.partitions._partitions == {}
    assert "nothing is released" not in caplog.text


@pytest.mark.parametrize(("release", "start"), [("", 0), ("4.3", UNINITIALIZED), ("4.4", 0)])
def test_where_a_group_begins_in_a_partition_that_comes_later(tmp_path: Path, release: str, start: int) -> None:
    """Begin where a running 4.3.1 and a running 4.4.0 begin, whatever share.auto.offset.reset says."""
    nodes = Neighbourhood(tmp_path, brokers=1, pykafka_emulate=release)
    nodes.add(CONSUMER_OFFSETS, 1)
    topic_id = nodes.add("t", 1)
    joined = nodes.call(1, ShareGroupHeartbeatRequest("g", "m", 0, None, ["t"]), 1)
    grown = PartitionRecord(1, topic_id, [1], [1], leader=1, leader_epoch=0, partition_epoch=0)
    nodes.commit(1, [ApiMessageAndVersion(grown, 0)])
    assert not nodes.call(1, ShareGroupHeartbeatRequest("g", "m", joined.member_epoch), 1).error_code
    shares = nodes[1].shares
    assert [start_of(shares, ShareKey("g", topic_id, index)) for index in (0, 1)] == [UNINITIALIZED, start]
