"""A broker as it would be on another system: `python tests/elsewhere.py windows [options of the broker]`.

Rule: what that system's Python lacks is taken away before anything else is imported, so that a call that nobody guards
fails here as it would there. That the rest of Windows is other than Linux (its files) is `tests/log/windows_files.py`.
"""

from __future__ import annotations

import importlib
import os
import select
import signal
import socket
import sys
from types import ModuleType

LACKING = {
    "macos": {
        os: "posix_fallocate fdatasync copy_file_range memfd_create eventfd eventfd_read eventfd_write pipe2",
        select: "epoll",
        socket: "MSG_MORE",
    },
    "windows": {
        os: "posix_fallocate fdatasync copy_file_range memfd_create eventfd eventfd_read eventfd_write pipe2 "
        "pread pwrite preadv pwritev sendfile O_DIRECTORY O_CLOEXEC statvfs fstatvfs nice uname getuid geteuid getgid "
        "fork forkpty killpg getpgid setsid fchmod fchown chown sched_getaffinity sched_setaffinity sync mkfifo",
        select: "epoll poll",
        socket: "MSG_MORE SO_REUSEPORT",
        signal: "SIGHUP SIGKILL SIGVTALRM SIGUSR1 SIGUSR2 setitimer getitimer ITIMER_VIRTUAL alarm pthread_kill",
    },
}
MODULES = {"macos": (), "windows": ("fcntl", "resource", "grp", "pwd", "termios", "tty")}


def become(system: str) -> None:
    """Take away what Python does not have there."""
    for module, names in LACKING[system].items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    for name in MODULES[system]:
        sys.modules[name] = None  # type: ignore[assignment]  # to import it fails


def windows_runtime() -> ModuleType:
    """msvcrt, so far as it locks files; the lock is Linux's."""
    import fcntl

    found = ModuleType("msvcrt")
    found.LK_NBLCK, found.LK_UNLCK = 2, 0  # type: ignore[attr-defined]

    def locking(fd: int, mode: int, length: int) -> None:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB if mode == 2 else fcntl.LOCK_UN, length)

    found.locking = locking  # type: ignore[attr-defined]
    return found


def main() -> int:
    system, arguments = sys.argv[1], sys.argv[2:]
    importlib.import_module("subprocess")  # which is Linux's here and needs them
    if system == "windows":
        sys.modules["msvcrt"] = windows_runtime()
    become(system)
    from pykafka_broker.cli import main as broker

    return broker(arguments)


if __name__ == "__main__":
    sys.exit(main())
