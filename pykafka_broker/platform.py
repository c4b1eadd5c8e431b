"""Functions that not every operating system has.

Rule: a call, a flag or a module that Linux, macOS or Windows lacks is used here and nowhere else. Where it is missing,
a plainer way does the same, or nothing is done and the docstring says what that costs. The differences in waiting for
sockets are in `server/event_loop.py`.

Windows: an open file may be renamed and removed, as on other systems; a directory with an open file may not.
"""

from __future__ import annotations

import errno
import io
import mmap
import os
import select
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Protocol

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]
try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_WINDOWS = sys.platform == "win32"
HOLDS_FOLDERS = _WINDOWS  # a folder can't be renamed while a file in it is open

# -- sockets

# Whether a listener needs SO_REUSEADDR to follow another one that has had clients. On Windows it does not, and with the
# option two brokers would listen on the same port.
NEEDS_REUSEADDR = not _WINDOWS
# Whether two sockets may be bound to a port while one listens at most; elsewhere the second one is refused.
SHARES_BOUND_PORTS = sys.platform == "linux"
# Connections of Kafka's clients: Windows' `select` takes 512 sockets, and links and the other listeners need some.
MOST_CONNECTIONS = 384 if _WINDOWS else (1 << 31) - 1
MORE: int = getattr(socket, "MSG_MORE", 0)  # more follows: a file is sent in one packet with its header
SEND_FILE: Callable[[int, int, int, int], int] | None = getattr(os, "sendfile", None)


def has_gone(sock: socket.socket) -> bool:
    """Return whether the client has closed its end; without Linux only if no unread bytes of the client are left."""
    if sys.platform == "linux":
        poll = select.poll()
        poll.register(sock, select.POLLRDHUP)
        return bool(poll.poll(0))
    try:
        return not sock.recv(1, socket.MSG_PEEK)
    except (BlockingIOError, InterruptedError):
        return False
    except OSError:
        return True


# -- signals

# Signals to end a broker in an orderly way.
STOP_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGBREAK") if hasattr(signal, name)
)
# Signal that `pykafka-broker cluster` takes to start ended nodes again; Windows has none for it.
START_SIGNAL: signal.Signals | None = getattr(signal, "SIGUSR1", None)
# Signals to another process: STOP ends it in an orderly way, KILL at once. Windows has no other orderly signal.
STOP: int = getattr(signal, "CTRL_BREAK_EVENT", signal.SIGTERM)
KILL: int = getattr(signal, "SIGKILL", signal.SIGTERM)
# Arguments of subprocess.Popen, so that Ctrl-C at the terminal reaches the parent alone.
PROCESS_GROUP: int | None = None if _WINDOWS else 0
CREATION_FLAGS: int = 0x200 if _WINDOWS else 0  # a new process group
HAS_CPU_TIMER = hasattr(signal, "setitimer") and hasattr(signal, "SIGVTALRM")


class _Child(Protocol):
    """A child of this process, as `subprocess.Popen`."""

    @property
    def pid(self) -> int: ...

    def send_signal(self, number: int, /) -> None: ...


def suspend(child: _Child) -> None:
    """Let a child stand still, between two of its instructions, until `resume`."""
    if sys.platform == "win32":
        _tell_process("NtSuspendProcess", child.pid)
    else:
        child.send_signal(signal.SIGSTOP)
        os.waitpid(child.pid, os.WUNTRACED)


def resume(child: _Child) -> None:
    """Let a child go on after `suspend`."""
    if sys.platform == "win32":
        _tell_process("NtResumeProcess", child.pid)
    else:
        child.send_signal(signal.SIGCONT)


def _tell_process(call: str, pid: int) -> None:
    """Make a call of Windows' own library with the handle of a process."""
    if sys.platform != "win32":
        raise NotImplementedError
    import ctypes

    kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    kernel.OpenProcess.restype = ctypes.c_void_p
    suspend_resume = 0x0800
    handle = kernel.OpenProcess(suspend_resume, False, pid)
    if not handle:
        code = ctypes.get_last_error()
        raise OSError(None, ctypes.FormatError(code), None, code)
    try:
        status: int = getattr(ctypes.WinDLL("ntdll"), call)(ctypes.c_void_p(handle))
    finally:
        kernel.CloseHandle(ctypes.c_void_p(handle))
    if status:
        raise OSError(errno.EPERM, f"{call} answers {status & 0xFFFFFFFF:#x}")


# -- paths

_EXTENDED = "\\\\?\\"


def _extended(path: str, paths: ModuleType = os.path) -> str:
    """Return the path in the form that Windows takes as it is: of any length, and with names like `con.orders`."""
    if path.startswith(_EXTENDED):
        return path.replace("/", paths.sep)
    drive, rest = paths.splitdrive(path)
    # `abspath` would ask Windows, which takes `con.orders` for the console.
    whole: str = paths.normpath(path) if drive and rest[:1] in ("/", "\\") else paths.abspath(path)
    return f"{_EXTENDED}UNC{whole[1:]}" if whole.startswith("\\\\") else f"{_EXTENDED}{whole}"


def _same(path: str) -> str:
    return path


# Return the path of a file or folder of a log as the system's calls want it. On Windows these take no more than 260
# characters of any other form, unless a setting of the machine allows it.
file_path: Callable[[str], str] = _extended if _WINDOWS else _same


# -- descriptors

_OPENED = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOINHERIT", 0)


def open_file(path: str, flags: int, mode: int = 0o644) -> int:
    """Open a file, and return a descriptor closed to other programs."""
    if sys.platform == "win32":
        return _open_shared(path, flags)
    return os.open(path, flags | _OPENED, mode)


def _open_shared(path: str, flags: int) -> int:
    """Open a file on Windows for reading and writing, with renames and removals allowed (FILE_SHARE_DELETE)."""
    if sys.platform != "win32":
        raise NotImplementedError
    import ctypes
    import msvcrt

    read, write, share_all, normal = 0x80000000, 0x40000000, 0x7, 0x80
    access = read | (write if flags & os.O_RDWR else 0)
    open_always, open_existing = 4, 3
    kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    create = kernel.CreateFileW
    number, pointer = ctypes.c_uint32, ctypes.c_void_p
    create.argtypes = [ctypes.c_wchar_p, number, number, pointer, number, number, pointer]
    create.restype = ctypes.c_void_p
    how = open_always if flags & os.O_CREAT else open_existing
    handle = create(path, access, share_all, None, how, normal, None)
    if handle in (None, ctypes.c_void_p(-1).value):
        code = ctypes.get_last_error()
        raise OSError(None, ctypes.FormatError(code), path, code)
    try:
        return int(msvcrt.open_osfhandle(handle, flags | _OPENED))
    except OSError:
        kernel.CloseHandle(ctypes.c_void_p(handle))
        raise


_seeking = threading.Lock()


def _seek_and_read(fd: int, length: int, position: int) -> bytes:
    with _seeking:
        os.lseek(fd, position, os.SEEK_SET)
        return os.read(fd, length)


def _seek_and_write(fd: int, data: bytes | bytearray | memoryview, position: int) -> int:
    with _seeking:
        os.lseek(fd, position, os.SEEK_SET)
        return os.write(fd, data)


read_at: Callable[[int, int, int], bytes] = getattr(os, "pread", _seek_and_read)
write_at: Callable[[int, bytes | bytearray | memoryview, int], int] = getattr(os, "pwrite", _seek_and_write)


def allocate(fd: int, size: int) -> None:
    """Make the file at least `size` bytes long.

    Where the system can't reserve room on the disk, only the length of the file changes.
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, size)
    elif os.fstat(fd).st_size < size:
        os.ftruncate(fd, size)


def sync_data(fd: int) -> None:
    """Make written data outlive a power cut."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if sys.platform != "win32" and full is not None:  # macOS: fsync leaves the data in the disk's own cache
        try:
            fcntl.fcntl(fd, full)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
                raise
    getattr(os, "fdatasync", os.fsync)(fd)


def sync_directory(path: str) -> None:
    """Make creations, renames and removals outlive a power cut; Windows needs no call."""
    if _WINDOWS or not hasattr(os, "O_DIRECTORY"):
        return
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _OPENED)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def lock(fd: int) -> None:
    """Lock a file exclusively until `unlock` or the end of the process. Raises BlockingIOError for a locked file."""
    if sys.platform == "win32" or fcntl is None:
        import msvcrt

        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, unused-ignore]
        except OSError as error:
            raise BlockingIOError(errno.EAGAIN, "another process has locked it") from error
        return
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def unlock(fd: int) -> None:
    """Release a lock."""
    if sys.platform == "win32" or fcntl is None:
        import msvcrt

        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)  # type: ignore[attr-defined, unused-ignore]
        return
    fcntl.lockf(fd, fcntl.LOCK_UN)


# -- text


def speak_utf8() -> None:
    """Make standard streams UTF-8 that have a code page of Windows, which lacks most letters of names and records.

    PYTHONIOENCODING is obeyed. A console takes every letter anyway.
    """
    if "PYTHONIOENCODING" in os.environ:
        return
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower().startswith("cp"):
            stream.reconfigure(encoding="utf-8", errors=stream.errors)


# -- the machine


def disk_usage(path: str) -> tuple[int, int]:
    """Return the size of a disk in bytes, and the bytes free for the process."""
    if hasattr(os, "statvfs"):
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize
    usage = shutil.disk_usage(file_path(path))
    return usage.total, usage.free


MEMORY_DISK = "/dev/shm"
_ROOM_IN_MEMORY = 1 << 30


def memory_directory() -> str | None:
    """Return a directory whose files are in memory, with room for some hundreds of logs; None without one."""
    try:
        return MEMORY_DISK if disk_usage(MEMORY_DISK)[1] >= _ROOM_IN_MEMORY else None
    except OSError:
        return None


def unused_memory(size: int) -> memoryview:
    """Return zeros that take memory only once they are used, and are no other process's after a fork."""
    if sys.platform == "win32":
        return memoryview(mmap.mmap(-1, size))
    return memoryview(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANON))


def open_files_limit() -> int | None:
    """Return how many descriptors the process may have, or None without a limit."""
    if sys.platform == "win32" or resource is None:
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def give_way(niceness: int) -> None:
    """Let other processes go first, where the system allows."""
    if hasattr(os, "nice"):
        os.nice(niceness)
