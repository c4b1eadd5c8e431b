"""Files as Windows has them. Rule: a folder with an open file in it is neither renamed nor removed, and an open file is
not replaced; a file that is open may be renamed and removed, since it is opened so that it may (`platform.open_file`).
"""

from __future__ import annotations

import os
from collections import Counter

from pykafka_broker import platform
from pykafka_broker.log.filesystem import FileHandle, OsFile, OsFileSystem


class WindowsFiles(OsFileSystem):
    """A file system that refuses what Windows refuses; `refusals` are the paths of the refused calls."""

    holds_folders = True

    def __init__(self) -> None:
        self.opened: Counter[tuple[int, int]] = Counter()  # device and inode, whatever the name is by now
        self.refusals: list[str] = []

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> FileHandle:
        flags = (os.O_RDWR if writable else os.O_RDONLY) | (os.O_CREAT if create else 0)
        return _Open(platform.open_file(path, flags), self)

    def rename(self, source: str, target: str) -> None:
        if os.path.isdir(source):
            self._check_folder(source)
        elif os.path.exists(target) and not os.path.samefile(source, target):
            self._check(target)
        super().rename(source, target)

    def remove_tree(self, path: str) -> None:
        self._check_folder(path)
        super().remove_tree(path)

    def _check_folder(self, folder: str) -> None:
        for entry in os.scandir(folder):
            self._check(entry.path)

    def _check(self, path: str) -> None:
        status = os.stat(path)
        if self.opened[status.st_dev, status.st_ino]:
            self.refusals.append(path)
            error = PermissionError(13, "The process cannot access the file because it is being used", path)
            error.winerror = 32  # type: ignore[attr-defined]
            raise error


class _Open(OsFile):
    __slots__ = ("_file", "_files")

    def __init__(self, fd: int, files: WindowsFiles) -> None:
        super().__init__(fd)
        status = os.fstat(fd)
        self._file, self._files = (status.st_dev, status.st_ino), files
        files.opened[self._file] += 1

    def __del__(self) -> None:
        self._files.opened[self._file] -= 1
        super().__del__()
