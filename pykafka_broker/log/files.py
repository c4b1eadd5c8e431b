"""Files of segments, opened when they are needed and closed when too many are open.

Rule: a `FileHandle` closes with its last reference. The cache holds one reference to each open file and drops the one
that was not used for longest; a slice on its way to a client holds another, so it is never cut off. A file that is
removed keeps its handle for its slices.
"""

from __future__ import annotations

import contextlib
import errno
import threading
from collections import OrderedDict

from pykafka_broker.log.filesystem import FileHandle, FileSystem

_FEWEST = 16


class FileCache:
    """At most `limit` open files, by second chance: a file used since the hand last came by stays."""

    def __init__(self, fs: FileSystem, limit: int = 1024) -> None:
        self.fs = fs
        self.limit = limit
        self._open: OrderedDict[CachedFile, None] = OrderedDict()  # which forgets any of them at once
        self._lock = threading.Lock()  # recovery, flushing and cleaning open files from their own threads

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, file: CachedFile, handle: FileHandle) -> None:
        with self._lock:
            opened = self._open
            while len(opened) >= self.limit:
                oldest, _ = opened.popitem(last=False)
                if oldest.recent:
                    oldest.recent = False
                    opened[oldest] = None
                else:
                    oldest.drop_handle()
            opened[file] = None
        file.keep_handle(handle)

    def give_way(self) -> bool:
        """The process has no descriptor left: close half of these files, and keep fewer open from now on."""
        with self._lock:
            count = len(self._open) // 2
            for _ in range(count):
                self._open.popitem(last=False)[0].drop_handle()
            self.limit = max(_FEWEST, count)
        return count > 0

    def forget_all(self) -> None:
        """Hold no file open any more. Those that somebody reads stay open until that is done."""
        with self._lock:
            self._open.clear()

    def let_go(self, folder: str) -> None:
        """Close those in a folder that is about to be renamed, where that matters. Who reads from them goes on."""
        if not self.fs.holds_folders:
            return
        with self._lock:
            for file in [each for each in self._open if each.path.startswith(f"{folder}/")]:
                del self._open[file]
                file.drop_handle()

    def forget(self, file: CachedFile) -> None:
        with self._lock:
            self._open.pop(file, None)


class CachedFile:
    """One file of a log under its current path."""

    __slots__ = ("_cache", "_handle", "path", "recent")

    def __init__(self, cache: FileCache, path: str) -> None:
        self.path = path
        self.recent = True
        self._cache = cache
        self._handle: FileHandle | None = None

    def handle(self) -> FileHandle:
        """The open file; `FileNotFoundError` if there is none."""
        self.recent = True
        handle = self._handle
        return handle if handle is not None else self._open(create=False)

    def create(self) -> FileHandle:
        """The open file, made if there is none."""
        handle = self._handle
        return handle if handle is not None else self._open(create=True)

    def _open(self, create: bool) -> FileHandle:
        try:
            handle = self._cache.fs.open(self.path, create=create)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._cache.give_way():
                raise
            handle = self._cache.fs.open(self.path, create=create)
        self._cache.admit(self, handle)
        return handle

    def keep_handle(self, handle: FileHandle) -> None:
        self._handle = handle

    def drop_handle(self) -> None:
        self._handle = None

    def exists(self) -> bool:
        return self._handle is not None or self._cache.fs.exists(self.path)

    def size(self) -> int:
        """Bytes on disk, 0 if there is no such file."""
        try:
            return self._handle.size() if self._handle is not None else self._cache.fs.stat(self.path).size
        except FileNotFoundError:
            return 0

    def rename(self, path: str) -> None:
        """Move the file if it exists; the handle stays good."""
        with contextlib.suppress(FileNotFoundError):
            self._cache.fs.rename(self.path, path)
        self.path = path

    def close(self) -> None:
        if self._handle is not None:
            self._cache.forget(self)
            self._handle = None

    def remove(self) -> None:
        """Unlink the file; slices of it stay readable, because this object keeps the handle and they keep this
        object.
        """
        with contextlib.suppress(FileNotFoundError):
            if self._handle is None:
                self._handle = self._cache.fs.open(self.path)
            else:
                self._cache.forget(self)
            self._cache.fs.remove(self.path)


class FileSlice:
    """A run of whole batches in a segment file, for `sendfile` or to read; immutable, since a log only grows."""

    __slots__ = ("_handle", "_length", "file", "position")

    def __init__(self, file: CachedFile, position: int, length: int) -> None:
        self.file = file
        self.position = position
        self._length = length
        self._handle: FileHandle | None = None

    def __len__(self) -> int:
        return self._length

    def fileno(self) -> int:
        """A descriptor that stays open as long as this slice lives."""
        if self._handle is None:
            self._handle = self.file.handle()
        return self._handle.fileno()

    def advance(self, count: int) -> FileSlice:
        """What is left of it after `count` bytes have been sent."""
        rest = FileSlice(self.file, self.position + count, self._length - count)
        rest._handle = self._handle
        return rest

    def read(self) -> bytes:
        handle = self._handle if self._handle is not None else self.file.handle()
        return handle.read_at(self._length, self.position)
