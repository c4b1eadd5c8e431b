"""Syncing a whole file system with one system call (`syncfs` of Linux).

Rule: the call is only made where it reports the error of any file written before: on Linux from 5.8 on, and on file
systems that are known to do so. On others, as on the overlay of a container, a failed disk would go unnoticed.

Apart from `filesystem`, its only reader: `ctypes` is imported at the shutdown of many logs, not at every start.
"""

from __future__ import annotations

import ctypes
import os
import sys

_FIRST_TO_TELL = (5, 8)
_TELL_OF_ERRORS = frozenset({"ext4", "xfs"})
_MOUNTS = "/proc/self/mountinfo"


def sync_all(path: str) -> bool:
    """See `FileSystem.sync_all`."""
    if sys.platform != "linux" or _release() < _FIRST_TO_TELL:
        return False
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if file_system_type(os.fstat(fd).st_dev) not in _TELL_OF_ERRORS:
            return False
        syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
        if syncfs is None:
            return False
        if syncfs(fd):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)
        return True
    finally:
        os.close(fd)


def _release() -> tuple[int, ...]:
    """The first two numbers of the kernel's release."""
    numbers = os.uname().release.split(".")[:2]
    return tuple(int(number) if number.isdecimal() else 0 for number in numbers)


def file_system_type(device: int) -> str | None:
    """As the system calls it, None if that can't be told."""
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
