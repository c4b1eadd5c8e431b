"""Open files are few, and a slice keeps what it was given."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

import pytest

from pykafka_broker import platform
from pykafka_broker.log.filesystem import CachedFile, FileCache, FileHandle, FileSlice, OsFileSystem


def files(path: Path, count: int, limit: int) -> tuple[FileCache, list[CachedFile]]:
    cache = FileCache(OsFileSystem(), limit)
    made = []
    for number in range(count):
        file = CachedFile(cache, f"{path}/{number}")
        file.create().write_at(b"%d" % number, 0)
        made.append(file)
    return cache, made


def open_descriptors(path: Path) -> int:
    count = 0
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed since: that of the listing, or one of an earlier test
            count += os.readlink(f"/proc/self/fd/{fd}").startswith(str(path))
    return count


@pytest.mark.linux("counts descriptors in /proc")
def test_no_more_than_the_limit_are_open(tmp_path: Path) -> None:
    cache, made = files(tmp_path, 50, 7)
    for file in made * 2:
        assert file.handle().read_at(10, 0) == file.path.rpartition("/")[2].encode()
    assert len(cache) == open_descriptors(tmp_path) == 7


@pytest.mark.linux("counts descriptors in /proc")
def test_the_one_not_used_for_longest_is_closed(tmp_path: Path) -> None:
    cache, made = files(tmp_path, 3, 3)
    kept = made[0].handle()
    made[1].recent = made[2].recent = False
    CachedFile(cache, f"{tmp_path}/new").create()
    assert made[0].handle() is kept
    assert open_descriptors(tmp_path) == 3


@pytest.mark.linux("counts descriptors in /proc")
def test_a_slice_keeps_its_descriptor_while_the_cache_closes_the_file(tmp_path: Path) -> None:
    cache, made = files(tmp_path, 1, 2)
    held = FileSlice(made[0], 0, 1)
    fd = held.fileno()
    for number in range(5):
        CachedFile(cache, f"{tmp_path}/other{number}").create()
    assert platform.read_at(fd, 1, 0) == b"0"
    assert held.fileno() == fd
    del held
    assert open_descriptors(tmp_path) == 2


def test_a_removed_file_is_readable_through_its_slices_and_closed_with_them(tmp_path: Path) -> None:
    _, made = files(tmp_path, 1, 2)
    held = FileSlice(made[0], 0, 1)
    made[0].remove()
    made.clear()
    assert list(tmp_path.iterdir()) == []
    assert held.read() == b"0"
    assert platform.read_at(held.fileno(), 1, 0) == b"0"
    del held
    assert open_descriptors(tmp_path) == 0


def test_a_renamed_file_goes_on(tmp_path: Path) -> None:
    _, (file,) = files(tmp_path, 1, 2)
    file.rename(f"{tmp_path}/moved")
    file.close()
    assert file.handle().read_at(1, 0) == b"0"
    assert [path.name for path in tmp_path.iterdir()] == ["moved"]


def test_reading_beyond_the_end_gives_what_there_is(tmp_path: Path) -> None:
    handle = OsFileSystem().open(f"{tmp_path}/file", create=True)
    handle.write_at(b"abc", 0)
    assert handle.read_at(10, 1) == b"bc"
    assert handle.read_at(10, 3) == b""
    assert handle.size() == 3


class FewDescriptors(OsFileSystem):
    """A file system that refuses to open more than 30 files at once."""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> FileHandle:
        if open_descriptors(Path(path).parent) >= 30:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
        return super().open(path, create=create, writable=writable)


def test_without_a_descriptor_left_some_are_closed(tmp_path: Path) -> None:
    cache = FileCache(FewDescriptors(), 1000)
    made = [CachedFile(cache, f"{tmp_path}/{number}") for number in range(100)]
    for file in made * 2:
        file.create().write_at(b"x", 0)
    assert 15 <= cache.limit < 30
    assert len(cache) < 30
    held = [FileSlice(file, 0, 1) for file in made[:40]]
    with pytest.raises(OSError, match="Too many open files"):  # files that slices hold can't be closed
        [piece.fileno() for piece in held]
    assert held[0].read() == b"x"
