"""Requests of a fetcher to its leader: sessions, pauses, broken connections."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.broker.broker import add_replication
from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.broker.replication.fetcher import FetchOutcome, PartitionFetchState, ReplicaFetcher
from pykafka_broker.broker.replication.node_replication import NodeReplication
from pykafka_broker.broker.replication.throttles import Throttle
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.peers import LinkBroken, LinkFull, OnReply, Peer, Versions
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.fetch_request import FetchRequest
from pykafka_broker.protocol.messages.fetch_response import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from pykafka_broker.protocol.messages.list_offsets_request import ListOffsetsRequest
from pykafka_broker.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.protocol.stored.config_record import ConfigRecord
from tests.broker.support import ANOTHER_NODE, NOW, LightBroker, batch

SESSION = 77
BACKOFF_MS = 1_000


class Line:
    """A connection that remembers its requests; the test answers them."""

    def __init__(self) -> None:
        self.asked: list[FetchRequest] = []
        self.versions: Versions | None = None
        self.full = False
        self.hurried = 0  # number of times an answer was wanted at once
        self._on_reply: OnReply | None = None
        self._on_offset: OnReply | None = None

    def send(
        self,
        request: Message,
        on_reply: OnReply,
        timeout_ms: int,
        *,
        versions: Versions | None = None,
        copied: bool = False,
    ) -> None:
        if self.full:
            raise LinkFull("full")
        if isinstance(request, ApiVersionsRequest):
            self.hurried += 1
            return
        if isinstance(request, ListOffsetsRequest):
            self._on_offset = on_reply
            return
        assert isinstance(request, FetchRequest)
        assert self._on_reply is None, "one at a time"
        self.asked.append(request)
        self.versions, self._on_reply = versions, on_reply

    def withdraw(self, request: Message) -> bool:
        return False

    def served(self, api_key: int) -> Versions | None:
        return None

    def close(self) -> None: ...

    def tell_offset(self, offset: int) -> None:
        """Answer the last ListOffsets."""
        assert self._on_offset is not None
        found = ListOffsetsPartitionResponse(0, offset=offset)
        self._on_offset(ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t", [found])]))

    def answer(self, reply: Any) -> None:
        on_reply, self._on_reply = self._on_reply, None
        assert on_reply is not None
        on_reply(reply)


class Following:
    """Node 1 follows partitions of `t` that node 2 leads."""

    def __init__(self, path: Path, partitions: int = 2, **config: str) -> None:
        self.broker = LightBroker(path, replica_fetch_backoff_ms=str(BACKOFF_MS), **config)
        self.topic_id = self.broker.add("t", partitions, replicas=(1, 2), isr=(1, 2), leader=ANOTHER_NODE)
        self.line = Line()
        self.reachable = True
        self.fetcher = ReplicaFetcher(NodeReplication(self.broker.whole.node), ANOTHER_NODE, self._find)
        self.followed = [PartitionFetchState(self.partition(number)) for number in range(partitions)]
        for each in self.followed:
            self.fetcher.add(each)

    def _find(self) -> Peer | None:
        return self.line if self.reachable else None

    def partition(self, number: int) -> Partition:
        return self.broker.services.replicas.replica("t", number)

    def pass_time(self, ms: int = 0) -> None:
        self.broker.now += ms
        if self.fetcher.due is not None and self.fetcher.due <= self.broker.now:
            self.fetcher.send_next(self.broker.now)

    def answer(self, *data: PartitionData, session: int = SESSION, code: ErrorCode = ErrorCode.NONE) -> None:
        topics = [FetchableTopicResponse(topic_id=self.topic_id, partitions=list(data))] if data else []
        self.line.answer(FetchResponse(error_code=code, session_id=session, responses=topics))

    def pass_in_session(self) -> None:
        """Let the request be answered that takes the first partition out of the session, and the next one name it."""
        assert [topic.partitions for topic in self.last.forgotten_topics_data] == [[0]]
        assert self.last.max_wait_ms == 1, "the leader does not wait with an answer that nobody wants"
        self.broker.now += 1
        self.answer()

    @property
    def last(self) -> FetchRequest:
        return self.line.asked[-1]

    @property
    def named(self) -> dict[int, int]:
        """Return the partitions that the last request names, with their offsets."""
        return {each.partition: each.fetch_offset for topic in self.last.topics for each in topic.partitions}


@pytest.fixture
def following(tmp_path: Path) -> Following:
    following = Following(tmp_path)
    following.pass_time()
    return following


def records(number: int, count: int = 1, *, high_watermark: int = 0, **options: Any) -> PartitionData:
    data = batch(*[b"v"] * count, **options)
    return PartitionData(number, high_watermark=high_watermark, log_start_offset=0, records=data)


def failure(number: int, code: int) -> PartitionData:
    return PartitionData(number, code, high_watermark=-1, records=b"")


def test_a_session_begins_with_all_and_goes_on_with_what_has_changed(following: Following) -> None:
    assert (following.last.session_id, following.last.session_epoch, following.named) == (0, 0, {0: 0, 1: 0})
    assert following.last.replica_state.replica_id == 1
    assert following.line.versions == (18, 18)
    following.answer(records(1, 3))
    assert (following.last.session_id, following.last.session_epoch, following.named) == (SESSION, 1, {1: 3})
    following.answer()
    assert (following.last.session_epoch, following.named) == (2, {})


def test_the_lag_is_what_the_leader_has_committed_and_this_replica_has_not(following: Following) -> None:
    lags = []
    for high_watermark, count in ((10, 3), (10, 4), (8, 1), (2, 1)):
        end = following.partition(0).log.log_end_offset
        following.answer(records(0, count, high_watermark=high_watermark, base_offset=end))
        lags.append(following.followed[0].lag)
    assert lags == [7, 3, 0, 0]


def test_without_a_session_all_are_named_each_time(following: Following) -> None:
    following.answer(records(1), session=0)
    assert (following.last.session_id, following.last.session_epoch, following.named) == (0, 0, {0: 0, 1: 1})


def test_a_session_that_the_leader_has_lost_begins_anew(following: Following) -> None:
    following.answer(records(0))
    following.answer(session=0, code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert (following.last.session_id, following.last.session_epoch, following.named) == (0, 0, {0: 1, 1: 0})
    following.answer(session=0, code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert following.fetcher.due == NOW + BACKOFF_MS, "not again and again"


def test_a_line_that_breaks_is_left_alone_for_a_while(following: Following) -> None:
    following.answer(records(0))
    following.line.answer(LinkBroken("gone"))
    following.pass_time(BACKOFF_MS - 1)
    assert len(following.line.asked) == 2
    following.pass_time(1)
    assert (following.last.session_id, following.last.session_epoch, following.named) == (SESSION, 0, {0: 1, 1: 0})


@pytest.mark.parametrize("trouble", ["full", "nowhere"])
def test_a_request_that_can_not_leave_is_tried_again(tmp_path: Path, trouble: str) -> None:
    following = Following(tmp_path)
    following.line.full, following.reachable = trouble == "full", trouble != "nowhere"
    following.pass_time()
    assert (following.line.asked, following.fetcher.due) == ([], NOW + BACKOFF_MS)
    following.line.full, following.reachable = False, True
    following.pass_time(BACKOFF_MS)
    assert following.named == {0: 0, 1: 0}


def test_a_leader_that_has_come_back_is_not_waited_for(following: Following) -> None:
    following.line.answer(LinkBroken("gone"))
    following.fetcher.hurry()
    following.pass_time()
    assert len(following.line.asked) == 2


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_LEADER_EPOCH, 30_000])  # the second is of a newer Kafka
def test_one_partition_in_trouble_is_taken_out_of_the_session_and_tried_again(following: Following, code: int) -> None:
    following.answer(records(0), failure(1, code))
    assert following.named == {0: 1}
    assert [topic.partitions for topic in following.last.forgotten_topics_data] == [[1]]
    assert following.last.max_wait_ms < 500, "it does not wait longer than the other one"
    following.broker.now += 50
    following.answer()
    assert following.named == {1: 0}


def test_pauses_grow_up_to_the_configured_one(following: Following) -> None:
    pauses = []
    for _ in range(9):
        following.answer(failure(0, ErrorCode.NOT_LEADER_OR_FOLLOWER), failure(1, ErrorCode.NOT_LEADER_OR_FOLLOWER))
        assert following.fetcher.due is not None
        pauses.append(following.fetcher.due - following.broker.now)
        following.pass_time(pauses[-1])
    assert pauses[0] < 100
    assert pauses == sorted(pauses)
    assert pauses[-1] == BACKOFF_MS


def test_another_epoch_is_told_though_no_offset_has_moved(following: Following) -> None:
    following.answer()
    following.broker.change("t", 0, leader=ANOTHER_NODE)
    following.fetcher.add(PartitionFetchState(following.partition(0)))
    following.answer()
    (wanted,) = following.last.topics[0].partitions
    assert (wanted.partition, wanted.current_leader_epoch) == (0, 1)


def test_ends_that_a_leader_tells_of_a_partition_that_is_gone_change_nothing(following: Following) -> None:
    following.answer(failure(0, ErrorCode.OFFSET_OUT_OF_RANGE))
    gone = following.followed[0]
    following.fetcher.remove(gone.key)
    following.line.tell_offset(7)
    assert (gone.log.log_start_offset, gone.log.log_end_offset) == (0, 0)


def test_an_epoch_without_records_does_not_keep_a_partition_apart_for_ever(following: Following) -> None:
    following.answer(records(0, 3, partition_leader_epoch=0))
    following.answer()
    log = following.partition(0).log
    log.epochs.assign(5, 3)  # the disk was full when the first batch of the epoch came, and another node leads since
    following.fetcher.add(PartitionFetchState(following.partition(0)))
    following.answer()
    (wanted,) = following.last.topics[0].partitions
    assert (wanted.fetch_offset, wanted.last_fetched_epoch) == (3, 5)
    parting = EpochEndOffset(epoch=0, end_offset=3)
    following.answer(PartitionData(0, diverging_epoch=parting, high_watermark=3, log_start_offset=0, records=b""))
    (wanted,) = following.last.topics[0].partitions
    assert (wanted.fetch_offset, wanted.last_fetched_epoch) == (3, 0)


def test_an_answer_of_an_older_epoch_is_passed_over(following: Following) -> None:
    following.broker.change("t", 0, leader=ANOTHER_NODE)
    following.fetcher.add(PartitionFetchState(following.partition(0)))
    following.answer(records(0))
    assert following.partition(0).log.log_end_offset == 0
    following.pass_in_session()
    following.answer(records(0))
    assert following.partition(0).log.log_end_offset == 1


def test_an_answer_counts_though_the_log_start_has_moved_meanwhile(following: Following) -> None:
    following.answer(records(0, 3))
    log = following.partition(0).log
    log.advance_high_watermark(3)
    following.answer()
    log.raise_log_start(2)  # the follower's own retention, while a fetch is on its way
    following.answer(records(0, high_watermark=4, base_offset=3))
    assert (log.log_end_offset, log.high_watermark) == (4, 4)
    (wanted,) = following.last.topics[0].partitions
    assert (wanted.fetch_offset, wanted.log_start_offset) == (4, 2)


def test_a_dropped_answer_is_asked_for_in_the_session_anew(following: Following) -> None:
    """A leader tells a session only what has changed, and takes what was dropped for known."""
    following.answer(records(0, 2), records(1, 3))
    log = following.partition(0).log
    following.answer(records(0, base_offset=2))
    log.truncate_or_restart(2, NOW)  # while a fetch is on its way
    following.answer(PartitionData(0, high_watermark=2, records=b""), records(1, base_offset=3))
    assert log.high_watermark == 0, "an answer that is not about the log as it is now is dropped"
    assert following.named == {1: 4}
    following.pass_in_session()
    assert following.named == {0: 2}
    following.answer(records(0, high_watermark=3, base_offset=2))
    assert (log.log_end_offset, log.high_watermark) == (3, 3)


def test_batches_of_a_newer_epoch_than_the_leaders_are_not_taken(following: Following) -> None:
    """The leader was replaced while its answer was on the way out of the log's file, and its log is cut by now."""
    following.answer(records(0, partition_leader_epoch=1), records(1))
    assert [following.partition(number).log.log_end_offset for number in (0, 1)] == [0, 1]
    assert [topic.partitions for topic in following.last.forgotten_topics_data] == [[0]], "it comes after a pause"


def test_records_that_a_crash_may_have_taken_are_fetched_again(following: Following) -> None:
    following.answer(records(0, 3, high_watermark=3))
    following.answer(records(0, base_offset=4, high_watermark=3))
    log = following.partition(0).log
    log.gap = 3  # as after a recovery that finds no batch at offset 3
    following.answer(PartitionData(0, high_watermark=5, log_start_offset=0, records=b""))
    assert (following.named, log.gap, log.high_watermark) == ({0: 3}, None, 3)
    following.answer(records(0, 2, high_watermark=5, base_offset=3))
    assert (log.log_end_offset, log.high_watermark) == (5, 5)


def test_a_gap_below_the_logs_start_leaves_the_start_where_it_is(following: Following) -> None:
    following.answer(records(0, 3, high_watermark=3))
    log = following.partition(0).log
    log.raise_log_start(2)
    log.gap = 1
    following.answer(PartitionData(0, high_watermark=5, log_start_offset=2, records=b""))
    assert (following.named, log.gap, log.log_start_offset) == ({0: 2}, None, 2)


@pytest.mark.parametrize("in_flight", ["an error", "nothing"])
def test_a_log_that_begins_anew_while_its_old_offset_is_fetched(following: Following, in_flight: str) -> None:
    following.answer(failure(0, ErrorCode.OFFSET_OUT_OF_RANGE))
    following.pass_time(50)
    following.answer()
    assert following.named == {0: 0}, "the pause is over: the old offset is fetched again"
    following.line.tell_offset(10)
    if in_flight == "an error":
        following.answer(failure(0, ErrorCode.OFFSET_OUT_OF_RANGE))
        following.pass_in_session()
    else:
        following.answer()
    assert following.named == {0: 10}


def test_a_partition_goes_on_when_the_throttle_lets_it(following: Following, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator may take the limit of the throttle away at any time."""
    held_ms = [3_600_000]
    monkeypatch.setattr(Throttle, "held_ms", lambda *arguments: held_ms[0])
    following.answer(records(0, high_watermark=2))
    assert [topic.partitions for topic in following.last.forgotten_topics_data] == [[0]]
    following.broker.now += 500
    following.answer()
    assert following.named == {}
    held_ms[0] = 0
    following.broker.now += 500
    following.answer()
    assert following.named == {0: 1}


def test_a_throttle_holds_nothing_back_that_has_all(following: Following, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Throttle, "held_ms", lambda *arguments: 3_600_000)
    following.answer(records(0, high_watermark=1))
    assert not following.last.forgotten_topics_data
    assert following.named == {0: 1}


def test_what_is_followed_no_more_is_forgotten(following: Following) -> None:
    following.answer()
    following.fetcher.remove(following.followed[1].key)
    following.answer(records(1))
    assert [topic.partitions for topic in following.last.forgotten_topics_data] == [[1]]
    assert following.partition(1).log.log_end_offset == 0
    following.fetcher.remove(following.followed[0].key)
    following.answer()
    assert (len(following.line.asked), following.fetcher.due) == (3, None)


def test_what_is_lost_with_its_disk_is_forgotten_though_its_answer_is_here(
    following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take_offline(data: PartitionData, wall: int) -> FetchOutcome:
        following.fetcher.remove(following.followed[1].key)
        return FetchOutcome.LATER

    monkeypatch.setattr(PartitionFetchState, "apply", lambda self, data, wall: take_offline(data, wall))
    following.answer(records(1))
    assert [topic.partitions for topic in following.last.forgotten_topics_data] == [[1]]


def test_the_leader_hears_of_records_when_they_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykafka_broker.log.manager.LogManager.must_sync", lambda *arguments: None)
    following = Following(tmp_path, 2, log_flush_interval_messages="1")
    following.pass_time()
    following.answer(records(0))
    assert following.named == {}
    assert [topic.partitions for topic in following.last.forgotten_topics_data] == [[0]]
    assert following.last.max_wait_ms == 20, "it may be synced before a leader of Kafka's has news of the other one"
    log = following.partition(0).log
    log.synced_to(log.log_end_offset, NOW)
    following.fetcher.synced(following.followed[0].key)
    assert following.line.hurried == 1
    following.answer()
    assert following.named == {0: 1}


def test_a_new_partition_does_not_wait_with_the_others_at_the_leader(following: Following) -> None:
    newcomers = [PartitionFetchState(following.partition(number)) for number in (0, 1)]
    following.fetcher.remove(following.followed[1].key)
    following.answer()
    assert following.line.hurried == 0
    for each in newcomers:
        following.fetcher.add(each)
    assert following.line.hurried == 1, "once for all of them"
    following.answer()
    assert following.named == {1: 0}
    following.fetcher.add(newcomers[0])
    assert following.line.hurried == 2


def test_a_leader_that_has_moved_is_not_hurried(following: Following) -> None:
    following.fetcher.hurry()
    assert (following.line.hurried, following.fetcher.due) == (0, None)


def test_one_whose_disk_fails_at_an_answer_is_followed_no_more(
    following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(followed: PartitionFetchState, *_: object) -> FetchOutcome:
        following.fetcher.remove(followed.key)  # all of the directory are let go of before `take` is over
        return FetchOutcome.LATER

    following.answer()
    monkeypatch.setattr(PartitionFetchState, "apply", fail)
    following.answer(records(1))
    assert [topic.partitions for topic in following.last.forgotten_topics_data] == [[1]]
    following.pass_time(BACKOFF_MS)
    assert len(following.fetcher._followed) == 1


def test_as_many_fetchers_follow_as_are_configured_now(tmp_path: Path) -> None:
    broker = LightBroker(tmp_path)
    add_replication(broker.whole)
    broker.add("t", 12, replicas=(1, 2), isr=(1, 2), leader=ANOTHER_NODE)
    replication = broker.services.replicas.replication
    assert isinstance(replication, NodeReplication)

    def followed() -> dict[ReplicaFetcher, set[int]]:
        fetchers = replication.fetchers._fetchers.values()
        found = {fetcher: {each.partition.index for each in fetcher._followed.values()} for fetcher in fetchers}
        return {fetcher: indexes for fetcher, indexes in found.items() if indexes}

    assert len(followed()) == 1
    for count in ("3", "2", "1"):
        record = ConfigRecord(ConfigResourceType.BROKER, "1", "num.replica.fetchers", count)
        broker.commit_metadata([ApiMessageAndVersion(record, 0)])
        assert len(followed()) == int(count)
        assert sorted(index for indexes in followed().values() for index in indexes) == [*range(12)]
