"""The door to the disk.

Rule: nothing in `log/` touches a file except through a `FileSystem`. Tests put another one in its place that fails,
runs full, or forgets unsynced data. A call either does all of its work or raises `OSError`; a short write never goes
unnoticed.

After `DisposableFiles.revoke` no operation by a path is done, not even by a running job: another broker of the same
process may own the path by then. Open files stay usable, so that a response on its way goes out whole.

Files of segments are opened when they are needed and closed when too many are open (`FileCache`). A `FileHandle` closes
with its last reference. The cache holds one reference to each open file and drops the one that was not used for
longest; a slice on its way to a client holds another reference, so that a response is never cut off. A removed file
keeps its handle for its slices.

A whole file system is synced with one system call (`syncfs`) only where that call reports the errors of files written
before: on Linux from 5.8 on, and on file systems that are known to do so. On others, as on the overlay of a container,
a failed disk would go unnoticed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import threading
from collections import OrderedDict
from typing import NamedTuple, Protocol

from pykafka_broker import platform

Buffer = bytes | bytearray | memoryview
# The disk works, but has no room at the moment, or there is no descriptor: appends fail, reads go on.
_PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM})
_FEWEST_OPEN = 16  # files
_COPIED_AT_ONCE_BYTES = 1 << 20
_IN_USE = (5, 32)  # Windows: another process has the file or folder open
_FIRST_TO_REPORT = (5, 8)
_REPORT_ERRORS = frozenset({"ext4", "xfs"})
_MOUNTS = "/proc/self/mountinfo"


def is_passing(error: OSError) -> bool:
    """Return whether the call may succeed the next time, and the error says nothing against the disk."""
    return error.errno in _PASSING or getattr(error, "winerror", None) in _IN_USE


class FileStat(NamedTuple):
    size: int
    modified_ms: int  # used when a segment is loaded, whose records may have no timestamps
    device: int = 0  # of the file system
    links: int = 1  # names of the file


class DiskUsage(NamedTuple):
    total_bytes: int
    usable_bytes: int


class FileHandle(Protocol):
    """An open file, closed with the last reference to the handle."""

    def fileno(self) -> int: ...

    def read_at(self, length: int, position: int) -> bytes:
        """Return up to `length` bytes; fewer only at the end of the file."""

    def write_at(self, data: Buffer, position: int) -> None: ...

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def allocate(self, size: int) -> None:
        """Make the file at least `size` bytes long, with room on disk for all bytes."""

    def sync(self) -> None: ...


class FileLock(Protocol):
    def release(self) -> None: ...


class FileSystem(Protocol):
    holds_folders: bool
    """A folder can't be renamed while a file in it is open, as on Windows."""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> FileHandle: ...

    def stat(self, path: str) -> FileStat: ...

    def exists(self, path: str) -> bool: ...

    def rename(self, source: str, target: str) -> None:
        """Rename a file, replacing an existing `target` in a single step."""

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def make_directory(self, path: str) -> None:
        """Make a directory and the missing parents; an existing directory is left alone."""

    def list_directory(self, path: str) -> list[str]: ...

    def list_folders(self, path: str) -> list[str]:
        """Return the names of the directories alone."""

    def sync_directory(self, path: str) -> None:
        """Make creations, renames and removals in the directory outlive a power cut."""

    def sync_all(self, path: str) -> bool:
        """Make everything on the directory's file system outlive a power cut, with a single call.

        Returns:
            False where the system can't do that, or would not report an error: the caller has to sync each file.
        """

    def disk_usage(self, path: str) -> DiskUsage: ...

    def lock(self, path: str) -> FileLock:
        """Take an exclusive lock, held until `release` or the end of the process.

        Raises:
            BlockingIOError: another process or thread holds the lock.
        """


def read_file(fs: FileSystem, path: str) -> bytes:
    handle = fs.open(path, writable=False)
    return handle.read_at(handle.size(), 0)


def write_file(fs: FileSystem, path: str, data: bytes, *, sync: bool = True) -> None:
    """Replace a small file. A crash leaves the old or the new content, never a mixture."""
    temporary = path + ".tmp"
    handle = fs.open(temporary, create=True)
    try:
        handle.truncate(0)
        handle.write_at(data, 0)
        if sync:
            handle.sync()
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error  # errors of a descriptor name no file
    fs.rename(temporary, path)
    if sync:
        fs.sync_directory(os.path.dirname(path))


def sync_file(handle: FileHandle) -> None:
    """Sync a file. Raises OSError, which is never a passing one."""
    try:
        handle.sync()
    except OSError as error:
        raise for_good(error) from error


def for_good(error: OSError) -> OSError:
    """Return the error of a sync as a lasting error: unlike a write without room, a failed sync may have lost data."""
    if not is_passing(error):
        return error
    return OSError(errno.EIO, f"sync failed: {error.strerror}", error.filename)


def copy_from(source: FileHandle, position: int, target: FileHandle) -> None:
    """Copy the bytes from `position` on to the begin of another file, and sync the copy."""
    written = 0
    while piece := source.read_at(_COPIED_AT_ONCE_BYTES, position + written):
        target.write_at(piece, written)
        written += len(piece)
    target.sync()


class OsFile:
    """A file descriptor, closed with the last reference."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._fd)

    def fileno(self) -> int:
        return self._fd

    def read_at(self, length: int, position: int) -> bytes:
        data = platform.read_at(self._fd, length, position)
        if len(data) == length or not data:
            return data
        pieces = [data]
        missing = length - len(data)
        while missing:
            data = platform.read_at(self._fd, missing, position + length - missing)
            if not data:
                break
            pieces.append(data)
            missing -= len(data)
        return b"".join(pieces)

    def write_at(self, data: Buffer, position: int) -> None:
        written, size = platform.write_at(self._fd, data, position), len(data)
        while written != size:
            written += platform.write_at(self._fd, memoryview(data)[written:], position + written)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def allocate(self, size: int) -> None:
        platform.allocate(self._fd, size)

    def sync(self) -> None:
        platform.sync_data(self._fd)


class OsFileLock(OsFile):
    """An open and locked file."""

    __slots__ = ()

    def release(self) -> None:
        platform.unlock(self._fd)


class OsFileSystem:
    """The operating system's files."""

    holds_folders = platform.HOLDS_FOLDERS

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> FileHandle:
        flags = (os.O_RDWR if writable else os.O_RDONLY) | (os.O_CREAT if create else 0)
        return OsFile(platform.open_file(platform.file_path(path), flags))

    def stat(self, path: str) -> FileStat:
        status = os.stat(platform.file_path(path))
        return FileStat(status.st_size, status.st_mtime_ns // 1_000_000, status.st_dev, status.st_nlink)

    def exists(self, path: str) -> bool:
        return os.path.exists(platform.file_path(path))

    def rename(self, source: str, target: str) -> None:
        os.replace(platform.file_path(source), platform.file_path(target))

    def remove(self, path: str) -> None:
        os.unlink(platform.file_path(path))

    def remove_tree(self, path: str) -> None:
        path = platform.file_path(path)
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    self.remove_tree(entry.path)
                else:
                    os.unlink(entry.path)
        os.rmdir(path)

    def make_directory(self, path: str) -> None:
        path = platform.file_path(path)
        try:
            os.mkdir(path)
        except FileNotFoundError:
            os.makedirs(path, exist_ok=True)
        except FileExistsError:
            pass

    def list_directory(self, path: str) -> list[str]:
        return os.listdir(platform.file_path(path))

    def list_folders(self, path: str) -> list[str]:
        with os.scandir(platform.file_path(path)) as entries:
            return [entry.name for entry in entries if entry.is_dir()]

    def sync_directory(self, path: str) -> None:
        platform.sync_directory(path)

    def sync_all(self, path: str) -> bool:
        return sync_file_system(path)

    def disk_usage(self, path: str) -> DiskUsage:
        return DiskUsage(*platform.disk_usage(path))

    def lock(self, path: str) -> FileLock:
        file = OsFileLock(platform.open_file(platform.file_path(path), os.O_RDWR | os.O_CREAT))
        platform.lock(file.fileno())
        return file


class DisposableFiles(OsFileSystem):
    """The file system of a broker which another broker of the process may replace.

    hasty: leave out syncs while one broker replaces another, which has to be quick. A power cut would then take a state
    that a test has asked for a moment ago.
    """

    def __init__(self) -> None:
        self.hasty = False
        self.refuses_writes = False  # as `fail_writes` says
        self._revoked = False

        class OwnFile(_File):  # for this broker alone: `fail_writes` exchanges a method
            __slots__ = ()

        self._new_file: type[_File] = OwnFile
        self._turn = threading.Lock()  # no call may be between its check of `_revoked` and the disk

    def revoke(self) -> None:
        """Refuse every call with a path for writing from now on."""
        with self._turn:
            self._revoked = True

    def _check(self) -> None:
        if self._revoked:
            raise OSError(errno.ESTALE, "another broker has the directory now")

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> FileHandle:
        flags = (os.O_RDWR if writable else os.O_RDONLY) | (os.O_CREAT if create else 0)
        with self._turn:
            self._check()
            return self._new_file(platform.open_file(platform.file_path(path), flags), self)

    def fail_writes(self, number: int) -> None:
        """Let every write to a file fail with this error from now on, as on a full or a broken disk; 0: no longer.

        The method itself is exchanged, so that an append asks nothing.
        """

        def fail(self: OsFile, data: Buffer, position: int) -> None:
            raise OSError(number, os.strerror(number))

        self.refuses_writes = bool(number)
        self._new_file.write_at = fail if number else OsFile.write_at  # type: ignore[method-assign]

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

    def sync_all(self, path: str) -> bool:
        return self.hasty or super().sync_all(path)


class _File(OsFile):
    __slots__ = ("_files",)

    def __init__(self, fd: int, files: DisposableFiles) -> None:
        super().__init__(fd)
        self._files = files

    def sync(self) -> None:
        if not self._files.hasty:
            super().sync()


def sync_file_system(path: str) -> bool:
    """Sync a whole file system (see `FileSystem.sync_all`)."""
    if sys.platform != "linux" or _kernel_release() < _FIRST_TO_REPORT:
        return False
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if file_system_type(os.fstat(fd).st_dev) not in _REPORT_ERRORS:
            return False
        import ctypes  # needed at the shutdown of many logs, not at every start

        syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
        if syncfs is None:
            return False
        if syncfs(fd):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)
        return True
    finally:
        os.close(fd)


def _kernel_release() -> tuple[int, ...]:
    """Return the first two numbers of the kernel's release."""
    if sys.platform == "win32":
        return ()
    numbers = os.uname().release.split(".")[:2]
    return tuple(int(number) if number.isdecimal() else 0 for number in numbers)


def file_system_type(device: int) -> str | None:
    """Return the system's name for the type of file system on a device, None if unknown."""
    if sys.platform == "win32":
        return None
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open(_MOUNTS, encoding="utf-8", errors="replace") as mounts:
            for line in mounts:
                fields = line.split()
                if fields[2] == wanted:
                    return fields[fields.index("-") + 1]
    except (OSError, ValueError, IndexError):
        pass
    return None


# -- files of segments, opened when they are needed


class FileCache:
    """At most `limit` open files, closed by second chance: a file used since the hand last passed stays open.

    writable: whether existing files are opened for writing too.
    """

    def __init__(self, fs: FileSystem, limit: int = 1024, *, writable: bool = True) -> None:
        self.fs = fs
        self.limit = limit
        self.writable = writable
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
            self.limit = max(_FEWEST_OPEN, count)
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
    """A file of a log under the current path.

    is_held: a reader comes back for parts of the file, which `own` leaves to the reader before bytes change.
    """

    __slots__ = ("_cache", "_handle", "is_held", "path", "recent")

    def __init__(self, cache: FileCache, path: str) -> None:
        self.path = path
        self.recent = True
        self.is_held = False
        self._cache = cache
        self._handle: FileHandle | None = None

    def handle(self) -> FileHandle:
        """Return the open file. Raises FileNotFoundError if there is no such file."""
        self.recent = True
        handle = self._handle
        return handle if handle is not None else self._open(create=False)

    def create(self) -> FileHandle:
        """Return the open file; a missing file is made."""
        handle = self._handle
        return handle if handle is not None else self._open(create=True)

    def _open(self, create: bool) -> FileHandle:
        cache = self._cache
        try:
            handle = cache.fs.open(self.path, create=create, writable=cache.writable)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not cache.give_way():
                raise
            handle = cache.fs.open(self.path, create=create, writable=cache.writable)
        cache.admit(self, handle)
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

    def free_path(self, suffix: str) -> str:
        """Return the path with a suffix, and with a number between them if another file, still read, has that path."""
        path, number = self.path + suffix, 1
        while self._cache.fs.exists(path):
            path, number = f"{self.path}.{number}{suffix}", number + 1
        return path

    def rename(self, path: str) -> None:
        """Rename the file on disk; the open handle stays good. A missing file only gets the new path."""
        with contextlib.suppress(FileNotFoundError):
            self._cache.fs.rename(self.path, path)
        self.path = path

    def own(self) -> None:
        """Replace the file, if there is one, by a copy, before written bytes change under a snapshot or a reader."""
        fs, temporary = self._cache.fs, self.path + ".tmp"
        try:
            is_shared = self.is_held or fs.stat(self.path).links > 1
            old = self.handle() if is_shared else None
        except FileNotFoundError:
            return
        if old is None:
            return
        new = fs.open(temporary, create=True)
        new.truncate(0)
        copy_from(old, 0, new)
        self.close()
        fs.rename(temporary, self.path)
        self.is_held = False

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
