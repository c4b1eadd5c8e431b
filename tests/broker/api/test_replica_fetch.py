"""A leader's answers to its followers, and the positions that it learns from their fetches."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka_broker.broker.api.fetch import fetch
from pykafka_broker.broker.broker import add_replication
from pykafka_broker.broker.waiting.future import Parked
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from pykafka_broker.protocol.messages.fetch_response import FetchResponse, PartitionData
from tests.broker.support import ANOTHER_NODE, NOW, LightBroker, batch

VERSION = 18
THIRD_NODE = 3
BIG = 1 << 20


class Follower:
    """Another node that fetches from node 1 in a session, when the test says so."""

    def __init__(
        self, broker: LightBroker, topic_id: bytes, node_id: int = ANOTHER_NODE, broker_epoch: int = 5
    ) -> None:
        self.broker, self.topic_id = broker, topic_id
        self.state = ReplicaState(node_id, broker_epoch)
        self.session = 0, 0
        self.parked: Parked | None = None

    def request(self, offset: int | None, last_epoch: int = -1, leader_epoch: int = 0, start: int = 0) -> FetchRequest:
        topics = []
        if offset is not None:
            wanted = FetchPartition(0, leader_epoch, offset, last_epoch, start, BIG)
            topics = [FetchTopic(topic_id=self.topic_id, partitions=[wanted])]
        request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=BIG, topics=topics, replica_state=self.state)
        request.session_id, request.session_epoch = self.session
        return request

    def ask(
        self, offset: int | None, last_epoch: int = -1, leader_epoch: int = 0, start: int = 0
    ) -> FetchResponse | None:
        """Send a fetch and return its answer, None if the answer has to wait."""
        request = self.request(offset, last_epoch, leader_epoch, start)
        found = fetch(self.broker.services, self.broker.context(ApiKey.FETCH, VERSION), request)
        if isinstance(found, Parked):
            self.broker.purgatory.park(found)
            self.parked = found
            return None
        assert isinstance(found, FetchResponse)
        return self.take(found)

    def take(self, response: FetchResponse) -> FetchResponse:
        response.write(VERSION, lambda piece: None)
        if response.session_id:
            self.session = response.session_id, self.session[1] + 1
        return response

    def settled(self) -> FetchResponse | None:
        """Return the answer to the fetch that waits, None if there is no answer yet."""
        self.broker.settle(NOW)
        assert self.parked is not None
        return self.take(self.parked.result()) if self.parked.done else None


def only(response: FetchResponse | None) -> PartitionData:
    assert response is not None
    (topic,) = response.responses
    (data,) = topic.partitions
    return data


@pytest.fixture
def broker(tmp_path: Path) -> LightBroker:
    return LightBroker(tmp_path)


@pytest.fixture
def follower(broker: LightBroker) -> Follower:
    return Follower(broker, broker.add("t", replicas=(1, 2), isr=(1, 2)))


def append(broker: LightBroker, count: int = 1) -> None:
    broker.partition("t", 0).append(batch(*[b"v"] * count), NOW)


def test_a_follower_reads_what_nobody_has_committed(broker: LightBroker, follower: Follower) -> None:
    append(broker, 3)
    data = only(follower.ask(0))
    assert (data.error_code, data.high_watermark, len(data.records) > 0) == (0, 0, True)


def test_by_asking_it_says_what_it_has(broker: LightBroker, follower: Follower) -> None:
    append(broker, 3)
    only(follower.ask(0))
    data = only(follower.ask(3))
    assert (data.high_watermark, len(data.records)) == (3, 0), "told at once, since it has moved"
    assert broker.partition("t", 0).high_watermark == 3
    assert follower.ask(None) is None, "there is nothing more to tell"


def test_new_records_and_new_commits_wake_it(broker: LightBroker) -> None:
    topic_id = broker.add("t", replicas=(1, 2, 3), isr=(1, 2, 3))
    second, third = Follower(broker, topic_id), Follower(broker, topic_id, THIRD_NODE)
    for each in (second, third):
        assert each.ask(0) is None
    append(broker)
    assert all(len(only(each.settled()).records) for each in (second, third))
    assert second.ask(1) is None
    assert only(third.ask(1)).high_watermark == 1
    data = only(second.settled())
    assert (data.high_watermark, len(data.records)) == (1, 0)


def test_a_new_log_start_wakes_it(broker: LightBroker, follower: Follower) -> None:
    append(broker, 3)
    only(follower.ask(3))
    assert follower.ask(None) is None
    partition = broker.partition("t", 0)
    partition.log.delete_records_before(2)
    partition.moved()
    assert only(follower.settled()).log_start_offset == 2
    assert follower.ask(None) is None, "it has been told"


def test_records_without_room_in_an_answer_are_in_the_next(broker: LightBroker) -> None:
    follower = Follower(broker, broker.add("t", 2, replicas=(1, 2), isr=(1, 2)))
    for index in range(2):
        broker.partition("t", index).append(batch(b"v"), NOW)
    found = []
    for offset, others in ((0, [FetchPartition(1, 0, 0, -1, 0, BIG)]), (1, [])):
        request = follower.request(offset)
        request.topics[0].partitions += others
        request.max_bytes = 1
        answer = fetch(broker.services, broker.context(ApiKey.FETCH, VERSION), request)
        assert isinstance(answer, FetchResponse)
        (topic,) = follower.take(answer).responses
        found.append([each.partition_index for each in topic.partitions if len(each.records)])
    assert found == [[0], [1]]


def test_one_that_waits_hears_of_records_once(broker: LightBroker, follower: Follower) -> None:
    assert follower.ask(0) is None
    progress = broker.partition("t", 0).followers
    assert progress is not None
    known = progress.get(ANOTHER_NODE)
    assert known is not None
    broker.now = NOW + 100
    append(broker)
    only(follower.settled())
    assert (known.fetched_ms, known.leader_end_at_fetch) == (NOW, 0), "what it has it said when it asked"


def test_the_answer_that_opens_a_session_names_all_partitions(broker: LightBroker) -> None:
    """A follower of Kafka's believes no other, and would open one session after the other."""
    topic_id = broker.add("t", 2, replicas=(1, 2), isr=(1, 2))
    follower = Follower(broker, topic_id)
    request = follower.request(0)
    request.topics[0].partitions.append(FetchPartition(1, 0, 0, -1, 0, BIG))
    parked = fetch(broker.services, broker.context(ApiKey.FETCH, VERSION), request)
    assert isinstance(parked, Parked)
    assert parked.poll is not None
    assert parked.poll(NOW) is None
    assert parked.expire is not None
    response = parked.expire(NOW + 500)
    assert response.session_id
    assert [[each.partition_index for each in topic.partitions] for topic in response.responses] == [[0, 1]]


def test_a_request_of_long_ago_takes_nothing_from_the_session_in_use(broker: LightBroker, follower: Follower) -> None:
    """A fetch still on its way when its connection ended comes after the first fetches of the next connection."""
    append(broker, 3)
    late = follower.request(0)
    assert only(follower.ask(3, 0)).records == b""
    assert fetch(broker.services, broker.context(ApiKey.FETCH, VERSION), late)
    append(broker)
    data = only(follower.ask(None))
    assert data.records
    followers = broker.partition("t", 0).followers
    assert followers is not None
    known = followers.get(ANOTHER_NODE)
    assert known is not None
    assert known.log_end_offset == 3


@pytest.mark.parametrize("node_id", [THIRD_NODE, 1])
@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (0, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (-2, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_who_is_no_replica_is_told_so(
    broker: LightBroker, follower: Follower, node_id: int, epoch: int, code: ErrorCode
) -> None:
    """Answers of Kafka 4.4.0, which names the leader where the request names no leader epoch."""
    append(broker)
    data = only(Follower(broker, follower.topic_id, node_id).ask(0, leader_epoch=epoch))
    assert (data.error_code, len(data.records)) == (code, 0)
    assert (data.current_leader.leader_id == 1) == (epoch < 0)


def test_a_broker_that_was_there_with_a_newer_epoch_is_refused(broker: LightBroker, follower: Follower) -> None:
    append(broker)
    only(follower.ask(0))
    data = only(Follower(broker, follower.topic_id, broker_epoch=4).ask(1))
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert broker.partition("t", 0).high_watermark == 0


def test_a_session_tells_of_idle_partitions_in_whose_epoch_its_broker_asks(
    broker: LightBroker, follower: Follower
) -> None:
    append(broker)
    only(follower.ask(0))
    follower.state = ReplicaState(ANOTHER_NODE, 6)
    follower.ask(None)
    followers = broker.partition("t", 0).followers
    assert followers is not None
    known = followers.get(ANOTHER_NODE)
    assert known is not None
    assert known.broker_epoch == 6


@pytest.mark.parametrize(("epoch", "code"), [(1, ErrorCode.FENCED_LEADER_EPOCH), (3, ErrorCode.UNKNOWN_LEADER_EPOCH)])
def test_another_epoch_than_the_leaders_is_refused(
    broker: LightBroker, follower: Follower, epoch: int, code: ErrorCode
) -> None:
    broker.elect_again("t", 2)
    assert only(follower.ask(0, leader_epoch=epoch)).error_code == code


def test_who_does_not_lead_serves_no_follower(broker: LightBroker, follower: Follower) -> None:
    add_replication(broker.whole)
    broker.change("t", leader=ANOTHER_NODE)
    data = only(follower.ask(0, leader_epoch=1))
    assert (data.error_code, data.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, ANOTHER_NODE)


def test_another_history_is_told_where_it_parts(broker: LightBroker, follower: Follower) -> None:
    append(broker, 2)
    broker.elect_again("t", 1)
    append(broker, 2)
    data = only(follower.ask(5, last_epoch=0, leader_epoch=1))
    assert (data.error_code, data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (0, 0, 2)
    assert broker.partition("t", 0).high_watermark == 0, "an offset of another history says nothing"


def test_beyond_the_end_is_another_history_too(broker: LightBroker, follower: Follower) -> None:
    append(broker, 2)
    data = only(follower.ask(9, last_epoch=0))
    assert (data.error_code, data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (0, 0, 2)
    assert only(follower.ask(9)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert broker.partition("t", 0).high_watermark == 0


def test_what_is_committed_is_told_again_after_histories_parted(broker: LightBroker, follower: Follower) -> None:
    append(broker, 2)
    only(follower.ask(2))
    assert only(follower.ask(9, last_epoch=0)).diverging_epoch.end_offset == 2
    assert only(follower.ask(2, last_epoch=0)).high_watermark == 2


def test_below_the_start_is_out_of_range(broker: LightBroker, follower: Follower) -> None:
    append(broker, 4)
    only(follower.ask(4))
    broker.partition("t", 0).log.delete_records_before(3)
    assert only(follower.ask(1, last_epoch=0)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_where_its_log_starts_is_remembered(broker: LightBroker, follower: Follower) -> None:
    append(broker, 4)
    only(follower.ask(4, start=2))
    followers = broker.partition("t", 0).followers
    assert followers is not None
    assert followers.low_watermark(3) == 2


def test_it_needs_the_right_of_a_broker(
    broker: LightBroker, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(broker)
    asked: list[AclOperation] = []

    def allows(context: object, operation: AclOperation, *rest: object) -> bool:
        asked.append(operation)
        return False

    monkeypatch.setattr(broker.services, "allows", allows)
    data = only(follower.ask(0))
    assert (data.error_code, len(data.records)) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0)
    assert asked == [AclOperation.CLUSTER_ACTION]


def test_older_versions_name_the_replica_elsewhere(broker: LightBroker, follower: Follower) -> None:
    append(broker)
    wanted = FetchPartition(0, 0, 1, -1, 0, BIG)
    request = FetchRequest(replica_id=ANOTHER_NODE, max_bytes=BIG, topics=[FetchTopic("t", partitions=[wanted])])
    response = fetch(broker.services, broker.context(ApiKey.FETCH, 12), request)
    assert isinstance(response, FetchResponse)
    assert broker.partition("t", 0).high_watermark == 1


def test_sessions_of_followers_push_out_those_of_clients(tmp_path: Path) -> None:
    broker = LightBroker(tmp_path, max_incremental_fetch_session_cache_slots="1")
    follower = Follower(broker, broker.add("t", replicas=(1, 2), isr=(1, 2)))
    append(broker)
    client = FetchRequest(max_bytes=BIG, session_epoch=0, topics=follower.request(0).topics)
    context = broker.context(ApiKey.FETCH, VERSION)
    first = fetch(broker.services, context, client)
    assert isinstance(first, FetchResponse)
    assert first.session_id
    response = follower.ask(0)
    assert response is not None
    assert response.session_id not in (0, first.session_id)
    again = fetch(broker.services, context, client)
    assert isinstance(again, FetchResponse)
    assert again.session_id == 0, "a follower stays"
