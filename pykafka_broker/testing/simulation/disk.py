"""A file system in memory that can lose power.

Rule: what was not synced may or may not be there afterwards. Data of a file: any of the writes since its last sync,
each whole, torn or missing, in any combination. Names in a directory: the changes since its last sync up to some point,
since file systems keep these in order; but each directory for itself, and independent of the data of files.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import lru_cache
from random import Random

from pykafka_broker.log.filesystem import Buffer, DiskUsage, FileStat

SECTOR = 512
Contents = tuple[tuple[str, object], ...]


class SimFile:
    """A file. durable: the data as of the last sync; pending: the changes since, which a loss of power may undo."""

    def __init__(self, data: bytes = b"", modified_ms: int = 0) -> None:
        self.data = bytearray(data)
        self.durable = data
        self.pending: list[tuple[int, bytes | None]] = []  # writes (position, data), truncations (size, None)
        self.modified_ms = modified_ms

    def contents(self) -> bytes:
        return bytes(self.data) if self.pending else self.durable  # which copies share, and its hash

    def apply(self, change: tuple[int, bytes | None], now: int = 0) -> None:
        _apply(self.data, change)
        self.pending.append(change)
        self.modified_ms = now

    def sync(self) -> None:
        self.durable, self.pending = bytes(self.data), []

    def after_crash(self, random: Random | None, keep: bool) -> SimFile:
        if not self.pending:
            return SimFile(self.durable, self.modified_ms)
        data = bytearray(self.durable)
        if random is not None:
            for change in self.pending:
                _apply_torn(data, change, random)
        elif keep:
            data = self.data
        return SimFile(bytes(data), self.modified_ms)


def _apply(data: bytearray, change: tuple[int, bytes | None]) -> None:
    position, written = change
    if written is None:
        del data[position:]
        return
    if len(data) < position:
        data += bytes(position - len(data))
    data[position : position + len(written)] = written


def _apply_torn(data: bytearray, change: tuple[int, bytes | None], random: Random) -> None:
    """Apply what a loss of power leaves of a change: nothing, a beginning, all but a sector, or everything."""
    fate = random.randrange(4)
    position, written = change
    if fate == 0:
        return
    if fate == 1 and written:
        written = written[: random.randrange(len(written))]
    elif fate == 2 and written and len(written) > SECTOR:
        start = random.randrange(len(written) // SECTOR) * SECTOR
        written = written[:start] + bytes(SECTOR) + written[start + SECTOR :]
    _apply(data, (position, written))


@lru_cache(1 << 12)
def _parts(path: str) -> tuple[str, ...]:
    return tuple(filter(None, path.split("/")))


class SimDirectory:
    """A directory. durable: the names as of the last sync; pending: the changes since, each of one operation."""

    def __init__(self) -> None:
        self.entries: dict[str, SimFile | SimDirectory] = {}
        self.durable: dict[str, SimFile | SimDirectory] = {}
        self.pending: list[dict[str, SimFile | SimDirectory | None]] = []

    def contents(self) -> Contents:
        return tuple((name, node.contents()) for name, node in self.entries.items())

    def change(self, entries: dict[str, SimFile | SimDirectory | None]) -> None:
        _update(self.entries, entries)
        self.pending.append(entries)

    def sync(self) -> None:
        self.durable, self.pending = dict(self.entries), []

    def sync_all(self) -> None:
        """Sync the directory with everything in it."""
        self.sync()
        for node in self.entries.values():
            if isinstance(node, SimDirectory):
                node.sync_all()
            else:
                node.sync()

    def after_crash(self, random: Random | None, keep: bool) -> SimDirectory:
        entries = dict(self.durable)
        count = len(self.pending) if keep else 0
        if random is not None:
            count = random.randrange(len(self.pending) + 1)
        for changed in self.pending[:count]:
            _update(entries, changed)
        made = SimDirectory()
        made.entries = {name: node.after_crash(random, keep) for name, node in entries.items()}
        made.durable = dict(made.entries)
        return made


def _segment_bytes(entry: tuple[str, SimFile | SimDirectory]) -> int:
    name, node = entry
    if isinstance(node, SimDirectory):
        return sum(map(_segment_bytes, node.entries.items()))
    return len(node.data) if name.endswith(".log") else 0


def _update(entries: dict[str, SimFile | SimDirectory], changed: dict[str, SimFile | SimDirectory | None]) -> None:
    for name, node in changed.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


class SimHandle:
    def __init__(self, fs: CrashFileSystem, file: SimFile, path: str) -> None:
        self._fs = fs
        self._file = file
        self._path = path

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "a simulated file has no descriptor")

    def read_at(self, length: int, position: int) -> bytes:
        if self._fs.broken:
            self._fs.check(self._path)
        return bytes(self._file.data[position : position + length])

    def write_at(self, data: Buffer, position: int) -> None:
        if self._fs.broken:
            self._fail_half_way(data, position)
        self._file.apply((position, bytes(data)), self._fs.now())
        self._fs.done(f"write {self._path}")

    def _fail_half_way(self, data: Buffer, position: int) -> None:
        """Raise OSError in the middle of a write, as a full disk does; do nothing if the disk takes the write."""
        try:
            self._fs.check(self._path, grows=True)
        except OSError:
            self._file.apply((position, bytes(data[: len(data) // 2])), self._fs.now())
            raise

    def size(self) -> int:
        return len(self._file.data)

    def truncate(self, size: int) -> None:
        if self._fs.broken:
            self._fs.check(self._path)
        grows = size > len(self._file.data)
        self._file.apply((size - 1, b"\0") if grows else (size, None), self._fs.now())
        self._fs.done(f"truncate {self._path}")

    def allocate(self, size: int) -> None:
        if self._fs.broken:
            self._fs.check(self._path, grows=True)
        missing = size - len(self._file.data)
        if missing > 0:
            self._file.apply((len(self._file.data), bytes(missing)), self._fs.now())
            self._fs.done(f"allocate {self._path}")

    def sync(self) -> None:
        if self._fs.broken:
            self._fs.check(self._path)
        self._file.sync()
        self._fs.done(f"sync {self._path}")


class SimLock:
    def release(self) -> None:
        """Do nothing: no other process exists."""


class CrashFileSystem:
    """A disk in memory. `on_operation` is called after each operation that changes something."""

    holds_folders = False

    def __init__(self, root: SimDirectory | None = None) -> None:
        self._root = root or SimDirectory()
        if root is None:
            self._root.entries["data"] = self._root.durable["data"] = SimDirectory()
        self.on_operation: Callable[[str], None] | None = None
        self.broken: dict[str, int] = {}  # directories of disks that fail, with the error; a full one can be read
        self.once: set[str] = set()  # which of these fail once
        self.now: Callable[[], int] = lambda: 0  # what files are stamped with, in ms
        self.operations = 0

    def after_crash(self, seed: int | None = None, *, keep: bool = False) -> CrashFileSystem:
        """Return the disk as a new process finds it. A disk that fails still does, until it is mended itself.

        Args:
            seed: how much unsynced data is left; None for nothing, or with `keep` for everything.
        """
        random = None if seed is None else Random(seed)
        made = CrashFileSystem(self._root.after_crash(random, keep))
        made.broken, made.once, made.now = dict(self.broken), set(self.once), self.now
        return made

    def contents(self) -> Contents:
        """Return everything on the disk, to compare with another one."""
        return self._root.contents()

    def size_of_logs(self) -> int:
        """Return the bytes of all segments."""
        return sum(map(_segment_bytes, self._root.entries.items()))

    def done(self, what: str) -> None:
        self.operations += 1
        if self.on_operation is not None:
            self.on_operation(what)

    def check(self, path: str, *, grows: bool = False) -> None:
        """Raise OSError for a path on a disk that fails. grows: whether the call needs more room."""
        for directory, error in self.broken.items():
            if path.startswith(directory) and (grows or error != errno.ENOSPC):
                if directory in self.once:
                    self.once.remove(directory)
                    del self.broken[directory]
                raise OSError(error, os.strerror(error), path)

    def _find(self, path: str) -> SimFile | SimDirectory:
        if self.broken:
            self.check(path)
        node: SimFile | SimDirectory = self._root
        for part in _parts(path):
            found = node.entries.get(part) if isinstance(node, SimDirectory) else None
            if found is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            node = found
        return node

    def _directory(self, path: str) -> SimDirectory:
        node = self._find(path)
        if not isinstance(node, SimDirectory):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return node

    def _parent(self, path: str) -> tuple[SimDirectory, str]:
        head, _, name = path.rpartition("/")
        return self._directory(head), name

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> SimHandle:
        parent, name = self._parent(path)
        node = parent.entries.get(name)
        if node is None and create:
            self.check(path, grows=True)
            node = SimFile(modified_ms=self.now())
            parent.change({name: node})
            self.done(f"create {path}")
        if not isinstance(node, SimFile):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return SimHandle(self, node, path)

    def stat(self, path: str) -> FileStat:
        node = self._find(path)
        return FileStat(len(node.data), node.modified_ms) if isinstance(node, SimFile) else FileStat(0, 0)

    def exists(self, path: str) -> bool:
        try:
            self._find(path)
        except OSError:
            return False
        return True

    def rename(self, source: str, target: str) -> None:
        parent, name = self._parent(source)
        target_parent, target_name = self._parent(target)
        assert parent is target_parent, "a rename across directories is not atomic"
        node = self._find(source)
        parent.change({name: None, target_name: node})
        self.done(f"rename {source} {target}")

    def remove(self, path: str) -> None:
        self._find(path)
        parent, name = self._parent(path)
        parent.change({name: None})
        self.done(f"remove {path}")

    def remove_tree(self, path: str) -> None:
        directory = self._directory(path)
        for name in list(directory.entries):
            directory.change({name: None})
            self.done(f"remove {path}/{name}")
        self.remove(path)

    def make_directory(self, path: str) -> None:
        walked = ""
        for part in _parts(path):
            parent = self._directory(walked)
            walked += f"/{part}"
            if part not in parent.entries:
                self.check(walked, grows=True)
                parent.change({part: SimDirectory()})
                self.done(f"mkdir {walked}")

    def list_directory(self, path: str) -> list[str]:
        return list(self._directory(path).entries)

    def list_folders(self, path: str) -> list[str]:
        entries = self._directory(path).entries
        return [name for name, node in entries.items() if isinstance(node, SimDirectory)]

    def sync_directory(self, path: str) -> None:
        self._directory(path).sync()
        self.done(f"sync_directory {path}")

    def sync_all(self, path: str) -> bool:
        self._directory(path).sync_all()
        self.done(f"sync_all {path}")
        return True

    def disk_usage(self, path: str) -> DiskUsage:
        return DiskUsage(1 << 40, 1 << 39)

    def lock(self, path: str) -> SimLock:
        self.open(path, create=True)
        return SimLock()
