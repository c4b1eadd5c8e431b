"""One partition: its role and epochs, who is in sync, what is committed and who waits for that."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.broker.partitions.fetch_session import FetchSession, SessionWatch
from pykafka_broker.broker.partitions.partition import NotLeader, Partition
from pykafka_broker.broker.waiting.future import Future
from pykafka_broker.cluster.image import PartitionImage
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.errors import ApiError
from pykafka_broker.log.manager import LogManager
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.stored.remove_topic_record import RemoveTopicRecord
from tests.broker.support import ANOTHER_NODE, NOW, LightBroker, batch

THIRD_NODE = 3


class Heard:
    """The results that one waiter was told."""

    def __init__(self) -> None:
        self.told: list[ErrorCode | None] = []
        self.error: ApiError | None = None

    def __call__(self, future: Future[None]) -> None:
        assert future.error is None or isinstance(future.error, ApiError)
        self.error = future.error
        self.told.append(None if self.error is None else self.error.code)


class Wishes:
    """A list of the submitted ISRs, in the place of a manager."""

    max_lag_ms = 30_000
    fetch_wait_ms = 500

    def __init__(self) -> None:
        self.submitted: list[tuple[int, ...] | None] = []

    def may_join(self, node_id: int, broker_epoch: int, directory_id: bytes) -> bool:
        return True

    def submit_isr(self, partition: Partition) -> None:
        assert partition.followers is not None
        self.submitted.append(partition.followers.proposed_isr)


@pytest.fixture
def broker(tmp_path: Path) -> LightBroker:
    return LightBroker(tmp_path)


@pytest.fixture
def alone(broker: LightBroker) -> Partition:
    broker.add("t")
    return broker.partition("t", 0)


@pytest.fixture
def pair(broker: LightBroker) -> Partition:
    """A partition that this node leads, with another replica in sync."""
    broker.add("t", replicas=(1, 2), isr=(1, 2))
    return broker.partition("t", 0)


def append(partition: Partition, count: int = 1) -> int:
    """Append `count` records and return the end offset."""
    return partition.append(batch(*[b"v"] * count), NOW).last_offset + 1


def wait(when: Callable[[int], Future[None]], offset: int) -> Heard:
    heard = Heard()
    when(offset).add_done_callback(heard)
    return heard


@pytest.fixture
def unsynced(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Configs of a topic whose records are there for good when `PartitionLog.synced_to` says so, not before."""
    monkeypatch.setattr(LogManager, "must_sync", lambda *arguments: None)
    return {"flush_messages": "1"}


# -- committed


def test_alone_what_is_appended_is_committed(alone: Partition) -> None:
    end = append(alone)
    assert alone.high_watermark == end == 1
    assert alone.committed(end).done
    assert not alone.committed(end + 1).done
    assert wait(alone.committed, end).told == [None]


def test_a_follower_that_has_never_fetched_holds_the_high_watermark(pair: Partition) -> None:
    end = append(pair)
    assert pair.high_watermark == 0
    assert wait(pair.durable, end).told == [None], "this replica has it"
    heard = wait(pair.committed, end)
    assert heard.told == []
    pair.fetched_by(ANOTHER_NODE, 0, NOW)
    assert heard.told == []
    pair.fetched_by(ANOTHER_NODE, end, NOW)
    assert (heard.told, pair.high_watermark) == ([None], end)


def test_the_slowest_in_sync_counts_and_no_other(broker: LightBroker) -> None:
    broker.add("t", replicas=(1, 2, 3), isr=(1, 2))
    partition = broker.partition("t", 0)
    append(partition, 5)
    partition.fetched_by(ANOTHER_NODE, 3, NOW)
    partition.fetched_by(THIRD_NODE, 1, NOW)
    assert partition.high_watermark == 3


def test_the_high_watermark_never_goes_back(pair: Partition) -> None:
    append(pair, 5)
    pair.fetched_by(ANOTHER_NODE, 4, NOW)
    pair.fetched_by(ANOTHER_NODE, 1, NOW)
    assert pair.high_watermark == 4


def test_a_follower_ahead_commits_nothing_that_is_not_durable_here(
    broker: LightBroker, unsynced: dict[str, Any]
) -> None:
    broker.add("t", replicas=(1, 2), isr=(1, 2), **unsynced)
    pair = broker.partition("t", 0)
    end = append(pair)
    durable, committed = wait(pair.durable, end), wait(pair.committed, end)
    pair.fetched_by(ANOTHER_NODE, end, NOW)
    assert (pair.high_watermark, durable.told, committed.told) == (0, [], [])
    pair.log.synced_to(end, NOW)
    assert (pair.high_watermark, durable.told, committed.told) == (end, [None], [None])


def test_whoever_leaves_the_isr_is_not_waited_for_any_more(broker: LightBroker, pair: Partition) -> None:
    heard = wait(pair.committed, append(pair))
    broker.change("t", isr=[1])
    assert (heard.told, pair.high_watermark, pair.leader_epoch) == ([None], 1, 0)
    append(pair)
    assert pair.high_watermark == 2


def test_whoever_joins_the_isr_is_waited_for(broker: LightBroker) -> None:
    broker.add("t", replicas=(1, 2))
    partition = broker.partition("t", 0)
    append(partition)
    broker.change("t", isr=[1, 2])
    append(partition)
    assert partition.high_watermark == 1
    partition.fetched_by(ANOTHER_NODE, 2, NOW)
    assert partition.high_watermark == 2


# -- waiters


def test_each_waiter_hears_when_its_own_offset_is_reached(pair: Partition) -> None:
    append(pair, 3)
    heard = [wait(pair.committed, offset) for offset in (1, 2, 3)]
    pair.fetched_by(ANOTHER_NODE, 2, NOW)
    assert [one.told for one in heard] == [[None], [None], []]


def test_an_append_looks_at_none_of_those_who_wait(pair: Partition, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a thousand producers a look at all of them would take ten times as long as the append."""
    heard = [wait(pair.committed, append(pair)) for _ in range(3)]
    looks: list[object] = []
    monkeypatch.setattr(Partition, "_is_there", lambda partition, waiting: looks.append(waiting))
    append(pair)
    assert not looks
    monkeypatch.undo()
    pair.fetched_by(ANOTHER_NODE, 3, NOW)
    assert [each.told for each in heard] == [[None]] * 3


def test_a_waiter_may_append_and_wait_again(pair: Partition) -> None:
    later = Heard()

    def go_on(future: Future[None]) -> None:
        assert future.succeeded
        pair.committed(append(pair)).add_done_callback(later)

    pair.committed(append(pair)).add_done_callback(go_on)
    second = wait(pair.committed, 1)
    pair.fetched_by(ANOTHER_NODE, 1, NOW)
    assert (second.told, later.told) == ([None], [])
    pair.fetched_by(ANOTHER_NODE, 2, NOW)
    assert (second.told, later.told) == ([None], [None])


def test_a_waiter_that_raises_keeps_no_other_waiting(
    broker: LightBroker, pair: Partition, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(future: Future[None]) -> None:
        raise ValueError("a defect of one who waits")

    broker.add("u", replicas=(1, 2), isr=(1, 2))
    ends = [append(pair), append(broker.partition("u", 0))]
    pair.committed(ends[0]).add_done_callback(broken)
    heard = [wait(pair.committed, ends[0]), wait(broker.partition("u", 0).committed, ends[1])]
    records = [RemoveTopicRecord(broker.image.topics[name].id) for name in "tu"]
    broker.commit_metadata([ApiMessageAndVersion(record, 0) for record in records])
    assert [one.told for one in heard] == [[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]] * 2
    assert not [key for key in broker.logs.partitions() if key[0] in "tu"]
    assert "a defect of one who waits" in caplog.text


def test_a_waiter_that_is_forgotten_hears_nothing(broker: LightBroker, pair: Partition) -> None:
    end = append(pair)
    given_up, patient = pair.committed(end), wait(pair.committed, end)
    given_up.add_done_callback(heard := Heard())
    given_up.cancel()
    broker.change("t", isr=[1])
    assert (heard.told, patient.told) == ([], [None])


def test_what_can_not_be_counted_on_is_told_to_those_who_wait_for_it(pair: Partition) -> None:
    append(pair, 4)
    kept, gone = wait(pair.committed, 2), wait(pair.committed, 3)
    pair.fail(ApiError(ErrorCode.KAFKA_STORAGE_ERROR), 2)
    assert (kept.told, gone.told) == ([], [ErrorCode.KAFKA_STORAGE_ERROR])
    pair.fetched_by(ANOTHER_NODE, 4, NOW)
    assert (kept.told, gone.told) == ([None], [ErrorCode.KAFKA_STORAGE_ERROR])


def test_waiters_are_told_who_leads_now(broker: LightBroker, pair: Partition) -> None:
    end = append(pair)
    heard = wait(pair.committed, end)
    broker.change("t", leader=ANOTHER_NODE)
    assert heard.told == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert isinstance(heard.error, NotLeader)
    assert (heard.error.leader, heard.error.leader_epoch) == (ANOTHER_NODE, 1)
    assert wait(pair.committed, end).told == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_what_is_committed_stays_so_without_leadership(broker: LightBroker, alone: Partition) -> None:
    end = append(alone)
    broker.change("t", leader=ANOTHER_NODE)
    assert wait(alone.committed, end).told == [None]


def test_the_end_of_a_partition_is_told_to_all(pair: Partition) -> None:
    heard = [wait(pair.committed, append(pair)) for _ in range(2)]
    pair.close(ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert [one.told for one in heard] == [[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]] * 2
    assert not pair.is_leader


# -- role and epochs


def test_a_new_epoch_is_written_into_batches(broker: LightBroker, alone: Partition) -> None:
    append(alone)
    broker.elect_again("t", 2)
    append(alone)
    assert (alone.leader_epoch, alone.log.epochs.epoch_at(0), alone.log.epochs.epoch_at(1)) == (2, 0, 2)


def test_what_a_crash_has_left_to_a_leader_is_the_partition(broker: LightBroker, alone: Partition) -> None:
    """Followers copy the log of the leader, so a later leader has no more."""
    alone.log.gap = 0
    broker.change("t", 0, leader=1)
    assert alone.log.gap is None


def test_an_epoch_that_is_not_ours_is_refused(broker: LightBroker, alone: Partition) -> None:
    broker.elect_again("t", 2)
    alone.check_epoch(2)
    alone.check_epoch(-1)
    for epoch, code in ((1, ErrorCode.FENCED_LEADER_EPOCH), (3, ErrorCode.UNKNOWN_LEADER_EPOCH)):
        with pytest.raises(ApiError) as caught:
            alone.check_epoch(epoch)
        assert caught.value.code is code


def test_a_new_epoch_forgets_how_far_followers_were(broker: LightBroker, pair: Partition) -> None:
    append(pair, 2)
    pair.fetched_by(ANOTHER_NODE, 2, NOW)
    broker.change("t", leader=1)
    append(pair)
    assert pair.high_watermark == 2
    pair.fetched_by(ANOTHER_NODE, 1, NOW)
    assert pair.high_watermark == 2
    pair.fetched_by(ANOTHER_NODE, 3, NOW)
    assert pair.high_watermark == 3


def test_an_isr_of_the_same_epoch_keeps_how_far_followers_were(broker: LightBroker) -> None:
    broker.add("t", replicas=(1, 2, 3), isr=(1, 2, 3))
    partition = broker.partition("t", 0)
    append(partition, 2)
    partition.fetched_by(ANOTHER_NODE, 2, NOW)
    broker.change("t", isr=[1, 2])
    assert partition.high_watermark == 2


def test_what_is_heard_late_is_passed_over(broker: LightBroker, pair: Partition) -> None:
    older = pair.state
    broker.change("t", leader=1, isr=[1])
    pair.update(older, NOW)
    assert (pair.isr, pair.leader_epoch) == ((1,), 1)


def test_without_leadership_a_sync_commits_nothing(broker: LightBroker, unsynced: dict[str, Any]) -> None:
    broker.add("t", replicas=(1, 2), **unsynced)
    partition = broker.partition("t", 0)
    end = append(partition)
    broker.change("t", leader=ANOTHER_NODE)
    partition.log.synced_to(end, NOW)
    assert partition.high_watermark == 0, "only its leader knows what the others have"


# -- min.insync.replicas


@pytest.mark.parametrize(("isr", "wanted", "enough"), [((1,), 1, True), ((1,), 2, False), ((1, 2), 2, True)])
def test_min_insync_replicas(broker: LightBroker, isr: tuple[int, ...], wanted: int, enough: bool) -> None:
    broker.add("t", replicas=(1, 2), isr=isr)
    partition = broker.partition("t", 0)
    if enough:
        partition.check_insync(wanted)
    else:
        with pytest.raises(ApiError) as caught:
            partition.check_insync(wanted)
        assert caught.value.code is ErrorCode.NOT_ENOUGH_REPLICAS


def test_no_more_are_wanted_than_there_are(alone: Partition) -> None:
    alone.check_insync(3)


# -- followers


def test_a_stranger_may_not_fetch_as_a_follower(pair: Partition) -> None:
    with pytest.raises(ApiError) as caught:
        pair.fetched_by(THIRD_NODE, 0, NOW)
    assert caught.value.code is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_broker_that_was_here_with_a_newer_epoch_may_not_fetch(pair: Partition) -> None:
    pair.fetched_by(ANOTHER_NODE, 0, NOW, broker_epoch=7)
    with pytest.raises(ApiError) as caught:
        pair.fetched_by(ANOTHER_NODE, 0, NOW, broker_epoch=6)
    assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    pair.fetched_by(ANOTHER_NODE, 0, NOW)  # older versions of Fetch carry none
    with pytest.raises(ApiError):
        pair.fetched_by(ANOTHER_NODE, 0, NOW, broker_epoch=6)


@pytest.mark.parametrize("leader", [1, ANOTHER_NODE])
def test_a_follower_that_waits_is_answered_when_the_leaders_epoch_ends(
    broker: LightBroker, pair: Partition, leader: int
) -> None:
    watch = SessionWatch(FetchSession(1, NOW, {}, uses_topic_ids=False, privileged=True), lambda key: None)
    pair.fetched_by(ANOTHER_NODE, 0, NOW, watch=(watch, ("t", 0)))
    assert not watch
    broker.change("t", leader=leader)
    assert watch.take() == [("t", 0)]


def test_nothing_is_committed_below_min_insync_replicas(broker: LightBroker) -> None:
    broker.add("t", replicas=(1, 2), isr=(1, 2), min_insync_replicas="2")
    pair = broker.partition("t", 0)
    heard = wait(pair.committed, append(pair))
    broker.change("t", isr=[1])
    append(pair)
    assert (pair.high_watermark, heard.told) == (0, []), "KIP-966"
    broker.change("t", isr=[1, 2])
    pair.fetched_by(ANOTHER_NODE, 2, NOW)
    assert (pair.high_watermark, heard.told) == (2, [None])


def test_who_keeps_up_counts_without_being_in_sync(broker: LightBroker) -> None:
    broker.add("t", replicas=(1, 2))
    partition = broker.partition("t", 0)
    end = append(partition)
    assert partition.high_watermark == end
    partition.fetched_by(ANOTHER_NODE, end, NOW)
    append(partition)
    assert partition.high_watermark == end, "it would be lost with this node if the other one is in sync by then"
    partition.fetched_by(ANOTHER_NODE, end + 1, NOW)
    assert partition.high_watermark == end + 1
    append(partition)
    partition.review_isr(NOW + 29_999)
    assert partition.high_watermark == end + 1
    partition.review_isr(NOW + 30_001)
    assert partition.high_watermark == end + 2, "it has fallen behind"


def test_a_new_leader_begins_with_what_it_knew_as_a_follower(broker: LightBroker) -> None:
    broker.add("t", replicas=(1, 2), isr=(1, 2), leader=ANOTHER_NODE)
    partition = broker.services.replicas.replica("t", 0)
    partition.log.append_fetched(batch(b"a", b"b"), NOW)
    partition.know_committed(1)
    assert partition.high_watermark == 1
    broker.change("t", leader=1)
    assert partition.high_watermark == 1
    partition.fetched_by(ANOTHER_NODE, 1, NOW)
    assert partition.high_watermark == 1
    partition.fetched_by(ANOTHER_NODE, 2, NOW)
    assert partition.high_watermark == 2


def test_nobody_joins_without_what_was_there_when_the_leader_began(broker: LightBroker) -> None:
    broker.add("t", replicas=(1, 2), isr=(1,), leader=ANOTHER_NODE, min_insync_replicas="2")
    log = broker.services.replicas.replica("t", 0).log
    log.append_fetched(batch(b"a", b"b", b"c"), NOW)
    replication = Wishes()
    state = PartitionImage(1, (1, 2), (1,), 1)
    partition = Partition(log, state, 1, lambda _: None, NOW, replication)
    partition.fetched_by(ANOTHER_NODE, 2, NOW)
    assert (partition.high_watermark, replication.submitted) == (0, [])
    partition.fetched_by(ANOTHER_NODE, 3, NOW)
    assert replication.submitted == [(1, 2)]


def test_an_append_is_not_committed_without_a_follower_that_the_controller_may_have_taken_in(
    broker: LightBroker,
) -> None:
    broker.add("t", replicas=(1, 2), leader=ANOTHER_NODE)
    log, replication = broker.services.replicas.replica("t", 0).log, Wishes()
    partition = Partition(log, PartitionImage(1, (1, 2), (1,), 1), 1, lambda _: None, NOW, replication)
    partition.fetched_by(ANOTHER_NODE, append(partition), NOW)
    assert (partition.high_watermark, replication.submitted) == (1, [(1, 2)])
    append(partition)
    partition.review_isr(NOW + 30_001)  # the follower has fallen behind, and the controller has not answered
    append(partition)
    assert partition.high_watermark == 1


def test_a_follower_knows_no_more_committed_than_it_has(broker: LightBroker) -> None:
    broker.add("t", replicas=(1, 2), isr=(1, 2), leader=ANOTHER_NODE)
    partition = broker.services.replicas.replica("t", 0)
    partition.log.append_fetched(batch(b"a"), NOW)
    partition.know_committed(9)
    assert partition.high_watermark == 1
    partition.know_committed(0)
    assert partition.high_watermark == 1


def test_requests_that_watch_it_are_woken(broker: LightBroker, pair: Partition) -> None:
    woken: list[object] = []
    pair._touch = woken.append
    append(pair)
    pair.fetched_by(ANOTHER_NODE, 1, NOW)
    pair.close(ApiError(ErrorCode.KAFKA_STORAGE_ERROR))
    assert woken == [pair] * 3


def test_a_text_names_it(pair: Partition) -> None:
    assert repr(pair) == "Partition(t-0, leader 1, epoch 0)"
