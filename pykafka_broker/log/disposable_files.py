"""The file system of a broker that another broker may replace within the same process.

Rule: after `revoke` no operation by a path is done, not even by a job that is running: the path may belong to the other
broker by then. Open files stay usable, so that a response that is being sent goes out whole.

Its only reader is in another layer (`control`).
"""

from __future__ import annotations

import errno
import os
import threading

from pykafka_broker import system
from pykafka_broker.log.filesystem import FileHandle, OsFile, OsFileSystem


class DisposableFiles(OsFileSystem):
    """hasty: syncs are left out. So it is while a broker is put in the place of another one, which has to be quick:
    what a power cut would take then is the state that a test has asked for a moment ago.
    """

    def __init__(self) -> None:
        self.hasty = False
        self._revoked = False
        self._turn = threading.Lock()  # so that no call is between its look at `_revoked` and the disk

    def revoke(self) -> None:
        """From now on every call that names a path for writing is refused."""
        with self._turn:
            self._revoked = True

    def _check(self) -> None:
        if self._revoked:
            raise OSError(errno.ESTALE, "another broker has the directory now")

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> FileHandle:
        flags = (os.O_RDWR if writable else os.O_RDONLY) | (os.O_CREAT if create else 0)
        with self._turn:
            self._check()
            return _File(system.open_file(path, flags), self)

    def rename(self, source: str, target: str) -> None:
        with self._turn:
            self._check()
            super().rename(source, target)

    def remove(self, path: str) -> None:
        with self._turn:
            self._check()
            super().remove(path)

    def make_directory(self, path: str) -> None:
        with self._turn:
            self._check()
            super().make_directory(path)

    def sync_directory(self, path: str) -> None:
        if not self.hasty:
            super().sync_directory(path)


class _File(OsFile):
    __slots__ = ("_files",)

    def __init__(self, fd: int, files: DisposableFiles) -> None:
        super().__init__(fd)
        self._files = files

    def sync(self) -> None:
        if not self._files.hasty:
            super().sync()
