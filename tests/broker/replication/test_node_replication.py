"""Whole brokers replicate: records, commits, ISRs, leaders that change, histories that part."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pykafka_broker.broker.broker import add_replication
from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.broker.waiting.future import PARTITIONS_A_SLICE, Slices
from pykafka_broker.cluster.features import METADATA_VERSION
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.errors import ApiError
from pykafka_broker.log.checkpoints import UNASSIGNED
from pykafka_broker.log.retention import retain
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pykafka_broker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pykafka_broker.protocol.stored.broker_registration_change_record import BrokerRegistrationChangeRecord
from pykafka_broker.protocol.stored.config_record import ConfigRecord
from pykafka_broker.records.header import MAGIC_OFFSET
from tests.broker.replication.replicating import WAIT_MS, Cluster
from tests.broker.support import LightBroker, batch

LAG_MS = 30_000


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def test_what_the_leader_has_the_followers_get_and_all_is_committed(cluster: Cluster) -> None:
    cluster.topic(1, 2, 3)
    cluster.produce(count=3)
    assert cluster.partition_log(1).high_watermark == 0
    cluster.settle()
    assert cluster.ends() == [(3, 3)] * 3, "without anybody's having waited"
    cluster.produce()
    cluster.settle()
    assert cluster.ends() == [(4, 4)] * 3
    assert cluster.content(1) == cluster.content(2) == cluster.content(3)


@pytest.mark.parametrize("level", [7, 9, 10, 19, 21, 27])
def test_replicas_follow_at_every_metadata_version(cluster: Cluster, level: int) -> None:
    for node in cluster.nodes.values():
        node.image.features[METADATA_VERSION] = level
    cluster.topic(1, 2, 3, isr=(1,))
    cluster.produce(count=3)
    cluster.settle()
    assert (cluster.ends(), cluster.replica(1).isr) == ([(3, 3)] * 3, (1, 2, 3))


def test_a_follower_that_is_cut_off_holds_commits_until_it_leaves_the_isr(cluster: Cluster) -> None:
    cluster.topic(1, 2, 3)
    cluster.settle()
    cluster.network.silent = {3}
    end = cluster.produce()
    cluster.settle()
    assert cluster.partition_log(1).high_watermark == 0
    for _ in range(4):
        cluster.wait(LAG_MS // 2)
    assert cluster.replica(1).isr == (1, 2)
    assert cluster.ends(1, 2) == [(end, end)] * 2
    cluster.network.silent = set()
    cluster.wait(1_000)
    assert cluster.replica(1).isr == (1, 2, 3)
    assert cluster.ends() == [(end, end)] * 3


def test_a_follower_that_asks_for_other_partitions_alone_falls_behind(cluster: Cluster) -> None:
    cluster.topic(1, 2, 3)
    cluster.add("u", 1, replicas=(1, 2, 3))
    cluster.change("u", isr=[1, 2, 3])
    cluster.produce()
    cluster.settle()
    assert cluster.ends() == [(1, 1)] * 3
    cluster[3].services.replicas.offline([("t", 0)])
    for _ in range(12):
        cluster.produce()
        cluster[1].partition("u", 0).append(batch(b"v"), cluster.now)
        cluster.wait(LAG_MS // 6)
    [topic] = cluster.asked_isrs[0].topics
    assert [each.broker_id for each in topic.partitions[0].new_isr_with_epochs] == [1, 2]
    assert (topic.topic_id, cluster[1].partition("u", 0).isr) == (cluster[1].image.topics["t"].id, (1, 2, 3))
    assert cluster.ends(1) == [(13, 13)]


def test_a_lagging_follower_counts_until_the_controller_agrees(cluster: Cluster) -> None:
    cluster.topic(1, 2)
    cluster.settle()
    cluster.network.silent = {2}
    cluster.answers = False
    end = cluster.produce()
    for _ in range(4):
        cluster.wait(LAG_MS // 2)
    assert len(cluster.asked_isrs) == 1, "one at a time, however long it takes"
    assert cluster.partition_log(1).high_watermark == 0
    cluster.answer()
    assert (cluster.replica(1).isr, cluster.partition_log(1).high_watermark) == ((1,), end)


def test_a_newcomer_counts_before_the_controller_agrees(cluster: Cluster) -> None:
    cluster.answers = False
    cluster.topic(1, 2, isr=(1,))
    cluster.produce()
    cluster.settle()
    (request,) = cluster.asked_isrs
    members = request.topics[0].partitions[0].new_isr_with_epochs
    epochs = [cluster[1].image.brokers[each].epoch for each in (1, 2)]
    assert [(each.broker_id, each.broker_epoch) for each in members] == [(1, epochs[0]), (2, epochs[1])]
    cluster.network.silent = {2}
    committed = cluster.partition_log(1).high_watermark
    cluster.produce()
    cluster.settle()
    assert cluster.partition_log(1).high_watermark == committed
    cluster.answer()
    assert cluster.replica(1).isr == (1, 2)
    assert cluster.partition_log(1).high_watermark == committed


def test_a_newcomer_that_is_refused_does_not_count(cluster: Cluster) -> None:
    cluster.refuse = ErrorCode.INELIGIBLE_REPLICA
    cluster.topic(1, 2, isr=(1,))
    cluster.network.silent = {2}
    cluster.settle()
    cluster.network.silent = set()
    cluster.answers = False
    cluster.wait(1_000)
    assert cluster.asked_isrs
    cluster.network.silent = {2}
    cluster.answer()
    cluster.wait(LAG_MS)
    end = cluster.produce()
    cluster.wait(LAG_MS)
    assert (cluster.replica(1).isr, cluster.partition_log(1).high_watermark) == ((1,), end)


def test_a_wish_that_was_outdated_is_told_again_when_it_still_holds(cluster: Cluster) -> None:
    cluster.refuse = ErrorCode.INVALID_UPDATE_VERSION
    cluster.topic(1, 2, isr=(1,))
    cluster.settle()
    asked = len(cluster.asked_isrs)
    cluster.wait(1_000)
    assert asked == len(cluster.asked_isrs) == 1, "the metadata is to tell"
    cluster.refuse = ErrorCode.NONE
    cluster.wait(LAG_MS // 2)
    assert cluster.replica(1).isr == (1, 2)


def test_a_broker_that_may_not_join_is_not_wished_for(cluster: Cluster) -> None:
    broker = cluster[1].image.brokers[2]
    broker.fenced = True
    cluster.topic(1, 2, isr=(1,))
    cluster.produce()
    cluster.settle()
    assert cluster.asked_isrs == []
    cluster._introduce(2)
    cluster.wait(WAIT_MS)
    assert cluster.replica(1).isr == (1, 2)


def test_a_partition_that_rests_leaves_no_follower_behind(cluster: Cluster) -> None:
    cluster.topic(1, 2)
    cluster.settle()
    for _ in range(200):
        cluster.wait(WAIT_MS)
    cluster.produce()
    cluster.replica(1).review_isr(cluster.now)
    assert cluster.asked_isrs == [], "it has had all there was until just now"
    cluster.settle()
    assert cluster.ends(1, 2) == [(1, 1)] * 2


def test_another_leader_is_followed_from_then_on(cluster: Cluster) -> None:
    cluster.topic(1, 2, 3)
    cluster.produce(count=2)
    cluster.settle()
    cluster.change("t", leader=2)
    cluster.settle()
    cluster.wait(WAIT_MS)
    cluster.produce(node=2)
    cluster.settle()
    assert cluster.ends() == [(3, 3)] * 3
    assert [log.epochs.entries for log in map(cluster.partition_log, (1, 2, 3))] == [[(0, 0), (1, 2)]] * 3
    assert cluster.content(1) == cluster.content(2) == cluster.content(3)


def test_what_nobody_else_had_is_cut_off(cluster: Cluster) -> None:
    cluster.topic(1, 2, 3)
    cluster.produce(count=2)
    cluster.settle()
    cluster.network.silent = {2, 3}
    cluster.wait(WAIT_MS)
    cluster.produce(count=5)
    assert cluster.ends() == [(7, 2), (2, 2), (2, 2)]
    cluster.change("t", leader=2, isr=[2, 3])
    cluster.network.silent = set()
    cluster.produce(node=2, count=3)
    cluster.wait(WAIT_MS)
    cluster.wait(1_000)
    assert cluster.ends() == [(5, 5)] * 3
    assert cluster.content(1) == cluster.content(2) == cluster.content(3)
    assert cluster.replica(2).isr == (2, 3, 1)


def test_a_follower_without_what_the_leader_begins_with_begins_there_too(cluster: Cluster) -> None:
    cluster.topic(1, 2, isr=(1,))
    cluster.network.silent = {2}
    cluster.settle()
    end = cluster.produce(count=4)
    cluster.partition_log(1).delete_records_before(end)
    cluster.partition_log(1).roll(cluster.now)
    retain(cluster.partition_log(1), cluster.now)
    last = cluster.produce()
    cluster.network.silent = set()
    cluster.wait(1_000)
    cluster.wait(1_000)
    assert cluster.ends(1, 2) == [(last, last)] * 2
    assert cluster.partition_log(2).log_start_offset == end
    assert cluster.content(1) == cluster.content(2)


def test_a_follower_takes_the_batch_that_holds_the_leaders_start(cluster: Cluster) -> None:
    cluster.topic(1, 2, isr=(1,))
    cluster.network.silent = {2}
    cluster.produce(count=4)
    end = cluster.produce(count=20)
    cluster.partition_log(1).delete_records_before(10)
    cluster.network.silent = set()
    cluster.wait(1_000)
    cluster.wait(1_000)
    assert cluster.ends(1, 2) == [(end, end)] * 2
    assert [cluster.partition_log(node).log_start_offset for node in (1, 2)] == [10, 10]
    assert [cluster.partition_log(node).epochs.entries for node in (1, 2)] == [[(0, 10)]] * 2
    assert cluster.content(1) == cluster.content(2)
    assert cluster.replica(1).isr == (1, 2)


def test_a_former_leader_comes_back_into_a_batch_that_holds_the_leaders_start(cluster: Cluster) -> None:
    cluster.topic(1, 2)
    cluster.produce(count=4)
    cluster.settle()
    cluster.network.silent = {2}
    cluster.produce(count=16)  # nobody else has these
    cluster.network.silent = {1}
    cluster.change("t", leader=2, isr=[2])
    end = cluster.produce(node=2, count=20)
    cluster.settle()
    cluster.partition_log(2).delete_records_before(10)
    cluster.network.silent = set()
    for _ in range(4):
        cluster.wait(1_000)
    assert cluster.ends(1, 2) == [(end, end)] * 2
    assert [cluster.partition_log(node).log_start_offset for node in (1, 2)] == [10, 10]
    assert cluster.content(1) == cluster.content(2)
    assert cluster.replica(2).isr == (2, 1)


@pytest.mark.parametrize("end", [2, 40])
def test_a_follower_that_begins_beyond_what_its_leader_has_begins_anew(cluster: Cluster, end: int) -> None:
    cluster.topic(1, 2)
    cluster.produce(count=20)
    cluster.settle()
    cluster.network.silent = {2}
    cluster.produce(count=12)
    for _ in range(4):
        cluster.wait(LAG_MS // 2)
    cluster.partition_log(1).delete_records_before(25)
    cluster.network.silent = {1, 2}
    cluster.partition_log(2).truncate_to(0)  # a disk that was wiped
    cluster.change("t", leader=2, isr=[2])  # an unclean election
    cluster.produce(node=2, count=end)
    cluster.network.silent = set()
    for _ in range(4):
        cluster.wait(1_000)
    assert cluster.ends(1, 2) == [(end, end)] * 2
    assert cluster.content(1) == cluster.content(2)
    assert cluster.replica(2).isr == (2, 1)


def test_the_start_of_the_log_follows_the_leaders(cluster: Cluster) -> None:
    cluster.topic(1, 2)
    cluster.produce(count=4)
    cluster.settle()
    cluster.partition_log(1).delete_records_before(3)
    cluster.produce()
    cluster.settle()
    assert cluster.partition_log(2).log_start_offset == 3
    followers = cluster.replica(1).followers
    assert followers is not None
    cluster.wait(WAIT_MS)
    assert followers.low_watermark(3) == 3


def test_damage_on_the_way_harms_one_partition_and_is_told_once(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.topic(1, 2, isr=(1,))
    cluster.add("u", 1, replicas=(1, 2))
    path = cluster.partition_log(1).segments.active.log
    cluster.network.silent = {2}
    cluster.settle()
    end = cluster.produce()
    handle = path.handle()
    sound = handle.read_at(100, 61)
    handle.write_at(b"\xff", 65)
    cluster.network.silent = set()
    for _ in range(5):
        cluster.wait(1_000)
    told = [each.getMessage() for each in caplog.records if "can't be followed" in each.getMessage()]
    assert [each.split(":")[0] for each in told] == ["t-0 can't be followed for now"]
    assert cluster.partition_log(2).log_end_offset == 0
    assert cluster[1].services.replicas.replica("u", 0).isr == (1, 2)
    handle.write_at(sound, 61)
    cluster.wait(1_000)
    assert cluster.partition_log(2).log_end_offset == end


@pytest.mark.parametrize("wait_ms", [500, 10_000])
def test_an_idle_follower_that_was_refused_is_in_sync_after_the_next_review(tmp_path: Path, wait_ms: int) -> None:
    """The follower's fetch waits at the leader all the time, however long that is."""
    cluster = Cluster(tmp_path, 2, replica_fetch_wait_max_ms=str(wait_ms))
    cluster.topic(1, 2, isr=(1,))
    cluster.refuse = ErrorCode.INELIGIBLE_REPLICA
    cluster.settle()
    assert (len(cluster.asked_isrs) > 0, cluster.replica(1).isr) == (True, (1,))
    cluster.refuse = ErrorCode.NONE
    cluster.now += wait_ms - 1
    cluster.replica(1).review_isr(cluster.now)
    cluster.settle()
    assert cluster.replica(1).isr == (1, 2)


def test_a_leader_that_has_not_heard_of_its_leadership_is_asked_again(cluster: Cluster) -> None:
    cluster.topic(1, 2)
    cluster.settle()
    state = cluster.replica(2).state.copy()
    state.partition_epoch += 1
    state.leader_epoch += 1
    replicas = cluster[2].services.replicas
    replicas.replica("t", 0).update(state, cluster.now)
    assert replicas.replication is not None
    replicas.replication.changed(replicas.replica("t", 0))
    cluster.wait(WAIT_MS)
    cluster.wait(WAIT_MS)
    end = cluster.produce()
    cluster.settle()
    assert cluster.partition_log(2).log_end_offset == 0, "75: ahead of the leader"
    cluster.change("t", leader=1)
    cluster.wait(WAIT_MS)
    assert cluster.partition_log(2).log_end_offset == end


def test_a_topic_that_goes_is_followed_no_more(cluster: Cluster) -> None:
    cluster.topic(1, 2)
    cluster.settle()
    cluster.remove("t")
    cluster.wait(WAIT_MS)
    cluster.network.log.clear()
    cluster.wait(10 * WAIT_MS)
    assert cluster.network.log == []


def test_a_replica_that_is_taken_away_is_deleted(cluster: Cluster) -> None:
    cluster.topic(1, 2)
    cluster.produce()
    cluster.settle()
    mine = cluster.replica(1).state.directory_of(1)
    cluster.change("t", replicas=[1, 3], isr=[1], directories=[mine, UNASSIGNED])
    cluster.wait(WAIT_MS)
    assert not cluster[2].logs.exists("t", 0)
    with pytest.raises(ApiError):
        cluster.replica(2)
    assert cluster.replica(1).isr == (1, 3)
    assert cluster.content(1) == cluster.content(3)


def test_records_are_deleted_when_no_replica_has_them(cluster: Cluster) -> None:
    cluster.topic(1, 2)
    cluster.produce(count=4)
    cluster.settle()
    wanted = DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 3)])
    answers = cluster.asked(1, DeleteRecordsRequest([wanted], 5_000), 2)
    assert answers == []
    cluster.settle()
    (result,) = answers[0].topics[0].partitions
    assert (result.error_code, result.low_watermark) == (0, 3)
    cluster.network.silent = {2}
    wanted.partitions[0].offset = 4
    answers = cluster.asked(1, DeleteRecordsRequest([wanted], 5_000), 2)
    cluster.wait(4_999)
    assert answers == []
    cluster.wait(1)
    (result,) = answers[0].topics[0].partitions
    assert (result.error_code, result.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    wanted.partitions[0].offset = 3
    (result,) = cluster.asked(1, DeleteRecordsRequest([wanted], 5_000), 2)[0].topics[0].partitions
    assert (result.error_code, result.low_watermark) == (0, 3), "the other replica still begins at 3"


def test_records_that_are_not_committed_are_not_deleted(cluster: Cluster) -> None:
    """A leader without them may follow, and would begin above its own end."""
    cluster.topic(1, 2)
    cluster.produce(count=2)
    cluster.settle()
    cluster.network.silent = {2}
    cluster.produce(count=2)
    log = cluster[1].logs.get("t", 0)
    assert (log.high_watermark, log.log_end_offset) == (2, 4)
    wanted = DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 3)])
    (result,) = cluster.asked(1, DeleteRecordsRequest([wanted], 5_000), 2)[0].topics[0].partitions
    assert (result.error_code, result.low_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert log.log_start_offset == 0


def test_a_damaged_log_holds_no_other_partition_up(cluster: Cluster, tmp_path: Path) -> None:
    """A cut reads the batches before it for their producers; the disk may have lost one of them long ago."""
    cluster.topic(1, 2)
    cluster.add("u", 1, replicas=(1, 2))
    cluster.change("u", isr=[1, 2])
    for _ in range(3):
        cluster.produce()
    cluster.settle()
    cluster.network.silent = {1, 2}
    for _ in range(2):
        cluster[2].logs.get("t", 0).append(batch(b"another history"), cluster.now)
    cluster.produce()
    with (tmp_path / "2/t-0/00000000000000000000.log").open("r+b") as file:
        file.seek(MAGIC_OFFSET)
        file.write(b"\x7f")
    cluster.change("t", leader=1)
    cluster.network.silent = set()
    cluster.produce()
    for _ in range(3):
        cluster.wait(1_000)
    with pytest.raises(ApiError, match="is damaged"):
        cluster[2].services.replicas.replica("t", 0)
    cluster[1].partition("u", 0).append(batch(b"v"), cluster.now)
    cluster.wait(1_000)
    assert cluster[1].partition("u", 0).high_watermark == 1
    assert cluster[2].logs.get("u", 0).log_end_offset == 1


@pytest.mark.parametrize("leader", [1, 2, 3])
@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOSPC])
def test_an_interrupted_cut_is_finished_whoever_leads_next(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, leader: int, number: int
) -> None:
    """A leader with the end from before the cut would leave a gap; a follower would fetch behind one."""
    cluster.topic(1, 2, 3)
    for _ in range(3):
        cluster.produce()
    cluster.settle()
    cluster.network.silent = {1, 2, 3}
    cluster.change("t", leader=2)
    for _ in range(2):
        cluster.produce(2)
    cluster.change("t", leader=1)
    fs = cluster[2].logs.fs

    def refuse(path: str) -> None:
        raise OSError(number, os.strerror(number), path)

    with monkeypatch.context() as patched:
        patched.setattr(fs, "sync_directory", refuse)
        cluster.network.silent = set()
        for _ in range(3):
            cluster.wait(1_000)
        assert cluster[2].logs.get("t", 0).segments.active.end_offset() == 3, "the files are cut"
    cluster.change("t", leader=leader)
    end = cluster.produce(leader)
    cluster.settle()
    for _ in range(3):
        cluster.wait(1_000)
    assert (end, cluster.ends()) == (4, [(4, 4)] * 3)
    assert len({cluster.content(node) for node in (1, 2, 3)}) == 1


def test_a_log_whose_cut_stays_interrupted_does_not_lead(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.topic(1, 2)
    log = cluster.partition_log(2)
    log.append(batch(b"another history"), cluster.now)

    def refuse(path: str) -> None:
        if path == log.directory:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)

    monkeypatch.setattr(cluster[2].logs.fs, "sync_directory", refuse)
    with pytest.raises(OSError, match="Too many open files"):
        log.truncate_to(0)
    cluster.change("t", leader=2)
    with pytest.raises(ApiError, match="its cut was interrupted") as refused:
        cluster.replica(2)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_deletion_in_slices_sees_followers_that_were_quicker(cluster: Cluster) -> None:
    """The first partitions are done everywhere before the last ones, which are empty, have had their turn."""
    count = 2 * PARTITIONS_A_SLICE
    cluster.add("t", *[1] * count, replicas=(1, 2))
    for index in range(count):
        cluster.change("t", index, isr=[1, 2])
    for index in range(PARTITIONS_A_SLICE):
        cluster[1].partition("t", index).append(batch(*[b"v"] * 4), cluster.now)
    cluster.settle()
    later: list[Callable[[], None]] = []
    cluster[1].services.slices._later = later.append
    wanted = DeleteRecordsTopic("t", [DeleteRecordsPartition(index, -1) for index in range(count)])
    answers = cluster.asked(1, DeleteRecordsRequest([wanted], 5_000), 2)
    while later:
        cluster.settle()
        later.pop(0)()
    cluster.settle()
    assert answers, "nothing more will move, so nobody would look again"
    results = answers[0].topics[0].partitions
    assert {(each.error_code, each.low_watermark) for each in results} == {(0, 4), (0, 0)}


@pytest.mark.parametrize("when", ["before", "meanwhile"])
@pytest.mark.parametrize("heard", [True, False])
def test_records_are_deleted_though_the_other_brokers_are_dead(cluster: Cluster, when: str, heard: bool) -> None:
    cluster.topic(1, 2, 3)
    cluster.produce(count=4)
    cluster.settle()
    cluster.network.silent = {2, 3}
    if not heard:
        cluster.change("t", leader=1)  # in another epoch, in which the others never fetched
    if when == "before":
        fence(cluster, 2, 3)
    answers = cluster.asked(
        1, DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 3)])], 5_000), 2
    )
    if when == "meanwhile":
        cluster.wait(1_000)
        fence(cluster, 2)
        cluster.wait(1_000)
        assert answers == [], "one of them is alive"
        fence(cluster, 3)
        cluster.settle()
    (result,) = answers[0].topics[0].partitions
    assert (result.error_code, result.low_watermark) == (0, 3)


def fence(cluster: Cluster, *brokers: int) -> None:
    """Let every node know that these brokers are dead."""
    for broker_id in brokers:
        record = BrokerRegistrationChangeRecord(broker_id, cluster[1].image.brokers[broker_id].epoch, fenced=1)
        cluster.commit(1, [ApiMessageAndVersion(record, 1)])


def test_a_leader_that_is_deposed_does_not_say_that_records_are_deleted(cluster: Cluster) -> None:
    cluster.topic(1, 2, 3)
    cluster.produce(count=4)
    cluster.settle()
    cluster.network.silent = {2, 3}
    answers = cluster.asked(
        1, DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 3)])], 5_000), 2
    )
    cluster.wait(1_000)
    cluster.change("t", leader=2, isr=[2, 3])
    cluster.settle()
    (result,) = answers[0].topics[0].partitions
    assert (result.error_code, result.low_watermark) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


def test_the_end_is_not_known_before_a_new_leader_knows_what_is_committed(cluster: Cluster) -> None:
    cluster.topic(1, 2, 3)
    cluster.produce(count=2)
    cluster.network.run()
    cluster.network.silent = {3}
    cluster.wait(0)
    cluster.network.silent = {1, 3}
    end = cluster.produce()
    partition = cluster.replica(2)
    partition.log.append_fetched(cluster.content(1)[len(cluster.content(2)) :], cluster.now)
    cluster.change("t", leader=2)
    assert partition.high_watermark < partition.log.log_end_offset == end
    later = cluster.now + 1_000  # than any record: what is not known to be committed may be that young
    for replica_id, version, timestamp, expected in (
        (-1, 5, -1, (ErrorCode.OFFSET_NOT_AVAILABLE, -1)),
        (-1, 4, -1, (ErrorCode.LEADER_NOT_AVAILABLE, -1)),
        (3, 5, -1, (ErrorCode.NONE, end)),
        (-1, 5, later, (ErrorCode.OFFSET_NOT_AVAILABLE, -1)),
        (-1, 4, later, (ErrorCode.LEADER_NOT_AVAILABLE, -1)),
        (3, 5, later, (ErrorCode.NONE, -1)),
        (-1, 5, -2, (ErrorCode.NONE, 0)),
    ):
        topic = ListOffsetsTopic("t", [ListOffsetsPartition(0, -1, timestamp)])
        (answer,) = cluster.asked(2, ListOffsetsRequest(replica_id, topics=[topic]), version)
        (found,) = answer.topics[0].partitions
        assert (found.error_code, found.offset) == expected


def test_very_many_partitions_are_reviewed_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker, later, reviewed = LightBroker(tmp_path), list[Callable[[], None]](), list[Partition]()
    add_replication(broker.whole)
    for topic, count in (("t", 200), ("u", 2)):
        broker.add(topic, count, replicas=(1, 2))
    broker.whole.node.slices = Slices(later.append)
    monkeypatch.setattr(Partition, "review_followers", lambda partition, now: reviewed.append(partition))

    def turns() -> int:
        count = 0
        while later:
            count += 1
            later.pop()()
        return count

    def change(topic: str) -> None:
        record = ConfigRecord(ConfigResourceType.TOPIC, topic, "min.insync.replicas", "2")
        broker.commit_metadata([ApiMessageAndVersion(record, 0)])

    broker.register_another_node()
    assert 0 < len(reviewed) < 200
    broker.partition("t", 199).close(ApiError(ErrorCode.KAFKA_STORAGE_ERROR))
    assert (turns() > 0, len(reviewed)) == (True, 202)
    reviewed.clear()
    change("u")
    assert [(each.topic, each.index) for each in reviewed] == [("u", 0), ("u", 1)], "no other topic is concerned"
    reviewed.clear()
    broker.now += LAG_MS
    broker.whole.on_deadline()
    assert 0 < len(reviewed) < 200
    broker.now += LAG_MS
    broker.whole.on_deadline()
    assert (turns() > 0, len(reviewed)) == (True, 201), "one regular review at a time; what was closed has no followers"
