"""Files of segments, opened when they are needed and closed when too many are open.

Rule: a `FileHandle` closes with its last reference. The cache holds one reference to each open file and drops the one
that was not used for longest; a slice on its way to a client holds another reference, so that a response is never cut
off. A removed file keeps its handle for its slices.
"""

from __future__ import annotations

import contextlib
import errno
import threading
from collections import OrderedDict

from pykafka_broker.log.filesystem import FileHandle, FileSystem

_FEWEST = 16


class FileCache:
    """At most `limit` open files, closed by second chance: a file used since the hand last passed stays open."""

    def __init__(self, fs: FileSystem, limit: int = 1024) -> None:
        self.fs = fs
        self.limit = limit
        self._open: OrderedDict[CachedFile, None] = OrderedDict()  # a file is forgotten in constant time
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
        """Close half of the files and keep fewer open from now on, since the process has no descriptor left."""
        with self._lock:
            count = len(self._open) // 2
            for _ in range(count):
                self._open.popitem(last=False)[0].drop_handle()
            self.limit = max(_FEWEST, count)
        return count > 0

    def forget_all(self) -> None:
        """Hold no file open any more; readers keep the files which are being read."""
        with self._lock:
            self._open.clear()

    def release_folder(self, folder: str) -> None:
        """Close the files in a folder before a rename, on systems where an open file prevents the rename.

        Readers of these files keep their handles.
        """
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
    """A file of a log under the current path."""

    __slots__ = ("_cache", "_handle", "path", "recent")

    def __init__(self, cache: FileCache, path: str) -> None:
        self.path = path
        self.recent = True
        self._cache = cache
        self._handle: FileHandle | None = None

    def handle(self) -> FileHandle:
        """Return the open file.

        Raises:
            FileNotFoundError: there is no such file.
        """
        self.recent = True
        handle = self._handle
        return handle if handle is not None else self._open(create=False)

    def create(self) -> FileHandle:
        """Return the open file; a missing file is made."""
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
        """Return the bytes on disk, 0 for a missing file."""
        try:
            return self._handle.size() if self._handle is not None else self._cache.fs.stat(self.path).size
        except FileNotFoundError:
            return 0

    def rename(self, path: str) -> None:
        """Rename the file on disk; the open handle stays good. A missing file only gets the new path."""
        with contextlib.suppress(FileNotFoundError):
            self._cache.fs.rename(self.path, path)
        self.path = path

    def close(self) -> None:
        if self._handle is not None:
            self._cache.forget(self)
            self._handle = None

    def remove(self) -> None:
        """Unlink the file. Slices stay readable, because a slice keeps the object and the object keeps the handle."""
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
        """Return a descriptor which stays open as long as the slice lives."""
        if self._handle is None:
            self._handle = self.file.handle()
        return self._handle.fileno()

    def advance(self, count: int) -> FileSlice:
        """Return the rest of the slice after `count` bytes have been sent."""
        rest = FileSlice(self.file, self.position + count, self._length - count)
        rest._handle = self._handle
        return rest

    def read(self) -> bytes:
        handle = self._handle if self._handle is not None else self.file.handle()
        return handle.read_at(self._length, self.position)
