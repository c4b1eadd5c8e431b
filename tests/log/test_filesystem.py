"""Files of a broker whose place another one takes."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pykafka_broker.log import filesystem
from pykafka_broker.log.filesystem import DisposableFiles, write_file

CALLS: dict[str, Callable[[DisposableFiles, str], object]] = {
    "open": lambda fs, path: fs.open(f"{path}/file", create=True),
    "rename": lambda fs, path: fs.rename(f"{path}/there", f"{path}/elsewhere"),
    "remove": lambda fs, path: fs.remove(f"{path}/there"),
    "make_directory": lambda fs, path: fs.make_directory(f"{path}/folder"),
    "write": lambda fs, path: write_file(fs, f"{path}/there", b"new"),
}


@pytest.mark.parametrize("name", CALLS)
def test_revoked_they_change_nothing_by_a_path(tmp_path: Path, name: str) -> None:
    fs = DisposableFiles()
    (tmp_path / "there").write_bytes(b"old")
    fs.revoke()
    with pytest.raises(OSError, match="another broker") as refused:
        CALLS[name](fs, str(tmp_path))
    assert refused.value.errno == errno.ESTALE
    assert os.listdir(tmp_path) == ["there"]
    assert (tmp_path / "there").read_bytes() == b"old"


@pytest.mark.parametrize("name", CALLS)
def test_before_that_they_are_files_as_any(tmp_path: Path, name: str) -> None:
    (tmp_path / "there").write_bytes(b"old")
    CALLS[name](DisposableFiles(), str(tmp_path))
    assert os.listdir(tmp_path) != ["there"] or (tmp_path / "there").read_bytes() == b"new"


def test_an_open_file_stays_usable(tmp_path: Path) -> None:
    fs = DisposableFiles()
    file = fs.open(str(tmp_path / "file"), create=True)
    fs.revoke()
    file.write_at(b"late", 0)
    assert file.read_at(4, 0) == b"late"


def test_in_haste_nothing_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    monkeypatch.setattr(os, "fsync", synced.append)
    monkeypatch.setattr(filesystem, "sync_file_system", lambda path: synced.append(0))
    fs = DisposableFiles()
    fs.hasty = True
    file = fs.open(str(tmp_path / "file"), create=True)
    file.sync()
    fs.sync_directory(str(tmp_path))
    assert fs.sync_all(str(tmp_path))
    assert synced == []
    fs.hasty = False
    file.sync()
    fs.sync_directory(str(tmp_path))
    assert len(synced) == 2


def test_a_full_disk_is_one_broker_s(tmp_path: Path) -> None:
    fs, other = DisposableFiles(), DisposableFiles()
    file = fs.open(str(tmp_path / "file"), create=True)
    fs.fail_writes(errno.ENOSPC)
    with pytest.raises(OSError, match="No space") as refused:
        file.write_at(b"1", 0)
    assert refused.value.errno == errno.ENOSPC
    other.open(str(tmp_path / "file")).write_at(b"2", 0)
    fs.fail_writes(0)
    file.write_at(b"3", 1)
    assert file.read_at(2, 0) == b"23"


def test_a_broken_disk_fails_every_write(tmp_path: Path) -> None:
    fs = DisposableFiles()
    file = fs.open(str(tmp_path / "file"), create=True)
    fs.fail_writes(errno.EIO)
    with pytest.raises(OSError, match="Input/output") as failed:
        file.write_at(b"1", 0)
    assert failed.value.errno == errno.EIO
    assert fs.refuses_writes
    fs.fail_writes(0)
    file.write_at(b"1", 0)
