"""The directory of each partition: no log is begun anew where the partition may be already."""

from __future__ import annotations

import errno
import itertools
import logging
import os
import shutil
from pathlib import Path

import pytest

from pykafka_broker.errors import ApiError
from pykafka_broker.log import checkpoints
from pykafka_broker.log.checkpoints import LOST, UNASSIGNED, write_partition_metadata
from pykafka_broker.log.filesystem import OsFileSystem
from pykafka_broker.log.log_directory import LogDirectoryError
from pykafka_broker.log.manager import LogManager
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.runtime import uuid_text
from tests.log.support import NOW, TOPIC_ID, FailingFileSystem, batch, manager

KEY = "t", 0
IDS = itertools.count(1000)


def opened(path: Path, dirs: str = "ab", fs: FailingFileSystem | None = None, **options: bool) -> LogManager:
    logs = manager(path, fs, log_dirs=",".join(f"{path}/{name}" for name in dirs))
    logs.new_uuid = lambda: next(IDS).to_bytes(16, "big")
    logs.start(NOW, **options)
    return logs


def break_directory(path: Path) -> None:
    """Put a file where the directory was, which then can't be used; `mend` undoes it."""
    path.rename(path.with_suffix(".away"))
    path.write_text("not a directory")


def mend(path: Path) -> None:
    path.unlink()
    path.with_suffix(".away").rename(path)


def fill(logs: LogManager, directory: int) -> bytes:
    log = logs.create(*KEY, TOPIC_ID, NOW, directory_id=logs.directories[directory].id)
    log.append(batch(3, 10, timestamp=NOW), NOW)
    return logs.directories[directory].id


def refused(logs: LogManager, **options: object) -> str:
    with pytest.raises(ApiError) as caught:
        logs.create(*KEY, TOPIC_ID, NOW, **options)  # type: ignore[arg-type]
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    return str(caught.value)


def test_what_may_be_in_a_directory_that_can_not_be_read_is_not_made_anew(tmp_path: Path) -> None:
    logs = opened(tmp_path)
    home = fill(logs, 0)
    logs.shutdown(NOW)
    break_directory(tmp_path / "a")
    logs = opened(tmp_path)
    assert not logs.exists(*KEY)
    assert "is not online" in refused(logs, directory_id=home)
    assert f"may be in {tmp_path}/a" in refused(logs, new=False)
    logs.create("fresh", 0, TOPIC_ID, NOW)  # a new topic can't be anywhere
    logs.shutdown(NOW)
    mend(tmp_path / "a")
    assert opened(tmp_path).get(*KEY).log_end_offset == 3


def test_a_directory_that_fails_later_has_been_seen(tmp_path: Path) -> None:
    logs = opened(tmp_path)
    fill(logs, 0)
    logs.take_offline(logs.directories[0], OSError("gone"))
    assert logs.create("u", 0, TOPIC_ID, NOW, new=False).directory == f"{tmp_path}/b/u-0"
    with pytest.raises(ApiError, match=r"Offline: .*: gone"):
        logs.create(*KEY, TOPIC_ID, NOW)


def test_of_nested_directories_the_one_that_fails_is_offline_alone(tmp_path: Path) -> None:
    fs = FailingFileSystem()
    logs = manager(tmp_path, fs, log_dirs=f"{tmp_path}/a,{tmp_path}/a/b")
    logs.start(NOW)
    outer, inner = logs.directories
    fill(logs, 1)
    fs.failures = {"open a/b/recovery-point": errno.EIO}
    logs.maintenance.on_deadline(NOW + logs.config.log_flush_offset_checkpoint_interval_ms)
    assert (outer.online, inner.online) == (True, False)


def test_a_directory_wanted_for_a_deleted_partition_is_forgotten(tmp_path: Path) -> None:
    """Another topic of the name has nothing to do with it."""
    logs = opened(tmp_path)
    logs.directory_map.wanted[KEY] = logs.directories[1]
    logs.delete(*KEY, NOW)
    assert logs.create(*KEY, TOPIC_ID, NOW).directory == f"{tmp_path}/a/t-0"
    assert not logs.directory_map.wanted


def test_in_two_directories_the_metadata_decides_and_nothing_is_thrown_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logs = opened(tmp_path)
    fill(logs, 0)
    wanted = logs.directories[1].id
    logs.shutdown(NOW)
    shutil.copytree(tmp_path / "a" / "t-0", tmp_path / "b" / "t-0")
    logs = opened(tmp_path)
    assert logs.exists(*KEY)
    with pytest.raises(ApiError, match="can't be told") as caught:
        logs.get(*KEY)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    refused(logs)
    with caplog.at_level(logging.WARNING):
        logs.directory_map.resolve_ambiguous(logs.new_uuid, lambda key: wanted, lambda topic: TOPIC_ID)
    assert logs.get(*KEY).directory == f"{tmp_path}/b/t-0"
    assert "put aside" in caplog.text
    (stray,) = tmp_path.glob("a/t-0.*-stray")
    assert (stray / f"{0:020d}.log").stat().st_size > 0
    logs.shutdown(NOW)
    logs = opened(tmp_path)  # strays are no partitions
    assert logs.get(*KEY).directory == f"{tmp_path}/b/t-0"
    assert stray.exists()


def test_a_copy_that_cannot_be_put_aside_takes_its_directory_offline_alone(tmp_path: Path) -> None:
    logs = opened(tmp_path)
    home = fill(logs, 0)
    logs.shutdown(NOW)
    shutil.copytree(tmp_path / "a" / "t-0", tmp_path / "b" / "t-0")
    fs = FailingFileSystem()
    logs = opened(tmp_path, fs=fs)
    fs.failures = {"rename b/t-0": errno.EIO}
    logs.directory_map.resolve_ambiguous(logs.new_uuid, lambda key: home, lambda topic: TOPIC_ID)
    assert logs.get(*KEY).directory == f"{tmp_path}/a/t-0"
    assert [directory.online for directory in logs.directories] == [True, False]


def test_after_a_crash_both_copies_are_recovered_since_either_may_be_the_log(tmp_path: Path) -> None:
    logs = opened(tmp_path)
    home = fill(logs, 0)
    shutil.copytree(tmp_path / "a" / "t-0", tmp_path / "b" / "t-0")
    for name in "ab":
        with (tmp_path / name / "t-0" / f"{0:020d}.log").open("ab") as torn:
            torn.write(b"torn")
    logs = opened(tmp_path)
    sizes = {(tmp_path / name / "t-0" / f"{0:020d}.log").stat().st_size for name in "ab"}
    assert len(sizes) == 1
    logs.directory_map.resolve_ambiguous(logs.new_uuid, lambda key: home, lambda topic: TOPIC_ID)
    assert logs.get(*KEY).log_end_offset == 3


def test_in_two_directories_of_which_the_metadata_names_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    logs = opened(tmp_path)
    fill(logs, 0)
    logs.shutdown(NOW)
    shutil.copytree(tmp_path / "a" / "t-0", tmp_path / "b" / "t-0")
    logs = opened(tmp_path)
    logs.directory_map.resolve_ambiguous(logs.new_uuid, lambda key: bytes(16), lambda topic: TOPIC_ID)
    assert "the metadata names none of them" in caplog.text
    with pytest.raises(ApiError, match="can't be told"):
        logs.get(*KEY)
    logs.delete(*KEY, NOW)  # removes every copy, whichever was the right one
    assert {path.name[-7:] for path in tmp_path.glob("*/t-0*")} == {"-delete"}
    assert len(list(tmp_path.glob("*/t-0*-delete"))) == 2
    assert logs.create(*KEY, TOPIC_ID, NOW).log_end_offset == 0


def test_in_three_directories(tmp_path: Path) -> None:
    logs = opened(tmp_path, "abc")
    home = fill(logs, 2)
    logs.shutdown(NOW)
    for name in "ab":
        shutil.copytree(tmp_path / "c" / "t-0", tmp_path / name / "t-0")
    logs = opened(tmp_path, "abc")
    logs.directory_map.resolve_ambiguous(logs.new_uuid, lambda key: home, lambda topic: TOPIC_ID)
    assert logs.get(*KEY).directory == f"{tmp_path}/c/t-0"
    assert len(list(tmp_path.glob("*/t-0.*-stray"))) == 2


def test_a_copy_elsewhere_waits_while_the_directory_that_the_metadata_names_is_away(tmp_path: Path) -> None:
    logs = opened(tmp_path)
    home = fill(logs, 0)
    logs.shutdown(NOW)
    shutil.copytree(tmp_path / "a" / "t-0", tmp_path / "b" / "t-0")
    break_directory(tmp_path / "a")
    logs = opened(tmp_path)
    logs.directory_map.resolve_ambiguous(logs.new_uuid, lambda key: home, lambda topic: TOPIC_ID)
    with pytest.raises(ApiError, match="can't be told"):
        logs.get(*KEY)
    logs.shutdown(NOW)
    mend(tmp_path / "a")
    logs = opened(tmp_path)
    logs.directory_map.resolve_ambiguous(logs.new_uuid, lambda key: home, lambda topic: TOPIC_ID)
    assert logs.get(*KEY).directory == f"{tmp_path}/a/t-0"


def test_two_directories_with_one_id_are_refused(tmp_path: Path) -> None:
    opened(tmp_path).shutdown(NOW)
    shutil.copy(tmp_path / "a" / "meta.properties", tmp_path / "b" / "meta.properties")
    with pytest.raises(LogDirectoryError, match=r"/a and .*/b have the same directory\.id"):
        opened(tmp_path)


@pytest.mark.posix("a symbolic link needs a privilege on Windows")
def test_one_directory_named_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(LogDirectoryError, match="name one directory twice"):
        opened(tmp_path)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("directory.id=AAAAAAAAAAAAAAAAAAAAAQ", "is reserved"),
        ("directory.id=short", "is damaged: directory.id"),
        ("cluster.id=other", "is of cluster other"),
        ("node.id=99", "is of node 99"),
        ("cluster.id=\udcff", "is damaged"),
        ("version=2", "is of version 2, and only 0 and 1 are known"),
        ("version=", "is of version , and only"),
    ],
)
def test_what_meta_properties_must_not_say(tmp_path: Path, line: str, problem: str) -> None:
    opened(tmp_path).shutdown(NOW)
    path = tmp_path / "b" / "meta.properties"
    key = line.partition("=")[0]
    lines = [line if each.startswith(key) else each for each in path.read_text().splitlines()]
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogateescape"))
    with pytest.raises(LogDirectoryError, match=problem):
        opened(tmp_path)
    assert (tmp_path / "a" / ".kafka_cleanshutdown").exists()  # nothing was touched


def test_the_cluster_of_a_directory_that_kafka_formatted(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=MkU3OA\\=\\=\n")
    assert opened(tmp_path).cluster_id == "MkU3OA=="


@pytest.mark.parametrize("broker_id", ["1", "2"])  # the node is 1
def test_a_directory_of_a_broker_on_zookeeper(tmp_path: Path, broker_id: str) -> None:
    """Version 0 stays version 0, and names the broker by another key, as in Kafka 4.4.0."""
    path = tmp_path / "a" / "meta.properties"
    path.parent.mkdir()
    path.write_text(f"version=0\nbroker.id={broker_id}\ncluster.id=c\n")
    if broker_id == "2":
        with pytest.raises(LogDirectoryError, match="is of node 2"):
            opened(tmp_path)
        assert sorted(os.listdir(path.parent)) == [".lock", "meta.properties"]
        return
    logs = opened(tmp_path)
    found = checkpoints.read_properties(logs.fs, str(path))
    assert found == {
        "version": "0",
        "broker.id": "1",
        "cluster.id": "c",
        "directory.id": uuid_text(logs.directories[0].id),
    }


@pytest.mark.parametrize("known", [True, False])
def test_a_start_without_the_metadata_log_touches_nothing(tmp_path: Path, known: bool) -> None:
    logs = opened(tmp_path)
    fill(logs, 1)
    logs.shutdown(NOW)
    if not known:
        (tmp_path / "a" / "meta.properties").unlink()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    with pytest.raises(LogDirectoryError, match="but no metadata log"):
        opened(tmp_path, with_metadata=True)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_directories_come_and_go(tmp_path: Path) -> None:
    logs = opened(tmp_path)
    home = fill(logs, 1)
    logs.shutdown(NOW)
    logs = opened(tmp_path, "cab")
    assert logs.get(*KEY).log_end_offset == 3
    assert len({directory.id for directory in logs.directories}) == 3
    logs.shutdown(NOW)
    logs = opened(tmp_path, "ca")
    assert "is not online" in refused(logs, directory_id=home, new=False)


def test_the_metadata_log_is_used_where_it_is(tmp_path: Path) -> None:
    logs = opened(tmp_path)
    assert logs.metadata_log(NOW).directory == f"{tmp_path}/a/__cluster_metadata-0"
    logs.shutdown(NOW)
    logs = opened(tmp_path, "ba")
    assert logs.metadata_log(NOW).directory == f"{tmp_path}/a/__cluster_metadata-0"


def test_a_second_metadata_log_is_never_begun(tmp_path: Path) -> None:
    logs = opened(tmp_path)
    logs.metadata_log(NOW)
    logs.create("t", 0, TOPIC_ID, NOW, directory_id=logs.directories[1].id)
    logs.shutdown(NOW)
    break_directory(tmp_path / "a")
    with pytest.raises(LogDirectoryError, match=r"It may be in what can't be read: .*/a: "):
        opened(tmp_path).metadata_log(NOW)
    with pytest.raises(LogDirectoryError, match="There are partitions, but no metadata log"):
        opened(tmp_path, "b").metadata_log(NOW)
    mend(tmp_path / "a")
    shutil.copytree(tmp_path / "a" / "__cluster_metadata-0", tmp_path / "b" / "__cluster_metadata-0")
    with pytest.raises(LogDirectoryError, match=r"is in .*/a and in .*/b: remove the older one"):
        opened(tmp_path).metadata_log(NOW)


def test_directories_of_a_kafka_with_zookeeper_are_named_as_such(tmp_path: Path) -> None:
    logs = opened(tmp_path, "b")
    logs.create("t", 0, TOPIC_ID, NOW)
    logs.shutdown(NOW)
    (tmp_path / "b" / "meta.properties").write_text("version=0\nbroker.id=1\n")
    with pytest.raises(LogDirectoryError, match="/b was written by a Kafka with ZooKeeper, which"):
        opened(tmp_path, "b").metadata_log(NOW)


def test_a_metadata_log_that_can_not_be_read_ends_the_start(tmp_path: Path) -> None:
    logs = opened(tmp_path)
    logs.metadata_log(NOW)
    logs.take_offline(logs.directories[0], OSError("gone"))
    with pytest.raises(LogDirectoryError, match=r"The metadata log can't be read: .*/a: gone"):
        logs.metadata_log(NOW)


def test_a_directory_of_its_own_for_the_metadata_log(tmp_path: Path) -> None:
    logs = manager(tmp_path, None, log_dirs=f"{tmp_path}/a", metadata_log_dir=f"{tmp_path}/x/")
    logs.new_uuid = lambda: next(IDS).to_bytes(16, "big")
    logs.start(NOW)
    assert logs.metadata_log(NOW).directory == f"{tmp_path}/x//__cluster_metadata-0"
    for number in range(3):
        assert logs.create("t", number, TOPIC_ID, NOW).directory == f"{tmp_path}/a/t-{number}"
    assert [directory.path for directory in logs.partition_directories] == [f"{tmp_path}/a"]
    logs.take_offline(logs.directories[0], OSError("gone"))
    refused(logs)


def test_metadata_log_dir_may_be_written_in_another_way(tmp_path: Path) -> None:
    logs = manager(tmp_path, None, log_dirs=f"{tmp_path}/a,{tmp_path}/b", metadata_log_dir=f"{tmp_path}/b/")
    logs.new_uuid = lambda: next(IDS).to_bytes(16, "big")
    logs.start(NOW)
    assert logs.metadata_log(NOW).directory == f"{tmp_path}/b/__cluster_metadata-0"


@pytest.mark.parametrize("known", [TOPIC_ID, None])
def test_with_only_an_unfinished_copy_a_log_is_not_begun_anew(tmp_path: Path, known: bytes | None) -> None:
    """The log is in a directory that is away. Of a copy that does not know its topic nobody was told yet."""
    folder = tmp_path / "b" / f"t-0.{'0' * 32}-future"
    folder.mkdir(parents=True)
    if known:
        write_partition_metadata(OsFileSystem(), f"{folder}/partition.metadata", TOPIC_ID)
    logs = opened(tmp_path)
    home = logs.directories[1].id
    logs.directory_map.resolve_ambiguous(logs.new_uuid, lambda key: home, lambda topic: TOPIC_ID)
    if not known:
        assert logs.directory_map.holder(KEY, home) == UNASSIGNED
        return
    assert logs.directory_map.holder(KEY, home) == LOST
    assert "unfinished copy" in refused(logs, directory_id=home, new=False)
    assert folder.exists()
    logs.delete(*KEY, NOW)
    logs.create(*KEY, bytes(16), NOW, directory_id=home)


def test_an_unfinished_copy_is_given_up_for_what_another_replica_has(tmp_path: Path) -> None:
    """The disk of the original is a new one."""
    folder = tmp_path / "b" / f"t-0.{'0' * 32}-future"
    folder.mkdir(parents=True)
    write_partition_metadata(OsFileSystem(), f"{folder}/partition.metadata", TOPIC_ID)
    logs = opened(tmp_path)
    directories = logs.directory_map
    directories.resolve_ambiguous(logs.new_uuid, lambda key: b"g" * 16, lambda topic: TOPIC_ID)
    assert KEY in directories.awaited
    del directories.awaited[KEY]
    assert KEY not in directories.awaited
    log = logs.create(*KEY, TOPIC_ID, NOW, directory_id=UNASSIGNED, new=False)
    assert log.log_end_offset == 0
    logs.shutdown(NOW)
    again = opened(tmp_path)
    assert again.get(*KEY).topic_id == TOPIC_ID
    assert not folder.exists()


def test_an_unfinished_copy_of_an_earlier_topic_is_nothing_to_wait_for(tmp_path: Path) -> None:
    folder = tmp_path / "b" / f"t-0.{'0' * 32}-future"
    folder.mkdir(parents=True)
    write_partition_metadata(OsFileSystem(), f"{folder}/partition.metadata", b"e" * 16)
    logs = opened(tmp_path)
    home = logs.directories[1].id
    logs.directory_map.resolve_ambiguous(logs.new_uuid, lambda key: home, lambda topic: TOPIC_ID)
    logs.create(*KEY, TOPIC_ID, NOW, directory_id=home, new=False)


def test_meta_properties_without_a_version(tmp_path: Path) -> None:
    opened(tmp_path).shutdown(NOW)
    path = tmp_path / "b" / "meta.properties"
    path.write_text(path.read_text().replace("version=1\n", ""))
    with pytest.raises(LogDirectoryError, match="is of version none"):
        opened(tmp_path)
