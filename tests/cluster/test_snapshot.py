"""Snapshots of the metadata log: the time of writing, the content, and the files that a newer one replaces."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.clock import Clock
from pykafka_broker.cluster.image import MetadataDelta, MetadataImage
from pykafka_broker.cluster.image_records import image_records
from pykafka_broker.cluster.metadata_log import MetadataLog
from pykafka_broker.cluster.records import ApiMessageAndVersion, encode_record
from pykafka_broker.cluster.snapshot import (
    MetadataSnapshot,
    SnapshotKeeper,
    snapshot_name,
    snapshot_records,
    write_snapshot,
)
from pykafka_broker.config import BrokerConfig
from pykafka_broker.log.filesystem import FileSystem, OsFileSystem
from pykafka_broker.log.jobs import Job, run_inline
from pykafka_broker.log.manager import LogManager
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.stored.clear_elr_record import ClearElrRecord
from pykafka_broker.protocol.stored.config_record import ConfigRecord
from pykafka_broker.protocol.stored.feature_level_record import FeatureLevelRecord
from pykafka_broker.protocol.stored.partition_change_record import PartitionChangeRecord
from pykafka_broker.protocol.stored.partition_record import PartitionRecord
from pykafka_broker.protocol.stored.remove_topic_record import RemoveTopicRecord
from pykafka_broker.protocol.stored.topic_record import TopicRecord
from pykafka_broker.testing.simulation.disk import CrashFileSystem
from tests.log.crash.seen import Seen

NOW = 1_700_000_000_000
HOUR = 3_600_000


class Node:
    """A metadata log with its keeper, and one feature whose level says how many changes there were."""

    def __init__(self, fs: FileSystem, directory: str, submit: Callable[[Job], None] = run_inline, **settings: str):
        self.fs = fs
        self.directory = directory
        self.folder = f"{directory}/__cluster_metadata-0"
        self.settings = {f"metadata.{key.replace('_', '.')}": value for key, value in settings.items()}
        self.submit = submit
        self.clock = Clock(NOW)
        self.open()

    @property
    def now(self) -> int:
        return self.clock.now

    @now.setter
    def now(self, now: int) -> None:
        self.clock.set(now)

    def open(self) -> None:
        ids = itertools.count(1000)
        config = BrokerConfig({"log.dirs": self.directory, "node.id": "1", **self.settings})
        self.logs = LogManager(
            self.fs,
            config,
            clock=self.clock,
            new_uuid=lambda: next(ids).to_bytes(16, "big"),
            submit=lambda job: self.submit(job),
        )
        self.logs.start(self.now)
        self.image = MetadataImage()
        log = self.logs.metadata_log(self.now)
        self.log = MetadataLog(log, self.fs, 1, b"d" * 16)
        self.log.load(self.image)
        self.keeper = SnapshotKeeper(
            self.log,
            self.fs,
            config,
            submit=lambda job: self.submit(job),
            flush=lambda now, waiter: self.logs.flush(log, now, waiter),
            records=lambda: image_records(self.image, 2, 4),
            clock=self.clock,
        )
        self.log.lead(self.now)

    def restart(self) -> None:
        self.logs.shutdown(self.now)
        self.open()

    def change(self, times: int = 1) -> None:
        for _ in range(times):
            record = FeatureLevelRecord("f", self.image.features.get("f", 0) + 1)
            self.log.append([ApiMessageAndVersion(record, 0)], self.now)
            self.log.apply([record], self.image, MetadataDelta())
            self.keeper.on_commit(self.now)

    def apply(self, *records: Any) -> None:
        versions = {PartitionRecord.API_KEY: 2}
        self.log.append([ApiMessageAndVersion(each, versions.get(each.API_KEY, 0)) for each in records], self.now)
        self.log.apply(list(records), self.image, MetadataDelta())

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass, deadline by deadline."""
        end = self.now + milliseconds
        while (due := self.keeper.next_deadline()) is not None and due <= end:
            assert due > self.now
            self.now = due
            self.keeper.on_deadline(due)
        self.now = end

    def names(self, suffix: str) -> list[str]:
        return sorted(name for name in self.fs.list_directory(self.folder) if name.endswith(suffix))


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Node]:
    return lambda **settings: Node(OsFileSystem(), str(tmp_path), **settings)


def test_a_snapshot_comes_with_so_many_bytes(make: Callable[..., Node]) -> None:
    node = make(log_max_record_bytes_between_snapshots="1000")
    node.change(5)
    assert node.names(".checkpoint") == []
    node.change(25)
    assert len(node.names(".checkpoint")) == 2
    assert node.log.bytes_since_snapshot < 1000
    node.restart()
    assert node.image.features == {"f": 30}
    assert node.log.bytes_since_snapshot < 1000


def test_a_snapshot_comes_after_so_much_time_if_anything_has_changed(make: Callable[..., Node]) -> None:
    node = make()
    node.change()
    node.pass_time(HOUR)
    assert node.names(".checkpoint") == [snapshot_name(2, 1)]
    node.pass_time(3 * HOUR)
    assert len(node.names(".checkpoint")) == 1
    node.change()  # the last one is longer ago than that
    assert node.names(".checkpoint") == [snapshot_name(2, 1), snapshot_name(3, 1)]


def test_a_large_one_is_encoded_in_steps_and_is_of_one_moment(make: Callable[..., Node]) -> None:
    """A large snapshot shows one moment, however the image changes meanwhile: by changes, additions, removals."""
    node = make()
    topics = [number.to_bytes(16, "big") for number in range(100, 103)]
    for topic in topics:
        records: list[Any] = [TopicRecord(f"t{topic[-1]}", topic)]
        records += [PartitionRecord(number, topic, [1, 2], [1], [], [], 1) for number in range(600)]
        for record in records[1:]:
            record.eligible_leader_replicas = [2]
        node.apply(*records)
    node.apply(ConfigRecord(ConfigResourceType.TOPIC, "t102", "retention.ms", "1"))
    wanted = image_of(image_records(node.image, 2, 4))
    end_offset = node.log.last_offset + 1
    node.keeper.begin(node.now)
    assert node.keeper.next_deadline() == 0
    steps = 0
    while node.keeper.next_deadline() == 0:
        steps += 1
        assert node.names(".checkpoint") == []
        node.apply(PartitionChangeRecord(599 - steps, topics[2], leader=-1))
        node.apply(ConfigRecord(ConfigResourceType.TOPIC, "t102", "retention.ms", str(steps + 1)))
        node.apply(PartitionRecord(600 + steps, topics[2], [1], [1], [], [], 1))
        if steps == 1:
            node.apply(RemoveTopicRecord(topics[1]), ClearElrRecord())
        node.keeper.begin(node.now)  # has no effect before the snapshot under way is complete
        node.keeper.on_deadline(node.now)
    assert steps > 3
    assert node.names(".checkpoint") == [snapshot_name(end_offset, 1)]
    found = image_of(snapshot_records(node.fs, f"{node.folder}/{snapshot_name(end_offset, 1)}"))
    assert state(found) == state(wanted)
    node.restart()
    assert state(node.image) == state(image_of(image_records(node.image, 2, 4)))
    assert node.image.topics["t102"].partitions[598].leader == -1


def image_of(records: Iterable[ApiMessageAndVersion]) -> MetadataImage:
    image = MetadataImage()
    for record in records:
        image.apply(record.message, MetadataDelta())
    return image


def state(image: MetadataImage) -> list[bytes]:
    return [encode_record(record) for record in image_records(image, 2, 4)]


def test_without_an_interval_only_the_bytes_count(make: Callable[..., Node]) -> None:
    node = make(log_max_snapshot_interval_ms="0")
    node.change()
    assert node.keeper.next_deadline() is None
    node.pass_time(100 * HOUR)
    node.change()
    assert node.names(".checkpoint") == []


def test_the_next_start_reads_the_snapshot_and_the_log_after_it(make: Callable[..., Node]) -> None:
    node = make()
    node.change(3)
    node.keeper.begin(node.now)
    node.change(2)
    node.restart()
    assert node.image.features == {"f": 5}
    assert [(each.end_offset, each.epoch) for each in node.log.snapshots] == [(4, 1)]


def test_retention_by_size_moves_the_start_and_drops_what_lies_below(make: Callable[..., Node]) -> None:
    node = make(log_max_record_bytes_between_snapshots="1000", max_retention_bytes="3000")
    node.change(200)
    kept = node.log.snapshots
    assert kept[0].end_offset == node.log.log.log_start_offset > 100
    assert node.names(".checkpoint") == [snapshot_name(each.end_offset, each.epoch) for each in kept]
    assert node.names(".log")[0] > f"{50:020d}"
    assert node.log.log.segments.size_bytes < 5000
    node.restart()
    assert node.image.features == {"f": 200}
    assert node.log.snapshots[0].end_offset >= node.log.log.log_start_offset


def test_retention_by_time_goes_by_what_the_snapshots_hold(make: Callable[..., Node]) -> None:
    node = make(max_retention_ms=str(10 * HOUR))
    for _ in range(5):
        node.change()
        node.pass_time(HOUR)
    assert len(node.log.snapshots) == 5
    node.restart()
    node.pass_time(HOUR * 7)
    assert [each.end_offset for each in node.log.snapshots][-1] == 7  # the snapshot of the restart, which stays
    assert len(node.log.snapshots) == 4
    node.pass_time(HOUR * 30)
    assert [each.end_offset for each in node.log.snapshots] == [7]
    assert node.log.log.log_start_offset == 7


def test_without_limits_everything_stays(make: Callable[..., Node]) -> None:
    node = make(log_max_record_bytes_between_snapshots="500", max_retention_bytes="-1", max_retention_ms="-1")
    node.change(60)
    node.pass_time(1000 * HOUR)
    assert len(node.log.snapshots) > 5
    assert node.log.log.log_start_offset == 0


def test_the_only_snapshot_stays_however_old_and_large(make: Callable[..., Node]) -> None:
    node = make(max_retention_bytes="0", max_retention_ms="0")
    node.change(3)
    node.keeper.begin(node.now)
    node.pass_time(HOUR)
    assert len(node.names(".checkpoint")) == 1
    node.change(3)
    node.keeper.begin(node.now)
    node.restart()
    assert (node.names(".checkpoint"), node.image.features) == ([snapshot_name(7, 1)], {"f": 6})


def test_what_an_interrupted_writer_or_trimmer_left_goes(make: Callable[..., Node]) -> None:
    node = make(max_retention_bytes="0")
    node.change(3)
    node.keeper.begin(node.now)
    first = Path(node.folder, snapshot_name(4, 1)).read_bytes()
    node.change(3)
    node.keeper.begin(node.now)
    for name in ("x.checkpoint.part", "x.checkpoint.deleted", "x.checkpoint.tmp", snapshot_name(4, 1)):
        Path(node.folder, name).write_bytes(first)
    node.restart()
    assert node.names(".checkpoint") == [snapshot_name(7, 1)]
    assert not [name for name in node.fs.list_directory(node.folder) if ".checkpoint." in name]


def test_what_is_appended_while_a_snapshot_is_written_is_not_in_it(tmp_path: Path) -> None:
    jobs: list[Job] = []
    node = Node(OsFileSystem(), str(tmp_path), jobs.append)
    node.change(3)
    node.keeper.begin(node.now)
    node.change(2)
    node.keeper.begin(node.now)  # one at a time
    while jobs:
        run_inline(jobs.pop(0))
    node.submit = run_inline
    assert node.names(".checkpoint") == [snapshot_name(4, 1)]
    node.restart()
    assert node.image.features == {"f": 5}


def test_a_snapshot_that_the_leaders_has_overtaken_is_dropped(tmp_path: Path) -> None:
    """A node that is far behind may begin one of its own just before it is given the leader's."""
    jobs: list[Job] = []
    node = Node(OsFileSystem(), str(tmp_path), jobs.append, max_retention_bytes="1")
    node.change(3)
    node.keeper.begin(node.now)
    path = f"{node.folder}/{snapshot_name(90, 7)}"
    write_snapshot(node.fs, path, [], now=NOW)
    newer = MetadataSnapshot(node.fs, path, 90, 7)
    node.log.snapshots = [newer]
    node.log.log.restart_at(90, NOW)
    while jobs:
        run_inline(jobs.pop(0))
    assert node.log.snapshots == [newer]
    node.keeper.trim(node.now)
    assert node.names(".checkpoint") == [snapshot_name(90, 7)]


def test_a_snapshot_that_found_no_room_is_tried_again(
    make: Callable[..., Node], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    node = make()
    node.change(3)
    with monkeypatch.context() as full:
        full.setattr("pykafka_broker.cluster.snapshot.write_file", refuse)
        node.keeper.begin(node.now)
    assert "Could not write a snapshot of the metadata" in caplog.text
    node.keeper.begin(node.now)
    assert len(node.names(".checkpoint")) == 1


def refuse(*arguments: object) -> None:
    raise OSError("no room")


def test_a_crash_after_every_operation() -> None:
    """After a crash at any operation all synced records are there, and nothing that was never written."""
    fs = CrashFileSystem()
    node: Node | None = None
    checked = level = 0
    seen = Seen()

    def crash(what: str) -> None:
        nonlocal checked, level
        checked += 1
        if node is None:
            return
        synced = node.log.log.recovery_point
        level = max(level, node.image.features.get("f", 0))  # a start that reads its log again knows less
        images = [fs.after_crash(variant) for variant in (None, checked, -checked)]
        for image in (*images, fs.after_crash(keep=True)):
            if seen.is_new(image, (synced, level)):
                check(image, synced, level + 1)

    fs.on_operation = crash
    settings: dict[str, Any] = {"log_max_record_bytes_between_snapshots": "1000", "max_retention_bytes": "1500"}
    node = Node(fs, "/data/logs", **settings)
    for _ in range(3):
        node.change(30)
        node.logs.on_deadline(node.now + 120_000)  # removes what was deleted
        node.restart()
    assert node.log.log.log_start_offset > 50
    assert checked > 200


def check(fs: CrashFileSystem, synced: int, most: int) -> None:
    node = Node(fs, "/data/logs")
    level = node.image.features.get("f", 0)
    # each change is one record, and each start one more
    assert level <= most
    assert node.log.log.log_end_offset > synced
    assert all(each.end_offset >= node.log.log.log_start_offset for each in node.log.snapshots)
    assert level >= synced - node.log.epoch


def test_the_age_of_a_snapshot_goes_by_the_wall_clock(tmp_path: Path) -> None:
    node = Node(OsFileSystem(), str(tmp_path), max_retention_ms=str(HOUR))
    for _ in range(2):
        node.change()
        node.keeper.begin(node.now)
    kept = len(node.log.snapshots)
    node.clock.set(node.now + 3 * HOUR, wall=node.now)
    node.keeper.trim(node.now)
    assert len(node.log.snapshots) == kept
    node.clock.set(node.now, wall=NOW + 3 * HOUR)
    node.keeper.trim(node.now)
    assert len(node.log.snapshots) == 1 < kept
