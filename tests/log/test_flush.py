"""`flush.messages`: nobody sees what a power cut could take back, and a sync that failed is never called a success."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.broker.partitions.replicas import Replicas
from pykafka_broker.clock import Clock
from pykafka_broker.cluster.image import MetadataDelta, MetadataImage
from pykafka_broker.errors import ApiError
from pykafka_broker.log.checkpoints import EPOCHS_FILE
from pykafka_broker.log.jobs import run_inline
from pykafka_broker.log.log_directory import LogDirectory
from pykafka_broker.log.manager import LogListener, LogManager
from pykafka_broker.log.partition_log import Origin, PartitionLog
from pykafka_broker.log.retention import retain
from pykafka_broker.protocol.enums import PartitionKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.stored.partition_record import PartitionRecord
from pykafka_broker.protocol.stored.topic_record import TopicRecord
from tests.log.support import NOW, TOPIC_ID, Deferred, FailingFileSystem, batch, manager, marker, topic_config

Heard = list[Exception | None]


class Metadata:
    """One topic, t, that this node leads."""

    def __init__(self) -> None:
        self.image = MetadataImage()
        delta = MetadataDelta()
        self.image.apply(TopicRecord("t", TOPIC_ID), delta)
        self.image.apply(PartitionRecord(0, TOPIC_ID, [1], [1], leader=1, leader_epoch=0, partition_epoch=0), delta)


class Listener(LogListener):
    """A listener that passes the log's events on to the replicas."""

    replicas: Replicas

    def synced(self, log: PartitionLog) -> None:
        self.replicas.log_synced(log)

    def lost(self, log: PartitionLog, offset: int, error: OSError) -> None:
        self.replicas.log_lost(log, offset, error)

    def directory_failed(self, directory: LogDirectory, partitions: list[PartitionKey]) -> None:
        self.replicas.offline(partitions)


def partitions(logs: LogManager, committed: list[int]) -> Replicas:
    """Make the replicas of these logs; `committed` is given the high watermarks."""

    def touch(partition: Partition) -> None:
        if partition.high_watermark not in (0, *committed):
            committed.append(partition.high_watermark)

    logs.listener = listener = Listener()
    listener.replicas = Replicas(1, Metadata(), logs, Clock(NOW), touch)
    return listener.replicas


class Disk:
    """A log whose syncs take place when the test says so."""

    def __init__(self, path: Path, **overrides: object) -> None:
        self.path = path
        self.fs = FailingFileSystem()
        self.jobs = Deferred()
        self.config = topic_config(**{"flush_messages": 1, **overrides})
        self.committed: list[int] = []
        self.logs = self.open()
        self.log = self.logs.create("t", 0, TOPIC_ID, NOW)

    def open(self) -> LogManager:
        logs = manager(self.path, self.fs)
        logs.topic_config = lambda topic: self.config
        logs.submit = self.jobs.submit
        self.replicas = partitions(logs, self.committed)
        logs.start(NOW)
        return logs

    def append(self, count: int = 1, **options: Any) -> Heard:
        appended = self.log.append(batch(count, **options), NOW)
        return self.wait(appended.last_offset + 1)

    def wait(self, offset: int) -> Heard:
        heard: Heard = []
        try:
            self.replicas.leader("t", 0).committed(offset).add_done_callback(lambda future: heard.append(future.error))
        except ApiError as error:
            heard.append(error)
        return heard


def ends(log: PartitionLog) -> tuple[int, int, int]:
    return log.high_watermark, log.recovery_point, log.log_end_offset


def test_nothing_is_seen_before_its_sync(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    first, second = disk.append(), disk.append(2)
    assert ends(disk.log) == (0, 0, 3)
    assert disk.log.read(0, 1 << 20, disk.log.high_watermark) is None
    disk.jobs.run()  # began when the first batch came
    assert (ends(disk.log), first, second) == ((1, 1, 3), [None], [])
    disk.jobs.run()
    assert (ends(disk.log), second) == ((3, 3, 3), [None])
    assert disk.committed == [1, 3]
    assert disk.wait(3) == [None]
    assert disk.jobs.run() == 0


def test_between_two_syncs_records_are_seen_at_once(tmp_path: Path) -> None:
    """Records are visible at once between two syncs; the append that reaches flush.messages waits for its sync.

    Kafka, too, syncs in the append that reaches the number and in no other.
    """
    disk = Disk(tmp_path, flush_messages=3)
    assert (disk.append(), disk.append()) == ([None], [None])
    assert ends(disk.log) == (2, 0, 2)
    third, fourth = disk.append(), disk.append()
    assert (ends(disk.log), third, fourth) == ((2, 0, 4), [], [])
    assert disk.jobs.run() == 1
    assert (ends(disk.log), third, fourth) == ((4, 3, 4), [None], [None])
    assert disk.jobs.run() == 0


def test_a_duplicate_waits_for_the_sync_of_its_first_append(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    options = {"producer_id": 1, "epoch": 0, "sequence": 0}
    first, again = disk.append(**options), disk.append(**options)
    assert (disk.log.log_end_offset, first, again) == (1, [], [])
    disk.jobs.run()
    assert (first, again, disk.append(**options)) == ([None], [None], [None])


def test_a_transaction_ends_for_readers_when_its_marker_is_synced(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    log = disk.log
    log.append(batch(2, producer_id=1, epoch=0, transactional=True), NOW, origin=Origin.COORDINATOR)
    disk.jobs.run()
    assert (log.high_watermark, log.last_stable_offset) == (2, 0)
    log.append(marker(1, 0, commit=True), NOW, origin=Origin.COORDINATOR)
    assert (log.high_watermark, log.last_stable_offset) == (2, 0)
    disk.jobs.run()
    assert (log.high_watermark, log.last_stable_offset) == (3, 3)


def test_records_are_deleted_up_to_the_high_watermark_only(tmp_path: Path) -> None:
    disk = Disk(tmp_path, retention_ms=1, segment_bytes=200)
    disk.append()
    disk.jobs.run()
    disk.append(5)
    with pytest.raises(ApiError) as caught:
        disk.log.delete_records_before(2)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    retain(disk.log, NOW + 1_000_000)
    assert disk.log.log_start_offset <= disk.log.high_watermark == 1
    disk.log.delete_records_before(1)
    while disk.jobs.run():
        pass
    disk.log.delete_records_before(6)
    assert disk.log.log_start_offset == 6


def test_a_failed_sync_acknowledges_nothing_ever(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    heard = disk.append()
    disk.fs.failures = {"sync .log": errno.EIO}
    disk.jobs.run()
    (error,) = heard
    assert isinstance(error, ApiError)
    assert error.code is ErrorCode.KAFKA_STORAGE_ERROR
    disk.fs.failures = {}  # the system has dropped the pages: the next sync would succeed
    disk.fs.calls.clear()
    assert not disk.logs.directories[0].online
    assert disk.wait(1) != [None]
    disk.logs.on_deadline(NOW + 100_000)
    disk.logs.shutdown(NOW)
    assert disk.jobs.run() == 0
    assert [call for call in disk.fs.calls if call.startswith("sync")] == []
    assert not (tmp_path / "logs/.kafka_cleanshutdown").exists()
    assert disk.log.high_watermark == 0


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.ENOMEM])
@pytest.mark.parametrize("what", ["sync .log", "sync_directory"])
def test_a_sync_without_room_is_as_bad(tmp_path: Path, number: int, what: str) -> None:
    disk = Disk(tmp_path)
    heard = disk.append()
    disk.fs.failures = {what: number}
    disk.jobs.run()
    assert heard != [None]
    assert not disk.logs.directories[0].online


def test_a_sync_that_found_no_descriptor_is_tried_again(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    heard = disk.append()
    disk.fs.failures = {"open partition.metadata": errno.EMFILE}
    disk.jobs.run()
    assert heard != [None]
    assert disk.logs.directories[0].online
    assert ends(disk.log) == (0, 0, 1)
    disk.fs.failures = {}
    disk.logs.on_deadline(disk.logs.next_deadline() or 0)
    disk.jobs.run()
    assert ends(disk.log) == (1, 1, 1)
    assert disk.committed == [1]


def test_whoever_waits_for_what_is_truncated_is_told(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    kept, cut = disk.append(), disk.append()
    disk.log.truncate_to(1)
    again = disk.append()
    assert (kept, [error is not None for error in cut], again) == ([], [True], [])
    while disk.jobs.run():
        pass
    assert (kept, len(cut), again, ends(disk.log)) == ([None], 1, [None], (2, 2, 2))


def test_a_sync_begun_before_a_truncation_says_nothing_of_later_records(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.append()
    disk.jobs.run()
    disk.append(2)  # a sync of these begins
    disk.log.truncate_to(1)
    again = disk.append(2)
    disk.jobs.run()
    assert (ends(disk.log), again) == ((1, 1, 3), [])
    disk.jobs.run()
    assert (ends(disk.log), again) == ((3, 3, 3), [None])


@pytest.mark.parametrize("synced", [0, 3])
def test_a_sync_during_an_interrupted_cut_moves_nothing(tmp_path: Path, synced: int) -> None:
    disk = Disk(tmp_path, flush_messages=2, segment_bytes=150)
    for _ in range(5):
        disk.append()
    while synced and disk.jobs.run():
        pass
    disk.fs.failures = {"truncate .log": errno.ENOSPC}
    with pytest.raises(OSError, match="No space"):
        disk.log.truncate_to(3)
    disk.fs.failures = {}
    heard: Heard = []
    disk.logs.flush(disk.log, NOW, heard.append)
    while disk.jobs.run():
        pass
    assert (disk.log.recovery_point, disk.log.log_end_offset, heard) == (synced, 5, [])
    disk.log.finish_cut(NOW)
    while disk.jobs.run():
        pass
    assert ([type(each) for each in heard], ends(disk.log)) == ([OSError], (3, 3, 3))
    disk.append(2)
    while disk.jobs.run():
        pass
    assert ends(disk.log) == (5, 5, 5)


def test_after_a_crash_nothing_is_seen_before_its_sync_either(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.append()
    disk.append()
    disk.logs.directories[0].release()
    disk.jobs = Deferred()
    log = disk.open().get("t", 0)
    assert ends(log) == (0, 0, 2)
    disk.jobs.run()
    assert ends(log) == (2, 2, 2)


def test_what_lies_there_is_synced_when_a_setting_asks_for_it(tmp_path: Path) -> None:
    disk = Disk(tmp_path, flush_messages=1 << 40)
    disk.append(2)
    disk.logs.reconfigure("t", [0], topic_config(flush_messages=1))
    assert disk.jobs.run() == 1
    assert ends(disk.log) == (2, 2, 2)


def test_what_waits_for_a_sync_is_seen_when_no_setting_asks_for_it_any_more(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    heard = disk.append(2)
    assert heard == []
    disk.logs.reconfigure("t", [0], topic_config(flush_messages=1 << 40))
    assert heard == [None]
    assert ends(disk.log) == (2, 0, 2)


def test_what_comes_during_a_sync_is_in_the_next(tmp_path: Path) -> None:
    """Records appended during a sync are in the next one, also if nobody waits: the metadata log relies on that."""
    disk = Disk(tmp_path, flush_messages=1 << 40)
    disk.append()
    disk.logs.flush(disk.log, NOW)
    disk.append()
    disk.logs.flush(disk.log, NOW)
    disk.jobs.run()
    disk.jobs.run()
    assert ends(disk.log) == (2, 2, 2)


def test_new_aborted_transactions_are_synced_with_the_batches(tmp_path: Path) -> None:
    """After a power cut nothing else may say that readers of committed data must not see them."""
    disk = Disk(tmp_path, flush_messages=1 << 40)

    def synced() -> list[str]:
        disk.logs.flush(disk.log, NOW)
        disk.fs.calls.clear()
        disk.jobs.run()
        return [call.rpartition(".")[2] for call in disk.fs.calls if call.startswith("sync ") and "/000" in call]

    def abort() -> None:
        disk.log.append(batch(producer_id=1, epoch=0, transactional=True), NOW, origin=Origin.COORDINATOR)
        disk.log.append(marker(1, 0, commit=False), NOW, origin=Origin.COORDINATOR)

    abort()
    assert synced() == ["log", "txnindex"]
    disk.append()
    assert synced() == ["log"]
    abort()
    disk.log.assign_topic_id(disk.log.topic_id)
    disk.fs.failures = {"open partition.metadata": errno.EMFILE}
    disk.logs.flush(disk.log, NOW)
    disk.jobs.run()
    disk.fs.failures = {}
    assert synced()[:2] == ["log", "txnindex"]  # nobody knows how far it had come


@pytest.mark.parametrize("is_syncing", [False, True])
def test_the_indexes_of_a_complete_segment_are_synced(tmp_path: Path, is_syncing: bool) -> None:
    """All batches may have been synced, or the sync of the last one begun, while the segment was the active one."""
    disk = Disk(tmp_path, segment_bytes=400, index_interval_bytes=0, flush_messages=1 << 40 if is_syncing else 1)
    for _ in range(4):
        disk.append(1, size=20)
        disk.jobs.run()
    if is_syncing:
        disk.logs.flush(disk.log, NOW)
    disk.log.roll(NOW)
    disk.fs.calls.clear()
    while disk.jobs.run():
        pass
    synced = {call.rpartition("/")[2] for call in disk.fs.calls if call.startswith("sync ")}
    base = f"{disk.log.segments[len(disk.log.segments) - 2].base_offset:020d}"
    assert {f"{base}.index", f"{base}.timeindex", f"{4:020d}.snapshot"} <= synced


def test_a_deleted_segment_stays_deleted_once_later_records_are_synced(tmp_path: Path) -> None:
    disk = Disk(tmp_path, segment_bytes=400)
    while len(disk.log.segments) < 3:
        disk.append(1, size=20)
        disk.jobs.run()
    disk.log.delete_records_before(disk.log.segments[1].base_offset)
    disk.append(1, size=20)
    while disk.jobs.run():
        pass
    assert retain(disk.log, NOW) == 1
    disk.fs.calls.clear()
    disk.append(1, size=20)
    while disk.jobs.run():
        pass
    assert len(disk.log.segments) == 2, "a new segment would have had the folder synced too"
    assert f"sync_directory {disk.log.directory}" in disk.fs.calls


def test_a_new_leader_epoch_is_synced_with_its_first_batch(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.append()
    disk.jobs.run()
    disk.fs.calls.clear()
    disk.log.epochs.lead(3)
    disk.append()
    disk.jobs.run()
    assert {f"sync {disk.log.directory}/{EPOCHS_FILE}", f"sync_directory {disk.log.directory}"} <= {*disk.fs.calls}


@pytest.mark.parametrize("old_disk", ["sound", "broken"])
def test_a_moved_log_is_committed(tmp_path: Path, old_disk: str) -> None:
    """The sync that began in the old directory says nothing of the new one, whatever becomes of it."""
    fs, jobs = FailingFileSystem(), Deferred()
    logs = manager(tmp_path, fs, log_dirs=f"{tmp_path}/a,{tmp_path}/b")
    logs.topic_config = lambda topic: topic_config(flush_messages=1)
    logs.submit = jobs.submit
    logs.start(NOW)
    log = logs.create("t", 0, TOPIC_ID, NOW)
    log.append(batch(), NOW)
    heard: Heard = []
    partitions(logs, []).leader("t", 0).committed(1).add_done_callback(lambda future: heard.append(future.error))
    waited: Heard = []
    logs.flush(log, NOW, waited.append)
    other = next(each for each in logs.directories if each is not logs.directory_of(("t", 0)))
    logs.moves.start(("t", 0), other)
    while logs.directory_of(("t", 0)) is not other:
        run_inline(jobs.jobs.pop())  # the move's own, ahead of the sync that was asked for before
    assert (log.high_watermark, logs.directory_of(("t", 0))) == (1, other)
    fs.failures = {"sync .log": errno.EIO} if old_disk == "broken" else {}
    while jobs.run():
        pass
    assert (heard, waited) == ([None], [None])
    assert all(each.online for each in logs.directories)
