"""A broker as it would be on another system: `python tests/elsewhere.py windows [arguments of pykafka-broker]`.

Rule: what that system's Python lacks is taken away before anything else is imported, so that a call that nobody guards
fails here as it would there. What Windows does in another way is done in that way: a folder with an open file in it is
not renamed, an open file is not replaced, a path of more than 259 characters is marked as one, a lock holds against the
same process, a signal does not end the wait for sockets, the clock moves in steps of 15.6 ms, asyncio's own loop has no
readers, and text is in code page 1252. Only Linux can play another system.
"""

from __future__ import annotations

import asyncio
import builtins
import errno
import fcntl
import importlib
import os
import select
import selectors
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

LACKING = {
    "macos": {
        os: "posix_fallocate fdatasync copy_file_range memfd_create eventfd eventfd_read eventfd_write pipe2",
        select: "epoll",
        selectors: "EpollSelector",
        socket: "MSG_MORE",
    },
    "windows": {
        os: "posix_fallocate fdatasync copy_file_range memfd_create eventfd eventfd_read eventfd_write pipe2 "
        "pread pwrite preadv pwritev sendfile O_DIRECTORY O_CLOEXEC statvfs fstatvfs nice uname getuid geteuid getgid "
        "fork forkpty killpg getpgid setsid fchmod fchown chown sched_getaffinity sched_setaffinity sync mkfifo",
        select: "epoll poll",
        selectors: "EpollSelector PollSelector DevpollSelector KqueueSelector",
        socket: "MSG_MORE SO_REUSEPORT",
        signal: "SIGHUP SIGKILL SIGVTALRM SIGUSR1 SIGUSR2 setitimer getitimer ITIMER_VIRTUAL alarm pthread_kill",
    },
}
MODULES = {"macos": (), "windows": ("fcntl", "resource", "grp", "pwd", "termios", "tty")}
STEP_S = 1 / 64  # of Windows' clocks


def become(system: str) -> None:
    """Take away what Python lacks on that system."""
    for module, names in LACKING[system].items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    for name in MODULES[system]:
        sys.modules[name] = None  # type: ignore[assignment]  # to import it fails


# -- what Windows does in its own way


def do_as_windows() -> None:
    sys.modules["msvcrt"] = windows_runtime()
    hold_folders()
    limit_paths()
    wait_through_signals()
    move_clocks_in_steps()
    selectors.DefaultSelector = selectors.SelectSelector  # type: ignore[misc, assignment]
    asyncio.events.new_event_loop = Proactor
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        stream.reconfigure(encoding="cp1252", errors="strict")  # type: ignore[union-attr]
    open_text = builtins.open

    def open_in_code_page(file: Any, mode: str = "r", buffering: int = -1, encoding: Any = None, *more: Any) -> Any:
        return open_text(file, mode, buffering, encoding if encoding or "b" in mode else "cp1252", *more)

    builtins.open = open_in_code_page  # type: ignore[assignment]


def windows_runtime() -> ModuleType:
    """Return a module msvcrt that can lock files."""
    found = ModuleType("msvcrt")
    found.LK_NBLCK, found.LK_UNLCK = 2, 0  # type: ignore[attr-defined]

    def locking(fd: int, mode: int, length: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB if mode == 2 else fcntl.LOCK_UN)

    found.locking = locking  # type: ignore[attr-defined]
    return found


def hold_folders() -> None:
    replace = os.replace

    def checked(source: Any, target: Any) -> None:
        opened = open_paths()
        if os.path.isdir(source):
            refuse(source, any(each.startswith(f"{os.path.realpath(source)}/") for each in opened))
        elif os.path.exists(target) and not os.path.samefile(source, target):
            refuse(target, os.path.realpath(target) in opened)
        replace(source, target)

    def renamed(source: Any, target: Any) -> None:
        if os.path.exists(target):
            raise FileExistsError(errno.EEXIST, "Cannot create a file when that file already exists", target)
        checked(source, target)

    os.replace, os.rename = checked, renamed  # type: ignore[assignment]


def open_paths() -> set[str]:
    """Return the paths of the files that this process has open."""
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        try:
            found.add(os.readlink(f"/proc/self/fd/{fd}"))
        except FileNotFoundError:  # the descriptor of the listing itself
            continue
    return found


def refuse(path: Any, is_open: bool) -> None:
    if is_open:
        error = PermissionError(errno.EACCES, "The process cannot access the file because it is being used", path)
        error.winerror = 32  # type: ignore[attr-defined]
        raise error


MARK = "\\\\?\\"  # before a path that Windows takes as it is
LONGEST_PATH = 259


def limit_paths() -> None:
    """Refuse long paths without the mark. Entries of a folder with the mark have the mark too."""
    for name in ("open", "stat", "lstat", "mkdir", "rmdir", "listdir", "unlink", "remove", "utime", "chmod"):
        setattr(os, name, limited(getattr(os, name), paths=1))
    for name in ("replace", "rename", "link"):
        setattr(os, name, limited(getattr(os, name), paths=2))
    builtins.open = limited(builtins.open, paths=1)
    os.scandir = MarkedEntries  # type: ignore[assignment]


def limited(call: Callable[..., Any], paths: int) -> Callable[..., Any]:
    return lambda *given, **more: call(*map(unmarked, given[:paths]), *given[paths:], **more)


def unmarked(path: Any) -> Any:
    """Return the path without Windows' mark; raise an error for a long path that has no mark."""
    if isinstance(path, int):
        return path
    text = os.fsdecode(path)
    if text.startswith(MARK):
        return text.removeprefix(MARK)
    if len(os.path.join(os.getcwd(), text)) > LONGEST_PATH:
        error = FileNotFoundError(errno.ENOENT, "The system cannot find the path specified", path)
        error.winerror = 3  # type: ignore[attr-defined]
        raise error
    return path


scan = os.scandir


class MarkedEntries:
    def __init__(self, path: Any = ".") -> None:
        self.mark = MARK if isinstance(path, str) and path.startswith(MARK) else ""
        self.entries = scan(unmarked(path))

    def __enter__(self) -> MarkedEntries:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> MarkedEntries:
        return self

    def __next__(self) -> MarkedEntry:
        return MarkedEntry(next(self.entries), self.mark)

    def close(self) -> None:
        self.entries.close()


class MarkedEntry:
    def __init__(self, entry: os.DirEntry[str], mark: str) -> None:
        self.path = mark + entry.path
        self.entry = entry

    def __fspath__(self) -> str:
        return self.path

    def __getattr__(self, name: str) -> Any:
        return getattr(self.entry, name)


def wait_through_signals() -> None:
    """Send signals to a separate thread, so that they do not end a wait of the main thread."""
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})


def move_clocks_in_steps() -> None:
    def stepping(clock: Callable[[], float]) -> Callable[[], float]:
        return lambda: clock() // STEP_S * STEP_S

    time.monotonic, time.time = stepping(time.monotonic), stepping(time.time)
    info = time.get_clock_info

    def told(name: Any) -> Any:
        found = info(name)
        found.resolution = STEP_S
        return found

    time.get_clock_info = told


class Proactor(asyncio.SelectorEventLoop):
    """An event loop that lacks what asyncio's loop of Windows lacks."""

    def __init__(self) -> None:
        super().__init__()
        for name in ("add_reader", "add_writer", "remove_reader", "remove_writer", "add_signal_handler"):
            setattr(self, name, self._lacks)

    def _lacks(self, *_: Any) -> None:
        raise NotImplementedError


def main() -> int:
    system, arguments = sys.argv[1], sys.argv[2:]
    importlib.import_module("subprocess")  # which is Linux's here and needs them
    selectors.DefaultSelector = selectors.PollSelector  # type: ignore[misc, assignment]
    if system == "windows":
        do_as_windows()
    become(system)
    from pykafka_broker import platform

    platform.HOLDS_FOLDERS = system == "windows"
    if system == "windows":
        platform.file_path = platform._extended
    from pykafka_broker.cli import main as broker

    return broker(arguments)


if __name__ == "__main__":
    sys.exit(main())
