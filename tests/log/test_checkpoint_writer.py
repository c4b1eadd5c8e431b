"""Whatever order the threads come in, the newest offsets stay on disk."""

from __future__ import annotations

import errno
from pathlib import Path

from pykafka_broker.log.checkpoint_writer import CheckpointWriter
from pykafka_broker.log.checkpoints import read_offsets
from pykafka_broker.log.jobs import Job, run_inline
from tests.log.support import FailingFileSystem

KEY = ("t", 0)


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


def test_what_is_known_to_be_there_is_not_written_again(tmp_path: Path) -> None:
    it = Setting(tmp_path)
    it.writer.note(it.path, {KEY: 1})
    it.writer.later(it.path, {KEY: 1})
    assert it.jobs == []
    assert it.writer.mentions(KEY, [it.path])
    assert not it.writer.mentions(("u", 0), [it.path])


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
    it.writer.later(it.path, {KEY: 2}, folder=f"{tmp_path}/gone")
    it.run(1)
    assert it.on_disk == 1
    assert it.errors == []


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
