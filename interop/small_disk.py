"""A disk of some megabytes that a test can fill.

Rule: the disk is a tmpfs, which takes the right to mount. Without that right a test fails and says what to do: a
promise that was not checked must not look kept.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

NO_MOUNT = "a tmpfs could not be mounted ({}): run as root, or under `unshare --user --map-root-user --mount`"


@contextmanager
def small_disk(mount: Path, size_mb: int) -> Iterator[Path]:
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", str(mount)]
    done = subprocess.run(command, capture_output=True, text=True, check=False) if shutil.which("mount") else None
    if done is None or done.returncode:
        pytest.fail(NO_MOUNT.format(done.stderr.strip() if done else "there is no mount command"))
    try:
        yield mount
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=False)


def use_up(disk: Path) -> Path:
    """Fill the disk to the last byte; return the file whose removal frees the room again."""
    rest = disk / f"rest-{len(list(disk.glob('rest-*')))}"
    with rest.open("wb", buffering=0) as file, suppress(OSError):
        os.posix_fallocate(file.fileno(), 0, max(1, shutil.disk_usage(disk).free - 65_536))
        file.seek(0, os.SEEK_END)
        while True:
            file.write(bytes(512))
    return rest


def enlarge(disk: Path, size_mb: int) -> None:
    """Enlarge the disk, as an operator would; its files stay."""
    subprocess.run(["mount", "-o", f"remount,size={size_mb}m", str(disk)], check=True)
