"""Small text files: Kafka's bytes, damaged files are not used, the newest offsets stay on disk; ids that name no
directory.
"""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from pykafka_broker.log import checkpoints
from pykafka_broker.log.checkpoints import (
    LOST,
    MIGRATING,
    UNASSIGNED,
    CheckpointWriter,
    is_reserved,
    read_offsets,
)
from pykafka_broker.log.filesystem import OsFileSystem
from pykafka_broker.log.jobs import Job, run_inline
from tests.log.support import FailingFileSystem, kafka_data

FS = OsFileSystem()
KEY = ("t", 0)


def test_offsets(tmp_path: Path) -> None:
    path = f"{tmp_path}/checkpoint"
    offsets = {("a", 0): 5, ("b-c", 12): 1 << 40}
    checkpoints.write_offsets(FS, path, offsets)
    assert (tmp_path / "checkpoint").read_bytes() == b"0\n2\na 0 5\nb-c 12 1099511627776\n"
    assert checkpoints.read_offsets(FS, path) == offsets
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint"]


@pytest.mark.parametrize(
    "content", [b"", b"0\n", b"0\n2\na 0 5\n", b"1\n1\na 0 5\n", b"0\n1\na 0\n", b"0\n1\na x 5\n", b"\xff"]
)
def test_a_damaged_checkpoint_says_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "checkpoint").write_bytes(content)
    assert checkpoints.read_offsets(FS, f"{tmp_path}/checkpoint") == {}
    assert checkpoints.read_offsets(FS, f"{tmp_path}/missing") == {}


def test_a_failed_write_leaves_the_old_checkpoint(tmp_path: Path) -> None:
    fs = FailingFileSystem()
    path = f"{tmp_path}/checkpoint"
    checkpoints.write_offsets(fs, path, {("a", 0): 1})
    for failure in ("write", "sync", "rename"):
        fs.failures = {failure: errno.ENOSPC}
        with pytest.raises(OSError, match="No space"):
            checkpoints.write_offsets(fs, path, {("a", 0): 2})
        assert checkpoints.read_offsets(FS, path) == {("a", 0): 1}


def test_what_kafka_wrote(tmp_path: Path) -> None:
    kafka = kafka_data(tmp_path)
    points = checkpoints.read_offsets(FS, f"{kafka}/{checkpoints.RECOVERY_POINTS}")
    assert points["transactions", 0] == 95
    topic_id = checkpoints.read_partition_metadata(FS, f"{kafka}/plain-0/partition.metadata")
    assert topic_id is not None
    checkpoints.write_partition_metadata(FS, f"{tmp_path}/again", topic_id)
    assert (tmp_path / "again").read_bytes() == (kafka / "plain-0/partition.metadata").read_bytes()
    properties = checkpoints.read_properties(FS, f"{kafka}/meta.properties")
    assert properties["version"] == "1"
    assert properties["node.id"] == "1"


def test_properties_are_escaped_as_javas(tmp_path: Path) -> None:
    """Apache Kafka 4.4.0 wrote the lines for the ids of clusters."""
    path = tmp_path / "meta.properties"
    lines = {
        rb"cluster.id=a\=\=": "a==",
        rb"cluster.id=a\:b": "a:b",
        rb"cluster.id=a\\b": r"a\b",
        rb"cluster.id=\ x": " x",
    }
    for line, cluster_id in lines.items():
        path.write_bytes(b"#\n#Mon Nov 30 18:41:11 UTC 2026\nnode.id=1\n" + line + b"\n")
        found = checkpoints.read_properties(FS, str(path))
        assert found == {"node.id": "1", "cluster.id": cluster_id}
        checkpoints.write_properties(FS, str(path), found)
        assert checkpoints.read_properties(FS, str(path)) == found


@pytest.mark.parametrize("content", [b"", b"version: 0\n", b"version: 0\ntopic_id: short\n", b"\xff"])
def test_partition_metadata_that_says_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    assert checkpoints.read_partition_metadata(FS, f"{tmp_path}/file") is None


def test_the_lowest_of_several_gaps_counts(tmp_path: Path) -> None:
    for offset, known in ((7, 7), (9, 7), (5, 5)):
        checkpoints.write_gap(OsFileSystem(), str(tmp_path), offset)
        assert checkpoints.read_gap(OsFileSystem(), str(tmp_path)) == known


def test_the_lowest_hundred_ids_name_no_directory() -> None:
    assert [(MIGRATING, UNASSIGNED, LOST).index(number.to_bytes(16, "big")) for number in range(3)] == [0, 1, 2]
    assert all(is_reserved(number.to_bytes(16, "big")) for number in range(100))
    assert not is_reserved((100).to_bytes(16, "big"))
    assert not is_reserved(b"\x80" + bytes(15))  # ids are no signed numbers


class Setting:
    def __init__(self, path: Path) -> None:
        self.fs = FailingFileSystem()
        self.jobs: list[Job] = []
        self.errors: list[OSError] = []
        self.writer = CheckpointWriter(self.fs, self.jobs.append, lambda path, error: self.errors.append(error))
        self.path = f"{path}/checkpoint"

    def run(self, *numbers: int) -> None:
        for number in numbers:
            run_inline(self.jobs[number])

    @property
    def on_disk(self) -> int | None:
        return read_offsets(self.fs, self.path).get(KEY)


def test_the_newest_wins_in_any_order(tmp_path: Path) -> None:
    it = Setting(tmp_path)
    for offset in (1, 2, 3):
        it.writer.later(it.path, {KEY: offset})
    it.run(2, 0, 1)
    assert it.on_disk == 3


def test_a_job_that_comes_late_does_not_undo_what_was_written_at_once(tmp_path: Path) -> None:
    it = Setting(tmp_path)
    it.writer.later(it.path, {KEY: 1})
    it.writer.now(it.path, {KEY: 2})
    it.run(0)
    assert it.on_disk == 2


def test_what_a_failed_write_has_pushed_aside_is_written_the_next_time(tmp_path: Path) -> None:
    it = Setting(tmp_path)
    it.writer.later(it.path, {KEY: 1})
    it.fs.failures = {"write checkpoint.tmp": errno.ENOSPC}
    with pytest.raises(OSError, match="No space"):
        it.writer.now(it.path, {KEY: 2})
    it.fs.failures = {}
    it.run(0)
    it.writer.later(it.path, {KEY: 1})
    it.run(*range(1, len(it.jobs)))
    assert it.on_disk == 1


def test_what_is_known_to_be_there_is_not_written_again(tmp_path: Path) -> None:
    it = Setting(tmp_path)
    it.writer.note(it.path, {KEY: 1})
    it.writer.later(it.path, {KEY: 1})
    assert it.jobs == []
    assert it.writer.mentions(KEY, [it.path])
    assert not it.writer.mentions(("u", 0), [it.path])
    it.writer.later(it.path, {KEY: 1}, folder=str(tmp_path))
    it.run(0)
    assert f"sync_directory {tmp_path}" in it.fs.calls, "the folder has changed, the offsets have not"


@pytest.mark.parametrize("at_once", [False, True])
def test_every_folder_that_the_content_depends_on_is_synced_before(tmp_path: Path, at_once: bool) -> None:
    it = Setting(tmp_path)
    it.writer.later(it.path, {KEY: 1}, folder=f"{tmp_path}/missing")  # deleted meanwhile
    it.writer.later(it.path, {KEY: 2}, folder=str(tmp_path))
    it.writer.later(it.path, {KEY: 3})
    if at_once:
        it.writer.now(it.path, {KEY: 3})
    else:
        it.run(0)
    calls = [call for call in it.fs.calls if call.startswith(("sync_directory", "rename"))]
    synced = calls[: calls.index(f"rename {it.path}.tmp")]
    assert sorted(synced) == [f"sync_directory {tmp_path}", f"sync_directory {tmp_path}/missing"]
    assert it.on_disk == 3


def test_a_failure_is_told_and_tried_again(tmp_path: Path) -> None:
    it = Setting(tmp_path)
    it.fs.failures = {"write": errno.ENOSPC}
    it.writer.later(it.path, {KEY: 1})
    it.run(0)
    assert [error.errno for error in it.errors] == [errno.ENOSPC]
    it.fs.failures = {}
    it.writer.later(it.path, {KEY: 1})
    it.run(1)
    assert it.on_disk == 1


def test_offsets_that_depend_on_a_folder_wait_for_its_sync(tmp_path: Path) -> None:
    it = Setting(tmp_path)
    (tmp_path / "t-0").mkdir()
    it.writer.later(it.path, {KEY: 1}, folder=f"{tmp_path}/t-0")
    it.run(0)
    assert it.fs.calls[0].startswith("sync_directory ")
    assert it.on_disk == 1
    it.writer.later(it.path, {KEY: 2}, folder=f"{tmp_path}/t-0")
    it.fs.failures = {"sync_directory": errno.EMFILE}
    it.run(1)
    assert (it.on_disk, [error.errno for error in it.errors]) == (1, [errno.EMFILE])
    it.fs.failures, it.fs.calls = {}, []
    it.writer.later(it.path, {KEY: 3})
    it.run(2)
    assert it.fs.calls[0].startswith("sync_directory ")
    assert it.on_disk == 3


def test_a_file_mentions_a_partition_until_it_is_written_without_it(tmp_path: Path) -> None:
    it = Setting(tmp_path)
    it.writer.later(it.path, {KEY: 1})
    assert it.writer.mentions(KEY, [it.path])
    it.run(0)
    it.writer.later(it.path, {})
    assert it.writer.mentions(KEY, [it.path])
    it.run(1)
    assert not it.writer.mentions(KEY, [it.path])
    assert it.on_disk is None
